// The terminal of a running call: what it shows, and what is typed into it.

import { signal } from "@preact/signals";
import type { IBufferCell, Terminal } from "@xterm/headless";
import { problem, tools } from "./api";
import { sequence } from "./keys";

/** Cells in a row that look the same. */
export interface Span {
  text: string;
  look: Record<string, string>;
  isCursor: boolean;
}

/** Pieces of output that wait for the first drawing. */
const MOST_WAITING = 2_000;

/** Draws the terminal of one call and types into it. */
export class Screen {
  /** Changes when what is shown does. */
  readonly version = signal(0);
  readonly size = signal({ columns: 80, rows: 24 });
  /** What went wrong, or empty. */
  readonly wrong = signal("");

  private emulator: Terminal | undefined;
  /** Bytes of the output that are drawn. */
  private drawn = 0;
  private loads = true;
  private waiting: { offset: number; data: Uint8Array }[] = [];
  private sent: Promise<void> = Promise.resolve();

  constructor(readonly id: string) {
    void this.load();
  }

  /** Draws everything anew, as the service has it. */
  async load(): Promise<void> {
    this.loads = true;
    try {
      const { Terminal } = await import("./emulator.js");
      const { size, contents, outputOffset } = await tools.getTerminal({ callId: this.id });
      if (size !== undefined) this.size.value = { columns: size.columns, rows: size.rows };
      const { columns, rows } = this.size.value;
      const emulator = new Terminal({ cols: columns, rows, scrollback: 0, allowProposedApi: true });
      emulator.write(contents, () => {
        // What programs ask of the terminal it answers; what was asked earlier has its answer.
        emulator.onData((text) => this.type(text));
        this.version.value += 1;
      });
      this.emulator = emulator;
      this.drawn = Number(outputOffset);
      this.loads = false;
      for (const { offset, data } of this.waiting.splice(0)) this.output(offset, data);
    } catch (error) {
      this.wrong.value = problem(error);
    }
  }

  /** Draws output that comes. */
  output(offset: number, data: Uint8Array): void {
    if (this.emulator === undefined || this.loads) {
      if (this.waiting.length < MOST_WAITING) this.waiting.push({ offset, data });
      return;
    }
    const known = this.drawn - offset;
    // A part was left out.
    if (known < 0) return void this.load();
    if (known >= data.length) return;
    this.emulator.write(data.subarray(known), () => (this.version.value += 1));
    this.drawn = offset + data.length;
  }

  /** Gives the terminal another size. */
  async resize(columns: number, rows: number): Promise<void> {
    const size = { columns: Math.min(500, Math.max(1, columns)), rows: Math.min(200, Math.max(1, rows)) };
    try {
      await tools.resizeTerminal({ callId: this.id, size });
      await this.load();
    } catch (error) {
      this.wrong.value = problem(error);
    }
  }

  /** Sends what is typed, in order. */
  type(text: string): void {
    const data = new TextEncoder().encode(text);
    this.sent = this.sent.then(async () => {
      try {
        // Others may type too: where the input goes on is asked for each time.
        const { nextOffset } = await tools.sendInput({ callId: this.id });
        await tools.sendInput({ callId: this.id, offset: nextOffset, data });
        this.wrong.value = "";
      } catch (error) {
        this.wrong.value = problem(error);
      }
    });
  }

  /** Pastes a text, so that programs that want to know can tell it from typing. */
  paste(text: string): void {
    const typed = text.replace(/\r?\n/g, "\r");
    this.type(this.emulator?.modes.bracketedPasteMode ? `\u001b[200~${typed}\u001b[201~` : typed);
  }

  /** Types a key. Returns whether it is one for the terminal. */
  press(event: KeyboardEvent): boolean {
    const keys = sequence(event, this.emulator?.modes.applicationCursorKeysMode ?? false);
    if (keys === undefined) return false;
    this.type(keys);
    return true;
  }

  /** Returns what is shown, row by row. */
  rows(): Span[][] {
    const buffer = this.emulator?.buffer.active;
    if (buffer === undefined) return [];
    const rows: Span[][] = [];
    for (let row = 0; row < this.size.value.rows; row += 1) {
      const line = buffer.getLine(buffer.baseY + row);
      const spans: Span[] = [];
      let before = "";
      for (let column = 0; column < this.size.value.columns; column += 1) {
        const cell = line?.getCell(column);
        // The second half of a wide character.
        if (cell === undefined || cell.getWidth() === 0) continue;
        const isCursor = row === buffer.cursorY && column === buffer.cursorX;
        const look = lookOf(cell);
        const key = `${isCursor} ${JSON.stringify(look)}`;
        const text = cell.getChars().replace(HIDDEN, "") || " ";
        if (key === before) spans[spans.length - 1]!.text += text;
        else spans.push({ text, look, isCursor });
        before = key;
      }
      rows.push(spans);
    }
    return rows;
  }
}

/** Marks that would turn the direction of writing, or be seen by nobody. */
const HIDDEN = /[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

const PALETTE = [
  "#000000 #f26d6d #0dbc79 #e5e510 #4a8ff0 #d05cd0 #11a8cd #e5e5e5",
  "#8f98a3 #ff8a8a #23d18b #f5f543 #6cacff #e78be7 #29b8db #ffffff",
].flatMap((line) => line.split(" "));

function colour(index: number): string {
  if (index < 16) return PALETTE[index]!;
  if (index >= 232)
    return `rgb(${Array(3)
      .fill(8 + (index - 232) * 10)
      .join(" ")})`;
  const level = (part: number): number => (part === 0 ? 0 : 55 + part * 40);
  const cube = index - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}

function shade(isDefault: boolean, isRgb: boolean, value: number): string | undefined {
  if (isDefault) return undefined;
  return isRgb ? `#${value.toString(16).padStart(6, "0")}` : colour(value);
}

function lookOf(cell: IBufferCell): Record<string, string> {
  let front = shade(cell.isFgDefault(), cell.isFgRGB(), cell.getFgColor());
  let back = shade(cell.isBgDefault(), cell.isBgRGB(), cell.getBgColor());
  if (cell.isInverse()) [front, back] = [back ?? "var(--screen)", front ?? "var(--ink)"];
  if (cell.isInvisible()) front = back ?? "var(--screen)";
  const lines = [cell.isUnderline() && "underline", cell.isStrikethrough() && "line-through"].filter(Boolean).join(" ");
  return {
    ...(front && { color: front }),
    ...(back && { background: back }),
    ...(cell.isBold() && { fontWeight: "700" }),
    ...(cell.isDim() && { opacity: "0.7" }),
    ...(cell.isItalic() && { fontStyle: "italic" }),
    ...(lines && { textDecoration: lines }),
  };
}
