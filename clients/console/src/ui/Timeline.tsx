// When calls were queued, waited for people and ran: a chart of which each row is a call.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { hasEnded, lookUpSpans, type Row, type Span } from "../calls";
import { now } from "../clock";
import { go, isNarrow, place } from "../route";
import { filtered } from "../search";
import { count, duration, moment, short } from "../text";
import { CallState } from "../gen/toolgate/v1/call_pb";
import { Finder } from "./Calls";
import { ListBox } from "./Rows";
import { stateWords } from "./State";
import { titled } from "./titled";

const HEIGHT = 30;
/** The chart's own units from left to right; it is stretched to the width that there is. */
const WIDE = 1_000;

const MINUTE = 60_000;
const RANGES: [number, string][] = [
  [MINUTE, "1 minute"],
  [5 * MINUTE, "5 minutes"],
  [15 * MINUTE, "15 minutes"],
  [60 * MINUTE, "1 hour"],
  [6 * 60 * MINUTE, "6 hours"],
  [24 * 60 * MINUTE, "1 day"],
  [7 * 24 * 60 * MINUTE, "7 days"],
];

interface Frame {
  from: number;
  to: number;
}

/** Shows the chart. */
export function Timeline(): JSX.Element {
  const [range, setRange] = useState(5 * MINUTE);
  // None while the right edge is now.
  const [fixed, setFixed] = useState<number | undefined>();
  const to = fixed ?? now.value;
  const frame = { from: to - range, to };
  const all = filtered.value;
  const rows = useMemo(
    () => all.filter((row) => row.created <= frame.to && (row.ended ?? Infinity) >= frame.from),
    [all, frame.from, frame.to],
  );
  const chosen = place.value.id;
  return (
    <div class="timeline">
      <div class="controls">
        <Finder />
        <div class="buttons" role="group" aria-label="Time shown">
          <button type="button" onClick={() => setFixed(to - range / 2)}>
            <span aria-hidden="true">←</span> Earlier
          </button>
          <label>
            <span class="sr">Length of time shown</span>
            <select value={range} onChange={(event) => setRange(Number(event.currentTarget.value))}>
              {RANGES.map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </select>
          </label>
          <button
            type="button"
            disabled={fixed === undefined}
            onClick={() => setFixed(to + range / 2 >= Date.now() ? undefined : to + range / 2)}
          >
            Later <span aria-hidden="true">→</span>
          </button>
          <button type="button" disabled={fixed === undefined} onClick={() => setFixed(undefined)}>
            Now
          </button>
        </div>
        <Legend />
      </div>
      <p class="sr" role="status">
        {count(rows.length, "call")} shown
      </p>
      <Axis frame={frame} />
      <ListBox
        class="chart"
        items={rows}
        id={(row) => row.id}
        chosen={chosen}
        onChoose={(id) => go("timeline", id, "replace")}
        onOpen={(id) => go("calls", id)}
        height={HEIGHT}
        label="Timeline of calls, newest first; Enter opens a call"
        name="timeline"
        render={(row) => <Bar row={row} frame={frame} />}
        empty={
          <p>
            No calls in this time.{" "}
            {all[0] !== undefined && (
              <button type="button" onClick={() => setFixed((all[0]!.ended ?? all[0]!.created) + range / 10)}>
                Show the latest
              </button>
            )}
          </p>
        }
      />
    </div>
  );
}

/** How long each kind of time took in all. */
function sums(row: Row): Record<Span["kind"], number> {
  const sum = { queued: 0, waiting: 0, running: 0 };
  for (const span of row.spans) sum[span.kind] += Math.max(0, (span.to ?? now.value) - span.from);
  return sum;
}

/** Says what the chart shows. */
function says(row: Row): string {
  const { queued, waiting, running } = sums(row);
  const times = `queued ${duration(queued)}, waited for people ${duration(waiting)}, ran ${duration(running)}`;
  return `${stateWords(row)}, began ${moment(row.created)}, ${times}`;
}

function Bar({ row, frame }: { row: Row; frame: Frame }): JSX.Element {
  useEffect(() => {
    if (!row.exact && (row.waited > 0 || !hasEnded(row.state))) void lookUpSpans(row);
  }, [row.id, row.state, row.exact]);
  const x = (time: number): number =>
    (Math.min(frame.to, Math.max(frame.from, time)) - frame.from) * (WIDE / (frame.to - frame.from));
  return (
    <>
      <span class="name">
        <b>{short(row.tool, 24)}</b> <span class="dim">{titled(row, 60)}</span>
      </span>
      <span class="bars">
        <svg viewBox={`0 0 ${WIDE} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true" focusable="false">
          {row.spans.map((span, index) => {
            const [from, to] = [x(span.from), x(span.to ?? row.ended ?? frame.to)];
            if (to <= from && (span.from < frame.from || span.from > frame.to)) return null;
            const [y, high] = span.kind === "queued" ? [12, 6] : [7, 16];
            return (
              <rect
                key={index}
                class={`span ${span.kind}`}
                x={from}
                y={y}
                width={Math.max(2, to - from)}
                height={high}
              />
            );
          })}
        </svg>
        {row.state === CallState.FAILED && row.ended !== undefined && row.ended <= frame.to && (
          <span class="failed-mark" aria-hidden="true" style={{ left: `${x(row.ended) / (WIDE / 100)}%` }}>
            ✕
          </span>
        )}
      </span>
      <span class="took dim">
        {duration((row.ended ?? now.value) - row.created)}
        <span class="sr">, {says(row)}</span>
      </span>
    </>
  );
}

/** A step between the marks of the axis, so that there are some five to ten, or two to three where it is narrow. */
function step(range: number): number {
  const steps = [5_000, 10_000, 30_000, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE].concat(
    [1, 3, 6, 12, 24].map((hours) => hours * 60 * MINUTE),
  );
  return steps.find((one) => range / one <= (isNarrow.value ? 3 : 8)) ?? steps.at(-1)!;
}

function Axis({ frame }: { frame: Frame }): JSX.Element {
  const range = frame.to - frame.from;
  const every = step(range);
  const zone = new Date(frame.to).getTimezoneOffset() * MINUTE;
  const marks: number[] = [];
  for (let at = Math.ceil((frame.from - zone) / every) * every + zone; at <= frame.to; at += every) marks.push(at);
  const format = new Intl.DateTimeFormat(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    ...(every < MINUTE ? { second: "2-digit" } : {}),
    ...(range > 24 * 60 * MINUTE ? { day: "numeric", month: "short" } : {}),
  });
  return (
    <div class="axis" aria-hidden="true">
      <span class="name" />
      <span class="bars">
        {marks.map((at) => (
          <span key={at} class="mark" style={{ left: `${((at - frame.from) / range) * 100}%` }}>
            {format.format(at)}
          </span>
        ))}
      </span>
      <span class="took" />
    </div>
  );
}

function Legend(): JSX.Element {
  const kinds: [Span["kind"], string][] = [
    ["queued", "Queued"],
    ["waiting", "Waiting for people"],
    ["running", "Running"],
  ];
  return (
    <ul class="legend" aria-label="Legend">
      {kinds.map(([kind, text]) => (
        <li key={kind}>
          <svg width="22" height="14" aria-hidden="true" focusable="false">
            <rect
              class={`span ${kind}`}
              x="1"
              y={kind === "queued" ? 4 : 1}
              width="20"
              height={kind === "queued" ? 6 : 12}
            />
          </svg>
          {text}
        </li>
      ))}
      <li>
        <span class="failed-mark" aria-hidden="true">
          ✕
        </span>
        Failed
      </li>
    </ul>
  );
}

/** What waiting is drawn with: stripes, so that it is told from running without colours. */
export function Stripes(): JSX.Element {
  return (
    <svg class="defs" width="0" height="0" aria-hidden="true" focusable="false">
      <defs>
        <pattern id="stripes" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect class="stripe-back" width="8" height="8" />
          <rect class="stripe" width="4" height="8" />
        </pattern>
      </defs>
    </svg>
  );
}
