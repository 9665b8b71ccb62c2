import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import { PermissionService, ReplyResult } from "../src/gen/toolgate/v1/permission_service_pb.js";
import { PromptState } from "../src/gen/toolgate/v1/prompt_pb.js";
import { type ApprovalsOptions, Client, once, type PromptHandler, reject } from "../src/index.js";

type Service = Partial<ServiceImpl<typeof PermissionService>>;

/** A list that can be waited for. */
class Log {
  readonly lines: string[] = [];
  readonly #waiting: [number, () => void][] = [];

  add(line: string): void {
    this.lines.push(line);
    for (const [count, wake] of this.#waiting) {
      if (this.lines.length >= count) {
        wake();
      }
    }
  }

  async has(...lines: string[]): Promise<void> {
    if (this.lines.length < lines.length) {
      await new Promise<void>((resolve) => this.#waiting.push([lines.length, resolve]));
    }
    assert.deepEqual(this.lines, lines);
  }
}

const opened = { message: { case: "opened" as const, value: {} } };
const snapshotEnd = { message: { case: "snapshotEnd" as const, value: {} } };
const added = (promptId: string) => ({
  message: { case: "promptAdded" as const, value: { prompt: { promptId, inputDigest: `d-${promptId}` } } },
});
const resolved = (promptId: string) => ({
  message: { case: "promptResolved" as const, value: { prompt: { promptId } } },
});
const until = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));

function approve(log: Log, permissions: Service, handler: PromptHandler, options: ApprovalsOptions = {}) {
  const transport = createRouterTransport(({ service }) => service(PermissionService, permissions));
  const bidirectional = permissions.channel !== undefined;
  const client = new Client({ transport, bidirectional });
  return client.approvals(handler, {
    onReady: () => log.add("ready"),
    onReply: ({ promptId, result }) => log.add(`${promptId} ${result}`),
    onError: (error, prompt) => log.add(`${prompt.id} failed: ${(error as Error).message}`),
    ...options,
  });
}

/** Answers like the service: the reply counts, but the first answer is lost with its connection. */
function channelThatBreaks(log: Log): Service {
  let connections = 0;
  return {
    async *channel(requests) {
      connections += 1;
      const first = connections === 1;
      for await (const { message } of requests) {
        if (message.case === "open") {
          yield opened;
          if (first) {
            yield added("per_1");
          }
          yield snapshotEnd;
        } else if (message.case === "reply") {
          const { promptId, replyId, inputDigest } = message.value;
          log.add(`reply ${replyId} ${inputDigest}`);
          if (first) {
            throw new ConnectError("connection lost", Code.Unavailable);
          }
          yield resolved(promptId);
          yield { message: { case: "replyResult", value: { promptId, replyId, result: ReplyResult.ACCEPTED } } };
        }
      }
    },
  };
}

test("a reply whose connection broke is sent again, and the handler is not asked again", async () => {
  const log = new Log();
  const approvals = approve(log, channelThatBreaks(log), (prompt) => {
    log.add(`asked ${prompt.id}`);
    return once();
  });
  await approvals.ready;
  while (!log.lines.includes("per_1 ACCEPTED")) {
    await log.has(...log.lines, "").catch(() => {});
  }
  const [, second = ""] = log.lines.filter((line) => line.startsWith("reply"));
  assert.deepEqual(
    log.lines.filter((line) => line !== "ready"),
    ["asked per_1", second, second, "per_1 ACCEPTED"],
  );
  assert.match(second, /^reply [0-9a-f-]{36} d-per_1$/);
  await approvals.close();
});

test("without client streaming, replies are unary", async () => {
  const log = new Log();
  let replies = 0;
  const approvals = approve(
    log,
    {
      async *watchPrompts(_request, { signal }) {
        yield* [opened, snapshotEnd, added("per_1")];
        await until(signal);
      },
      replyPrompt: ({ reply, name }) => {
        log.add(`${name}: ${reply?.message}`);
        replies += 1;
        if (replies === 1) {
          throw new ConnectError("away", Code.Unavailable);
        }
        const { promptId = "", replyId = "" } = reply ?? {};
        return { result: { promptId, replyId, result: ReplyResult.ALREADY_RESOLVED } };
      },
    },
    () => reject("no"),
    { name: "me" },
  );
  await log.has("ready", "me: no", "me: no", "per_1 ALREADY_RESOLVED");
  await approvals.close();
});

test("a handler whose prompt has ended elsewhere is aborted, also while there was no connection", async () => {
  const log = new Log();
  let connections = 0;
  const approvals = approve(
    log,
    {
      async *watchPrompts(_request, { signal }) {
        connections += 1;
        if (connections === 1) {
          yield* [opened, added("per_1"), added("per_2"), snapshotEnd, resolved("per_1")];
          throw new ConnectError("connection lost", Code.Unavailable);
        }
        yield* [opened, snapshotEnd];
        await until(signal);
      },
    },
    async (prompt, { signal }) => {
      await until(signal);
      log.add(`${prompt.id} gone`);
    },
  );
  await log.has("ready", "per_1 gone", "ready", "per_2 gone");
  await approvals.close();
});

