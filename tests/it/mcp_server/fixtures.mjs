// The servers that the official conformance suite finds behind Toolgate: what its scenarios call, over standard streams and
// without a library. The first argument says which: `handshake` (revision 2025-11-25), `stateless` (2026-07-28), `schema`.
//
// Toolgate puts the server's name before the names of tools and prompts, so `simple_text` of the server `test` is
// `test_simple_text` of the suite.
import { createInterface } from "node:readline";

const [kind] = process.argv.slice(2);
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const text = (text) => ({ type: "text", text });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const audio = { type: "audio", data: WAV, mimeType: "audio/wav" };
const embedded = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
const pause = () => new Promise((done) => setTimeout(done, 30));
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

// Requests of the server.
const waiting = new Map();
let last = 0;
const ask = (method, params) =>
  new Promise((answer, fail) => {
    const id = `s${(last += 1)}`;
    waiting.set(id, { answer, fail });
    send({ id, method, params });
  });

class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const form = (message, properties, required) => ({
  message,
  requestedSchema: { type: "object", properties, ...(required ? { required } : {}) },
});
const sampling = (prompt) => ({ messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 });
const elicited = ({ action, content }) => text(`action=${action}, content=${JSON.stringify(content ?? {})}`);
const log = (data) => send({ method: "notifications/message", params: { level: "info", logger: "fixture", data } });
const listChanged = (what) => send({ method: `notifications/${what}/list_changed` });

// --- a server with a handshake

