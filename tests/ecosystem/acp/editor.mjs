// The SDK of the protocol as an editor, with Toolgate in front of an agent: editor.mjs KIND COMMAND...
//
// It prints what it has seen, and fails if that is not what it should be.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import { startModel } from "./model.mjs";

const require = createRequire(join(process.env.MODULES, "package.json"));
const [kind, ...command] = process.argv.slice(2);
const isSecond = kind === "v2";
const acp = await import(
  pathToFileURL(require.resolve(isSecond ? "@agentclientprotocol/sdk/experimental/v2" : "@agentclientprotocol/sdk")).href
);

const folder = await realpath(await mkdtemp(join(tmpdir(), "toolgate-acp-")));
const [home, project] = [join(folder, "home"), join(folder, "project")];
await mkdir(join(project, ".git"), { recursive: true });
await mkdir(home);
const rules = { permission: { bash: "ask", edit: "ask" } };
await writeFile(join(project, "opencode.json"), JSON.stringify(rules));
const file = (name) => join(project, name);
const model = await startModel((said) => {
  const [, verb, name] = said.match(/(WRITE|SLEEP) ?(\S*?\.txt)?/g)?.at(-1)?.match(/(\w+) ?(.*)/) ?? [];
  if (verb === "WRITE") return { tool: /toolgate_+write$/, input: { filePath: file(name), content: "hello\n" } };
  if (verb === "SLEEP") return { tool: /toolgate_+bash$/, input: { command: "sleep 1000", description: "Sleeps" } };
  return undefined;
});

/** What an agent needs to find the model. */
const settings = {
  async v2() {
    return { MODULES: process.env.MODULES, MODEL: model.url };
  },
  async claude() {
    return {
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_API_KEY: "key",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      ENABLE_TOOL_SEARCH: "false",
    };
  },
  async codex() {
    await mkdir(join(home, ".codex"));
    const provider = `name = "Scripted"\nbase_url = "${model.url}/v1"\nwire_api = "responses"\nenv_key = "KEY"\n`;
    const settings = `model = "scripted"\nmodel_provider = "scripted"\n[model_providers.scripted]\n${provider}`;
    await writeFile(join(home, ".codex", "config.toml"), settings);
    return { KEY: "key" };
  },
  async opencode() {
    const config = join(home, ".config", "opencode");
    // OpenCode would first install its package for plugins, unless it finds that written down.
    await mkdir(join(config, "node_modules"), { recursive: true });
    const dependencies = { "@opencode-ai/plugin": "*" };
    await writeFile(join(config, "package.json"), JSON.stringify({ dependencies }));
    await writeFile(join(config, "package-lock.json"), JSON.stringify({ packages: { "": { dependencies } } }));
    const provider = {
      npm: "@ai-sdk/openai-compatible",
      name: "Scripted",
      options: { baseURL: `${model.url}/v1`, apiKey: "key" },
      models: { scripted: { name: "Scripted", tool_call: true, limit: { context: 100_000, output: 10_000 } } },
    };
    const settings = { provider: { scripted: provider }, model: "scripted/scripted", autoupdate: false };
    await writeFile(join(config, "opencode.json"), JSON.stringify(settings));
    return { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_MODELS_URL: model.url };
  },
};
const env = { PATH: process.env.PATH, HOME: home, USER: "ada", TERM: "dumb", ...(await settings[kind]?.()) };
const agent = spawn(process.env.TOOLGATE_BIN, ["acp", "--", ...command], { cwd: project, env, stdio: ["pipe", "pipe", "pipe"] });
let complaints = "";
agent.stderr.on("data", (data) => {
  complaints += data;
});
const ended = new Promise((resolve) => agent.on("exit", (code, signal) => resolve(code ?? signal)));

/** What the user is asked by Toolgate, and what was withdrawn. */
const asked = [];
let withdrawn = 0;
let answer = () => "once";
let waiting = [];
const told = [];

