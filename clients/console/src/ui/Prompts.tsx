// The prompts that wait: a list, and the chosen one with what a person must see to answer it.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { at } from "../api";
import { now } from "../clock";
import { parseDiff } from "../diff";
import { session, workspace } from "../filters";
import { lookers, open, subject } from "../prompts";
import { address, go, isNarrow, place } from "../route";
import { count, duration, moment, short, visible } from "../text";
import {
  PermissionAction,
  type PermissionPart,
  type PermissionRequest,
  type Prompt,
} from "../gen/toolgate/v1/prompt_pb";
import { Answers } from "./Answers";
import { Back } from "./Back";
import { Diff } from "./Diff";
import { Questions } from "./Questions";
import { ListBox } from "./Rows";
import { Where } from "./Where";

/** Shows all prompts that wait and pass the filters. */
export function Prompts(): JSX.Element {
  const all = [...open.value.values()].filter(
    (prompt) =>
      (workspace.value === "" || prompt.workspace === workspace.value) &&
      (session.value === "" || prompt.sessionId === session.value),
  );
  const chosen = place.value.id;
  const prompt = open.value.get(chosen);
  useEffect(() => {
    // The next prompt is never put under a person's fingers: only an empty place is filled.
    if (chosen === "" && all.length > 0 && !isNarrow.value) go("prompts", all[0]!.promptId, "replace");
  }, [chosen, all.length, isNarrow.value]);
  return (
    <div class={`split ${chosen === "" ? "" : "one"}`}>
      <section class="side" aria-label="Open prompts">
        <ListBox
          items={all}
          id={(one) => one.promptId}
          chosen={chosen}
          onChoose={(id) => go("prompts", id, chosen === "" ? "push" : "replace")}
          onOpen={() => document.querySelector<HTMLElement>(".prompt button")?.focus()}
          height={58}
          label="Open prompts"
          name="prompts"
          render={(one) => <PromptItem prompt={one} />}
          empty={<p>No prompts are open.</p>}
        />
      </section>
      <section class="main" aria-label="Prompt">
        <Back to="prompts">All prompts</Back>
        {prompt !== undefined ? (
          <PromptPanel key={prompt.promptId} prompt={prompt} />
        ) : chosen !== "" ? (
          <Gone next={all[0]?.promptId} />
        ) : (
          <div class="blank">
            <p>When a tool needs your answer, its prompt appears here.</p>
          </div>
        )}
      </section>
    </div>
  );
}

/** Stands where a prompt was. The next one is a step away, and the focus is here if it was in what is gone. */
function Gone({ next }: { next: string | undefined }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => takeFocus(box.current), []);
  return (
    <div class="blank" ref={box} tabIndex={-1}>
      <p>This prompt has been answered or is no longer open.</p>
      {next !== undefined && (
        <p>
          <a class="button" href={address("prompts", next)} data-next>
            Show the next prompt <kbd>n</kbd>
          </a>
        </p>
      )}
    </div>
  );
}

/** Takes the focus that nothing has: what had it is no longer in the page. */
export function takeFocus(element: HTMLElement | null): void {
  if (document.activeElement === document.body || document.activeElement === null) element?.focus();
}

function PromptItem({ prompt }: { prompt: Prompt }): JSX.Element {
  const created = at(prompt.createTime) ?? now.value;
  return (
    <>
      <span class="line">
        <b>{short(prompt.tool, 40)}</b>
        <span class="dim">{kind(prompt)}</span>
        <Where of={prompt.workspace} />
        <span class="end dim">{duration(now.value - created)}</span>
      </span>
      <span class="line clip">{subject(prompt)}</span>
    </>
  );
}

/** What is asked for, where the name of the tool does not say that. */
function kind({ request, tool }: Prompt): string {
  if (request.case === "questions") return tool === "question" ? "" : "question";
  const permission = request.value?.permission ?? "";
  return permission === tool ? "" : short(permission, 40);
}