const added = [];
const handshake = {
  simple_text: () => [text("This is a simple text.")],
  image_content: () => [image],
  audio_content: () => [audio],
  embedded_resource: () => [embedded("test://embedded-resource", "text/plain", "What is embedded.")],
  multiple_content_types: () => [
    text("Several kinds:"),
    image,
    embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
  ],
  async tool_with_logging() {
    for (const line of ["begun", "at work", "done"]) {
      log(line);
      await pause();
    }
    return [text("logged")];
  },
  async tool_with_progress(_, { progressToken }) {
    for (const progress of [0, 50, 100]) {
      send({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      await pause();
    }
    return [text("done")];
  },
  error_handling: () => {
    throw new Error("This tool fails on purpose");
  },
  async reconnection() {
    await pause();
    return [text("done")];
  },
  sampling: async ({ prompt }) => [text((await ask("sampling/createMessage", sampling(prompt))).content.text)],
  elicitation: async ({ message }) => [
    elicited(
      await ask(
        "elicitation/create",
        form(message, { username: { type: "string" }, email: { type: "string" } }, ["username", "email"]),
      ),
    ),
  ],
  elicitation_sep1034_defaults: async () => [
    elicited(
      await ask(
        "elicitation/create",
        form("Some have a usual value", {
          name: { type: "string", default: "John Doe" },
          age: { type: "integer", default: 30 },
          score: { type: "number", default: 95.5 },
          status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
          verified: { type: "boolean", default: true },
        }),
      ),
    ),
  ],
  elicitation_sep1330_enums: async () => {
    const titled = (names) => names.map((title, at) => ({ const: `value${at + 1}`, title }));
    const plain = ["option1", "option2", "option3"];
    return [
      elicited(
        await ask(
          "elicitation/create",
          form("Choose", {
            untitledSingle: { type: "string", enum: plain },
            titledSingle: { type: "string", oneOf: titled(["First Option", "Second Option", "Third Option"]) },
            legacyEnum: {
              type: "string",
              enum: ["opt1", "opt2", "opt3"],
              enumNames: ["Option One", "Option Two", "Option Three"],
            },
            untitledMulti: { type: "array", items: { type: "string", enum: plain } },
            titledMulti: { type: "array", items: { anyOf: titled(["First Choice", "Second Choice", "Third Choice"]) } },
          }),
        ),
      ),
    ];
  },
  missing_capability: async () => [text((await ask("sampling/createMessage", sampling("Hello"))).content.text)],
  streaming_elicitation: async () => [
    elicited(await ask("elicitation/create", form("Go on?", { ok: { type: "boolean" } }))),
  ],
  logging_tool: () => {
    log("a line");
    return [text("logged")];
  },
  trigger_tool_change: () => {
    added.push(`added_${added.length + 1}`);
    listChanged("tools");
    return [text("changed")];
  },
  trigger_prompt_change: () => {
    listChanged("prompts");
    return [text("changed")];
  },
};
const argumentsOf = { sampling: "prompt", elicitation: "message" };

const resources = {
  "test://static-text": { mimeType: "text/plain", text: "What never changes." },
  "test://static-binary": { mimeType: "image/png", blob: PNG },
  "test://watched-resource": { mimeType: "text/plain", text: "What may change." },
};
const said = (...content) => ({ messages: content.map((content) => ({ role: "user", content })) });
const prompts = {
  simple_prompt: () => said(text("A simple prompt.")),
  prompt_with_arguments: ({ arg1, arg2 }) => said(text(`arg1='${arg1}', arg2='${arg2}'`)),
  prompt_with_embedded_resource: ({ resourceUri }) =>
    said(embedded(resourceUri, "text/plain", "What is embedded."), text("Look at it.")),
  prompt_with_image: () => said(image, text("Look at it.")),
};
const promptArguments = { prompt_with_arguments: ["arg1", "arg2"], prompt_with_embedded_resource: ["resourceUri"] };

// --- a server that asks in its answers

const wants = (inputRequests, requestState) => ({ resultType: "input_required", inputRequests, requestState });
const elicit = (message, properties) => ({
  method: "elicitation/create",
  params: form(message, properties, Object.keys(properties)),
});
const sample = (prompt) => ({ method: "sampling/createMessage", params: sampling(prompt) });
const roots = { method: "roots/list", params: {} };
const answered = (responses) => ({ content: [text(`got ${Object.keys(responses).sort().join(", ")}`)] });
const once = (inputRequests, requestState) => (responses, state) => {
  const missing = Object.keys(inputRequests).filter((key) => typeof responses[key] !== "object");
  if (missing.length > 0) return wants(inputRequests, requestState);
  if (state !== requestState) throw new Refused(-32602, "this is not the state that was given");
  return answered(responses);
};
const stateless = {
  elicitation: once({ user_name: elicit("What is your name?", { name: { type: "string" } }) }),
  sampling: once({ capital_question: sample("What is the capital of France?") }),
  list_roots: once({ client_roots: roots }),
  request_state: once({ confirm: elicit("Please confirm", { ok: { type: "boolean" } }) }, "one"),
  tampered_state: once({ confirm: elicit("Please confirm", { ok: { type: "boolean" } }) }, "one"),
  multiple_inputs: once(
    {
      user_name: elicit("What is your name?", { name: { type: "string" } }),
      greeting: sample("Greet me"),
      client_roots: roots,
    },
    "all",
  ),
  multi_round: (responses, state) => {
    if (state === "second" && responses.step2) return answered(responses);
    if (state === "first" && responses.step1) {
      return wants({ step2: elicit("Which color?", { color: { type: "string" } }) }, "second");
    }
    return wants({ step1: elicit("What is your name?", { name: { type: "string" } }) }, "first");
  },
  capabilities: once({ a: sample("Hello"), b: elicit("Your name?", { name: { type: "string" } }) }, "both"),
};
const statelessPrompt = once({ user_context: elicit("Which context?", { context: { type: "string" } }) });

// --- all of them

const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};

const tools = { handshake, stateless, schema: { schema_2020_12_tool: () => [text("fine")] } }[kind];
const named = (name) => {
  const argument = kind === "handshake" ? argumentsOf[name] : undefined;
  const inputSchema =
    kind === "schema"
      ? SCHEMA
      : { type: "object", properties: argument ? { [argument]: { type: "string" } } : {} };
  return { name, description: `The tool ${name}`, inputSchema };
};

const read = (uri) => {
  const found = resources[uri];
  const id = /^test:\/\/template\/(.+)\/data$/.exec(uri)?.[1];
  if (!found && !id) throw new Refused(-32002, `there is no resource ${uri}`);
  const content = found ?? { mimeType: "application/json", text: JSON.stringify({ id, templateTest: true }) };
  return { contents: [{ uri, ...content }] };
};

const call = async (name, given, meta, responses, state) => {
  const tool = tools[name] ?? (added.includes(name) ? () => [text("added")] : undefined);
  if (!tool) throw new Refused(-32602, `there is no tool ${name}`);
  if (kind === "stateless") return tool(responses ?? {}, state);
  try {
    return { content: await tool(given ?? {}, meta ?? {}) };
  } catch (error) {
    if (error instanceof Refused) throw error;
    return { isError: true, content: [text(error.message)] };
  }
};

const CAPABILITIES = {
  handshake: {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    completions: {},
    logging: {},
  },
  stateless: { tools: {}, prompts: {} },
  schema: { tools: {} },
}[kind];

const handle = async (method, params) => {
  switch (method) {
    case "initialize":
      if (kind === "stateless") throw new Refused(-32601, "Method not found");
      return {
        protocolVersion: "2025-11-25",
        capabilities: CAPABILITIES,
        serverInfo: { name: "fixture", version: "1" },
      };
    case "server/discover":
      if (kind !== "stateless") throw new Refused(-32601, "Method not found");
      return {
        supportedVersions: ["2026-07-28"],
        capabilities: CAPABILITIES,
        _meta: { "io.modelcontextprotocol/serverInfo": { name: "fixture", version: "1" } },
      };
    case "tools/list":
      return { tools: [...Object.keys(tools), ...added].map(named) };
    case "tools/call":
      return call(params.name, params.arguments, params._meta, params.inputResponses, params.requestState);
    case "resources/list":
      return { resources: Object.keys(resources).map((uri) => ({ uri, name: uri, mimeType: resources[uri].mimeType })) };
    case "resources/templates/list":
      return { resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template" }] };
    case "resources/read":
      return read(params.uri);
    case "resources/subscribe":
    case "resources/unsubscribe":
      return {};
    case "prompts/list": {
      const names = kind === "stateless" ? ["prompt"] : Object.keys(prompts);
      return {
        prompts: names.map((name) => ({
          name,
          description: `The prompt ${name}`,
          arguments: (promptArguments[name] ?? []).map((name) => ({ name, description: name, required: true })),
        })),
      };
    }
    case "prompts/get": {
      if (kind !== "stateless") return prompts[params.name](params.arguments ?? {});
      const result = statelessPrompt(params.inputResponses ?? {}, params.requestState);
      return result.resultType ? result : said(text("with the context"));
    }
    case "completion/complete":
      return { completion: { values: [`${params.argument.value}-completed`], total: 1, hasMore: false } };
    case "ping":
      return {};
    default:
      throw new Refused(-32601, "Method not found");
  }
};

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === undefined) {
    const request = waiting.get(id);
    waiting.delete(id);
    if (error) request?.fail(new Error(error.message));
    else request?.answer(result);
    return;
  }
  if (id === undefined) return;
  try {
    send({ id, result: await handle(method, params ?? {}) });
  } catch (error) {
    send({ id, error: { code: error.code ?? -32603, message: error.message } });
  }
});
