/** The plugin in the real OpenCode. OPENCODE_PROGRAMS names the programs, one for each version. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type Call, type Client, connect, once, resultOf } from "toolgate/node";
import { Playground } from "./support.js";

const PROGRAMS = (process.env["OPENCODE_PROGRAMS"] ?? "").split(":").filter(Boolean);
/** Its smallest picture. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

test("there is an OpenCode to test with", () => assert.notEqual(PROGRAMS.length, 0, "OPENCODE_PROGRAMS names none"));

for (const program of PROGRAMS) {
  describe(program, () => {
    let at: Playground;
    let toolgate: Client;

    before(async () => {
      at = await Playground.make(program);
      await at.startToolgate();
      // OpenCode's own rules allow what Toolgate asks about.
      await at.startOpenCode({ edit: "allow" });
      toolgate = connect(at.socket);
    });

    after(async () => {
      await toolgate?.close();
      await at?.[Symbol.asyncDispose]();
    });

    /** The calls of a session, the first one first. */
    async function recorded(session: string): Promise<Call[]> {
      const calls: Call[] = [];
      for await (const { callId } of toolgate.calls({ session })) {
        calls.unshift(await toolgate.get(callId));
      }
      return calls;
    }

    test("the model is told what Toolgate says of the tools", async () => {
      at.model.plays("Name the tools.", "Well.");
      await at.say(await at.session(), "Name the tools.");
      const own = new Map((await toolgate.tools()).map((tool) => [tool.name, tool]));
      for (const name of ["bash", "read", "edit", "write", "grep", "glob", "webfetch"]) {
        const told = at.model.tools.get(name);
        assert.equal(told?.description, own.get(name)?.description, name);
        const schema = own.get(name)?.inputSchema as {
          properties: object;
          required?: string[];
        };
        assert.deepEqual(told?.parameters.properties, schema.properties, name);
        assert.deepEqual(told?.parameters.required?.toSorted(), schema.required?.toSorted(), name);
      }
      assert.equal(at.model.tools.has("apply_patch"), false, "that is for other models");
    });

    test("what the rules allow runs in Toolgate, and is shown as OpenCode's own", async () => {
      at.model.plays(
        "Say hello.",
        {
          tool: "bash",
          input: { command: "echo hello; exit 3", description: "Greets" },
        },
        "Done.",
      );
      const session = await at.session();
      await at.say(session, "Say hello.");
      const [part] = await at.parts(session);
      assert.equal(part.state.status, "completed", JSON.stringify(part));
      assert.match(part.state.output, /^hello/);
      assert.equal(part.state.title, "Greets");
      assert.equal(part.state.metadata.exit, 3);
      const [call] = await recorded(session);
      assert.equal(part.state.metadata.toolgate.callId, call?.callId);
      assert.equal(call?.tool, "bash");
      assert.equal(call?.context?.agent, "build");
      assert.equal(call?.context?.model?.providerId, "scripted");
    });

    test("a prompt is OpenCode's dialog, and once is once", async () => {
      const input = {
        command: "touch once && uname",
        description: "Names the system",
      };
      at.model.plays("Which system?", { tool: "bash", input }, { tool: "bash", input }, "Done.");
      const session = await at.session();
      const said = at.say(session, "Which system?");
      const first = await at.asked(session);
      assert.equal(first.permission, "bash");
      assert.deepEqual(first.patterns, ["touch once", "uname"]);
      assert.ok(
        first.always.length > 0 &&
          first.always.every((text) => /\(by Toolgate, in this session; [0-9a-f]{16}\)$/.test(text)),
      );
      await at.reply(first, "once");
      const second = await at.until("the next dialog", async () =>
        (await at.dialogs(session)).find(({ id }) => id !== first.id),
      );
      await at.reply(second, "once");
      await said;
      const [one] = await at.parts(session);
      assert.match(one.state.output, /Linux|Darwin/);
      assert.equal((await recorded(session)).length, 2);
    });

    test("always is a grant of Toolgate for the session", async () => {
      const input = { command: "uname -s", description: "Names the system" };
      at.model.plays("And again?", { tool: "bash", input }, { tool: "bash", input }, "Done.");
      const session = await at.session();
      const said = at.say(session, "And again?");
      await at.reply(await at.asked(session), "always");
      await said;
      assert.deepEqual(
        (await at.parts(session)).map(({ state }) => state.status),
        ["completed", "completed"],
      );
      const { grants } = await toolgate.rpc.permissions.listGrants({
        workspace: "project",
      });
      assert.deepEqual(
        grants.map(({ sessionId }) => sessionId),
        [session],
      );
      // Neither Toolgate nor OpenCode has it for another one.
      at.model.plays("And elsewhere?", { tool: "bash", input }, "Done.");
      const other = await at.session();
      const elsewhere = at.say(other, "And elsewhere?");
      await at.reply(await at.asked(other), "once");
      await elsewhere;
    });

    test("a rejection is Toolgate's record, and its feedback is the model's", async () => {
      at.model.plays(
        "Remove it.",
        {
          tool: "bash",
          input: { command: "touch gone", description: "Touches" },
        },
        "I see.",
      );
      const session = await at.session();
      const said = at.say(session, "Remove it.");
      await at.reply(await at.asked(session), "reject", "Use another name.");
      await said;
      const [part] = await at.parts(session);
      assert.equal(part.state.status, "error");
      assert.match(part.state.error, /with the following feedback: Use another name\./);
      const [call] = await recorded(session);
      const result = call && resultOf(call);
      assert.equal(result?.ok === false && result.reason, "REJECTED");
      assert.match(result?.text ?? "", /Use another name\./);
      assert.equal(
        at.model.results.some((text) => text.includes("Use another name.")),
        true,
      );

      at.model.plays(
        "Remove it again.",
        {
          tool: "bash",
          input: { command: "touch gone", description: "Touches" },
        },
        "Never said.",
      );
      const again = at.say(session, "Remove it again.");
      await at.reply(await at.asked(session), "reject");
      const answer = await again;
      assert.doesNotMatch(JSON.stringify(answer.parts), /Never said/, "without a word, the turn ends");
      await assert.rejects(readFile(join(at.project, "gone")));
    });

    test("what OpenCode's own rules would let pass is asked about all the same", async () => {
      at.model.plays("Write it.", { tool: "write", input: { filePath: "new.txt", content: "new\n" } }, "Done.");
      const session = await at.session();
      const said = at.say(session, "Write it.");
      const asked = await at.asked(session);
      assert.equal(asked.permission, "toolgate edit: new.txt");
      assert.match(String(asked.metadata["diff"]), /\+new/);
      await assert.rejects(readFile(join(at.project, "new.txt")));
      await at.reply(asked, "once");
      await said;
      assert.equal(await readFile(join(at.project, "new.txt"), "utf8"), "new\n");
      const [part] = await at.parts(session);
      assert.equal(part.state.status, "completed");
    });

    test("what somebody else answers takes the dialog away", async () => {
      at.model.plays("Wait for anna.", { tool: "bash", input: { command: "uname -m", description: "Asks" } }, "Done.");
      const session = await at.session();
      const said = at.say(session, "Wait for anna.");
      const { metadata } = await at.asked(session);
      const { promptId } = metadata["toolgate"] as { promptId: string };
      const anna = toolgate.approvals((prompt) => (prompt.id === promptId ? once() : undefined), { everybody: true });
      await said;
      await anna.close();
      assert.deepEqual(await at.dialogs(session), []);
      const [part] = await at.parts(session);
      assert.equal(part.state.status, "completed");
    });

    test("a running command shows what it prints", async () => {
      const command = "echo first; sleep 1.5; echo last";
      at.model.plays("Print slowly.", { tool: "bash", input: { command, description: "Prints" } }, "Done.");
      const session = await at.session();
      await at.say(session, "Print slowly.");
      const shown = at.events.filter(({ type, properties }) => {
        const part = type === "message.part.updated" && properties.part;
        return (
          part?.sessionID === session && part.state?.status === "running" && part.state.metadata?.output === "first\n"
        );
      });
      assert.ok(shown.length > 0, "the output so far was told");
    });

    test("stopping the agent cancels the call, and a dialog that waits goes", async () => {
      at.model.plays(
        "Sleep.",
        {
          tool: "bash",
          input: { command: "echo asleep; sleep 100", description: "Sleeps" },
        },
        "Done.",
      );
      const session = await at.session();
      const said = at.say(session, "Sleep.").catch(() => {});
      const [running] = await at.until("it runs", async () => {
        const calls = await recorded(session);
        return calls[0]?.summary || calls.length > 0 ? calls : undefined;
      });
      await at.until("its output", async () => (await at.parts(session))[0]?.state.metadata?.output);
      await at.api("POST", `/session/${session}/abort`);
      await said;
      await at.until("it is cancelled", async () => {
        const call = await toolgate.get(running?.callId ?? "");
        const result = resultOf(call);
        return result?.ok === false && result.reason === "CANCELLED";
      });

      at.model.plays("Ask.", { tool: "bash", input: { command: "uname -r", description: "Asks" } }, "Done.");
      const asking = at.say(session, "Ask.").catch(() => {});
      await at.asked(session);
      await at.api("POST", `/session/${session}/abort`);
      await asking;
      await at.until("the dialog is gone", async () => (await at.dialogs(session)).length === 0);
      await at.until("nothing waits", async () => (await toolgate.session(session)).openPrompts.length === 0);
    });

    test("files of a result are shown", async () => {
      await writeFile(join(at.project, "dot.png"), Buffer.from(PNG, "base64"));
      at.model.plays("Look.", { tool: "read", input: { filePath: join(at.project, "dot.png") } }, "Done.");
      const session = await at.session();
      await at.say(session, "Look.");
      const [part] = await at.parts(session);
      assert.equal(part.state.status, "completed", JSON.stringify(part));
      assert.deepEqual(
        part.state.attachments.map(({ mime, url }: { mime: string; url: string }) => [mime, url]),
        [["image/png", `data:image/png;base64,${PNG}`]],
      );
    });

    test("what is long is cut once, by Toolgate", async () => {
      at.model.plays(
        "Count.",
        {
          tool: "bash",
          input: {
            command: "echo $(seq 1 20000) | tr ' ' '\\n'",
            description: "Counts",
          },
        },
        "Done.",
      );
      const session = await at.session();
      const said = at.say(session, "Count.");
      const waiting = at.asked(session).then((asked) => at.reply(asked, "once"));
      await Promise.race([said, waiting]);
      await said;
      const [part] = await at.parts(session);
      const [call] = await recorded(session);
      assert.equal(part.state.output, call && resultOf(call)?.text);
      assert.equal(part.state.metadata.truncated, true);
    });

    // The last one: the service is another one behind it.
    test("a Toolgate that is not there says so, and OpenCode's own tools stay replaced", async () => {
      await at.stopToolgate();
      at.model.plays(
        "Try.",
        {
          tool: "bash",
          input: { command: "touch tried", description: "Tries" },
        },
        "Done.",
      );
      const session = await at.session();
      await at.say(session, "Try.");
      const [part] = await at.parts(session);
      assert.equal(part.state.status, "error");
      assert.match(part.state.error, /Toolgate at unix:.* does not answer: .*Start it with `toolgate serve` in /s);
      await assert.rejects(readFile(join(at.project, "tried")));

      await at.startToolgate();
      at.model.plays(
        "Try again.",
        {
          tool: "bash",
          input: { command: "echo there", description: "Tries" },
        },
        "Done.",
      );
      await at.say(session, "Try again.");
      const parts = await at.parts(session);
      assert.match(parts.at(-1).state.output, /^there/);
    });
  });
}
