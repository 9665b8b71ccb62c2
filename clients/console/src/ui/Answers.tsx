// The buttons that answer a request for a permission.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useDraft } from "../drafts";
import { answer, open, type Answer } from "../prompts";
import { shortcuts } from "../shortcuts";
import { count, visible } from "../text";
import { Instead } from "./Instead";
import {
  GrantReach,
  GrantScopeSchema,
  PromptDecision,
  type PermissionRequest,
  type Prompt,
} from "../gen/toolgate/v1/prompt_pb";

/** A prompt that has just come into view is not answered by a click or a key that was meant for something else. */
const SETTLES = 500;

type Form = "none" | "always" | "message" | "instead";

/** Shows the ways to answer, and sends the answer. */
export function Answers({ prompt, request }: { prompt: Prompt; request: PermissionRequest }): JSX.Element {
  const [form, setForm] = useDraft<Form>(prompt.promptId, "form", () => "none");
  const isKept = useRef(form !== "none");
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(true);
  useEffect(() => {
    const timer = setTimeout(() => setBusy(false), SETTLES);
    return () => clearTimeout(timer);
  }, []);
  const send = async (given: Answer): Promise<void> => {
    setBusy(true);
    setWrong((await answer(prompt, given)) ?? "");
    setBusy(false);
  };
  const toggle = (name: Form): void => {
    isKept.current = false;
    setForm(form === name ? "none" : name);
  };
  const act: Record<string, () => void> = {
    o: () => void send({ decision: PromptDecision.ONCE }),
    a: () => toggle("always"),
    r: () => void send({ decision: PromptDecision.REJECT }),
    m: () => toggle("message"),
    ...(prompt.editable ? { e: () => toggle("instead") } : {}),
  };
  const latest = useRef({ act, busy });
  latest.current = { act, busy };
  useEffect(
    () =>
      shortcuts((key) => {
        const { act, busy } = latest.current;
        if (busy || act[key] === undefined) return false;
        act[key]();
        return true;
      }),
    [],
  );
  const opens = (name: Form): { "aria-expanded": boolean; "aria-controls": string; onClick: () => void } => ({
    "aria-expanded": form === name,
    "aria-controls": `form-${name}`,
    onClick: () => toggle(name),
  });
  const given: FormProps = { promptId: prompt.promptId, busy, send, isKept: isKept.current };
  return (
    <>
      {form === "always" && <Always request={request} {...given} />}
      {form === "message" && <Message {...given} />}
      {form === "instead" && <Instead input={prompt.inputJson} {...given} />}
      {isOneOfSeveral(prompt) && (
        <p class="dim">Rejecting also rejects the other permission prompts that wait in this session.</p>
      )}
      <section class="answers" aria-label="Answer">
        {wrong !== "" && (
          <p class="bad" role="alert">
            {visible(wrong)}
          </p>
        )}
        <div class="buttons">
          <button type="button" class="good" aria-keyshortcuts="o" disabled={busy} onClick={act.o}>
            Allow once <kbd>o</kbd>
          </button>
          <button type="button" class="bad" aria-keyshortcuts="r" disabled={busy} onClick={act.r}>
            Reject <kbd>r</kbd>
          </button>
          <button type="button" aria-keyshortcuts="a" disabled={busy} {...opens("always")}>
            Allow always… <kbd>a</kbd>
          </button>
          <button type="button" aria-keyshortcuts="m" disabled={busy} {...opens("message")}>
            Reject with a message… <kbd>m</kbd>
          </button>
          {prompt.editable && (
            <button type="button" aria-keyshortcuts="e" disabled={busy} {...opens("instead")}>
              Edit the input… <kbd>e</kbd>
            </button>
          )}
        </div>
      </section>
    </>
  );
}

/** What every form of an answer gets. */
export interface FormProps {
  promptId: string;
  busy: boolean;
  send: (given: Answer) => Promise<void>;
  /** Whether it was opened before the prompt was away, and is shown again. */
  isKept: boolean;
}

/**
 * Puts the focus into a form when it opens, and the form into view: what is always in view may lie over it. One that is shown
 * again takes the focus from nothing, such as the list.
 */
