// The calls: a list of all, and the chosen one.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Signal } from "@preact/signals";
import { hasEnded, loaded, rows, version, type Row } from "../calls";
import { now } from "../clock";
import { agent, narrows, showAll, since, state, tool, until, words } from "../filters";
import { address, go, place } from "../route";
import { filtered, hasOlder, more, search, stop } from "../search";
import { server } from "../sessions";
import { count, duration, moment, short } from "../text";
import { Back } from "./Back";
import { CallPanel } from "./Call";
import { ListBox } from "./Rows";
import { State } from "./State";
import { titled } from "./titled";
import { Where } from "./Where";

/** Shows the list of calls and the one that is chosen. */
export function Calls(): JSX.Element {
  const chosen = place.value.id;
  return (
    <div class={`split ${chosen === "" ? "" : "one"}`}>
      <section class="side" aria-label="Calls">
        <Finder />
        <CallList chosen={chosen} />
      </section>
      <section class="main" aria-label="Call">
        <Back to="calls">All calls</Back>
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
export function Finder(): JSX.Element {
  const [isWide, setWide] = useState(false);
  const isOpen = isWide || [tool, agent, since, until].some((field) => field.value !== "");
  return (
    <div class="search" role="search" aria-label="Calls">
      <label>
        <span class="sr">Find calls by tool, title, summary or id</span>
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
      <p class="buttons">
        <button
          type="button"
          class="small"
          aria-expanded={isOpen}
          aria-controls="more-filters"
          onClick={() => setWide(!isOpen)}
        >
          Tool, agent, time
        </button>
        {narrows.value && (
          <button type="button" class="small" onClick={showAll}>
            Show all
          </button>
        )}
      </p>
      {isOpen && <MoreFields />}
      <Progress />
    </div>
  );
}

function MoreFields(): JSX.Element {
  void version.value;
  const toolNames = [...new Set(rows().map((row) => row.tool))].sort();
  const agents = [...new Set(server.value?.workspaces.flatMap((one) => one.agents.map(({ name }) => name)))].sort();
  return (
    <div id="more-filters" class="fields">
      <Field label="Tool" of={tool} names={toolNames} />
      <Field label="Agent" of={agent} names={agents} />
      <Field label="From" of={since} />
      <Field label="Until" of={until} />
    </div>
  );
}

interface FieldProps {
  label: string;
  of: Signal<string>;
  /** The names to choose from; none for a time. */
  names?: readonly string[];
}

function Field({ label, of, names }: FieldProps): JSX.Element {
  const list = `${label.toLowerCase()}-names`;
  return (
    <label>
      {label}
      <input
        type={names === undefined ? "datetime-local" : "text"}
        list={names === undefined ? undefined : list}
        value={of.value}
        onChange={(event) => (of.value = event.currentTarget.value)}
      />
      {names !== undefined && (
        <datalist id={list}>
          {names.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      )}
    </label>
  );
}

/** How far the service has been searched, and what takes that further. */
function Progress(): JSX.Element {
  const { state, reached, wrong } = search.value;
  const all = count(filtered.value.length, "call");
  const back = reached === undefined ? "" : `, back to ${moment(reached)}`;
  const said = {
    none: hasOlder.value ? `The latest ${all}` : all,
    runs: `Searching the service: ${all} so far${back}`,
    paused: `${all} so far${back}`,
    done: `${all}: the service has been searched`,
    failed: wrong,
  };
  return (
    <p class="buttons">
      <span class={state === "failed" ? "bad" : "dim"} role="status">
        {said[state]}
      </span>
      {state === "runs" && (
        <button type="button" class="small" onClick={stop}>
          Stop
        </button>
      )}
      {state === "failed" && (
        <button type="button" class="small" onClick={() => void more()}>
          Try again
        </button>
      )}
      {hasOlder.value && (
        <button type="button" class="small" onClick={() => void more()}>
          Load older calls
        </button>
      )}
    </p>
  );
}

function CallList({ chosen }: { chosen: string }): JSX.Element {
  const isSearching = search.value.state === "runs";
  return (
    <ListBox
      items={filtered.value}
      id={(row) => row.id}
      chosen={chosen}
      onChoose={(id) => go("calls", id, chosen === "" ? "push" : "replace")}
      onOpen={() => document.querySelector<HTMLElement>("[role=tab][aria-selected=true]")?.focus()}
      onEnd={() => hasOlder.value && void more()}
      height={58}
      label="Calls, newest first"
      name="calls"
      render={(row) => <CallItem row={row} />}
      empty={
        <p>
          {!loaded.value || isSearching
            ? "Loading…"
            : rows().length === 0
              ? "There are no calls yet."
              : "No calls match."}
        </p>
      }
    />
  );
}

function CallItem({ row }: { row: Row }): JSX.Element {
  return (
    <>
      <span class="line">
        {row.parent !== "" && (
          <span class="dim" title="Made by another call">
            ↳
          </span>
        )}
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
