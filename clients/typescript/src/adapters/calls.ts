/**
 * What the adapters share: calls that stop where a person has to decide, and go on from there in whatever process.
 *
 * A call is started once, however often a framework runs its tool again; and only a decision of a person about this very
 * prompt is sent as one.
 */
import type { JsonObject } from "@bufbuild/protobuf";
import type { CallEvent } from "../call-events.js";
import type { Client } from "../client.js";
import { ToolgateError } from "../errors.js";
import type { Execution } from "../execution.js";
import { isImage, isPdf, textOf } from "../forms.js";
import { ReplyResult } from "../gen/toolgate/v1/permission_service_pb.js";
import { uuidv7 } from "../ids.js";
import { type Decision, type Prompt, promptOf, reject, replyMessage } from "../prompts.js";
import type { Attachment, CallResult } from "../results.js";
import type { ModelRef, Tool } from "../tools.js";

/** How an adapter makes its calls; what is left out is what the client was made with. */
export interface AdapterOptions {
  /** The session. */
  readonly session?: string | undefined;
  /** The workspace. */
  readonly workspace?: string | undefined;
  /** The agent. */
  readonly agent?: string | undefined;
  /** The model. It decides which tools there are, and in what form their schemas are. */
  readonly model?: ModelRef | undefined;
  /** The time that a tool may run, in milliseconds; waiting for people does not count. */
  readonly timeoutMs?: number | undefined;
  /**
   * The client that replies to prompts; that of the calls by default. Where callers may not answer their own prompts, it has
   * a token of the person who decides.
   */
  readonly approver?: Client | undefined;
}

/** A call that failed, as frameworks expect it. Its message is for the model. */
export class ToolCallError extends Error {
  /** The failure. */
  readonly result: CallResult;

  constructor(result: CallResult) {
    super(textOf(result, isCarried));
    this.name = "ToolCallError";
    this.result = result;
  }
}

/** Where a call goes on or stops: what happens to it, a prompt that is open, or how it ended. */
export type Step =
  | { readonly kind: "event"; readonly event: CallEvent }
  | { readonly kind: "prompt"; readonly prompt: Prompt }
  | { readonly kind: "result"; readonly result: CallResult };

/** The calls of an adapter, and the replies to their prompts. */
export class Calls {
  readonly #client: Client;
  readonly #approver: Client;
  readonly #options: AdapterOptions;

  constructor(client: Client, options: AdapterOptions) {
    this.#client = client;
    this.#approver = options.approver ?? client;
    this.#options = options;
  }

  /** The session of its calls, if there is one. */
  get session(): string | undefined {
    return this.#options.session ?? this.#client.defaults.session;
  }

  /** Lists the tools. */
  tools(): Promise<Tool[]> {
    const { workspace, agent, model } = this.#options;
    return this.#client.tools(definedOf({ workspace, agent, model })).list();
  }

  /** Says whether a call would ask a person before it does anything, as far as that is known. */
  async mayAsk(tool: string, input: object, session: string): Promise<boolean> {
    const { workspace, agent, model } = this.#options;
    const { action } = await this.#client.evaluate(tool, input, { ...definedOf({ workspace, agent, model }), session });
    return action === "ASK";
  }

