/** The programs of `docs/guides/frameworks.md`, run for real: `guide.mjs` has written them. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Place } from "./support.js";

const run = promisify(execFile);
const FOLDER = fileURLToPath(new URL("../guide/", import.meta.url));

for (const framework of ["ai", "langchain", "mastra"]) {
  test(`the program for ${framework}`, async () => {
    await using place = await Place.make({ permission: { bash: "ask" } });
    const env = { ...process.env, TOOLGATE_SERVER: place.server.url };
    const { stdout } = await run(process.execPath, [`${FOLDER}/${framework}.js`], { env, timeout: 50_000 });
    assert.equal(stdout, await readFile(`${FOLDER}/../../guide/printed.txt`, "utf8"));
  });
}
