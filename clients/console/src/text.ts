// Texts for people: times, sizes, and strings from elsewhere made safe to look at.

import type { WorkspaceUsage } from "./gen/toolgate/v1/info_service_pb";

/** Characters that a person would not see, or that would make a text look like another one: controls, and marks that turn
 * the direction of writing. Tab and newline stay. */
const HIDDEN =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Makes what is hidden in a text visible, as `\u{202e}`. What a person approves must be what the person reads. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (found) => `\\u{${found.codePointAt(0)!.toString(16)}}`);
}

/** The sequences with which programs colour a terminal, move its cursor and set its title. */
export const TERMINAL = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_])/g;

/** Returns output without colours, as it is copied. */
export function bare(text: string): string {
  return text.includes("\u001b") ? text.replace(TERMINAL, "") : text;
}

/** Returns a line of output without colours, with everything else that is hidden made visible. */
export function plain(line: string): string {
  return visible(bare(line));
}

/** Cuts a text for one line. */
export function short(text: string, most: number): string {
  const line = visible(text).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** Writes a duration in milliseconds: `250 ms`, `2.5 s`, `12 s`, `3 min 5 s`. */
export function duration(millis: number): string {
  if (millis < 1000) return `${Math.max(0, Math.floor(millis))} ms`;
  const seconds = millis / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const whole = Math.floor(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** Writes a number of bytes: `512 B`, `12.3 KiB`. */
export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = count / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

const sameDay = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const otherDay = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Writes a moment; without the date if it is today's. */
export function moment(millis: number): string {
  const date = new Date(millis);
  return (date.toDateString() === new Date().toDateString() ? sameDay : otherDay).format(date);
}

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 1,
});

/** Writes the time of day of a line of output, to a tenth of a second. */
export function timeOfDay(millis: number): string {
  return clock.format(millis);
}

/** Writes a number and what it counts. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}

/** Writes what a workspace uses: `2 calls, 3 processes, 12.3 MiB, 250 ms of processor`. */
export function used(usage: WorkspaceUsage, processorMillis: number): string {
  return [
    count(usage.runningCalls, "call"),
    count(usage.processes, "process", "processes"),
    bytes(Number(usage.memoryBytes)),
    `${duration(processorMillis)} of processor`,
  ].join(", ");
}

/** Returns JSON text with line breaks, or the text as it is if it is no JSON. */
export function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
