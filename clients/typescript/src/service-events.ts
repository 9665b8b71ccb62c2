/** What happens in workspaces: calls, files, prompts, todos, tools, ports. */
import type { Event } from "./gen/toolgate/v1/session_service_pb.js";
import type { Link } from "./link.js";
import { date } from "./time.js";

/** Which events to watch. */
export interface EventsOptions {
  /** The workspace; the service's default one if left out, `-` for all. */
  readonly workspace?: string | undefined;
  /** The session; all by default. */
  readonly session?: string | undefined;
  /** Events after this number; 0 for all that are kept. By default only what happens from now on. */
  readonly after?: number | undefined;
  /** Whether to go on by itself after a lost connection; true by default. */
  readonly reconnect?: boolean | undefined;
  /** Called when the stream is open, again after each reconnection. */
  readonly onOpen?: (() => void) | undefined;
  /** Ends the watching. */
  readonly signal?: AbortSignal | undefined;
}

type Kinds = Exclude<Event["event"], { case: undefined } | { case: "heartbeat" }>;

interface ServiceEventBase {
  /** Ascends over all workspaces. */
  readonly sequence: number;
  /** When it happened. */
  readonly time: Date | undefined;
  /** Where. */
  readonly workspace: string;
  /** In which session; empty if it concerns all. */
  readonly sessionId: string;
  /** The message of the contract. */
  readonly message: Event;
}

/** Something that happened; `type` says what, `value` has the particulars. */
export type ServiceEvent = {
  [Kind in Kinds["case"]]: ServiceEventBase & {
    readonly type: Kind;
    readonly value: Extract<Kinds, { case: Kind }>["value"];
  };
}[Kinds["case"]];

/** Watches events; goes on after the last one seen when the connection is lost. */
export async function* watchEvents(link: Link, options: EventsOptions): AsyncGenerator<ServiceEvent, void, undefined> {
  const { workspace = "", session: sessionId = "", signal, onOpen } = options;
  let last = options.after === undefined ? undefined : BigInt(options.after);
  // Takes the stream up again where a number does not, as at a gateway; else empty.
  let token = "";
  const attempts = link.attempts(signal);
  try {
    for (;;) {
      const place = token !== "" ? { resumeToken: token } : last === undefined ? {} : { afterSequence: last };
      const request = { workspace, sessionId, ...place };
      try {
        const opened = () => {
          attempts.succeeded();
          onOpen?.();
        };
        const messages = link.stream((call) => link.rpc.sessions.watchEvents(request, call), {
          signal,
          onOpen: opened,
        });
        for await (const { event, resumeToken } of messages) {
          token = resumeToken;
          if (!event) {
            continue;
          }
          last = event.sequence;
          const shown = serviceEventOf(event);
          if (shown) {
            yield shown;
          }
        }
        return;
      } catch (error) {
        if (options.reconnect === false) {
          throw error;
        }
        await attempts.failed(error);
      }
    }
  } finally {
    attempts.release();
  }
}

function serviceEventOf(message: Event): ServiceEvent | undefined {
  const { event, workspace, sessionId } = message;
  if (event.case === undefined || event.case === "heartbeat") {
    return undefined;
  }
  const base = { sequence: Number(message.sequence), time: date(message.eventTime), workspace, sessionId, message };
  // The compiler does not follow that `case` and `value` of one event belong together.
  return { ...base, type: event.case, value: event.value } as ServiceEvent;
}
