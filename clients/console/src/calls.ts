// The calls that the page knows: the newest ones of the service, kept as they are by its events.

import { signal } from "@preact/signals";
import { ALL, at, millis, tools } from "./api";
import { CallState, FailureReason, OutputMode, type Call, type CallCompleted } from "./gen/toolgate/v1/call_pb";
import { CallOutcome } from "./gen/toolgate/v1/result_pb";
import type { Event } from "./gen/toolgate/v1/session_service_pb";

/** What a call does during a part of its life. */
export interface Span {
  kind: "queued" | "waiting" | "running";
  from: number;
  /** None while it lasts. */
  to?: number;
}

/** A call in lists. */
export interface Row {
  id: string;
  tool: string;
  title: string;
  /** What it touches. */
  summary: string;
  state: CallState;
  reason: FailureReason;
  /** What is unusual about its result, or empty. */
  outcome: string;
  workspace: string;
  session: string;
  agent: string;
  requester: string;
  parent: string;
  created: number;
  started?: number;
  ended?: number;
  queued: number;
  waited: number;
  ran: number;
  background: number;
  lastSequence: bigint;
  spans: Span[];
  /** Whether the spans are what happened, not what the sums make likely. */
  exact: boolean;
}

/** Calls that are kept; beyond that the oldest are forgotten. */
const MOST = 20_000;
/** The newest calls that are loaded without being asked for: the first of them are on the screen soon, also over a slow line. */
const LOADED = 500;
const FIRST = 50;
const PAGE = 450;
/** Calls that have not ended, and calls that have failed, which are shown however old they are. */
const OPEN = 100;
const FAILED = 20;
/** Pages in which they are looked for. */
const PAGES = 20;
/** Records that are fetched one by one after one look at the newest. */
const SINGLES = 8;
const PACE = 250;

/** Changes when anything in `rows` does. */
export const version = signal(0);
/** Whether the newest calls have been loaded once. */
export const loaded = signal(false);
/** Whether older calls exist that are not loaded. */
export const cut = signal(false);
/** Since when all calls are loaded, in milliseconds. Of older ones, only some are known. */
export const whole = signal(-Infinity);

const known = new Map<string, Row>();
let order: Row[] = [];
const stale = new Set<string>();
let pending = false;

/** Returns all calls, newest first. */
export const rows = (): readonly Row[] => order;

/** Returns one of them. */
export const row = (id: string): Row | undefined => known.get(id);

/** Says whether a call in this state has ended. */
export const hasEnded = (state: CallState): boolean => state === CallState.COMPLETED || state === CallState.FAILED;

function changed(): void {
  if (pending) return;
  pending = true;
  setTimeout(() => {
    pending = false;
    order = [...known.values()].sort((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1));
    for (const old of order.splice(MOST)) {
      known.delete(old.id);
      cut.value = true;
      whole.value = Math.max(whole.value, old.created);
    }
    version.value += 1;
  }, 60);
}

/** Says what is unusual about a result: `exit 7`, `timed out`, ...; empty if nothing is. */
export function outcome(end: CallCompleted): string {
  switch (end.outcome) {
    case CallOutcome.NON_ZERO: {
      const command = end.result.case === "command" ? end.result.value : undefined;
      return command?.exitCode === undefined ? `signal ${command?.signal ?? 0}` : `exit ${command.exitCode}`;
    }
    case CallOutcome.TIMED_OUT:
      return "timed out";
    case CallOutcome.PARTIAL:
      return "partly failed";
    case CallOutcome.INVALID:
      return "invalid";
    default:
      return "";
  }
}

/** Says why a call failed. */
export function reason(why: FailureReason): string {
  return (FailureReason[why] ?? "failed").toLowerCase().replaceAll("_", " ");
}

/** The way that a call most likely went, from its sums alone: people are asked first. */
function likely(of: Omit<Row, "spans" | "exact">): Span[] {
  const { created, started, ended, waited } = of;
  const spans: Span[] = [{ kind: "queued", from: created, ...((started ?? ended) ? { to: started ?? ended! } : {}) }];
  if (started === undefined) return spans;
  if (of.state === CallState.WAITING) {
    spans.push({ kind: "waiting", from: started });
    return spans;
  }
  const asked = Math.min(started + waited, ended ?? Infinity);
  if (waited > 0) spans.push({ kind: "waiting", from: started, to: asked });
  spans.push({ kind: "running", from: asked, ...(ended === undefined ? {} : { to: ended }) });
  return spans;
}

