/** Bytes as they come: web streams, iterables, and what is made of them. */

/** Returns pieces as a web stream, each of which is asked for when the stream is read. */
export function readableOf(pieces: AsyncGenerator<Uint8Array, unknown, undefined>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const next = await pieces.next();
      if (next.done) {
        controller.close();
      } else {
        controller.enqueue(next.value);
      }
    },
    async cancel() {
      await pieces.return(undefined);
    },
  });
}

/** Returns the pieces of a web stream, which not every browser can iterate over. Leaving the loop cancels it. */
export async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const next = await reader.read();
      if (next.done) {
        return;
      }
      yield next.value;
    }
  } finally {
    await reader.cancel();
  }
}

/** Cuts bytes into pieces of at most `size`. */
export function* cut(bytes: Uint8Array, size: number): Generator<Uint8Array, void, undefined> {
  for (let start = 0; start < bytes.length; start += size) {
    yield bytes.subarray(start, start + size);
  }
}

/** Joins pieces. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let filled = 0;
  for (const piece of pieces) {
    all.set(piece, filled);
    filled += piece.length;
  }
  return all;
}

/** Returns text as UTF-8, and bytes as they are. */
export function bytesOf(content: string | Uint8Array): Uint8Array {
  return typeof content === "string" ? new TextEncoder().encode(content) : content;
}

/** Reads pieces as text. What is not UTF-8 is replaced. */
export async function textOf(pieces: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of pieces) {
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}
