/**
 * The events of one call over any number of streams: each exactly once and in order, whatever happens to the
 * connections.
 */
import type { CallOptions } from "@connectrpc/connect";
import { ToolgateError } from "./errors.js";
import {
  type Call,
  type CallEvent as CallEventMessage,
  CallState,
  type OutputMode,
} from "./gen/toolgate/v1/call_pb.js";
import type { Link } from "./link.js";

/** An RPC that streams events of a call. */
export type EventStream = (options: CallOptions) => AsyncIterable<{ readonly event?: CallEventMessage | undefined }>;

/** Which call to follow, and from where. */
export interface FollowOptions {
  /** The call. */
  readonly callId: string;
  /** Starts the call, or attaches to it if it is there; absent for a call that somebody else started. */
  readonly start?: EventStream | undefined;
  /** Events after this one are wanted. */
  readonly after: bigint;
  /** How much of the output to stream. */
  readonly output: OutputMode;
  /** Ends the following; the call is not touched. */
  readonly signal: AbortSignal;
}

/**
 * Yields the events of a call up to its terminal one. Returns the record of the call instead if it had ended with the
 * event that `after` names, or before.
 */
export async function* followCall(
  link: Link,
  options: FollowOptions,
): AsyncGenerator<CallEventMessage, Call | undefined, undefined> {
  const { callId, signal } = options;
  let last = options.after;
  const watch: EventStream = (call) =>
    link.rpc.tools.watchCall({ callId, afterSequence: last, output: options.output }, call);
  const attempts = link.attempts(signal);
  // Starting is idempotent, and before the first event it also answers whether there is such a call.
  let open = options.start ?? watch;
  let running = false;
  try {
    for (;;) {
      try {
        for await (const { event } of link.stream(open, { signal, onOpen: () => attempts.reached() })) {
          attempts.succeeded();
          if (!event || !isNew(event, last)) {
            continue;
          }
          last = event.sequence;
          running ||= event.event.case === "running";
          yield event;
          if (isTerminal(event)) {
            return undefined;
          }
        }
        const ended = await endedWith(link, callId, last, signal);
        if (ended) {
          return ended;
        }
        await attempts.failed(incomplete("the stream ended before the call did"));
      } catch (error) {
        // A call whose record is gone is started again, unless its tool may have done something.
        const gone = open === watch && error instanceof ToolgateError && error.code === "NOT_FOUND";
        if (options.start && gone && !running) {
          open = options.start;
          continue;
        }
        await attempts.failed(error);
      }
      open = options.start && last === options.after ? options.start : watch;
    }
  } finally {
    attempts.release();
  }
}

/** Whether the event has not been delivered. Throws if events before it are missing. */
function isNew({ sequence, event }: CallEventMessage, last: bigint): boolean {
  if (event.case === "heartbeat" || event.case === undefined || sequence <= last) {
    return false;
  }
  const first = event.case === "gap" ? event.value.firstSequence : sequence;
  if (first > last + 1n) {
    throw incomplete(`the stream leaves out the events ${last + 1n} to ${first - 1n}`);
  }
  return true;
}

function isTerminal({ event }: CallEventMessage): boolean {
  return event.case === "completed" || event.case === "failed";
}

function incomplete(text: string): ToolgateError {
  return new ToolgateError("UNAVAILABLE", text, { transient: true });
}

/** A stream that begins behind the terminal event ends without one: then the record says how the call ended. */
async function endedWith(link: Link, callId: string, last: bigint, signal: AbortSignal): Promise<Call | undefined> {
  const { call } = await link.once((options) => link.rpc.tools.getCall({ callId }, options), { signal });
  const over = call?.state === CallState.COMPLETED || call?.state === CallState.FAILED;
  return over && call.lastSequence <= last ? call : undefined;
}
