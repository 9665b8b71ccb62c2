// One call: what it is, what it does, and what came of it.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { at, problem, tools } from "../api";
import { hasTerminal, type CallView } from "../call";
import { hasEnded, reason, row as rowOf, take, version } from "../calls";
import { now } from "../clock";
import { current } from "../current";
import { announce } from "../notices";
import { asking } from "../prompts";
import { address } from "../route";
import { commandOf, wentHow } from "../did";
import { bytes, count, duration, moment, pretty, short, visible } from "../text";
import { type Call, FailureReason } from "../gen/toolgate/v1/call_pb";
import { CallOutcome } from "../gen/toolgate/v1/result_pb";
import { titled } from "./titled";
import { Children } from "./Children";
import { Files } from "./Files";
import { Listening } from "./Listening";
import { Output } from "./Output";
import { Fact, PromptPanel, takeFocus } from "./Prompts";
import { Result, Text } from "./Result";
import { Rows } from "./Rows";
import { State } from "./State";
import { TerminalPanel } from "./Terminal";

const TABS = { terminal: "Terminal", output: "Output", events: "Events", input: "Input", result: "Result" } as const;

type Tab = keyof typeof TABS;

/** Shows a call. */
export function CallPanel({ id }: { id: string }): JSX.Element {
  const view = current.value;
  if (view === undefined || view.id !== id) return <div class="blank" aria-busy="true" />;
  if (view.missing.value !== "") {
    return (
      <div class="blank">
        <p>{view.missing.value}</p>
      </div>
    );
  }
  const call = view.record.value;
  if (call === undefined) return <div class="blank">Loading…</div>;
  return <Shown view={view} call={call} />;
}

function Shown({ view, call }: { view: CallView; call: Call }): JSX.Element {
  void version.value;
  const [chosen, setTab] = useState<Tab>("output");
  const isTerminal = hasTerminal(call);
  const tab = chosen === "terminal" && !isTerminal ? "output" : chosen;
  const row = rowOf(call.callId);
  const how = row ?? { state: call.state, reason: FailureReason.UNSPECIFIED, outcome: "" };
  const prompt = asking.value.get(call.callId);
  const command = commandOf(call);
  const title = useRef<HTMLHeadingElement>(null);
  const asked = useRef(false);
  useEffect(() => {
    if (asked.current && prompt === undefined) takeFocus(title.current);
    asked.current = prompt !== undefined;
  }, [prompt === undefined]);
  return (
    <article class="call" aria-labelledby="call-title">
      <header>
        <p class="kicker">
          <b>{visible(call.tool)}</b> <State {...how} />
          <Cancel call={call} background={row?.background ?? 0} ended={hasEnded(how.state)} />
        </p>
        <h2 id="call-title" ref={title} tabIndex={-1}>
          {titled(
            { id: call.callId, title: row?.title ?? call.title, summary: command === "" ? call.summary : "" },
            300,
          ) || visible(call.callId)}
        </h2>
        {command !== "" && command !== call.title && <pre class="command">{visible(command)}</pre>}
        <p class="went">{wentHow(call, view.decided.value, now.value, at(call.createTime) ?? now.value).join(" · ")}</p>
        {call.ending.case === "failed" && (
          <p class="bad box">
            <b>{reason(call.ending.value.reason)}:</b> {short(call.ending.value.error, 2_000)}
          </p>
        )}
        {call.ending.case === "completed" && call.ending.value.outcome === CallOutcome.INVALID && (
          <p class="bad box">
            <b>{reason(FailureReason.INVALID_ARGUMENTS)}:</b> {short(call.ending.value.output, 2_000)}
          </p>
        )}
        {prompt === undefined && <Files call={call} />}
        <Children view={view} />
        <Listening view={view} call={call} />
        <details class="more">
          <summary>Details</summary>
          <CallFacts call={call} />
        </details>
      </header>
      {prompt !== undefined && <PromptPanel key={prompt.promptId} prompt={prompt} />}
      <Tabs tab={tab} without={isTerminal ? "" : "terminal"} onTab={setTab} />
      <div class="tabpanel" role="tabpanel" id={`panel-${tab}`} aria-labelledby={`tab-${tab}`}>
        {tab === "terminal" && <TerminalPanel key={view.id} view={view} />}
        {tab === "output" && <Output key={view.id} view={view} />}
        {tab === "events" && <Events view={view} />}
        {tab === "input" && <Input call={call} />}
        {tab === "result" && <Result call={call} />}
      </div>
    </article>
  );
}

