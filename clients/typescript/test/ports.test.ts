import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { Duplex } from "node:stream";
import { test } from "node:test";
import {
  type Client,
  connect,
  type ListeningPort,
  type OpenedPort,
  once,
  type PortConnection,
  type Prompt,
  reject,
} from "../src/node.js";
import { CallState } from "../src/proto.js";
import { connectBy, NO_SERVER, TestServer, TRANSPORTS } from "./support.js";

const CONFIG = { permission: { bash: "allow", port: "ask" } };

/** Sends back what it reads, then the number of bytes, and breaks the connection when it reads `break`. */
const ECHO = `node -e '
  const server = require("net").createServer({ allowHalfOpen: true }, (socket) => {
    let bytes = 0;
    socket.on("data", (data) => {
      bytes += data.length;
      if (data.toString() === "break") socket.resetAndDestroy();
      else if (!socket.write(data)) { socket.pause(); socket.once("drain", () => socket.resume()); }
    });
    socket.on("end", () => socket.end(" " + bytes));
    socket.on("error", () => {});
  });
  server.listen(0, "127.0.0.1");
  process.stdin.once("data", () => server.close());
  setInterval(() => {}, 1000);
'`;
const PAGES = `node -e '
  const server = require("http").createServer((request, response) => response.end("page " + request.url));
  server.listen(0, "127.0.0.1");
'`;

/** Starts a command in the background that listens; returns its call and its port. */
async function listening(client: Client, command: string): Promise<{ callId: string; port: number }> {
  const input = { command, description: "Listens" };
  const execution = client.execute("background", input, { onDisconnect: "keep" });
  for await (const event of execution) {
    const port = event.type === "listening" ? event.ports[0] : undefined;
    if (port) {
      check(port);
      return { callId: execution.callId, port: port.port };
    }
  }
  return assert.fail("it does not listen");
}

function check({ port, address, pid, command }: ListeningPort): void {
  assert.ok(port > 0 && pid > 0, `${port} ${pid}`);
  assert.equal(address, "127.0.0.1");
  assert.match(command, /node/);
}

async function send({ writable }: PortConnection, ...pieces: (string | Uint8Array)[]): Promise<void> {
  const writer = writable.getWriter();
  for (const piece of pieces) {
    await writer.write(typeof piece === "string" ? new TextEncoder().encode(piece) : piece);
  }
  await writer.close();
}

const text = ({ readable }: PortConnection) => new Response(readable).text();

for (const kind of TRANSPORTS) {
  test(`over ${kind}, a port is opened after a question, and closed`, { skip: NO_SERVER }, async () => {
    await using server = await TestServer.start(CONFIG);
    await using client = connectBy(kind, server.url, { session: "ports" });
    const prompts: Prompt[] = [];
    let allows = false;
    const approvals = client.approvals((prompt) => {
      prompts.push(prompt);
      return allows ? once() : reject("Not this one.");
    });
    await approvals.ready;
    const told: number[] = [];
    const enough = new AbortController();
    const events = (async () => {
      for await (const event of client.events({ after: 0, signal: enough.signal })) {
        if (event.type === "listeningChanged") {
          told.push(...event.value.ports.map(({ port }) => port));
        }
      }
    })().catch(() => {});
    const { callId, port } = await listening(client, PAGES);
    assert.deepEqual(
      (await client.get(callId)).listening.map((one) => one.port),
      [port],
    );

    await assert.rejects(client.openPort(callId, port), { code: "PERMISSION_DENIED", reason: "REJECTED" });
    await assert.rejects(client.openPort(callId, 0), { code: "INVALID_ARGUMENT", reason: "INVALID_FIELD" });
    await assert.rejects(client.openPort(callId, 1), { code: "FAILED_PRECONDITION", reason: "NOT_LISTENING" });
    await assert.rejects(client.openPort("no-such-call", port), { code: "NOT_FOUND" });
    allows = true;
    const opened = await client.openPort(callId, port);
    const [prompt] = prompts;
    assert.ok(prompt?.kind === "permission");
    assert.deepEqual([prompt.permission, prompt.tool], ["port", "port"]);
    assert.match(opened.httpPath, /^\/ports\/[^/]+\/$/);
    assert.equal(opened.url, new URL(opened.httpPath, server.url).href);
    const page = await fetch(new URL("deep?q=1", opened.url));
    assert.equal(await page.text(), "page /deep?q=1");
    if (kind === "web") {
      await assert.rejects(opened.connect(), { code: "UNIMPLEMENTED", message: /toolgate\/node/ });
    }
    // Asked for again under the same id, it is the same port.
    const callIdOfPort = `again-${kind}`;
    const [one, other] = [
      await client.openPort(callId, port, { callId: callIdOfPort }),
      await client.openPort(callId, port, { callId: callIdOfPort }),
    ];
    assert.deepEqual([one.callId, other.httpPath], [callIdOfPort, one.httpPath]);

    await opened.close();
    await opened.close();
    assert.equal((await fetch(opened.url ?? "")).ok, false);
    assert.ok(
      ["COMPLETED", "FAILED"].includes((await client.watch(opened.callId).result()).ok ? "COMPLETED" : "FAILED"),
    );
    await client.cancel(callId);
    while (!told.includes(port)) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    enough.abort();
    await events;
    await approvals.close();
  });
}

