/** The commands of the driver protocol. */
import { create } from "@bufbuild/protobuf";
import { z } from "zod";
import {
  CallEventSchema,
  CallSchema,
  OnDisconnect,
  OutputMode,
  ToolDefinitionSchema,
} from "../src/gen/toolgate/v1/call_pb.js";
import { SearchOutputRequestSchema, SearchOutputResponseSchema } from "../src/gen/toolgate/v1/output_service_pb.js";
import { WatchEventsRequestSchema, WatchEventsResponseSchema } from "../src/gen/toolgate/v1/session_service_pb.js";
import { ExecuteToolRequestSchema, ListToolsRequestSchema } from "../src/gen/toolgate/v1/tool_service_pb.js";
import {
  anthropicResult,
  type CallDefaults,
  type Client,
  defineTool,
  type ExecuteOptions,
  geminiResult,
  type HostReady,
  openaiResponsesResult,
  openaiResult,
  resultOf,
  saveOutput,
} from "../src/node.js";
import { milliseconds } from "../src/time.js";
import { bytes, decode, encode } from "./codec.js";
import { approvals, reply } from "./driver-approvals.js";
import { host, report } from "./driver-host.js";
import type { Session } from "./driver-session.js";
import { unary } from "./driver-unary.js";

/** One line of standard input. */
export type Command = { readonly id: number; readonly do?: unknown } & Readonly<Record<string, unknown>>;
/** What is reported beside the id. */
export type Report = Record<string, unknown>;
/** Reports. */
export type Say = (report: Report) => void;

/** A command that cannot be understood. */
export class InvalidCommand extends Error {}

type Run = (session: Session, command: Command, say: Say) => Promise<object>;

const COMMANDS: Readonly<Record<string, Run>> = {
  connect: async (session, command) => {
    const token = command["token"] === undefined ? undefined : text(command, "token");
    await session.connect(text(command, "client"), text(command, "target"), token);
    return {};
  },
  close: async (session, command) => {
    await session.closeClient(text(command, "client"));
    return {};
  },
  tools: async (session, command) => {
    const tools = await listing(session, command);
    return { tools: (await tools).map(({ message }) => encode(ToolDefinitionSchema, message)) };
  },
  formats: async (session, command) => {
    const tools = listing(session, command);
    return {
      openai: await tools.openai(),
      openai_responses: await tools.openaiResponses(),
      anthropic: await tools.anthropic(),
      gemini: await tools.gemini(),
    };
  },
  forms: async (_session, command) => {
    const result = resultOf(decode(CallSchema, command["call"]));
    if (!result) {
      throw new InvalidCommand("the call has not ended");
    }
    const id = text(command, "model_call");
    return {
      openai: openaiResult(result, id),
      openai_responses: openaiResponsesResult(result, id),
      anthropic: anthropicResult(result, id),
      gemini: geminiResult(result, text(command, "tool"), id),
    };
  },
  execute,
  cancel: async (session, command) => {
    await session.executions.get(number(command, "execution"))?.execution.cancel();
    return {};
  },
  interrupt: async (session, command) => {
    session.executions.get(number(command, "execution"))?.controller.abort();
    return {};
  },
  approvals,
  reply,
  host,
  report,
  stop: async (session, command) => {
    await session.stoppable.get(number(command, "command"))?.stop();
    return {};
  },
  read: async (session, command, say) => {
    const offset = typeof command["offset"] === "number" ? command["offset"] : 0;
    const limit = typeof command["limit"] === "number" ? command["limit"] : 0;
    for await (const data of client(session, command).output(text(command, "output")).bytes({ offset, limit })) {
      say({ data: bytes(data) });
    }
    return {};
  },
  search: async (session, command) => {
    const request = decode(SearchOutputRequestSchema, command["request"]);
    const { outputId, pattern, beforeContext: before, afterContext: after, maxMatches } = request;
    const found = await client(session, command).output(outputId).search(pattern, { before, after, maxMatches });
    return { response: encode(SearchOutputResponseSchema, found) };
  },
  save: (session, command, say) =>
    stoppable(session, command, async (signal) => {
      const output = client(session, command).output(text(command, "output"));
      const onProgress = (progress: object) => say({ progress });
      return { bytes: (await saveOutput(output, text(command, "path"), { signal, onProgress })).bytes };
    }),
  events: (session, command, say) =>
    stoppable(session, command, async (signal) => {
      const { workspace, sessionId, afterSequence } = decode(WatchEventsRequestSchema, command["request"]);
      const events = client(session, command).events({
        workspace,
        session: sessionId,
        after: afterSequence === undefined ? undefined : Number(afterSequence),
        reconnect: false,
        onOpen: () => say({ ready: true }),
        signal,
      });
      for await (const { message: event } of events) {
        say({ event: encode(WatchEventsResponseSchema, create(WatchEventsResponseSchema, { event })) });
      }
      return {};
    }),
  unary: async (session, command) => ({
    response: await unary(client(session, command), text(command, "method"), command["request"]),
  }),
  greeter: (session, command, say) =>
    stoppable(session, command, async (signal) => {
      const onReady = ({ refused }: HostReady) => say({ ready: { refused } });
      await client(session, command).host([greet], { name: "greeter", onReady, signal }).done;
      return {};
    }),
};

