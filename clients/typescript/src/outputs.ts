/** The whole outputs that calls produced, while they are written and after. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  Output as OutputInfo,
  ReadOutputRequestSchema,
  SearchOutputResponse,
} from "./gen/toolgate/v1/output_service_pb.js";
import type { Link } from "./link.js";
import { readableOf, textOf } from "./streams.js";

/** Which bytes to read. */
export interface ReadOptions {
  /** The first byte, from 0. */
  readonly offset?: number | undefined;
  /** At most this many; all that follow by default. */
  readonly limit?: number | undefined;
  /** Gives the reading up. */
  readonly signal?: AbortSignal | undefined;
}

/** Which lines to read. */
export interface LinesOptions {
  /** The first line, from 1. */
  readonly first?: number | undefined;
  /** At most this many; all that follow by default. */
  readonly limit?: number | undefined;
  /** Gives the reading up. */
  readonly signal?: AbortSignal | undefined;
}

/** How to search. */
export interface SearchOptions {
  /** Lines to show before each match, at most 20. */
  readonly before?: number | undefined;
  /** Lines to show after each match, at most 20. */
  readonly after?: number | undefined;
  /** At most this many matching lines; 100 by default, at most 1000. */
  readonly maxMatches?: number | undefined;
  /** Gives the search up. */
  readonly signal?: AbortSignal | undefined;
}

type Range = NonNullable<MessageInitShape<typeof ReadOutputRequestSchema>["range"]>;

/** One stored output. Reading goes on where it was after a lost connection. */
export class Output {
  /** The output's id. */
  readonly id: string;
  readonly #link: Link;

  /** @internal */
  constructor(link: Link, id: string) {
    this.#link = link;
    this.id = id;
  }

  /** Returns size, digest and times. */
  async info(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<OutputInfo> {
    const call = await this.#link.retrying(
      (call) => this.#link.rpc.outputs.getOutput({ outputId: this.id }, call),
      options,
    );
    // The contract sets it in every answer.
    return call.output as OutputInfo;
  }

  /** Reads bytes, in pieces of at most 64 KiB. */
  async *bytes({ offset = 0, limit = 0, signal }: ReadOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    let next = BigInt(offset);
    const end = limit > 0 ? next + BigInt(limit) : undefined;
    const range = (): Range => {
      return { case: "bytes", value: { offset: next, limit: end === undefined ? 0n : end - next } };
    };
    for await (const data of this.#pieces(range, signal)) {
      next += BigInt(data.length);
      yield data;
      if (next === end) {
        return;
      }
    }
  }

  /** Reads bytes as a web stream, for `Response`, `Blob` and pipes. */
  stream(options: ReadOptions = {}): ReadableStream<Uint8Array> {
    return readableOf(this.bytes(options));
  }

  /** Reads lines, without their line feeds. What is not UTF-8 is replaced. */
  async *lines({ first = 1, limit = 0, signal }: LinesOptions = {}): AsyncGenerator<string, void, undefined> {
    let next = BigInt(first);
    const end = limit > 0 ? next + BigInt(limit) : undefined;
    let decoder = new TextDecoder();
    let rest = "";
    const range = (): Range => {
      // After a lost connection the line that was begun is read again.
      decoder = new TextDecoder();
      rest = "";
      return { case: "lines", value: { firstLine: next, limit: end === undefined ? 0n : end - next } };
    };
    for await (const data of this.#pieces(range, signal)) {
      const lines = (rest + decoder.decode(data, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        next += 1n;
        yield line;
        if (next === end) {
          return;
        }
      }
    }
    rest += decoder.decode();
    if (rest !== "") {
      yield rest;
    }
  }

  /** Reads the last lines. What is not UTF-8 is replaced. */
  async tail(lines: number, options: { readonly signal?: AbortSignal | undefined } = {}): Promise<string> {
    let text: string[] = [];
    let decoder = new TextDecoder();
    const range = (): Range => {
      decoder = new TextDecoder();
      text = [];
      return { case: "tail", value: { lines: BigInt(lines) } };
    };
    for await (const data of this.#pieces(range, options.signal)) {
      text.push(decoder.decode(data, { stream: true }));
    }
    return text.join("") + decoder.decode();
  }

  /** Reads bytes as text. What is not UTF-8 is replaced. */
  text(options: ReadOptions = {}): Promise<string> {
    return textOf(this.bytes(options));
  }

  /** Searches line by line for a regular expression in Rust's syntax; `(?i)` in front ignores case. */
  search(pattern: string, options: SearchOptions = {}): Promise<SearchOutputResponse> {
    const { before = 0, after = 0, maxMatches = 0, signal } = options;
    const request = { outputId: this.id, pattern, beforeContext: before, afterContext: after, maxMatches };
    return this.#link.retrying((call) => this.#link.rpc.outputs.searchOutput(request, call), { signal });
  }

  /** Deletes the output. The record of its call stays. */
  async delete(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    await this.#link.once((call) => this.#link.rpc.outputs.deleteOutput({ outputId: this.id }, call), options);
  }

  /** Reads a range; after a lost connection `range` says what is still wanted. */
  async *#pieces(range: () => Range, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array, void, undefined> {
    const messages = this.#link.resuming(
      (call) => this.#link.rpc.outputs.readOutput({ outputId: this.id, range: range() }, call),
      signal,
    );
    for await (const { data } of messages) {
      yield data;
    }
  }
}
