// Calls that are taken back, each by a call of its own.

import { signal } from "@preact/signals";
import { problem, tools } from "./api";
import { announce } from "./notices";
import { OnDisconnect, type Call } from "./gen/toolgate/v1/call_pb";

/** What became of taking a call back. */
export interface Reverting {
  state: "runs" | "done" | "failed";
  /** The call that takes it back. */
  callId: string;
  /** Why it failed. */
  wrong: string;
}

const all = signal<ReadonlyMap<string, Reverting>>(new Map());

/** Returns what became of taking a call back from this tab; nothing if nobody has tried. */
export const reverting = (callId: string): Reverting | undefined => all.value.get(callId);

/** Takes back what a call did to files, for which somebody may have to be asked; with `merge` without what was changed since. */
export async function revert({ callId: id, context }: Call, merge: boolean): Promise<void> {
  const callId = crypto.randomUUID();
  const set = (state: Reverting["state"], wrong = ""): void => {
    all.value = new Map(all.value).set(id, { state, callId, wrong });
  };
  set("runs");
  try {
    const request = {
      context: {
        sessionId: context?.sessionId ?? "",
        agent: context?.agent ?? "",
        clientName: "toolgate-console",
      },
      callId: id,
      revertCallId: callId,
      merge,
      onDisconnect: OnDisconnect.KEEP,
    };
    for await (const { event } of tools.revertCall(request)) {
      if (event?.event.case === "completed") {
        set("done");
        announce("Reverted.");
      }
      if (event?.event.case === "failed") set("failed", event.event.value.error);
    }
    if (all.value.get(id)?.state === "runs")
      set("failed", "The connection was lost: the call that reverts it goes on.");
  } catch (error) {
    set("failed", problem(error));
  }
}
