// Prompts: what a person sees of them, and every way to answer.

import { readFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { GrantReach, PromptDecision } from "../src/gen/toolgate/v1/prompt_pb";
import { ASK, expect, test, type Service } from "./service";

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
  const list = page.getByRole("listbox", { name: "Prompts that wait" });
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
  await expect(page.getByText("No prompt waits for an answer.")).toBeVisible();
});

test("a shell line is taken apart, each command with its verdict", async ({ page, start }) => {
  const service = await start({ config: { permission: { bash: { "*": "ask", "ls *": "allow" } } } });
  const call = service.bash("ls -la; git push origin main && echo done");
  await open(page, service);
  const rows = page.getByRole("table", { name: /Commands in this line/ }).getByRole("row");
  await expect(rows).toHaveText([/Verdict/, /allowed\s*ls -la/, /asks\s*git push origin main/, /asks\s*echo done/]);

  await page.getByRole("button", { name: "Allow always" }).click();
  for (const pattern of await page
    .getByRole("group", { name: /From now on/ })
    .getByRole("checkbox")
    .all()) {
    if ((await pattern.evaluate((one) => one.parentElement!.textContent)) !== "git push *") await pattern.uncheck();
  }
  await page.getByLabel("How far").selectOption({ label: "in this session, until it is ended" });
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
  await page.keyboard.press("m");
  await expect(page.locator("textarea:focus, input:focus")).toBeVisible();
  await page.keyboard.type("Use make clean");
  await page.getByRole("button", { name: "Reject with this message" }).click();
  const { ending } = await call;
  expect(ending.case === "failed" && ending.value.error).toContain("Use make clean");
});

test("another input runs instead", async ({ page, start }) => {
  const service = await start({ config: ASK });
  const call = service.bash("echo from the model");
  await open(page, service);
  await expect(page.getByRole("button", { name: "Change the input" })).toBeEnabled();
  await page.keyboard.press("e");
  const field = page.getByLabel("Run this input in the place of the model's");
  await expect(field).toBeFocused();
  await field.fill('{"command": ');
  await expect(page.getByText("This is no JSON")).toBeVisible();
  await expect(page.getByRole("button", { name: "Allow with this input" })).toBeDisabled();
  await field.fill('{"command": 5}');
  await page.getByRole("button", { name: "Allow with this input" }).click();
  await expect(page.getByRole("alert")).toBeVisible();
  await field.fill('{"command": "echo from a person", "description": "Says who it is from"}');
  await page.getByRole("button", { name: "Allow with this input" }).click();
  const { ending } = await call;
  expect(ending.case === "completed" && ending.value.output).toContain("from a person");
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
