// Runs the custom tools and plugins of one workspace: under bun, deno, or node 22.18 and later, unchanged.
//
// This thread runs none of their code. It connects to the socket that its first argument names and is told what to do in
// lines of JSON; its own lines are `WORD ID JSON`. Standard output is the tools' own.
//
// The files run on threads of their own (`thread.mjs`), because an endless loop and a full memory can only be ended with
// their thread. Calls of a file with tools that run at the same time have a thread each, so that one takes no other with
// it; what a plugin keeps between its hooks and tools is shared by all of them, so a plugin has one thread.
import fs from "node:fs";
import net from "node:net";
import { MessageChannel, Worker, receiveMessageOnPort } from "node:worker_threads";

// How long a call that was cancelled may block its thread, how long it may go on without blocking it, and when a thread
// that is blocked takes what else runs on it with it.
const BLOCKED_MS = 700;
const UNSETTLED_MS = 1500;
const LOST_MS = 10_000;
// When what waits for a blocked thread goes to another one.
const WAIT_MS = 5000;
// Threads of one file with tools, and how long one stays that is not needed.
const MAX_THREADS = 8;
const SPARE_MS = 10_000;
const DISPOSE_MS = 300;
const PROGRAM_GRACE_MS = 300;
const ALIVE_MS = 5000;
// What a thread may fill of the runtime's own memory, where the runtime can tell; and how much the whole process may use
// before the thread that fills it is ended.
const THREAD_MIB = 768;
const MEMORY_BYTES = 1024 ** 3;
const MEMORY_MS = 150;
const SIZE_MS = 100;
const MIN_BLAMED_BYTES = 64 * 1024 ** 2;
// After a thread was ended its memory is given back in a while: until then only what comes on top of it counts.
const GIVEN_BACK_MS = 5000;
const ON_TOP_BYTES = 256 * 1024 ** 2;

// What becomes of a request is claimed once, by the thread that begins it or here.
const TAKEN_BACK = 2;

const modules = new Map(); // id -> {spec, threads, retired}
const requests = new Map(); // id -> request
const wanted = new Map(); // number -> the thread that has asked the service for something
let asked = 0;
let socket;

const tell = (word, id, json) => socket.write(`${word} ${id} ${json}\n`);

// ---------------------------------------------------------------------------------------------------- threads

function startThread(module) {
  const { port1: port, port2 } = new MessageChannel();
  // The settings that this process needs to find its own packages are no business of what the tools start.
  const { NODE_PATH: _, BUN_BE_BUN: __, ...env } = process.env;
  const worker = new Worker(new URL("./thread.mjs", import.meta.url), {
    workerData: { spec: module.spec, port: port2 },
    transferList: [port2],
    resourceLimits: { maxOldGenerationSizeMb: THREAD_MIB },
    env,
  });
  // `programs`: the children that were there when it had nothing to do. `spent`: gets nothing more to do.
  const thread = { module, worker, port, requests: new Set(), heard: new Map(), programs: [], spent: false, isReady: false };
  module.threads.add(thread);
  let crash = "";
  port.on("message", (message) => fromThread(thread, message));
  worker.on("error", (error) => (crash = `: ${error?.message ?? error}`));
  worker.on("exit", (code) => {
    // What it said last may still lie here.
    for (let last; (last = receiveMessageOnPort(port)); ) fromThread(thread, last.message);
    stop(thread, `The file ${module.spec.shown} ended while this ran (exit code ${code}${crash}).`);
  });
  return thread;
}

function post(thread, message) {
  try {
    thread.port.postMessage(message);
  } catch {
    // It is ending, and its end is told of by an event of its own.
  }
}

function fromThread(thread, message) {
  switch (message.op) {
    case "ready":
      thread.number = message.number;
      thread.programs = childrenOf(thread);
      thread.isReady = true;
      return;
    case "heard":
      thread.heard.get(message.id)?.();
      return thread.heard.delete(message.id);
    case "size":
      return (thread.size = message.bytes);
    case "disposed":
      return thread.disposed?.();
    case "client":
      wanted.set(++asked, thread);
      return tell("client", asked, message.json);
    case "note":
      return tell("note", thread.module.spec.id, message.json);
  }
  const request = requests.get(message.id);
  if (request?.thread !== thread) return;
  tell(message.op, message.id, message.json);
  if (message.op === "done") finish(request);
}

// Ends a thread at once: what has begun fails, and what has not goes elsewhere.
function stop(thread, reason) {
  if (!thread.module.threads.delete(thread)) return;
  endPrograms(thread);
  for (const request of [...thread.requests]) move(request, reason);
  thread.worker.terminate();
  thread.port.close();
  forget(thread.module);
}

