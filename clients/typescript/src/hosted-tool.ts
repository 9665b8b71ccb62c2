/** What a program lends: functions as tools, a function that runs subagents, hooks. */
import type { JsonObject } from "@bufbuild/protobuf";
import type { HostHook, HostInvoke, HostRunSubagent } from "./gen/toolgate/v1/host_service_pb.js";
import type { ToolEffectName } from "./names.js";
import type { OutputOf, SchemaLike } from "./schema.js";
import type { ModelRef } from "./tools.js";

/** A file that a function returns. */
export interface HostedAttachment {
  /** The media type. */
  readonly mime: string;
  /** A name for it. */
  readonly filename?: string | undefined;
  /** The bytes. */
  readonly data?: Uint8Array | undefined;
  /** Or where to fetch it. */
  readonly url?: string | undefined;
}

/** What a function returns when a text is not enough. */
export interface HostedResult {
  /** A short text for people; the last one that was reported as progress by default. */
  readonly title?: string | undefined;
  /** The text for the model; what was reported as output by default. */
  readonly output?: string | undefined;
  /** Merged over what was reported as progress. */
  readonly metadata?: JsonObject | undefined;
  /** Files that belong to the result. */
  readonly attachments?: readonly HostedAttachment[] | undefined;
}

/** What to ask for beside the permission's name. */
export interface AskOptions {
  /** What the function is about to touch; every pattern must be allowed. `*` by default. */
  readonly patterns?: readonly string[] | undefined;
  /** The patterns that the reply `always` allows from then on. */
  readonly always?: readonly string[] | undefined;
  /** A short line for the person. */
  readonly title?: string | undefined;
  /** What the person should see. */
  readonly metadata?: JsonObject | undefined;
}

/** Thrown by {@link HostContext.ask}. Its message is for the model: let it pass, or find another way. */
export class PermissionDeniedError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "PermissionDeniedError";
  }
}

/** What a lent function may do while it runs. */
export interface HostContext {
  /** The call. */
  readonly callId: string;
  /** The call's session; of a subagent, its own. */
  readonly sessionId: string;
  /** The call's workspace. */
  readonly workspace: string;
  /** The call's agent; of a subagent, which one to run. */
  readonly agent: string;
  /** Aborted when the call is given up. */
  readonly signal: AbortSignal;
  /** Reports an interim title or metadata: a patch, in which null clears a key. */
  progress(report: { readonly title?: string | undefined; readonly metadata?: JsonObject | undefined }): Promise<void>;
  /** Reports a piece of the output, shown as it comes and kept. */
  output(data: string | Uint8Array): Promise<void>;
  /**
   * Asks for a permission in the name of the call: by the rules of its agent, then of a person. Throws
   * {@link PermissionDeniedError} if it is not allowed.
   */
  ask(permission: string, options?: AskOptions): Promise<void>;
}

/** What a tool's function is given beside its input. */
export interface InvocationContext extends HostContext {
  /** The message of the contract. */
  readonly message: HostInvoke;
}

/** Runs a tool. What it throws is the text of the failure, for the model. */
export type HostedFunction<Input> = (
  input: Input,
  context: InvocationContext,
) => string | HostedResult | Promise<string | HostedResult>;

/** A function as a tool. Made by {@link defineTool}. */
export interface HostedTool {
  /** 1 to 64 letters, digits, `_` and `-`. */
  readonly name: string;
  /** The text for the model. */
  readonly description: string;
  /** A validator, or JSON Schema as an object or as text; left out for a tool without arguments. */
  readonly input?: SchemaLike | JsonObject | string | undefined;
  /** What the tool may do, for front ends that mark tools by it. */
  readonly effects?: readonly Exclude<ToolEffectName, "UNSPECIFIED">[] | undefined;
  /** The function. */
  // biome-ignore lint/suspicious/noExplicitAny: tools with inputs of different types stand in one list.
  readonly run: HostedFunction<any>;
}

/** Makes a tool of a function. With a validator (zod, …) as `input` the function's input has its type. */
export function defineTool<Schema extends SchemaLike>(
  tool: Omit<HostedTool, "input" | "run"> & {
    readonly input: Schema;
    readonly run: HostedFunction<OutputOf<Schema>>;
  },
): HostedTool;
export function defineTool(
  tool: Omit<HostedTool, "input" | "run"> & {
    readonly input?: JsonObject | string | undefined;
    readonly run: HostedFunction<JsonObject>;
  },
): HostedTool;
export function defineTool(tool: HostedTool): HostedTool {
  return tool;
}

/** What a subagent is to do. */
export interface SubagentTask {
  /** The subagent's name. */
  readonly agent: string;
  /** Its own system prompt, or empty. */
  readonly agentPrompt: string;
  /** The model that it is to run on. */
  readonly model: ModelRef | undefined;
  /** What it is to do, in a few words. */
  readonly description: string;
  /** What it is to do. */
  readonly prompt: string;
  /** The slash command behind it, or empty. */
  readonly command: string;
  /** Whether the session goes on; otherwise it is new. */
  readonly resumed: boolean;
  /** The tools that it is offered. */
  readonly allowedTools: readonly string[];
  /** The tools of the workspace that it is not. */
  readonly deniedTools: readonly string[];
}

/** What a subagent's function is given beside its task. */
export interface SubagentContext<Client> extends HostContext {
  /** A client whose calls are the subagent's: in its session, on behalf of the call that started it. */
  readonly client: Client;
  /** The message of the contract. */
  readonly message: HostRunSubagent;
}

/** Runs a subagent; returns its last text. */
export type SubagentRunner<Client> = (
  task: SubagentTask,
  context: SubagentContext<Client>,
) => string | HostedResult | Promise<string | HostedResult>;

/** The points at which a host can take part in calls. */
export type HookPoint =
  | "tool.execute.before"
  | "tool.execute.after"
  | "tool.definition"
  | "shell.env"
  | "permission.ask";

/** What a hook is given beside its input and output. */
export interface HookContext {
  /** Aborted when the service does not wait any more. */
  readonly signal: AbortSignal;
  /** The message of the contract. */
  readonly message: HostHook;
}

/** Takes part in a call: changes `output`, or returns another one. What it throws refuses. */
export type Hook = (
  input: JsonObject,
  output: JsonObject,
  context: HookContext,
) => JsonObject | undefined | void | Promise<JsonObject | undefined | void>;
