// How a call is, in a word and a sign.

import type { JSX } from "preact";
import { reason as because } from "../calls";
import { CallState, FailureReason } from "../gen/toolgate/v1/call_pb";

const WORDS: Record<CallState, [word: string, sign: string, look: string]> = {
  [CallState.UNSPECIFIED]: ["unknown", "?", "idle"],
  [CallState.PENDING]: ["queued", "…", "idle"],
  [CallState.RUNNING]: ["running", "▶", "run"],
  [CallState.WAITING]: ["waiting", "‖", "warn"],
  [CallState.COMPLETED]: ["completed", "✓", "good"],
  [CallState.FAILED]: ["failed", "✕", "bad"],
};

/** What is said of a call: `outcome` is what is unusual about its result, or empty. */
interface How {
  state: CallState;
  reason: FailureReason;
  outcome: string;
}

/** Says it in words. */
export function stateWords({ state, reason, outcome }: How): string {
  if (outcome !== "") return outcome;
  const [word] = WORDS[state] ?? WORDS[CallState.UNSPECIFIED];
  return state === CallState.FAILED && reason !== FailureReason.UNSPECIFIED ? because(reason) : word;
}

/** Shows it. */
export function State({ state, reason, outcome }: How): JSX.Element {
  const [, sign, look] = outcome === "" ? (WORDS[state] ?? WORDS[CallState.UNSPECIFIED]) : ["", "!", "warn"];
  return (
    <span class={`tag ${look}`}>
      <span aria-hidden="true">{sign}</span> {stateWords({ state, reason, outcome })}
    </span>
  );
}
