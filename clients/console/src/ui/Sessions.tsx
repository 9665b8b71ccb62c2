// The sessions: a list of all, and what the chosen one owns: todos, standing approvals, calls.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ALL, at, permissions, problem, sessions as service } from "../api";
import { rows, version } from "../calls";
import { now } from "../clock";
import { workspace } from "../filters";
import { announce } from "../notices";
import { open, subject } from "../prompts";
import { address, go, isNarrow, place } from "../route";
import { decisions, setTodos, todos } from "../sessions";
import { firstCall, hasMore, loadSummaries, moreSummaries, nameOf, summaries } from "../summaries";
import { count, moment, short, visible } from "../text";
import { GrantReach, type Grant } from "../gen/toolgate/v1/prompt_pb";
import type { SessionSummary, Todo } from "../gen/toolgate/v1/session_service_pb";
import { Back } from "./Back";
import { CallLink } from "./Calls";
import { ListBox } from "./Rows";
import { State } from "./State";
import { titled } from "./titled";
import { Where } from "./Where";

/** Keeps the list as it is at the service: looked at every second in which something happened. Returns what is wrong with that. */
function useSummaries(): string {
  const [wrong, setWrong] = useState("");
  const seen = useRef("");
  useEffect(() => {
    const state = `${version.peek()} ${workspace.peek()}`;
    if (seen.current === state) return;
    seen.current = state;
    loadSummaries().then(
      () => setWrong(""),
      (error: unknown) => setWrong(problem(error)),
    );
  }, [now.value, workspace.value]);
  return wrong;
}

/** Shows the list of sessions and the one that is chosen. */
export function Sessions(): JSX.Element {
  const wrong = useSummaries();
  const chosen = place.value.id;
  const all = summaries.value.filter((one) => workspace.value === "" || one.workspace === workspace.value);
  useEffect(() => {
    if (chosen === "" && all.length > 0 && !isNarrow.value) go("sessions", all[0]!.sessionId, "replace");
  }, [chosen, all.length > 0, isNarrow.value]);
  return (
    <div class={`split ${chosen === "" ? "" : "one"}`}>
      <section class="side" aria-label="Sessions">
        {wrong !== "" && (
          <p class="bad box" role="alert">
            {wrong}
          </p>
        )}
        <ListBox
          items={all}
          id={(one) => one.sessionId}
          chosen={chosen}
          onChoose={(id) => go("sessions", id, chosen === "" ? "push" : "replace")}
          onEnd={() => hasMore.value && void moreSummaries().catch((error: unknown) => announce(problem(error)))}
          height={78}
          label="Sessions, the latest first"
          name="sessions"
          render={(one) => <SessionItem one={one} />}
          empty={<p>There are no sessions yet.</p>}
        />
      </section>
      <section class="main" aria-label="Session">
        <Back to="sessions">All sessions</Back>
        {chosen === "" ? <div class="blank" /> : <SessionPanel key={chosen} id={chosen} />}
      </section>
    </div>
  );
}

function SessionItem({ one }: { one: SessionSummary }): JSX.Element {
  const first = firstCall(one);
  const [calls, open, waiting] = [one.calls, one.unfinishedCalls, one.waitingCalls].map(Number) as [
    number,
    number,
    number,
  ];
  return (
    <>
      <span class="line">
        <b class="clip">{nameOf(one, first)}</b>
        {waiting > 0 && <span class="tag warn">{waiting} waiting</span>}
        <Where of={one.workspace} />
      </span>
      <span class="line clip">
        {first === undefined ? (
          <span class="dim">{short(one.sessionId, 60)}</span>
        ) : (
          `${first.tool}: ${titled(first, 120)}`
        )}
      </span>
      <span class="line dim">
        {count(calls, "call")}
        {open > 0 && `, ${open} not ended`}
        {one.ended && ", ended"}
        <span class="end">{moment(at(one.lastActivityTime) ?? 0)}</span>
      </span>
    </>
  );
}