const greet = defineTool({
  name: "greet",
  description: "Greets somebody.",
  input: z.object({
    name: z.string().describe("Who is greeted."),
    times: z.int().default(1).describe("How often."),
  }),
  run: async ({ name, times }, { progress }) => {
    for (let i = 1; i <= times; i += 1) {
      await progress({ metadata: { greeted: i } });
    }
    return { title: `Greeting ${name}`, output: Array(times).fill(`Hello, ${name}!`).join("\n") };
  },
});

/** Does what a command says; returns what its last report has. */
export async function run(session: Session, command: Command, say: Say): Promise<object> {
  const name = command.do;
  const known = typeof name === "string" && Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!known) {
    throw new InvalidCommand(`there is no command ${String(name)}`);
  }
  return known(session, command, say);
}

/** Returns the client that a command names. */
export function client(session: Session, command: Command): Client {
  const name = text(command, "client");
  const found = session.client(name);
  if (!found) {
    throw new InvalidCommand(`there is no client ${name}`);
  }
  return found;
}

/** Returns a field that is a text. */
export function text(command: Command, field: string): string {
  const value = command[field];
  if (typeof value !== "string") {
    throw new InvalidCommand(`${field}: a text was expected`);
  }
  return value;
}

/** Returns a field that is a number. */
export function number(command: Command, field: string): number {
  const value = command[field];
  if (typeof value !== "number") {
    throw new InvalidCommand(`${field}: a number was expected`);
  }
  return value;
}

/** Runs what `stop` ends. */
async function stoppable(
  session: Session,
  { id }: Command,
  work: (signal: AbortSignal) => Promise<object>,
): Promise<object> {
  const controller = new AbortController();
  const done = work(controller.signal);
  const stop = async () => {
    controller.abort(new Error("stopped"));
    await done.catch(() => {});
  };
  session.stoppable.set(id, { stop });
  try {
    return await done;
  } catch (error) {
    if (controller.signal.aborted) {
      return {};
    }
    throw error;
  } finally {
    session.stoppable.delete(id);
  }
}

function listing(session: Session, command: Command) {
  const request = decode(ListToolsRequestSchema, command["request"]);
  const { workspace, agent, model, clientKind, parentCallId, pageSize } = request;
  return client(session, command).tools({ workspace, agent, model, clientKind, parentCallId, pageSize });
}

async function execute(session: Session, command: Command, say: Say): Promise<object> {
  const request = decode(ExecuteToolRequestSchema, command["request"]);
  const controller = new AbortController();
  try {
    const { arguments: given, callId, timeout, tool } = request;
    const context = request.context;
    const defaults: CallDefaults = {
      workspace: context?.workspace,
      session: context?.sessionId,
      agent: context?.agent,
      model: context?.model,
      clientKind: context?.clientKind,
      parentCallId: context?.parentCallId,
    };
    const options: ExecuteOptions = {
      ...defaults,
      messageId: context?.messageId,
      extra: context?.extra,
      callId: callId || undefined,
      timeoutMs: timeout && milliseconds(timeout),
      onDisconnect: DISCONNECT[request.onDisconnect],
      output: OUTPUT[request.output],
      signal: controller.signal,
    };
    const execution = client(session, command).execute(tool, given.value ?? {}, options);
    session.executions.set(command.id, { execution, controller });
    for await (const { message } of execution) {
      say({ event: encode(CallEventSchema, message) });
    }
    const result = await execution.result();
    const { ok, message } = result;
    const ending =
      message.$typeName === "toolgate.v1.CallCompleted"
        ? { case: "completed" as const, value: message }
        : { case: "failed" as const, value: message };
    return { call: encode(CallSchema, create(CallSchema, { callId: execution.callId, ending })), ok };
  } finally {
    session.executions.delete(command.id);
  }
}

const DISCONNECT = {
  [OnDisconnect.UNSPECIFIED]: "reattach",
  [OnDisconnect.CANCEL]: "cancel",
  [OnDisconnect.KEEP]: "keep",
} as const;

const OUTPUT = {
  [OutputMode.UNSPECIFIED]: "full",
  [OutputMode.FULL]: "full",
  [OutputMode.TAIL]: "tail",
  [OutputMode.NONE]: "none",
} as const;
