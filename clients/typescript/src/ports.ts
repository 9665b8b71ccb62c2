/** What programs of a call listen on: opened after a question, then connected to. */
import { ToolgateError } from "./errors.js";
import type { ListeningPort as ListeningPortMessage } from "./gen/toolgate/v1/call_pb.js";
import type { OpenPortResponse } from "./gen/toolgate/v1/port_service_pb.js";
import type { Link } from "./link.js";
import type { SignalOptions } from "./options.js";
import { cut, piecesOf } from "./streams.js";
import { follow } from "./time.js";

/** What the contract allows in one message. */
const PIECE_BYTES = 1024 * 1024;

/** A TCP port of the service's machine that a program of a call listens on. */
export interface ListeningPort {
  /** The port. */
  readonly port: number;
  /** The address that it listens on: `127.0.0.1`, or `0.0.0.0` or `::` for all. */
  readonly address: string;
  /** A process that listens there. */
  readonly pid: number;
  /** The command line of that process. */
  readonly command: string;
}

/** A connection to a program. */
export interface PortConnection {
  /** What the program sends. It ends when the program has closed its side; cancelling it breaks the connection. */
  readonly readable: ReadableStream<Uint8Array>;
  /** What goes to the program. Closing it lets the program read the end, and leaves `readable` open. */
  readonly writable: WritableStream<Uint8Array>;
}

/** What an {@link OpenedPort} is made of. */
export interface OpenedPortOptions {
  /** Where the service answers HTTP. */
  readonly baseUrl: string | undefined;
  /** Whether the transport streams in both directions. */
  readonly streams: boolean;
  /** Ends the call that keeps the port open. */
  readonly cancel: () => Promise<unknown>;
}

/** A port that was opened. It stays open until it or the client is closed, or the call has ended that listens there. */
export class OpenedPort implements AsyncDisposable {
  /** The call that keeps it open. */
  readonly callId: string;
  /** The path under which the service hands HTTP requests to the port. Whoever knows it needs no other credentials. */
  readonly httpPath: string;
  /** The whole URL of that path; undefined if the client is connected to a Unix socket, or does not know where it is. */
  readonly url: string | undefined;
  readonly #link: Link;
  readonly #streams: boolean;
  readonly #cancel: () => Promise<unknown>;
  #closing: Promise<unknown> | undefined;

  /** @internal */
  constructor(link: Link, { callId, httpPath }: OpenPortResponse, options: OpenedPortOptions) {
    this.callId = callId;
    this.httpPath = httpPath;
    this.url = options.baseUrl === undefined ? undefined : new URL(httpPath, options.baseUrl).href;
    this.#link = link;
    this.#streams = options.streams;
    this.#cancel = options.cancel;
  }

  /**
   * Makes a connection, and returns when it is made. Needs a transport that streams in both directions, which
   * `toolgate/node` has and browsers have not; pages use `url`.
   */
  async connect({ signal }: SignalOptions = {}): Promise<PortConnection> {
    if (!this.#streams) {
      const text = "gRPC-Web does not stream in both directions; use toolgate/node, or the port's `url`";
      throw new ToolgateError("UNIMPLEMENTED", text);
    }
    const controller = new AbortController();
    const release = follow(controller, signal);
    let refuse: (reason: unknown) => void = () => {};
    const outgoing = new TransformStream<Uint8Array, Uint8Array>({
      start: (sink) => {
        refuse = (reason) => sink.error(reason);
      },
    });
    const finish = (reason: unknown) => {
      release();
      controller.abort(reason);
      refuse(reason);
    };
    const options = { signal: controller.signal };
    const incoming = this.#link.rpc.ports.connectPort(requests(this.callId, outgoing.readable), options);
    const messages = incoming[Symbol.asyncIterator]();
    const next = async () => {
      try {
        const { done, value } = await messages.next();
        if (done) {
          finish(new ToolgateError("ABORTED", "the program has closed the connection"));
        }
        return done ? undefined : value.data;
      } catch (error) {
        const { closed } = this.#link;
        const reason = [signal, closed].find((one) => one?.aborted)?.reason ?? ToolgateError.from(error);
        finish(reason);
        throw reason;
      }
    };
    // The first message says that the connection is made.
    await next();
    const readable = new ReadableStream<Uint8Array>({
      pull: async (reader) => {
        const data = await next();
        if (data) {
          reader.enqueue(data);
        } else {
          reader.close();
        }
      },
      cancel: finish,
    });
    return { readable, writable: outgoing.writable };
  }

  /** Closes the port and its connections. */
  async close(): Promise<void> {
    this.#closing ??= this.#cancel();
    try {
      await this.#closing;
    } catch (error) {
      this.#closing = undefined;
      throw error;
    }
  }

  /** Closes. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Returns a port of the contract as the library shows it. */
export function listeningPortOf({ port, address, pid, command }: ListeningPortMessage): ListeningPort {
  return { port, address, pid: Number(pid), command };
}

async function* requests(callId: string, outgoing: ReadableStream<Uint8Array>) {
  yield { callId };
  for await (const bytes of piecesOf(outgoing)) {
    for (const data of cut(bytes, PIECE_BYTES)) {
      yield { data };
    }
  }
}
