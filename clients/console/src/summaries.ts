// The sessions of the service, each with a name that people can tell from others, and the first thing that it did.

import { signal } from "@preact/signals";
import { ALL, at, sessions as service, tools } from "./api";
import { row, rowOf, type Row } from "./calls";
import { workspace } from "./filters";
import { moment, short } from "./text";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { SessionSummary } from "./gen/toolgate/v1/session_service_pb";

const PAGE = 100;

/** What is known of them, the one with the latest call first. */
export const summaries = signal<readonly SessionSummary[]>([]);
/** Whether there are more. */
export const hasMore = signal(false);

let pageToken = "";

const keyOf = ({ workspace, sessionId }: SessionSummary): string => `${workspace} ${sessionId}`;

/** Reads the first of them anew; those behind stay as they are known. */
export async function loadSummaries(): Promise<void> {
  const of = workspace.peek();
  const page = await service.listSessions({ workspace: of || ALL, pageSize: PAGE });
  const fresh = new Set(page.sessions.map(keyOf));
  const others = summaries.value.filter((one) => !fresh.has(keyOf(one)) && (of === "" || one.workspace === of));
  if (others.length === 0) {
    pageToken = page.nextPageToken;
    hasMore.value = pageToken !== "";
  }
  summaries.value = [...page.sessions, ...others];
}

/** Reads the next ones. */
export async function moreSummaries(): Promise<void> {
  if (pageToken === "") return;
  const from = pageToken;
  const page = await service.listSessions({ workspace: workspace.peek() || ALL, pageSize: PAGE, pageToken });
  if (pageToken !== from) return;
  pageToken = page.nextPageToken;
  hasMore.value = pageToken !== "";
  const known = new Set(summaries.value.map(keyOf));
  summaries.value = [...summaries.value, ...page.sessions.filter((one) => !known.has(keyOf(one)))];
}

/** The first calls of sessions, as far as they have been looked up; none for one whose first call is not kept. */
const firsts = signal<ReadonlyMap<string, Row | undefined>>(new Map());
const looked = new Set<string>();
let queue: Promise<void> = Promise.resolve();

/** Returns the first call of a session, once it has been looked up. */
export function firstCall(session: SessionSummary): Row | undefined {
  const key = keyOf(session);
  const begun = at(session.createTime);
  if (!looked.has(key) && begun !== undefined) {
    looked.add(key);
    // One after the other: a list shows many at once.
    queue = queue.then(() => lookUp(session, begun)).catch(() => void looked.delete(key));
  }
  return firsts.value.get(key);
}

async function lookUp(session: SessionSummary, begun: number): Promise<void> {
  const { calls } = await tools.listCalls({
    workspace: session.workspace,
    sessionId: session.sessionId,
    fromTime: timestampFromMs(Math.floor(begun)),
    untilTime: timestampFromMs(Math.floor(begun) + 1_000),
    pageSize: PAGE,
  });
  const first = calls.at(-1);
  firsts.value = new Map(firsts.value).set(keyOf(session), first === undefined ? undefined : rowOf(first));
}

/** What programs make up: UUIDs, and `ses_` with many letters and digits. */
const MADE_UP = /^[0-9a-f]{8}-[0-9a-f]{4}-|^[a-z]{1,10}_[0-9a-z]{12,}$|^(?=.*\d)[0-9a-z]{20,}$/i;

/** Returns what people call a session: its id, unless a program made that up; else what it was begun for, or who works in it. */
export function nameOf(session: SessionSummary, first: Row | undefined): string {
  if (!MADE_UP.test(session.sessionId)) return short(session.sessionId, 60);
  const maker = first === undefined || first.parent === "" ? undefined : row(first.parent);
  if (maker !== undefined && maker.title !== "") return short(maker.title, 60);
  const begun = at(session.createTime);
  return [session.agents[0] ?? "Session", begun === undefined ? "" : moment(begun)]
    .filter((part) => part !== "")
    .join(", ");
}
