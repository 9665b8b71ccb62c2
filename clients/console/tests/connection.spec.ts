// The connection: lost and found again, with a token, and refused to other pages.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { CallState } from "../src/gen/toolgate/v1/call_pb";
import { ASK, expect, test } from "./service";

const LIVE = '[data-live="true"]';

test("a service that is killed and started again is found again", async ({ page, start }) => {
  const service = await start({ config: { permission: { bash: { "*": "ask", "sleep *": "allow" } } } });
  await page.goto(`${service.url}console/#/calls/lost`);
  const lost = service.bash("sleep 600", { callId: "lost" }).catch(() => undefined);
  await page.locator(LIVE).waitFor();
  await expect(page.getByRole("option", { name: /running/ })).toBeVisible();
  await service.kill();
  await lost;
  await expect(page.getByText("Not connected.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Try now" })).toBeVisible();
  await service.start();
  await page.locator(LIVE).waitFor();
  await expect(page.getByText("Not connected.")).toHaveCount(0);
  // What happened meanwhile is shown, and what happens now.
  await expect(page.getByRole("option", { name: /lost/ })).toBeVisible();
  expect((await service.tools.getCall({ callId: "lost" })).call?.state).toBe(CallState.FAILED);
  void service.bash("echo new").catch(() => undefined);
  await expect(page.getByRole("option", { name: /echo new/ })).toBeVisible();
  await expect(page.getByRole("link", { name: "Prompts 1 waiting" })).toBeVisible();
});

const TOKENS = [
  "alice alice-has-a-token-of-32-letters calls.read,prompts.reply,outputs.read,calls.execute",
  "bob bob-has-another-token-of-32-more calls.execute,calls.read",
].join("\n");

test("the token is asked for and kept for the tab", async ({ page, context, start }) => {
  const service = await start({ config: ASK, tokens: `${TOKENS}\n`, token: "bob-has-another-token-of-32-more" });
  const call = service.bash("echo hello");
  await page.goto(service.url);
  const field = page.getByLabel("Token");
  await expect(field).toBeFocused();
  await field.fill("wrong");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toBeVisible();
  await field.fill("alice-has-a-token-of-32-letters");
  await page.keyboard.press("Enter");
  await page.locator(LIVE).waitFor();
  await page.keyboard.press("p");
  await expect(page.getByText("token:bob")).toBeVisible();
  await page.getByRole("button", { name: "Allow once" }).click();
  expect((await call).ending.case).toBe("completed");

  // It survives a reload, is in no address, and another tab does not have it.
  await page.reload();
  await page.locator(LIVE).waitFor();
  expect(page.url()).not.toContain("alice");
  expect(await page.evaluate(() => JSON.stringify(localStorage) + document.cookie)).not.toContain("alice");
  const other = await context.newPage();
  await other.goto(service.url);
  await expect(other.getByLabel("Token")).toBeVisible();
  await other.close();

  await page.keyboard.press("?");
  await page.getByRole("button", { name: "Log out" }).click();
  await expect(page.getByLabel("Token")).toBeVisible();
  expect(await page.evaluate(() => sessionStorage.getItem("toolgate.token"))).toBeNull();
});

test("what is wrong with the rules is said on every page", async ({ page, start }) => {
  const service = await start({ config: { permision: { bash: "ask" }, permission: { bahs: "ask" } } });
  await page.goto(`${service.url}console/#/timeline`);
  const warnings = page.getByRole("group").filter({ hasText: "2 warnings about the configuration" });
  await warnings.getByText("2 warnings").click();
  await expect(warnings.getByRole("listitem")).toContainText([/"bahs".*"bash"/, /"permision".*"permission"/]);
  await page.screenshot({ path: test.info().outputPath("warnings.png") });
});

test("who may only look is told so when answering", async ({ page, start }) => {
  const service = await start({ config: ASK, tokens: `${TOKENS}\n`, token: "bob-has-another-token-of-32-more" });
  void service.bash("echo hello").catch(() => undefined);
  await page.goto(`${service.url}console/#/prompts`);
  await page.getByLabel("Token").fill("bob-has-another-token-of-32-more");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Allow once" }).click();
  await expect(page.getByRole("alert")).toContainText("Not allowed");
});

test("pages from elsewhere are refused", async ({ context, start }) => {
  const page = await context.newPage();
  const service = await start();
  const elsewhere = createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end("<!doctype html><title>Elsewhere</title><iframe></iframe>");
  }).listen(0, "127.0.0.1");
  await once(elsewhere, "listening");
  const { port } = elsewhere.address() as AddressInfo;
  await page.goto(`http://127.0.0.1:${port}/`);
  const url = `${service.url}toolgate.v1.InfoService/GetServerInfo`;
  const tried = await page.evaluate(async (url) => {
    const body = new Uint8Array(5);
    const headers = { "content-type": "application/grpc-web+proto" };
    const cors = await fetch(url, { method: "POST", headers, body }).then(
      (r) => r.status,
      () => "refused",
    );
    const blind = await fetch(url, { method: "POST", mode: "no-cors", body }).then(
      (r) => r.type,
      () => "refused",
    );
    return [cors, blind];
  }, url);
  expect(tried).toEqual(["refused", expect.stringMatching(/opaque|refused/)]);

  // Nor can it put the page into a frame and have a person press its buttons.
  const loaded = await page.evaluate(async (url) => {
    const frame = document.querySelector("iframe")!;
    frame.src = url;
    await new Promise((resolve) => frame.addEventListener("load", resolve));
    return frame.contentDocument === null;
  }, `${service.url}console/`);
  expect(loaded).toBe(true);
  await expect(page.frameLocator("iframe").getByRole("heading", { name: "Toolgate" })).toHaveCount(0);
  elsewhere.close();
});
