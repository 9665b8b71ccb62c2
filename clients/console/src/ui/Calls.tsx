// The calls: a list of all, and the chosen one.

import type { JSX } from "preact";
import { cut, hasEnded, loaded, rows, version, type Row } from "../calls";
import { now } from "../clock";
import { filtered, state, words } from "../filters";
import { asking, subject } from "../prompts";
import { address, go, place } from "../route";
import { count, duration, moment, short } from "../text";
import { CallPanel } from "./Call";
import { ListBox } from "./Rows";
import { State, stateWords } from "./State";
import { severalAreShown, Where } from "./Where";

/** Shows the list of calls and the one that is chosen. */
export function Calls(): JSX.Element {
  const chosen = place.value.id;
  return (
    <div class="split">
      <section class="side" aria-label="Calls">
        <Search />
        <CallList chosen={chosen} />
      </section>
      <section class="main" aria-label="Call">
        {chosen === "" ? (
          <div class="blank">
            <p>Choose a call to see what it does.</p>
          </div>
        ) : (
          <CallPanel key={chosen} id={chosen} />
        )}
      </section>
    </div>
  );
}

const CHOICES = { all: "All states", open: "Not ended", waiting: "Waiting", failed: "Failed", completed: "Completed" };

/** The fields that narrow lists of calls. */
export function Search(): JSX.Element {
  void version.value;
  const [found, all] = [filtered.value.length, rows().length];
  return (
    <div class="search" role="search" aria-label="Calls">
      <label>
        <span class="sr">Find calls by tool, title, summary, id, agent or session</span>
        <input
          type="search"
          placeholder="Find calls"
          data-search
          value={words.value}
          onInput={(event) => (words.value = event.currentTarget.value)}
        />
      </label>
      <label>
        <span class="sr">State</span>
        <select value={state.value} onChange={(event) => (state.value = event.currentTarget.value)}>
          {Object.entries(CHOICES).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <p class="dim" aria-live="off">
        {found === all ? count(all, "call") : `${found.toLocaleString()} of ${count(all, "call")}`}
        {cut.value && ", older ones are not loaded"}
      </p>
    </div>
  );
}

function CallList({ chosen }: { chosen: string }): JSX.Element {
  return (
    <ListBox
      items={filtered.value}
      id={(row) => row.id}
      chosen={chosen}
      onChoose={(id) => go("calls", id, "replace")}
      onOpen={() => document.querySelector<HTMLElement>("[role=tab][aria-selected=true]")?.focus()}
      height={58}
      label="Calls, newest first"
      name="calls"
      says={says}
      render={(row) => <CallItem row={row} />}
      empty={
        <p>{loaded.value ? (rows().length === 0 ? "There are no calls yet." : "No call is like that.") : "Loading…"}</p>
      }
    />
  );
}

/** What a call is about: its title and what it touches, else what it asks. */
export function titled(row: { id: string; title: string; summary: string }, most = 160): string {
  const says = row.title.includes(row.summary) ? row.title : `${row.title} · ${row.summary}`;
  if (says !== "") return short(row.title === "" ? row.summary : says, most);
  const prompt = asking.value.get(row.id);
  return prompt === undefined ? "" : short(subject(prompt), most);
}

/** Says everything about a call in a sentence. */
export function says(row: Row): string {
  const where = severalAreShown() ? `, in ${row.workspace}` : "";
  return `${row.tool}, ${stateWords(row)}, ${titled(row, 120)}${where}, ${moment(row.created)}`;
}

function CallItem({ row }: { row: Row }): JSX.Element {
  return (
    <>
      <span class="line">
        <b>{short(row.tool, 40)}</b>
        <State {...row} />
        <Where of={row.workspace} />
        <span class="end dim">{hasEnded(row.state) ? moment(row.created) : duration(now.value - row.created)}</span>
      </span>
      <span class="line clip">{titled(row) || <span class="dim">{row.id}</span>}</span>
    </>
  );
}

/** A link to a call. */
export function CallLink({ row }: { row: Row }): JSX.Element {
  return (
    <a href={address("calls", row.id)}>
      {row.tool} {titled(row, 80)}
    </a>
  );
}