/** Shows one prompt, whole, with the ways to answer it. */
export function PromptPanel({ prompt }: { prompt: Prompt }): JSX.Element {
  const request = prompt.request;
  return (
    <article class="prompt" aria-labelledby={`title-${prompt.promptId}`} data-prompt={prompt.promptId}>
      <h2 class="kicker" id={`title-${prompt.promptId}`}>
        {visible(prompt.tool)} {request.case === "questions" ? "asks you" : "asks for permission"}
        {request.case === "permission" && kind(prompt) !== "" && `: ${kind(prompt)}`}
      </h2>
      {request.case === "permission" && (
        <>
          <Permission request={request.value} />
          <Facts prompt={prompt} />
          <Answers prompt={prompt} request={request.value} />
        </>
      )}
      {request.case === "questions" && (
        <>
          <Questions prompt={prompt} request={request.value} />
          <Facts prompt={prompt} />
        </>
      )}
      {request.case === undefined && (
        <>
          <p>This page does not know how to show this prompt.</p>
          <Facts prompt={prompt} />
        </>
      )}
    </article>
  );
}

/** How often it is looked whether others are there. */
const PACE = 5_000;

/** Says who else may answer at this moment. */
function Others({ prompt }: { prompt: Prompt }): JSX.Element | null {
  const [number, setNumber] = useState<number>();
  const turn = Math.floor(now.value / PACE);
  useEffect(() => {
    let stopped = false;
    void lookers(prompt).then((found) => !stopped && setNumber(found));
    return () => {
      stopped = true;
    };
  }, [prompt.promptId, turn]);
  if (number === undefined) return null;
  const others = Math.max(0, number - 1);
  return (
    <Fact name="Also looking">
      {others === 0 ? "nobody else who may answer" : `${count(others, "other approver")} or open page`}
    </Fact>
  );
}

function Facts({ prompt }: { prompt: Prompt }): JSX.Element {
  const expires = at(prompt.expireTime);
  return (
    <dl class="facts">
      <Fact name="Agent">{visible(prompt.agent)}</Fact>
      <Fact name="Workspace">{visible(prompt.workspace)}</Fact>
      {prompt.directory !== "" && <Fact name="Folder">{visible(prompt.directory)}</Fact>}
      {Object.entries(prompt.environment)
        .sort()
        .map(([name, value]) => (
          <Fact key={name} name="Variable">
            <code>{`${visible(name)}=${short(value, 200)}`}</code>
          </Fact>
        ))}
      <Fact name="Session">
        <a href={address("sessions", prompt.sessionId)}>{short(prompt.sessionId, 40)}</a>
      </Fact>
      <Fact name="Call">
        <a href={address("calls", prompt.callId)}>{short(prompt.callId, 40)}</a>
      </Fact>
      {prompt.requester !== "" && <Fact name="Requested by">{visible(prompt.requester)}</Fact>}
      {prompt.onBehalfOf.length > 0 && <Fact name="On behalf of">{visible(prompt.onBehalfOf.join(", "))}</Fact>}
      <Others prompt={prompt} />
      <Fact name="Asked">{moment(at(prompt.createTime) ?? 0)}</Fact>
      {expires !== undefined && <Fact name="Expires in">{duration(expires - now.value)}</Fact>}
      {prompt.approvals.map((approval) => (
        <Fact key={approval.principal} name="Approved by">
          {visible(approval.approvedBy)} (one more is needed)
        </Fact>
      ))}
    </dl>
  );
}

/** A name and what it stands for. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** What is shown in its own way, or says the same again. */
const SHOWN = new Set(["diff", "command", "files"]);

