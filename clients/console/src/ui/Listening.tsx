// What programs of a call listen on, and the way there.

import type { JSX } from "preact";
import type { CallView } from "../call";
import { closePort, openedPort, openPort, type OpenedPort } from "../ports";
import { asking } from "../prompts";
import { address } from "../route";
import { short, visible } from "../text";
import type { Call, ListeningPort } from "../gen/toolgate/v1/call_pb";

/** Shows the ports, if there are any. */
export function Listening({ view, call }: { view: CallView; call: Call }): JSX.Element | null {
  const ports = view.listening.value;
  if (ports.length === 0) return null;
  return (
    <section class="listening" aria-labelledby="listening-title">
      <h3 id="listening-title">Listens on</h3>
      <ul>
        {[...new Set(ports.map(({ port }) => port))].map((port) => (
          <Port key={port} call={call} port={port} all={ports.filter((one) => one.port === port)} />
        ))}
      </ul>
    </section>
  );
}

interface PortProps {
  call: Call;
  port: number;
  /** It may listen at several addresses. */
  all: readonly ListeningPort[];
}

function Port({ call, port, all }: PortProps): JSX.Element {
  const opened = openedPort(call, port);
  return (
    <li>
      <b>{port}</b> <span class="dim">{visible(all.map((one) => one.address).join(", "))}</span>{" "}
      <code class="clip">{short(all[0]?.command ?? "", 120)}</code>
      {opened?.state === "refused" && (
        <span class="bad" role="alert">
          {short(opened.wrong, 300)}
        </span>
      )}
      <span class="end">
        {opened === undefined || opened.state === "refused" ? (
          <button
            type="button"
            class="small"
            aria-label={`Open port ${port}`}
            onClick={() => void openPort(call, port)}
          >
            Open
          </button>
        ) : (
          <Way port={port} opened={opened} />
        )}
      </span>
    </li>
  );
}

function Way({ port, opened }: { port: number; opened: OpenedPort }): JSX.Element {
  const isOpen = opened.state === "open";
  const prompt = asking.value.get(opened.callId);
  return (
    <>
      {isOpen ? (
        <a href={opened.path} target="_blank" rel="noopener">
          Open in a new tab
        </a>
      ) : prompt === undefined ? (
        <span class="dim">Opening…</span>
      ) : (
        <a href={address("prompts", prompt.promptId)}>Answer the prompt</a>
      )}
      <button
        type="button"
        class="small"
        aria-label={isOpen ? `Close port ${port}` : `Cancel opening port ${port}`}
        onClick={() => void closePort(opened)}
      >
        {isOpen ? "Close" : "Cancel"}
      </button>
    </>
  );
}
