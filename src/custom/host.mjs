// Runs the custom tools and plugins of one workspace: under bun, deno, or node 22.18 and later, unchanged.
//
// The main thread runs none of their code. It connects to the socket that its first argument names and speaks one JSON
// object per line; standard output is the tools' own. Every file has a worker thread of its own, so that one that loops
// for ever or exits is ended alone. A file is loaded again whenever it is needed and its worker is gone.
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

// How long a call that was cancelled may block its thread, and how long it may go on without blocking it.
const BLOCKED_MS = 700;
const UNSETTLED_MS = 1500;
const DISPOSE_MS = 300;
const METADATA_MS = 50;
const MAX_OUTPUT_BYTES = 32 * 1024 * 1024;
const MAX_ATTACHMENT_BYTES = 10 * 1024 * 1024;
const MAX_ATTACHMENTS = 32;
const MAX_OPEN_ASKS = 64;

// ---------------------------------------------------------------------------------------------------- main thread

async function main(socketPath, directory) {
  const net = await import("node:net");
  const modules = new Map(); // id -> {spec, worker, requests, retired, reason}
  const requests = new Map(); // id -> {module, op, started, settling}
  const socket = net.connect({ path: socketPath });
  // The runtime's own settings were read where the host lives; the tools work in their workspace.
  process.chdir(directory);

  const tell = (op, id, body) => socket.write(`{"op":${JSON.stringify(op)},"id":${id},"body":${body}}\n`);

  function fail(id, message, extra = {}) {
    const request = requests.get(id);
    if (!request) return;
    requests.delete(id);
    request.module.requests.delete(id);
    tell(request.op === "load" ? "loaded" : "done", id, JSON.stringify({ error: { message, ...extra } }));
    retireIfIdle(request.module);
  }

  function stop(module, reason) {
    const worker = module.worker;
    if (!worker) return;
    module.worker = null;
    for (const id of [...module.requests]) fail(id, reason);
    worker.terminate();
  }

  function retireIfIdle(module) {
    if (!module.retired || module.requests.size > 0) return;
    modules.delete(module.spec.id);
    const worker = module.worker;
    if (!worker) return;
    module.worker = null;
    dispose(worker).then(() => worker.terminate());
  }

  // Lets plugins tidy up, but not for long.
  function dispose(worker) {
    return new Promise((done) => {
      setTimeout(done, DISPOSE_MS);
      worker.on("message", (message) => message.op === "disposed" && done());
      worker.postMessage({ op: "dispose" });
    });
  }

  function fromWorker(module, message) {
    const request = requests.get(message.id);
    if (!request || request.module !== module) return;
    if (message.op === "started") request.started = true;
    else if (message.op === "settling") request.settling = true;
    else {
      tell(message.op, message.id, message.body);
      if (message.op === "done" || message.op === "loaded") {
        requests.delete(message.id);
        module.requests.delete(message.id);
        retireIfIdle(module);
      }
    }
  }

  function moduleOf(spec) {
    let module = modules.get(spec.id);
    if (!module) modules.set(spec.id, (module = { spec, worker: null, requests: new Set(), retired: false }));
    if (!module.worker) {
      const worker = (module.worker = new Worker(new URL(import.meta.url), { workerData: spec }));
      let crash = "";
      worker.on("message", (message) => module.worker === worker && fromWorker(module, message));
      worker.on("error", (error) => (crash = `: ${error?.message ?? error}`));
      worker.on("exit", (code) => {
        if (module.worker === worker) stop(module, `The file ${spec.shown} ended while this ran (exit code ${code}${crash}).`);
      });
    }
    return module;
  }

  function begin(message) {
    const module = moduleOf(message.module);
    requests.set(message.id, { module, op: message.op, started: false, settling: false });
    module.requests.add(message.id);
    module.worker.postMessage({ ...message, module: undefined });
  }

  function abort(id) {
    const request = requests.get(id);
    if (!request) return;
    const { module } = request;
    const worker = module.worker;
    worker?.postMessage({ op: "abort", id });
    // What has not begun waits for another call of the file, which must not suffer for this one.
    if (!request.started && module.requests.size > 1) return fail(id, "Tool execution aborted");
    const still = () => requests.get(id) === request && module.worker === worker;
    const text = `The file ${module.spec.shown} was stopped, because a call that was cancelled did not end.`;
    setTimeout(() => still() && !request.settling && stop(module, text), BLOCKED_MS);
    setTimeout(() => still() && module.requests.size === 1 && stop(module, text), UNSETTLED_MS);
  }

  function receive(message) {
    switch (message.op) {
      case "load":
      case "call":
      case "hook":
        return begin(message);
      case "abort":
        return abort(message.id);
      case "answer":
        return requests.get(message.id)?.module.worker?.postMessage(message);
      case "unload": {
        const module = modules.get(message.module);
        if (!module) return;
        module.retired = true;
        return retireIfIdle(module);
      }
    }
  }

  let pieces = [];
  socket.on("data", (data) => {
    let start = 0;
    for (let end; (end = data.indexOf(10, start)) !== -1; start = end + 1) {
      pieces.push(data.subarray(start, end));
      const line = Buffer.concat(pieces).toString("utf8");
      pieces = [];
      receive(JSON.parse(line));
    }
    if (start < data.length) pieces.push(data.subarray(start));
  });
  const leave = async () => {
    const workers = [...modules.values()].map(({ worker }) => worker).filter(Boolean);
    await Promise.all(workers.map(dispose));
    process.exit(0);
  };
  socket.on("close", leave);
  socket.on("error", leave);
}

