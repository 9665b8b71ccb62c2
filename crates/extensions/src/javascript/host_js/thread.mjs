// A thread that runs the code of one file: loads it, and does what `host.mjs` hands on.
import { AsyncLocalStorage } from "node:async_hooks";
import fs from "node:fs";
import { pathToFileURL } from "node:url";
import { workerData } from "node:worker_threads";
import { Invalid, Refused, Reported, explain, isObject, metadataSender, toJson, toResult } from "./answer.mjs";
import { client } from "./client.mjs";
import { entryOf, resolveHelpers } from "./packages.mjs";
import { addTool, parse } from "./schema.mjs";

const MAX_OPEN_ASKS = 64;
const MAX_WANTED = 256;
const MAX_METADATA_BYTES = 256 * 1024;

// What a request says of itself once it has begun.
const BEGUN = 1;

const { spec, port } = workerData;
// Tools that look for a port of their own must not find this one.
delete workerData.port;
const running = new Map(); // id -> {id, controller, fail, isOver}
const asks = new Map(); // number -> {call, resolve, reject}
const wanted = new Map(); // number -> {resolve, reject}, of what the service has been asked for
const current = new AsyncLocalStorage();
let asked = 0;

process.on("unhandledRejection", (error) => console.error(`${spec.shown}:`, error));
// What is thrown where nobody waits for it ends the call that it belongs to.
process.on("uncaughtException", blame);
// Would end the thread and all that runs on it.
process.exit = exit;
if (globalThis.Deno) globalThis.Deno.exit = exit;

function exit(code) {
  const error = new Error(`process.exit(${code ?? ""}) was called`);
  blame(error);
  throw error;
}

function blame(error) {
  const call = current.getStore() ?? (running.size === 1 ? [...running.values()][0] : undefined);
  if (call && !call.isOver) call.fail(error);
  else console.error(`${spec.shown}:`, error);
}

// A tool may have changed how JSON is written, for everything that is there.
function errorJson(error) {
  try {
    return toJson({ error });
  } catch {
    return '{"error":{"message":"what the file answered cannot be written as JSON"}}';
  }
}

const reply = (op, id, json) => port.postMessage({ op, id, json });

const loading = load().catch((error) => ({ error: explain(error, spec) }));
loading.then(() => {
  // Linux only; what the thread starts is found by its number.
  const number = fs.readlinkSync("/proc/thread-self").split("/").pop();
  port.postMessage({ op: "ready", number });
});

port.on("message", async (message) => {
  switch (message.op) {
    case "abort":
      port.postMessage({ op: "heard", id: message.id });
      return running.get(message.id)?.controller.abort(new Error("Tool execution aborted"));
    case "answer":
      return answered(message);
    case "served":
      return served(message);
    case "size": {
      const { heapUsed, external } = process.memoryUsage();
      return port.postMessage({ op: "size", bytes: heapUsed + external });
    }
    case "dispose":
      return dispose();
    default: {
      const loaded = await loading;
      if (Atomics.compareExchange(message.claim, 0, 0, BEGUN) !== 0) return;
      const call = { id: message.id, controller: new AbortController(), isOver: false };
      return current.run(call, () => run(call, message, loaded));
    }
  }
});

// ---------------------------------------------------------------------------------------------------- requests

async function run(call, message, loaded) {
  running.set(call.id, call);
  const failed = new Promise((_, reject) => (call.fail = reject));
  let json;
  try {
    json = toJson(await Promise.race([answer(call, message, loaded), failed]));
  } catch (error) {
    json = errorJson(explain(error, spec, message.op === "call"));
  }
  call.isOver = true;
  running.delete(call.id);
  for (const [number, ask] of asks) {
    if (ask.call !== call) continue;
    asks.delete(number);
    ask.reject(new Error("the call has ended"));
  }
  reply("done", call.id, json);
}

async function answer(call, message, loaded) {
  if (message.op === "load") return described(loaded);
  if (loaded.error) throw new Reported(`${spec.shown} cannot be loaded: ${loaded.error.message}`);
  return { result: message.op === "call" ? await execute(call, message, loaded) : await hook(message, loaded) };
}

function described(loaded) {
  if (loaded.error) return { error: loaded.error };
  const tools = [...loaded.tools.values()].map(({ name, description, schema }) => ({ name, description, schema }));
  const points = new Set(loaded.hooks.flatMap((hooks) => Object.keys(hooks)));
  return { tools, hooks: [...points], problem: loaded.problem, config: loaded.config };
}

async function execute(call, { tool: name, args, context }, loaded) {
  const tool = loaded.tools.get(name);
  if (!tool) throw new Reported(`${spec.shown} has no tool ${name} any more.`);
  const parsed = await parse(tool.fields, args);
  const progress = metadataSender((update) => {
    try {
      if (!call.isOver) reply("metadata", call.id, toJson(update, MAX_METADATA_BYTES, "an update"));
    } catch (error) {
      console.error(`${spec.shown}: ${explain(error, spec).message}`);
    }
  });
  try {
    const result = await tool.definition.execute(parsed, {
      ...context,
      abort: call.controller.signal,
      metadata: (update) => progress.push(update),
      ask: (request) => ask(call, request),
    });
    return toResult(name, result);
  } finally {
    progress.flush();
  }
}

