// A model that calls what a script says, in the words of three providers: /v1/messages, /v1/responses and /v1/chat/completions.
import { createServer } from "node:http";

/** Starts it. `choose` returns the call for what the user has said last: a pattern of the tool's name, and its input. */
export async function startModel(choose) {
  const model = { told: [], url: "" };
  let calls = 0;
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = parts.length ? JSON.parse(Buffer.concat(parts).toString()) : {};
    if (request.method !== "POST" || request.url.includes("count_tokens")) {
      response.setHeader("content-type", "application/json");
      // What it is asked for besides: how long a request is, and lists of models, which OpenCode wants without anything else.
      const list = request.url.includes("/v1/") ? '{"data": [], "models": []}' : "{}";
      response.end(request.method === "POST" ? '{"input_tokens": 1}' : list);
      return;
    }
    const form = Object.keys(forms).find((path) => request.url.split("?")[0].endsWith(path));
    const { tools, said, result } = forms[form].read(body);
    if (result !== undefined) model.told.push(result);
    const wanted = result === undefined && tools.length ? choose(said) : undefined;
    const name = wanted && tools.find((tool) => wanted.tool.test(tool));
    if (wanted && !name) model.told.push(`none of the tools: ${tools}`);
    calls += 1;
    const call = name ? { id: `call_${calls}`, name, input: JSON.stringify(wanted.input) } : undefined;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(forms[form].write(call, result === undefined ? "A title" : "That is done."));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  model.url = `http://127.0.0.1:${server.address().port}`;
  model.close = () => {
    server.closeAllConnections();
    server.close();
  };
  return model;
}

const events = (list) => list.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
const text = (content) => (typeof content === "string" ? content : JSON.stringify(content ?? ""));

const forms = {
  "/messages": {
    read({ messages, tools = [] }) {
      const last = messages.at(-1);
      const results = Array.isArray(last.content) ? last.content.filter(({ type }) => type === "tool_result") : [];
      return {
        tools: tools.map(({ name }) => name),
        said: text(messages.filter(({ role }) => role === "user").at(-1)?.content),
        result: results.length ? text(results.at(-1).content) : undefined,
      };
    },
    write(call, words) {
      const block = call
        ? { type: "tool_use", id: call.id, name: call.name, input: {} }
        : { type: "text", text: "" };
      const delta = call ? { type: "input_json_delta", partial_json: call.input } : { type: "text_delta", text: words };
      const usage = { input_tokens: 1, output_tokens: 1 };
      const message = { id: `msg_${Date.now()}`, type: "message", role: "assistant", model: "m", content: [], usage };
      return events([
        { type: "message_start", message: { ...message, stop_reason: null, stop_sequence: null } },
        { type: "content_block_start", index: 0, content_block: block },
        { type: "content_block_delta", index: 0, delta },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: call ? "tool_use" : "end_turn", stop_sequence: null }, usage },
        { type: "message_stop" },
      ]);
    },
  },
  "/responses": {
    read({ input, tools = [] }) {
      const last = input.at(-1);
      // Tools of a server stand together under its name.
      const named = tools.flatMap((tool) => tool.tools?.map(({ name }) => `${tool.name}__${name}`) ?? [tool.name ?? ""]);
      const isResult = last.type === "function_call_output";
      return {
        tools: named,
        said: text(input.filter(({ role }) => role === "user").at(-1)?.content),
        result: isResult ? text(last.output) : undefined,
      };
    },
    write(call, words) {
      const [, namespace, name] = call?.name.match(/^(?:(mcp__[a-z]+)__)?(.+)$/) ?? [];
      const item = call
        ? { type: "function_call", id: `fc_${call.id}`, call_id: call.id, name, namespace, arguments: call.input }
        : { type: "message", id: "msg", role: "assistant", content: [{ type: "output_text", text: words, annotations: [] }] };
      const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
      return events([
        { type: "response.created", response: { id: "resp" } },
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.completed", response: { id: "resp", usage } },
      ]);
    },
  },
  "/chat/completions": {
    read({ messages, tools = [] }) {
      const last = messages.at(-1);
      return {
        tools: tools.map((tool) => tool.function.name),
        said: text(messages.filter(({ role }) => role === "user").at(-1)?.content),
        result: last.role === "tool" ? text(last.content) : undefined,
      };
    },
    write(call, words) {
      const made = call && { index: 0, id: call.id, type: "function", function: { name: call.name, arguments: call.input } };
      const delta = call ? { role: "assistant", content: null, tool_calls: [made] } : { role: "assistant", content: words };
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
      const chunks = [
        { choices: [{ index: 0, delta, finish_reason: null }] },
        { choices: [{ index: 0, delta: {}, finish_reason: call ? "tool_calls" : "stop" }] },
        { choices: [], usage },
      ];
      const head = { id: "c", object: "chat.completion.chunk", created: 1, model: "m" };
      return `${chunks.map((chunk) => `data: ${JSON.stringify({ ...head, ...chunk })}\n\n`).join("")}data: [DONE]\n\n`;
    },
  },
};
