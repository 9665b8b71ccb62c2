// The page as a whole: its head, its parts, and what is said in passing.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { asked, isLoggedIn, logIn, logOut } from "../api";
import { now } from "../clock";
import { session, sessionRows, workspace } from "../filters";
import { connection, retryNow } from "../live";
import { notice } from "../notices";
import { approver, setApprover, waiting } from "../prompts";
import { address, go, place, VIEWS, type View } from "../route";
import { server } from "../sessions";
import { enabled, setEnabled, shortcuts } from "../shortcuts";
import { short, visible } from "../text";
import { Calls } from "./Calls";
import { Prompts } from "./Prompts";
import { Sessions } from "./Sessions";
import { Stripes, Timeline } from "./Timeline";
import { Usage } from "./Usage";

const NAMES: Record<View, string> = { calls: "Calls", prompts: "Prompts", timeline: "Timeline", sessions: "Sessions" };
const KEYS: Record<string, View> = { c: "calls", p: "prompts", t: "timeline", s: "sessions" };

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
          Help <kbd>?</kbd>
        </button>
      </header>
      <Offline />
      <Warnings />
      <main id="main" tabIndex={-1}>
        {view === "calls" && <Calls />}
        {view === "prompts" && <Prompts />}
        {view === "timeline" && <Timeline />}
        {view === "sessions" && <Sessions />}
      </main>
      <div class={`notice ${notice.value.text === "" ? "" : "shown"}`} role="status">
        <span key={notice.value.number}>{visible(notice.value.text)}</span>
      </div>
      {helps && <Help onClose={() => setHelps(false)} />}
      <Stripes />
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
  const known = server.value?.workspaces.map((one) => one.name) ?? [];
  // One that was closed is still what the page is limited to.
  const workspaces = workspace.value === "" || known.includes(workspace.value) ? known : [workspace.value, ...known];
  const sessions = sessionRows.value.slice(0, MOST_SESSIONS).map((one) => one.id);
  const listed = session.value === "" || sessions.includes(session.value) ? sessions : [session.value, ...sessions];
  return (
    <div class="filters" role="group" aria-label="Show only">
      {workspace.value !== "" && <Usage workspace={workspace.value} />}
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
        <b>Not connected.</b> {visible(why)} What you see may be old.{" "}
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
      <summary>
        {rows.length === 1 ? "1 warning" : `${rows.length} warnings`} about the rules and the configuration
      </summary>
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
        <p>This service wants to know who calls.</p>
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

const HELP: [string, string][] = [
  ["c, p, t, s", "go to the calls, prompts, timeline, sessions"],
  ["l", "go to the list"],
  ["↑ ↓ Home End Page Up Page Down", "choose in a list; Enter opens"],
  ["o", "prompt: allow once"],
  ["a", "prompt: allow always, with a choice of patterns and how far"],
  ["r", "prompt: reject"],
  ["m", "prompt: reject with a message"],
  ["e", "prompt: change the input, where that is possible"],
  ["n", "after an answer: the next prompt"],
  ["f", "output: follow, or stop following"],
  ["/", "search the output, or find calls"],
  ["?", "this help"],
];

function Help({ onClose }: { onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={onClose}>
      <h2 id="help-title">Help</h2>
      <table class="keys">
        <caption class="sr">Keys</caption>
        <tbody>
          {HELP.map(([keys, text]) => (
            <tr key={keys}>
              <th scope="row">
                <kbd>{keys}</kbd>
              </th>
              <td>{text}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <label class="check">
        <input type="checkbox" checked={enabled.value} onChange={(event) => setEnabled(event.currentTarget.checked)} />
        Single keys do something
      </label>
      <label>
        Your name, recorded with your answers
        <input
          type="text"
          maxLength={100}
          value={approver.value}
          onChange={(event) => setApprover(event.currentTarget.value)}
        />
      </label>
      {server.value !== undefined && <p class="dim">Toolgate {visible(server.value.version)}</p>}
      <div class="buttons">
        <button type="button" class="good" onClick={() => dialog.current?.close()}>
          Close
        </button>
        {isLoggedIn() && (
          <button type="button" onClick={logOut}>
            Log out
          </button>
        )}
      </div>
    </dialog>
  );
}
