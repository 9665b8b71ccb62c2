/** The client: everything that a front end, an approver or a host does begins here. */
import type { Transport } from "@connectrpc/connect";
import { Approvals, type ApprovalsOptions, type PromptHandler } from "./approvals.js";
import { ToolgateError } from "./errors.js";
import { Execution } from "./execution.js";
import { type Call, CallState, OutputMode } from "./gen/toolgate/v1/call_pb.js";
import type { GetServerInfoResponse } from "./gen/toolgate/v1/info_service_pb.js";
import type { Output as OutputInfo } from "./gen/toolgate/v1/output_service_pb.js";
import type { Session } from "./gen/toolgate/v1/session_service_pb.js";
import { Host, type HostOptions } from "./host.js";
import type { HostedTool } from "./hosted-tool.js";
import { uuidv7 } from "./ids.js";
import { Link, type Rpc } from "./link.js";
import type {
  CallDefaults,
  CallsOptions,
  ClientOptions,
  ExecuteOptions,
  OutputsOptions,
  RevertOptions,
  SendInputOptions,
  SignalOptions,
  ToolInput,
  WatchOptions,
} from "./options.js";
import { Output } from "./outputs.js";
import { contextMessage, executeMessage, ON_DISCONNECT, OUTPUT_MODES } from "./requests.js";
import type { CallResult } from "./results.js";
import { type EventsOptions, type ServiceEvent, watchEvents } from "./service-events.js";
import { ToolQuery, type ToolsOptions } from "./tools.js";

/** CancelCall returns when the call's programs are gone, which may take their grace. */
const CANCEL_TIMEOUT_MS = 60_000;
/** How many names of clients a call may have. */
const MAX_CLIENT_IDS = 8;

/**
 * A client of a Toolgate service. It connects when it is first used, and again whenever the connection is lost.
 *
 * Make one with `connect` of `toolgate/node` or `toolgate/web`; this constructor is for transports of your own.
 */
export class Client implements AsyncDisposable {
  /** The generated stubs, on the same connection and with the same credentials. They throw `ConnectError`. */
  readonly rpc: Rpc;
  /** The transport with credentials, for other services on the same port. */
  readonly transport: Transport;
  readonly #link: Link;
  readonly #options: ClientOptions;
  readonly #derived: boolean;
  /** By what calls are known as those of this client, and of the ones that it was made from. */
  readonly #ids: readonly string[];
  /** What ends with this client. */
  readonly #open = new Set<{ close(): Promise<void> }>();

  /** Makes a client on a transport. `link` and `ids` are for the library itself. */
  constructor(options: ClientOptions, link?: Link, ids: readonly string[] = []) {
    this.#options = options;
    this.#ids = [uuidv7(), ...ids].slice(0, MAX_CLIENT_IDS);
    this.#derived = link !== undefined;
    this.#link = link ?? new Link(options);
    this.rpc = this.#link.rpc;
    this.transport = this.#link.transport;
  }

  /** Returns a client with other defaults on the same connection, which stays open when it is closed. */
  with(defaults: CallDefaults): Client {
    return new Client({ ...this.#options, ...defaults }, this.#link, this.#ids);
  }

  /**
   * Lists the tools that the agent may use: `await client.tools()`, or in the form of a model API
   * `await client.tools().openai()`.
   */
  tools(options: ToolsOptions = {}): ToolQuery {
    const { workspace, agent, model, clientKind, parentCallId } = this.#options;
    return new ToolQuery(this.#link, {
      ...definedOf({ workspace, agent, model, clientKind, parentCallId }),
      ...options,
    });
  }

  /** Starts a call, at once. */
  execute(tool: string, input: ToolInput = {}, options: ExecuteOptions = {}): Execution {
    const callId = options.callId ?? uuidv7();
    const request = executeMessage(this.#options, this.#ids, callId, tool, input, options);
    return this.#follow({
      callId,
      start: (call) => this.rpc.tools.executeTool(request, call),
      output: OUTPUT_MODES[options.output ?? "full"],
      owned: options.onDisconnect !== "keep",
      signal: options.signal,
    });
  }

  /** Executes a tool and returns how it ended. A failed call is a result, not an exception; see {@link orThrow}. */
  run(tool: string, input: ToolInput = {}, options: ExecuteOptions = {}): Promise<CallResult> {
    return this.execute(tool, input, { output: "none", ...options }).result();
  }

