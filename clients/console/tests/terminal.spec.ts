// The terminal of a call: shown, typed into, found again, and what keys send.

import { expect, test } from "./service";
import { sequence } from "../src/keys";

test("a terminal is typed into, fits the window, and is found again", async ({ page, start }) => {
  const service = await start();
  await service.background(
    "shell",
    `printf '\\033[5;10H\\033[1;31mred\\033[0m\\n'; trap 'stty size' WINCH; while read -r line; do echo "<$line>"; done`,
    { terminal: { columns: 60, rows: 12 } },
  );
  await page.goto(`${service.url}console/#/calls/shell`);
  await page.getByRole("tab", { name: "Terminal" }).click();
  const terminal = page.getByRole("application", { name: "Terminal" });
  await expect(terminal.locator("> div").nth(4)).toHaveText(/^ {9}red *$/);
  await expect(terminal.getByText("red", { exact: true })).toHaveCSS("font-weight", "700");
  await terminal.focus();
  await page.keyboard.type("one f /?");
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Enter");
  await expect(terminal).toContainText("<one f />");
  // Ctrl-] leaves, and the button there gives the terminal the size of the window.
  await page.keyboard.press("Control+]");
  await expect(page.getByRole("button", { name: "Fit to this window" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(terminal).toBeFocused();
  await expect(page.getByRole("group", { name: "Terminal" })).not.toContainText("60 x 12");
  await page.keyboard.press("Enter");
  const size = await page.getByRole("group", { name: "Terminal" }).locator(".dim").first().textContent();
  const [columns, rows] = (size ?? "").split(" x ");
  await expect(terminal).toContainText(`${rows} ${columns}`);

  await page.reload();
  await page.getByRole("tab", { name: "Terminal" }).click();
  await expect(terminal).toContainText("red");
  await expect(terminal).toContainText("<one f />");
  await terminal.focus();
  await page.keyboard.press("Control+d");
  await expect(page.getByRole("tab", { name: "Terminal" })).toHaveCount(0);
  await expect(page.getByRole("article").getByText("completed").first()).toBeVisible();
});

test("keys send what programs expect", () => {
  const sent = (key: string, more: Partial<KeyboardEvent> = {}, application = false): string | undefined =>
    sequence({ key, ...more }, application);
  expect(sent("a")).toBe("a");
  expect(sent("é", { altKey: true })).toBe("\u001bé");
  expect(sent("c", { ctrlKey: true })).toBe("\u0003");
  expect(sent("\\", { ctrlKey: true })).toBe("\u001c");
  expect(sent("ArrowUp")).toBe("\u001b[A");
  expect(sent("ArrowUp", {}, true)).toBe("\u001bOA");
  expect(sent("ArrowLeft", { ctrlKey: true })).toBe("\u001b[1;5D");
  expect(sent("Tab", { shiftKey: true })).toBe("\u001b[Z");
  for (const key of ["Shift", "Dead", "CapsLock"]) expect(sent(key)).toBeUndefined();
  expect(sent("v", { ctrlKey: true, shiftKey: true })).toBeUndefined();
  expect(sent("r", { metaKey: true })).toBeUndefined();
});
