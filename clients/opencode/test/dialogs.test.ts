/** Whose answers count, without an OpenCode. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { always, once, type Prompt, type PromptContext } from "toolgate/node";
import { type Asking, Dialogs } from "../src/dialogs.js";
import type { Ask, OpenCodeClient, ToolContext } from "../src/opencode.js";

/** A request as OpenCode got it, and how it lets it pass. */
interface Request {
  readonly id: string;
  readonly ask: Ask;
  pass(): void;
}

/** An OpenCode that shows every request, and does with them what a test says. */
class OpenCode {
  readonly requests: Request[] = [];
  readonly #calls = new Map<string, Asking>();
  readonly dialogs = new Dialogs({} as OpenCodeClient, "session", this.#calls);

  /** Has a prompt answered. */
  prompt(callId: string, patterns: string[]): ReturnType<Dialogs["answer"]> {
    const ask = (ask: Ask): Promise<void> =>
      new Promise((pass) => {
        const id = `request-${this.requests.length}`;
        this.requests.push({ id, ask, pass });
        this.dialogs.event({ type: "permission.asked", properties: { id, ...ask } });
      });
    const context = { sessionID: "s", ask } as unknown as ToolContext;
    this.#calls.set(callId, { context, refusal: undefined, elsewhere: () => {} });
    const prompt = {
      kind: "permission",
      id: callId,
      callId,
      title: "",
      permission: "bash",
      patterns,
      always: patterns,
      metadata: {},
    } as unknown as Prompt;
    const prompted = { signal: new AbortController().signal, problem: undefined } as unknown as PromptContext;
    return this.dialogs.answer(prompt, prompted);
  }

  /** Says what became of a request, ours or another. */
  reply(request: Request | undefined, reply: string): void {
    const requestID = request?.id ?? "another";
    this.dialogs.event({ type: "permission.replied", properties: { sessionID: "s", requestID, reply } });
    request?.pass();
  }
}

test('what a person answers "always" to says nothing of what else waits', async () => {
  const at = new OpenCode();
  const answers = [at.prompt("one", ["git *"]), at.prompt("two", ["git push # (by Toolgate, in this session)"])];
  const marks = at.requests.flatMap(({ ask }) => ask.always.map((text) => /; ([0-9a-f]{16})\)$/.exec(text)?.[1]));
  assert.equal(new Set(marks).size, 2, String(marks));
  assert.ok(!marks.includes(undefined), String(marks));
  // Ours cover nothing, so a person has said both.
  at.reply(at.requests[0], "always");
  at.reply(at.requests[1], "always");
  const expected = always({ reach: "session" });
  assert.deepEqual(await Promise.all(answers), [expected, expected]);
});

test('what OpenCode answers "always" to, because another request got it, is asked again', async () => {
  const at = new OpenCode();
  const answer = at.prompt("one", ["git push"]);
  at.reply(undefined, "always");
  at.reply(at.requests[0], "always");
  for (let turn = 0; at.requests.length < 2 && turn < 100; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(at.requests[1]?.ask.permission, "toolgate bash: git push");
  at.reply(at.requests[1], "once");
  assert.deepEqual(await answer, once());
});