test("a handler that throws leaves its prompt open, and the others are answered", async () => {
  const log = new Log();
  const approvals = approve(
    log,
    {
      async *watchPrompts(_request, { signal }) {
        yield* [opened, snapshotEnd, added("per_1"), added("per_2")];
        await until(signal);
      },
      replyPrompt: ({ reply }) => {
        const { promptId = "", replyId = "" } = reply ?? {};
        return { result: { promptId, replyId, result: ReplyResult.ACCEPTED, prompt: { promptId } } };
      },
    },
    (prompt) => {
      if (prompt.id === "per_1") {
        throw new Error("oh");
      }
      return once();
    },
  );
  await log.has("ready", "per_1 failed: oh", "per_2 ACCEPTED");
  await approvals.close();
});

/** Takes no reply before it has told these results. */
function channelThatTakesNothing(log: Log, results: ReplyResult[], shows?: string): Service {
  return {
    async *channel(requests) {
      for await (const { message } of requests) {
        if (message.case === "open") {
          yield* [opened, open("per_1", "d1"), snapshotEnd];
        } else if (message.case === "reply") {
          const { promptId, replyId, inputDigest } = message.value;
          log.add(`reply to ${inputDigest}`);
          const result = results.shift() ?? ReplyResult.ACCEPTED;
          const prompt = shows ? { prompt: open(promptId, shows).message.value.prompt } : {};
          yield {
            message: {
              case: "replyResult",
              value: { promptId, replyId, result, message: "it does not fit", ...prompt },
            },
          };
        }
      }
    },
  };
}

const open = (promptId: string, inputDigest: string) => ({
  message: {
    case: "promptAdded" as const,
    value: { prompt: { promptId, inputDigest, state: PromptState.OPEN } },
  },
});

for (const shows of [undefined, "d2"]) {
  test(`a handler whose reply was not taken is called again, with ${shows ?? "no"} newer prompt`, async () => {
    const log = new Log();
    const service = channelThatTakesNothing(log, [ReplyResult.INVALID, ReplyResult.DIGEST_MISMATCH], shows);
    const approvals = approve(log, service, (prompt, { problem }) => {
      log.add(`asked ${prompt.inputDigest} ${problem ?? ""}`);
      return once();
    });
    const now = shows ?? "d1";
    await log.has(
      "asked d1 ",
      "ready",
      "reply to d1",
      "per_1 INVALID",
      `asked ${now} it does not fit`,
      `reply to ${now}`,
      "per_1 DIGEST_MISMATCH",
      `asked ${now} it does not fit`,
      `reply to ${now}`,
      "per_1 ACCEPTED",
    );
    await approvals.close();
  });
}

test("a handler whose replies are never taken is not called for ever", async () => {
  const log = new Log();
  const service = channelThatTakesNothing(
    log,
    Array.from({ length: 6 }, () => ReplyResult.INVALID),
  );
  const approvals = approve(log, service, () => once(), { onReply: () => {} });
  await log.has(
    "ready",
    ...Array.from({ length: 6 }, () => "reply to d1"),
    "per_1 failed: 6 replies were not taken: it does not fit",
  );
  await approvals.close();
});

test("without client streaming, the result brings the prompt as it stands", async () => {
  const log = new Log();
  const approvals = approve(
    log,
    {
      async *watchPrompts(_request, { signal }) {
        yield* [opened, snapshotEnd, open("per_1", "d1")];
        await until(signal);
      },
      replyPrompt: ({ reply }) => {
        const { promptId = "", replyId = "", inputDigest = "" } = reply ?? {};
        log.add(`reply to ${inputDigest}`);
        const result = inputDigest === "d1" ? ReplyResult.INVALID : ReplyResult.NOT_ALLOWED;
        return { result: { promptId, replyId, result, prompt: open(promptId, "d2").message.value.prompt } };
      },
    },
    () => once(),
  );
  await log.has("ready", "reply to d1", "per_1 INVALID", "reply to d2", "per_1 NOT_ALLOWED");
  await approvals.close();
});

test("a service that refuses ends the approvals", async () => {
  const refuse = () => {
    throw new ConnectError("not you", Code.PermissionDenied);
  };
  const approvals = approve(new Log(), { watchPrompts: refuse }, () => once());
  await assert.rejects(approvals.ready, { code: "PERMISSION_DENIED" });
  await assert.rejects(approvals.done, { code: "PERMISSION_DENIED" });
  await approvals.close();
});