// Ends a thread that has nothing to do; plugins may tidy up, but not for long.
function end(thread) {
  thread.module.threads.delete(thread);
  const over = () => {
    clearTimeout(timer);
    thread.worker.terminate();
    thread.port.close();
  };
  const timer = setTimeout(over, DISPOSE_MS);
  thread.disposed = over;
  post(thread, { op: "dispose" });
  forget(thread.module);
}

function forget(module) {
  if (module.retired && module.threads.size === 0) modules.delete(module.spec.id);
}

function rest(thread) {
  const { module } = thread;
  if (thread.requests.size > 0 || !module.threads.has(thread)) return;
  if (thread.spent || module.retired) return end(thread);
  const isSpare = () => module.threads.has(thread) && thread !== [...module.threads][0];
  clearTimeout(thread.timer);
  thread.timer = isSpare() && setTimeout(() => thread.requests.size === 0 && isSpare() && end(thread), SPARE_MS);
}

// ---------------------------------------------------------------------------------------------------- requests

function begin(message) {
  let module = modules.get(message.module);
  if (!module) modules.set(message.module, (module = { spec: message.spec, threads: new Set(), retired: false }));
  const claim = new Int32Array(new SharedArrayBuffer(4));
  const request = { id: message.id, module, message: { ...message, spec: undefined }, claim, thread: null, hasMoved: false };
  requests.set(request.id, request);
  assign(request);
  watchMemory();
}

function threadFor(module) {
  const usable = [...module.threads].filter((thread) => !thread.spent);
  const idle = usable.find((thread) => thread.requests.size === 0);
  if (idle) return idle;
  const isFull = module.spec.kind === "plugin" || usable.length >= MAX_THREADS;
  if (!isFull || usable.length === 0) return startThread(module);
  return usable.reduce((best, thread) => (thread.requests.size < best.requests.size ? thread : best));
}

function assign(request) {
  const thread = (request.thread = threadFor(request.module));
  if (thread.requests.size === 0) thread.programs = childrenOf(thread);
  thread.requests.add(request);
  thread.since = ++assign.count;
  post(thread, { ...request.message, claim: request.claim });
  clearTimeout(request.timer);
  if (request.message.op !== "load") request.timer = setTimeout(() => leaveBlocked(request, thread), WAIT_MS);
}

assign.count = 0;

const takeBack = (request) => Atomics.compareExchange(request.claim, 0, 0, TAKEN_BACK) === 0;

function leaveBlocked(request, thread) {
  const isWaiting = requests.get(request.id) === request && request.thread === thread && thread.isReady;
  if (!isWaiting || Atomics.load(request.claim, 0) !== 0) return;
  thread.spent = true;
  move(request, `The file ${request.module.spec.shown} is blocked by another call.`);
}

// Gives what has not begun to another thread; what has fails. Once only, so that a file that ends its thread whenever it
// is loaded does not go on for ever.
function move(request, reason) {
  const { thread } = request;
  const canMove = request.message.op !== "load" && !request.hasMoved && takeBack(request);
  if (!canMove) return fail(request, reason);
  thread.requests.delete(request);
  request.claim = new Int32Array(new SharedArrayBuffer(4));
  request.hasMoved = true;
  assign(request);
  rest(thread);
}

function finish(request) {
  const { thread } = request;
  clearTimeout(request.timer);
  requests.delete(request.id);
  thread.requests.delete(request);
  if (request.isAborted && thread.requests.size === 0) endPrograms(thread);
  rest(thread);
}

function fail(request, message) {
  tell("done", request.id, JSON.stringify({ error: { message } }));
  finish(request);
}

// Makes a request give up. A call that goes on all the same is ended with its thread, once nothing else runs there.
function abort(id) {
  const request = requests.get(id);
  if (!request || request.isAborted) return;
  request.isAborted = true;
  const { thread, module, message } = request;
  if (message.op !== "load" && takeBack(request)) return fail(request, "Tool execution aborted");
  let isHeard = false;
  thread.heard.set(id, () => (isHeard = true));
  post(thread, { op: "abort", id });
  const text = `The file ${module.spec.shown} was stopped, because a call that was cancelled did not end.`;
  const giveUp = () => {
    if (requests.get(id) !== request) return;
    if (message.op === "load") return stop(thread, text);
    // The answer of a hook that hangs is not needed any more, and nothing else hangs with it.
    if (message.op === "call" || !isHeard) thread.spent = true;
    const isAlone = thread.requests.size === 1;
    if (!isHeard && isAlone) return stop(thread, text);
    fail(request, text);
  };
  setTimeout(() => isHeard || giveUp(), BLOCKED_MS);
  setTimeout(giveUp, UNSETTLED_MS);
  setTimeout(() => isHeard || stop(thread, text), LOST_MS);
}

