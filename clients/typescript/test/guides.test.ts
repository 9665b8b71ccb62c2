/** The programs of the guides in `docs/guides/` are compiled and run, and print what their page says. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { compile, PACKAGE, run } from "./snippets.js";
import { NO_SERVER, TestServer } from "./support.js";

const DOCS = join(PACKAGE, "..", "..", "docs", "guides");
/** Its programs need frameworks, and are run with them: tests/ecosystem/frameworks-typescript.sh. */
const ELSEWHERE = "frameworks.md";
/** A program, and what the page says that it prints. */
const PROGRAM = /^```ts\n(.*?)^```$.*?^```text\n(.*?)^```$/gms;

test("the programs of the guides", { skip: NO_SERVER }, async (t) => {
  await using server = await TestServer.start();
  const programs = [];
  for (const guide of (await readdir(DOCS)).filter((name) => name.endsWith(".md") && name !== ELSEWHERE).sort()) {
    const text = await readFile(join(DOCS, guide), "utf8");
    for (const [, code = "", printed] of text.matchAll(PROGRAM)) {
      programs.push({ guide, code, printed });
    }
  }
  assert.ok(programs.length >= 8);
  const files = await compile(
    "guides",
    programs.map(({ code }) => code),
  );
  for (const [index, { guide, printed }] of programs.entries()) {
    await t.test(guide, async () => {
      assert.deepEqual(await run(files[index] ?? "", server.url, server.folder), { code: 0, output: printed });
    });
  }
});
