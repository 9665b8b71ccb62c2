/** The README's snippets are compiled strictly against the package as it is published, and run. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { NO_SERVER, TestServer } from "./support.js";

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));
const FOLDER = join(PACKAGE, "build", "readme");
const SERVER = "http://127.0.0.1:50551";
/** What a snippet prints at least, in the order of the README; undefined: it only has to end well. */
const PRINTS: readonly (string | undefined)[] = [
  "done",
  undefined,
  "bash: ",
  "one",
  "hi",
  "CANCELLED",
  "completed",
  undefined,
  "web runs 1 times.",
  undefined,
  "19990",
  undefined,
  "NOT_FOUND UNKNOWN_WORKSPACE",
  ".",
  "0",
];
const ASKS = { permission: { bash: { "*": "allow", "uname *": "ask" } } };

/** Returns the programs: a snippet that does not make a client gets one. */
function programs(readme: string, url: string): string[] {
  const snippets = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""]) => code);
  return snippets.map((code) => {
    const own = /\bconnect\(/.test(code);
    const head = own ? "" : 'import { connect } from "toolgate/node";\nconst client = connect();\n';
    const tail = own ? "" : "await client.close();\n";
    const whole = `${head}${code}${tail}export {};\n`;
    return whole.replaceAll(SERVER, url);
  });
}

function run(file: string, url: string, cwd: string): Promise<{ code: number | null; output: string }> {
  const env = { ...process.env, TOOLGATE_SERVER: url };
  const child = spawn(process.execPath, [file], { cwd, env, timeout: 30_000 });
  let output = "";
  child.stdout.on("data", (data) => {
    output += data;
    // The first one asks.
    if (output.includes("allow?") && !child.stdin.writableEnded) {
      child.stdin.end("y\n");
    }
  });
  child.stderr.on("data", (data) => {
    output += data;
  });
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, output })));
}

test("the snippets of the README", { skip: NO_SERVER }, async (t) => {
  await using server = await TestServer.start(ASKS);
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  const snippets = programs(await readFile(join(PACKAGE, "README.md"), "utf8"), server.url);
  assert.equal(snippets.length, PRINTS.length);
  for (const [index, code] of snippets.entries()) {
    await writeFile(join(FOLDER, `${index}.ts`), code);
  }
  const config = { extends: "../../tsconfig.base.json", compilerOptions: { noUnusedLocals: false }, include: ["*.ts"] };
  await writeFile(join(FOLDER, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(PACKAGE, "node_modules", "typescript", "bin", "tsc");
  const compiled = spawnSync(process.execPath, [tsc, "-p", FOLDER], { encoding: "utf8", timeout: 60_000 });
  assert.equal(compiled.status, 0, compiled.stdout);
  for (const index of snippets.keys()) {
    await t.test(`snippet ${index}`, async () => {
      const { code, output } = await run(join(FOLDER, `${index}.js`), server.url, server.folder);
      assert.equal(code, 0, output);
      assert.ok(output.includes(PRINTS[index] ?? ""), output);
    });
  }
  const [first = ""] = snippets;
  assert.ok(first.trim().split("\n").length <= 21, "the first snippet has at most 20 lines");
});
