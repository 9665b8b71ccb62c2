/** Lends functions to the service, over any number of connections. */
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { ToolgateError } from "./errors.js";
import { type CallContext, ToolEffect } from "./gen/toolgate/v1/call_pb.js";
import type {
  HostEvent,
  HostHook,
  HostInvoke,
  HostRefused,
  HostRunSubagent,
  HostWelcome,
} from "./gen/toolgate/v1/host_service_pb.js";
import type { Hook, HookPoint, HostContext, HostedTool, SubagentRunner } from "./hosted-tool.js";
import { completedReport, failedReport, Invocation, type Report } from "./invocation.js";
import { Attempts, type Link } from "./link.js";
import { isSchemaLike, schemaJson, validate } from "./schema.js";
import { follow } from "./time.js";

/** How many ended invocations are remembered, for a service that has not heard of their end. */
const REMEMBERED = 256;

/** What the service says to what is lent. */
export interface HostReady {
  /** The workspace that it is lent to. */
  readonly workspace: string;
  /** Whether the service knew this host: what was open goes on. */
  readonly resumed: boolean;
  /** Tools and hooks that are not used, and why. */
  readonly refused: readonly Pick<HostRefused, "name" | "reason">[];
}

/** How a host is called, what it lends beside tools, and who wants to know what. */
export interface HostOptions<Client> {
  /** How the host is called, for people. */
  readonly name?: string | undefined;
  /** The workspace to lend to. */
  readonly workspace?: string | undefined;
  /** Runs subagents, which makes the tool `task` available. */
  readonly subagent?: SubagentRunner<Client> | undefined;
  /** The agents that it can run; all by default. */
  readonly subagents?: readonly string[] | undefined;
  /** Takes part in every call of the workspace. */
  readonly hooks?: Readonly<Partial<Record<HookPoint, Hook>>> | undefined;
  /** The {@link Host.token} of an earlier host, to go on in its place. */
  readonly resume?: string | undefined;
  /** Called once what is lent is available, again after each reconnection. */
  readonly onReady?: ((ready: HostReady) => void) | undefined;
  /** Called when the connection is lost; it is made again. */
  readonly onDisconnect?: ((error: ToolgateError) => void) | undefined;
  /** Ends the lending. */
  readonly signal?: AbortSignal | undefined;
}

/** What a {@link Host} is made of. */
export interface HostParts<Client> {
  readonly link: Link;
  readonly tools: readonly HostedTool[];
  readonly options: HostOptions<Client>;
  /** Makes the client of a subagent. */
  readonly subagentClient: (message: HostRunSubagent) => Client;
}

/** Functions that are lent, until it is closed. */
export class Host<Client = unknown> implements AsyncDisposable {
  /** Resolves when what is lent is available for the first time. Rejects as `done` does. */
  readonly ready: Promise<HostReady>;
  /** Resolves when it is closed. Rejects if the service refuses, or was never reached. */
  readonly done: Promise<void>;
  readonly #parts: HostParts<Client>;
  readonly #tools: ReadonlyMap<string, HostedTool>;
  readonly #stop = new AbortController();
  readonly #invocations = new Map<string, Invocation>();
  #token: string;
  #wasReady = false;
  #onReady!: (ready: HostReady) => void;

  /** @internal */
  constructor(parts: HostParts<Client>) {
    this.#parts = parts;
    this.#token = parts.options.resume ?? "";
    this.#tools = new Map(parts.tools.map((tool) => [tool.name, tool]));
    const ready = new Promise<HostReady>((resolve) => {
      this.#onReady = resolve;
    });
    this.done = this.#run();
    this.done.catch(() => {});
    this.ready = Promise.race([
      ready,
      this.done.then(() => {
        throw closed();
      }),
    ]);
    this.ready.catch(() => {});
  }

  /** Names this host to the service; for `resume`, in case the program has to be started again. Keep it secret. */
  get token(): string {
    return this.#token;
  }