function SessionPanel({ id }: { id: string }): JSX.Element {
  void version.value;
  const [grants, setGrants] = useState<Grant[]>([]);
  const [wrong, setWrong] = useState("");
  const decided = decisions.value;
  useEffect(() => {
    let stopped = false;
    service.getSession({ sessionId: id, workspace: ALL }).then(
      ({ session }) => {
        if (stopped || session === undefined) return;
        setTodos(id, session.todos);
        setGrants(session.grants);
        setWrong("");
      },
      (error: unknown) => !stopped && setWrong(problem(error)),
    );
    return () => {
      stopped = true;
    };
  }, [id, decided]);
  const prompts = [...open.value.values()].filter((prompt) => prompt.sessionId === id);
  const summary = summaries.value.find((one) => one.sessionId === id);
  const first = summary === undefined ? undefined : firstCall(summary);
  const name = summary === undefined ? short(id, 60) : nameOf(summary, first);
  return (
    <article class="session fill scroll" aria-labelledby="session-title" tabIndex={0}>
      <h2 id="session-title">{name}</h2>
      {name !== id && (
        <p class="dim">
          <code>{visible(id)}</code>
        </p>
      )}
      {first !== undefined && (
        <p>
          Began with <CallLink row={first} />
        </p>
      )}
      {wrong !== "" && (
        <p class="bad" role="alert">
          {wrong}
        </p>
      )}
      {prompts.length > 0 && (
        <section>
          <h3>Open prompts</h3>
          <ul>
            {prompts.map((prompt) => (
              <li key={prompt.promptId}>
                <a href={address("prompts", prompt.promptId)}>{subject(prompt)}</a>
              </li>
            ))}
          </ul>
        </section>
      )}
      <Todos list={todos.value.get(id) ?? []} />
      <Grants list={grants} onRevoked={(gone) => setGrants(grants.filter((grant) => grant.grantId !== gone))} />
      <Latest session={id} />
    </article>
  );
}

const MARKS: Record<string, [sign: string, word: string]> = {
  pending: ["○", "to do"],
  in_progress: ["◐", "in progress"],
  completed: ["●", "done"],
  cancelled: ["✕", "cancelled"],
};

function Todos({ list }: { list: Todo[] }): JSX.Element {
  const done = list.filter((todo) => todo.status === "completed").length;
  return (
    <section aria-labelledby="todos-title">
      <h3 id="todos-title">Todos {list.length > 0 && <span class="dim">{`${done} of ${list.length} done`}</span>}</h3>
      {list.length === 0 ? (
        <p class="dim">The session has no todos.</p>
      ) : (
        <ul class="todos">
          {list.map((todo, index) => {
            const [sign, word] = MARKS[todo.status] ?? ["?", todo.status];
            return (
              <li key={index} class={`todo ${MARKS[todo.status] === undefined ? "" : todo.status}`}>
                <span aria-hidden="true">{sign}</span>
                <span class="sr">{visible(word)}: </span>
                <span>{visible(todo.content)}</span>
                {todo.priority === "high" && <span class="tag warn">high</span>}
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}

function until(grant: Grant): string {
  const parts = {
    [GrantReach.UNSPECIFIED]: "",
    [GrantReach.RUN]: "while the service runs",
    [GrantReach.SESSION]: "in this session",
    [GrantReach.WORKSPACE]: "for good",
  };
  const expires = at(grant.scope?.expireTime);
  const most = grant.scope?.maxUses ?? 0;
  return [
    parts[grant.scope?.reach ?? GrantReach.UNSPECIFIED],
    expires === undefined ? "" : `until ${moment(expires)}`,
    most === 0 ? count(Number(grant.useCount), "use") : `${grant.useCount} of ${most} uses`,
    grant.grantedBy === "" ? "" : `by ${short(grant.grantedBy, 60)}`,
  ]
    .filter((part) => part !== "")
    .join(", ");
}

function Grants({ list, onRevoked }: { list: Grant[]; onRevoked: (id: string) => void }): JSX.Element {
  const revoke = async (grant: Grant): Promise<void> => {
    try {
      await permissions.revokeGrant({ grantId: grant.grantId });
      onRevoked(grant.grantId);
      announce("Taken back: it is asked again.");
    } catch (error) {
      announce(problem(error));
    }
  };
  return (
    <section aria-labelledby="grants-title">
      <h3 id="grants-title">Allowed from now on</h3>
      {list.length === 0 ? (
        <p class="dim">Nothing beyond what the rules allow.</p>
      ) : (
        <ul class="grants">
          {list.map((grant) => (
            <li key={grant.grantId}>
              <span>
                <b>{visible(grant.permission)}</b> <code>{visible(grant.pattern)}</code>{" "}
                <span class="dim">{until(grant)}</span>
              </span>
              <button
                type="button"
                class="small"
                aria-label={`Take back ${grant.permission} ${grant.pattern}`}
                onClick={() => void revoke(grant)}
              >
                Take back
              </button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const LATEST = 20;

function Latest({ session }: { session: string }): JSX.Element {
  const list = useMemo(
    () =>
      rows()
        .filter((row) => row.session === session)
        .slice(0, LATEST),
    [session, version.value],
  );
  return (
    <section aria-labelledby="latest-title">
      <h3 id="latest-title">Latest calls</h3>
      <ul class="plain">
        {list.map((row) => (
          <li key={row.id}>
            <State {...row} /> <CallLink row={row} />
          </li>
        ))}
      </ul>
    </section>
  );
}
