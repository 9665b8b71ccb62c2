// The first page: what waits for the person, what runs, and what failed. Where nothing does, the latest calls or what to do first.

import type { ComponentChildren, JSX } from "preact";
import { at } from "../api";
import { hasEnded, loaded, rows, version, type Row } from "../calls";
import { now } from "../clock";
import { session, state, workspace } from "../filters";
import { connection } from "../live";
import { open, subject } from "../prompts";
import { address } from "../route";
import { duration, moment, short } from "../text";
import { CallState } from "../gen/toolgate/v1/call_pb";
import type { Prompt } from "../gen/toolgate/v1/prompt_pb";
import { First } from "./First";
import { State } from "./State";
import { titled } from "./titled";
import { Where } from "./Where";

/** Entries of a part; the rest is a step away. */
const MOST = 12;

/** Shows the page. */
export function Home(): JSX.Element {
  void version.value;
  const isHere = (of: string, within: string): boolean =>
    (workspace.value === "" || of === workspace.value) && (session.value === "" || within === session.value);
  const prompts = [...open.value.values()].filter((prompt) => isHere(prompt.workspace, prompt.sessionId));
  const calls = rows().filter((row) => isHere(row.workspace, row.session));
  const running = calls.filter((row) => !hasEnded(row.state) && row.state !== CallState.WAITING);
  const failed = calls.filter((row) => row.state === CallState.FAILED || row.outcome !== "");
  const isKnown = loaded.value && connection.value.live;
  const isQuiet = isKnown && [prompts, running, failed].every((list) => list.length === 0);
  return (
    <div class="home fill scroll" tabIndex={0} role="region" aria-label="Now">
      {isQuiet && rows().length === 0 && <First />}
      <Part
        name="waits"
        title="Waiting for you"
        items={prompts}
        none={isKnown ? "Nothing is waiting for you." : "Loading…"}
        rest={<a href={address("prompts")}>All prompts</a>}
        render={(prompt) => <Waiting key={prompt.promptId} prompt={prompt} />}
      />
      <Part
        name="runs"
        title="Running"
        items={running}
        none={isKnown ? "Nothing is running." : "Loading…"}
        rest={<ToCalls states="open">All calls that have not ended</ToCalls>}
        render={(row) => <CallEntry key={row.id} row={row} time={duration(now.value - row.created)} />}
      />
      <Part
        name="failed"
        title="Failed"
        items={failed}
        none={isKnown ? "No call has failed." : "Loading…"}
        rest={<ToCalls states="failed">All failed calls</ToCalls>}
        render={endedEntry}
      />
      {isQuiet && calls.length > 0 && (
        <Part
          name="latest"
          title="Latest calls"
          items={calls}
          counts={false}
          none=""
          rest={<a href={address("calls")}>All calls</a>}
          render={endedEntry}
        />
      )}
    </div>
  );
}

interface PartProps<T> {
  name: string;
  title: string;
  items: readonly T[];
  /** Whether it is said how many there are. */
  counts?: boolean;
  /** What is said if there are no items. */
  none: string;
  /** Leads to all of them. */
  rest: ComponentChildren;
  render: (item: T) => ComponentChildren;
}

function Part<T>({ name, title, items, counts = true, none, rest, render }: PartProps<T>): JSX.Element {
  return (
    <section class={`part ${name}`} aria-labelledby={`${name}-title`}>
      <h2 id={`${name}-title`}>
        {title} {counts && items.length > 0 && <span class="dim">{items.length.toLocaleString()}</span>}
      </h2>
      {items.length === 0 ? <p class="dim">{none}</p> : <ul>{items.slice(0, MOST).map(render)}</ul>}
      {items.length > 0 && <p class="rest">{rest}</p>}
    </section>
  );
}

function Waiting({ prompt }: { prompt: Prompt }): JSX.Element {
  return (
    <li>
      <a href={address("prompts", prompt.promptId)}>
        <span class="line">
          <b>{short(prompt.tool, 40)}</b>
          <Where of={prompt.workspace} />
          <span class="end dim">{duration(now.value - (at(prompt.createTime) ?? now.value))}</span>
        </span>
        <span class="what">{subject(prompt)}</span>
      </a>
    </li>
  );
}

function endedEntry(row: Row): JSX.Element {
  return <CallEntry key={row.id} row={row} time={moment(row.ended ?? row.created)} />;
}

function CallEntry({ row, time }: { row: Row; time: string }): JSX.Element {
  return (
    <li>
      <a href={address("calls", row.id)}>
        <span class="line">
          <b>{short(row.tool, 40)}</b>
          <State {...row} />
          <Where of={row.workspace} />
          <span class="end dim">{time}</span>
        </span>
        <span class="what">{titled(row) || row.id}</span>
      </a>
    </li>
  );
}

function ToCalls({ states, children }: { states: string; children: string }): JSX.Element {
  return (
    <a href={address("calls")} onClick={() => (state.value = states)}>
      {children}
    </a>
  );
}
