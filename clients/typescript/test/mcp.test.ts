import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, type McpOmission, once, type Prompt, reject, type ToolgateError } from "../src/node.js";
import { ErrorReason, McpRole } from "../src/proto.js";
import { PACKAGE } from "./snippets.js";
import { connectBy, NO_SERVER, TestServer, TRANSPORTS } from "./support.js";

const CONFIG = {
  permission: {
    read: {
      "*": "allow",
      "mcp:notes:notes://7": "deny",
      "mcp:notes:notes://8": "ask",
      "mcp:notes:prompt:private": "ask",
    },
  },
};
const MCP = {
  notes: { type: "local", command: ["python3", join(PACKAGE, "../mcp-server.py")] },
  gone: { type: "local", command: ["false"] },
};

/** A service with two servers, one of which does not start. Those of the user's own settings are always used. */
const start = () =>
  TestServer.start(CONFIG, async (folder) => {
    const settings = join(folder, "config", "opencode");
    await mkdir(settings, { recursive: true });
    await writeFile(join(settings, "opencode.json"), JSON.stringify({ mcp: MCP }));
  });

/** Returns when the server can be used, which is waited for only right after the start. */
async function ready(client: Client): Promise<void> {
  for (;;) {
    try {
      await all(client.mcp().templates({ server: "notes" }));
      return;
    } catch (error) {
      assert.equal((error as ToolgateError).reason, "MCP_SERVER_NOT_READY");
      await sleep(50);
    }
  }
}

async function all<T>(list: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of list) {
    found.push(one);
  }
  return found;
}

for (const kind of TRANSPORTS) {
  test(`over ${kind}, what MCP servers have is listed and read`, { skip: NO_SERVER }, async () => {
    await using server = await start();
    await using client = connectBy(kind, server.url);
    await ready(client);
    const mcp = client.mcp({ session: "mcp" });
    const omitted: McpOmission[] = [];
    const told = (some: readonly McpOmission[]) => omitted.push(...some);
    // All pages, without what a rule denies.
    const resources = await all(mcp.resources({ pageSize: 50, onOmitted: told }));
    const expected = Array.from({ length: 120 }, (_, day) => BigInt(day)).filter((day) => day !== 7n);
    assert.deepEqual(
      resources.map(({ sizeBytes }) => sizeBytes),
      expected,
    );
    assert.deepEqual(
      omitted.map(({ server, reason }) => [server, reason]),
      [["gone", ErrorReason.MCP_SERVER_NOT_READY]],
    );
    assert.deepEqual(
      (await all(mcp.templates())).map(({ uriTemplate }) => uriTemplate),
      ["notes://{day}"],
    );
    const [plan] = await all(mcp.prompts({ server: "notes" }));
    assert.deepEqual([plan?.name, plan?.arguments[0]?.name, plan?.arguments[0]?.required], ["plan", "day", true]);

    const read = await mcp.read("notes", "notes://new", { callId: "reading" });
    assert.equal(read.callId, "reading");
    assert.deepEqual(
      read.contents.map(({ content }) => content),
      [
        { case: "text", value: "This is notes://new." },
        { case: "blob", value: new Uint8Array([0, 1, 2]) },
      ],
    );
    const { tool, context } = await client.get("reading");
    assert.deepEqual([tool, context?.sessionId], ["mcp-read_notes", "mcp"]);
    const { messages } = await mcp.prompt("notes", "plan", { day: "today" });
    assert.deepEqual(
      messages.map(({ role, content }) => [role, content]),
      [[McpRole.USER, { case: "text", value: '{"day": "today"}' }]],
    );
    const hints = await mcp.complete("notes", { prompt: "plan" }, "day", { value: "to", arguments: { week: "48" } });
    assert.deepEqual([hints.values, hints.total, hints.hasMore], [["today", "plan", "48"], 7, true]);
    const others = await mcp.complete("notes", { uriTemplate: "notes://{day}" }, "day");
    assert.deepEqual(others.values, ["day", "notes://{day}"]);

    await assert.rejects(mcp.read("notes", "notes://7"), { code: "PERMISSION_DENIED", reason: "DENIED_BY_RULE" });
    // Nobody is there to ask.
    const asked = { code: "PERMISSION_DENIED", reason: "PERMISSION_NEEDED" };
    await assert.rejects(mcp.read("notes", "notes://8"), asked);
    await assert.rejects(mcp.complete("notes", { prompt: "private" }, "x"), asked);
    await assert.rejects(all(mcp.resources({ server: "nobody" })), { code: "NOT_FOUND", reason: "NOT_FOUND" });
    await assert.rejects(mcp.prompt("notes", "plan"), (error: ToolgateError) => {
      assert.deepEqual([error.code, error.reason], ["INVALID_ARGUMENT", "MCP_ARGUMENT_MISSING"]);
      assert.equal(error.metadata["argument"], "day");
      return true;
    });
  });

  test(`over ${kind}, people are waited for as long as they think`, { skip: NO_SERVER }, async () => {
    await using server = await start();
    await using patient = connectBy(kind, server.url);
    await ready(patient);
    await using client = connectBy(kind, server.url, { requestTimeoutMs: 1000 });
    const prompts: Prompt[] = [];
    const approvals = client.approvals(async (prompt) => {
      // Longer than a plain request may take.
      await sleep(1500);
      prompts.push(prompt);
      return prompt.tool === "mcp-read_notes" && prompts.length === 1 ? once() : reject("Not that.");
    });
    await approvals.ready;
    const read = await client.mcp().read("notes", "notes://8", { unattended: "wait" });
    assert.equal(read.contents.length, 2);
    await assert.rejects(client.mcp().prompt("notes", "private"), { code: "PERMISSION_DENIED", reason: "REJECTED" });
    const patterns = prompts.map((prompt) => (prompt.kind === "permission" ? prompt.patterns : []));
    assert.deepEqual(patterns, [["mcp:notes:notes://8"], ["mcp:notes:prompt:private"]]);
  });
}
