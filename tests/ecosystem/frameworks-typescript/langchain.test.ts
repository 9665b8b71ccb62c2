/** LangChain.js and LangGraph.js, with a model that says what a script says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { Command, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { createAgent } from "langchain";
import { promptIn, type ToolgateInterrupt, toolgateTools } from "../src/adapters/langchain.js";
import type { Client } from "../src/client.js";
import { bash, Place } from "./support.js";

const THREAD = { configurable: { thread_id: "a conversation" } };

class Scripted extends BaseChatModel {
  readonly #calls: [string, object][];
  told: unknown[] = [];

  constructor(...calls: [string, object][]) {
    super({});
    this.#calls = calls;
  }

  _llmType() {
    return "scripted";
  }

  override bindTools(tools: unknown[]) {
    this.told = tools;
    return this as never;
  }

  async _generate(messages: BaseMessage[]) {
    const calls = this.#calls.map(([name, args], index) => ({ name, args: args as never, id: `call_${index}` }));
    const done = messages.some((message) => ToolMessage.isInstance(message));
    const message = done ? new AIMessage("done") : new AIMessage({ content: "", tool_calls: calls });
    return { generations: [{ text: "", message }] };
  }
}

async function agentOf(client: Client, model: Scripted, checkpointer = new MemorySaver()) {
  return createAgent({ model, tools: await toolgateTools(client), checkpointer });
}

const ASKED = { messages: [{ role: "user" as const, content: "do it" }] };

type Stopped = { __interrupt__?: { value: ToolgateInterrupt; id: string }[]; messages: BaseMessage[] };

function interrupts(state: unknown) {
  return (state as Stopped).__interrupt__ ?? [];
}

function results(state: unknown): ToolMessage[] {
  return (state as Stopped).messages.filter((message) => ToolMessage.isInstance(message));
}

test("tools are told as they are", async () => {
  await using place = await Place.make();
  const tools = new Map((await toolgateTools(place.client)).map((tool) => [tool.name, tool]));
  for (const { name, description, inputSchema } of await place.client.tools()) {
    const tool = tools.get(name);
    assert.deepEqual([tool?.description, tool?.schema], [description, inputSchema]);
  }
});

test("output comes while it runs", async () => {
  await using place = await Place.make();
  const agent = await agentOf(place.client, new Scripted(["bash", bash("echo one; echo two")]));
  let output = "";
  for await (const chunk of await agent.stream(ASKED, { ...THREAD, streamMode: "custom" })) {
    output += (chunk as { toolgate: { output?: string } }).toolgate.output ?? "";
  }
  assert.equal(output, "one\ntwo\n");
});

for (const reply of [true, { decision: "once" }, { decisions: [{ type: "approve" }] }, "once"]) {
  test(`a prompt is an interrupt: ${JSON.stringify(reply)}`, async () => {
    await using place = await Place.make();
    const saver = new MemorySaver();
    const model = new Scripted(["bash", bash("touch made")]);
    const stopped = await (await agentOf(place.client, model, saver)).invoke(ASKED, THREAD);
    const [interrupt] = interrupts(stopped);
    const prompt = promptIn(interrupt?.value);
    assert.deepEqual([prompt?.tool, prompt?.patterns, prompt?.toolCallId], ["bash", ["touch made"], "call_0"]);
    assert.equal(interrupt?.value.actionRequests[0]?.name, "bash");
    assert.equal(place.has("made"), false);

    // Another program goes on with it.
    await using other = place.other();
    const again = await agentOf(other, model, saver);
    const state = await again.invoke(new Command({ resume: reply }), THREAD);
    assert.deepEqual(
      results(state).map(({ status }) => status),
      ["success"],
    );
    assert.equal(place.has("made"), true);
    assert.equal((await place.end()).ok, true);
  });
}

for (const [reply, said] of [
  [{ decision: "reject", message: "not today" }, /not today/],
  [{ decisions: [{ type: "reject", message: "not today" }] }, /not today/],
  [{ approve: "maybe" }, /not a decision/],
  [{ decision: "instead", input: { command: 7 } }, /could not be taken/],
] as [unknown, RegExp][]) {
  test(`what is not allowed does not run: ${JSON.stringify(reply)}`, async () => {
    await using place = await Place.make();
    const agent = await agentOf(place.client, new Scripted(["bash", bash("touch made")]));
    await agent.invoke(ASKED, THREAD);
    const [result] = results(await agent.invoke(new Command({ resume: reply }), THREAD));
    assert.equal(result?.status, "error");
    assert.match(String(result?.content), said);
    assert.equal(place.has("made"), false);
  });
}

test("each prompt of a call is an interrupt", async () => {
  await using place = await Place.make({ permission: { bash: "ask", external_directory: "ask" } });
  const agent = await agentOf(place.client, new Scripted(["bash", bash(`cat ${await place.outside()}`)]));
  const first = promptIn(interrupts(await agent.invoke(ASKED, THREAD))[0]?.value);
  const stopped = await agent.invoke(new Command({ resume: "once" }), THREAD);
  const second = promptIn(interrupts(stopped)[0]?.value);
  assert.deepEqual([first?.permission, second?.permission].sort(), ["bash", "external_directory"]);
  // LangGraph gives what was said about the first one once more.
  const again = promptIn(interrupts(await agent.invoke(null as never, THREAD))[0]?.value);
  assert.equal(again?.id, second?.id);
  const resume = { decision: "once", prompt: second?.id };
  const [result] = results(await agent.invoke(new Command({ resume }), THREAD));
  assert.equal(result?.content, "from outside\n");
});

for (const isNamed of [true, false]) {
  test(`a decision is for the prompt that was shown, ${isNamed ? "and which it names" : "also unnamed"}`, async () => {
    await using place = await Place.make();
    const tools = await toolgateTools(place.client);
    for (let index = 0; index < 20; index += 1) {
      const thread = { configurable: { thread_id: `conversation-${index}` } };
      const model = new Scripted(
        ...["yes", "no"].map((name): [string, object] => ["bash", bash(`touch ${name}${index}`)]),
      );
      // One node runs all calls of a message in one task.
      const graph = new StateGraph(MessagesAnnotation)
        .addNode("agent", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
        .addNode("tools", new ToolNode(tools))
        .addEdge(START, "agent")
        .addConditionalEdges("agent", toolsCondition)
        .addEdge("tools", "agent")
        .compile({ checkpointer: new MemorySaver() });
      let state: unknown = await graph.invoke(ASKED, thread);
      for (let round = 0; round < 6 && interrupts(state).length > 0; round += 1) {
        const prompt = promptIn(interrupts(state)[0]?.value);
        // A refusal would refuse both: it is for all that a session waits for.
        const other = { decision: "instead", input: bash("echo other") };
        const reply = prompt?.patterns?.join() === `touch yes${index}` ? { decision: "once" } : other;
        const resume = isNamed ? { ...reply, prompt: prompt?.id } : reply;
        state = await graph.invoke(new Command({ resume }), thread);
      }
      assert.match(String(results(state)[1]?.content), /^other\n/);
      assert.deepEqual([place.has(`yes${index}`), place.has(`no${index}`)], [true, false]);
    }
  });
}

test("a decision that may be about several prompts decides nothing", async () => {
  await using place = await Place.make();
  const model = new Scripted(["bash", bash("touch one")], ["bash", bash("touch two")]);
  const agent = await agentOf(place.client, model);
  assert.equal(interrupts(await agent.invoke(ASKED, THREAD)).length, 2);
  const stopped = await agent.invoke(new Command({ resume: "once" }), THREAD);
  assert.deepEqual([place.has("one"), place.has("two")], [false, false]);
  const replies = interrupts(stopped).map(({ id, value }) => [id, { decision: "once", prompt: promptIn(value)?.id }]);
  assert.equal(replies.length, 2);
  const state = await agent.invoke(new Command({ resume: Object.fromEntries(replies) }), THREAD);
  assert.deepEqual(
    results(state).map(({ status }) => status),
    ["success", "success"],
  );
});

test("decisions by the ids of the interrupts", async () => {
  await using place = await Place.make();
  const agent = await agentOf(place.client, new Scripted(["bash", bash("touch one")], ["bash", bash("touch two")]));
  const replies = interrupts(await agent.invoke(ASKED, THREAD)).map(({ id }) => [id, "once"]);
  await agent.invoke(new Command({ resume: Object.fromEntries(replies) }), THREAD);
  assert.deepEqual([place.has("one"), place.has("two")], [true, true]);
});

test("a node may make the same call again", async () => {
  await using place = await Place.make();
  const bashTool = (await toolgateTools(place.client)).find(({ name }) => name === "bash");
  let said: unknown[] = [];
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("node", async () => {
      said = [];
      for (let index = 0; index < 2; index += 1) {
        said.push(await bashTool?.invoke(bash("echo once more | tee -a log")));
      }
      return { messages: [] };
    })
    .addEdge(START, "node")
    .compile({ checkpointer: new MemorySaver() });
  let state: unknown = await graph.invoke(ASKED, THREAD);
  for (let index = 0; index < 2; index += 1) {
    const resume = { decision: "once", prompt: promptIn(interrupts(state)[0]?.value)?.id };
    state = await graph.invoke(new Command({ resume }), THREAD);
  }
  assert.equal(interrupts(state).length, 0);
  assert.deepEqual(said, ["once more\n", "once more\n"]);
  const calls = [];
  for await (const { callId } of place.client.calls()) {
    calls.push(callId);
  }
  assert.equal(calls.length, 2);
});

test("a question is an interrupt", async () => {
  await using place = await Place.make();
  const question = { question: "Which?", header: "Which", options: [{ label: "A", description: "first" }] };
  const agent = await agentOf(place.client, new Scripted(["question", { questions: [question] }]));
  const [interrupt] = interrupts(await agent.invoke(ASKED, THREAD));
  assert.equal(promptIn(interrupt?.value)?.title, "Which?");
  const reply = { decision: "answer", answers: ["A"] };
  const [result] = results(await agent.invoke(new Command({ resume: reply }), THREAD));
  assert.match(String(result?.content), /A/);
});

test("pictures are shown", async () => {
  await using place = await Place.make();
  const agent = await agentOf(place.client, new Scripted(["read", { filePath: await place.picture() }]));
  const [result] = results(await agent.invoke(ASKED, THREAD));
  assert.ok(Array.isArray(result?.content));
  assert.deepEqual(
    result.content.map(({ type }) => type),
    ["text", "image"],
  );
});

test("failures are results", async () => {
  await using place = await Place.make();
  const agent = await agentOf(place.client, new Scripted(["read", { filePath: "missing.txt" }]));
  const [result] = results(await agent.invoke(ASKED, THREAD));
  assert.equal(result?.status, "error");
  assert.match(String(result?.content), /missing\.txt/);
});

test("aborting the run cancels the call", async () => {
  await using place = await Place.make();
  const agent = await agentOf(place.client, new Scripted(["bash", bash("echo begun; sleep 60")]));
  const controller = new AbortController();
  try {
    const stream = await agent.stream(ASKED, { ...THREAD, streamMode: "custom", signal: controller.signal });
    for await (const _ of stream) {
      controller.abort();
    }
  } catch (error) {
    assert.ok(controller.signal.aborted, String(error));
  }
  const end = await place.end();
  assert.equal(end.ok ? "" : end.reason, "CANCELLED");
});
