/**
 * Toolgate's tools for the AI SDK of Vercel, 6 and 7.
 *
 * A call that has to ask a person is a *tool approval request* of the SDK: the generation ends, and goes on with the message
 * that `resolve` makes of Toolgate's decisions. Plain approval responses do as well: approved allows the call once, and what
 * is denied is refused in Toolgate by `passDenialsOn`, or when the next tool is called.
 *
 * An approval is for the prompt that the generation was stopped for. What else the call asks waits for an approver.
 */
import { dynamicTool, jsonSchema, type ModelMessage, type ToolModelMessage, type ToolSet } from "ai";
import type { Client } from "../client.js";
import { base64Of, isImageType, textOf } from "../forms.js";
import { uuidv7 } from "../ids.js";
import { once, type Prompt, reject } from "../prompts.js";
import type { CallResult } from "../results.js";
import type { Tool } from "../tools.js";
import { type AdapterOptions, Calls, callIdOf, factsOf, isCarried, ToolCallError } from "./calls.js";
import { type Decide, type PromptFacts, promptFacts } from "./people.js";

export type { AdapterOptions, Decide, PromptFacts };
export { promptFacts, ToolCallError };

/** What a tool returns; while it runs, with the output so far. */
export interface ToolgateOutput {
  /** The call. */
  readonly callId: string;
  /** A short text for people. */
  readonly title: string;
  /** What it has printed while it runs, and in the end the text for the model. */
  readonly text: string;
  /** Whether it has ended. */
  readonly ended: boolean;
  /** Pictures and PDF files. */
  readonly files?: readonly {
    readonly mediaType: string;
    readonly filename: string;
    readonly base64?: string;
    readonly url?: string;
  }[];
  /** What programs want to know of the result. */
  readonly facts?: ReturnType<typeof factsOf>;
}

/** A request for approval in what a generation ended with: `result.content`, or the content of its last message. */
interface ApprovalRequest {
  readonly type: "tool-approval-request";
  readonly approvalId: string;
  readonly toolCallId?: string;
  readonly toolCall?: { readonly toolCallId: string; readonly toolName: string; readonly input: unknown };
}

interface ToolCall {
  readonly toolName: string;
  readonly input: unknown;
}

interface Denial {
  readonly approvalId: string;
  readonly toolCallId: string;
  readonly reason: string;
  readonly call: ToolCall | undefined;
}

interface Waiting {
  readonly callId: string;
  readonly prompt: Prompt;
}

/** The tools of a Toolgate service. */
export class ToolgateTools {
  readonly #calls: Calls;
  readonly #session: string;
  /** What generations were stopped for, by the model's ids of the calls. */
  readonly #waiting = new Map<string, Waiting>();
  /** The requests whose denials were passed on: messages have them for good. */
  readonly #denied = new Set<string>();

  /**
   * @param client Makes the calls. Without a session, here or in the options, these tools have one of their own; a generation
   *   that goes on in another process needs one that both name.
   */
  constructor(client: Client, options: AdapterOptions = {}) {
    this.#calls = new Calls(client, options);
    this.#session = this.#calls.session ?? `ai-sdk-${uuidv7()}`;
  }