test("bytes go both ways through an opened port", { skip: NO_SERVER }, async (t) => {
  await using server = await TestServer.start({ permission: { bash: "allow", port: "allow" } });
  await using client = connect(server.url);
  const { callId, port } = await listening(client, ECHO);
  const opened = await client.openPort(callId, port);

  await t.test("and each side ends by itself", async () => {
    const connection = await opened.connect();
    const [answer] = await Promise.all([text(connection), send(connection, "hello", " ", "there")]);
    assert.equal(answer, "hello there 11");
  });

  await t.test("as many as there are, with many connections at once", async () => {
    const large = new Uint8Array(3_000_000).map((_, index) => index % 251);
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        const connection = await opened.connect();
        const sent = send(connection, large, large);
        const answer = new Uint8Array(await new Response(connection.readable).arrayBuffer());
        await sent;
        const end = " 6000000";
        assert.equal(answer.length, 6_000_000 + end.length);
        assert.deepEqual(Buffer.from(answer.subarray(3_000_000, 6_000_000)), Buffer.from(large));
      }),
    );
  });

  await t.test("as a stream of Node", async () => {
    const duplex = Duplex.fromWeb((await opened.connect()) as Parameters<typeof Duplex.fromWeb>[0]);
    duplex.end("hello");
    let answer = "";
    for await (const data of duplex) {
      answer += data;
    }
    assert.equal(answer, "hello 5");
  });

  await t.test("who does not read holds back who writes", async () => {
    const connection = await opened.connect();
    const writer = connection.writable.getWriter();
    let written = 0;
    const writing = (async () => {
      // What does not become smaller on the way.
      for (const piece = randomBytes(1 << 20); written < 256; written += 1) {
        await writer.write(piece);
      }
    })();
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    assert.ok(written < 200, `${written} MiB were taken`);
    await connection.readable.cancel(new Error("enough"));
    await assert.rejects(writing, /enough/);
  });

  await t.test("until the program breaks the connection", async () => {
    const connection = await opened.connect();
    const writer = connection.writable.getWriter();
    await writer.write(new TextEncoder().encode("break"));
    await assert.rejects(text(connection), { code: "ABORTED", reason: "CONNECTION_LOST" });
    await assert.rejects(writer.write(new Uint8Array(1)), { reason: "CONNECTION_LOST" });
  });

  await t.test("until it is given up, or the port is closed", async () => {
    const controller = new AbortController();
    const connection = await opened.connect({ signal: controller.signal });
    const given = assert.rejects(text(connection), /enough/);
    controller.abort(new Error("enough"));
    await given;
    const other = await opened.connect();
    await other.writable.getWriter().write(new Uint8Array(1));
    const closed = assert.rejects(text(other), { reason: "PORT_CLOSED" });
    await opened.close();
    await closed;
    await assert.rejects(opened.connect(), { code: "FAILED_PRECONDITION", reason: "PORT_CLOSED" });
  });

  await t.test("a port is closed with its client, and nobody else connects to it", async () => {
    let kept: OpenedPort | undefined;
    {
      await using other = connect(server.url);
      kept = await other.openPort(callId, port);
      await kept.connect();
    }
    // It ended before the client was closed, so that there is nothing to wait for.
    assert.match(CallState[(await client.get(kept.callId)).state], /COMPLETED|FAILED/);
    await assert.rejects(async () => {
      for await (const _ of client.rpc.ports.connectPort(one({ callId: "no-such-port" }))) {
        assert.fail("connected");
      }
    }, /not_found/);
  });

  await t.test("and where nobody listens any more there is no connection", async () => {
    const again = await client.openPort(callId, port);
    // As soon as the program has read it.
    await client.sendInput(callId, "stop listening\n");
    await assert.rejects(
      async () => {
        for (;;) {
          const connection = await again.connect();
          await connection.readable.cancel();
        }
      },
      { reason: "NOT_LISTENING" },
    );
  });
  await client.cancel(callId);
});

async function* one<T>(message: T) {
  yield message;
}

test("over a Unix socket there is no URL", { skip: NO_SERVER }, async () => {
  await using server = await TestServer.start({ permission: { bash: "allow", port: "allow" } });
  await using client = connect(server.socket);
  const { callId, port } = await listening(client, ECHO);
  await using opened = await client.openPort(callId, port);
  assert.equal(opened.url, undefined);
  const connection = await opened.connect();
  await send(connection, "x");
  assert.equal(await text(connection), "x 1");
  await client.cancel(callId);
});
