// The ports that the person has opened from this tab, each kept open by a call of its own.

import { signal } from "@preact/signals";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { problem, tools, transport } from "./api";
import { hasEnded, row, take, version } from "./calls";
import { announce } from "./notices";
import { type Call, Unattended } from "./gen/toolgate/v1/call_pb";
import { PortService } from "./gen/toolgate/v1/port_service_pb";

const ports = createClient(PortService, transport);

/** A port that is being opened, is open, or could not be opened. */
export interface OpenedPort {
  state: "opening" | "open" | "refused";
  /** The call that keeps it open. */
  callId: string;
  /** Of one that is open: where a browser finds it. */
  path: string;
  /** Of one that was refused: why. */
  wrong: string;
}

const opened = signal<ReadonlyMap<string, OpenedPort>>(new Map());

const keyOf = (call: Call, port: number): string => `${port} ${call.callId}`;

/** Returns what became of a port of a call; nothing if nobody has opened it, or it was closed. */
export function openedPort(call: Call, port: number): OpenedPort | undefined {
  void version.value;
  const known = opened.value.get(keyOf(call, port));
  const keeper = known && row(known.callId);
  return known?.state === "open" && keeper !== undefined && hasEnded(keeper.state) ? undefined : known;
}

/** Opens a port that programs of a call listen on, for which somebody may have to be asked. */
export async function openPort(call: Call, port: number): Promise<void> {
  const key = keyOf(call, port);
  const callId = crypto.randomUUID();
  set(key, { state: "opening", callId, path: "", wrong: "" });
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
      callId: call.callId,
      port,
    });
    set(key, { state: "open", callId, path: httpPath, wrong: "" });
    announce(`Port ${port} is open.`);
  } catch (error) {
    const isGivenUp = ConnectError.from(error).code === Code.Canceled;
    set(key, isGivenUp ? undefined : { state: "refused", callId, path: "", wrong: problem(error) });
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
