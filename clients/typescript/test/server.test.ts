import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Client, connect, defineTool, instead, once, type Prompt, reject, saveOutput } from "../src/node.js";
import { CuttingProxy, connectBy, NO_SERVER, TestServer, TRANSPORTS } from "./support.js";

const BASH = { description: "Does it" };

/** The processes whose command line has a word. */
async function processes(word: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  return lines.filter((line) => line.includes(word));
}

/** Collects what nothing refers to, also what is let go of a little later. */
async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let round = 0; round < 5; round += 1) {
    await setTimeout(20);
    collect();
  }
}

/** Collects what a client is asked, and answers with `decide`. */
async function approving(client: Client, decide: (prompt: Prompt) => ReturnType<typeof once> | undefined) {
  const prompts: Prompt[] = [];
  const approvals = client.approvals(
    (prompt) => {
      prompts.push(prompt);
      return decide(prompt);
    },
    { name: "test" },
  );
  await approvals.ready;
  return { prompts, approvals };
}

for (const kind of TRANSPORTS) {
  test(`over ${kind}, against the real service`, { skip: NO_SERVER }, async (t) => {
    await using server = await TestServer.start();
    await using client = connectBy(kind, server.url);

    await t.test("tools are listed", async () => {
      const tools = await client.tools();
      const bash = tools.find(({ name }) => name === "bash");
      assert.equal(bash?.source, "BUILTIN");
      assert.ok(bash?.effects.includes("RUNS_PROGRAMS"));
      assert.equal(bash?.inputSchema["type"], "object");
      const openai = await client.tools().openai();
      assert.ok(openai.some((tool) => tool.function.name === "bash"));
    });

    await t.test("a call is approved, and runs", async () => {
      const { prompts, approvals } = await approving(client, () => once());
      const execution = client.execute("bash", { ...BASH, command: "printf 'a\\nb\\n' | tee made" });
      const types: string[] = [];
      let output = "";
      for await (const event of execution) {
        types.push(event.type);
        output += event.type === "output" ? new TextDecoder().decode(event.data) : "";
      }
      const result = await execution.result();
      assert.equal(result.ok && result.output, "a\nb\n");
      assert.equal(output, "a\nb\n");
      assert.deepEqual([types.at(0), types.at(-1)], ["pending", "completed"]);
      assert.ok(types.includes("waiting") && types.includes("resumed"));
      const [prompt] = prompts;
      assert.ok(prompt?.kind === "permission");
      assert.equal(prompt.permission, "bash");
      assert.match(prompt.inputDigest, /^[0-9a-f]{64}$/);
      assert.equal(await readFile(join(server.workspace, "made"), "utf8"), "a\nb\n");
      await approvals.close();
    });

    await t.test("a person rejects, a rule denies, and a model that writes nonsense is told", async () => {
      const { approvals } = await approving(client, () => reject("use another way"));
      const rejected = await client.run("bash", { ...BASH, command: "touch never" });
      assert.ok(!rejected.ok);
      assert.equal(rejected.reason, "REJECTED");
      assert.match(rejected.error, /use another way/);
      const denied = await client.run("bash", { ...BASH, command: "rm made" });
      assert.equal(denied.ok ? "" : denied.reason, "DENIED");
      const nonsense = await client.run("bash", '{"command": "ec');
      assert.ok(nonsense.text.length > 0);
      await approvals.close();
    });

    await t.test("an input that does not fit is asked about again", async () => {
      const problems: (string | undefined)[] = [];
      const approvals = client.approvals((_prompt, { problem }) => {
        problems.push(problem);
        return problem ? once() : instead({ command: 7 });
      });
      await approvals.ready;
      const result = await client.run("bash", { ...BASH, command: "expr 4 + 4" });
      assert.equal(result.ok && result.output, "8\n");
      assert.equal(problems.length, 2);
      assert.match(problems[1] ?? "", /command/);
      await approvals.close();
    });

    await t.test("an aborted call leaves no program running", async () => {
      const controller = new AbortController();
      const seconds = kind === "grpc" ? "71234" : "71235";
      const execution = client.execute("bash", { ...BASH, command: `sleep ${seconds}` }, { signal: controller.signal });
      for await (const event of execution) {
        if (event.type === "running") {
          controller.abort();
        }
      }
      const result = await execution.result();
      assert.equal(result.ok ? "" : result.reason, "CANCELLED");
      assert.deepEqual(await processes(seconds), []);
      assert.equal((await client.get(execution.callId)).callId, execution.callId);
    });

    await t.test("a function is lent, asked for, called, and taken back", async () => {
      const { prompts, approvals } = await approving(client, () => once());
      const add = defineTool({
        name: "add",
        description: "Adds.",
        input: {
          type: "object",
          properties: { a: { type: "number" }, b: { type: "number" } },
          required: ["a", "b"],
        },
        run: async ({ a, b }, { progress, output, ask }) => {
          await progress({ title: "Adding", metadata: { begun: true } });
          await output("working\n");
          await ask("adding", { patterns: [`${a}`], title: "May it add?" });
          return { output: String(Number(a) + Number(b)), metadata: { done: true } };
        },
      });
      const host = client.host([add], { name: "sums" });
      assert.deepEqual((await host.ready).refused, []);
      const tools = await client.tools();
      assert.equal(tools.find(({ name }) => name === "add")?.source, "HOSTED");
      const result = await client.run("add", { a: 1, b: 2 });
      assert.equal(result.text, "3");
      assert.equal(result.title, "Adding");
      assert.deepEqual([result.metadata["begun"], result.metadata["done"]], [true, true]);
      const wrong = await client.run("add", { a: "one" });
      assert.equal(wrong.ok, false);
      await host.close();
      assert.ok(!(await client.tools()).some(({ name }) => name === "add"));
      assert.ok(prompts.length <= 2);
      await approvals.close();
    });

    await t.test("what is closed ends, also when garbage was collected before", async () => {
      const { approvals } = await approving(client, () => undefined);
      const host = client.host([defineTool({ name: "idle", description: "Idles.", run: () => "" })]);
      await host.ready;
      await collectGarbage();
      await Promise.all([host.close(), approvals.close()]);
      assert.ok(!(await client.tools()).some(({ name }) => name === "idle"));
    });

    await t.test("an output is read, searched and saved", async () => {
      const result = await client.run("bash", { ...BASH, command: "seq 1 20000" });
      const { outputId, totalBytes, truncated } = result.truncation ?? {
        outputId: "",
        totalBytes: 0,
        truncated: false,
      };
      assert.ok(truncated);
      const whole = Array.from({ length: 20_000 }, (_, index) => `${index + 1}\n`).join("");
      const output = client.output(outputId);
      assert.equal(await output.text(), whole);
      assert.equal(await output.text({ offset: 2, limit: 4 }), "2\n3\n");
      assert.equal(await new Response(output.stream({ offset: totalBytes - 6 })).text(), "20000\n");
      assert.equal(await output.tail(2), "19999\n20000\n");
      const lines: string[] = [];
      for await (const line of output.lines({ first: 10, limit: 2 })) {
        lines.push(line);
      }
      assert.deepEqual(lines, ["10", "11"]);
      const found = await output.search("^777$", { before: 1 });
      assert.deepEqual(
        found.lines.map(({ text }) => text),
        ["776", "777"],
      );
      const path = join(server.folder, "saved");
      const progress: number[] = [];
      const saved = await saveOutput(output, path, { onProgress: ({ bytes }) => progress.push(bytes) });
      assert.deepEqual(saved, {
        bytes: totalBytes,
        sha256: createHash("sha256").update(whole).digest("hex"),
        verified: true,
      });
      assert.equal(progress.at(-1), totalBytes);
      assert.equal(await readFile(path, "utf8"), whole);
      assert.deepEqual(
        (await readdir(server.folder)).filter((name) => name.endsWith(".part")),
        [],
      );
      const listed: string[] = [];
      for await (const { outputId: id } of client.outputs({ callId: result.callId })) {
        listed.push(id);
      }
      assert.deepEqual(listed, [outputId]);
    });

    await t.test("events are watched, calls listed, a session looked at and ended", async () => {
      const opened = new AbortController();
      const open = new Promise<void>((resolve) => {
        void (async () => {
          for await (const event of client.events({ session: `s-${kind}`, onOpen: resolve, signal: opened.signal })) {
            if (event.type === "callStateChanged" && event.value.tool === "bash") {
              opened.abort();
            }
          }
        })().catch(() => {});
      });
      await open;
      const own = client.with({ session: `s-${kind}` });
      const { callId } = await own.run("bash", { ...BASH, command: "echo hi" });
      await new Promise<void>((resolve) => {
        if (opened.signal.aborted) {
          resolve();
        }
        opened.signal.addEventListener("abort", () => resolve());
      });
      const calls: string[] = [];
      for await (const call of client.calls({ session: `s-${kind}`, states: ["COMPLETED"] })) {
        calls.push(call.callId);
      }
      assert.deepEqual(calls, [callId]);
      assert.equal((await client.session(`s-${kind}`)).recentCalls.length, 1);
      assert.equal(await client.endSession(`s-${kind}`), 0);
    });

    await t.test("a change is taken back", async () => {
      const path = join(server.workspace, "note");
      const written = await client.run("write", { filePath: path, content: "one\n" });
      assert.ok(written.ok, written.text);
      const reverted = await client.revert(written.callId).result();
      assert.ok(reverted.ok, reverted.text);
      await assert.rejects(readFile(path), { code: "ENOENT" });
    });

    await t.test("input reaches a command in the background", async () => {
      const { approvals } = await approving(client, () => once());
      const started = client.execute("bash", { ...BASH, command: "exec cat", background: true });
      let child = "";
      for await (const event of started) {
        child = event.type === "child" ? event.childCallId : child;
      }
      assert.deepEqual(await client.sendInput(child, "hello "), { nextOffset: 6, closed: false });
      assert.deepEqual(await client.sendInput(child, "there", { close: true }), { nextOffset: 11, closed: true });
      const result = await client.watch(child).result();
      assert.match(result.text, /hello there/);
      await approvals.close();
    });
  });

  test(`over ${kind}, connections that are cut lose and repeat nothing`, { skip: NO_SERVER }, async () => {
    await using server = await TestServer.start();
    await using proxy = await CuttingProxy.to(server.url);
    await using client = connectBy(kind, proxy.url);
    // The terminal event alone has 50 KB, so that a smaller budget would never let it through.
    proxy.budget = () => 70_000 + Math.random() * 100_000;
    const whole = Array.from({ length: 20_000 }, (_, index) => `${index + 1}\n`).join("");
    for (let round = 0; round < 3; round += 1) {
      const execution = client.execute("bash", { ...BASH, command: "seq 1 20000" });
      let output = "";
      let next = 1;
      for await (const event of execution) {
        assert.equal(event.type === "gap" ? event.firstSequence : event.sequence, next);
        next = event.sequence + 1;
        output += event.type === "output" ? new TextDecoder().decode(event.data) : "";
      }
      assert.equal(output, whole);
      const result = await execution.result();
      const path = join(server.folder, "saved");
      const saved = await saveOutput(client.output(result.truncation?.outputId ?? ""), path);
      assert.ok(saved.verified);
      assert.equal(await readFile(path, "utf8"), whole);
    }
    assert.ok(proxy.connections > 3, `${proxy.connections} connections`);
    proxy.budget = () => Number.POSITIVE_INFINITY;
  });

  test(`over ${kind}, a host and an approver come back after a cut`, { skip: NO_SERVER }, async () => {
    await using server = await TestServer.start();
    await using proxy = await CuttingProxy.to(server.url);
    await using client = connectBy(kind, proxy.url);
    await using caller = connect(server.socket);
    const readies: string[] = [];
    let again: (() => void) | undefined;
    const both = new Promise<void>((resolve) => {
      again = () => (readies.filter((one) => one !== "first").length >= 2 ? resolve() : undefined);
    });
    let runs = 0;
    let go: (() => void) | undefined;
    const going = new Promise<void>((resolve) => {
      go = resolve;
    });
    const slow = defineTool({
      name: "slow",
      description: "Waits.",
      run: async () => {
        runs += 1;
        proxy.cut();
        await going;
        return `ran ${runs} time`;
      },
    });
    let first = true;
    const host = client.host([slow], {
      name: "slow",
      onReady: ({ resumed }) => {
        readies.push(first ? "first" : `host ${resumed}`);
        first = false;
        again?.();
      },
    });
    await host.ready;
    let firstApprovals = true;
    const approvals = client.approvals(() => once(), {
      everybody: true,
      onReady: () => {
        readies.push(firstApprovals ? "first" : "approvals");
        firstApprovals = false;
        again?.();
      },
    });
    await approvals.ready;
    const call = caller.run("slow");
    await both;
    assert.ok(readies.includes("host true"), readies.join());
    const asked = await caller.run("bash", { ...BASH, command: "touch asked" });
    assert.ok(asked.ok, asked.text);
    go?.();
    assert.equal((await call).text, "ran 1 time");
  });

  test(`over ${kind}, a call that a crash interrupted is LOST`, { skip: NO_SERVER }, async () => {
    await using server = await TestServer.start();
    await using client = connectBy(kind, server.url);
    const execution = client.execute("bash", { ...BASH, command: "sleep 71236" });
    let restarted: Promise<void> | undefined;
    for await (const event of execution) {
      if (event.type === "running") {
        restarted = server.kill().then(() => server.run());
      }
    }
    await restarted;
    const result = await execution.result();
    assert.equal(result.ok ? "" : result.reason, "LOST");
  });
}
