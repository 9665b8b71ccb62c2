// What a call listens on: shown while it does, opened after a question, and closed.

import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "./service";

const SERVER = `node -e '
  const server = require("http").createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    response.end("<!doctype html><title>Page</title><h1>" + request.url + "</h1>");
  });
  server.listen(0, "127.0.0.1");
  process.stdin.once("data", () => { server.close(); server.closeAllConnections(); });
  setInterval(() => {}, 1000);
'`;

test("a port that a call listens on is shown, opened and closed", async ({ page, context, start }) => {
  const service = await start({ config: { permission: { bash: "allow", port: "ask" } } });
  await service.background("server", SERVER);
  await page.goto(`${service.url}console/#/calls/server`);
  const listening = page.getByRole("region", { name: "Listens on" });
  await expect(listening.getByRole("listitem")).toHaveText(/^\d+ 127\.0\.0\.1.*node/);
  await page.screenshot({ path: test.info().outputPath("listening.png") });
  const open = listening.getByRole("button", { name: /^Open port \d+$/ });

  // Somebody says no.
  await open.click();
  await listening.getByRole("link", { name: "Answer the prompt" }).click();
  await expect(page).toHaveURL(/#\/prompts\//);
  await page.getByRole("button", { name: /^Reject(?! with)/ }).click();
  await page.goto(`${service.url}console/#/calls/server`);
  await expect(listening.getByRole("alert")).toBeVisible();

  // The person changes their mind.
  await open.click();
  await listening.getByRole("button", { name: /^Cancel opening port/ }).click();
  await expect(open).toBeVisible();
  await expect(listening.getByRole("alert")).toHaveCount(0);

  // Somebody allows it.
  await open.click();
  await listening.getByRole("link", { name: "Answer the prompt" }).click();
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.goto(`${service.url}console/#/calls/server`);
  const link = listening.getByRole("link", { name: "Open in a new tab" });
  await expect(link).toHaveAttribute("rel", "noopener");
  await expect(link).toHaveAttribute("href", /^\/ports\/[^/]+\/$/);
  expect((await new AxeBuilder({ page }).analyze()).violations).toEqual([]);
  const [tab] = await Promise.all([context.waitForEvent("page"), link.click()]);
  await expect(tab.getByRole("heading", { name: "/" })).toBeVisible();
  expect(await tab.evaluate(() => window.opener)).toBeNull();
  await listening.getByRole("button", { name: /^Close port/ }).click();
  await expect(open).toBeVisible();
  expect((await tab.reload())?.ok()).toBe(false);

  // It ceases to listen while it runs.
  await service.tools.sendInput({ callId: "server", data: new TextEncoder().encode("end\n") });
  await expect(listening).toHaveCount(0);
  await expect(page.getByRole("article").getByText("running").first()).toBeVisible();
  await page.getByRole("tab", { name: "Events" }).click();
  await expect(page.getByRole("region", { name: "Events" })).toContainText("on nothing any more");
});