  /** Takes back what is lent, and aborts what runs. */
  async close(): Promise<void> {
    if (!this.#stop.signal.aborted && this.#wasReady) {
      const { link } = this.#parts;
      const leave = { token: this.#token, report: { report: { case: "leave" as const, value: {} } } };
      // A service that cannot be told takes it back itself, after the grace.
      await link.once((call) => link.rpc.hosts.reportInvocation(leave, call), { timeoutMs: 5_000 }).catch(() => {});
    }
    this.#stop.abort(closed());
    await this.done.catch(() => {});
  }

  /** Closes. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #run(): Promise<void> {
    const { link, options } = this.#parts;
    const { signal } = this.#stop;
    const release = follow(this.#stop, options.signal, link.closed);
    const patience = () => (this.#wasReady ? Number.POSITIVE_INFINITY : link.patienceMs);
    const attempts = new Attempts(patience, signal);
    try {
      const hello = this.#hello();
      while (!signal.aborted) {
        try {
          const request = { hello: { ...hello, token: this.#token } };
          for await (const { event } of link.stream((call) => link.rpc.hosts.serveTools(request, call), { signal })) {
            if (event?.event.case === "welcome") {
              attempts.succeeded();
            }
            this.#take(event?.event ?? { case: undefined });
          }
          throw new ToolgateError("UNAVAILABLE", "the stream of invocations ended", { transient: true });
        } catch (error) {
          if (signal.aborted) {
            return;
          }
          const lost = ToolgateError.from(error);
          options.onDisconnect?.(lost);
          await attempts.failed(lost);
        }
      }
    } catch (error) {
      if (!signal.aborted) {
        throw error;
      }
    } finally {
      release();
      attempts.release();
      this.#abandon();
    }
  }

  #hello() {
    const { tools, options } = this.#parts;
    return {
      name: options.name ?? "toolgate for TypeScript",
      workspace: options.workspace ?? "",
      tools: tools.map(({ name, description, input, effects = [] }) => ({
        name,
        description,
        inputSchemaJson: schemaJson(input),
        effects: effects.map((effect) => ToolEffect[effect]),
      })),
      runsSubagents: options.subagent !== undefined,
      subagents: [...(options.subagents ?? [])],
      hooks: Object.keys(options.hooks ?? {}),
    };
  }

  #take(event: HostEvent["event"]): void {
    switch (event.case) {
      case "welcome":
        this.#welcome(event.value);
        return;
      case "invoke": {
        const { value } = event;
        this.#begin(value.invocationId, (invocation) => this.#invoke(value, invocation));
        return;
      }
      case "runSubagent": {
        const { value } = event;
        this.#begin(value.invocationId, (invocation) => this.#runSubagent(value, invocation));
        return;
      }
      case "hook": {
        const { value } = event;
        this.#begin(value.invocationId, (invocation) => this.#hook(value, invocation));
        return;
      }
      case "cancel":
        this.#cancel(event.value.invocationId);
        return;
      case "askResult":
        this.#invocations.get(event.value.invocationId)?.answered(event.value);
        return;
      case "heartbeat":
      case undefined:
        return;
    }
  }

  #welcome({ token, resumed, refused, workspace }: HostWelcome): void {
    if (!resumed) {
      this.#abandon();
    }
    this.#token = token;
    this.#wasReady = true;
    const ready = { workspace, resumed, refused: refused.map(({ name, reason }) => ({ name, reason })) };
    this.#onReady(ready);
    this.#parts.options.onReady?.(ready);
  }

  /** Runs an invocation once, however often it is sent. */
  #begin(id: string, run: (invocation: Invocation) => Promise<Report>): void {
    const known = this.#invocations.get(id);
    if (known) {
      void known.resent().catch(() => {});
      return;
    }
    const invocation = new Invocation(id, (invocationId, report) => this.#send(invocationId, report));
    this.#invocations.set(id, invocation);
    void this.#finish(invocation, run);
  }

  async #finish(invocation: Invocation, run: (invocation: Invocation) => Promise<Report>): Promise<void> {
    const report = await run(invocation).catch(failedReport);
    // A report that does not arrive is asked for again with the invocation.
    await invocation.finish(report).catch(() => {});
    this.#forget();
  }

