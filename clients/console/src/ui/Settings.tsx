// What the person has chosen for this browser: the name, notifications, keys. And the help.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { isLoggedIn, logOut } from "../api";
import { isPossible, isWanted, setWanted } from "../notify";
import { asker, person, setPerson } from "../person";
import { server } from "../sessions";
import { enabled, setEnabled } from "../shortcuts";
import { visible } from "../text";

const HELP: [string, string][] = [
  ["h, c, p, t, s", "go to Home, Calls, Prompts, Timeline, Sessions"],
  ["l", "go to the list"],
  ["↑ ↓ Home End Page Up Page Down", "choose in a list; Enter opens"],
  ["o", "prompt: allow once"],
  ["a", "prompt: allow always, for patterns and a scope to choose"],
  ["r", "prompt: reject"],
  ["m", "prompt: reject with a message"],
  ["e", "prompt: edit the input, where that is possible"],
  ["n", "after an answer: the next prompt"],
  ["f", "output: follow, or stop following"],
  ["/", "search the output, or find calls"],
  ["?", "settings and this help"],
];

/** Shows the settings and the help. */
export function Settings({ onClose }: { onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [wrong, setWrong] = useState("");
  useEffect(() => dialog.current?.showModal(), []);
  const notify = async (on: boolean): Promise<void> => setWrong(await setWanted(on));
  return (
    <dialog ref={dialog} aria-labelledby="settings-title" onClose={onClose}>
      <h2 id="settings-title">Settings and help</h2>
      <label>
        Your name, recorded with your answers
        <input
          type="text"
          maxLength={100}
          value={person.value ?? ""}
          onChange={(event) => setPerson(event.currentTarget.value)}
        />
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={isWanted.value}
          disabled={!isPossible}
          onChange={(event) => void notify(event.currentTarget.checked)}
        />
        Notify me on this device of prompts while another window has the focus
      </label>
      {!isPossible && <p class="dim">Browsers allow notifications only over HTTPS or on the machine of the service.</p>}
      {wrong !== "" && (
        <p class="bad" role="alert">
          {wrong}
        </p>
      )}
      <label class="check">
        <input type="checkbox" checked={enabled.value} onChange={(event) => setEnabled(event.currentTarget.checked)} />
        Use single-key shortcuts
      </label>
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

/** Asks for the name, when an answer is about to be sent for the first time. */
export function NameDialog(): JSX.Element | null {
  return asker.value === undefined ? null : <AskName goOn={asker.value} />;
}

function AskName({ goOn }: { goOn: (goesOn: boolean) => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [name, setName] = useState("");
  useEffect(() => dialog.current?.showModal(), []);
  const take = (given: string): void => {
    setPerson(given);
    goOn(true);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    if (name.trim() !== "") take(name);
  };
  return (
    <dialog ref={dialog} aria-labelledby="name-title" onClose={() => goOn(false)}>
      <form class="form-plain" onSubmit={submit}>
        <h2 id="name-title">Who decides?</h2>
        <label>
          Your name
          <input
            type="text"
            autocomplete="name"
            maxLength={100}
            required
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <p class="dim">It is recorded with your answers and kept in this browser. You can change it in the settings.</p>
        <div class="buttons">
          <button class="good">Answer with this name</button>
          <button type="button" onClick={() => take("")}>
            Answer without a name
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Do not answer
          </button>
        </div>
      </form>
    </dialog>
  );
}
