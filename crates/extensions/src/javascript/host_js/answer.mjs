// What goes back to the service: results, progress and errors, within their limits.
import { fileURLToPath } from "node:url";

const METADATA_MS = 50;
const MAX_JSON_BYTES = 48 * 1024 * 1024;
const MAX_OUTPUT_BYTES = 32 * 1024 * 1024;
const MAX_METADATA_BYTES = 256 * 1024;
const MAX_ATTACHMENT_BYTES = 10 * 1024 * 1024;
const MAX_ATTACHMENTS = 32;
const MAX_MESSAGE = 64 * 1024;

const OWN_FOLDER = fileURLToPath(new URL(".", import.meta.url));

// As they were before a tool could put something else in their place.
const { stringify } = JSON;

// A text that says all there is to say, without a place in the code.
export class Reported extends Error {}

// What `ask` rejects with.
export class Refused extends Error {}

// Arguments that are not what a tool takes.
export class Invalid extends Error {}

export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// Writes a value; halves of characters, which other languages have no texts for, are replaced.
export function toJson(value, most = MAX_JSON_BYTES, what = "the result") {
  let json;
  try {
    json = stringify(value);
  } catch {
    // Cycles, for instance. Every runtime has words of its own for them.
  }
  if (typeof json !== "string") throw new Reported(`${what} cannot be written as JSON`);
  const bytes = Buffer.byteLength(json);
  if (bytes > most) throw new Reported(`${what} has ${bytes} bytes, written as JSON; at most ${most} are possible`);
  if (!/\\ud[89a-f]/.test(json)) return json;
  return json.replace(/\\(?:(ud[89a-f]..)|.)/g, (escape, half) => (half ? "\\ufffd" : escape));
}

export function toResult(name, result) {
  if (result === undefined || result === null) {
    throw new Reported(`The tool ${name} returned nothing. It has to return a text or an object with an output.`);
  }
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
  const metadata = isObject(result.metadata) ? result.metadata : {};
  toJson({ title, metadata }, MAX_METADATA_BYTES, `the metadata that ${name} returned`);
  return { title, output, metadata, attachments };
}

// Sends the first update at once, and of those that follow closely the last one.
export function metadataSender(send) {
  let timer;
  let waiting;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    if (waiting) send(waiting);
    waiting = undefined;
  };
  return {
    flush,
    push(update) {
      const title = typeof update?.title === "string" ? update.title : waiting?.title;
      waiting = { title, metadata: isObject(update?.metadata) ? update.metadata : (waiting?.metadata ?? {}) };
      if (timer === undefined) {
        send(waiting);
        waiting = undefined;
        timer = setTimeout(flush, METADATA_MS);
      }
    },
  };
}

// Says what a model can use of an error: its message and the first place in the project's own code.
export function explain(error, spec, withPlace = true) {
  const message = messageOf(error);
  if (error instanceof Refused) return { message, refused: true };
  if (error instanceof Invalid) return { message, invalid: true };
  const place = withPlace && !(error instanceof Reported) ? placeOf(error, spec.workspace.directory) : undefined;
  return { message: place ? `${message} (at ${place})` : message };
}

// Anything can be thrown, also what cannot be made a text of.
function messageOf(error) {
  try {
    // Several errors of one import, for instance.
    const [first] = Array.isArray(error?.errors) ? error.errors : [];
    const text = String((first && (first.message || first)) || error?.message || error?.name || error);
    const cause = error?.cause?.message;
    const message = typeof cause === "string" && !text.includes(cause) ? `${text}: ${cause}` : text;
    return message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message;
  } catch {
    return "something was thrown that is no error";
  }
}

function placeOf(error, directory) {
  try {
    const own = (path) => (path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : path);
    // Bun's errors of files that it cannot read have no stack.
    const { file, line: row, column } = error.position ?? error.errors?.[0]?.position ?? {};
    if (file && row) return `${own(file)}:${row}:${column}`;
    for (const line of String(error.stack).split("\n")) {
      const found = /(?:^|\(|at (?:async )?)((?:file:\/\/)?\/.*?):(\d+(?::\d+)?)\)?$/.exec(line.trim());
      if (!found) continue;
      const path = found[1].startsWith("file:") ? fileURLToPath(found[1]) : found[1];
      if (path.includes("/node_modules/") || path.startsWith(OWN_FOLDER)) continue;
      return `${own(path)}:${found[2]}`;
    }
  } catch {
    // A message without a place is better than none.
  }
}
