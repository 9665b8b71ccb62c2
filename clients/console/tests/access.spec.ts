// Everybody: no violations that axe finds, in any part of the page, light and dark, wide and narrow.

import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect, listed, test } from "./service";

const LIVE = '[data-live="true"]';

async function check(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: test.info().outputPath(`${name}.png`) });
  // What is seen of a control is said of it, so that who speaks to their machine can name it.
  const rules = { "label-content-name-mismatch": { enabled: true } };
  const { violations } = await new AxeBuilder({ page }).options({ rules }).analyze();
  const found = violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes.map((node) => node.html).join(" | ")}`);
  expect(found).toEqual([]);
}

for (const colorScheme of ["light", "dark"] as const) {
  test(`axe finds nothing in the ${colorScheme} page`, async ({ page, start }) => {
    test.setTimeout(300_000);
    const permission = {
      bash: { "*": "ask", "printf *": "allow" },
      edit: { "*": "ask", "free.txt": "allow" },
    };
    const service = await start({ config: { permission }, env: { OPENCODE_ENABLE_QUESTION_TOOL: "1" } });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.goto(service.url);
    await expect(page.getByRole("heading", { name: "Make a first call" })).toBeVisible();
    await check(page, "first");
    const todos = ["completed", "in_progress", "pending", "cancelled"].map((status) => ({
      id: status,
      content: `A task that is ${status}`,
      status,
      priority: "high",
    }));
    await service.run("todowrite", { todos });
    await service.run("read", { filePath: service.path("nothing") });
    service.write("a.txt", "one\ntwo\n");
    await service.run("read", { filePath: service.path("a.txt") });
    const edit = { filePath: service.path("a.txt"), oldString: "two", newString: "three" };
    void service.run("edit", edit, { callId: "edit" }).catch(() => undefined);
    await service.run("write", { filePath: service.path("free.txt"), content: "one\n" }, { callId: "free" });
    const colours = [...Array(8).keys()].flatMap((n) =>
      [30, 40, 90, 100].map((base) => `\\033[${base + n}mtext\\033[0m`),
    );
    await service.bash(`printf '${colours.join(" ")} \\033[2mdim\\033[0m \\033[7mturned\\033[0m\\n'`, {
      callId: "colours",
    });
    await page.goto(service.url);
    await page.locator(LIVE).waitFor();
    for (const part of ["Waiting for you", "Failed"]) await expect(listed(page, part).first()).toBeVisible();
    await check(page, "home");
    await page.goto(`${service.url}console/#/calls`);
    await expect(page.getByRole("option", { name: /waiting/ })).toBeVisible();
    await page.getByRole("button", { name: "Tool, agent, time" }).click();
    await check(page, "calls");
    await page.goto(`${service.url}console/#/calls/free`);
    await expect(page.getByRole("button", { name: "Revert" })).toBeVisible();
    await check(page, "files");
    await page.goto(`${service.url}console/#/calls/colours`);
    await expect(page.locator(".ansi-back-1").first()).toBeVisible();
    await check(page, "colours");
    await page.goto(`${service.url}console/#/prompts`);
    await expect(page.locator(".diff .added")).toBeVisible();
    await expect(page.getByRole("button", { name: "Allow once" })).toBeEnabled();
    await check(page, "diff");
    await page.keyboard.press("a");
    await check(page, "always");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Edit the input" }).click();
    await check(page, "instead");
    await page.goto(`${service.url}console/#/calls/edit`);
    await expect(page.getByRole("tab", { name: "Output" })).toBeVisible();
    await check(page, "call");
    for (const tab of ["Events", "Input", "Result"]) {
      await page.getByRole("tab", { name: tab }).click();
      await check(page, tab.toLowerCase());
    }
    const question = { question: "Which?", header: "Choice", options: [{ label: "This", description: "One" }] };
    void service.run("question", { questions: [question] }, { session: "q", callId: "q" }).catch(() => undefined);
    await page.goto(`${service.url}console/#/calls/q`);
    await expect(page.getByRole("radio", { name: "This" })).toBeVisible();
    await check(page, "question");
    await page.goto(`${service.url}console/#/timeline`);
    await expect(page.getByRole("listbox").getByRole("option").first()).toBeVisible();
    await check(page, "timeline");
    await page.goto(`${service.url}console/#/sessions/demo`);
    await expect(page.getByText("A task that is pending")).toBeVisible();
    await check(page, "sessions");
    await page.keyboard.press("?");
    await check(page, "help");
    await page.keyboard.press("Escape");
    await page.setViewportSize({ width: 390, height: 800 });
    for (const [place, seen] of [
      ["home", page.getByRole("heading", { name: /^Waiting for you/ })],
      ["prompts", page.getByRole("listbox", { name: "Open prompts" })],
      ["calls/edit", page.getByRole("tab", { name: "Output" })],
    ] as const) {
      await page.goto(`${service.url}console/#/${place}`);
      await expect(seen).toBeVisible();
      await check(page, `narrow-${place.split("/")[0]}`);
    }
    await service.kill();
    await expect(page.getByText("Not connected.")).toBeVisible();
    await check(page, "offline");
  });
}

test("axe finds nothing in a terminal", async ({ page, start }) => {
  const service = await start();
  const command = "printf 'a \\033[31mred\\033[0m line, \\033[7mturned around\\033[0m\\n'; cat";
  const shell = { command, description: "Shell", terminal: { columns: 60, rows: 12 } };
  void service.run("background", shell, { callId: "shell" }).catch(() => undefined);
  await page.goto(`${service.url}console/#/calls`);
  await page.getByRole("option", { name: /running/ }).click();
  await page.getByRole("tab", { name: "Terminal" }).click();
  await expect(page.getByRole("application")).toContainText("red line");
  await check(page, "terminal");
});

test("axe finds nothing in the login", async ({ page, start }) => {
  const service = await start({ tokens: "alice alice-has-a-token-of-32-letters calls.read\n", token: "x" });
  await page.goto(service.url);
  await page.getByLabel("Token").fill("wrong");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toBeVisible();
  await check(page, "login");
});
