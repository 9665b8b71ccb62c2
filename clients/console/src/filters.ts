// Which calls and prompts the person wants to see.

import { computed, signal } from "@preact/signals";
import { CallState } from "./gen/toolgate/v1/call_pb";
import { rows, version, type Row } from "./calls";

/** The workspace, or empty for all. */
export const workspace = signal("");
/** The session, or empty for all. */
export const session = signal("");
/** Words of tool, title, summary or id. */
export const words = signal("");
/** The tool, or empty for all. */
export const tool = signal("");
/** The agent, or empty for all. */
export const agent = signal("");
/** Begun at this day and time or later, as fields for local times have them; or empty. */
export const since = signal("");
/** Begun before this day and time, or empty. */
export const until = signal("");

/** The groups of states to choose from. */
export const STATES: Record<string, readonly CallState[]> = {
  all: [],
  open: [CallState.PENDING, CallState.RUNNING, CallState.WAITING],
  waiting: [CallState.WAITING],
  failed: [CallState.FAILED],
  completed: [CallState.COMPLETED],
};

/** One of them. */
export const state = signal("all");

/** What is wanted of calls. */
export interface Wanted {
  workspace: string;
  session: string;
  words: readonly string[];
  tool: string;
  agent: string;
  states: readonly CallState[];
  /** In milliseconds; none for any time. */
  since: number | undefined;
  until: number | undefined;
}

const moment = (field: string): number | undefined => (field === "" ? undefined : new Date(field).getTime());

/** All of it. */
export const wanted = computed<Wanted>(() => ({
  workspace: workspace.value,
  session: session.value,
  words: words.value
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== ""),
  tool: tool.value.trim(),
  agent: agent.value.trim(),
  states: STATES[state.value] ?? [],
  since: moment(since.value),
  until: moment(until.value),
}));

/** Whether anything is asked for but the workspace. */
export const narrows = computed(() => {
  const { session, words, tool, agent, states, since, until } = wanted.value;
  return (
    [session, tool, agent].some((text) => text !== "") ||
    [words, states].some((list) => list.length > 0) ||
    (since ?? until) !== undefined
  );
});

/** Forgets it all but the workspace. */
export function showAll(): void {
  for (const field of [session, words, tool, agent, since, until]) field.value = "";
  state.value = "all";
}

/** Says whether a call is wanted: as the service does, but each word is looked for. */
export function isWanted(row: Row, of: Wanted): boolean {
  if (of.workspace !== "" && row.workspace !== of.workspace) return false;
  if (of.session !== "" && row.session !== of.session) return false;
  if (of.tool !== "" && row.tool !== of.tool) return false;
  if (of.agent !== "" && row.agent !== of.agent) return false;
  if (of.states.length > 0 && !of.states.includes(row.state)) return false;
  if (of.since !== undefined && row.created < of.since) return false;
  if (of.until !== undefined && row.created >= of.until) return false;
  if (of.words.length === 0) return true;
  const text = `${row.tool}\n${row.title}\n${row.summary}\n${row.id}`.toLowerCase();
  return of.words.every((word) => text.includes(word));
}

/** The sessions of the calls that are loaded, the one with the latest call first. */
export const recentSessions = computed<readonly string[]>(() => {
  void version.value;
  const found = new Set<string>();
  for (const row of rows()) if (workspace.value === "" || row.workspace === workspace.value) found.add(row.session);
  return [...found];
});
