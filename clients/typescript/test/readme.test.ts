/** The README's snippets are compiled strictly against the package as it is published, and run. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { compile, PACKAGE, run } from "./snippets.js";
import { NO_SERVER, TestServer } from "./support.js";

const SERVER = "http://127.0.0.1:50551";
/** What a snippet prints at least, in the order of the README; undefined: it only has to end well. */
const PRINTS: readonly (string | undefined)[] = [
  "done",
  undefined,
  "bash: ",
  "one",
  "INVALID_ARGUMENTS",
  "CANCELLED",
  "completed",
  "ASK [ [ 'uname -a' ] ]",
  undefined,
  "web runs 1 times.",
  undefined,
  "19990",
  "FILE docs/deep/three.toml",
  "fresh.txt",
  "default",
  undefined,
  undefined,
  undefined,
  "NOT_FOUND NOT_FOUND",
  ".",
  "0",
];
const ASKS = { permission: { bash: { "*": "allow", "uname *": "ask" } } };

/** Returns the programs: a snippet that does not make a client gets one. */
function programs(readme: string, url: string): string[] {
  const snippets = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""]) => code);
  return snippets.map((code) => {
    const own = /(?<!\.)\bconnect\(/.test(code);
    const head = own ? "" : 'import { connect } from "toolgate/node";\nconst client = connect();\n';
    const tail = own ? "" : "await client.close();\n";
    return `${head}${code}${tail}`.replaceAll(SERVER, url);
  });
}

test("the snippets of the README", { skip: NO_SERVER }, async (t) => {
  await using server = await TestServer.start(ASKS);
  const snippets = programs(await readFile(join(PACKAGE, "README.md"), "utf8"), server.url);
  assert.equal(snippets.length, PRINTS.length);
  const files = await compile("readme", snippets);
  for (const index of snippets.keys()) {
    await t.test(`snippet ${index}`, async () => {
      const { code, output } = await run(files[index] ?? "", server.url, server.folder);
      assert.equal(code, 0, output);
      assert.ok(output.includes(PRINTS[index] ?? ""), output);
    });
  }
  const [first = ""] = snippets;
  assert.ok(first.trim().split("\n").length <= 21, "the first snippet has at most 20 lines");
});
