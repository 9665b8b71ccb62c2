import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import { CallEventSchema, CallState, FailureReason } from "../src/gen/toolgate/v1/call_pb.js";
import { ToolService } from "../src/gen/toolgate/v1/tool_service_pb.js";
import { type CallEvent, Client, ToolgateError } from "../src/index.js";

type EventInit = NonNullable<MessageInitShape<typeof CallEventSchema>["event"]>;

const OUTPUT: EventInit = { case: "output", value: { data: new Uint8Array([1]) } };
const END: EventInit = { case: "completed", value: { output: "done" } };

function event(sequence: number, what: EventInit = OUTPUT) {
  return { event: create(CallEventSchema, { callId: "c", sequence: BigInt(sequence), event: what }) };
}

const heartbeat = { event: create(CallEventSchema, { callId: "c", event: { case: "heartbeat", value: {} } }) };

function broken(): never {
  throw new ConnectError("connection lost", Code.Unavailable);
}

function clientOf(tools: Partial<ServiceImpl<typeof ToolService>>, patience: object = {}): Client {
  const transport = createRouterTransport(({ service }) => service(ToolService, tools));
  return new Client({ transport, ...patience });
}

async function sequences(events: AsyncIterable<CallEvent>): Promise<string[]> {
  const seen: string[] = [];
  for await (const { sequence, type } of events) {
    seen.push(`${sequence} ${type}`);
  }
  return seen;
}

test("a broken stream is taken up after the last event", async () => {
  const asked: string[] = [];
  const client = clientOf({
    async *executeTool({ callId }) {
      asked.push(`execute ${callId}`);
      yield event(1);
      yield heartbeat;
      yield event(2);
      broken();
    },
    async *watchCall({ afterSequence }) {
      asked.push(`watch ${afterSequence}`);
      yield event(2); // once more: not delivered again
      yield event(3);
      if (afterSequence === 3n) {
        yield event(4, END);
      } else {
        broken();
      }
    },
  });
  const execution = client.execute("t", {}, { callId: "c" });
  assert.deepEqual(await sequences(execution), ["1 output", "2 output", "3 output", "4 completed"]);
  assert.equal((await execution.result()).text, "done");
  assert.deepEqual(asked, ["execute c", "watch 2", "watch 3"]);
});

test("a start that failed before the first event is repeated as it was", async () => {
  const starts: object[] = [];
  const client = clientOf({
    async *executeTool({ callId, tool, arguments: given }) {
      starts.push({ callId, tool, given });
      if (starts.length < 3) {
        broken();
      }
      yield event(1, END);
    },
  });
  const execution = client.execute("t", '{"as": "written"');
  assert.deepEqual(await sequences(execution), ["1 completed"]);
  assert.equal(starts.length, 3);
  assert.deepEqual(starts[2], starts[0]);
  assert.deepEqual(starts[0], {
    callId: execution.callId,
    tool: "t",
    given: { case: "inputJson", value: '{"as": "written"' },
  });
});

test("a stream that leaves events out is not believed", async () => {
  let watches = 0;
  const client = clientOf({
    async *executeTool() {
      yield event(1);
      yield event(3, END);
    },
    async *watchCall({ afterSequence }) {
      watches += 1;
      assert.equal(afterSequence, 1n);
      yield event(3, { case: "gap", value: { firstSequence: 2n, lastSequence: 3n, outputBytes: 7n } });
      yield event(4, END);
    },
  });
  assert.deepEqual(await sequences(client.execute("t")), ["1 output", "3 gap", "4 completed"]);
  assert.equal(watches, 1);
});

test("a stream that ends before the call is watched again", async () => {
  const client = clientOf({
    async *executeTool() {
      yield event(1);
    },
    async *watchCall() {
      yield event(2, { case: "failed", value: { reason: FailureReason.LOST, error: "gone" } });
    },
    getCall: () => ({ call: { callId: "c", state: CallState.RUNNING, lastSequence: 1n } }),
  });
  const execution = client.execute("t");
  assert.deepEqual(await sequences(execution), ["1 output", "2 failed"]);
  const result = await execution.result();
  assert.equal(result.ok ? "" : result.reason, "LOST");
});

test("what is watched from its end on gives its result", async () => {
  const ending = { case: "completed" as const, value: { output: "long ago" } };
  const client = clientOf({
    async *watchCall() {
      yield event(8, { case: "metadata", value: { metadata: { late: true } } });
    },
    getCall: () => ({ call: { callId: "c", state: CallState.COMPLETED, lastSequence: 8n, ending } }),
  });
  const watch = client.watch("c", { after: 7 });
  assert.deepEqual(await sequences(watch), ["8 metadata"]);
  assert.equal((await watch.result()).text, "long ago");
});

for (const ran of [false, true]) {
  test(`a call whose record is gone is ${ran ? "given up, since it ran" : "started again"}`, async () => {
    let starts = 0;
    const client = clientOf({
      async *executeTool() {
        starts += 1;
        yield event(1, { case: "pending", value: {} });
        if (ran || starts > 1) {
          yield event(2, { case: "running", value: {} });
        }
        if (starts === 1) {
          broken();
        }
        yield event(3, END);
      },
      watchCall: () => {
        throw new ConnectError("there is no call c", Code.NotFound);
      },
    });
    const seen = sequences(client.execute("t"));
    if (ran) {
      await assert.rejects(seen, { code: "NOT_FOUND" });
    } else {
      assert.deepEqual(await seen, ["1 pending", "2 running", "3 completed"]);
    }
    assert.equal(starts, ran ? 1 : 2);
  });
}

