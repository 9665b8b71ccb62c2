/**
 * How the library talks to a server that may be away for a while: deadlines, retries, streams that are given up when they
 * fall silent. Knows nothing of what the RPCs mean.
 */
import type { CallOptions, Client as Stub, Transport } from "@connectrpc/connect";
import { createClient } from "@connectrpc/connect";
import { ToolgateError } from "./errors.js";
import { AuditService } from "./gen/toolgate/v1/audit_service_pb.js";
import { FileService } from "./gen/toolgate/v1/file_service_pb.js";
import { HostService } from "./gen/toolgate/v1/host_service_pb.js";
import { InfoService } from "./gen/toolgate/v1/info_service_pb.js";
import { McpService } from "./gen/toolgate/v1/mcp_service_pb.js";
import { OutputService } from "./gen/toolgate/v1/output_service_pb.js";
import { PermissionService } from "./gen/toolgate/v1/permission_service_pb.js";
import { PortService } from "./gen/toolgate/v1/port_service_pb.js";
import { SessionService } from "./gen/toolgate/v1/session_service_pb.js";
import { ToolService } from "./gen/toolgate/v1/tool_service_pb.js";
import { WorkspaceService } from "./gen/toolgate/v1/workspace_service_pb.js";
import { follow, sleep } from "./time.js";
import { ClientTransport, type Token } from "./transport.js";

/** The generated stubs of all services, with the client's connection and credentials. They throw `ConnectError`. */
export interface Rpc {
  /** Lists and runs tools. */
  readonly tools: Stub<typeof ToolService>;
  /** Shows prompts and takes replies. */
  readonly permissions: Stub<typeof PermissionService>;
  /** Takes tools that a program lends. */
  readonly hosts: Stub<typeof HostService>;
  /** Reads stored outputs. */
  readonly outputs: Stub<typeof OutputService>;
  /** Shows and ends sessions, streams events. */
  readonly sessions: Stub<typeof SessionService>;
  /** Shows and changes files. */
  readonly files: Stub<typeof FileService>;
  /** Shows, opens and closes workspaces. */
  readonly workspaces: Stub<typeof WorkspaceService>;
  /** Reaches what programs listen on. */
  readonly ports: Stub<typeof PortService>;
  /** Shows and reads resources and prompts of MCP servers. */
  readonly mcp: Stub<typeof McpService>;
  /** Tells about the server. */
  readonly info: Stub<typeof InfoService>;
  /** Hands out the audit. */
  readonly audit: Stub<typeof AuditService>;
}

/** How patient a client is. */
export interface Patience {
  /** How long to try for a first answer of the server, in milliseconds; 10 s by default. */
  readonly connectTimeoutMs?: number | undefined;
  /** How long to try after the server has been reached once, in milliseconds; 2 minutes by default. */
  readonly reconnectTimeoutMs?: number | undefined;
  /** How long one unary RPC may take with its retries, in milliseconds; 30 s by default. */
  readonly requestTimeoutMs?: number | undefined;
  /** After how much silence a stream counts as lost, in milliseconds; 45 s by default, three missing heartbeats. */
  readonly stallTimeoutMs?: number | undefined;
}

/** What a {@link Link} is made of. */
export interface LinkOptions extends Patience {
  /** Carries the RPCs. */
  readonly transport: Transport;
  /** The token, if there is one. */
  readonly token?: Token | undefined;
}

/** How long one RPC may take, and what gives it up. */
export interface RequestOptions {
  /** Gives it up. */
  readonly signal?: AbortSignal | undefined;
  /** How long it may take with its retries; or {@link ANY_TIME}. */
  readonly timeoutMs?: number | undefined;
}

/** For what waits for people, who take the time that they take. */
export const ANY_TIME = Number.POSITIVE_INFINITY;
const FIRST_DELAY_MS = 50;
const MAX_DELAY_MS = 5_000;
/** As many failures lead to a pause of at most 400 ms. */
const REACHED_FAILURES = 3;

/** A transport with patience. */
export class Link {
  /** The stubs. */
  readonly rpc: Rpc;
  /** The transport with credentials. */
  readonly transport: Transport;
  readonly #closed = new AbortController();
  readonly #patience: { connect: number; reconnect: number; request: number; stall: number };
  readonly #renews: boolean;
  #answered = false;

