// The page as a whole: its head, its parts, and what is said in passing.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { effect, signal } from "@preact/signals";
import { asked, logIn } from "../api";
import { loaded } from "../calls";
import { now } from "../clock";
import { recentSessions, session, workspace } from "../filters";
import { connection, retryNow } from "../live";
import { notice } from "../notices";
import { waiting } from "../prompts";
import { address, go, place, VIEWS, type View } from "../route";
import { server } from "../sessions";
import { shortcuts } from "../shortcuts";
import { count, short, visible } from "../text";
import { Home } from "./Home";
import { NameDialog, Settings } from "./Settings";

const NAMES: Record<View, string> = {
  home: "Home",
  calls: "Calls",
  prompts: "Prompts",
  timeline: "Timeline",
  sessions: "Sessions",
};
const KEYS: Record<string, View> = { h: "home", c: "calls", p: "prompts", t: "timeline", s: "sessions" };

/** The page. */
export function App(): JSX.Element {
  const [helps, setHelps] = useState(false);
  const view = place.value.view;
  useEffect(() => {
    document.title = `${waiting.value > 0 ? `(${waiting.value}) ` : ""}${NAMES[view]} · Toolgate`;
  }, [view, waiting.value]);
  useEffect(
    () =>
      shortcuts((key) => {
        if (key === "?") setHelps(true);
        else if (key === "l") document.querySelector<HTMLElement>("[data-list]")?.focus();
        else if (key === "n") document.querySelector<HTMLElement>("[data-next]")?.click();
        else if (key === "/") document.querySelector<HTMLElement>("[data-search]")?.focus();
        else if (KEYS[key] !== undefined) toView(KEYS[key]);
        else return false;
        return true;
      }),
    [],
  );
  if (asked.value !== undefined) return <Login why={asked.value} />;
  return (
    <div class="page">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="head">
        <h1>Toolgate</h1>
        <nav aria-label="Parts">
          {VIEWS.map((name) => (
            <a key={name} href={address(name)} aria-current={name === view ? "page" : undefined}>
              {NAMES[name]}
              {name === "prompts" && waiting.value > 0 && (
                <span class="badge">
                  {waiting.value}
                  <span class="sr"> waiting</span>
                </span>
              )}
            </a>
          ))}
        </nav>
        <Filters />
        <Connection />
        <button type="button" onClick={() => setHelps(true)} aria-haspopup="dialog">
          Settings <kbd>?</kbd>
        </button>
      </header>
      <Offline />
      <Warnings />
      <main id="main" tabIndex={-1}>
        {view === "home" && <Home />}
        {view !== "home" && <Part view={view} />}
      </main>
      <div class="notice" role="status">
        <span key={notice.value.number}>{visible(notice.value.text)}</span>
      </div>
      {helps && <Settings onClose={() => setHelps(false)} />}
      <NameDialog />
    </div>
  );
}

/** The parts that the first page does not need. They come when that is there, or at once if they are what is looked at. */
const parts = signal<typeof import("../parts") | undefined>(undefined);
const missing = signal("");
let isLoading = false;

effect(() => {
  if (isLoading || (place.value.view === "home" && !(loaded.value && connection.value.live))) return;
  isLoading = true;
  import("../parts").then(
    (all) => (parts.value = all),
    () => (missing.value = "The rest of the page could not be loaded."),
  );
});

function Part({ view }: { view: Exclude<View, "home"> }): JSX.Element {
  const all = parts.value;
  if (all !== undefined) return <all.Part view={view} />;
  if (missing.value === "") return <p class="blank">Loading…</p>;
  return (
    <div class="blank">
      <p class="bad" role="alert">
        {missing.value}
      </p>
      <p>
        <button type="button" onClick={() => location.reload()}>
          Load the page again
        </button>
      </p>
    </div>
  );
}