  /** Returns the tools, for `generateText`, `streamText` and agents. */
  async tools(): Promise<ToolSet> {
    const tools = await this.#calls.tools();
    return Object.fromEntries(tools.map((tool) => [tool.name, this.#tool(tool)])) as ToolSet;
  }

  /** Returns what each request for approval waits for, by `approvalId`; what is not Toolgate's is left out. */
  async prompts(content: readonly unknown[]): Promise<Map<string, Prompt>> {
    const found = new Map<string, Prompt>();
    for (const request of requestsIn(content)) {
      const waiting = await this.#waitingFor(request);
      if (waiting) {
        found.set(request.approvalId, waiting.prompt);
      }
    }
    return found;
  }

  /**
   * Asks about what a generation was stopped for, and returns the message that it goes on with. What `decide` leaves to
   * others, and requests of other tools, are left out of it.
   *
   * @param content What the generation ended with: `result.content`.
   */
  async resolve(content: readonly unknown[], decide: Decide): Promise<ToolModelMessage> {
    const responses: { type: "tool-approval-response"; approvalId: string; approved: boolean }[] = [];
    for (const request of requestsIn(content)) {
      const waiting = await this.#waitingFor(request);
      const decision = waiting && (await decide(waiting.prompt));
      if (waiting && decision) {
        await this.#calls.reply(waiting.prompt, decision);
        this.#waiting.delete(request.toolCall?.toolCallId ?? "");
        // The call goes on by itself, whatever was decided; the generation only comes back for its result.
        responses.push({ type: "tool-approval-response", approvalId: request.approvalId, approved: true });
      }
    }
    return { role: "tool", content: responses };
  }

  /**
   * Refuses in Toolgate what these messages deny: the SDK does not call the tool then. They may come from another process; then
   * they have to have the calls as well.
   */
  async passDenialsOn(messages: readonly ModelMessage[]): Promise<void> {
    for (const { approvalId, toolCallId, reason, call } of denialsIn(messages)) {
      if (this.#denied.has(approvalId)) {
        continue;
      }
      const waiting = this.#waiting.get(toolCallId);
      const callId = call && (await this.#callId(call.toolName, call.input as object, toolCallId));
      const prompt = (callId && (await this.#calls.openPrompt(callId))) || waiting?.prompt;
      if (prompt) {
        await this.#calls.reply(prompt, reject(reason));
      }
      this.#waiting.delete(toolCallId);
      this.#denied.add(approvalId);
    }
  }

  #tool({ name, description, inputSchema }: Tool) {
    return dynamicTool({
      description,
      inputSchema: jsonSchema(inputSchema),
      needsApproval: (input, { toolCallId, messages }) => this.#begin(name, input as object, toolCallId, messages),
      execute: (input, { toolCallId, messages, abortSignal }) =>
        this.#finish(name, input as object, toolCallId, messages, abortSignal),
      toModelOutput: ({ output }) => modelOutput(output as ToolgateOutput),
    });
  }

  /** Begins a call that may ask, and that the tool takes up when it is executed. Says whether it waits for a person. */
  async #begin(name: string, input: object, toolCallId: string, messages: readonly ModelMessage[]): Promise<boolean> {
    await this.passDenialsOn(messages);
    // The SDK asks once more when it goes on, and 6 takes a no for a denial.
    if (isAnswered(toolCallId, messages)) {
      return true;
    }
    if (!(await this.#calls.mayAsk(name, input, this.#session))) {
      return false;
    }
    const run = this.#calls.start(name, input, await this.#callId(name, input, toolCallId), this.#session);
    try {
      for (;;) {
        const step = await run.openStep();
        if (step.kind === "result") {
          return false;
        }
        if (step.kind === "prompt") {
          run.detach();
          this.#waiting.set(toolCallId, { callId: run.callId, prompt: step.prompt });
          return true;
        }
      }
    } finally {
      await run.leave();
    }
  }

  async *#finish(
    name: string,
    input: object,
    toolCallId: string,
    messages: readonly ModelMessage[],
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ToolgateOutput> {
    await this.passDenialsOn(messages);
    const callId = await this.#callId(name, input, toolCallId);
    const shown = this.#waiting.get(toolCallId);
    this.#waiting.delete(toolCallId);
    // A generation that another process stopped was stopped for the first prompt of the call, or the call does not wait.
    const first = !shown && (await this.#calls.openPrompt(callId)) !== undefined;
    const run = this.#calls.start(name, input, callId, this.#session, signal);
    let title = "";
    let text = "";
    const decoder = new TextDecoder();
    try {
      for (;;) {
        const step = await run.openStep();
        if (step.kind === "result") {
          yield outputOf(step.result);
          return;
        }
        if (step.kind === "prompt") {
          if (step.prompt.id === shown?.prompt.id || (first && run.prompts === 1)) {
            await run.reply(step.prompt, once());
          }
          continue;
        }
        const { event } = step;
        if (event.type === "output") {
          text += decoder.decode(event.data, { stream: true });
        } else if (event.type === "metadata" && event.title) {
          title = event.title;
        } else {
          continue;
        }
        yield { callId, title, text, ended: false };
      }
    } finally {
      await run.leave();
    }
  }

  async #waitingFor({ toolCall, toolCallId }: ApprovalRequest): Promise<Waiting | undefined> {
    if (!toolCall) {
      return toolCallId === undefined ? undefined : this.#waiting.get(toolCallId);
    }
    const callId = await this.#callId(toolCall.toolName, toolCall.input as object, toolCall.toolCallId);
    const prompt = await this.#calls.openPrompt(callId);
    if (!prompt) {
      return undefined;
    }
    const waiting = { callId, prompt };
    this.#waiting.set(toolCall.toolCallId, waiting);
    return waiting;
  }

  #callId(name: string, input: object, toolCallId: string): Promise<string> {
    return callIdOf("ai-sdk", this.#session, toolCallId, name, input);
  }
}

function requestsIn(content: readonly unknown[]): ApprovalRequest[] {
  return content.filter(
    (part): part is ApprovalRequest =>
      typeof part === "object" && part !== null && "type" in part && part.type === "tool-approval-request",
  );
}

/** Whether the last message answers a request for approval of this call. */
function isAnswered(toolCallId: string, messages: readonly ModelMessage[]): boolean {
  const last = messages.at(-1)?.content ?? "";
  const answered = typeof last === "string" ? [] : last;
  const ids = answered.flatMap((part) => (part.type === "tool-approval-response" ? [part.approvalId] : []));
  return messages.some(
    ({ content }) =>
      typeof content !== "string" &&
      content.some(
        (part) =>
          part.type === "tool-approval-request" && part.toolCallId === toolCallId && ids.includes(part.approvalId),
      ),
  );
}

/** Returns what was denied, and the calls that it is about, as far as the messages have them. */
function denialsIn(messages: readonly ModelMessage[]): Denial[] {
  const calls = new Map<string, ToolCall>();
  const requested = new Map<string, string>();
  const denied: Denial[] = [];
  for (const { content } of messages) {
    for (const part of typeof content === "string" ? [] : content) {
      if (part.type === "tool-call") {
        calls.set(part.toolCallId, part);
      } else if (part.type === "tool-approval-request") {
        requested.set(part.approvalId, part.toolCallId);
      } else if (part.type === "tool-approval-response" && !part.approved) {
        const toolCallId = requested.get(part.approvalId) ?? "";
        const { approvalId, reason = "" } = part;
        denied.push({ approvalId, toolCallId, reason, call: calls.get(toolCallId) });
      }
    }
  }
  return denied;
}

function outputOf(result: CallResult): ToolgateOutput {
  if (!result.ok) {
    throw new ToolCallError(result);
  }
  const files = result.attachments.filter(isCarried).map((one) => {
    const base64 = base64Of(one);
    const content = base64 === undefined ? { url: one.url ?? "" } : { base64 };
    return { mediaType: one.mime, filename: one.filename, ...content };
  });
  const { callId, title } = result;
  const text = textOf(result, isCarried);
  return { callId, title, text, ended: true, ...(files.length > 0 ? { files } : {}), facts: factsOf(result) };
}

function modelOutput({ text, files = [] }: ToolgateOutput) {
  if (files.length === 0) {
    return { type: "text" as const, value: text };
  }
  const parts = files.map(({ mediaType, filename, base64, url }) => {
    const image = isImageType(mediaType);
    if (base64 !== undefined) {
      return image
        ? { type: "image-data" as const, data: base64, mediaType }
        : { type: "file-data" as const, data: base64, mediaType, filename };
    }
    return image ? { type: "image-url" as const, url: url ?? "" } : { type: "file-url" as const, url: url ?? "" };
  });
  return { type: "content" as const, value: [{ type: "text" as const, text }, ...parts] };
}
