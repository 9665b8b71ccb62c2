/** The driver, over both transports: what the tests of the repository rely on. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { create, type DescMessage, fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { CallEventSchema, CallSchema, ToolDefinitionSchema } from "../src/gen/toolgate/v1/call_pb.js";
import { HostHelloSchema, HostInvokeSchema, HostReportSchema } from "../src/gen/toolgate/v1/host_service_pb.js";
import { SearchOutputRequestSchema, SearchOutputResponseSchema } from "../src/gen/toolgate/v1/output_service_pb.js";
import { PromptReplySchema } from "../src/gen/toolgate/v1/permission_service_pb.js";
import { PromptDecision, PromptSchema } from "../src/gen/toolgate/v1/prompt_pb.js";
import { GetSessionRequestSchema } from "../src/gen/toolgate/v1/session_service_pb.js";
import { ExecuteToolRequestSchema } from "../src/gen/toolgate/v1/tool_service_pb.js";
import { encode } from "./codec.js";
import { NO_SERVER, TestServer, TRANSPORTS } from "./support.js";

const DRIVER = fileURLToPath(new URL("driver.js", import.meta.url));

interface Line {
  readonly id: number;
  // biome-ignore lint/suspicious/noExplicitAny: as below.
  readonly done?: any;
  // biome-ignore lint/suspicious/noExplicitAny: reports are JSON of many forms.
  readonly [field: string]: any;
}

/** A driver that runs. */
class Driver {
  readonly #process: ChildProcess;
  readonly #lines: Line[] = [];
  readonly #waiting = new Set<() => void>();
  #next = 0;

  constructor(kind: string) {
    const env = { ...process.env, TOOLGATE_DRIVER_TRANSPORT: kind };
    this.#process = spawn(process.execPath, [DRIVER], { env, stdio: ["pipe", "pipe", "inherit"] });
    const { stdout } = this.#process;
    assert.ok(stdout);
    createInterface({ input: stdout }).on("line", (line) => {
      this.#lines.push(JSON.parse(line));
      for (const wake of this.#waiting) {
        wake();
      }
    });
  }

  send(command: object): number {
    this.#next += 1;
    this.raw(JSON.stringify({ id: this.#next, ...command }));
    return this.#next;
  }

  raw(line: string): void {
    this.#process.stdin?.write(`${line}\n`);
  }

  /** Waits for the first report of a command that has a field. */
  async report(id: number, ...fields: string[]): Promise<Line> {
    for (;;) {
      const found = this.#lines.find((line) => line.id === id && fields.some((field) => field in line));
      if (found) {
        return found;
      }
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#waiting.delete(wake);
          resolve();
        };
        this.#waiting.add(wake);
      });
    }
  }

  async done(command: object): Promise<Line> {
    const line = await this.report(this.send(command), "done", "error");
    assert.ok("done" in line, JSON.stringify(line));
    return line;
  }

  all(id: number, field: string): Line[] {
    return this.#lines.filter((line) => line.id === id && field in line);
  }

