import assert from "node:assert/strict";
import { test } from "node:test";
import { connectBy, NO_SERVER, TestServer, TRANSPORTS } from "./support.js";

for (const kind of TRANSPORTS) {
  test(`over ${kind}, what a call would ask is told before it is made`, { skip: NO_SERVER }, async () => {
    await using server = await TestServer.start();
    await using client = connectBy(kind, server.url, { session: "evaluated" });
    const bash = (command: string) => client.evaluate("bash", { command, description: "Does it" });
    const asks = await bash("touch made");
    assert.deepEqual([asks.action, asks.tool, asks.complete, asks.problem], ["ASK", "bash", true, ""]);
    const request = asks.requests[0];
    assert.ok(request?.kind === "permission");
    assert.deepEqual([request.permission, request.action, request.patterns], ["bash", "ASK", ["touch made"]]);
    assert.match(asks.inputDigest, /^[0-9a-f]{64}$/);
    assert.equal(JSON.parse(asks.inputJson).command, "touch made");
    assert.equal((await bash("echo hi")).action, "ALLOW");
    assert.equal((await bash("rm made")).action, "DENY");
    const child = { command: "touch later", description: "Does it", background: true };
    const [background] = (await client.evaluate("bash", child)).children;
    assert.deepEqual([background?.tool, background?.action], ["background", "ASK"]);
    assert.equal((await client.evaluate("bash", '{"command": "ec')).tool, "invalid");
    await assert.rejects(client.evaluate("bash", {}, { workspace: "nowhere" }), {
      code: "NOT_FOUND",
      reason: "NOT_FOUND",
    });
    await assert.rejects(client.evaluate("bash", {}, { agent: "nobody" }), {
      code: "INVALID_ARGUMENT",
      reason: "INVALID_FIELD",
    });
    // Nothing was made of it.
    assert.ok((await client.calls({ session: "evaluated" }).next()).done);
  });
}
