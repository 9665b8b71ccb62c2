/** The AI SDK, with the model for tests that it brings. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { generateText, type ModelMessage, streamText } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { ToolgateTools } from "../src/adapters/ai.js";
import { type Decision, instead, once, reject } from "../src/prompts.js";
import { bash, Place } from "./support.js";

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

type Content =
  | { type: "text"; text: string }
  | { type: "tool-call"; toolCallId: string; toolName: string; input: string };

/** Calls tools first, and says that it is done when it is asked again. */
function says(...calls: [string, object][]) {
  const made = calls.map(
    ([toolName, input], index): Content => ({
      type: "tool-call",
      toolCallId: `call_${index}`,
      toolName,
      input: JSON.stringify(input),
    }),
  );
  const answer = (prompt: readonly { role: string }[]): { content: Content[]; reason: "tool-calls" | "stop" } =>
    prompt.some(({ role }) => role === "tool")
      ? { content: [{ type: "text", text: "done" }], reason: "stop" }
      : { content: made, reason: "tool-calls" };
  return new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const { content, reason } = answer(prompt);
      return { content, finishReason: { unified: reason, raw: reason }, usage: USAGE, warnings: [] };
    },
    doStream: async ({ prompt }) => {
      const { content, reason } = answer(prompt);
      const finish = { type: "finish" as const, finishReason: { unified: reason, raw: reason }, usage: USAGE };
      const parts = content.flatMap((part): object[] =>
        part.type === "text"
          ? [
              { type: "text-start", id: "0" },
              { type: "text-delta", id: "0", delta: part.text },
              { type: "text-end", id: "0" },
            ]
          : [part],
      );
      const stream = new ReadableStream<never>({
        start(controller) {
          for (const part of [{ type: "stream-start" as const, warnings: [] }, ...parts, finish]) {
            controller.enqueue(part as never);
          }
          controller.close();
        },
      });
      return { stream };
    },
  });
}

const UP_TO_FIVE = ({ steps }: { steps: readonly unknown[] }) => steps.length >= 5;
const ASKED: ModelMessage[] = [{ role: "user", content: "do it" }];

async function generate(tools: ToolgateTools, model: MockLanguageModelV3, messages: ModelMessage[] = ASKED) {
  const result = await generateText({ model, messages, tools: await tools.tools(), stopWhen: UP_TO_FIVE });
  return { result, messages: [...messages, ...result.response.messages] as ModelMessage[] };
}

/** What the model was given as results of tools in its last request. */
function given(model: MockLanguageModelV3) {
  const prompt = model.doGenerateCalls.at(-1)?.prompt ?? [];
  return prompt.flatMap(({ role, content }) =>
    role === "tool" ? content.flatMap((part) => (part.type === "tool-result" ? [part.output] : [])) : [],
  );
}

test("tools are told as they are", async () => {
  await using place = await Place.make();
  const model = says();
  await generate(new ToolgateTools(place.client), model);
  const told = new Map(model.doGenerateCalls[0]?.tools?.map((tool) => [tool.name, tool]));
  for (const { name, description, inputSchema } of await place.client.tools()) {
    const tool = told.get(name);
    assert.ok(tool?.type === "function");
    assert.deepEqual([tool.description, tool.inputSchema], [description, inputSchema]);
  }
});

test("output comes while it runs", async () => {
  await using place = await Place.make();
  const tools = await new ToolgateTools(place.client).tools();
  const stream = streamText({
    model: says(["bash", bash("echo one; echo two")]),
    messages: ASKED,
    tools,
    stopWhen: UP_TO_FIVE,
  });
  const seen: string[] = [];
  const last: string[] = [];
  for await (const part of stream.fullStream) {
    if (part.type === "tool-result") {
      (part.preliminary ? seen : last).push((part.output as { text: string }).text);
    }
  }
  assert.ok(
    seen.some((text) => text.startsWith("one\n")),
    JSON.stringify(seen),
  );
  assert.deepEqual(last, ["one\ntwo\n"]);
});

test("a prompt is a request for approval", async () => {
  await using place = await Place.make();
  const model = says(["bash", bash("touch made")]);
  const stopped = await generate(new ToolgateTools(place.client, { session: "shared" }), model);
  assert.equal(place.has("made"), false);
  const request = stopped.result.content.find((part) => part.type === "tool-approval-request");
  assert.ok(request);

  // Another program goes on with it.
  await using other = place.other();
  const approved = { type: "tool-approval-response" as const, approvalId: request.approvalId, approved: true };
  const messages: ModelMessage[] = [...stopped.messages, { role: "tool", content: [approved] }];
  const { result } = await generate(new ToolgateTools(other, { session: "shared" }), model, messages);
  assert.equal(result.text, "done");
  assert.equal(place.has("made"), true);
  assert.equal((await place.end()).ok, true);
});

