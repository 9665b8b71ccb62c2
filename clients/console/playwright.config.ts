// How the page is driven: in the Chromium that `run.sh setup` unpacks, one server for each test.

import { join } from "node:path";
import { defineConfig } from "@playwright/test";
// @ts-expect-error: a program of its own, without types
import { folder, launch } from "./browser.mjs";

const results = join(folder() as string, "../../console-tests");

export default defineConfig({
  testDir: "tests",
  outputDir: results,
  // Screenshots are there to be looked at.
  preserveOutput: "always",
  timeout: 60_000,
  expect: { timeout: 15_000 },
  fullyParallel: true,
  workers: 2,
  forbidOnly: true,
  // On a busy machine a browser is late at times; what needed another attempt is named as flaky.
  retries: 2,
  reporter: [["list"]],
  use: {
    viewport: { width: 1280, height: 800 },
    locale: "en-GB",
    timezoneId: "UTC",
    trace: "off",
    launchOptions: { ...(launch() as object), args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] },
  },
});
