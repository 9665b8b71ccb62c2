// Prompts: what a person sees of them, and every way to answer.

import { readFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { GrantReach, PromptDecision } from "../src/gen/toolgate/v1/prompt_pb";
import { ASK, expect, listed, test, type Service } from "./service";

const LIVE = '[data-live="true"]';

async function open(page: Page, service: Service, view = "prompts"): Promise<void> {
  await page.goto(`${service.url}console/#/${view}`);
  await page.locator(LIVE).waitFor();
}

/** The resolution of a call's only prompt. */
async function resolution(service: Service, callId: string) {
  const { prompts } = await service.permissions.listPrompts({ callId, states: [1, 2, 3, 4] });
  return prompts[0]!.resolution!;
}

test("prompts are answered by keyboard alone", async ({ page, start }) => {
  const service = await start({ config: ASK });
  await page.goto(service.url);
  await page.locator(LIVE).waitFor();
  const first = service.bash("echo first");
  await expect(page.getByRole("link", { name: "Prompts 1 waiting" })).toBeVisible();
  const second = service.bash("echo second", { session: "other" });
  await expect(page.getByRole("link", { name: "Prompts 2 waiting" })).toBeVisible();
  await expect(page).toHaveTitle(/^\(2\) /);

  await page.keyboard.press("p");
  const list = page.getByRole("listbox", { name: "Open prompts" });
  await expect(list).toBeFocused();
  await expect(page.getByRole("article")).toContainText("echo first");
  await expect(page.getByRole("button", { name: "Allow once" })).toBeEnabled();
  await page.keyboard.press("o");
  expect((await first).ending.case).toBe("completed");
  await expect(page.getByRole("status").getByText("Allowed once.")).toBeVisible();

  // The next one does not come by itself, so that no key hits what nobody has read.
  await expect(page.getByText("This prompt has been answered")).toBeVisible();
  await page.keyboard.press("n");
  await expect(page.getByRole("article")).toContainText("echo second");
  // By Tab from the list to the buttons.
  await page.keyboard.press("l");
  const reject = page.getByRole("button", { name: "Reject r", exact: true });
  await expect(reject).toBeEnabled();
  for (let step = 0; step < 20 && !(await reject.evaluate((one) => one === document.activeElement)); step += 1) {
    await page.keyboard.press("Tab");
  }
  await expect(reject).toBeFocused();
  await page.keyboard.press("Enter");
  expect((await second).ending.case).toBe("failed");
  await expect(page.getByText("No prompts are open.")).toBeVisible();
});

test("a shell line is taken apart, each command with its verdict", async ({ page, start }) => {
  const service = await start({ config: { permission: { bash: { "*": "ask", "ls *": "allow" } } } });
  const call = service.bash("ls -la; git push origin main && echo done");
  await open(page, service);
  const rows = page.getByRole("table", { name: /Commands in this line/ }).getByRole("row");
  await expect(rows).toHaveText([/Verdict/, /allowed\s*ls -la/, /asks\s*git push origin main/, /asks\s*echo done/]);

  await page.getByRole("button", { name: "Allow always" }).click();
  const patterns = page.getByRole("group", { name: /From now on/ }).getByRole("checkbox");
  // Nothing is allowed for later that nobody has chosen.
  await expect(patterns.first()).toBeFocused();
  await expect(patterns.and(page.locator(":checked"))).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Choose what to allow" })).toBeDisabled();
  await patterns.and(page.getByLabel("git push *", { exact: true })).check();
  await page.getByLabel("Scope").selectOption({ label: "in this session, until it is ended" });
  await page.getByLabel("Requests").fill("3");
  await page.getByRole("button", { name: "Allow 1 pattern always" }).click();
  const { callId } = await call;
  const { decision, scope, alwaysPatterns } = await resolution(service, callId);
  expect(decision).toBe(PromptDecision.ALWAYS);
  expect([scope?.reach, scope?.maxUses, alwaysPatterns]).toEqual([GrantReach.SESSION, 3, ["git push *"]]);

  // The grant is shown with its session, and taken back.
  await page.goto(`${service.url}console/#/sessions/demo`);
  const grant = page.getByRole("listitem").filter({ hasText: "git push *" });
  await expect(grant).toContainText("0 of 3 uses");
  await grant.getByRole("button", { name: "Take back" }).click();
  await expect(page.getByText("Nothing beyond what the rules allow.")).toBeVisible();
  expect((await service.permissions.listGrants({})).grants).toEqual([]);
});

test("what an edit changes is shown as a diff", async ({ page, start }) => {
  const service = await start({ config: ASK });
  service.write("main.rs", "fn main() {\n    let a = 1;\n}\n");
  await service.run("read", { filePath: service.path("main.rs") });
  const input = { filePath: service.path("main.rs"), oldString: "let a = 1;", newString: "let b = 2;" };
  const call = service.run("edit", input);
  await open(page, service);
  const diff = page.getByRole("region", { name: "Diff, 1 line added, 1 removed" });
  await expect(diff.locator(".added")).toHaveText(/added: {4}\s*let b = 2;|added:\s+let b = 2;/);
  await expect(diff.locator(".removed")).toContainText("let a = 1;");
  await page.screenshot({ path: test.info().outputPath("diff.png") });
  await page.getByRole("button", { name: "Allow once" }).click();
  await call;
  expect(readFileSync(service.path("main.rs"), "utf8")).toContain("let b = 2;");
});

test("a rejection says why", async ({ page, start }) => {
  const service = await start({ config: ASK });
  const call = service.bash("rm -rf build");
  await open(page, service);
  await expect(page.getByRole("button", { name: "Allow once" })).toBeEnabled();
  // What else is rejected is said where there is something.
  await expect(page.getByText("Rejecting also rejects")).toHaveCount(0);
  void service.bash("rm -rf dist").catch(() => undefined);
  await expect(page.getByText("Rejecting also rejects")).toBeVisible();
  await page.keyboard.press("m");
  await expect(page.locator("textarea:focus, input:focus")).toBeVisible();
  await page.keyboard.type("Use make clean");
  await page.getByRole("button", { name: "Reject with this message" }).click();
  const { ending } = await call;
  expect(ending.case === "failed" && ending.value.error).toContain("Use make clean");
});

test("what somebody writes is there again after a lost connection, a login, and another prompt", async ({
  page,
  start,
}) => {
  const service = await start({ config: ASK });
  const [callId, session] = ["kept", "one"];
  const call = service.bash("echo kept", { callId, session }).catch(() => undefined);
  await open(page, service);
  await expect(page.getByRole("button", { name: "Allow once" })).toBeEnabled();
  await page.keyboard.press("e");
  await page.getByLabel("command").fill("echo edited");
  await page.getByRole("button", { name: "Reject with a message" }).click();
  const message = page.getByLabel(/^Tell the model why/);
  await expect(message).toBeFocused();
  await page.keyboard.type("Use make");
  await service.kill();
  await call;
  await expect(page.getByText("Not connected.")).toBeVisible();
  await page.keyboard.type(" clean");
  // As if the token had run out meanwhile.
  const headers = { "content-type": "application/grpc-web+proto", "grpc-status": "16", "grpc-message": "expired" };
  await page.route(/WatchPrompts$/, (route) => route.fulfill({ status: 200, headers }));
  await service.start();
  await page.getByLabel("Token").fill("another");
  await page.unroute(/WatchPrompts$/);
  await page.keyboard.press("Enter");
  await page.locator(LIVE).waitFor();
  // The call waits again a moment after the start.
  await expect.poll(async () => (await service.permissions.listPrompts({ callId })).prompts.length).toBe(1);
  await expect(message).toBeFocused();
  await expect(message).toHaveValue("Use make clean");

  void service.bash("echo other", { session: "two" }).catch(() => undefined);
  const list = page.getByRole("listbox", { name: "Open prompts" });
  await list.getByRole("option", { name: /echo other/ }).click();
  await expect(message).toHaveCount(0);
  await page.keyboard.press("ArrowUp");
  await expect(message).toHaveValue("Use make clean");
  // Whoever moves through the list stays there.
  await expect(list).toBeFocused();
  await page.getByRole("button", { name: "Edit the input" }).click();
  await expect(page.getByLabel("command")).toHaveValue("echo edited");
  await page.getByRole("button", { name: "Reject with a message" }).click();
  await page.getByRole("button", { name: "Reject with this message" }).click();
  const ended = async () => (await service.tools.getCall({ callId })).call!.ending;
  await expect.poll(async () => (await ended()).case).toBe("failed");
  const { value } = await ended();
  expect(value !== undefined && "error" in value && value.error).toContain("Use make clean");
});

test("keys that are meant for a message answer nothing when its prompt is gone", async ({ page, start }) => {
  const service = await start({ config: ASK });
  const first = service.bash("echo first", { session: "one", callId: "first" });
  await open(page, service);
  await expect(page.getByRole("button", { name: "Allow once" })).toBeEnabled();
  void service.bash("echo second", { session: "two" }).catch(() => undefined);
  await expect(page.getByRole("listbox", { name: "Open prompts" }).getByRole("option")).toHaveCount(2);
  await page.keyboard.press("m");
  await expect(page.getByLabel(/^Tell the model why/)).toBeFocused();
  await page.keyboard.type("No");
  const [{ promptId, inputDigest } = {}] = (await service.permissions.listPrompts({ callId: "first" })).prompts;
  await service.permissions.replyPrompt({ reply: { promptId, inputDigest, decision: PromptDecision.ONCE } });
  await first;
  const gone = page.getByText("This prompt has been answered");
  await expect(gone).toBeVisible();
  await page.keyboard.type("n", { delay: 20 });
  await expect(gone).toBeVisible();
  await expect(page.getByRole("article")).toHaveCount(0);
  // Whoever has stopped writing means the page.
  await page.waitForTimeout(2_100);
  await page.keyboard.press("n");
  await expect(page.getByRole("article")).toContainText("echo second");
});

test("the buttons stand in one row where there is room, else the two most used ones above the others", async ({
  page,
  start,
}) => {
  const service = await start({ config: ASK });
  void service.bash("echo hello").catch(() => undefined);
  await open(page, service);
  const buttons = page.getByRole("region", { name: "Answer" }).getByRole("button");
  await expect(buttons).toHaveCount(5);
  const tops = async (): Promise<number[]> => {
    const boxes = await Promise.all((await buttons.all()).map((button) => button.boundingBox()));
    return boxes.map((box) => Math.round(box!.y - boxes[0]!.y));
  };
  await page.setViewportSize({ width: 1100, height: 640 });
  expect(await tops()).toEqual([0, 0, 0, 0, 0]);
  await page.setViewportSize({ width: 900, height: 640 });
  const [, second, third, ...others] = await tops();
  expect(second).toBe(0);
  expect(third).toBeGreaterThan(0);
  expect(others).toEqual([third, third]);
});

test("another input runs instead", async ({ page, start }) => {
  const service = await start({ config: ASK });
  const call = service.bash('echo "from the model"');
  await open(page, service);
  await expect(page.getByRole("button", { name: "Edit the input" })).toBeEnabled();
  await page.keyboard.press("e");
  // The command is the text that it is, without escapes.
  const field = page.getByLabel("command");
  await expect(field).toBeFocused();
  await expect(field).toHaveValue('echo "from the model"');
  await page.getByRole("button", { name: "Edit as JSON" }).click();
  const json = page.getByLabel("The whole input as JSON");
  await json.fill('{"command": ');
  await expect(page.getByText("This is no JSON")).toBeVisible();
  await expect(page.getByRole("button", { name: "Allow with this input" })).toBeDisabled();
  await json.fill('{"command": 5}');
  await page.getByRole("button", { name: "Allow with this input" }).click();
  await expect(page.getByRole("alert")).toBeVisible();
  await json.fill('{"command": "true", "description": "Says who it is from"}');
  await page.getByRole("button", { name: "Edit as fields" }).click();
  await field.fill("echo \"from a person\"\necho 'and in two lines'");
  await page.getByRole("button", { name: "Allow with this input" }).click();
  const { ending } = await call;
  expect(ending.case === "completed" && ending.value.output).toContain("from a person\nand in two lines\n");
});

test("questions are answered with options and own words", async ({ page, start }) => {
  const service = await start({ env: { OPENCODE_ENABLE_QUESTION_TOOL: "1" } });
  const options = (...labels: string[]) => labels.map((label) => ({ label, description: `Takes ${label}` }));
  const call = service.run("question", {
    questions: [
      { question: "Tabs or spaces?", header: "Indent", options: options("Tabs", "Spaces") },
      { question: "Which checks?", header: "Checks", options: options("fmt", "clippy", "test"), multiple: true },
    ],
  });
  await open(page, service);
  const [indent, checks] = [page.getByRole("group", { name: /Indent/ }), page.getByRole("group", { name: /Checks/ })];
  await indent.getByRole("radio", { name: "Tabs" }).check();
  await indent.getByLabel("Another answer").fill("Two spaces");
  await expect(indent.getByRole("radio", { name: "Tabs" })).not.toBeChecked();
  await checks.getByRole("checkbox", { name: "fmt" }).check();
  await checks.getByRole("checkbox", { name: "test" }).check();
  await page.getByRole("button", { name: "Answer" }).click();
  const { callId } = await call;
  const { answers } = await resolution(service, callId);
  expect(answers.map((one) => one.values)).toEqual([["Two spaces"], ["fmt", "test"]]);
});

test("what is hidden in a command is made visible", async ({ page, start }) => {
  const service = await start({ config: ASK });
  void service.bash("echo \u202ehidden\u2066").catch(() => {});
  await open(page, service);
  await expect(page.locator(".command")).toHaveText("echo \\u{202e}hidden\\u{2066}");
});

test.describe("somebody new", () => {
  test.use({ person: null });

  test("who decides is asked once, and recorded", async ({ page, start }) => {
    const service = await start({ config: ASK });
    const first = service.bash("echo first");
    await open(page, service);
    const allow = page.getByRole("button", { name: "Allow once" });
    await allow.click();
    const dialog = page.getByRole("dialog", { name: "Who decides?" });
    await expect(dialog.getByLabel("Your name")).toBeFocused();
    // Who does not say it has not answered.
    await page.keyboard.press("Escape");
    await expect(dialog).toHaveCount(0);
    await allow.click();
    await expect(dialog.getByLabel("Your name")).toBeFocused();
    await page.keyboard.type("Ada");
    await page.keyboard.press("Enter");
    expect((await resolution(service, (await first).callId)).resolvedBy).toBe("Ada");

    await page.reload();
    const second = service.bash("echo second", { session: "other" });
    await page.getByRole("link", { name: /Show the next prompt/ }).click();
    await allow.click();
    expect((await resolution(service, (await second).callId)).resolvedBy).toBe("Ada");

    await page.keyboard.press("?");
    await page.getByLabel(/^Your name/).fill("Grace");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Escape");
    const third = service.bash("echo third", { session: "another" });
    await page.getByRole("link", { name: /Show the next prompt/ }).click();
    await allow.click();
    expect((await resolution(service, (await third).callId)).resolvedBy).toBe("Grace");
    await page.goto(`${service.url}console/#/calls/${(await third).callId}`);
    await expect(page.getByRole("article")).toContainText(/bash allowed once by Grace/);
  });
});

test.describe("on a phone", () => {
  test.use({ viewport: { width: 390, height: 740 }, hasTouch: true, isMobile: true });

  test("a prompt is found, read and answered in one column", async ({ page, start }) => {
    const service = await start({ config: ASK });
    const long = [...Array(120).keys()].map((line) => `echo line ${line}`).join("\n");
    const call = service.bash(long);
    void service.bash("echo other", { session: "other" }).catch(() => undefined);
    await page.goto(service.url);
    await listed(page, "Waiting for you").filter({ hasText: "echo line 0" }).tap();
    const list = page.getByRole("listbox", { name: "Open prompts" });
    await expect(list).toHaveCount(0);
    await expect(page.locator(".command")).toBeInViewport();
    const buttons = ["Allow once", "Reject", "Allow always…", "Reject with a message…", "Edit the input…"];
    for (const name of buttons) {
      const button = page.getByRole("button", { name, exact: true });
      await expect(button).toBeInViewport({ ratio: 1 });
      expect((await button.boundingBox())!.height).toBeGreaterThanOrEqual(44);
    }
    await page.screenshot({ path: test.info().outputPath("phone-prompt.png") });
    // Also at the end of what is to be read.
    await page.getByText("Asked", { exact: true }).scrollIntoViewIfNeeded();
    await expect(page.getByRole("button", { name: "Allow once" })).toBeInViewport({ ratio: 1 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);

    await page.getByRole("link", { name: "All prompts" }).tap();
    await expect(list.getByRole("option")).toHaveCount(2);
    await list.getByRole("option", { name: /line 0/ }).tap();
    await page.goBack();
    await expect(list).toBeVisible();
    await list.getByRole("option", { name: /line 0/ }).tap();
    await page.getByRole("button", { name: "Allow once" }).tap();
    expect((await call).ending.case).toBe("completed");
    await expect(page.getByText("Allowed once.")).toBeVisible();
    // What is said in passing lies over nothing.
    const [said, main] = [await page.locator(".notice").boundingBox(), await page.locator("main").boundingBox()];
    expect(said!.y).toBeGreaterThanOrEqual(main!.y + main!.height - 1);
  });
});

test("who looks elsewhere is notified if wanted, and sees who else may answer", async ({ page, context, start }) => {
  await page.addInitScript(() => {
    const shown: [string, string][] = [];
    class Shown {
      static readonly permission = "granted";
      static requestPermission = async (): Promise<string> => "granted";
      onclick: (() => void) | undefined;
      constructor(title: string, { body }: { body: string }) {
        shown.push([title, body]);
        setTimeout(() => this.onclick?.(), 50);
      }
      close(): void {}
    }
    Object.assign(window, { Notification: Shown, shown });
    document.hasFocus = () => false;
  });
  const service = await start({ config: ASK });
  await open(page, service, "home");
  const shown = (): Promise<[string, string][]> =>
    page.evaluate(() => (window as unknown as { shown: [string, string][] }).shown);
  void service.bash("echo unwanted").catch(() => undefined);
  await expect(page.getByRole("link", { name: "Prompts 1 waiting" })).toBeVisible();
  expect(await shown()).toEqual([]);
  await page.keyboard.press("?");
  await page.getByRole("checkbox", { name: /Notify me/ }).check();
  await page.keyboard.press("Escape");
  void service.bash("echo wanted", { session: "other" }).catch(() => undefined);
  // A click leads to the prompt.
  await expect(page.getByRole("article")).toContainText("echo wanted");
  expect(await shown()).toEqual([["bash asks", "echo wanted"]]);

  await expect(page.getByText("nobody else who may answer")).toBeVisible();
  const other = await context.newPage();
  await open(other, service);
  await expect(page.getByText("1 other approver or open page")).toBeVisible();
  await other.close();
});
