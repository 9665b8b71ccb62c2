/** The client: everything that a front end, an approver or a host does begins here. */
import type { Transport } from "@connectrpc/connect";
import { Approvals, type ApprovalsOptions, type PromptHandler } from "./approvals.js";
import { ToolgateError } from "./errors.js";
import { type Evaluation, evaluationOf } from "./evaluation.js";
import { Execution } from "./execution.js";
import { Files } from "./files.js";
import { type Call, CallState, OutputMode } from "./gen/toolgate/v1/call_pb.js";
import type { GetServerInfoResponse, WorkspaceInfo } from "./gen/toolgate/v1/info_service_pb.js";
import type { Output as OutputInfo } from "./gen/toolgate/v1/output_service_pb.js";
import type { Session } from "./gen/toolgate/v1/session_service_pb.js";
import { Host, type HostOptions } from "./host.js";
import type { HostedTool } from "./hosted-tool.js";
import { uuidv7 } from "./ids.js";
import { ANY_TIME, Link, type Rpc } from "./link.js";
import { McpServers } from "./mcp.js";
import type { SignalName } from "./names.js";
import type {
  CallDefaults,
  CallsOptions,
  ClientOptions,
  EvaluateOptions,
  ExecuteOptions,
  OpenPortOptions,
  OpenWorkspaceOptions,
  OutputsOptions,
  RevertOptions,
  SendInputOptions,
  SignalOptions,
  ToolInput,
  WatchOptions,
  WorkspacesOptions,
} from "./options.js";
import { Output } from "./outputs.js";
import { OpenedPort } from "./ports.js";
import {
  callMessage,
  contextMessage,
  evaluateMessage,
  executeMessage,
  ON_DISCONNECT,
  OUTPUT_MODES,
} from "./requests.js";
import type { CallResult } from "./results.js";
import { type EventsOptions, type ServiceEvent, watchEvents } from "./service-events.js";
import {
  type InputSent,
  resizeTerminal,
  sendInput,
  sendSignal,
  type TerminalPicture,
  type TerminalSize,
  terminal,
} from "./terminals.js";
import { ToolQuery, type ToolsOptions } from "./tools.js";

/** CancelCall returns when the call's programs are gone, which may take their grace. */
const CANCEL_TIMEOUT_MS = 60_000;
/** How many names of clients a call may have. */
const MAX_CLIENT_IDS = 8;