// ---------------------------------------------------------------------------------------------------- worker thread

async function worker(spec) {
  const running = new Map(); // id -> AbortController
  const skipped = new Set();
  const asks = new Map(); // number -> {resolve, reject}
  let loaded; // {tools: Map, hooks: []}
  const send = (op, id, body) => parentPort.postMessage({ op, id, body: JSON.stringify(body) });

  process.on("unhandledRejection", (error) => console.error(`${spec.shown}:`, error));
  await resolveHelpers(spec.helper);
  const loading = load(spec).then(
    (result) => (loaded = result),
    (error) => (loaded = { error: explain(error, spec, true) }),
  );

  const handlers = {
    load(message) {
      if (loaded.error) return send("loaded", message.id, { error: loaded.error });
      const tools = [...loaded.tools.values()].map(({ name, description, schema }) => ({ name, description, schema }));
      const points = new Set(loaded.hooks.flatMap((hooks) => Object.keys(hooks)));
      send("loaded", message.id, { tools, hooks: [...points], problem: loaded.problem });
    },
    call: (message) => run(message, () => call(message)),
    hook: (message) => run(message, () => hook(message)),
  };

  async function run(message, work) {
    const { id } = message;
    if (skipped.delete(id)) return;
    parentPort.postMessage({ op: "started", id });
    running.set(id, new AbortController());
    try {
      if (loaded.error) throw new Reported(`${spec.shown} cannot be loaded: ${loaded.error.message}`);
      send("done", id, { result: await work() });
    } catch (error) {
      send("done", id, { error: explain(error, spec, message.op === "call") });
    } finally {
      running.delete(id);
    }
  }

  async function call({ id, tool: name, args, context }) {
    const tool = loaded.tools.get(name);
    if (!tool) throw new Reported(`${spec.shown} has no tool ${name} any more.`);
    const parsed = await parse(tool.fields, args);
    const progress = metadataSender((body) => send("metadata", id, body));
    try {
      const result = await tool.definition.execute(parsed, {
        ...context,
        abort: running.get(id).signal,
        metadata: (update) => progress.push(update),
        ask: (request) => ask(id, request),
      });
      return toResult(name, result);
    } finally {
      progress.flush();
    }
  }

  async function hook({ point, input, output }) {
    for (const hooks of loaded.hooks) {
      if (typeof hooks[point] === "function") await hooks[point](input, output);
    }
    return output;
  }

  function ask(id, request) {
    if (asks.size >= MAX_OPEN_ASKS) return Promise.reject(new Error("too many questions are open"));
    const number = ++ask.last;
    const texts = (list) => (Array.isArray(list) ? list.map(String) : []);
    return new Promise((resolve, reject) => {
      asks.set(number, { resolve, reject });
      send("ask", id, {
        number,
        permission: String(request?.permission ?? ""),
        patterns: texts(request?.patterns),
        always: texts(request?.always),
        metadata: isObject(request?.metadata) ? request.metadata : {},
      });
    });
  }
  ask.last = 0;

  parentPort.on("message", async (message) => {
    if (message.op === "abort") {
      const controller = running.get(message.id);
      if (!controller) return skipped.add(message.id);
      parentPort.postMessage({ op: "settling", id: message.id });
      controller.abort(new Error("Tool execution aborted"));
    } else if (message.op === "answer") {
      const question = asks.get(message.number);
      asks.delete(message.number);
      if (message.refused === undefined || message.refused === null) question?.resolve();
      else question?.reject(new Refused(message.refused));
    } else if (message.op === "dispose") {
      for (const hooks of loaded?.hooks ?? []) {
        try {
          await hooks.dispose?.();
        } catch (error) {
          console.error(`${spec.shown}: dispose:`, error);
        }
      }
      parentPort.postMessage({ op: "disposed" });
    } else {
      await loading;
      handlers[message.op](message);
    }
  });
}

