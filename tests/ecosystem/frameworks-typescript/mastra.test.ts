/** Mastra, with a model for tests of the AI SDK. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { InMemoryStore } from "@mastra/core/storage";
import { MockLanguageModelV3 } from "ai/test";
import { type PromptFacts, toolgateTools } from "../src/adapters/mastra.js";
import type { Client } from "../src/client.js";
import { bash, Place } from "./support.js";

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Calls a tool first, and says that it is done when it has the result. */
function says(toolName: string, input: object) {
  return new MockLanguageModelV3({
    doStream: async ({ prompt }) => {
      const done = prompt.some(({ role }) => role === "tool");
      const reason = done ? ("stop" as const) : ("tool-calls" as const);
      const said = done
        ? [
            { type: "text-start", id: "0" },
            { type: "text-delta", id: "0", delta: "done" },
            { type: "text-end", id: "0" },
          ]
        : [{ type: "tool-call", toolCallId: "call_0", toolName, input: JSON.stringify(input) }];
      const finish = { type: "finish", finishReason: { unified: reason, raw: reason }, usage: USAGE };
      const parts = [{ type: "stream-start", warnings: [] }, ...said, finish];
      const stream = new ReadableStream<never>({
        start(controller) {
          for (const part of parts) {
            controller.enqueue(part as never);
          }
          controller.close();
        },
      });
      return { stream };
    },
  });
}

async function agentOf(client: Client, model: MockLanguageModelV3, storage = new InMemoryStore(), session = "shared") {
  const tools = await toolgateTools(client, { session });
  const worker = new Agent({ id: "worker", name: "worker", instructions: "Work.", model: model as never, tools });
  return new Mastra({ agents: { worker }, storage, logger: false }).getAgent("worker");
}

type Stream = Awaited<ReturnType<Agent["stream"]>>;

async function read(stream: Stream) {
  const chunks: { type: string; payload?: Record<string, unknown>; data?: Record<string, unknown> }[] = [];
  for await (const chunk of stream.fullStream) {
    chunks.push(chunk as never);
  }
  const suspended = chunks.find(({ type }) => type === "tool-call-suspended")?.payload;
  return { chunks, prompt: suspended?.["suspendPayload"] as PromptFacts | undefined, runId: stream.runId };
}

/** What the model was given as results of tools in its last request. */
function given(model: MockLanguageModelV3) {
  const prompt = model.doStreamCalls.at(-1)?.prompt ?? [];
  return prompt.flatMap(({ role, content }) =>
    role === "tool" ? content.flatMap((part) => (part.type === "tool-result" ? [part.output] : [])) : [],
  );
}

async function resume(agent: Agent, runId: string, decision: unknown) {
  return read((await agent.resumeStream(decision, { runId, toolCallId: "call_0" })) as Stream);
}

test("tools are told as they are", async () => {
  await using place = await Place.make();
  const model = says("bash", bash("echo one"));
  await read(await (await agentOf(place.client, model)).stream("do it"));
  const told = new Map(model.doStreamCalls[0]?.tools?.map((tool) => [tool.name, tool]));
  for (const { name, description, inputSchema } of await place.client.tools()) {
    const tool = told.get(name);
    assert.ok(tool?.type === "function");
    assert.equal(tool.description, description);
    const properties = (schema: object) => Object.keys((schema as { properties?: object }).properties ?? {});
    assert.deepEqual(properties(tool.inputSchema), properties(inputSchema));
  }
});

test("output comes while it runs", async () => {
  await using place = await Place.make();
  const model = says("bash", bash("echo one; echo two"));
  const { chunks } = await read(await (await agentOf(place.client, model)).stream("do it"));
  const output = chunks.filter(({ type }) => type === "data-toolgate").map(({ data }) => data?.["output"] ?? "");
  assert.equal(output.join(""), "one\ntwo\n");
  assert.match(JSON.stringify(given(model)), /one\\ntwo/);
});

test("a prompt suspends the tool", async () => {
  await using place = await Place.make();
  const storage = new InMemoryStore();
  const model = says("bash", bash("touch made"));
  const stopped = await read(await (await agentOf(place.client, model, storage)).stream("do it"));
  assert.deepEqual([stopped.prompt?.tool, stopped.prompt?.patterns], ["bash", ["touch made"]]);
  assert.equal(place.has("made"), false);

  // Another program goes on with it.
  await using other = place.other();
  const again = await agentOf(other, model, storage);
  await resume(again, stopped.runId, { decision: "once" });
  assert.equal(place.has("made"), true);
  assert.equal((await place.end()).ok, true);
});

for (const [reply, said] of [
  [{ decision: "reject", message: "not today" }, /not today/],
  [{ approve: "maybe" }, /not a decision/],
  ["perhaps", /not a decision/],
  [false, /rejected/],
] as [unknown, RegExp][]) {
  test(`what is not allowed does not run: ${JSON.stringify(reply)}`, async () => {
    await using place = await Place.make();
    const model = says("bash", bash("touch made"));
    const agent = await agentOf(place.client, model);
    const { runId } = await read(await agent.stream("do it"));
    await resume(agent, runId, reply);
    assert.match((await place.end()).text, said);
    assert.match(JSON.stringify(given(model)), said);
    assert.equal(place.has("made"), false);
  });
}

test("each prompt of a call suspends the tool", async () => {
  await using place = await Place.make({ permission: { bash: "ask", external_directory: "ask" } });
  const agent = await agentOf(place.client, says("bash", bash(`cat ${await place.outside()}`)));
  const first = await read(await agent.stream("do it"));
  const second = await resume(agent, first.runId, { decision: "once" });
  assert.deepEqual([first.prompt?.permission, second.prompt?.permission].sort(), ["bash", "external_directory"]);
  await resume(agent, first.runId, { decision: "once" });
  assert.equal((await place.end()).text, "from outside\n");
});

test("pictures are shown", async () => {
  await using place = await Place.make();
  const model = says("read", { filePath: await place.picture() });
  await read(await (await agentOf(place.client, model)).stream("do it"));
  const [output] = given(model);
  assert.equal(output?.type, "content");
  assert.match(JSON.stringify(output), /image\/png/);
});

test("failures are results", async () => {
  await using place = await Place.make();
  const model = says("read", { filePath: "missing.txt" });
  await read(await (await agentOf(place.client, model)).stream("do it"));
  assert.match(JSON.stringify(given(model)), /missing\.txt/);
});

test("aborting the run cancels the call", async () => {
  await using place = await Place.make();
  const agent = await agentOf(place.client, says("bash", bash("echo begun; sleep 60")));
  const controller = new AbortController();
  const stream = await agent.stream("do it", { abortSignal: controller.signal });
  try {
    for await (const chunk of stream.fullStream) {
      if ((chunk as { type: string }).type === "data-toolgate") {
        controller.abort();
      }
    }
  } catch (error) {
    assert.ok(controller.signal.aborted, String(error));
  }
  const end = await place.end();
  assert.equal(end.ok ? "" : end.reason, "CANCELLED");
});
