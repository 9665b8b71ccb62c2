// What came of a call: what the model reads, attachments, metadata.

import type { ComponentChildren, JSX } from "preact";
import { toClipboard } from "../browser";
import { changedBy } from "../did";
import { bare, bytes, count, visible } from "../text";
import type { Attachment, Call } from "../gen/toolgate/v1/call_pb";
import { Diff } from "./Diff";
import { Painted } from "./Painted";

const LONG = 100_000;

/** A text that may be far too long to be looked at; of an output with the colours that it has. */
export function Text({ text, colours = false }: { text: string; colours?: boolean }): JSX.Element {
  const cut = text.length > LONG;
  const shown = cut ? text.slice(0, LONG) : text;
  return (
    <>
      <pre class="text">{colours ? <Painted text={shown} /> : visible(shown)}</pre>
      {cut && (
        <p class="dim">
          The first {LONG.toLocaleString()} of {text.length.toLocaleString()} characters.
        </p>
      )}
    </>
  );
}

/** Shows what came of a call. */
export function Result({ call }: { call: Call }): JSX.Element {
  const ending = call.ending.value;
  if (ending === undefined) return <p class="blank">The call has not ended.</p>;
  const { diff, ...others } = (ending.metadata ?? {}) as Record<string, unknown>;
  // What the head of the call shows of its files is not shown again.
  const isDiff = typeof diff === "string" && diff !== "" && changedBy(call).every((file) => file.diff === "");
  const text = call.ending.case === "completed" ? call.ending.value.output : (call.ending.value?.error ?? "");
  return (
    <div class="fill scroll" role="region" aria-label="Result" tabIndex={0}>
      {isDiff && <Diff text={diff} />}
      <Part title="What the model reads">
        <p class="buttons">
          <button type="button" class="small" onClick={() => toClipboard(bare(text), "Copied, without colours.")}>
            Copy
          </button>
        </p>
        <Text text={text} colours />
      </Part>
      {ending.truncation?.truncated && (
        <p class="dim">
          Shortened for the model: the whole has {bytes(Number(ending.truncation.totalBytes))} in{" "}
          {count(Number(ending.truncation.totalLines), "line")}.
        </p>
      )}
      {ending.attachments.length > 0 && (
        <Part title="Attachments">
          <ul>
            {ending.attachments.map((one) => (
              <li key={one.attachmentId}>{describe(one)}</li>
            ))}
          </ul>
        </Part>
      )}
      {Object.keys(others).length > 0 && (
        <Part title="Metadata">
          <Text text={JSON.stringify(others, null, 2)} />
        </Part>
      )}
    </div>
  );
}

function describe(one: Attachment): string {
  const size = one.content.case === "data" ? bytes(one.content.value.length) : visible(one.content.value ?? "");
  return `${visible(one.filename || one.attachmentId)} (${visible(one.mime)}, ${size})`;
}

function Part({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return (
    <section>
      <h3>{title}</h3>
      {children}
    </section>
  );
}
