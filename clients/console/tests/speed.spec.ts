// The first view over a slow line: how much is sent for it, and when it is there. What this machine takes by itself, however
// busy it is, is measured first and is not the line's.

import type { Page } from "@playwright/test";
import { ASK, expect, listed, test } from "./service";

/** 400 kbit/s, in bytes a second, and the milliseconds until an answer begins. */
const SPEED = 50_000;
const DELAY = 40;

/** Opens the first page, and returns the milliseconds until it is drawn. */
async function open(page: Page, url: string): Promise<number> {
  const began = Date.now();
  await page.goto(`${url}console/`, { waitUntil: "commit" });
  await page.getByRole("heading", { name: /^Waiting for you/ }).waitFor();
  return Date.now() - began;
}

/** Makes the line slow, and counts what comes over it. */
async function slow(page: Page, encoding: "gzip" | "br"): Promise<() => number> {
  const session = await page.context().newCDPSession(page);
  let sent = 0;
  await session.send("Network.enable");
  await session.send("Network.setExtraHTTPHeaders", { headers: { "accept-encoding": encoding } });
  session.on("Network.dataReceived", ({ encodedDataLength }) => (sent += encodedDataLength));
  const conditions = { offline: false, latency: DELAY, downloadThroughput: SPEED, uploadThroughput: SPEED };
  await session.send("Network.emulateNetworkConditions", conditions);
  return () => sent;
}

// Without TLS, browsers of other machines take no brotli.
for (const encoding of ["gzip", "br"] as const) {
  test(`the first view is there within two seconds at 400 kbit/s, by ${encoding}`, async ({ page, context, start }) => {
    const service = await start({ config: ASK });
    void service.bash("echo hello").catch(() => undefined);
    // What it takes without a slow line, before and after: the machine may be busier at one time than at the other.
    const quick = async (): Promise<number> => {
      const other = await context.browser()!.newPage();
      const took = await open(other, service.url);
      await other.close();
      return took;
    };
    const before = await quick();
    const sent = await slow(page, encoding);
    const isThere = async (): Promise<void> => {
      await listed(page, "Waiting for you").filter({ hasText: "echo hello" }).waitFor();
      await page.getByText("Nothing is running.").waitFor();
    };
    const rest = page.waitForResponse(/parts\.js/);
    const drawn = await open(page, service.url);
    await isThere();
    const bytes = sent();
    const own = Math.max(before, await quick());
    console.log(`by ${encoding}: drawn after ${drawn} ms (${own} ms without a slow line), ${bytes} bytes`);
    expect(drawn - own).toBeLessThanOrEqual(2_000);
    expect((bytes / SPEED) * 1_000).toBeLessThan(1_700);

    // What a browser has it does not fetch again.
    await (await rest).finished();
    const loaded = sent();
    await page.reload({ waitUntil: "commit" });
    await isThere();
    expect(sent() - loaded).toBeLessThan(10_000);
  });
}