/** A workspace that was asked to be opened. */
export interface OpenedWorkspace {
  /** It. Servers of tools may still be connecting; `problem` says why its calls are refused, if they are. */
  readonly workspace: WorkspaceInfo;
  /** It was opened now; false if it was open already. */
  readonly opened: boolean;
}

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

  /** In whose name calls are made that do not say so themselves. */
  get defaults(): CallDefaults {
    const { workspace, session, agent, model, clientKind, clientName, parentCallId } = this.#options;
    return { workspace, session, agent, model, clientKind, clientName, parentCallId };
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

  /** Says what a call would ask before it does anything, and what the rules say to that. Nothing is run or recorded. */
  async evaluate(tool: string, input: ToolInput = {}, options: EvaluateOptions = {}): Promise<Evaluation> {
    const request = evaluateMessage(this.#options, this.#ids, tool, input, options);
    const answer = await this.#link.retrying((call) => this.rpc.tools.evaluateCall(request, call), {
      signal: options.signal,
    });
    return evaluationOf(present(answer.evaluation));
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
    const request = { workspace, sessionId, states: wanted, tools: [...tools], pageSize };
    const pages = this.#link.pages(
      (pageToken, call) => this.rpc.tools.listCalls({ ...request, pageToken }, call),
      signal,
    );
    for await (const page of pages) {
      yield* page.calls;
    }
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
  async sendInput(callId: string, data: string | Uint8Array, options: SendInputOptions = {}): Promise<InputSent> {
    return sendInput(this.#link, callId, data, options);
  }

  /** Sends a signal to a command in the background. After UNAVAILABLE it may have been sent. */
  sendSignal(callId: string, name: SignalName, options: SignalOptions = {}): Promise<void> {
    return sendSignal(this.#link, callId, name, options);
  }

  /** Gives the terminal of a command in the background another size. */
  resizeTerminal(callId: string, size: TerminalSize, options: SignalOptions = {}): Promise<void> {
    return resizeTerminal(this.#link, callId, size, options);
  }

  /** Returns what the terminal of a command in the background shows. */
  terminal(callId: string, options: SignalOptions = {}): Promise<TerminalPicture> {
    return terminal(this.#link, callId, options);
  }

  /**
   * Opens a port that a program of a call listens on, and returns when that was allowed. It is closed with this client.
   *
   * @param callId The call whose program listens.
   */
  async openPort(callId: string, port: number, options: OpenPortOptions = {}): Promise<OpenedPort> {
    // An empty workspace is that of the call to reach.
    const context = contextMessage({ ...this.#options, workspace: undefined }, this.#ids, options);
    const request = { call: callMessage(context, options), callId, port };
    const answer = await this.#link.retrying((call) => this.rpc.ports.openPort(request, call), {
      signal: options.signal,
      timeoutMs: ANY_TIME,
    });
    const { baseUrl, bidirectional: streams = false } = this.#options;
    const cancel = async () => {
      await this.cancel(answer.callId);
      this.#open.delete(opened);
    };
    const opened = new OpenedPort(this.#link, answer, { baseUrl, streams, cancel });
    this.#open.add(opened);
    return opened;
  }

  /** Returns the files of a workspace, to show, change and watch, in the name that the options say. */
  files(options: CallDefaults = {}): Files {
    const context = contextMessage(this.#options, this.#ids, options);
    return new Files(this.#link, context, this.#options.bidirectional === true);
  }

  /** Returns what the MCP servers of a workspace have beside tools, to list and to read, in the name that the options say. */
  mcp(options: CallDefaults = {}): McpServers {
    return new McpServers(this.#link, contextMessage(this.#options, this.#ids, options));
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
    const request = { workspace, sessionId, callId, pageSize };
    const pages = this.#link.pages(
      (pageToken, call) => this.rpc.outputs.listOutputs({ ...request, pageToken }, call),
      signal,
    );
    for await (const page of pages) {
      yield* page.outputs;
    }
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

  /**
   * Opens a folder of the service's machine as a workspace. The same name with the same folder again returns what is open.
   *
   * @param directory An absolute path, below one that the operator allows.
   */
  async openWorkspace(
    workspace: string,
    directory: string,
    { create = false, signal }: OpenWorkspaceOptions = {},
  ): Promise<OpenedWorkspace> {
    const request = { workspace, directory, create };
    const answer = await this.#link.retrying((call) => this.rpc.workspaces.openWorkspace(request, call), { signal });
    return { workspace: present(answer.workspace), opened: answer.opened };
  }

  /**
   * Closes a workspace that was opened while the service ran, and cancels its calls. Returns how many calls were cancelled.
   */
  async closeWorkspace(workspace: string, options: SignalOptions = {}): Promise<number> {
    const answer = await this.#link.retrying((call) => this.rpc.workspaces.closeWorkspace({ workspace }, call), {
      ...options,
      timeoutMs: CANCEL_TIMEOUT_MS,
    });
    return answer.cancelledCalls;
  }

  /** Returns a workspace, with its agents and what its calls use at this moment; by default that of this client. */
  async workspace(name?: string, options: SignalOptions = {}): Promise<WorkspaceInfo> {
    const workspace = name ?? this.#options.workspace ?? "";
    const answer = await this.#link.retrying((call) => this.rpc.workspaces.getWorkspace({ workspace }, call), options);
    return present(answer.workspace);
  }

  /** Lists workspaces by name, without their agents, tools and language servers. */
  async *workspaces(options: WorkspacesOptions = {}): AsyncGenerator<WorkspaceInfo, void, undefined> {
    const { pageSize = 0, signal } = options;
    const pages = this.#link.pages(
      (pageToken, call) => this.rpc.workspaces.listWorkspaces({ pageSize, pageToken }, call),
      signal,
    );
    for await (const page of pages) {
      yield* page.workspaces;
    }
  }

  /** Returns version, limits and workspaces of the service. */
  info(options: SignalOptions = {}): Promise<GetServerInfoResponse> {
    return this.#link.retrying((call) => this.rpc.info.getServerInfo({}, call), options);
  }

  /** Closes the approvals, hosts and ports, cancels the executions that would not outlive it, and ends the connection. */
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