test("silence counts as a lost connection", async () => {
  const client = clientOf(
    {
      async *executeTool(_request, { signal }) {
        yield event(1);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
      async *watchCall() {
        yield event(2, END);
      },
    },
    { stallTimeoutMs: 30 },
  );
  assert.deepEqual(await sequences(client.execute("t")), ["1 output", "2 completed"]);
});

test("the last error is given when patience is over", async () => {
  const client = clientOf({ executeTool: () => broken() }, { connectTimeoutMs: 120, reconnectTimeoutMs: 120 });
  const started = Date.now();
  await assert.rejects(client.run("t"), (error) => error instanceof ToolgateError && error.code === "UNAVAILABLE");
  assert.ok(Date.now() - started < 5_000);
});

test("an error that is no lost connection ends the execution", async () => {
  let starts = 0;
  const client = clientOf({
    executeTool: () => {
      starts += 1;
      throw new ConnectError("there is no workspace x", Code.NotFound);
    },
  });
  const execution = client.execute("t");
  await assert.rejects(sequences(execution), { code: "NOT_FOUND" });
  await assert.rejects(execution.result(), { code: "NOT_FOUND" });
  assert.equal(starts, 1);
});

/** A service whose calls run until they are cancelled. */
function endless() {
  const cancelled: string[] = [];
  let wake: () => void;
  const stopped = new Promise<void>((resolve) => {
    wake = resolve;
  });
  const tools: Partial<ServiceImpl<typeof ToolService>> = {
    async *executeTool({ callId }) {
      yield event(1);
      await stopped;
      assert.ok(cancelled.includes(callId));
      yield event(2, { case: "failed", value: { reason: FailureReason.CANCELLED, error: "cancelled" } });
    },
    async *watchCall() {
      await stopped;
      yield event(2, { case: "failed", value: { reason: FailureReason.CANCELLED, error: "cancelled" } });
    },
    cancelCall: ({ callId }) => {
      cancelled.push(callId);
      wake();
      return { call: { callId } };
    },
  };
  return { tools, cancelled };
}

const LEAVE: Record<string, (client: Client) => Promise<string>> = {
  "the loop is left": async (client) => {
    const execution = client.execute("t");
    for await (const _ of execution) {
      break;
    }
    return execution.callId;
  },
  "the signal is aborted": async (client) => {
    const controller = new AbortController();
    const execution = client.execute("t", {}, { signal: controller.signal });
    for await (const { type } of execution) {
      if (type === "output") {
        controller.abort();
      }
    }
    return execution.callId;
  },
  "the execution is disposed of": async (client) => {
    const execution = client.execute("t");
    await execution[Symbol.asyncDispose]();
    return execution.callId;
  },
  "the client is closed": async (client) => {
    const { callId } = client.execute("t");
    await client.close();
    return callId;
  },
};

for (const [how, leave] of Object.entries(LEAVE)) {
  test(`a call is cancelled when ${how}`, async () => {
    const { tools, cancelled } = endless();
    const callId = await leave(clientOf(tools));
    assert.deepEqual(cancelled, [callId]);
  });
}

test("a call that is kept is not cancelled, and can be read on", async () => {
  const { tools, cancelled } = endless();
  const client = clientOf(tools);
  const execution = client.execute("t", {}, { onDisconnect: "keep" });
  for await (const _ of execution) {
    break;
  }
  assert.deepEqual(cancelled, []);
  await execution.cancel();
  const result = await execution.result();
  assert.equal(result.ok ? "" : result.reason, "CANCELLED");
});

test("a watch that is left ends its stream, and can be read on", async () => {
  const asked: bigint[] = [];
  let ended = 0;
  const client = clientOf({
    async *watchCall({ afterSequence }, { signal }) {
      asked.push(afterSequence);
      signal.addEventListener("abort", () => {
        ended += 1;
      });
      yield event(Number(afterSequence) + 1);
      yield event(Number(afterSequence) + 2, afterSequence === 0n ? OUTPUT : END);
    },
  });
  const watch = client.watch("c");
  for await (const _ of watch) {
    break;
  }
  assert.equal(ended, 1);
  assert.deepEqual(await sequences(watch), ["2 output", "3 completed"]);
  assert.deepEqual(asked, [0n, 1n]);
});

test("a signal that was aborted before starts nothing", async () => {
  let starts = 0;
  const client = clientOf({
    async *executeTool() {
      starts += 1;
      yield event(1, END);
    },
  });
  await assert.rejects(client.run("t", {}, { signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.equal(starts, 0);
});

test("a loop that begins with the result being awaited misses nothing", async () => {
  const client = clientOf({
    async *executeTool() {
      yield event(1);
      yield event(2, END);
    },
  });
  const execution = client.execute("t");
  const result = execution.result();
  assert.deepEqual(await sequences(execution), ["1 output", "2 completed"]);
  assert.equal((await result).ok, true);
});