  /** Watches a call, whoever started it, from any event on. */
  watch(callId: string, options: WatchOptions = {}): Execution {
    return this.#follow({
      callId,
      after: BigInt(options.after ?? 0),
      output: OUTPUT_MODES[options.output ?? "full"],
      owned: false,
      signal: options.signal,
    });
  }

  /** Takes back what an ended call did to files. The revert is itself a call. */
  revert(callId: string, options: RevertOptions = {}): Execution {
    const revertCallId = options.callId ?? uuidv7();
    const request = {
      // An empty workspace is that of the call to take back.
      context: contextMessage({ ...this.#options, workspace: undefined }, this.#ids, options),
      callId,
      revertCallId,
      merge: options.merge ?? false,
      onDisconnect: ON_DISCONNECT[options.onDisconnect ?? "reattach"],
    };
    return this.#follow({
      callId: revertCallId,
      start: (call) => this.rpc.tools.revertCall(request, call),
      output: OutputMode.FULL,
      owned: options.onDisconnect !== "keep",
      signal: options.signal,
    });
  }

  /** Returns the record of a call. */
  async get(callId: string, options: SignalOptions = {}): Promise<Call> {
    const answer = await this.#link.retrying((call) => this.rpc.tools.getCall({ callId }, call), options);
    return present(answer.call);
  }

  /** Lists calls, newest first, without their inputs and outputs. */
  async *calls(options: CallsOptions = {}): AsyncGenerator<Call, void, undefined> {
    const { workspace = "", session: sessionId = "", states = [], tools = [], pageSize = 0, signal } = options;
    const wanted = states.map((state) => CallState[state]);
    let pageToken = "";
    do {
      const request = { workspace, sessionId, states: wanted, tools: [...tools], pageSize, pageToken };
      const page = await this.#link.retrying((call) => this.rpc.tools.listCalls(request, call), { signal });
      yield* page.calls;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /** Asks a call to stop, and returns its record once it has ended. Its programs are gone then. */
  async cancel(callId: string, options: SignalOptions = {}): Promise<Call> {
    const answer = await this.#link.retrying((call) => this.rpc.tools.cancelCall({ callId }, call), {
      ...options,
      timeoutMs: CANCEL_TIMEOUT_MS,
    });
    return present(answer.call);
  }

  /** Sends bytes to the standard input of a command in the background. Returns how much was accepted so far. */
  async sendInput(
    callId: string,
    data: string | Uint8Array,
    options: SendInputOptions = {},
  ): Promise<{ nextOffset: number; closed: boolean }> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const { signal, close = false } = options;
    const send = (offset: bigint, part: Uint8Array, last: boolean) => {
      const request = { callId, offset, data: part, close: last };
      return this.#link.retrying((call) => this.rpc.tools.sendInput(request, call), { signal });
    };
    const offset =
      options.offset === undefined ? (await send(0n, new Uint8Array(), false)).nextOffset : BigInt(options.offset);
    const { nextOffset, closed } = await send(offset, bytes, close);
    return { nextOffset: Number(nextOffset), closed };
  }

  /** Answers prompts with a function, until it is closed: those of this client's calls, unless the options say more. */
  approvals(handler: PromptHandler, options: ApprovalsOptions = {}): Approvals {
    const { bidirectional, session } = this.#options;
    const own = { clientIds: this.#ids, session };
    const approvals = new Approvals(this.#link, bidirectional === true, handler, options, own);
    return this.#keep(approvals, approvals.done);
  }

  /** Lends functions as tools, until it is closed. */
  host(tools: readonly HostedTool[], options: HostOptions<Client> = {}): Host<Client> {
    const { workspace } = this.#options;
    const host = new Host<Client>({
      link: this.#link,
      tools,
      options: { ...definedOf({ workspace }), ...options },
      subagentClient: ({ callId, sessionId, agent, model, context }) =>
        this.with({ workspace: context?.workspace, session: sessionId, agent, model, parentCallId: callId }),
    });
    return this.#keep(host, host.done);
  }

  /** Returns a stored output, to read, search or save. */
  output(outputId: string): Output {
    return new Output(this.#link, outputId);
  }

  /** Lists stored outputs, newest first. */
  async *outputs(options: OutputsOptions = {}): AsyncGenerator<OutputInfo, void, undefined> {
    const { workspace = "", session: sessionId = "", callId = "", pageSize = 0, signal } = options;
    let pageToken = "";
    do {
      const request = { workspace, sessionId, callId, pageSize, pageToken };
      const page = await this.#link.retrying((call) => this.rpc.outputs.listOutputs(request, call), { signal });
      yield* page.outputs;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /** Watches what happens in workspaces. */
  events(options: EventsOptions = {}): AsyncGenerator<ServiceEvent, void, undefined> {
    return watchEvents(this.#link, options);
  }

  /** Returns what a session owns: todos, grants, open prompts, recent calls. */
  async session(sessionId: string, options: SignalOptions = {}): Promise<Session> {
    const answer = await this.#link.retrying((call) => this.rpc.sessions.getSession({ sessionId }, call), options);
    return present(answer.session);
  }

  /** Cancels the session's calls and forgets what it has kept. Returns how many calls were cancelled. */
  async endSession(sessionId: string, options: SignalOptions = {}): Promise<number> {
    const answer = await this.#link.retrying((call) => this.rpc.sessions.endSession({ sessionId }, call), {
      ...options,
      timeoutMs: CANCEL_TIMEOUT_MS,
    });
    return answer.cancelledCalls;
  }

  /** Returns version, limits and workspaces of the service. */
  info(options: SignalOptions = {}): Promise<GetServerInfoResponse> {
    return this.#link.retrying((call) => this.rpc.info.getServerInfo({}, call), options);
  }

  /** Closes the approvals and hosts, cancels the executions that would not outlive it, and ends the connection. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#open].map((one) => one.close()));
    if (!this.#derived) {
      this.#link.close();
      this.#options.onClose?.();
    }
  }

  /** Closes. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #follow(options: Omit<ConstructorParameters<typeof Execution>[1], "after"> & { after?: bigint }): Execution {
    const execution = new Execution(this.#link, {
      after: 0n,
      ...options,
      onSettled: (settled) => this.#open.delete(settled),
    });
    // One that is only watched has nothing to end but its stream, which goes with the connection.
    if (options.owned) {
      this.#open.add(execution);
    }
    return execution;
  }

  #keep<T extends { close(): Promise<void> }>(one: T, done: Promise<void>): T {
    this.#open.add(one);
    done.catch(() => {}).finally(() => this.#open.delete(one));
    return one;
  }
}

/** Leaves out what is undefined, so that it does not hide what is merged with it. */
function definedOf<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** The contract sets these fields in every answer. */
function present<T>(value: T | undefined): T {
  if (value === undefined) {
    throw new ToolgateError("DATA_LOSS", "the service answered without what was asked for");
  }
  return value;
}
