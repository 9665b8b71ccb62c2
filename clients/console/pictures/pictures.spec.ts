// The pictures of the documentation, made from the running program: a prompt in the console, the same in the terminal and on a
// phone; the first page, and a call.

import { spawn } from "node:child_process";
import { join } from "node:path";
import headless, { type IBufferCell, type Terminal } from "@xterm/headless";
import { PromptDecision } from "../src/gen/toolgate/v1/prompt_pb";
import { ASK, expect, listed, test } from "../tests/service";

const folder = join(import.meta.dirname, "../../../docs/pictures");
const OLD = 'fn main() {\n    println!("hello");\n}\n';
const EDIT = { filePath: "main.rs", oldString: '"hello"', newString: '"hello, world"' };
const PUSH = { command: "git push origin main && git push --tags", description: "Publishes the change" };

/** The size of the terminal. */
const COLUMNS = 80;
const ROWS = 24;

/** The colours of a terminal by their numbers. */
const COLOURS = ["#484f58", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#79c0ff", "#e6edf3"];

/** The cells of a row. */
function cells(screen: Terminal, row: number): IBufferCell[] {
  const line = screen.buffer.active.getLine(row);
  return Array.from({ length: COLUMNS }, (_, column) => line?.getCell(column)).filter((cell) => cell !== undefined);
}

/** Returns what a terminal shows as a page. */
function pageOf(screen: Terminal): string {
  const span = (cell: IBufferCell) => {
    const colour = cell.isFgPalette() ? `color: ${COLOURS[cell.getFgColor() % 8]};` : "";
    const weight = cell.isBold() ? "font-weight: bold;" : cell.isDim() ? "opacity: 0.65;" : "";
    const text = (cell.getChars() || " ").replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    return `<span style="${colour}${weight}">${text}</span>`;
  };
  const rows = Array.from({ length: ROWS }, (_, row) => cells(screen, row).map(span).join(""));
  return `<body style="margin: 0; background: #0d1117"><pre style="margin: 0; padding: 20px 24px; width: max-content;
    color: #e6edf3; font: 14px/1.3 monospace">${rows.join("\n")}</pre></body>`;
}

/** Starts `toolgate approve` on a terminal, and returns what it shows once its prompt takes keys. */
async function approver(url: string): Promise<Terminal> {
  const screen = new headless.Terminal({ cols: COLUMNS, rows: ROWS, allowProposedApi: true });
  const command = `stty cols ${COLUMNS} rows ${ROWS}; exec "${process.env.TOOLGATE_BIN}" approve --name ann --server ${url}`;
  const env = { ...process.env, TERM: "xterm-256color" };
  const child = spawn("script", ["-qec", command, "/dev/null"], { stdio: ["pipe", "pipe", "inherit"], env });
  for await (const part of child.stdout) {
    await new Promise<void>((drawn) => screen.write(part as Buffer, drawn));
    const shown = Array.from(
      { length: ROWS },
      (_, row) => screen.buffer.active.getLine(row)?.translateToString() ?? "",
    );
    const keys = shown.findIndex((row) => row.startsWith("o once"));
    // It is drawn from the top, so all of it is there when the last of the keys is alight.
    const last = shown[ROWS - 1]?.trimEnd() ?? "";
    const end = cells(screen, ROWS - 1)[last.length - 1];
    const takesKeys = keys >= 0 && cells(screen, keys)[0]?.isBold() && last.endsWith("q leave") && !end?.isDim();
    if (takesKeys && shown.some((row) => row.includes("hello, world"))) break;
  }
  child.kill();
  return screen;
}

test("a prompt, in the browser and in the terminal", async ({ page, start }) => {
  const service = await start({ config: ASK });
  service.write("main.rs", OLD);
  await service.run("read", { filePath: "main.rs" });
  const call = service.run("edit", EDIT, { callId: "change-greeting" });
  const shown = await approver(service.url);
  await page.setContent(pageOf(shown));
  await page.locator("pre").screenshot({ path: join(folder, "approve.png") });

  await page.setViewportSize({ width: 1100, height: 640 });
  await page.goto(`${service.url}console/#/prompts`);
  const allow = page.getByRole("button", { name: "Allow once" });
  await expect(allow).toBeEnabled();
  await page.screenshot({ path: join(folder, "console.png") });
  await allow.click();
  expect((await call).ending.case).toBe("completed");
});

test("the first page and a call", async ({ page, start }) => {
  const service = await start({
    config: { permission: { bash: { "*": "allow", "git push*": "ask" }, edit: "allow" } },
  });
  service.write("main.rs", OLD);
  await service.run("read", { filePath: "main.rs" });
  await service.run("edit", EDIT, { callId: "change-greeting" });
  const tests =
    "printf 'running 3 tests\\n\\033[32mok\\033[0m   greets\\n\\033[32mok\\033[0m   leaves\\n\\033[31mFAILED\\033[0m counts\\n'; exit 1";
  await service.run("bash", { command: tests, description: "Runs the tests" });
  await service.background("watch", "sleep 600", { description: "Watches the sources" });
  const call = service.run("bash", PUSH, { session: "release", callId: "push" });
  await page.setViewportSize({ width: 1100, height: 380 });
  await page.goto(service.url);
  await expect(listed(page, "Waiting for you").first()).toBeVisible();
  await page.screenshot({ path: join(folder, "console-home.png") });
  await page.setViewportSize({ width: 1100, height: 640 });
  await page.goto(`${service.url}console/#/calls/change-greeting`);
  await expect(page.locator(".diff .added")).toBeVisible();
  await page.screenshot({ path: join(folder, "console-call.png") });
  const [{ promptId, inputDigest } = {}] = (await service.permissions.listPrompts({ callId: "push" })).prompts;
  await service.permissions.replyPrompt({ reply: { promptId, inputDigest, decision: PromptDecision.REJECT } });
  expect((await call).ending.case).toBe("failed");
});

test.describe("on a phone", () => {
  test.use({ viewport: { width: 390, height: 700 }, hasTouch: true, isMobile: true });

  test("a prompt", async ({ page, start }) => {
    const service = await start({ config: { permission: { bash: { "*": "allow", "git push*": "ask" } } } });
    const call = service.run("bash", PUSH, { session: "release" });
    await page.goto(`${service.url}console/#/prompts`);
    await page.getByRole("listbox", { name: "Open prompts" }).getByRole("option").tap();
    await expect(page.getByRole("button", { name: "Allow once" })).toBeEnabled();
    await page.screenshot({ path: join(folder, "console-phone.png") });
    await page.getByRole("button", { name: "Reject", exact: true }).tap();
    expect((await call).ending.case).toBe("failed");
  });
});
