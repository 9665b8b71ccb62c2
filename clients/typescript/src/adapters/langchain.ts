/**
 * Toolgate's tools for LangChain.js and LangGraph.js.
 *
 * A call that has to ask a person is an *interrupt* of LangGraph, and the value of `new Command({ resume })` is the reply. The
 * graph needs a checkpointer, as for any interrupt. Where there is none, and outside of a graph, nobody can be asked that way:
 * the call waits for an approver.
 *
 * There is an interrupt for each prompt of a call, in their order, since LangGraph finds their answers by counting. A decision is
 * taken for the prompt that it names, or that the graph was stopped for (`langchain-resumed.ts`), never by the count.
 */
import { ToolMessage } from "@langchain/core/messages";
import { type DynamicStructuredTool, tool as makeTool } from "@langchain/core/tools";
import { isGraphBubbleUp } from "@langchain/langgraph";
import type { CallEvent } from "../call-events.js";
import type { Client } from "../client.js";
import { base64Of, isImage, textOf } from "../forms.js";
import { uuidv7 } from "../ids.js";
import { answer, type Decision, instead, once, type Prompt, reject } from "../prompts.js";
import type { Attachment, CallResult } from "../results.js";
import type { Tool } from "../tools.js";
import {
  type AdapterOptions,
  Calls,
  callIdOf,
  factsOf,
  isCarried,
  type Run,
  sessionOf,
  ToolCallError,
} from "./calls.js";
import { countOf, Task } from "./langchain-resumed.js";
import { type DecisionValue, decisionOrRefusal, type PromptFacts, promptFacts } from "./people.js";

export type { AdapterOptions, DecisionValue, PromptFacts };
export { ToolCallError };

/** The value of an interrupt: what LangChain's own middleware for people says, and beside it the prompt. */
export interface ToolgateInterrupt {
  readonly actionRequests: readonly { readonly name: string; readonly args: object; readonly description: string }[];
  readonly reviewConfigs: readonly { readonly actionName: string; readonly allowedDecisions: readonly string[] }[];
  readonly toolgate: PromptFacts & {
    readonly toolCallId: string;
    /** How many values the task had when it was stopped. */
    readonly answered?: number;
    /** Why what was said last decided nothing. */
    readonly note?: string;
  };
}

/** What LangChain hands to a tool. */
interface Config {
  readonly signal?: AbortSignal;
  readonly toolCall?: { readonly id?: string };
  readonly toolCallId?: string;
  readonly writer?: ((chunk: unknown) => void) | null;
  readonly configurable?: Record<string, unknown>;
}

/** Returns the prompt that the value of an interrupt is about; undefined for one that is not Toolgate's. */
export function promptIn(value: unknown): ToolgateInterrupt["toolgate"] | undefined {
  return typeof value === "object" && value !== null && "toolgate" in value
    ? (value.toolgate as ToolgateInterrupt["toolgate"])
    : undefined;
}

/** Returns the tools. Without a session, and if the client has none, it is the thread of the graph. */
export async function toolgateTools(client: Client, options: AdapterOptions = {}): Promise<DynamicStructuredTool[]> {
  const calls = new Calls(client, options);
  const tools = await calls.tools();
  return tools.map(({ name, description, inputSchema, source, effects }: Tool) => {
    const fields = { name, description, schema: inputSchema, metadata: { toolgate: { source, effects } } };
    const run = (input: object, config: Config) => runTool(calls, name, input, config);
    return makeTool(run as never, fields as never) as unknown as DynamicStructuredTool;
  });
}

