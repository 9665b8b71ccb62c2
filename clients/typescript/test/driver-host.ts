/** The driver's lent functions, which do what `report` commands say. */
import { ToolEffect } from "../src/gen/toolgate/v1/call_pb.js";
import {
  type HostCompleted,
  HostHelloSchema,
  HostHookSchema,
  HostInvokeSchema,
  type HostReport,
  HostReportSchema,
  HostRunSubagentSchema,
} from "../src/gen/toolgate/v1/host_service_pb.js";
import { nameOf } from "../src/names.js";
import type { Hook } from "../src/node.js";
import {
  type Client,
  defineTool,
  type HookPoint,
  type HostContext,
  type HostedResult,
  type HostOptions,
  PermissionDeniedError,
  type ToolEffectName,
  ToolgateError,
} from "../src/node.js";
import { decode, encode } from "./codec.js";
import { type Command, client, InvalidCommand, number, type Say } from "./driver-commands.js";
import type { Session } from "./driver-session.js";

type Reporter = (report: HostReport) => Promise<object>;

/** `host` */
export async function host(session: Session, command: Command, say: Say): Promise<object> {
  const hello = decode(HostHelloSchema, command["hello"]);
  const running = new Map<string, Reporter>();
  const work = (id: string, context: HostContext) => play(running, id, context, say);
  const tools = hello.tools.map(({ name, description, inputSchemaJson: input, effects }) =>
    defineTool({
      name,
      description,
      input,
      effects: effects.map((effect) => nameOf(ToolEffect, effect) as Exclude<ToolEffectName, "UNSPECIFIED">),
      run: (_input, context) => {
        say({ invoke: encode(HostInvokeSchema, context.message) });
        return work(context.message.invocationId, context);
      },
    }),
  );
  const options: HostOptions<Client> = {
    name: hello.name,
    workspace: hello.workspace,
    subagents: hello.subagents,
    resume: hello.token || undefined,
    hooks: Object.fromEntries(hello.hooks.map((point) => [point as HookPoint, hook(running, say)])),
    onReady: ({ refused }) => say({ ready: { refused } }),
    ...(hello.runsSubagents
      ? {
          subagent: (_task, context) => {
            say({ subagent: encode(HostRunSubagentSchema, context.message) });
            return work(context.message.invocationId, context);
          },
        }
      : {}),
  };
  const lent = client(session, command).host(tools, options);
  session.invocations.set(command.id, running);
  session.stoppable.set(command.id, { stop: () => lent.close() });
  try {
    await lent.done;
    return {};
  } finally {
    session.invocations.delete(command.id);
    session.stoppable.delete(command.id);
  }
}

/** `report` */
export async function report(session: Session, command: Command): Promise<object> {
  const given = decode(HostReportSchema, command["report"]);
  const reporter = session.invocations.get(number(command, "host"))?.get(given.invocationId);
  if (!reporter) {
    throw new ToolgateError("NOT_FOUND", `no function runs for the invocation ${given.invocationId}`);
  }
  return reporter(given);
}

/** A function that reports, asks and returns as it is told. */
function play(running: Map<string, Reporter>, id: string, context: HostContext, say: Say): Promise<HostedResult> {
  return new Promise((resolve, reject) => {
    const ended = (end: () => void) => {
      running.delete(id);
      end();
    };
    running.set(id, async ({ report: { case: kind, value } }) => {
      switch (kind) {
        case "progress":
          await context.progress(value);
          return {};
        case "output":
          await context.output(value.data);
          return {};
        case "ask":
          return { allowed: await allowed(context.ask(value.permission, value)) };
        case "completed":
          ended(() => resolve(resultOf(value)));
          return {};
        case "failed":
          ended(() => reject(new Error(value.error)));
          return {};
        default:
          throw new InvalidCommand(`a function does not report ${String(kind)}`);
      }
    });
    context.signal.addEventListener("abort", () => {
      if (running.delete(id)) {
        say({ cancelled: id });
      }
      reject(context.signal.reason);
    });
  });
}

async function allowed(asked: Promise<void>): Promise<boolean> {
  try {
    await asked;
    return true;
  } catch (error) {
    if (error instanceof PermissionDeniedError) {
      return false;
    }
    throw error;
  }
}

function resultOf({ title, output, metadata, attachments }: HostCompleted): HostedResult {
  return {
    title,
    output,
    metadata,
    attachments: attachments.map(({ mime, filename, content }) => ({
      mime,
      filename,
      ...(content.case === "data" ? { data: content.value } : {}),
      ...(content.case === "url" ? { url: content.value } : {}),
    })),
  };
}

/** The protocol has no hooks; this makes them visible all the same. */
function hook(running: Map<string, Reporter>, say: Say): Hook {
  return (_input, _output, { message, signal }) =>
    new Promise((resolve, reject) => {
      running.set(message.invocationId, async ({ report: { case: kind, value } }) => {
        running.delete(message.invocationId);
        if (kind === "hookResult") {
          resolve(JSON.parse(value.outputJson));
        } else {
          reject(new Error(kind === "failed" ? value.error : `a hook does not report ${String(kind)}`));
        }
        return {};
      });
      signal.addEventListener("abort", () => reject(signal.reason));
      say({ hook: encode(HostHookSchema, message) });
    });
}
