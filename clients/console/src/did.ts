// What a call did, in the words and texts that stand at its head.

import { millis } from "./api";
import type { Decided } from "./call";
import { outcome, reason } from "./calls";
import { objectOf } from "./input";
import { duration, short } from "./text";
import type { Call } from "./gen/toolgate/v1/call_pb";
import { PromptDecision, PromptState } from "./gen/toolgate/v1/prompt_pb";
import { CallOutcome, FileAction, type FileResult } from "./gen/toolgate/v1/result_pb";

/** The tools whose input is a command. */
const SHELLS: ReadonlySet<string> = new Set(["bash", "background"]);

/** Returns the command that a call runs, whole; empty if it runs none. */
export function commandOf(call: Call): string {
  if (!SHELLS.has(call.tool)) return "";
  const { command } = objectOf(call.inputJson);
  return typeof command === "string" ? command : call.summary;
}

/** A file that a call changed. */
export interface Changed {
  path: string;
  /** What was done to it. */
  words: string;
  added: number | undefined;
  removed: number | undefined;
  /** The change, if it is kept; else empty. */
  diff: string;
}

const WORDS: Record<FileAction, string> = {
  [FileAction.UNSPECIFIED]: "changed",
  [FileAction.ADDED]: "new",
  [FileAction.MODIFIED]: "changed",
  [FileAction.DELETED]: "deleted",
  [FileAction.MOVED]: "moved",
};

/** Returns the files that a call changed, as its result tells; of a call without a result, as they were recorded. */
export function changedBy(call: Call): Changed[] {
  if (call.ending.case === "completed" && call.ending.value.result.case === "files") {
    return call.ending.value.result.value.files.map(fromResult);
  }
  return call.changes.map(({ path, before, after }) => ({
    path,
    words: before === undefined ? "new" : after === undefined ? "deleted" : "changed",
    added: undefined,
    removed: undefined,
    diff: "",
  }));
}

function fromResult({ path, action, movedTo, addedLines, removedLines, diff }: FileResult): Changed {
  return {
    path: movedTo === "" ? path : `${path} → ${movedTo}`,
    words: WORDS[action] ?? "changed",
    added: Number(addedLines),
    removed: Number(removedLines),
    diff: diff ?? "",
  };
}

/** Says how a call went: how it ended, how long it took, who was asked. */
export function wentHow(call: Call, decided: readonly Decided[], now: number, created: number): string[] {
  const ending = call.ending.value;
  const timing = ending?.timing;
  const waited = millis(timing?.waited);
  return [
    endOf(call),
    timing === undefined ? `began ${duration(now - created)} ago` : `took ${duration(millis(timing.ran))}`,
    waited > 0 ? `waited ${duration(waited)} for people` : "",
    ...(decided.length > 0 ? decided.map(saidBy) : call.ending.case === "completed" ? ["nobody had to be asked"] : []),
  ].filter((part) => part !== "");
}

function endOf(call: Call): string {
  if (call.ending.case === "failed") return reason(call.ending.value.reason);
  if (call.ending.case !== "completed") return "";
  const { result } = call.ending.value;
  if (result.case === "command" && result.value.exitCode === 0) return "exit 0";
  if (call.ending.value.outcome === CallOutcome.OK) return "";
  return outcome(call.ending.value);
}

const SAID: Partial<Record<PromptDecision, string>> = {
  [PromptDecision.ONCE]: "allowed once",
  [PromptDecision.ALWAYS]: "allowed from now on",
  [PromptDecision.REJECT]: "rejected",
  [PromptDecision.ANSWER]: "answered",
  [PromptDecision.INSTEAD]: "allowed with another input",
};

/** Says what became of a prompt, and who decided. */
export function saidBy({ permission, state, decision, by }: Decided): string {
  const what = permission === "" ? "" : `${short(permission, 40)} `;
  if (state !== PromptState.RESOLVED) return `${what}${(PromptState[state] ?? "ended").toLowerCase()}`;
  return `${what}${SAID[decision] ?? "settled"}${by === "" ? "" : ` by ${short(by, 80)}`}`;
}
