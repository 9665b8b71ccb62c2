// The ports that the person has opened from this tab, each kept open by a call of its own.

import { signal } from "@preact/signals";
import { ports, problem, tools } from "./api";
import { hasEnded, row, take } from "./calls";
import { announce } from "./notices";
import { type Call, Unattended } from "./gen/toolgate/v1/call_pb";

/** A port that is being opened, or is open. */
export interface OpenedPort {
  /** The call that keeps it open. */
  callId: string;
  /** Where a browser finds it; empty until somebody has allowed it. */
  path: string;
}

const opened = signal<ReadonlyMap<string, OpenedPort>>(new Map());

const keyOf = (call: Call, port: number): string => `${port} ${call.callId}`;

/** Returns a port of a call if it is open, or about to be. */
export function openedPort(call: Call, port: number): OpenedPort | undefined {
  const known = opened.value.get(keyOf(call, port));
  const keeper = known && row(known.callId);
  return keeper !== undefined && hasEnded(keeper.state) ? undefined : known;
}

/** Opens a port that programs of a call listen on, for which somebody may have to be asked. Returns what is wrong, or nothing. */
export async function openPort(call: Call, port: number): Promise<string | undefined> {
  const key = keyOf(call, port);
  const callId = crypto.randomUUID();
  set(key, { callId, path: "" });
  try {
    const { httpPath } = await ports.openPort({
      call: {
        context: {
          sessionId: call.context?.sessionId ?? "",
          agent: call.context?.agent ?? "",
          clientName: "toolgate-console",
        },
        callId,
        unattended: Unattended.WAIT,
      },
      targetCallId: call.callId,
      port,
    });
    set(key, { callId, path: httpPath });
    announce(`Port ${port} is open.`);
    return undefined;
  } catch (error) {
    set(key, undefined);
    return problem(error);
  }
}

/** Closes it, or gives up opening it. */
export async function closePort({ callId }: OpenedPort): Promise<void> {
  try {
    const { call } = await tools.cancelCall({ callId });
    if (call !== undefined) take(call);
    announce("Closed.");
  } catch (error) {
    announce(problem(error));
  }
}

function set(key: string, port: OpenedPort | undefined): void {
  const all = new Map(opened.value);
  if (port === undefined) all.delete(key);
  else all.set(key, port);
  opened.value = all;
}
