// Which calls and prompts the person wants to see.

import { computed, signal } from "@preact/signals";
import { CallState } from "./gen/toolgate/v1/call_pb";
import { rows, version, type Row } from "./calls";

/** The workspace, or empty for all. */
export const workspace = signal("");
/** The session, or empty for all. */
export const session = signal("");
/** Words of tool, title, summary, id or agent. */
export const words = signal("");

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

/** The calls that pass, newest first. */
export const filtered = computed<readonly Row[]>(() => {
  void version.value;
  const states = STATES[state.value] ?? [];
  const wanted = words.value
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  if (workspace.value === "" && session.value === "" && states.length === 0 && wanted.length === 0) {
    return [...rows()];
  }
  return rows().filter((row) => {
    if (workspace.value !== "" && row.workspace !== workspace.value) return false;
    if (session.value !== "" && row.session !== session.value) return false;
    if (states.length > 0 && !states.includes(row.state)) return false;
    if (wanted.length === 0) return true;
    const text = `${row.tool}\n${row.title}\n${row.summary}\n${row.id}\n${row.agent}\n${row.session}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
});

/** A session, as its calls tell of it. */
export interface SessionRow {
  id: string;
  workspace: string;
  calls: number;
  open: number;
  waiting: number;
  latest: number;
}

/** The sessions of the calls that the page knows, the one with the latest call first. */
export const sessionRows = computed<readonly SessionRow[]>(() => {
  void version.value;
  const found = new Map<string, SessionRow>();
  for (const row of rows()) {
    if (workspace.value !== "" && row.workspace !== workspace.value) continue;
    let one = found.get(row.session);
    if (one === undefined) {
      one = { id: row.session, workspace: row.workspace, calls: 0, open: 0, waiting: 0, latest: row.created };
      found.set(row.session, one);
    }
    one.calls += 1;
    if (row.state === CallState.WAITING) one.waiting += 1;
    if (STATES.open!.includes(row.state)) one.open += 1;
  }
  return [...found.values()];
});
