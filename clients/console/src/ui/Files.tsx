// The files that a call changed, and the way to take that back.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { changedBy, type Changed } from "../did";
import { asking } from "../prompts";
import { revert, reverting } from "../revert";
import { address } from "../route";
import { count, short, visible } from "../text";
import type { Call } from "../gen/toolgate/v1/call_pb";
import { Diff } from "./Diff";

/** Lines of a diff that are shown at once, so that the output below stays in sight. */
const TALL = 14;

/** Shows them, if there are any. */
export function Files({ call }: { call: Call }): JSX.Element | null {
  const files = changedBy(call);
  if (files.length === 0) return null;
  return (
    <section class="files" aria-labelledby="files-title">
      <div class="kicker">
        <h3 id="files-title">{count(files.length, "file")} changed</h3>
        {call.changes.length > 0 && <Revert call={call} />}
      </div>
      <Outcome call={call} />
      {files.length === 1 ? (
        <OneFile file={files[0]!} isOpen />
      ) : (
        files.map((file) => <OneFile key={file.path} file={file} />)
      )}
    </section>
  );
}

function OneFile({ file, isOpen = false }: { file: Changed; isOpen?: boolean }): JSX.Element {
  const name = (
    <>
      <code>{visible(file.path)}</code> <span class="dim">{file.words}</span>
      {file.added !== undefined && (
        <>
          {" "}
          <span class="plus">+{file.added.toLocaleString()}</span>{" "}
          <span class="minus">−{(file.removed ?? 0).toLocaleString()}</span>
        </>
      )}
    </>
  );
  if (file.diff === "") return <p class="changed">{name}</p>;
  return (
    <details class="changed" open={isOpen}>
      <summary>{name}</summary>
      <Diff text={file.diff} most={TALL} isNamed />
    </details>
  );
}

/** The button that takes the changes back, and asks once more. */
function Revert({ call }: { call: Call }): JSX.Element | null {
  const [asks, setAsks] = useState(false);
  const sure = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (asks) sure.current?.focus();
  }, [asks]);
  const state = reverting(call.callId)?.state;
  if (call.ending.case === undefined || state === "runs" || state === "done") return null;
  const take = (merge: boolean): void => {
    setAsks(false);
    void revert(call, merge);
  };
  if (!asks) {
    return (
      <span class="end">
        <button type="button" onClick={() => setAsks(true)}>
          Revert
        </button>
      </span>
    );
  }
  return (
    <span class="end buttons">
      <button ref={sure} type="button" class="bad" onClick={() => take(false)}>
        Really revert
      </button>
      {state === "failed" && (
        <button type="button" class="bad" onClick={() => take(true)}>
          Revert, and keep what was changed since
        </button>
      )}
      <button type="button" onClick={() => setAsks(false)}>
        Keep the changes
      </button>
    </span>
  );
}

function Outcome({ call }: { call: Call }): JSX.Element | null {
  const known = reverting(call.callId);
  if (known === undefined) return null;
  const { state, callId, wrong } = known;
  const prompt = asking.value.get(callId);
  return (
    <p class={state === "failed" ? "bad box" : "dim"} role="status">
      {state === "runs" && (prompt === undefined ? "Reverting… " : "Reverting needs your answer: ")}
      {state === "done" && "The changes of this call are taken back: "}
      {state === "failed" && `Not reverted: ${short(wrong, 1_000)} `}
      {prompt === undefined ? (
        <a href={address("calls", callId)}>the call that reverts</a>
      ) : (
        <a href={address("prompts", prompt.promptId)}>the prompt</a>
      )}
    </p>
  );
}
