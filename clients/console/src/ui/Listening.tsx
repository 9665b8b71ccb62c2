// What programs of a call listen on, and the way there.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CallView } from "../call";
import { closePort, openedPort, openPort } from "../ports";
import { asking } from "../prompts";
import { address } from "../route";
import { short, visible } from "../text";
import type { Call, ListeningPort } from "../gen/toolgate/v1/call_pb";

/** Shows the ports, if there are any. */
export function Listening({ view, call }: { view: CallView; call: Call }): JSX.Element | null {
  const [wrong, setWrong] = useState("");
  const ports = view.listening.value;
  if (ports.length === 0) return null;
  return (
    <section class="listening" aria-labelledby="listening-title">
      <h3 id="listening-title">Listens on</h3>
      <ul>
        {[...new Set(ports.map(({ port }) => port))].map((port) => (
          <Port key={port} call={call} port={port} all={ports.filter((one) => one.port === port)} onWrong={setWrong} />
        ))}
      </ul>
      {wrong !== "" && (
        <p class="bad" role="alert">
          {visible(wrong)}
        </p>
      )}
    </section>
  );
}

interface PortProps {
  call: Call;
  port: number;
  /** It may listen at several addresses. */
  all: readonly ListeningPort[];
  onWrong: (why: string) => void;
}

function Port({ call, port, all, onWrong }: PortProps): JSX.Element {
  const opened = openedPort(call, port);
  const open = async (): Promise<void> => {
    onWrong("");
    onWrong((await openPort(call, port)) ?? "");
  };
  const prompt = opened && asking.value.get(opened.callId);
  return (
    <li>
      <b>{port}</b> <span class="dim">{visible(all.map(({ address }) => address).join(", "))}</span>
      <code class="clip">{short(all[0]?.command ?? "", 120)}</code>
      <span class="end">
        {opened === undefined && (
          <button type="button" class="small" aria-label={`Open port ${port}`} onClick={() => void open()}>
            Open
          </button>
        )}
        {opened?.path === "" && (
          <span>
            {prompt === undefined ? "Opening…" : <a href={address("prompts", prompt.promptId)}>Prompt waits</a>}
          </span>
        )}
        {opened !== undefined && opened.path !== "" && (
          <a href={opened.path} target="_blank" rel="noopener">
            Open in a new tab
          </a>
        )}
        {opened !== undefined && (
          <button
            type="button"
            class="small"
            aria-label={opened.path === "" ? `Do not open port ${port}` : `Close port ${port}`}
            onClick={() => void closePort(opened)}
          >
            {opened.path === "" ? "Give up" : "Close"}
          </button>
        )}
      </span>
    </li>
  );
}
