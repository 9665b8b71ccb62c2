// An agent of the draft of the protocol's second version, made with its SDK: its model is the pattern of what the user says.
//
// The real agents of this suite speak the first version only.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.env.MODULES, "package.json"));
const acp = await import(pathToFileURL(require.resolve("@agentclientprotocol/sdk/experimental/v2")).href);
const sessions = new Map();

class Server {
  #calls = 0;
  #waiting = new Map();

  constructor({ type, command, args, env }) {
    if (type !== "stdio") throw new Error(`no server that is a program: ${type}`);
    const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    this.program = spawn(command, args, { env: variables, stdio: ["pipe", "pipe", "inherit"] });
    createInterface({ input: this.program.stdout }).on("line", (line) => {
      const message = JSON.parse(line);
      this.#waiting.get(message.id)?.(message);
    });
  }

  tell(message) {
    this.program.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  ask(method, params) {
    this.#calls += 1;
    const id = this.#calls;
    this.tell({ id, method, params });
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  async start() {
    const clientInfo = { name: "agent", version: "1" };
    await this.ask("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
    this.tell({ method: "notifications/initialized" });
    return this;
  }
}

async function turn(context, { sessionId, prompt }) {
  const [, verb, name] = prompt[0].text.match(/(\w+) ?(.*)/);
  const { server, cwd, model } = sessions.get(sessionId);
  const call =
    verb === "WRITE"
      ? { name: "write", arguments: { filePath: join(cwd, name), content: "hello\n" } }
      : { name: "bash", arguments: { command: "sleep 1000", description: "Sleeps" } };
  const { result } = await server.ask("tools/call", call);
  await fetch(`${model}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ messages: [{ role: "tool", content: JSON.stringify(result ?? "") }] }),
  });
  const update = { sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" };
  await context.client.notify("session/update", { sessionId, update });
}

const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
const connection = acp
  .agent({ name: "agent" })
  .onRequest("initialize", () => ({
    protocolVersion: 2,
    info: { name: "an agent of the SDK", version: "1" },
    capabilities: { session: { mcp: { stdio: {} } } },
  }))
  .onRequest("session/new", async ({ params }) => {
    const sessionId = `session-${sessions.size}`;
    const server = await new Server(params.mcpServers[0]).start();
    sessions.set(sessionId, { server, cwd: params.cwd, model: process.env.MODEL });
    return { sessionId };
  })
  .onRequest("session/prompt", (context) => {
    const { sessionId } = context.params;
    setImmediate(() => turn(context, context.params));
    return { messageId: `${sessionId}-message` };
  })
  .onNotification("session/cancel", () => {})
  .connect(stream);
await connection.closed;
for (const { server } of sessions.values()) server.program.stdin.end();