function CallFacts({ call }: { call: Call }): JSX.Element {
  const timing = call.ending.value?.timing;
  const [created, ended] = [at(call.createTime) ?? 0, at(call.endTime)];
  const context = call.context;
  const length = (of: { seconds: bigint; nanos: number } | undefined): number =>
    of === undefined ? 0 : Number(of.seconds) * 1000 + of.nanos / 1e6;
  return (
    <dl class="facts">
      <Fact name="Began">{moment(created)}</Fact>
      {timing === undefined ? (
        <Fact name="For">{duration((ended ?? now.value) - created)}</Fact>
      ) : (
        <>
          <Fact name="Queued">{duration(length(timing.queued))}</Fact>
          <Fact name="Waited for people">{duration(length(timing.waited))}</Fact>
          <Fact name="Ran">{duration(length(timing.ran))}</Fact>
        </>
      )}
      {call.resources !== undefined && (
        <>
          <Fact name="Processor">{duration(length(call.resources.userTime) + length(call.resources.systemTime))}</Fact>
          {call.resources.peakMemoryBytes !== undefined && (
            <Fact name="Memory">{bytes(Number(call.resources.peakMemoryBytes))} at most</Fact>
          )}
        </>
      )}
      <Fact name="Agent">{visible(context?.agent ?? "")}</Fact>
      <Fact name="Workspace">{visible(context?.workspace ?? "")}</Fact>
      <Fact name="Session">
        <a href={address("sessions", context?.sessionId)}>{short(context?.sessionId ?? "", 40)}</a>
      </Fact>
      {context !== undefined && context.parentCallId !== "" && (
        <Fact name="Made by">
          <a href={address("calls", context.parentCallId)}>{short(context.parentCallId, 40)}</a>
        </Fact>
      )}
      {call.requester !== "" && <Fact name="Requested by">{visible(call.requester)}</Fact>}
      <Fact name="Id">
        <code>{visible(call.callId)}</code>
      </Fact>
    </dl>
  );
}

/** The button that stops a call, and asks once more: what a program was doing is not undone. */
function Cancel({ call, background, ended }: { call: Call; background: number; ended: boolean }): JSX.Element | null {
  const [asks, setAsks] = useState(false);
  const [busy, setBusy] = useState(false);
  const sure = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (asks) sure.current?.focus();
  }, [asks]);
  if (ended && background === 0) return null;
  const cancel = async (): Promise<void> => {
    setBusy(true);
    try {
      const { call: now } = await tools.cancelCall({ callId: call.callId });
      if (now !== undefined) take(now);
      announce("Cancelled.");
    } catch (error) {
      announce(problem(error));
    }
    setBusy(false);
    setAsks(false);
  };
  const what = ended ? `End ${count(background, "process", "processes")} left running` : "Cancel";
  return (
    <span class="end">
      {asks ? (
        <>
          <button ref={sure} type="button" class="bad" disabled={busy} onClick={() => void cancel()}>
            {busy ? "Cancelling…" : "Really cancel"}
          </button>{" "}
          <button type="button" disabled={busy} onClick={() => setAsks(false)}>
            Keep it
          </button>
        </>
      ) : (
        <button type="button" onClick={() => setAsks(true)}>
          {what}
        </button>
      )}
    </span>
  );
}

function Tabs({ tab, without, onTab }: { tab: Tab; without: string; onTab: (tab: Tab) => void }): JSX.Element {
  const names = (Object.keys(TABS) as Tab[]).filter((name) => name !== without);
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = names[(names.indexOf(tab) + step + names.length) % names.length]!;
    onTab(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Parts of the call" onKeyDown={onKeyDown}>
      {names.map((name) => (
        <button
          key={name}
          type="button"
          role="tab"
          id={`tab-${name}`}
          aria-selected={name === tab}
          aria-controls={name === tab ? `panel-${name}` : undefined}
          tabIndex={name === tab ? 0 : -1}
          onClick={() => onTab(name)}
        >
          {TABS[name]}
        </button>
      ))}
    </div>
  );
}

function Events({ view }: { view: CallView }): JSX.Element {
  void view.version.value;
  const began = view.entries[0]?.time ?? 0;
  return (
    <Rows
      class="fill events"
      count={view.entries.length}
      height={26}
      label="Events"
      render={(index) => {
        const entry = view.entries[index]!;
        return (
          <div key={index} class="event">
            <span class="number">{entry.sequence}</span>
            <span class="dim time">+{duration(entry.time - began)}</span>
            <b>{entry.kind}</b>
            <span class="clip">{entry.text}</span>
          </div>
        );
      }}
    />
  );
}

function Input({ call }: { call: Call }): JSX.Element {
  return (
    <div class="fill scroll" role="region" aria-label="Input" tabIndex={0}>
      {call.originalInputJson !== "" && (
        <>
          <p>A person replaced the input. What the model wrote:</p>
          <Text text={pretty(call.originalInputJson)} />
          <p>What runs:</p>
        </>
      )}
      <Text text={call.inputJson === "" ? "The input is not settled yet." : pretty(call.inputJson)} />
      {call.inputDigest !== "" && (
        <p class="dim">
          SHA-256 <code>{call.inputDigest}</code>
        </p>
      )}
    </div>
  );
}