  async #invoke(message: HostInvoke, invocation: Invocation): Promise<Report> {
    const tool = this.#tools.get(message.tool);
    if (!tool) {
      throw new TypeError(`this host does not lend ${message.tool} any more`);
    }
    const given = JSON.parse(message.inputJson || "{}") as JsonValue;
    const input = isSchemaLike(tool.input) ? await validate(tool.input, given) : given;
    const context = { ...hostContext(message.callId, message.context, invocation), message };
    return completedReport(await tool.run(input, context));
  }

  async #runSubagent(message: HostRunSubagent, invocation: Invocation): Promise<Report> {
    const { options, subagentClient } = this.#parts;
    if (!options.subagent) {
      throw new TypeError("this host runs no subagents");
    }
    const { agent, sessionId, agentPrompt, model, description, prompt, command, resumed } = message;
    const { allowedTools, deniedTools } = message;
    const task = { agent, agentPrompt, model, description, prompt, command, resumed, allowedTools, deniedTools };
    const own = hostContext(message.callId, message.context, invocation);
    const context = { ...own, agent, sessionId, client: subagentClient(message), message };
    return completedReport(await options.subagent(task, context));
  }

  async #hook(message: HostHook, invocation: Invocation): Promise<Report> {
    const hook = this.#parts.options.hooks?.[message.point as HookPoint];
    if (!hook) {
      throw new TypeError(`this host has no hook for ${message.point}`);
    }
    const input = JSON.parse(message.inputJson || "{}") as JsonObject;
    const output = JSON.parse(message.outputJson || "{}") as JsonObject;
    const returned = await hook(input, output, { signal: invocation.signal, message });
    return { case: "hookResult", value: { outputJson: JSON.stringify(returned ?? output) } };
  }

  async #send(invocationId: string, report: Report): Promise<boolean> {
    const { link } = this.#parts;
    const request = { token: this.#token, report: { invocationId, report } };
    const options = { signal: this.#stop.signal };
    try {
      const answer = await link.retrying((call) => link.rpc.hosts.reportInvocation(request, call), options);
      return answer.accepted;
    } catch (error) {
      if (error instanceof ToolgateError && error.code === "NOT_FOUND") {
        return false;
      }
      throw error;
    }
  }

  #cancel(id: string): void {
    this.#invocations.get(id)?.abort(new ToolgateError("CANCELLED", "the call was cancelled"));
    this.#invocations.delete(id);
  }

  #abandon(): void {
    for (const invocation of this.#invocations.values()) {
      invocation.abort(new ToolgateError("CANCELLED", "the service does not know this host any more"));
    }
    this.#invocations.clear();
  }

  /** Drops the oldest ended invocations. */
  #forget(): void {
    const ended = [...this.#invocations.values()].filter((invocation) => invocation.ended);
    for (const { id } of ended.slice(0, Math.max(0, ended.length - REMEMBERED))) {
      this.#invocations.delete(id);
    }
  }
}

function hostContext(callId: string, call: CallContext | undefined, invocation: Invocation): HostContext {
  return {
    callId,
    sessionId: call?.sessionId ?? "",
    workspace: call?.workspace ?? "",
    agent: call?.agent ?? "",
    signal: invocation.signal,
    progress: (report) => invocation.progress(report),
    output: (data) => invocation.output(data),
    ask: (permission, options) => invocation.ask(permission, options),
  };
}

function closed(): ToolgateError {
  return new ToolgateError("CANCELLED", "the host is closed");
}