const editor = acp
  .client({ name: "editor" })
  .onRequest("session/request_permission", async (context) => {
    const { params } = context;
    const call = isSecond ? params.subject.toolCall : params.toolCall;
    if (!call.toolCallId.startsWith("toolgate-")) {
      // What the agent asks by itself.
      const allowed = params.options.find(({ kind: one }) => one.startsWith("allow"));
      return { outcome: { outcome: "selected", optionId: allowed.optionId } };
    }
    asked.push({ ...params, call });
    wake();
    const chosen = answer();
    if (chosen) return { outcome: { outcome: "selected", optionId: chosen } };
    await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
    withdrawn += 1;
    wake();
    return { outcome: { outcome: "cancelled" } };
  })
  .onNotification("session/update", ({ params }) => {
    told.push(params.update);
    wake();
  });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const limit = setTimeout(() => {
  console.error(`it takes too long\n${complaints}\n${JSON.stringify({ asked, told, model: model.told }).slice(0, 4000)}`);
  agent.kill("SIGKILL");
  process.exit(1);
}, 150_000);

/** Has all look again who wait for something. */
function wake() {
  const all = waiting;
  waiting = [];
  for (const resolve of all) resolve();
}

/** Waits until something is so. */
async function until(check) {
  while (!check()) await new Promise((resolve) => waiting.push(resolve));
}

const about = await editor.connectWith(stream, async (context) => {
  const begun = await context.request("initialize", {
    protocolVersion: isSecond ? 2 : 1,
    ...(isSecond ? { info: { name: "editor", version: "1" } } : { clientInfo: { name: "editor", version: "1" } }),
    [isSecond ? "capabilities" : "clientCapabilities"]: {},
  });
  assert.equal(begun.protocolVersion, isSecond ? 2 : 1);
  const { sessionId } = await context.request("session/new", { cwd: project, mcpServers: [] });
  const prompt = async (words) => {
    const before = told.length;
    const said = await context.request("session/prompt", { sessionId, prompt: [{ type: "text", text: words }] });
    if (!isSecond) return said.stopReason;
    const idle = ({ sessionUpdate, state }) => sessionUpdate === "state_update" && state === "idle";
    await until(() => told.slice(before).some(idle));
    return told.slice(before).find(idle).stopReason;
  };

  assert.equal(await prompt("WRITE one.txt"), "end_turn", JSON.stringify(model.told));
  assert.equal(asked.length, 1, JSON.stringify(model.told));
  assert.equal(await readFile(file("one.txt"), "utf8"), "hello\n");
  const [first] = asked;
  assert.equal(first.sessionId, sessionId);
  const diff = first.call.content[0];
  assert.equal(diff.type, "diff");
  if (isSecond) assert.match(diff.patch.text, /\+hello/);
  else assert.deepEqual([diff.path, diff.newText], [file("one.txt"), "hello\n"]);

  answer = () => "reject";
  await prompt("WRITE two.txt");
  assert.equal(asked.length, 2);
  assert.ok(!existsSync(file("two.txt")));
  assert.match(model.told.at(-1), /rejected/);

  // The work is cancelled while it waits.
  answer = () => undefined;
  const turn = prompt("SLEEP");
  await until(() => asked.length === 3);
  await context.notify("session/cancel", { sessionId });
  await turn;
  // The agent may be faster with the end of the turn.
  const ends = () =>
    told.filter((one) => one.toolCallId?.startsWith("toolgate-") && one.sessionUpdate === "tool_call_update");
  await until(() => withdrawn === 1 && ends().length === 3);
  assert.deepEqual(ends().map(({ status }) => status), ["completed", "failed", isSecond ? "cancelled" : "failed"]);
  return begun.agentInfo ?? begun.info ?? {};
});
agent.stdin.end();
const code = await ended;
clearTimeout(limit);
model.close();
await rm(folder, { recursive: true, force: true });
console.log(JSON.stringify({ ...about, code }));