export function useFocus<E extends HTMLElement>(isKept: boolean, isWanted = true): preact.RefObject<E | null> {
  const element = useRef<E>(null);
  // Before it is drawn: the next key is for the form.
  useLayoutEffect(() => {
    const field = element.current;
    if (!isWanted || field === null || (isKept && document.activeElement !== document.body)) return;
    field.focus({ preventScroll: true });
    if (field instanceof HTMLTextAreaElement) field.setSelectionRange(field.value.length, field.value.length);
    field.closest("form")?.scrollIntoView({ block: "nearest" });
  }, []);
  return element;
}

const REACHES: [GrantReach, string][] = [
  [GrantReach.RUN, "in this workspace, while the service runs"],
  [GrantReach.SESSION, "in this session, until it is ended"],
  [GrantReach.WORKSPACE, "in this workspace, for good"],
];

function Always({ request, busy, send, isKept }: FormProps & { request: PermissionRequest }): JSX.Element {
  const [reach, setReach] = useState(GrantReach.RUN);
  const [minutes, setMinutes] = useState("");
  const [uses, setUses] = useState("");
  const [patterns, setPatterns] = useState<ReadonlySet<string>>(new Set());
  const first = useFocus<HTMLInputElement>(isKept);
  const toggle = (pattern: string, on: boolean): void => {
    const next = new Set(patterns);
    if (on) next.add(pattern);
    else next.delete(pattern);
    setPatterns(next);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    const [limit, most] = [Number(minutes), Number(uses)];
    const scope = create(GrantScopeSchema, {
      reach,
      maxUses: most > 0 ? most : 0,
      ...(limit > 0 ? { expireTime: timestampFromMs(Date.now() + limit * 60_000) } : {}),
    });
    void send({ decision: PromptDecision.ALWAYS, scope, alwaysPatterns: [...patterns] });
  };
  return (
    <form id="form-always" class="form" onSubmit={submit}>
      <h3>Allow always</h3>
      {request.always.length === 0 ? (
        <p>None of this can be allowed for later calls. Your answer is for this call only.</p>
      ) : (
        <fieldset>
          <legend>
            From now on allow <code>{visible(request.permission)}</code> for
          </legend>
          {request.always.map((pattern, index) => (
            <label key={pattern} class="check">
              <input
                ref={index === 0 ? first : undefined}
                type="checkbox"
                checked={patterns.has(pattern)}
                onChange={(event) => toggle(pattern, event.currentTarget.checked)}
              />
              <code>{visible(pattern)}</code>
              {pattern === "*" && <span class="tag warn">everything</span>}
            </label>
          ))}
        </fieldset>
      )}
      <div class="fields">
        <label>
          Scope
          <select value={reach} onChange={(event) => setReach(Number(event.currentTarget.value))}>
            {REACHES.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <Limit label="Minutes" most={5_256_000} text={minutes} onChange={setMinutes} />
        <Limit label="Requests" most={1_000_000} text={uses} onChange={setUses} />
      </div>
      <button class="good" disabled={busy || (patterns.size === 0 && request.always.length > 0)}>
        {request.always.length === 0
          ? "Allow this call"
          : patterns.size === 0
            ? "Choose what to allow"
            : `Allow ${count(patterns.size, "pattern")} always`}
      </button>
    </form>
  );
}

interface LimitProps {
  label: string;
  most: number;
  /** The number; empty for none. */
  text: string;
  onChange: (text: string) => void;
}

function Limit({ label, most, text, onChange }: LimitProps): JSX.Element {
  return (
    <label>
      {label}
      <input
        type="number"
        placeholder="no limit"
        min={1}
        max={most}
        value={text}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}

function Message({ promptId, busy, send, isKept }: FormProps): JSX.Element {
  const [text, setText] = useDraft(promptId, "message", () => "");
  const first = useFocus<HTMLTextAreaElement>(isKept);
  const submit = (event: Event): void => {
    event.preventDefault();
    void send({ decision: PromptDecision.REJECT, message: text });
  };
  return (
    <form id="form-message" class="form" onSubmit={submit}>
      <label>
        Tell the model why, and what to do instead
        <textarea ref={first} rows={3} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button class="bad" disabled={busy || text.trim() === ""}>
        Reject with this message
      </button>
    </form>
  );
}

/** Whether other permissions are asked for in the session of a prompt. */
function isOneOfSeveral({ promptId, sessionId, workspace }: Prompt): boolean {
  return [...open.value.values()].some(
    (one) =>
      one.promptId !== promptId &&
      one.request.case === "permission" &&
      one.sessionId === sessionId &&
      one.workspace === workspace,
  );
}
