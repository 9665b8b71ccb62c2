// Calls: the list, output that is followed and searched, the timeline, todos.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Page } from "@playwright/test";
import { CallState } from "../src/gen/toolgate/v1/call_pb";
import { ListCallsRequestSchema, ListCallsResponseSchema } from "../src/gen/toolgate/v1/tool_service_pb";
import { ASK, expect, listed, test, type Service } from "./service";

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
  // Tool, agent and time are told to the service, which is searched as a whole.
  await page.getByRole("button", { name: "Tool, agent, time" }).click();
  for (const [name, value, expected] of [
    ["Tool", "read", 0],
    ["Tool", "bash", 3],
    ["Agent", "plan", 0],
    ["Agent", "build", 3],
    ["From", "2090-01-01T00:00", 0],
    ["From", "2020-01-01T00:00", 3],
    ["Until", "2020-01-01T00:00", 0],
  ] as const) {
    await page.getByLabel(name, { exact: true }).fill(value);
    await page.keyboard.press("Tab");
    await expect(page.getByText(`${expected} calls: the service has been searched`)).toBeVisible();
    await expect(list.getByRole("option")).toHaveCount(expected);
  }
  await page.getByRole("button", { name: "Show all" }).click();
  await expect(list.getByRole("option")).toHaveCount(3);
  await page.getByRole("combobox", { name: "State" }).selectOption("open");
  await list.getByRole("option").click();
  await page.getByRole("button", { name: "Cancel" }).click();
  await expect(page.getByRole("button", { name: "Really cancel" })).toBeFocused();
  await page.keyboard.press("Enter");
  expect((await running).ending.case).toBe("failed");
  await expect(page.getByRole("article")).toContainText("cancelled");
  await expect(list).toHaveCount(0);
});

test("somebody new is told what to do, and it works", async ({ page, start }) => {
  const service = await start();
  await page.goto(service.url);
  const first = page.getByRole("region", { name: "Make a first call" });
  await page.screenshot({ path: test.info().outputPath("first.png") });
  const command = await first.getByText("toolgate call").textContent();
  const PATH = `${dirname(process.env.TOOLGATE_BIN!)}:${process.env.PATH}`;
  const said = execFileSync("bash", ["-c", command!], { env: { ...process.env, PATH }, encoding: "utf8" });
  expect(said).toContain("hello");
  await expect(listed(page, "Latest calls")).toHaveText([/bash.*completed.*echo hello/, "All calls"]);
  await expect(first).toHaveCount(0);
});

test("the first page shows what waits, what runs and what failed", async ({ page, start }) => {
  const service = await start({ config: { permission: { bash: { "*": "allow", "git *": "ask" } } } });
  await service.bash("exit 7");
  await service.run("read", { filePath: service.path("nothing") });
  await service.background("server", "sleep 600");
  const call = service.bash("git push");
  await page.goto(service.url);
  const part = (name: RegExp) => page.getByRole("region", { name }).getByRole("listitem");
  await expect(part(/^Waiting for you/)).toHaveText([/bash.*git push/]);
  await expect(part(/^Running/)).toHaveText([/background.*running.*sleep 600/]);
  await expect(part(/^Failed/)).toHaveText([/read.*tool error/, /bash.*exit 7/]);
  await page.screenshot({ path: test.info().outputPath("home.png") });
  const { prompts } = await service.permissions.listPrompts({ filter: { all: true } });
  const { promptId, inputDigest } = prompts[0]!;
  await service.permissions.replyPrompt({ reply: { promptId, inputDigest, decision: 3 } });
  expect((await call).ending.case).toBe("failed");
  await expect(page.getByText("Nothing is waiting for you.")).toBeVisible();
  await expect(part(/^Failed/)).toHaveCount(3);
  await page.getByRole("link", { name: "All failed calls" }).click();
  await expect(page.getByRole("listbox", { name: /Calls/ }).getByRole("option")).toHaveText([/rejected/, /tool error/]);
});