/** Returns what lists show of a record of the service. */
export function rowOf(call: Call): Row {
  const ending = call.ending.value;
  const [started, ended] = [at(call.startTime), at(call.endTime)];
  const base = {
    id: call.callId,
    tool: call.tool,
    title: call.title,
    summary: call.summary,
    state: call.state,
    reason: call.ending.case === "failed" ? call.ending.value.reason : FailureReason.UNSPECIFIED,
    outcome: call.ending.case === "completed" ? outcome(call.ending.value) : "",
    workspace: call.context?.workspace ?? "",
    session: call.context?.sessionId ?? "",
    agent: call.context?.agent ?? "",
    requester: call.requester,
    parent: call.context?.parentCallId ?? "",
    created: at(call.createTime) ?? Date.now(),
    ...(started === undefined ? {} : { started }),
    ...(ended === undefined ? {} : { ended }),
    queued: millis(ending?.timing?.queued),
    waited: millis(ending?.timing?.waited),
    ran: millis(ending?.timing?.ran),
    background: call.backgroundProcesses.length,
    lastSequence: call.lastSequence,
  };
  return { ...base, spans: likely(base), exact: hasEnded(base.state) && base.waited === 0 };
}

/** Takes a record of the service. */
export function take(call: Call): Row {
  const fresh = rowOf(call);
  const before = known.get(fresh.id);
  const row = before?.exact ? { ...fresh, spans: closed(before.spans, fresh), exact: true } : fresh;
  known.set(row.id, row);
  changed();
  return row;
}

function closed(spans: Span[], of: { state: CallState; ended?: number }): Span[] {
  const last = spans.at(-1);
  if (last === undefined || last.to !== undefined || !hasEnded(of.state) || of.ended === undefined) return spans;
  return [...spans.slice(0, -1), { ...last, to: of.ended }];
}

const KINDS: Partial<Record<CallState, Span["kind"]>> = {
  [CallState.PENDING]: "queued",
  [CallState.RUNNING]: "running",
  [CallState.WAITING]: "waiting",
};

/** Goes on from one state to the next. */
function advance(spans: Span[], state: CallState, time: number): Span[] {
  const last = spans.at(-1);
  const kind = KINDS[state];
  if (last?.to === undefined && last?.kind === kind) return spans;
  const before = last === undefined || last.to !== undefined ? spans : [...spans.slice(0, -1), { ...last, to: time }];
  return kind === undefined ? before : [...before, { kind, from: time }];
}

/** Takes an event: what it says of a call is shown at once, the rest is fetched soon. */
export function happened(event: Event): void {
  if (event.event.case !== "callStateChanged") return;
  const { callId: id, tool, state, title, summary } = event.event.value;
  const time = at(event.eventTime) ?? Date.now();
  const before = known.get(id);
  if (before === undefined) {
    known.set(id, {
      id,
      tool,
      title,
      summary,
      state,
      reason: FailureReason.UNSPECIFIED,
      outcome: "",
      workspace: event.workspace,
      session: event.sessionId,
      agent: "",
      requester: "",
      parent: "",
      created: time,
      queued: 0,
      waited: 0,
      ran: 0,
      background: 0,
      lastSequence: 0n,
      spans: advance([], state, time),
      exact: state === CallState.PENDING,
    });
  } else if (!hasEnded(before.state)) {
    const ended = hasEnded(state) ? { ended: time } : {};
    known.set(id, { ...before, state, ...ended, spans: advance(before.spans, state, time) });
  }
  stale.add(id);
  changed();
}

/** Fetches what events have announced, without end: one look at the newest calls for all of it, at most four times a second. */
export async function refresh(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, PACE));
    if (stale.size === 0) continue;
    const wanted = [...stale];
    stale.clear();
    try {
      await fetchRows(wanted, signal);
    } catch (error) {
      for (const id of wanted) stale.add(id);
      throw error;
    }
  }
}

