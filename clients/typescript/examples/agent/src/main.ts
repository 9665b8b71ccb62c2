#!/usr/bin/env node
/** Puts the agent together: arguments, the connection, the person, and what Ctrl-C means. */
import { randomUUID } from "node:crypto";
import { parseArgs } from "node:util";
import { type Client, connect, ToolgateError } from "toolgate/node";
import { Conversation, type Parts, Subagents } from "./conversation.js";
import { Model, ModelError } from "./model.js";
import { Person } from "./people.js";
import { Terminal, visible } from "./terminal.js";

const USAGE = `usage: toolgate-agent --model NAME [OPTIONS]
  --base-url URL     the OpenAI-compatible endpoint (OPENAI_BASE_URL); its key is OPENAI_API_KEY
  --model NAME       the endpoint's name for the model
  --server TARGET    Toolgate: unix:/path, http://host:port (TOOLGATE_SERVER)
  --workspace NAME   the workspace; the server's first one if left out
  --agent NAME       the agent, whose rules hold (build)`;

const SYSTEM = (root: string) => `You are a careful software engineer who works in the folder ${root} with the tools you
are given. Look before you change something, keep changes small, and run the tests afterwards. When a call is refused,
read why, and find another way that respects the reason. Say briefly what you did when you are done.`;

type Options = ReturnType<typeof options>;

function options() {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: { "base-url": text, model: text, server: text, workspace: text, agent: text },
  });
  if (!values.model) {
    throw new TypeError("--model is missing");
  }
  const baseUrl = values["base-url"] ?? process.env["OPENAI_BASE_URL"] ?? "https://api.openai.com/v1";
  return { ...values, baseUrl, model: values.model };
}

/** Aborted when the agent is to end. */
const program = new AbortController();
/** What the agent works on now, if anything. */
let working: AbortController | undefined;

function handleSignals(terminal: Terminal): void {
  process.on("SIGINT", () => {
    if (!working || working.signal.aborted) {
      program.abort(new Error("interrupted"));
      return;
    }
    terminal.line("Stopping; Ctrl-C again ends the agent.");
    working.abort(new Error("stopped by the user"));
  });
  // A closed window is no reason to leave calls behind either.
  for (const end of ["SIGTERM", "SIGHUP"] as const) {
    process.on(end, () => program.abort(new Error("told to end")));
  }
}

async function talk(options: Options, terminal: Terminal): Promise<void> {
  const session = `ses_${randomUUID().replaceAll("-", "")}`;
  const sessions = new Set([session]);
  const { workspace } = options;
  await using client = connect(options.server, {
    workspace,
    session,
    agent: options.agent ?? "build",
    clientKind: "cli",
    // With the model's name the server decides which tools it gets, and in what form.
    model: { providerId: "openai", modelId: options.model },
  });
  const { workspaces } = await client.info({ signal: program.signal });
  const root = workspaces.find(({ name }) => workspace === undefined || name === workspace)?.directory ?? ".";
  const model = new Model(options.baseUrl, process.env["OPENAI_API_KEY"] ?? "", options.model);
  const parts: Parts = { model, terminal, host: `agent ${session}` };
  const person = new Person(terminal, sessions);
  const subagents = new Subagents(parts, sessions, SYSTEM(root));
  const conversation = new Conversation(parts, SYSTEM(root));
  try {
    await using approvals = client.approvals((prompt, context) => person.decide(prompt, context), {
      workspace,
      onReply: (outcome) => person.told(outcome),
    });
    await using host = client.host([], {
      name: parts.host,
      subagent: (task, context) => subagents.run(task, context),
    });
    await Promise.all([approvals.ready, host.ready]);
    for (;;) {
      const text = await nextMessage(terminal);
      if (text === undefined) {
        return;
      }
      await work(client, conversation, text, terminal);
    }
  } finally {
    // Ends what commands left running in the background, too.
    await Promise.allSettled([...sessions].map((one) => client.endSession(one)));
  }
}

async function nextMessage(terminal: Terminal): Promise<string | undefined> {
  const { signal } = program;
  for (;;) {
    const line = await terminal.dialog(signal, () => terminal.ask("> ", { signal, typedAhead: true }));
    if (line === undefined || line.trim() !== "") {
      return line;
    }
  }
}

/** Has the agent work on a message; what goes wrong is told to the person, who may say what to do. */
async function work(client: Client, conversation: Conversation, text: string, terminal: Terminal): Promise<void> {
  working = new AbortController();
  const signal = AbortSignal.any([working.signal, program.signal]);
  try {
    await conversation.turn(client, text, (said) => terminal.write(visible(said)), signal);
  } catch (error) {
    if (signal.aborted) {
      terminal.line("Stopped.");
      program.signal.throwIfAborted();
    } else if (error instanceof ModelError || error instanceof ToolgateError) {
      terminal.line(terminal.paint(31, `! ${visible(error.message)}`));
    } else {
      throw error;
    }
  } finally {
    working = undefined;
  }
}

async function main(): Promise<number> {
  let given: Options;
  try {
    given = options();
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}\n`);
    return 2;
  }
  const terminal = new Terminal();
  handleSignals(terminal);
  try {
    await talk(given, terminal);
    return 0;
  } catch (error) {
    if (program.signal.aborted) {
      return 130;
    }
    if (error instanceof ToolgateError) {
      terminal.line(`toolgate-agent: ${error.message}`);
      return 1;
    }
    throw error;
  } finally {
    terminal.close();
  }
}

process.exitCode = await main();
