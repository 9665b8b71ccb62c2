// Calls: the list, output that is followed and searched, the timeline, todos.

import type { Page } from "@playwright/test";
import { ASK, expect, test, type Service } from "./service";

const LIVE = '[data-live="true"]';

async function open(page: Page, service: Service, place = "calls"): Promise<void> {
  await page.goto(`${service.url}console/#/${place}`);
  await page.locator(LIVE).waitFor();
}

test("output is followed while it comes, and searched", async ({ page, start }) => {
  const service = await start();
  await open(page, service);
  service.write("go", "");
  const wait = (name: string): string => `while [ ! -e ${name} ]; do sleep 0.05; done`;
  const call = service.bash(
    `seq 1 5000; echo needle 1; ${wait("second")}; seq 5001 9000; echo needle 2; ${wait("third")}`,
    {
      callId: "long",
    },
  );
  await page.getByRole("option", { name: /running/ }).click();
  const output = page.getByRole("region", { name: "Output", exact: true });
  await expect(output).toContainText("needle 1");
  const atEnd = (): Promise<boolean> =>
    output.evaluate((one) => one.scrollTop + one.clientHeight >= one.scrollHeight - 40 && one.scrollTop > 0);
  expect(await atEnd()).toBe(true);
  service.write("second", "");
  await expect(output).toContainText("needle 2");
  expect(await atEnd()).toBe(true);

  // While the call runs.
  await page.keyboard.press("/");
  await page.keyboard.type("NEEDLE \\d");
  await page.keyboard.press("Enter");
  const found = page.getByRole("listbox", { name: "Lines found" });
  await expect(found.getByRole("option")).toHaveText([/5001 needle 1/, /9002 needle 2/]);
  await found.getByRole("option").first().click();
  await expect(output.locator(".marked")).toContainText("needle 1");
  await expect(output.locator(".marked")).toContainText("5001");
  await expect(page.getByRole("checkbox", { name: /Follow/ })).not.toBeChecked();
  // Only what can be seen is in the page.
  expect(await output.locator(".out").count()).toBeLessThan(120);

  await page.getByLabel("Search the output").fill("(");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("regex parse error");
  service.write("third", "");
  await call;
  await expect(page.getByRole("article").getByText("completed").first()).toBeVisible();

  await page.getByRole("tab", { name: "Events" }).click();
  await expect(page.getByRole("region", { name: "Events" })).toContainText("completed");
});

test("calls are found, and one is cancelled", async ({ page, start }) => {
  const service = await start();
  await service.bash("echo one", { session: "a" });
  await service.bash("echo two", { session: "b" });
  const running = service.bash("sleep 600", { session: "b" });
  await open(page, service);
  const list = page.getByRole("listbox", { name: /Calls/ });
  await expect(list.getByRole("option")).toHaveCount(3);
  await page.getByRole("combobox", { name: "Session" }).selectOption("a");
  await expect(list.getByRole("option")).toHaveText([/echo one/]);
  await page.getByRole("combobox", { name: "Session" }).selectOption("");
  await page.getByLabel(/Find calls/).fill("two");
  await expect(list.getByRole("option")).toHaveText([/echo two/]);
  await page.getByLabel(/Find calls/).fill("");
  await page.getByRole("combobox", { name: "State" }).selectOption("open");
  await list.getByRole("option").click();
  await page.getByRole("button", { name: "Cancel" }).click();
  await expect(page.getByRole("button", { name: "Really cancel" })).toBeFocused();
  await page.keyboard.press("Enter");
  expect((await running).ending.case).toBe("failed");
  await expect(page.getByRole("article")).toContainText("cancelled");
  await expect(list).toHaveCount(0);
});

