/**
 * Toolgate's tools for Mastra.
 *
 * A call that has to ask a person *suspends* its tool: the stream has a `tool-call-suspended` whose payload is the prompt, and
 * `agent.resumeStream(decision, { runId, toolCallId })` is the reply. Mastra needs a storage, as for any suspension. Where a
 * tool runs outside of an agent, nobody can be asked that way: the call waits for an approver.
 *
 * A decision is for the prompt that the tool was suspended for. If the call asks something else meanwhile, it is suspended again.
 */
import { createTool } from "@mastra/core/tools";
import type { Client } from "../client.js";
import { base64Of, isImageType, textOf } from "../forms.js";
import { uuidv7 } from "../ids.js";
import type { CallResult } from "../results.js";
import type { Tool } from "../tools.js";
import { type AdapterOptions, Calls, callIdOf, factsOf, isCarried, sessionOf, ToolCallError } from "./calls.js";
import { DECISION_SCHEMA, type DecisionValue, decisionOrRefusal, type PromptFacts, promptFacts } from "./people.js";

export type { AdapterOptions, DecisionValue, PromptFacts };
export { ToolCallError };

/** A tool, as `new Agent({ tools })` takes it. */
export type MastraTool = ReturnType<typeof createTool>;

/** What a tool returns. */
export interface ToolgateOutput {
  /** The text for the model. */
  readonly text: string;
  /** Pictures and PDF files. */
  readonly files?: readonly { readonly mediaType: string; readonly base64?: string; readonly url?: string }[];
  /** What programs want to know of the result. */
  readonly facts: ReturnType<typeof factsOf>;
}

/** What Mastra hands to a tool. */
interface Context {
  readonly abortSignal?: AbortSignal;
  readonly writer?: { custom(chunk: { type: `data-${string}`; data: unknown }): Promise<void> };
  readonly agent?: {
    readonly toolCallId: string;
    readonly threadId?: string;
    readonly suspend: (payload: PromptFacts) => Promise<unknown>;
    readonly resumeData?: unknown;
    readonly suspendPayload?: unknown;
  };
}

/** Returns the tools by name. Without a session, and if the client has none, it is the thread of the agent. */
export async function toolgateTools(client: Client, options: AdapterOptions = {}): Promise<Record<string, MastraTool>> {
  const calls = new Calls(client, options);
  // Agents without a memory have no thread.
  const own = `mastra-${uuidv7()}`;
  const tools = await calls.tools();
  return Object.fromEntries(tools.map((tool) => [tool.name, mastraTool(calls, own, tool)]));
}

function mastraTool(calls: Calls, own: string, { name, description, inputSchema }: Tool): MastraTool {
  return createTool({
    id: name,
    description,
    inputSchema: inputSchema as never,
    resumeSchema: DECISION_SCHEMA as never,
    execute: ((input: object, context: Context) => runTool(calls, own, name, input, context ?? {})) as never,
    toModelOutput: ((output: ToolgateOutput) => modelOutput(output)) as never,
  }) as unknown as MastraTool;
}

async function runTool(calls: Calls, own: string, name: string, input: object, context: Context): Promise<unknown> {
  const { agent, abortSignal, writer } = context;
  const session = calls.session ?? (await sessionOf(agent?.threadId)) ?? own;
  const toolCallId = agent?.toolCallId ?? "";
  const callId = agent ? await callIdOf("mastra", session, toolCallId, name, input) : uuidv7();
  const shown = (agent?.suspendPayload as { id?: unknown } | undefined)?.id;
  const run = calls.start(name, input, callId, session, abortSignal);
  try {
    for (;;) {
      const step = await run.openStep();
      if (step.kind === "result") {
        return outputOf(step.result);
      }
      if (step.kind === "event") {
        const { event } = step;
        const said = { callId, toolCallId, tool: name };
        if (event.type === "output") {
          const output = new TextDecoder().decode(event.data);
          await writer?.custom({ type: "data-toolgate", data: { ...said, output } });
        } else if (event.type === "metadata" && event.title) {
          await writer?.custom({ type: "data-toolgate", data: { ...said, title: event.title } });
        }
      } else if (agent?.resumeData !== undefined && step.prompt.id === shown) {
        await run.reply(step.prompt, decisionOrRefusal(agent.resumeData, step.prompt));
      } else if (agent) {
        run.detach();
        return await agent.suspend(promptFacts(step.prompt));
      }
    }
  } finally {
    await run.leave();
  }
}

function outputOf(result: CallResult): ToolgateOutput {
  if (!result.ok) {
    throw new ToolCallError(result);
  }
  const files = result.attachments.filter(isCarried).map((one) => {
    const base64 = base64Of(one);
    return { mediaType: one.mime, ...(base64 === undefined ? { url: one.url ?? "" } : { base64 }) };
  });
  return { text: textOf(result, isCarried), ...(files.length > 0 ? { files } : {}), facts: factsOf(result) };
}

function modelOutput({ text, files = [] }: ToolgateOutput) {
  if (files.length === 0) {
    return { type: "text", value: text };
  }
  const parts = files.map(({ mediaType, base64, url }) =>
    isImageType(mediaType)
      ? { type: "media", data: base64 ?? url ?? "", mediaType }
      : { type: "file", data: base64 ?? url ?? "", mediaType },
  );
  return { type: "content", value: [{ type: "text", text }, ...parts] };
}
