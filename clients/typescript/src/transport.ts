/** Puts credentials and the client's end on every RPC of a transport, whatever the transport is. */
import type { DescMessage, DescMethodStreaming, DescMethodUnary, MessageInitShape } from "@bufbuild/protobuf";
import type { ContextValues, StreamResponse, Transport, UnaryResponse } from "@connectrpc/connect";
import { follow } from "./time.js";

/** A bearer token, or what gives a fresh one for each RPC. */
export type Token = string | (() => string | Promise<string>);

/** What a {@link ClientTransport} needs to know. */
export interface ClientTransportOptions {
  /** The token, if there is one. */
  readonly token: Token | undefined;
  /** Aborted when the client is closed. */
  readonly closed: AbortSignal;
  /** Called whenever the server has answered. */
  readonly onAnswer: () => void;
}

/** A transport that sends the token, and ends what is open when the client is closed. */
export class ClientTransport implements Transport {
  readonly #inner: Transport;
  readonly #options: ClientTransportOptions;

  constructor(inner: Transport, options: ClientTransportOptions) {
    this.#inner = inner;
    this.#options = options;
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: MessageInitShape<I>,
    contextValues?: ContextValues,
  ): Promise<UnaryResponse<I, O>> {
    const controller = new AbortController();
    const release = follow(controller, signal, this.#options.closed);
    try {
      const headers = await this.#headers(header);
      const response = await this.#inner.unary(method, controller.signal, timeoutMs, headers, input, contextValues);
      this.#options.onAnswer();
      return response;
    } finally {
      release();
    }
  }

  async stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: AsyncIterable<MessageInitShape<I>>,
    contextValues?: ContextValues,
  ): Promise<StreamResponse<I, O>> {
    const controller = new AbortController();
    const release = follow(controller, signal, this.#options.closed);
    controller.signal.addEventListener("abort", release, { once: true });
    try {
      const headers = await this.#headers(header);
      const response = await this.#inner.stream(method, controller.signal, timeoutMs, headers, input, contextValues);
      this.#options.onAnswer();
      return { ...response, message: finishing(response.message, release) };
    } catch (error) {
      release();
      throw error;
    }
  }

  async #headers(given: HeadersInit | undefined): Promise<Headers> {
    const headers = new Headers(given);
    const { token } = this.#options;
    const text = typeof token === "function" ? await token() : token;
    if (text && !headers.has("authorization")) {
      headers.set("authorization", `Bearer ${text}`);
    }
    return headers;
  }
}

async function* finishing<T>(messages: AsyncIterable<T>, finished: () => void): AsyncGenerator<T> {
  try {
    yield* messages;
  } finally {
    finished();
  }
}