test("failed calls are looked for beyond an empty page", async ({ page, start }) => {
  const service = await start();
  const frame = (kind: number, content: Uint8Array): Buffer => {
    const head = Buffer.alloc(5);
    head.writeUInt8(kind);
    head.writeUInt32BE(content.length, 1);
    return Buffer.concat([head, content]);
  };
  const old = { callId: "old", tool: "bash", state: CallState.FAILED, title: "of long ago" };
  await page.route(/\/ListCalls$/, async (route) => {
    const asked = fromBinary(ListCallsRequestSchema, route.request().postDataBuffer()!.subarray(5));
    if (!asked.states.includes(CallState.FAILED)) return route.continue();
    const answer = asked.pageToken === "" ? { nextPageToken: "next" } : { calls: [old] };
    const message = toBinary(ListCallsResponseSchema, create(ListCallsResponseSchema, answer));
    const body = Buffer.concat([frame(0, message), frame(0x80, Buffer.from("grpc-status: 0\r\n"))]);
    await route.fulfill({ status: 200, headers: { "content-type": "application/grpc-web+proto" }, body });
  });
  await page.goto(service.url);
  await expect(page.getByRole("region", { name: /^Failed/ }).getByRole("listitem")).toHaveText([/of long ago/]);
});

test("output has its colours, and is wrapped, timed, linked to, copied and saved", async ({ page, context, start }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const service = await start();
  const print = "printf 'plain \\033[31mred\n\\033[1mstill red\\033[0m plain\n\\033[42mgreen ground\\033[0m\n'";
  await service.bash(`${print}; head -c 900 /dev/zero | tr '\\0' x; echo; exit 3`, { callId: "coloured" });
  await open(page, service, "calls/coloured");
  await expect(page.getByRole("article")).toContainText(/exit 3 · took .* · nobody had to be asked/);
  const output = page.getByRole("region", { name: "Output", exact: true });
  await expect(output.locator(".out").nth(0).locator(".ansi-1")).toHaveText("red");
  // What is switched on lasts to the next line.
  await expect(output.locator(".out").nth(1).locator(".ansi-1.ansi-bold")).toHaveText("still red");
  await expect(output.locator(".out").nth(2).locator(".ansi-back-2")).toHaveText("green ground");
  await expect(output.locator(".out")).toHaveCount(4);
  await page.getByRole("checkbox", { name: "Wrap" }).check();
  await expect(output.locator(".out")).not.toHaveCount(4);
  const overflow = () => output.evaluate((one) => one.scrollWidth - one.clientWidth);
  await expect.poll(overflow).toBe(0);
  await page.getByRole("checkbox", { name: "Times" }).check();
  await expect(output.locator(".came").first()).toHaveText(/^\d\d:\d\d:\d\d\.\d$/);
  await expect.poll(overflow).toBe(0);
  await page.screenshot({ path: test.info().outputPath("output.png") });

  await page.getByRole("button", { name: "Copy" }).click();
  await expect(page.getByText("Copied, without colours.")).toBeVisible();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied).toMatch(/^plain red\nstill red plain\ngreen ground\nx{900}\n/);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download" }).click(),
  ]);
  expect(download.suggestedFilename()).toBe("coloured.txt");
  expect(readFileSync(await download.path(), "utf8")).toContain("\u001b[1mstill red");

  await output.locator("a.number").nth(2).click();
  await expect(page).toHaveURL(/#\/calls\/coloured\?line=3$/);
  await page.reload();
  await expect(output.locator(".marked")).toContainText("green ground");
  await page.getByRole("tab", { name: "Result" }).click();
  await expect(page.getByRole("region", { name: "Result" }).locator(".ansi-1").first()).toHaveText("red");
});

test("files that a call changed are shown at its head, and reverted", async ({ page, start }) => {
  const service = await start({ config: { permission: { edit: { "*": "allow", "asked.txt": "ask" } } } });
  await service.run("write", { filePath: service.path("a.txt"), content: "one\ntwo\n" }, { callId: "new" });
  await open(page, service, "calls/new");
  const files = page.getByRole("region", { name: "1 file changed" });
  await expect(files).toContainText(/a\.txt new \+2 −0/);
  await expect(files.locator(".added")).toHaveCount(2);
  await files.getByRole("button", { name: "Revert" }).click();
  await files.getByRole("button", { name: "Keep the changes" }).click();
  await files.getByRole("button", { name: "Revert" }).click();
  await files.getByRole("button", { name: "Really revert" }).click();
  await expect(files.getByRole("status")).toContainText("are taken back");
  expect(existsSync(service.path("a.txt"))).toBe(false);
  await files.getByRole("link", { name: "the call that reverts" }).click();
  await expect(page.getByRole("article")).toContainText("revert");

  // Somebody has written since.
  await service.run("write", { filePath: service.path("b.txt"), content: "one\n" }, { callId: "other" });
  service.write("b.txt", "mine\n");
  await page.goto(`${service.url}console/#/calls/other`);
  await files.getByRole("button", { name: "Revert" }).click();
  await files.getByRole("button", { name: "Really revert" }).click();
  await expect(files.getByRole("status")).toContainText("Not reverted");
  expect(readFileSync(service.path("b.txt"), "utf8")).toBe("mine\n");
});