  constructor(options: LinkOptions) {
    this.#patience = {
      connect: options.connectTimeoutMs ?? 10_000,
      reconnect: options.reconnectTimeoutMs ?? 120_000,
      request: options.requestTimeoutMs ?? 30_000,
      stall: options.stallTimeoutMs ?? 45_000,
    };
    this.#renews = typeof options.token === "function";
    this.transport = new ClientTransport(options.transport, {
      token: options.token,
      closed: this.closed,
      onAnswer: () => {
        this.#answered = true;
      },
    });
    this.rpc = {
      tools: createClient(ToolService, this.transport),
      permissions: createClient(PermissionService, this.transport),
      hosts: createClient(HostService, this.transport),
      outputs: createClient(OutputService, this.transport),
      sessions: createClient(SessionService, this.transport),
      files: createClient(FileService, this.transport),
      workspaces: createClient(WorkspaceService, this.transport),
      ports: createClient(PortService, this.transport),
      mcp: createClient(McpService, this.transport),
      info: createClient(InfoService, this.transport),
      audit: createClient(AuditService, this.transport),
    };
  }

  /** Aborted when the link is closed. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** How long to go on trying, from the first failure in a row on. */
  get patienceMs(): number {
    return this.#answered ? this.#patience.reconnect : this.#patience.connect;
  }

  /** Ends everything that is open. */
  close(): void {
    this.#closed.abort(new ToolgateError("CANCELLED", "the client is closed"));
  }

  /** Makes a unary RPC once. */
  async once<T>(call: (options: CallOptions) => Promise<T>, options: RequestOptions = {}): Promise<T> {
    const { signal, timeoutMs = this.#patience.request } = options;
    try {
      const limit = Number.isFinite(timeoutMs) ? { timeoutMs } : {};
      return await call({ ...limit, ...(signal ? { signal } : {}) });
    } catch (error) {
      throw this.#reason(signal) ?? this.#error(error);
    }
  }

  /** Makes a unary RPC that may be retried, until its time is over. */
  async retrying<T>(call: (options: CallOptions) => Promise<T>, options: RequestOptions = {}): Promise<T> {
    const end = Date.now() + (options.timeoutMs ?? this.#patience.request);
    const attempts = this.attempts(options.signal);
    try {
      for (;;) {
        try {
          return await this.once(call, { ...options, timeoutMs: Math.max(1, end - Date.now()) });
        } catch (error) {
          await attempts.failed(error, end);
        }
      }
    } finally {
      attempts.release();
    }
  }

  /** Begins to count the failures of something that is tried again and again. */
  attempts(signal?: AbortSignal | undefined): Attempts {
    return new Attempts(() => this.patienceMs, this.closed, signal);
  }

  /** Reads a stream of the server; fails when it falls silent. Leaving the loop ends the RPC. */
  async *stream<T>(
    open: (options: CallOptions) => AsyncIterable<T>,
    options: { readonly signal?: AbortSignal | undefined; readonly onOpen?: (() => void) | undefined } = {},
  ): AsyncGenerator<T, void, undefined> {
    const controller = new AbortController();
    const release = follow(controller, options.signal);
    const { stall } = this.#patience;
    const silent = new ToolgateError("UNAVAILABLE", `the server has been silent for ${stall} ms`, { transient: true });
    try {
      const call: CallOptions = { signal: controller.signal };
      if (options.onOpen) {
        call.onHeader = options.onOpen;
      }
      const messages = open(call)[Symbol.asyncIterator]();
      for (;;) {
        const timer = setTimeout(() => controller.abort(silent), stall);
        const next = await messages.next().finally(() => clearTimeout(timer));
        if (next.done) {
          return;
        }
        yield next.value;
      }
    } catch (error) {
      const fell = controller.signal.reason === silent ? silent : undefined;
      throw this.#reason(options.signal) ?? fell ?? this.#error(error);
    } finally {
      release();
      controller.abort();
    }
  }

  /** Reads a stream; when the connection is lost, `open` opens another one for what is still wanted. */
  async *resuming<T>(
    open: (options: CallOptions) => AsyncIterable<T>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<T, void, undefined> {
    const attempts = this.attempts(signal);
    try {
      for (;;) {
        try {
          for await (const message of this.stream(open, { signal, onOpen: () => attempts.reached() })) {
            attempts.succeeded();
            yield message;
          }
          return;
        } catch (error) {
          await attempts.failed(error);
        }
      }
    } finally {
      attempts.release();
    }
  }

  /** Reads what a list has, page by page. */
  async *pages<T extends { readonly nextPageToken: string }>(
    list: (pageToken: string, options: CallOptions) => Promise<T>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<T, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.retrying((call) => list(pageToken, call), { signal });
      yield page;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /** Credentials that have run out are no end for a client that gets fresh ones. */
  #error(error: unknown): ToolgateError {
    const known = ToolgateError.from(error);
    if (known.reason !== "CREDENTIALS_EXPIRED" || !this.#renews) {
      return known;
    }
    return new ToolgateError(known.code, known.message, { ...known, transient: true, cause: error });
  }

  #reason(signal: AbortSignal | undefined): unknown {
    return signal?.aborted ? signal.reason : this.closed.aborted ? this.closed.reason : undefined;
  }
}

/** Failures in a row, and when to give up. */
export class Attempts {
  readonly #patienceMs: () => number;
  readonly #controller = new AbortController();
  /** Ends the following of the signals. */
  readonly release: () => void;
  #failures = 0;
  #since = 0;

  constructor(patienceMs: () => number, ...signals: (AbortSignal | undefined)[]) {
    this.#patienceMs = patienceMs;
    this.release = follow(this.#controller, ...signals);
  }

  /** The server was reached, which is no success yet; but it need not be given long pauses. */
  reached(): void {
    this.#failures = Math.min(this.#failures, REACHED_FAILURES);
  }

  /** Something went well: the next failure is a first one. */
  succeeded(): void {
    this.#failures = 0;
  }

  /**
   * Waits until the next attempt is due. Throws the error if there should be none: it is not transient, or patience or
   * time is over.
   */
  async failed(error: unknown, end = Number.POSITIVE_INFINITY): Promise<void> {
    if (this.#controller.signal.aborted) {
      throw this.#controller.signal.reason;
    }
    if (!(error instanceof ToolgateError) || !error.transient) {
      throw error;
    }
    if (this.#failures === 0) {
      this.#since = Date.now();
    }
    const delay = this.#delay(error);
    this.#failures += 1;
    if (Date.now() + delay > Math.min(end, this.#since + this.#patienceMs())) {
      throw error;
    }
    await sleep(delay, this.#controller.signal);
  }

  /** Doubles with every failure, with jitter so that many clients do not come back at once. */
  #delay(error: ToolgateError): number {
    const backoff = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(this.#failures, 16));
    return Math.max(error.retryDelayMs ?? 0, backoff * (0.5 + Math.random() / 2));
  }
}