test("the timeline shows how calls spent their time", async ({ page, start }) => {
  const service = await start({ config: ASK });
  const call = service.bash("sleep 1.2");
  await open(page, service, "timeline");
  const option = page.getByRole("option", { name: /bash/ });
  await expect(option.locator("rect.waiting")).toHaveCount(1);
  await page.waitForTimeout(1_000);
  const { prompts } = await service.permissions.listPrompts({ filter: { all: true } });
  const { promptId, inputDigest } = prompts[0]!;
  await service.permissions.replyPrompt({ reply: { promptId, inputDigest, decision: 1 } });
  await call;
  await expect(option).toHaveAccessibleName(/completed.*queued 0\.\d\d s, waited for people [12]\.\d s, ran 1\.\d s/);
  const rects = option.locator("rect");
  const kinds = await rects.evaluateAll((all) => all.map((one) => one.getAttribute("class")));
  expect(kinds.map((kind) => kind?.replace("span ", ""))).toEqual(expect.arrayContaining(["waiting", "running"]));
  const box = async (kind: string) => (await option.locator(`rect.${kind}`).last().boundingBox())!;
  const [waiting, running] = [await box("waiting"), await box("running")];
  expect(running.x).toBeGreaterThanOrEqual(waiting.x);

  // The same after a reload, when only records and logs tell of it.
  await page.reload();
  await expect(option).toHaveAccessibleName(/waited for people [12]\.\d s, ran 1\.\d s/);
  await page.screenshot({ path: test.info().outputPath("timeline.png") });

  // By keyboard to the call.
  await page.keyboard.press("l");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/#\/calls\//);
  await expect(page.getByRole("heading", { level: 2 })).toHaveText("sleep 1.2");
});

test("todos change while they are looked at", async ({ page, start }) => {
  const service = await start();
  const todo = (content: string, status: string) => ({ id: content, content, status, priority: "medium" });
  await service.run("todowrite", { todos: [todo("Read", "completed"), todo("Write", "in_progress")] });
  await open(page, service, "sessions/demo");
  const list = page.getByRole("region", { name: /Todos/ }).getByRole("listitem");
  await expect(list).toHaveText([/done: Read/, /in progress: Write/]);
  await service.run("todowrite", {
    todos: [todo("Read", "completed"), todo("Write", "completed"), todo("Rest", "pending")],
  });
  await expect(list).toHaveText([/done: Read/, /done: Write/, /to do: Rest/]);
  await expect(page.getByRole("heading", { name: /Todos/ })).toContainText("2 of 3 done");
});

test("thousands of calls and an output of 200 MB do not stop the page", async ({ page, start }) => {
  test.setTimeout(900_000);
  const calls = Number(process.env.CONSOLE_CALLS ?? 10_000);
  // The same call again and again is what is wanted here.
  const service = await start({ config: { permission: { doom_loop: "allow" } } });
  await service.bash("head -c 200000000 /dev/zero | tr '\\0' x | fold -w 99; echo the very end", { callId: "large" });
  let left = calls - 1;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await service.run("todoread", {}, { session: `s${left % 50}` });
  };
  await Promise.all(Array.from({ length: 16 }, worker));

  await open(page, service);
  await expect(page.getByText(`${calls.toLocaleString("en-GB")} calls`)).toBeVisible({ timeout: 60_000 });
  expect(await page.getByRole("listbox").getByRole("option").count()).toBeLessThan(80);
  await page.getByRole("listbox", { name: /Calls/ }).focus();
  await page.keyboard.press("End");
  await expect(page.getByRole("heading", { level: 2 })).toContainText("head -c 200000000");
  const output = page.getByRole("region", { name: "Output", exact: true });
  // The service counts lines and makes a digest first, for which a build without optimisation takes its time.
  await expect(output).toContainText("xxxx", { timeout: 120_000 });
  await page.getByRole("checkbox", { name: /Stay at the end/ }).check();
  await expect(output).toContainText("the very end", { timeout: 120_000 });
  await page.getByLabel("Search the output").fill("very end$");
  await page.keyboard.press("Enter");
  await page.getByRole("option", { name: /the very end/ }).click();
  await expect(output.locator(".marked")).toContainText("the very end");

  // Nothing takes the page longer than a person would notice, even while the list changes.
  const slowest = await page.evaluate(async () => {
    let slowest = 0;
    const until = performance.now() + 3_000;
    for (let last = performance.now(); last < until;) {
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      slowest = Math.max(slowest, now - last);
      last = now;
    }
    return slowest;
  });
  expect(slowest).toBeLessThan(1_000);
  await page.getByLabel(/Find calls/).fill("todoread");
  await expect(page.getByText(`${(calls - 1).toLocaleString("en-GB")} of`)).toBeVisible();
});
