// Events of the service, and what they say of sessions: todos.

import { signal } from "@preact/signals";
import { Code, ConnectError } from "@connectrpc/connect";
import { ALL, info, sessions } from "./api";
import { happened, load, refresh } from "./calls";
import type { Turn } from "./live";
import type { Todo } from "./gen/toolgate/v1/session_service_pb";
import type { GetServerInfoResponse } from "./gen/toolgate/v1/info_service_pb";

/** The service, once it has told about itself. */
export const server = signal<GetServerInfoResponse | undefined>(undefined);

/** The todos of sessions, as far as they changed while the page was open or were looked at. */
export const todos = signal<ReadonlyMap<string, Todo[]>>(new Map());

/** Changes when a session's grants may have changed. */
export const decisions = signal(0);

/** Takes the todos of a session. */
export function setTodos(session: string, list: Todo[]): void {
  todos.value = new Map(todos.value).set(session, list);
}

let last: bigint | undefined;
/** Takes the stream up again where a number does not, as at a gateway; else empty. */
let token = "";

async function catchUp(signal: AbortSignal): Promise<void> {
  // What is on the first page comes first, also over a slow line.
  const loadMore = await load(signal);
  server.value = await info.getServerInfo({}, { signal });
  await loadMore();
  await refresh(signal);
}

/** Asks the service about itself again: its rules may have changed. What it said last stands if it does not answer. */
function ask(signal: AbortSignal): void {
  info.getServerInfo({}, { signal }).then(
    (about) => (server.value = about),
    () => undefined,
  );
}

/** Watches everything that happens. What happened while nobody watched is caught up with. */
export async function watch({ signal, alive }: Turn): Promise<void> {
  const stop = new AbortController();
  const ended = AbortSignal.any([signal, stop.signal]);
  let failure: unknown;
  const begin = (): void => {
    alive();
    // Only now: what happens from here on is in the stream, what happened before is in the list.
    catchUp(ended).catch((error: unknown) => {
      failure = error;
      stop.abort();
    });
  };
  try {
    const place = token !== "" ? { resumeToken: token } : last === undefined ? {} : { afterSequence: last };
    const request = { workspace: ALL, ...place };
    for await (const { event, resumeToken } of sessions.watchEvents(request, { signal: ended, onHeader: begin })) {
      alive();
      token = resumeToken;
      if (event === undefined) continue;
      if (event.event.case === "heartbeat" || event.event.case === "workspaceChanged") ask(ended);
      if (last === undefined || event.sequence > last) last = event.sequence;
      happened(event);
      if (event.event.case === "todosUpdated") setTodos(event.sessionId, event.event.value.todos);
      if (event.event.case === "sessionEnded") setTodos(event.sessionId, []);
      if (event.event.case === "promptEnded") decisions.value += 1;
    }
  } catch (error) {
    // The service has begun to count anew, or it is another one.
    if ([Code.OutOfRange, Code.InvalidArgument].includes(ConnectError.from(error).code)) {
      last = undefined;
      token = "";
    }
    throw failure ?? error;
  } finally {
    stop.abort();
  }
}