// A text that says all there is to say, without a place in the code.
class Reported extends Error {}

// What `ask` rejects with.
class Refused extends Error {}

class Invalid extends Error {}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// Lets `@opencode-ai/plugin` and zod be imported where the project has not installed them. Bun finds them by NODE_PATH,
// deno by its import map.
async function resolveHelpers(helper) {
  if (globalThis.Bun || globalThis.Deno) return;
  const { registerHooks } = await import("node:module");
  const endings = ["", ".ts", ".js", ".mjs", "/index.ts", "/index.js"];
  registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context);
      } catch (error) {
        if (/^(zod|@opencode-ai\/plugin)(\/|$)/.test(specifier)) return next(specifier, { ...context, parentURL: helper });
        if (!/^\.{0,2}\//.test(specifier)) throw error;
        const stem = specifier.replace(/\.js$/, "");
        for (const ending of endings) {
          try {
            return next(stem + ending, context);
          } catch {}
        }
        throw error;
      }
    },
  });
}

async function load(spec) {
  const { pathToFileURL } = await import("node:url");
  const exports = await import(pathToFileURL(await entryOf(spec.path)).href);
  return spec.kind === "plugin" ? loadPlugin(spec, exports) : loadTools(spec, exports);
}

// Finds what is imported where a folder is named, as a package is.
async function entryOf(path) {
  const fs = await import("node:fs");
  const { join } = await import("node:path");
  if (!fs.statSync(path).isDirectory()) return path;
  let about = {};
  try {
    about = JSON.parse(fs.readFileSync(join(path, "package.json"), "utf8"));
  } catch {}
  const pick = (target) => {
    if (typeof target === "string") return target;
    if (!isObject(target)) return undefined;
    for (const [condition, inner] of Object.entries(target)) {
      if (["import", "node", "default", ...(globalThis.Bun ? ["bun"] : [])].includes(condition)) {
        const found = pick(inner);
        if (found) return found;
      }
    }
  };
  const exported = isObject(about.exports) && "." in about.exports ? about.exports["."] : about.exports;
  const named = [pick(exported), about.module, about.main, "index.ts", "index.js"];
  const entry = named.filter((name) => typeof name === "string").map((name) => join(path, name));
  const found = entry.find((file) => fs.existsSync(file));
  if (!found) throw new Reported("the folder has neither an entry in package.json nor an index file");
  return found;
}

async function loadTools(spec, exports) {
  const tools = new Map();
  const problems = [];
  for (const [key, definition] of Object.entries(exports)) {
    const isTool = isObject(definition) && isObject(definition.args) && typeof definition.execute === "function";
    if (!isTool || typeof definition.description !== "string") continue;
    await addTool(tools, problems, key === "default" ? spec.name : `${spec.name}_${key}`, definition);
  }
  if (tools.size === 0 && problems.length === 0) {
    problems.push("no export is a tool, which is an object with description, args and execute");
  }
  return { tools, hooks: [], problem: problems.join("; ") };
}