/** Goes to a part, and puts the focus into its list, so that the arrow keys work at once. */
function toView(view: View): void {
  go(view);
  setTimeout(() => document.querySelector<HTMLElement>("[data-list]")?.focus(), 30);
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

const MOST_SESSIONS = 200;

function Filters(): JSX.Element {
  const all = parts.value;
  const known = server.value?.workspaces.map((one) => one.name) ?? [];
  // One that was closed is still what the page is limited to.
  const workspaces = workspace.value === "" || known.includes(workspace.value) ? known : [workspace.value, ...known];
  const sessions = recentSessions.value.slice(0, MOST_SESSIONS);
  const listed = session.value === "" || sessions.includes(session.value) ? sessions : [session.value, ...sessions];
  return (
    <div class="filters" role="group" aria-label="Show only">
      {workspace.value !== "" && all !== undefined && <all.Usage workspace={workspace.value} />}
      <label>
        <span class="sr">Workspace</span>
        <select value={workspace.value} onChange={(event) => (workspace.value = event.currentTarget.value)}>
          <option value="">All workspaces</option>
          {workspaces.map((name) => (
            <option key={name} value={name}>
              {visible(name)}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span class="sr">Session</span>
        <select value={session.value} onChange={(event) => (session.value = event.currentTarget.value)}>
          <option value="">All sessions</option>
          {listed.map((id) => (
            <option key={id} value={id}>
              {short(id, 40)}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function Connection(): JSX.Element {
  const { live, why } = connection.value;
  const text = live ? "Live" : why === "" ? "Connecting…" : "Not connected";
  return (
    <span class={`connection ${live ? "good" : why === "" ? "idle" : "bad"}`} role="status" data-live={live}>
      <span class="dot" aria-hidden="true" />
      {text}
    </span>
  );
}

function Offline(): JSX.Element | null {
  const { live, why, retry } = connection.value;
  if (live || why === "") return null;
  const seconds = retry === undefined ? 0 : Math.ceil((retry - now.value) / 1000);
  return (
    <section class="offline" aria-label="Connection">
      <p>
        <b>Not connected.</b> {visible(why)} What you see may be out of date.{" "}
        <span aria-live="off">{seconds > 0 ? `Trying again in ${seconds} s.` : "Trying again…"}</span>
      </p>
      <button type="button" onClick={retryNow}>
        Try now
      </button>
    </section>
  );
}

/** What a person should know of the rules: what they say may not be what was meant. */
function Warnings(): JSX.Element | null {
  const about = server.value;
  const rows = [
    ...(about?.warnings ?? []).map((text) => ({ where: "", text, bad: false })),
    ...(about?.workspaces ?? []).flatMap(({ name, problem, warnings }) => [
      ...(problem === "" ? [] : [{ where: name, text: `takes no calls: ${problem}`, bad: true }]),
      ...warnings.map((text) => ({ where: name, text, bad: false })),
    ]),
  ];
  if (rows.length === 0) return null;
  return (
    <details class="warnings" open={rows.some((row) => row.bad)}>
      <summary>{count(rows.length, "warning")} about the configuration</summary>
      <ul>
        {rows.map(({ where, text, bad }) => (
          <li key={`${where} ${text}`} class={bad ? "bad" : ""}>
            {where !== "" && <b>{visible(where)}: </b>}
            {visible(text)}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Login({ why }: { why: string }): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    field.current?.focus();
  }, [why]);
  const submit = (event: Event): void => {
    event.preventDefault();
    const given = field.current?.value.trim() ?? "";
    if (given !== "") logIn(given);
  };
  return (
    <main class="login" aria-labelledby="login-title">
      <form onSubmit={submit}>
        <h1 id="login-title">Toolgate</h1>
        <p>Log in with your token to use this service.</p>
        {why !== "" && (
          <p class="bad" role="alert">
            {visible(why)}
          </p>
        )}
        <label>
          Token
          <input ref={field} type="password" name="token" autocomplete="off" spellcheck={false} required />
        </label>
        <p class="dim">It is kept for this tab only, until you close it.</p>
        <button class="good">Log in</button>
      </form>
    </main>
  );
}