function Permission({ request }: { request: PermissionRequest }): JSX.Element {
  const metadata = (request.metadata ?? {}) as Record<string, unknown>;
  const { diff, command } = metadata;
  const files = typeof diff === "string" ? parseDiff(diff).lines.filter(({ kind }) => kind === "file") : [];
  const others = Object.entries(metadata).filter(
    ([key, value]) =>
      value !== request.title &&
      (!SHOWN.has(key) || typeof value !== "string") &&
      !files.some(({ text }) => text === value),
  );
  const patterns = request.parts.length > 0 ? [] : request.patterns.filter((pattern) => pattern !== request.title);
  return (
    <div class="request">
      {typeof command === "string" && <pre class="command">{visible(command)}</pre>}
      {!isSame(request.title, command) && <p class="title">{visible(request.title)}</p>}
      {request.parts.length > 0 && <Parts parts={request.parts} />}
      {typeof diff === "string" && <Diff text={diff} />}
      {request.ahead.length > 0 && (
        <section>
          <h3>Asked next</h3>
          <ul class="patterns">
            {request.ahead.map((ahead) => (
              <li key={ahead.permission + ahead.patterns.join(" ")}>
                {ahead.permission}: <code>{visible(ahead.patterns.join(", "))}</code>
              </li>
            ))}
          </ul>
        </section>
      )}
      {patterns.length > 0 && (
        <section>
          <h3>Applies to</h3>
          <ul class="patterns">
            {patterns.map((pattern) => (
              <li key={pattern}>
                <code>{visible(pattern)}</code>
              </li>
            ))}
          </ul>
        </section>
      )}
      {others.length > 0 && (
        <dl class="facts">
          {others.map(([key, value]) => (
            <Fact key={key} name={visible(key)}>
              <Value value={value} />
            </Fact>
          ))}
        </dl>
      )}
      {request.rule !== undefined && (
        <p class="dim">
          Asked because of the rule <code>{visible(request.rule.permission)}</code>{" "}
          <code>{visible(request.rule.pattern)}</code>.
        </p>
      )}
    </div>
  );
}

/** Whether a title says only what the command above it says. */
function isSame(title: string, command: unknown): boolean {
  const words = (text: string): string => text.replace(/\s+/g, " ").trim();
  return title === "" || (typeof command === "string" && words(command).startsWith(words(title)));
}

const LONG = 600;

function Value({ value }: { value: unknown }): JSX.Element {
  const text = useMemo(() => visible(typeof value === "string" ? value : JSON.stringify(value, null, 2)), [value]);
  const [all, setAll] = useState(false);
  if (text.length <= LONG || all) return <code class="value">{text}</code>;
  return (
    <>
      <code class="value">{text.slice(0, LONG)}…</code>{" "}
      <button type="button" class="small" onClick={() => setAll(true)}>
        Show all {text.length.toLocaleString()} characters
      </button>
    </>
  );
}

function Parts({ parts }: { parts: PermissionPart[] }): JSX.Element {
  return (
    <table class="parts">
      <caption>Commands in this line, each with its verdict</caption>
      <thead>
        <tr>
          <th scope="col">Verdict</th>
          <th scope="col">Command</th>
        </tr>
      </thead>
      <tbody>
        {parts.map((part, index) => {
          const allowed = part.action === PermissionAction.ALLOW;
          const also = part.patterns.filter((pattern) => pattern !== part.text);
          return (
            <tr key={index}>
              <td>
                <span class={`tag ${allowed ? "good" : "warn"}`}>
                  {allowed ? (part.granted ? "granted" : "allowed") : "asks"}
                </span>
              </td>
              <td>
                <code>{visible(part.text)}</code>
                {part.unclear !== "" && <p class="bad">Unclear: {visible(part.unclear)}</p>}
                {also.length > 0 && (
                  <p class="dim">
                    judged also as{" "}
                    {also.map((pattern) => (
                      <code key={pattern}>{visible(pattern)}</code>
                    ))}
                  </p>
                )}
                {part.paths.length > 0 && (
                  <p class="dim">
                    touches{" "}
                    {part.paths.map((path) => (
                      <code key={path}>{visible(path)}</code>
                    ))}
                  </p>
                )}
                {part.rule !== undefined && (
                  <p class="dim">
                    rule <code>{visible(part.rule.permission)}</code> <code>{visible(part.rule.pattern)}</code>
                  </p>
                )}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
