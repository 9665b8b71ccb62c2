// Calls that are looked for in everything that the service has, and older ones than are loaded.

import { computed, effect, signal, untracked } from "@preact/signals";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ALL, at, logins, problem, tools } from "./api";
import { cut, loaded, row, rowOf, rows, version, whole, type Row } from "./calls";
import { isWanted, narrows, wanted } from "./filters";

/** Found calls after which the search waits for the person. */
const ENOUGH = 500;
const PAGE = 100;
/** Characters that are looked for, at most: a request takes 256 bytes. */
const TEXT = 60;
/** How much later than the oldest loaded call one may have been made that is listed behind it, in milliseconds. */
const LATER = 1_000;
/** A person who types is not finished. */
const RESTS = 250;

/** How the search is. */
export interface Search {
  state: "none" | "runs" | "paused" | "done" | "failed";
  /** How many calls the service has found so far. */
  found: number;
  /** Since when all calls have been looked at, in milliseconds. */
  reached: number | undefined;
  wrong: string;
}

const NONE: Search = { state: "none", found: 0, reached: undefined, wrong: "" };

/** It. */
export const search = signal<Search>(NONE);

const found = signal<ReadonlyMap<string, Row>>(new Map());
let abort = new AbortController();
/** Where it goes on, and the time before which it looks: the same for all its pages. */
let pageToken = "";
let end: number | undefined;

/** The calls that are wanted, newest first: those that are loaded, as they are now, and those that the service has found. */
export const filtered = computed<readonly Row[]>(() => {
  void version.value;
  const loadedRows = rows();
  const older = found.value;
  const isAny = !narrows.value && wanted.value.workspace === "";
  const passes = (row: Row): boolean =>
    isAny ? row.created >= whole.value || older.has(row.id) : isWanted(row, wanted.value);
  const passing = loadedRows.filter(passes);
  if (older.size === 0) return passing;
  const known = new Set(loadedRows.map((row) => row.id));
  const others = [...older.values()].filter((row) => !known.has(row.id) && isWanted(row, wanted.value));
  return [...passing, ...others].sort((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1));
});

/** Whether older calls can be shown that are neither loaded nor found. */
export const hasOlder = computed(() => (search.value.state === "none" ? cut.value : search.value.state === "paused"));

effect(() => {
  const what = wanted.value;
  void logins.value;
  abort.abort();
  found.value = new Map();
  search.value = NONE;
  pageToken = "";
  if (!narrows.value && what.workspace === "") return;
  const timer = setTimeout(() => void run(), RESTS);
  return () => clearTimeout(timer);
});

/** Looks for more: behind what has been found, or behind the oldest call that is loaded. */
export async function more(): Promise<void> {
  if (search.value.state === "runs" || !loaded.peek()) return;
  await run();
}

/** Stops. */
export function stop(): void {
  abort.abort();
  if (search.value.state === "runs") search.value = { ...search.value, state: "paused" };
}

async function run(): Promise<void> {
  abort = new AbortController();
  const { signal } = abort;
  const what = untracked(() => wanted.value);
  const first = search.value;
  // What the service looks for as one text is the word that says most; the others are looked for here.
  const text = [...what.words].sort((a, b) => b.length - a.length)[0] ?? "";
  const oldest = narrows.peek() || what.workspace !== "" ? -Infinity : whole.peek();
  if (pageToken === "") end = what.until ?? (Number.isFinite(oldest) ? Math.ceil(oldest) + LATER : undefined);
  search.value = { ...first, state: "runs", wrong: "" };
  try {
    for (let came = 0; came < ENOUGH;) {
      const request = {
        workspace: what.workspace || ALL,
        sessionId: what.session,
        states: [...what.states],
        tools: what.tool === "" ? [] : [what.tool],
        agent: what.agent,
        ...(what.since === undefined ? {} : { fromTime: timestampFromMs(what.since) }),
        ...(end === undefined ? {} : { untilTime: timestampFromMs(end) }),
        text: text.slice(0, TEXT),
        pageSize: PAGE,
        pageToken,
      };
      const page = await tools.listCalls(request, { signal });
      if (signal.aborted) return;
      const next = new Map(found.value);
      const passing = page.calls.map(rowOf).filter((one) => isWanted(one, what));
      for (const one of passing) next.set(one.id, one);
      found.value = next;
      // Where older ones are wanted, those that are loaded are none of them.
      came += passing.filter(({ id }) => !Number.isFinite(oldest) || row(id) === undefined).length;
      pageToken = page.nextPageToken;
      search.value = {
        state: pageToken === "" ? "done" : "runs",
        found: next.size,
        reached: at(page.calls.at(-1)?.createTime) ?? search.value.reached,
        wrong: "",
      };
      if (pageToken === "") return;
    }
    search.value = { ...search.value, state: "paused" };
  } catch (error) {
    if (!signal.aborted) search.value = { ...search.value, state: "failed", wrong: problem(error) };
  }
}