async function loadPlugin(spec, exports) {
  const tools = new Map();
  const problems = [];
  const hooks = [];
  const server = isObject(exports.default) ? exports.default.server : undefined;
  const functions = typeof server === "function" ? [server] : [...new Set(Object.values(exports))];
  const wrong = functions.findIndex((one) => typeof one !== "function");
  if (wrong !== -1) throw new Reported(`a plugin exports functions only, and ${Object.keys(exports)[wrong]} is none`);
  const input = {
    client: client([]),
    project: { id: spec.workspace.name, worktree: spec.workspace.worktree, vcs: "git", time: { created: Date.now() } },
    directory: spec.workspace.directory,
    worktree: spec.workspace.worktree,
    serverUrl: new URL("http://localhost:0/"),
    $: globalThis.Bun?.$,
  };
  for (const one of functions) {
    const made = await one(input, spec.options);
    if (!isObject(made)) continue;
    hooks.push(made);
    for (const [name, definition] of Object.entries(made.tool ?? {})) {
      if (typeof definition?.execute !== "function") problems.push(`${name} has no function execute`);
      else await addTool(tools, problems, name, definition);
    }
  }
  for (const made of hooks) await made.config?.(spec.config);
  return { tools, hooks, problem: problems.join("; ") };
}

// Stands in for the client of OpenCode's own server, which is not there.
function client(path) {
  const name = ["client", ...path].join(".");
  return new Proxy(function () {}, {
    get: (_, key) => (typeof key === "symbol" || key === "then" ? undefined : client([...path, key])),
    apply(_, __, [request]) {
      if (name === "client.app.log") {
        console.error(request?.body?.message ?? request?.message ?? "");
        return Promise.resolve({ data: true });
      }
      return Promise.reject(new Error(`${name} is not available: the service runs tools and has no server of OpenCode's.`));
    },
  });
}

// ---------------------------------------------------------------------------------------------------- schemas

async function addTool(tools, problems, name, definition) {
  try {
    const { fields, schema } = await describeArgs(definition.args ?? {});
    tools.set(name, { name, description: String(definition.description ?? ""), definition, fields, schema });
  } catch (error) {
    problems.push(`${name}: ${error?.message ?? error}`);
  }
}

const isZod4 = (type) => isObject(type) && "_zod" in type;
const isZod3 = (type) => isObject(type) && !isZod4(type) && "_def" in type && typeof type.safeParse === "function";

// Returns the types by which arguments are parsed, and the JSON Schema of all of them.
async function describeArgs(args) {
  if (isZod4(args) && isObject(args.shape)) args = args.shape;
  if (args.type === "object" && isObject(args.properties) && !isZod4(args.properties)) return { fields: {}, schema: args };
  const fields = {};
  const schema = { type: "object", properties: {} };
  const required = [];
  const typed = {};
  for (const [name, type] of Object.entries(args)) {
    schema.properties[name] = {};
    if (isZod4(type)) fields[name] = typed[name] = type;
    else if (isZod3(type)) {
      fields[name] = type;
      if (type.description) schema.properties[name].description = type.description;
      if (!type.isOptional()) required.push(name);
    } else if (isObject(type)) {
      schema.properties[name] = type;
      required.push(name);
    } else throw new Error(`the argument ${name} is neither a zod type nor a JSON Schema`);
  }
  if (Object.keys(typed).length > 0) {
    const { z } = await import(new URL("./node_modules/zod/index.js", import.meta.url).href);
    const made = z.toJSONSchema(z.object(typed), { io: "input", unrepresentable: "any", override: keepTexts });
    Object.assign(schema.properties, made.properties);
    if (made.$defs) schema.$defs = made.$defs;
    required.push(...(made.required ?? []));
  }
  return { fields, schema: required.length > 0 ? { ...schema, required } : schema };
}