async function fetchRows(wanted: string[], signal: AbortSignal): Promise<void> {
  const left = new Set(wanted);
  const pageSize = Math.min(PAGE, wanted.length + 16);
  const { calls } = await tools.listCalls({ workspace: ALL, pageSize }, { signal });
  for (const call of calls) {
    if (left.delete(call.callId)) take(call);
  }
  for (const [index, id] of [...left].entries()) {
    if (index >= SINGLES) stale.add(id);
    else await fetchRow(id, signal);
  }
}

async function fetchRow(id: string, signal: AbortSignal): Promise<void> {
  const { call } = await tools.getCall({ callId: id }, { signal }).catch(() => ({ call: undefined }));
  if (call !== undefined) take(call);
}

/** Lists the newest calls of the service, and those that have not ended or have failed. Returns what lists more of them. */
export async function load(signal: AbortSignal): Promise<() => Promise<void>> {
  const open = new Set(order.filter((row) => !hasEnded(row.state)).map((row) => row.id));
  const again = loaded.peek();
  const some = async (states: CallState[], wanted: number): Promise<void> => {
    let [left, pageToken] = [wanted, ""];
    // A page may have fewer than were asked for, and not be the last.
    for (let pages = 0; pages < PAGES && left > 0; pages++) {
      const page = await tools.listCalls({ workspace: ALL, states, pageSize: left, pageToken }, { signal });
      for (const call of page.calls) take(call);
      left -= page.calls.length;
      pageToken = page.nextPageToken;
      if (pageToken === "") return;
    }
  };
  const newest = tools.listCalls({ workspace: ALL, pageSize: again ? PAGE : FIRST }, { signal });
  // Not one after the other: the way to the service may be long.
  const others = [
    some([CallState.PENDING, CallState.RUNNING, CallState.WAITING], OPEN),
    some([CallState.FAILED], FAILED),
  ];
  const [first] = await Promise.all([newest, ...others]);
  let page = first;
  let seen = 0;
  // Calls that are made at once are not listed in the order of their times.
  let oldest = Infinity;
  const takePage = (): boolean => {
    const fresh = page.calls.filter((call) => {
      const before = known.get(call.callId);
      open.delete(call.callId);
      return before === undefined || !hasEnded(before.state);
    });
    for (const call of page.calls) {
      take(call);
      oldest = Math.min(oldest, at(call.createTime) ?? oldest);
    }
    seen += page.calls.length;
    return fresh.length > 0;
  };
  let isNew = takePage();
  loaded.value = true;
  return async () => {
    while (page.nextPageToken !== "" && seen < LOADED && (isNew || !again)) {
      const request = { workspace: ALL, pageSize: PAGE, pageToken: page.nextPageToken };
      page = await tools.listCalls(request, { signal });
      isNew = takePage();
    }
    if (page.nextPageToken === "") {
      [cut.value, whole.value] = [false, -Infinity];
    } else if (!again || isNew) {
      [cut.value, whole.value] = [true, Number.isFinite(oldest) ? oldest : whole.value];
    }
    for (const id of open) stale.add(id);
  };
}

const looked = new Set<string>();

/** Finds out how a call really went, from its log: once, and only what is needed for its spans. */
export async function lookUpSpans(row: Row): Promise<void> {
  const key = `${row.id} ${row.state}`;
  if (row.exact || looked.has(key)) return;
  looked.add(key);
  const abort = new AbortController();
  let spans: Span[] = [{ kind: "queued", from: row.created }];
  let left = 2_000;
  try {
    const request = { callId: row.id, output: OutputMode.NONE };
    for await (const { event } of tools.watchCall(request, { signal: abort.signal })) {
      const time = at(event?.eventTime) ?? row.created;
      const what = event?.event.case;
      if (what === "running" || what === "resumed") spans = advance(spans, CallState.RUNNING, time);
      if (what === "waiting") spans = advance(spans, CallState.WAITING, time);
      if (what === "completed" || what === "failed") spans = advance(spans, CallState.COMPLETED, time);
      left -= 1;
      if (left === 0 || what === "heartbeat" || (event !== undefined && event.sequence >= row.lastSequence)) break;
    }
    const now = known.get(row.id);
    if (now !== undefined && left > 0) {
      known.set(row.id, { ...now, spans: closed(spans, now), exact: true });
      changed();
    }
  } catch {
    // What the sums say is shown; the next look may have more luck.
    looked.delete(key);
  } finally {
    abort.abort();
  }
}