function receive(message) {
  switch (message.op) {
    case "load":
    case "call":
    case "hook":
      return begin(message);
    case "abort":
      return abort(message.id);
    case "answer": {
      const request = requests.get(message.id);
      return request && post(request.thread, message);
    }
    case "served": {
      const thread = wanted.get(message.id);
      wanted.delete(message.id);
      return thread && post(thread, { ...message.answer, op: "served" });
    }
    case "unload": {
      const module = modules.get(message.module);
      if (!module) return;
      module.retired = true;
      [...module.threads].forEach(rest);
      return forget(module);
    }
  }
}

// ---------------------------------------------------------------------------------------------------- programs

function listed(path) {
  try {
    return fs.readFileSync(path, "utf8").split(" ").filter(Boolean);
  } catch {
    return [];
  }
}

// What a thread has started and not waited for.
const childrenOf = (thread) => (thread.number ? listed(`/proc/self/task/${thread.number}/children`) : []);

function withDescendants(programs) {
  const all = [...programs];
  for (const program of all) {
    try {
      for (const task of fs.readdirSync(`/proc/${program}/task`)) all.push(...listed(`/proc/${program}/task/${task}/children`));
    } catch {
      // It has ended.
    }
  }
  return all;
}

// A number may be given to another program as soon as its own has ended: what it is told by is when it began.
function startOf(program) {
  try {
    const stat = fs.readFileSync(`/proc/${program}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")")).split(" ")[20];
  } catch {
    return undefined;
  }
}

// Ends what was started on a thread since it had nothing to do, for a call that was cancelled or whose thread ends.
function endPrograms(thread) {
  const own = childrenOf(thread).filter((program) => !thread.programs.includes(program));
  const programs = withDescendants(own).map((program) => [program, startOf(program)]);
  const signal = (name) => {
    for (const [program, start] of programs) {
      try {
        if (start !== undefined && startOf(program) === start) process.kill(Number(program), name);
      } catch {
        // It has ended.
      }
    }
  };
  if (programs.length === 0) return;
  signal("SIGTERM");
  setTimeout(() => signal("SIGKILL"), PROGRAM_GRACE_MS);
}

// ---------------------------------------------------------------------------------------------------- memory

function usedBytes() {
  const [, kibibytes = "0"] = /^VmRSS:\s*(\d+)/m.exec(fs.readFileSync("/proc/self/status", "utf8")) ?? [];
  return Number(kibibytes) * 1024;
}

let watching;
let mostBytes = MEMORY_BYTES;

// Looks at the memory as long as something runs.
function watchMemory() {
  watching ??= setInterval(() => {
    if (requests.size === 0) watching = clearInterval(watching);
    else if (!blame.isBusy && usedBytes() > mostBytes) blame();
  }, MEMORY_MS);
}

// Ends the thread that fills the memory: one that is too busy to say what it uses, or the one that uses most.
function blame() {
  blame.isBusy = true;
  const threads = [...modules.values()].flatMap((module) => [...module.threads]);
  for (const thread of threads) {
    thread.size = undefined;
    post(thread, { op: "size" });
  }
  setTimeout(() => {
    const there = threads.filter((thread) => thread.module.threads.has(thread));
    const size = (thread) => thread.size ?? (thread.requests.size > 0 ? Infinity : 0);
    // Of those that are too busy, the one that began last.
    const isWorse = (left, right) => size(left) > size(right) || (size(left) === size(right) && left.since > right.since);
    const worst = there.reduce((worst, thread) => (worst && !isWorse(thread, worst) ? worst : thread), undefined);
    if (worst && size(worst) >= MIN_BLAMED_BYTES) {
      const limit = `${MEMORY_BYTES / 1024 ** 2} MiB`;
      stop(worst, `The file ${worst.module.spec.shown} was stopped, because with it the tools used more than ${limit} of memory.`);
      mostBytes = usedBytes() + ON_TOP_BYTES;
      clearTimeout(blame.timer);
      blame.timer = setTimeout(() => (mostBytes = MEMORY_BYTES), GIVEN_BACK_MS);
    }
    blame.isBusy = false;
  }, SIZE_MS);
}

// ---------------------------------------------------------------------------------------------------- connection

function leave() {
  const threads = [...modules.values()].flatMap((module) => [...module.threads]);
  threads.forEach(end);
  setTimeout(() => process.exit(0), threads.length > 0 ? DISPOSE_MS : 0);
}

const [, , socketPath, directory] = process.argv;
socket = net.connect({ path: socketPath });
// The runtime's own settings were read where the host lives; the tools work in their workspace.
process.chdir(directory);
let pieces = [];
socket.on("data", (data) => {
  let start = 0;
  for (let found; (found = data.indexOf(10, start)) !== -1; start = found + 1) {
    pieces.push(data.subarray(start, found));
    const line = Buffer.concat(pieces).toString("utf8");
    pieces = [];
    receive(JSON.parse(line));
  }
  if (start < data.length) pieces.push(data.subarray(start));
});
socket.on("close", leave);
socket.on("error", leave);
setInterval(() => tell("alive", 0, "null"), ALIVE_MS);