// Texts are registered with the copy of zod that made the type, which may be another one than this.
function keepTexts({ zodSchema, jsonSchema }) {
  const meta = typeof zodSchema.meta === "function" ? (zodSchema.meta() ?? {}) : {};
  for (const key of ["title", "description", "examples", "deprecated"]) {
    const text = meta[key] ?? (key === "description" ? zodSchema.description : undefined);
    if (text !== undefined && jsonSchema[key] === undefined) jsonSchema[key] = text;
  }
}

// Parses field by field, so that any copy and version of zod does, and arguments without a type stay.
async function parse(fields, args) {
  const parsed = { ...args };
  const problems = [];
  for (const [name, type] of Object.entries(fields)) {
    const result = await type.safeParseAsync(Object.hasOwn(args, name) ? args[name] : undefined);
    if (!result.success) {
      for (const issue of result.error.issues) problems.push(`${[name, ...issue.path].join(".")}: ${issue.message}`);
    } else if (result.data !== undefined) parsed[name] = result.data;
    else delete parsed[name];
  }
  if (problems.length > 0) throw new Invalid(problems.join("; "));
  return parsed;
}

// ---------------------------------------------------------------------------------------------------- results

function toResult(name, result) {
  if (result === undefined || result === null) result = "";
  if (typeof result !== "object" && typeof result !== "function") result = { output: String(result) };
  if (!isObject(result) || typeof result.output === "object" || result.output === undefined) {
    throw new Reported(`The tool ${name} returned neither a text nor an object with an output.`);
  }
  const output = String(result.output);
  if (Buffer.byteLength(output) > MAX_OUTPUT_BYTES) {
    throw new Reported(`The tool ${name} returned more than ${MAX_OUTPUT_BYTES} bytes. Ask it for less.`);
  }
  const attachments = (Array.isArray(result.attachments) ? result.attachments : []).map((one) => ({
    mime: String(one?.mime ?? "application/octet-stream"),
    url: String(one?.url ?? ""),
    filename: one?.filename === undefined ? undefined : String(one.filename),
  }));
  const size = attachments.reduce((total, one) => total + one.url.length, 0);
  if (attachments.length > MAX_ATTACHMENTS || size > MAX_ATTACHMENT_BYTES) {
    throw new Reported(
      `The tool ${name} returned ${attachments.length} attachments of ${size} bytes; at most ${MAX_ATTACHMENTS} of ` +
        `${MAX_ATTACHMENT_BYTES} bytes together are possible.`,
    );
  }
  const title = typeof result.title === "string" ? result.title : "";
  return { title, output, metadata: isObject(result.metadata) ? result.metadata : {}, attachments };
}

// Sends the first update at once, and of those that follow closely the last one.
function metadataSender(sendBody) {
  let timer;
  let waiting;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    if (waiting) sendBody(waiting);
    waiting = undefined;
  };
  return {
    flush,
    push(update) {
      const title = typeof update?.title === "string" ? update.title : waiting?.title;
      waiting = { title, metadata: isObject(update?.metadata) ? update.metadata : (waiting?.metadata ?? {}) };
      if (timer === undefined) {
        sendBody(waiting);
        waiting = undefined;
        timer = setTimeout(flush, METADATA_MS);
      }
    },
  };
}

// Says what a model can use of an error: its message and the first place in the project's own code.
function explain(error, spec, withPlace) {
  const message = String(error?.message || error?.name || error);
  if (error instanceof Refused) return { message, refused: true };
  if (error instanceof Invalid) return { message, invalid: true };
  if (error instanceof Reported || !withPlace) return { message };
  const lines = typeof error?.stack === "string" ? error.stack.split("\n") : [];
  for (const line of lines) {
    const found = /((?:file:\/\/)?\/[^()\s]*?):(\d+):(\d+)\)?\s*$/.exec(line);
    if (!found || found[1].includes("/node_modules/") || found[1].endsWith("/host.mjs")) continue;
    let path = decodeURI(found[1].replace(/^file:\/\//, ""));
    if (path.startsWith(`${spec.workspace.directory}/`)) path = path.slice(spec.workspace.directory.length + 1);
    return { message: `${message} (at ${path}:${found[2]}:${found[3]})` };
  }
  return { message };
}

if (isMainThread) await main(process.argv[2], process.argv[3]);
else await worker(workerData);
