// A diff, with the lines that it adds and removes told apart by sign, colour and words.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { parseDiff, type DiffLine } from "../diff";
import { count, visible } from "../text";
import { Rows } from "./Rows";

const HEIGHT = 20;
/** Rows up to which a diff is shown in full height. */
const TALL = 28;
/** Characters of a line that are shown: a longer one is no help for the eyes, and the input has it whole. */
const LINE = 2_000;

const SIGNS = { added: "+", removed: "−", same: " ", file: "", hunk: "", note: "" };
const WORDS = { added: "added: ", removed: "removed: ", same: "", file: "file: ", hunk: "", note: "" };

interface DiffProps {
  text: string;
  /** Lines that are in sight at once. */
  most?: number;
  /** Whether what is above it says already which file it changes, and how much. */
  isNamed?: boolean;
}

/** Shows a unified diff. */
export function Diff({ text, most = TALL, isNamed = false }: DiffProps): JSX.Element {
  const diff = useMemo(() => parseDiff(text), [text]);
  const lines = isNamed ? diff.lines.filter(({ kind }) => kind !== "file") : diff.lines;
  const summary = `${count(diff.added, "line")} added, ${diff.removed.toLocaleString()} removed`;
  return (
    <figure class="diff">
      <figcaption class={isNamed ? "sr" : undefined}>
        Diff: <span class="plus">+{diff.added.toLocaleString()}</span>{" "}
        <span class="minus">−{diff.removed.toLocaleString()}</span> <span class="sr">({summary})</span>
      </figcaption>
      <div class="diff-box" style={{ height: `${Math.min(most, lines.length) * HEIGHT + 8}px` }}>
        <Rows
          count={lines.length}
          height={HEIGHT}
          label={`Diff, ${summary}`}
          render={(index) => <Line key={index} line={lines[index]!} />}
        />
      </div>
    </figure>
  );
}

function Line({ line }: { line: DiffLine }): JSX.Element {
  const text = line.text.length > LINE ? `${line.text.slice(0, LINE)}… (${line.text.length} characters)` : line.text;
  return (
    <div class={`diff-line ${line.kind}`}>
      <span class="number" aria-hidden="true">
        {line.before}
      </span>
      <span class="number" aria-hidden="true">
        {line.after}
      </span>
      <span class="sign" aria-hidden="true">
        {SIGNS[line.kind]}
      </span>
      <span class="sr">{WORDS[line.kind]}</span>
      <code>{visible(text)}</code>
    </div>
  );
}