async function runTool(calls: Calls, name: string, input: object, config: Config): Promise<unknown> {
  const { configurable = {}, signal } = config;
  const toolCallId = config.toolCall?.id ?? config.toolCallId ?? "";
  // LangGraph's name for the task, which stays the same when a graph is resumed. Elsewhere there is none.
  const task = String(configurable["checkpoint_ns"] ?? "");
  const session = calls.session ?? (await sessionOf(configurable["thread_id"] as string | undefined));
  const first = await callIdOf("langgraph", session ?? "", task, toolCallId, name, input);
  // Without a call of the model, all calls that a node makes of itself would have one id.
  const times = toolCallId ? 0 : countOf(configurable, first);
  const isKnown = task !== "" && times !== undefined;
  const callId = isKnown ? (times ? `${first}-${times}` : first) : uuidv7();
  const run = calls.start(name, input, callId, session, signal);
  let asks = isKnown;
  try {
    for (;;) {
      const step = await run.step();
      if (step.kind === "result") {
        return outputOf(step.result, name, toolCallId);
      }
      if (step.kind === "event") {
        tell(config, step.event, { callId, toolCallId, tool: name });
      } else if (asks) {
        const decision = await asked(step.prompt, toolCallId, run, new Task(configurable));
        asks = decision !== "nobody";
        if (decision && decision !== "nobody") {
          await run.reply(step.prompt, decision);
        }
      }
    }
  } finally {
    await run.leave();
  }
}

/**
 * Interrupts the graph, or returns what its resumption said about this prompt: nothing if somebody else decided, and that there is
 * nobody where a graph cannot be resumed.
 */
async function asked(
  prompt: Prompt,
  toolCallId: string,
  run: Run,
  task: Task,
): Promise<Decision | "nobody" | undefined> {
  const facts = promptFacts(prompt);
  const allowed = prompt.kind === "questions" ? ["respond"] : facts.input ? ["approve", "edit"] : ["approve"];
  const value: ToolgateInterrupt = {
    actionRequests: [{ name: prompt.tool, args: facts.input ?? {}, description: facts.description }],
    reviewConfigs: [{ actionName: prompt.tool, allowedDecisions: [...allowed, "reject"] }],
    toolgate: { ...facts, toolCallId },
  };
  try {
    if (!(await run.isOpen(prompt))) {
      task.passOne(value);
      return undefined;
    }
    const said = await task.answer(value);
    // LangGraph gives the same value again whenever the graph goes on, so nothing better than a refusal will come.
    return ownDecision(said) ?? decisionOrRefusal(said, prompt);
  } catch (error) {
    if (isGraphBubbleUp(error)) {
      run.detach();
    } else if ((error as { lc_error_code?: unknown }).lc_error_code === "MISSING_CHECKPOINTER") {
      return "nobody";
    }
    throw error;
  }
}

/** Reads the decisions of LangChain's own middleware for people. */
function ownDecision(said: unknown): Decision | undefined {
  const decisions = (said as { decisions?: unknown } | null | undefined)?.decisions;
  const one = Array.isArray(decisions) && decisions.length === 1 ? decisions[0] : said;
  const { type, message, editedAction } = (one ?? {}) as {
    type?: string;
    message?: string;
    editedAction?: { args?: object };
  };
  switch (type) {
    case "approve":
      return once();
    case "reject":
      return reject(message ?? "");
    case "respond":
      return answer(message ?? "");
    case "edit":
      return editedAction?.args ? instead(editedAction.args) : undefined;
    default:
      return undefined;
  }
}

/** Tells LangGraph's stream `custom` of progress. */
function tell({ writer, configurable }: Config, event: CallEvent, call: object): void {
  const write = writer ?? (configurable?.["writer"] as Config["writer"]);
  if (event.type === "output") {
    write?.({ toolgate: { ...call, output: new TextDecoder().decode(event.data) } });
  } else if (event.type === "metadata" && event.title) {
    write?.({ toolgate: { ...call, title: event.title } });
  }
}

function outputOf(result: CallResult, name: string, toolCallId: string): unknown {
  const text = textOf(result, isCarried);
  const files = result.attachments.filter(isCarried).map(block);
  const content = files.length > 0 ? [{ type: "text", text }, ...files] : text;
  if (!toolCallId) {
    if (!result.ok) {
      throw new ToolCallError(result);
    }
    return content;
  }
  const status = result.ok ? "success" : "error";
  return new ToolMessage({ content, name, status, tool_call_id: toolCallId, artifact: factsOf(result) } as never);
}

function block(attachment: Attachment) {
  const type = isImage(attachment) ? "image" : "file";
  const data = base64Of(attachment);
  const content = data === undefined ? { url: attachment.url ?? "" } : { data };
  return { type, mimeType: attachment.mime, ...content };
}
