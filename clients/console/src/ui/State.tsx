// How a call is, in a word and a sign.

import type { JSX } from "preact";
import { reason } from "../call";
import { CallState, FailureReason } from "../gen/toolgate/v1/call_pb";

const WORDS: Record<CallState, [word: string, sign: string, look: string]> = {
  [CallState.UNSPECIFIED]: ["unknown", "?", "idle"],
  [CallState.PENDING]: ["queued", "…", "idle"],
  [CallState.RUNNING]: ["running", "▶", "run"],
  [CallState.WAITING]: ["waiting", "‖", "warn"],
  [CallState.COMPLETED]: ["completed", "✓", "good"],
  [CallState.FAILED]: ["failed", "✕", "bad"],
};

/** Says it in words. */
export function stateWords(state: CallState, why: FailureReason): string {
  const [word] = WORDS[state] ?? WORDS[CallState.UNSPECIFIED];
  return state === CallState.FAILED && why !== FailureReason.UNSPECIFIED ? reason(why) : word;
}

/** Shows it. */
export function State({ state, why }: { state: CallState; why: FailureReason }): JSX.Element {
  const [, sign, look] = WORDS[state] ?? WORDS[CallState.UNSPECIFIED];
  return (
    <span class={`tag ${look}`}>
      <span aria-hidden="true">{sign}</span> {stateWords(state, why)}
    </span>
  );
}
