// The first view over a slow line: how much is sent for it, and when it is there.

import type { Page } from "@playwright/test";
import { ASK, expect, test } from "./service";

/** 400 kbit/s, in bytes a second, and the milliseconds until an answer begins. */
const SPEED = 50_000;
const DELAY = 40;

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
  test(`the first view is there within two seconds at 400 kbit/s, by ${encoding}`, async ({ page, start }) => {
    const service = await start({ config: ASK });
    void service.bash("echo hello").catch(() => undefined);
    const sent = await slow(page, encoding);
    const isThere = async (): Promise<void> => {
      const waits = page.getByRole("region", { name: /^Waits for you/ });
      await waits.getByRole("link", { name: /echo hello/ }).waitFor();
      await page.getByText("Nothing runs.").waitFor();
    };
    const rest = page.waitForResponse(/parts\.js/);
    const began = Date.now();
    await page.goto(`${service.url}console/`, { waitUntil: "commit" });
    await page.getByRole("heading", { name: /^Waits for you/ }).waitFor();
    const drawn = Date.now() - began;
    await isThere();
    const bytes = sent();
    console.log(`by ${encoding}: drawn after ${drawn} ms, filled after ${Date.now() - began} ms, ${bytes} bytes`);
    expect(drawn).toBeLessThanOrEqual(2_000);
    // What the line takes of it, however busy this machine is.
    expect((bytes / SPEED) * 1_000).toBeLessThan(1_700);

    // What a browser has it does not fetch again.
    await (await rest).finished();
    const before = sent();
    await page.reload({ waitUntil: "commit" });
    await isThere();
    expect(sent() - before).toBeLessThan(10_000);
  });
}