  /** Starts a call, or attaches to the one that has this id. It is cancelled when the signal is aborted. */
  start(tool: string, input: object, callId: string, session?: string, signal?: AbortSignal): Run {
    const { approver: _, ...options } = this.#options;
    const given = { ...definedOf({ ...options, session }), callId, onDisconnect: "keep" as const };
    return new Run(this, this.#client.execute(tool, input, given), signal);
  }

  /** Returns what a call waits for; undefined if it does not wait, or if there is no such call. */
  async openPrompt(callId: string): Promise<Prompt | undefined> {
    const { prompts } = await rpc(this.#client.rpc.permissions.listPrompts({ callId, pageSize: 1 }));
    return prompts[0] && promptOf(prompts[0]);
  }

  /** Sends what a person decided. A reply that is too late is none: the call says what became of it. */
  async reply(prompt: Prompt, decision: Decision): Promise<void> {
    let { result, message } = await this.#reply(prompt, decision);
    if (result === ReplyResult.INVALID || result === ReplyResult.DIGEST_MISMATCH) {
      // Nobody is there to give a better one, and what the person meant is not known.
      const refusal = reject(`The reply to the prompt could not be taken: ${message}`);
      ({ result, message } = await this.#reply(prompt, refusal));
    }
    if (result === ReplyResult.NOT_ALLOWED || result === ReplyResult.OTHER_INSTANCE) {
      const hint = "give the option approver, a client that may reply";
      throw new ToolgateError("PERMISSION_DENIED", `the reply to ${prompt.id} was not taken: ${message}; ${hint}`);
    }
  }

  async #reply(prompt: Prompt, decision: Decision) {
    const reply = replyMessage(prompt, uuidv7(), decision);
    const name = this.#approver.defaults.clientName ?? "";
    const answer = await rpc(this.#approver.rpc.permissions.replyPrompt({ reply, name }));
    return { result: answer.result?.result ?? ReplyResult.UNSPECIFIED, message: answer.result?.message ?? "" };
  }
}

/** A call as a framework's run sees it: events, prompts, and its end. To be left in any case. */
export class Run {
  /** The call's id. */
  readonly callId: string;
  /** How many prompts of the call were seen. */
  prompts = 0;
  readonly #calls: Calls;
  readonly #execution: Execution;
  readonly #events: AsyncIterator<CallEvent, undefined, undefined>;
  readonly #signal: AbortSignal | undefined;
  readonly #abort: () => void;
  #goesOn = false;

  constructor(calls: Calls, execution: Execution, signal: AbortSignal | undefined) {
    this.callId = execution.callId;
    this.#calls = calls;
    this.#execution = execution;
    this.#events = execution[Symbol.asyncIterator]();
    this.#signal = signal;
    this.#abort = () => void this.#cancel();
    signal?.addEventListener("abort", this.#abort, { once: true });
    if (signal?.aborted) {
      this.#abort();
    }
  }

  /** Returns the next event, or where the call stops: a prompt, which may be decided by now, or how it ended. */
  async step(): Promise<Step> {
    const { value: event } = await this.#events.next();
    if (event === undefined || event.type === "completed" || event.type === "failed") {
      this.#goesOn = true;
      return { kind: "result", result: event?.result ?? (await this.#execution.result()) };
    }
    if (event.type === "waiting") {
      this.prompts += 1;
      return { kind: "prompt", prompt: event.prompt };
    }
    return { kind: "event", event };
  }

  /** Returns the next event, or where the call stops: a prompt that is open now, or how it ended. */
  async openStep(): Promise<Step> {
    for (;;) {
      const step = await this.step();
      if (step.kind !== "prompt") {
        return step;
      }
      const prompt = await this.#calls.openPrompt(this.callId);
      if (prompt?.id === step.prompt.id) {
        return { kind: "prompt", prompt };
      }
    }
  }

  /** Whether a prompt of the call still waits for a decision. */
  async isOpen(prompt: Prompt): Promise<boolean> {
    return (await this.#calls.openPrompt(this.callId))?.id === prompt.id;
  }

  /** Sends what a person decided about a prompt, unless it is decided. */
  async reply(prompt: Prompt, decision: Decision): Promise<void> {
    if (await this.isOpen(prompt)) {
      await this.#calls.reply(prompt, decision);
    }
  }

  /** Lets the call go on when this is left: somebody will come back for it. */
  detach(): void {
    this.#goesOn = true;
  }

  /** Cancels the call if it still runs and was not detached. */
  async leave(): Promise<void> {
    this.#signal?.removeEventListener("abort", this.#abort);
    if (!this.#goesOn) {
      await this.#cancel();
    }
    await this.#events.return?.();
    await this.#execution.close();
  }

  async #cancel(): Promise<void> {
    this.#goesOn = true;
    try {
      await this.#execution.cancel();
    } catch (error) {
      // A call that was refused, or whose end nobody can tell any more, has nothing to cancel.
      if (!(error instanceof ToolgateError)) {
        throw error;
      }
    }
  }
}

/** Makes the id of a call out of what stays the same when a framework runs its tool again. */
export async function callIdOf(framework: string, ...parts: readonly (string | object)[]): Promise<string> {
  const texts = parts.map((part) => (typeof part === "string" ? part : canonical(part)));
  return `${framework}-${await digest(texts.join("\0"))}`;
}

/** Makes a session of a framework's name for a conversation, which may have characters that a session may not. */
export async function sessionOf(name: string | undefined): Promise<string | undefined> {
  return !name || /^[A-Za-z0-9_-]{1,128}$/.test(name) ? name : `conversation-${await digest(name)}`;
}

/** Whether the frameworks can hand it to a model: pictures, and PDF files. */
export function isCarried(attachment: Attachment): boolean {
  return isImage(attachment) || isPdf(attachment);
}

/** Returns what programs want to know of a result, as a value of JSON. */
export function factsOf(result: CallResult): JsonObject {
  return {
    callId: result.callId,
    ok: result.ok,
    title: result.title,
    reason: result.ok ? null : result.reason,
    outcome: result.ok ? result.outcome : null,
    exitCode: (result.ok ? result.exitCode : undefined) ?? null,
    outputId: result.truncation?.outputId || null,
    metadata: result.metadata,
  };
}

/** Returns the fields that have a value: what is left out is what the client was made with. */
function definedOf<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(",")}]`;
  }
  if (typeof value === "object" && value !== null) {
    const fields = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
    return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

async function digest(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...bytes.subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function rpc<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw ToolgateError.from(error);
  }
}
