// A part of an output that may be far larger: bounded bytes, and the lines in them.

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

  /** Returns the rows. */
  rows(): readonly TextRow[] {
    this.split ??= rowsOf(this.text());
    return this.split;
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

function rowsOf(text: string): TextRow[] {
  const rows: TextRow[] = [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const [line, whole] of lines.entries()) {
    let continued = false;
    // What a program wrote over its own line is shown below it: nothing is lost.
    for (const piece of (whole.endsWith("\r") ? whole.slice(0, -1) : whole).split("\r")) {
      for (let at = 0; at === 0 || at < piece.length; at += ROW) {
        rows.push({ text: piece.slice(at, at + ROW), line, continued });
        continued = true;
      }
    }
  }
  return rows;
}
