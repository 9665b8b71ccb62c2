import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { create, fromJson } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { z } from "zod";
import { ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { CallSchema } from "../src/gen/toolgate/v1/call_pb.js";
import { FileService } from "../src/gen/toolgate/v1/file_service_pb.js";
import { InfoService } from "../src/gen/toolgate/v1/info_service_pb.js";
import { PromptDecision, PromptSchema } from "../src/gen/toolgate/v1/prompt_pb.js";
import { ToolService } from "../src/gen/toolgate/v1/tool_service_pb.js";
import { uuidv7 } from "../src/ids.js";
import {
  always,
  answer,
  anthropicResult,
  Client,
  geminiResult,
  instead,
  once,
  openaiResponsesResult,
  openaiResult,
  promptOf,
  reject,
  resultOf,
  ToolgateError,
} from "../src/index.js";
import { replyMessage } from "../src/prompts.js";
import { schemaJson, validate } from "../src/schema.js";
import { parseTarget } from "../src/target.js";
import { PACKAGE } from "./snippets.js";

test("targets", () => {
  const cases: [string, object | RegExp][] = [
    ["unix:/run/t.sock", { baseUrl: "http://localhost", socket: "/run/t.sock" }],
    ["unix:///run/t.sock", { baseUrl: "http://localhost", socket: "/run/t.sock" }],
    ["http://10.0.0.1:50551", { baseUrl: "http://10.0.0.1:50551" }],
    ["https://tools.example", { baseUrl: "https://tools.example" }],
    ["127.0.0.1:50551", { baseUrl: "http://127.0.0.1:50551" }],
    ["localhost:1", { baseUrl: "http://localhost:1" }],
    ["[::1]:1", { baseUrl: "http://[::1]:1" }],
    ["tools.example:50551", { baseUrl: "https://tools.example:50551" }],
    ["unix:", /path of the socket/],
    ["ftp://x", /not a server/],
    ["", /not a server/],
  ];
  for (const [text, expected] of cases) {
    if (expected instanceof RegExp) {
      assert.throws(() => parseTarget(text), expected, text);
    } else {
      assert.deepEqual(parseTarget(text), expected, text);
    }
  }
});

test("the package asks for no version of zod or a framework: a program that has another one can install it", async () => {
  const manifest = JSON.parse(await readFile(join(PACKAGE, "package.json"), "utf8"));
  for (const [name, version] of Object.entries(manifest.peerDependencies)) {
    assert.deepEqual([version, manifest.peerDependenciesMeta[name]], ["*", { optional: true }]);
  }
  assert.equal(manifest.peerDependencies.zod ?? manifest.dependencies.zod, undefined);
  const older = { "~standard": { version: 1, vendor: "zod", validate: (value: unknown) => ({ value }) } } as const;
  assert.throws(() => schemaJson(older), /zod does from 4\.2 on/);
});

test("UUIDv7", () => {
  const ids = [uuidv7(1), uuidv7(0x10000), uuidv7(Date.UTC(2026, 0))];
  for (const id of ids) {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
  assert.deepEqual([...ids].sort(), ids);
  assert.ok(uuidv7(0x123456789abc).startsWith("12345678-9abc-7"));
});

test("schemas say what a model needs", () => {
  const schema = z.object({
    name: z.string().describe("Who."),
    times: z.int().default(1),
    tags: z.array(z.enum(["a", "b"])).optional(),
  });
  assert.deepEqual(JSON.parse(schemaJson(schema)), {
    type: "object",
    properties: {
      name: { type: "string", description: "Who." },
      times: { type: "integer", default: 1 },
      tags: { type: "array", items: { type: "string", enum: ["a", "b"] } },
    },
    required: ["name"],
  });
  assert.equal(schemaJson(undefined), "");
  assert.equal(schemaJson("{not json"), "{not json");
  assert.equal(schemaJson({ type: "object" }), '{"type":"object"}');
});

test("validation fills in defaults, or says what is wrong", async () => {
  const schema = z.object({ inner: z.object({ times: z.int().default(2) }) });
  assert.deepEqual(await validate(schema, { inner: {} }), { inner: { times: 2 } });
  await assert.rejects(
    validate(schema, { inner: { times: "x" } }),
    /^TypeError: the input is not valid: inner\.times: /,
  );
});

test("errors carry the reason of the service", () => {
  const details = [
    { desc: ErrorInfoSchema, value: { reason: "TOO_MANY_CALLS", domain: "toolgate", metadata: { a: "b" } } },
    { desc: RetryInfoSchema, value: { retryDelay: { seconds: 1n, nanos: 500_000_000 } } },
  ];
  const error = ToolgateError.from(new ConnectError("too many calls", Code.ResourceExhausted, undefined, details));
  const { code, reason, metadata, retryDelayMs, transient, message } = error;
  assert.deepEqual(
    { code, reason, metadata: { ...metadata }, retryDelayMs, transient, message },
    {
      code: "RESOURCE_EXHAUSTED",
      reason: "TOO_MANY_CALLS",
      metadata: { a: "b" },
      retryDelayMs: 1500,
      transient: true,
      message: "too many calls",
    },
  );
  const cases: [Code, string, boolean][] = [
    [Code.Unavailable, "UNAVAILABLE", true],
    [Code.Aborted, "UNAVAILABLE", true],
    [Code.Internal, "UNAVAILABLE", true],
    [Code.PermissionDenied, "PERMISSION_DENIED", false],
    [Code.ResourceExhausted, "RESOURCE_EXHAUSTED", false],
    [Code.Unimplemented, "UNIMPLEMENTED", false],
  ];
  for (const [code, name, transient] of cases) {
    const local = ToolgateError.from(new ConnectError("x", code));
    assert.deepEqual([local.code, local.transient], [name, transient], name);
  }
  const said = new ConnectError("x", Code.Internal, undefined, details.slice(0, 1));
  assert.equal(ToolgateError.from(said).transient, false, "an internal error that the service admits");
  assert.equal(ToolgateError.from(new RangeError("x")).code, "UNKNOWN");
});

test("requests are retried when that may help", async () => {
  let calls = 0;
  const transport = createRouterTransport(({ service }) =>
    service(InfoService, {
      getServerInfo: () => {
        calls += 1;
        if (calls < 3) {
          throw new ConnectError("away", Code.Unavailable);
        }
        return { version: "1" };
      },
    }),
  );
  const info = await new Client({ transport }).info();
  assert.deepEqual([info.version, calls], ["1", 3]);
});

test("a part of a file that lacks nothing but its end is not read again", async () => {
  const ranges: string[] = [];
  const content = new TextEncoder().encode("0123456789");
  const transport = createRouterTransport(({ service }) =>
    service(FileService, {
      readFile: async function* ({ range }) {
        const [from, limit] = [Number(range?.offset), Number(range?.limit)];
        ranges.push(`${from} ${limit}`);
        yield { file: { path: "digits", sizeBytes: 10n } };
        yield { offset: range?.offset ?? 0n, data: content.subarray(from, limit === 0 ? undefined : from + limit) };
        if (ranges.length < 3) {
          throw new ConnectError("away", Code.Unavailable);
        }
      },
    }),
  );
  const files = new Client({ transport }).files();
  assert.equal(await files.text("digits", { offset: 2, limit: 3 }), "234");
  assert.deepEqual(ranges, ["2 3", "5 1", "5 1"]);
});

test("the token is asked for each time", async () => {
  const seen: (string | null)[] = [];
  const transport = createRouterTransport(({ service }) =>
    service(InfoService, {
      getServerInfo: (_request, { requestHeader }) => {
        seen.push(requestHeader.get("authorization"));
        return {};
      },
    }),
  );
  let count = 0;
  const client = new Client({
    transport,
    token: async () => {
      count += 1;
      return `t${count}`;
    },
  });
  await client.info();
  await client.info();
  assert.deepEqual(seen, ["Bearer t1", "Bearer t2"]);
});

test("tools are listed for the provider whose form is wanted", async () => {
  const models: (string | undefined)[] = [];
  const transport = createRouterTransport(({ service }) =>
    service(ToolService, {
      listTools: ({ model, pageToken }) => {
        models.push(model?.providerId);
        const tool = (name: string) => ({ name, description: `${name}!`, inputSchemaJson: '{"type":"object"}' });
        return pageToken ? { tools: [tool("b")] } : { tools: [tool("a")], nextPageToken: "2" };
      },
    }),
  );
  const client = new Client({ transport });
  const parameters = { type: "object" };
  assert.deepEqual(
    (await client.tools()).map(({ name }) => name),
    ["a", "b"],
  );
  assert.deepEqual((await client.tools().openai())[1], {
    type: "function",
    function: { name: "b", description: "b!", parameters },
  });
  assert.deepEqual((await client.tools().openaiResponses())[1], {
    type: "function",
    name: "b",
    description: "b!",
    parameters,
    strict: false,
  });
  assert.deepEqual((await client.tools().anthropic())[0], { name: "a", description: "a!", input_schema: parameters });
  assert.deepEqual(await client.tools({ model: { providerId: "vertex" } }).gemini(), [
    {
      functionDeclarations: [
        { name: "a", description: "a!", parameters },
        { name: "b", description: "b!", parameters },
      ],
    },
  ]);
  const asked = [undefined, "openai", "openai", "anthropic", "vertex"];
  assert.deepEqual(
    models,
    asked.flatMap((provider) => [provider, provider]),
  );
});

test("results take the forms of model APIs", async () => {
  const cases = JSON.parse(await readFile(join(PACKAGE, "../forms.json"), "utf8"));
  for (const { what, call, tool, model_call: id, ...forms } of cases) {
    const result = resultOf(fromJson(CallSchema, call));
    assert.ok(result, what);
    assert.deepEqual(openaiResult(result, id), forms.openai, what);
    assert.deepEqual(openaiResponsesResult(result, id), forms.openai_responses, what);
    assert.deepEqual(anthropicResult(result, id), forms.anthropic, what);
    assert.deepEqual(geminiResult(result, tool, id), forms.gemini, what);
  }
});

test("decisions become replies that cite what was shown", () => {
  const prompt = promptOf(
    create(PromptSchema, {
      promptId: "per_1",
      inputDigest: "d",
      request: { case: "permission", value: { metadata: { diff: "-a" } } },
    }),
  );
  assert.equal(prompt.kind === "permission" ? prompt.diff : "", "-a");
  const base = { promptId: "per_1", replyId: "r", inputDigest: "d" };
  const cases = [
    [once(), { decision: PromptDecision.ONCE }],
    [always(), { decision: PromptDecision.ALWAYS, alwaysPatterns: [] }],
    [reject("no"), { decision: PromptDecision.REJECT, message: "no" }],
    [
      answer("a", ["b", "c"], []),
      { decision: PromptDecision.ANSWER, answers: [{ values: ["a"] }, { values: ["b", "c"] }, { values: [] }] },
    ],
    [instead({ a: 1 }), { decision: PromptDecision.INSTEAD, inputJson: '{"a":1}' }],
  ] as const;
  for (const [decision, expected] of cases) {
    assert.deepEqual(replyMessage(prompt, "r", decision), { ...base, ...expected });
  }
  assert.deepEqual(replyMessage(prompt, "r", always({ reach: "session", maxUses: 2, patterns: ["x"] })), {
    ...base,
    decision: PromptDecision.ALWAYS,
    alwaysPatterns: ["x"],
    scope: { reach: 2, maxUses: 2 },
  });
});
