/** What is pushed at one end and read with `for await` at the other. */
export class Queue<T> implements AsyncIterable<T> {
  readonly #waiting: T[] = [];
  #wake: (() => void) | undefined;
  #closed = false;

  /** Adds a value; ignored after `close`. */
  push(value: T): void {
    if (!this.#closed) {
      this.#waiting.push(value);
      this.#wake?.();
    }
  }

  /** Ends the reading once everything has been read. */
  close(): void {
    this.#closed = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const value = this.#waiting.shift();
      if (value !== undefined) {
        yield value;
      } else if (this.#closed) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}