  async end(): Promise<number | null> {
    const ended = new Promise<number | null>((resolve) => this.#process.once("exit", resolve));
    this.#process.stdin?.end();
    return ended;
  }
}

function message<D extends DescMessage>(schema: D, value: MessageInitShape<D>): string {
  return encode(schema, create(schema, value));
}

function parse<D extends DescMessage>(schema: D, text: string) {
  return fromBinary(schema, Buffer.from(text, "base64"));
}

function bash(command: string): string {
  const inputJson = JSON.stringify({ command, description: "Does it" });
  return message(ExecuteToolRequestSchema, { tool: "bash", arguments: { case: "inputJson", value: inputJson } });
}

for (const kind of TRANSPORTS) {
  test(`the driver over ${kind}`, { skip: NO_SERVER }, async () => {
    await using server = await TestServer.start();
    const driver = new Driver(kind);
    const client = "c1";
    await driver.done({ do: "connect", client, target: server.socket });

    const { done: listed } = await driver.done({ do: "tools", client, request: "" });
    assert.ok(listed.tools.map((text: string) => parse(ToolDefinitionSchema, text).name).includes("bash"));
    const { done: formats } = await driver.done({ do: "formats", client, request: "" });
    assert.equal(formats.openai[0].type, "function");
    assert.ok(formats.anthropic[0].input_schema);
    assert.ok(formats.gemini[0].functionDeclarations[0].parameters);

    const approvals = driver.send({ do: "approvals", client, name: "d" });
    await driver.report(approvals, "ready");
    const asked = driver.send({ do: "execute", client, request: bash("printf hello") });
    const { prompt } = await driver.report(approvals, "prompt");
    const { promptId } = parse(PromptSchema, prompt);
    const reply = message(PromptReplySchema, { promptId, decision: PromptDecision.ONCE });
    await driver.done({ do: "reply", approvals, reply });
    const { result } = await driver.report(approvals, "result");
    assert.deepEqual(result, { prompt_id: promptId, result: "ACCEPTED" });
    const { done: ran } = await driver.report(asked, "done", "error");
    const { ending } = parse(CallSchema, ran.call);
    assert.ok(ending.case === "completed" && ending.value.output === "hello");
    const events = driver.all(asked, "event").map(({ event }) => parse(CallEventSchema, event));
    assert.deepEqual(
      events.map(({ sequence }) => Number(sequence)),
      events.map((_, index) => index + 1),
    );
    const again = await driver.report(driver.send({ do: "reply", approvals, reply }), "error");
    assert.equal(again["error"].code, "NOT_FOUND");

    const slow = driver.send({ do: "execute", client, request: bash("sleep 600") });
    await driver.report(slow, "event");
    await driver.done({ do: "cancel", execution: slow });
    const { done: cancelled } = await driver.report(slow, "done", "error");
    assert.equal(parse(CallSchema, cancelled.call).ending.case, "failed");

    const output = ending.value.truncation?.outputId ?? "";
    const read = driver.send({ do: "read", client, output, offset: 1, limit: 2 });
    await driver.report(read, "done");
    assert.deepEqual(
      driver.all(read, "data").map(({ data }) => Buffer.from(data, "base64").toString()),
      ["el"],
    );
    const search = message(SearchOutputRequestSchema, { outputId: output, pattern: "ell" });
    const { done: found } = await driver.done({ do: "search", client, request: search });
    assert.equal(parse(SearchOutputResponseSchema, found.response).matches, 1);
    const path = join(server.folder, "saved");
    assert.deepEqual((await driver.done({ do: "save", client, output, path })).done, { bytes: 5 });

    const tools = [{ name: "lent", description: "L", inputSchemaJson: '{"type":"object"}' }, { name: "bash" }];
    const hello = message(HostHelloSchema, { name: "h", tools });
    const host = driver.send({ do: "host", client, hello });
    const { ready } = await driver.report(host, "ready");
    assert.deepEqual(
      ready.refused.map(({ name }: { name: string }) => name),
      ["bash"],
    );
    const request = message(ExecuteToolRequestSchema, { tool: "lent" });
    const call = driver.send({ do: "execute", client, request });
    const { invoke } = await driver.report(host, "invoke");
    const { invocationId } = parse(HostInvokeSchema, invoke);
    const report = message(HostReportSchema, {
      invocationId,
      report: { case: "completed", value: { output: "from afar" } },
    });
    await driver.done({ do: "report", host, report });
    const { done: lent } = await driver.report(call, "done", "error");
    const lentEnding = parse(CallSchema, lent.call).ending;
    assert.ok(lentEnding.case === "completed" && lentEnding.value.output === "from afar");
    await driver.done({ do: "stop", command: host });
    await driver.report(host, "done");

    const greeter = driver.send({ do: "greeter", client });
    await driver.report(greeter, "ready");
    const greet = message(ExecuteToolRequestSchema, {
      tool: "greet",
      arguments: { case: "inputJson", value: '{"name":"Ada","times":2}' },
    });
    const { done: greeted } = await driver.done({ do: "execute", client, request: greet });
    const greeting = parse(CallSchema, greeted.call).ending;
    assert.ok(greeting.case === "completed");
    assert.deepEqual(
      [greeting.value.title, greeting.value.output, greeting.value.metadata?.["greeted"]],
      ["Greeting Ada", "Hello, Ada!\nHello, Ada!", 2],
    );

    const watched = driver.send({ do: "events", client, request: "" });
    await driver.report(watched, "ready");
    await driver.done({ do: "execute", client, request: bash("echo hi") });
    await driver.report(watched, "event");
    await driver.done({ do: "stop", command: watched });
    assert.deepEqual((await driver.report(watched, "done", "error"))["done"], {});

    const session = message(GetSessionRequestSchema, { sessionId: "s" });
    const method = "toolgate.v1.SessionService/GetSession";
    assert.ok((await driver.done({ do: "unary", client, method, request: session })).done.response);
    const refused = driver.send({ do: "unary", client, method, request: "" });
    assert.equal((await driver.report(refused, "error"))["error"].code, "INVALID_ARGUMENT");
    for (const wrong of [{ do: "dance" }, { do: "tools", client: "c9" }, { do: "read", client }]) {
      assert.equal((await driver.report(driver.send(wrong), "error"))["error"].code, "INVALID_ARGUMENT");
    }
    await driver.done({ do: "stop", command: approvals });
    const { done: closed } = await driver.done({ do: "close", client });
    assert.deepEqual(closed, {});
    assert.equal(await driver.end(), 0);
  });
}
