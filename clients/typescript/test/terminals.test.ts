import assert from "node:assert/strict";
import { test } from "node:test";
import { type Client, once } from "../src/node.js";
import { connectBy, NO_SERVER, TestServer, TRANSPORTS } from "./support.js";

/** Starts a command in the background; returns its call. */
async function background(client: Client, command: string, more: object = {}): Promise<string> {
  const input = { command, description: "A test", background: true, ...more };
  for await (const event of client.execute("bash", input, { onDisconnect: "keep" })) {
    if (event.type === "child") {
      return event.childCallId;
    }
  }
  return assert.fail("no call was made");
}

for (const kind of TRANSPORTS) {
  test(`over ${kind}, a terminal is shown, resized, typed into and signalled`, { skip: NO_SERVER }, async () => {
    await using server = await TestServer.start({ permission: { bash: "ask" } });
    await using client = connectBy(kind, server.url);
    const approvals = client.approvals(() => once());
    await approvals.ready;
    const script =
      "trap 'stty size' WINCH; trap 'echo usr1' USR1; while read -r line; do echo \"<$line>\"; done; echo bye";
    const callId = await background(client, script, { terminal: { columns: 40, rows: 10 } });
    const execution = client.watch(callId);
    let shown = "";
    const shows = async (text: string) => {
      for await (const event of execution) {
        shown += event.type === "output" ? new TextDecoder().decode(event.data) : "";
        if (shown.includes(text)) {
          return;
        }
      }
      assert.fail(`${text} is not in ${shown}`);
    };
    await execution.sendInput("one\r");
    await shows("<one>");
    await execution.resizeTerminal({ columns: 50, rows: 12 });
    // A shell that reads a line looks at its traps when it has one.
    await execution.sendInput("\r");
    await shows("12 50");
    await execution.sendSignal("USR1");
    await execution.sendInput("\r");
    await shows("usr1");
    const picture = await execution.terminal();
    assert.deepEqual(picture.size, { columns: 50, rows: 12 });
    assert.match(new TextDecoder().decode(picture.contents), /<one>/);
    assert.ok(picture.outputOffset > 0 && picture.lastSequence > 0 && picture.cursor.visible);
    assert.ok(picture.cursor.row > 0);

    // By its id as well, from any client.
    await assert.rejects(client.resizeTerminal(callId, { columns: 0, rows: 1 }), { reason: "INVALID_FIELD" });
    await client.resizeTerminal(callId, { columns: 30, rows: 8 });
    assert.deepEqual((await client.terminal(callId)).size, { columns: 30, rows: 8 });
    await client.sendInput(callId, "\x04");
    await shows("bye");
    await execution.result();
    await assert.rejects(client.terminal(callId), { reason: "CALL_ENDED" });
    await assert.rejects(client.resizeTerminal(callId, { columns: 30, rows: 8 }), { reason: "CALL_ENDED" });
    await assert.rejects(client.sendSignal(callId, "INT"), { reason: "CALL_ENDED" });
    await assert.rejects(client.sendInput(callId, "more"), { reason: "CALL_ENDED" });

    const plain = await background(client, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done");
    for await (const event of client.watch(plain)) {
      if (event.type === "output") {
        break;
      }
    }
    await assert.rejects(client.terminal(plain), { reason: "NO_TERMINAL" });
    await client.sendSignal(plain, "TERM");
    const ended = await client.watch(plain).result();
    assert.equal(ended.ok && ended.exitCode, 3, ended.text);
    await assert.rejects(client.sendSignal("no-such-call", "TERM"), { reason: "NOT_FOUND" });
    await approvals.close();
  });
}