async function hook({ point, input, output }, { hooks }) {
  // As in OpenCode, whose caller keeps the object: arguments are changed in place, and others put there do not count.
  const { args } = output;
  for (const one of hooks) {
    if (typeof one[point] === "function") await one[point](input, output);
  }
  return point === "tool.execute.before" ? { ...output, args } : output;
}

function ask(call, request) {
  if (call.isOver) return Promise.reject(new Error("the call has ended"));
  if (asks.size >= MAX_OPEN_ASKS) return Promise.reject(new Error("too many questions are open"));
  const texts = (list) => (Array.isArray(list) ? list.map(String) : []);
  const number = ++asked;
  return new Promise((resolve, reject) => {
    const question = {
      number,
      permission: String(request?.permission ?? ""),
      patterns: texts(request?.patterns),
      always: texts(request?.always),
      metadata: isObject(request?.metadata) ? request.metadata : {},
    };
    const json = toJson(question, MAX_METADATA_BYTES, "the question");
    asks.set(number, { call, resolve, reject });
    reply("ask", call.id, json);
  });
}

function answered({ number, refused }) {
  const question = asks.get(number);
  asks.delete(number);
  if (typeof refused === "string") question?.reject(new Refused(refused));
  else question?.resolve();
}

// Asks the service for something that a plugin wants to know.
function want(name, params) {
  if (wanted.size >= MAX_WANTED) return Promise.reject(new Error("too many requests are open"));
  const number = ++asked;
  return new Promise((resolve, reject) => {
    const json = toJson({ number, name, params }, MAX_METADATA_BYTES, "the request");
    wanted.set(number, { resolve, reject });
    port.postMessage({ op: "client", json });
  });
}

function served({ number, error, ...answer }) {
  const request = wanted.get(number);
  wanted.delete(number);
  if (typeof error === "string") request?.reject(new Error(error));
  else request?.resolve(answer);
}

async function dispose() {
  for (const hooks of (await loading).hooks ?? []) {
    try {
      await hooks.dispose?.();
    } catch (error) {
      console.error(`${spec.shown}: dispose:`, error);
    }
  }
  port.postMessage({ op: "disposed" });
}

// ---------------------------------------------------------------------------------------------------- loading

async function load() {
  await resolveHelpers();
  const exports = await import(pathToFileURL(entryOf(spec.path)).href);
  return spec.kind === "plugin" ? loadPlugin(exports) : loadTools(exports);
}

async function loadTools(exports) {
  const tools = new Map();
  const problems = [];
  for (const [key, definition] of Object.entries(exports)) {
    const isTool = isObject(definition) && isObject(definition.args) && typeof definition.execute === "function";
    if (!isTool || typeof definition.description !== "string") continue;
    await addTool(tools, problems, key === "default" ? spec.name : `${spec.name}_${key}`, definition, spec.path);
  }
  if (tools.size === 0 && problems.length === 0) {
    problems.push("no export is a tool, which is an object with description, args and execute");
  }
  return { tools, hooks: [], problem: problems.join("; ") };
}

async function loadPlugin(exports) {
  const tools = new Map();
  const problems = [];
  const hooks = [];
  const server = isObject(exports.default) ? exports.default.server : undefined;
  const wrong = Object.keys(exports).find((key) => typeof exports[key] !== "function");
  if (wrong !== undefined && typeof server !== "function") {
    throw new Reported(`a plugin exports functions only, and ${wrong} is none`);
  }
  const functions = typeof server === "function" ? [server] : new Set(Object.values(exports));
  const { directory, worktree, name: id } = spec.workspace;
  const project = { id, worktree, vcs: "git", time: { created: Date.now() } };
  const note = (name) => port.postMessage({ op: "note", json: JSON.stringify(name) });
  const input = {
    client: client(spec, project, want, note),
    project,
    directory,
    worktree,
    serverUrl: new URL("http://localhost:0/"),
    $: globalThis.Bun?.$,
    // What replaces OpenCode's tools by those of a service has nothing to do in the service.
    toolgate: true,
  };
  for (const one of functions) {
    const made = await one(input, spec.options ?? undefined);
    if (!isObject(made)) continue;
    hooks.push(made);
    for (const [name, definition] of Object.entries(made.tool ?? {})) {
      if (typeof definition?.execute !== "function") problems.push(`${name} has no function execute`);
      else await addTool(tools, problems, name, definition, spec.path);
    }
  }
  const config = await configured(hooks, problems);
  return { tools, hooks, problem: problems.join("; "), config };
}

// Returns the configuration as the plugin leaves it, if it changes anything.
async function configured(hooks, problems) {
  const given = toJson(spec.config);
  try {
    for (const made of hooks) await made.config?.(spec.config);
    const left = toJson(spec.config, undefined, "the configuration that it leaves");
    return left === given ? undefined : JSON.parse(left);
  } catch (error) {
    // What it had changed until then may be half of something.
    spec.config = JSON.parse(given);
    problems.push(`its hook config failed, so what it changes does not count: ${explain(error, spec).message}`);
  }
}