test("what is denied is refused in Toolgate", async () => {
  await using place = await Place.make();
  const tools = new ToolgateTools(place.client);
  const model = says(["bash", bash("touch made")]);
  const stopped = await generate(tools, model);
  const request = stopped.result.content.find((part) => part.type === "tool-approval-request");
  const approvalId = request?.approvalId ?? "";
  const denied = { type: "tool-approval-response" as const, approvalId, approved: false, reason: "not today" };
  const messages: ModelMessage[] = [...stopped.messages, { role: "tool", content: [denied] }];
  await tools.passDenialsOn(messages);
  const { result } = await generate(tools, model, messages);
  assert.equal(result.text, "done");
  assert.match((await place.end()).text, /not today/);
  assert.equal(place.has("made"), false);
});

test("what is denied in another process is refused in Toolgate", async () => {
  await using place = await Place.make();
  const model = says(["bash", bash("touch made")]);
  const stopped = await generate(new ToolgateTools(place.client, { session: "shared" }), model);
  const request = stopped.result.content.find((part) => part.type === "tool-approval-request");
  const approvalId = request?.approvalId ?? "";
  const denied = { type: "tool-approval-response" as const, approvalId, approved: false, reason: "not today" };
  const messages: ModelMessage[] = [...stopped.messages, { role: "tool", content: [denied] }];
  await using other = place.other();
  await new ToolgateTools(other, { session: "shared" }).passDenialsOn(messages);
  assert.match((await place.end()).text, /not today/);
  assert.equal(place.has("made"), false);
});

for (const [name, decision, made, said] of [
  ["once", once(), true, /^/],
  ["reject", reject("not today"), false, /not today/],
  ["instead", instead(bash("echo no")), false, /^no\n/],
] as [string, Decision, boolean, RegExp][]) {
  test(`a decision of Toolgate: ${name}`, async () => {
    await using place = await Place.make();
    const tools = new ToolgateTools(place.client);
    const model = says(["bash", bash("touch made")]);
    const stopped = await generate(tools, model);
    const prompts = [...(await tools.prompts(stopped.result.content)).values()];
    assert.deepEqual(
      prompts.map(({ tool }) => tool),
      ["bash"],
    );
    const replies = await tools.resolve(stopped.result.content, () => decision);
    const { result } = await generate(tools, model, [...stopped.messages, replies]);
    assert.equal(result.text, "done");
    const [output] = given(model);
    assert.match(output && "value" in output ? String(output.value) : "", said);
    assert.equal(output?.type, name === "reject" ? "error-text" : "text");
    assert.equal(place.has("made"), made);
  });
}

test("what else a call asks waits for an approver", async () => {
  await using place = await Place.make({ permission: { bash: "ask", external_directory: "ask" } });
  const tools = new ToolgateTools(place.client);
  const model = says(["bash", bash(`cat ${await place.outside()}`)]);
  const stopped = await generate(tools, model);
  const [first] = [...(await tools.prompts(stopped.result.content)).values()];
  const request = stopped.result.content.find((part) => part.type === "tool-approval-request");
  const approved = { type: "tool-approval-response" as const, approvalId: request?.approvalId ?? "", approved: true };
  const asked: string[] = [];
  const approvals = place.client.approvals((prompt) => {
    if (prompt.id === first?.id) {
      return undefined;
    }
    asked.push(prompt.id);
    return once();
  });
  await approvals.ready;
  const { result } = await generate(tools, model, [...stopped.messages, { role: "tool", content: [approved] }]);
  assert.equal(result.text, "done");
  assert.equal(asked.length, 1);
  assert.equal((await place.end()).text, "from outside\n");
});

test("pictures are shown", async () => {
  await using place = await Place.make();
  const model = says(["read", { filePath: await place.picture() }]);
  await generate(new ToolgateTools(place.client), model);
  const [output] = given(model);
  assert.equal(output?.type, "content");
  assert.equal(output.value.length, 2);
  assert.match(JSON.stringify(output.value[1]), /image\/png/);
});

test("failures are results", async () => {
  await using place = await Place.make();
  const model = says(["read", { filePath: "missing.txt" }]);
  const { result } = await generate(new ToolgateTools(place.client), model);
  assert.equal(result.text, "done");
  const [output] = given(model);
  assert.equal(output?.type, "error-text");
  assert.match(output.value, /missing\.txt/);
});

test("aborting the generation cancels the call", async () => {
  await using place = await Place.make();
  const tools = await new ToolgateTools(place.client).tools();
  const controller = new AbortController();
  const stream = streamText({
    model: says(["bash", bash("echo begun; sleep 60")]),
    messages: ASKED,
    tools,
    abortSignal: controller.signal,
    onError: () => {},
  });
  try {
    for await (const part of stream.fullStream) {
      if (part.type === "tool-result" && part.preliminary) {
        controller.abort();
      }
    }
  } catch (error) {
    assert.ok(controller.signal.aborted, String(error));
  }
  const end = await place.end();
  assert.equal(end.ok ? "" : end.reason, "CANCELLED");
});