test("calls that a call made are below it, and sessions have a name and a first line", async ({ page, start }) => {
  const service = await start({ config: { experimental: { batch_tool: true } } });
  const session = "ses_4f0c2a9e7b1d8c6e5a3f";
  service.write("a.txt", "one\n");
  const calls = [
    { tool: "read", parameters: { filePath: service.path("a.txt") } },
    { tool: "glob", parameters: { pattern: "*.txt" } },
  ];
  await service.run("batch", { tool_calls: calls }, { session, callId: "both" });
  await service.bash("echo two", { session: "named-by-a-person" });
  await open(page, service, "calls/both");
  const made = page.getByRole("group").filter({ hasText: "Made 2 calls" });
  await expect(made.getByRole("listitem")).toHaveText([/read .*completed/, /glob .*completed/]);
  await made.getByRole("link", { name: /^read/ }).click();
  await page.getByText("Details").click();
  await expect(page.getByRole("article").getByRole("link", { name: "both" })).toBeVisible();

  await page.goto(`${service.url}console/#/sessions`);
  const list = page.getByRole("listbox", { name: /Sessions/ });
  await expect(list.getByRole("option")).toHaveText([
    /named-by-a-person.*bash: echo two.*1 call/,
    /build, .*batch: .*3 calls/,
  ]);
  await list.getByRole("option").nth(1).click();
  await expect(page.getByRole("heading", { level: 2 })).toHaveText(/^build, /);
  await expect(page.getByRole("article")).toContainText(session);
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
  await expect(option).toHaveAccessibleName(
    /completed.*queued [\d.]+ m?s, waited for people [1-9][\d.]* s, ran [1-9][\d.]* s/,
  );
  const rects = option.locator("rect");
  const kinds = await rects.evaluateAll((all) => all.map((one) => one.getAttribute("class")));
  expect(kinds.map((kind) => kind?.replace("span ", ""))).toEqual(expect.arrayContaining(["waiting", "running"]));
  const box = async (kind: string) => (await option.locator(`rect.${kind}`).last().boundingBox())!;
  const [waiting, running] = [await box("waiting"), await box("running")];
  expect(running.x).toBeGreaterThanOrEqual(waiting.x);

  // The same after a reload, when only records and logs tell of it.
  await page.reload();
  await expect(option).toHaveAccessibleName(/waited for people [1-9][\d.]* s, ran [1-9][\d.]* s/);
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
  const list = page.getByRole("listbox", { name: /Calls/ });
  await expect(page.getByText("The latest 500 calls")).toBeVisible();
  expect(await list.getByRole("option").count()).toBeLessThan(80);
  // Older ones come when the end of the list is reached, and what is searched for is found however old it is.
  await list.focus();
  await page.keyboard.press("End");
  await expect(page.getByText(/^1,0\d\d calls/)).toBeVisible();
  await page.getByLabel(/Find calls/).fill("head -c 200000000");
  await expect(page.getByText("1 call: the service has been searched")).toBeVisible();
  await list.getByRole("option").click();
  await expect(page.getByRole("heading", { level: 2 })).toContainText("head -c 200000000");
  await page.getByRole("button", { name: "Show all" }).click();
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
  // A search that finds much waits for the person after a while.
  await page.getByLabel(/Find calls/).fill("todoread");
  await expect(page.getByText(/^5\d\d calls so far, back to /)).toBeVisible();
  await page.getByRole("button", { name: "Load older calls" }).click();
  await expect(page.getByText(/^(1,0\d\d calls so far|999 calls: the service)/)).toBeVisible();
});
