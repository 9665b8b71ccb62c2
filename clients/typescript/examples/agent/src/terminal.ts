/** The terminal: lines in, text out, one line for what runs, and one question at a time. */

// Control characters and marks that turn the direction of text around. What comes from a model or a program could
// otherwise move the cursor, and show a person something else than what they allow.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Returns a text in which nothing is hidden from whoever reads it. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (found) => `\\x${found.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** What {@link Terminal.ask} takes beside the question. */
export interface AskOptions {
  /** Gives the question up. */
  readonly signal: AbortSignal;
  /** Takes a line that was typed before the question could be read. */
  readonly typedAhead?: boolean;
}

/** Standard input and output, on a terminal or not. */
export class Terminal {
  readonly #isTty = process.stdin.isTTY === true && process.stdout.isTTY === true;
  #lines: string[] = [];
  #ended = false;
  #waiting: (() => void) | undefined;
  #dialog: Promise<unknown> = Promise.resolve();
  #held: { text: string; isLine: boolean }[] | undefined;
  readonly #running = new Map<object, string>();
  #atStart = true;

  constructor() {
    let rest = "";
    const take = (lines: string[], ended: boolean) => {
      this.#lines.push(...lines);
      this.#ended ||= ended;
      this.#waiting?.();
    };
    const end = () => take(rest ? [rest] : [], true);
    process.stdin.setEncoding("utf8");
    process.stdin.on("data", (data: string) => {
      const lines = (rest + data).split("\n");
      rest = lines.pop() ?? "";
      take(lines, false);
    });
    process.stdin.once("end", end).once("error", end);
    // A terminal that is gone must not keep the agent from ending its calls.
    process.stdout.on("error", () => {});
  }

  /** Stops reading, which would keep the program from ending. */
  close(): void {
    process.stdin.destroy();
  }

  /** Returns the text in a colour of ANSI, where there are colours. */
  paint(code: number, text: string): string {
    return this.#isTty && process.env["NO_COLOR"] === undefined ? `\x1b[${code}m${text}\x1b[0m` : text;
  }

  /** Writes text that may go on in the same line. It waits while a person is being asked something. */
  write(text: string): void {
    this.#emit(text, false);
  }

  /** Writes a line of its own. */
  line(text: string): void {
    this.#emit(`${text}\n`, true);
  }

  /** Shows what something that runs is doing, below all else; undefined when it has ended. */
  running(key: object, text: string | undefined): void {
    this.#running.delete(key);
    if (text !== undefined) {
      this.#running.set(key, text);
    }
    this.#draw();
  }

  /** Has the terminal for questions: other questions and all output wait. */
  async dialog<T>(signal: AbortSignal, talk: () => Promise<T>): Promise<T> {
    const dialog = this.#dialog.then(async () => {
      signal.throwIfAborted();
      this.#emit("", true);
      this.#erase();
      this.#held = [];
      try {
        return await talk();
      } finally {
        const held = this.#held;
        this.#held = undefined;
        for (const { text, isLine } of held) {
          this.#emit(text, isLine);
        }
        this.#draw();
      }
    });
    this.#dialog = dialog.catch(() => {});
    return dialog;
  }

  /** Returns the line that is typed; undefined at the end of the input. To be used within `dialog`. */
  async ask(question: string, { signal, typedAhead = false }: AskOptions): Promise<string | undefined> {
    // What was typed before somebody could read the question is no answer to it.
    if (this.#isTty && !typedAhead) {
      this.#lines = [];
    }
    this.#put(question);
    try {
      await this.#typed(signal);
    } catch (error) {
      this.#put("\n");
      throw error;
    }
    const line = this.#lines.shift();
    if (line === undefined || !this.#isTty) {
      this.#put(`${line ?? ""}\n`);
    }
    this.#atStart = true;
    return line;
  }

  /** Writes a line at once. To be used within `dialog`. */
  say(text: string): void {
    this.#put(`${text}\n`);
  }

  async #typed(signal: AbortSignal): Promise<void> {
    if (this.#lines.length > 0 || this.#ended) {
      return;
    }
    signal.throwIfAborted();
    let abort = () => {};
    try {
      await new Promise<void>((resolve, reject) => {
        abort = () => reject(signal.reason);
        this.#waiting = resolve;
        signal.addEventListener("abort", abort);
      });
    } finally {
      signal.removeEventListener("abort", abort);
      this.#waiting = undefined;
    }
  }

  #emit(text: string, isLine: boolean): void {
    if (this.#held) {
      this.#held.push({ text, isLine });
      return;
    }
    this.#erase();
    this.#put((isLine && !this.#atStart ? "\n" : "") + text);
    this.#draw();
  }

  #put(text: string): void {
    process.stdout.write(text);
    if (text !== "") {
      this.#atStart = text.endsWith("\n");
    }
  }

  #erase(): void {
    if (this.#isTty && !this.#held && this.#atStart) {
      process.stdout.write("\r\x1b[K");
    }
  }

  #draw(): void {
    if (!this.#isTty || this.#held || !this.#atStart) {
      return;
    }
    const text = [...this.#running.values()].at(-1) ?? "";
    const more = this.#running.size > 1 ? ` (+${this.#running.size - 1})` : "";
    const width = process.stdout.columns - more.length - 1;
    process.stdout.write(`\r\x1b[K${text.slice(0, width)}${more}`);
  }
}
