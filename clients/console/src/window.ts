// A part of an output that may be far larger: bounded bytes, and the lines in them.

import { after, PLAIN, type Look } from "./ansi";
import { TERMINAL } from "./text";

/** Bytes that are kept and shown at once. */
export const MOST_BYTES = 512 * 1024;
/** Characters of a line that are shown in one row; a longer line goes on in the next. */
const ROW = 2_000;

/** One row on the screen. */
export interface TextRow {
  text: string;
  /** Where its line begins, from the first line of the window, counted from 0. */
  line: number;
  /** Whether it goes on with the line of the row above. */
  continued: boolean;
  /** How it looks where it begins: colours last until they are switched off. */
  look: Look;
}

const decoder = new TextDecoder("utf-8");
const NEWLINE = 10;

/** Contiguous bytes of an output. */
export class Window {
  private first = 0;
  private bytes = new Uint8Array();
  /** What came after those bytes and has not been joined to them yet. */
  private fresh: Uint8Array[] = [];
  private freshLength = 0;
  private split: TextRow[] | undefined;
  private starts: number[] | undefined;
  private most = ROW;

  /** The absolute offset of the first byte. */
  get start(): number {
    this.join();
    return this.first;
  }

  /** The absolute offset behind the last byte. */
  get end(): number {
    return this.first + this.bytes.length + this.freshLength;
  }

  /** Shows these bytes and no others. */
  replace(offset: number, data: Uint8Array): void {
    this.set(offset, data.slice(0, MOST_BYTES));
  }

  /** Takes bytes that follow, and lets go of the first ones when there are too many. Bytes that do not follow, because some
   * are missing between, take the place of all others. */
  append(offset: number, data: Uint8Array): void {
    const skip = this.end - offset;
    if (skip >= data.length && offset >= this.first) return;
    if (skip < 0 || offset < this.first) {
      this.set(offset, data.slice());
      return;
    }
    const rest = data.slice(skip);
    this.fresh.push(rest);
    this.freshLength += rest.length;
    this.split = undefined;
    this.starts = undefined;
    if (this.freshLength > MOST_BYTES) this.join();
  }

  /** Takes bytes that come right before, and lets go of the last ones when there are too many. Returns how many rows came. */
  prepend(offset: number, data: Uint8Array): number {
    if (offset + data.length !== this.start) return 0;
    const before = this.rows().length;
    const joined = joinedOf([data, this.bytes]);
    this.set(offset, joined);
    const more = this.rows().length - before;
    if (joined.length > MOST_BYTES) this.set(offset, joined.slice(0, MOST_BYTES));
    return more;
  }

  /** Counts the line feeds before an absolute offset. */
  linesBefore(offset: number): number {
    this.join();
    let lines = 0;
    const end = Math.min(offset - this.first, this.bytes.length);
    for (let at = 0; at < end; at += 1) if (this.bytes[at] === NEWLINE) lines += 1;
    return lines;
  }

  /** Sets how many columns a row has; 0 for as many as may be. */
  wrap(columns: number): void {
    const most = columns > 0 ? Math.min(columns, ROW) : ROW;
    if (most === this.most) return;
    this.most = most;
    this.split = undefined;
  }

  /** Returns the rows. */
  rows(): readonly TextRow[] {
    this.split ??= rowsOf(this.text(), this.most);
    return this.split;
  }

  /** Returns the absolute offset where a line of the window begins. */
  startOf(line: number): number {
    this.join();
    this.starts ??= startsOf(this.bytes);
    return this.first + (this.starts[line] ?? this.bytes.length);
  }

  /** Returns the text. */
  text(): string {
    this.join();
    return decoder.decode(this.bytes.subarray(wholeFrom(this.bytes)));
  }

  private set(first: number, bytes: Uint8Array<ArrayBuffer>): void {
    this.first = first;
    this.bytes = bytes;
    this.fresh = [];
    this.freshLength = 0;
    this.split = undefined;
    this.starts = undefined;
  }

  private join(): void {
    if (this.fresh.length === 0) return;
    const all = joinedOf([this.bytes, ...this.fresh]);
    const drop = all.length > MOST_BYTES ? lineAfter(all, all.length - MOST_BYTES) : 0;
    this.set(this.first + drop, drop > 0 ? all.slice(drop) : all);
  }
}

function joinedOf(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let filled = 0;
  for (const part of parts) {
    joined.set(part, filled);
    filled += part.length;
  }
  return joined;
}

/** Returns where the next line begins, or the place itself if that is far away. */
function lineAfter(bytes: Uint8Array, from: number): number {
  const found = bytes.indexOf(NEWLINE, from);
  return found >= 0 && found - from < 4_096 ? found + 1 : from;
}

/** Returns where the first whole character begins. */
function wholeFrom(bytes: Uint8Array): number {
  let at = 0;
  while (at < 3 && at < bytes.length && (bytes[at]! & 0xc0) === 0x80) at += 1;
  return at;
}

function startsOf(bytes: Uint8Array): number[] {
  const starts = [0];
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) starts.push(at + 1);
  return starts;
}

function rowsOf(text: string, most: number): TextRow[] {
  const rows: TextRow[] = [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  let look = PLAIN;
  for (const [line, whole] of lines.entries()) {
    let continued = false;
    // What a program wrote over its own line is shown below it: nothing is lost.
    for (const piece of (whole.endsWith("\r") ? whole.slice(0, -1) : whole).split("\r")) {
      for (const row of cut(piece, most)) {
        rows.push({ text: row, line, continued, look });
        look = after(row, look);
        continued = true;
      }
    }
  }
  return rows;
}

/** Cuts a line into rows of so many columns. Sequences of terminals take none, and are not torn. */
function cut(line: string, most: number): string[] {
  if (line.length <= most && !WIDE.test(line)) return [line];
  const rows: string[] = [];
  const sequences = line.matchAll(TERMINAL);
  let next = sequences.next();
  let [from, columns] = [0, 0];
  for (let at = 0; at < line.length;) {
    if (next.value?.index === at) {
      at += next.value[0].length;
      next = sequences.next();
      continue;
    }
    const code = line.codePointAt(at)!;
    const wide = widthOf(code);
    if (columns + wide > most && at > from) {
      rows.push(line.slice(from, at));
      [from, columns] = [at, 0];
    }
    columns += wide;
    at += code > 0xffff ? 2 : 1;
  }
  rows.push(line.slice(from));
  return rows;
}

/** What may take more than one column. */
const WIDE = /[\t\u1100-\uffff]/;

/** Returns how many columns a character takes at most. */
function widthOf(code: number): number {
  return code === 9 ? 8 : code >= 0x1100 && !(code >= 0x2000 && code < 0x2e80) ? 2 : 1;
}
