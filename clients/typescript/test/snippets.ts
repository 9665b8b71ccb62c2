/** Programs that pages show: compiled strictly against the package as it is published, and run. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the package. */
export const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));

/** Compiles programs, as modules of a folder of this name, and returns the files to run. */
export async function compile(name: string, programs: readonly string[]): Promise<string[]> {
  const folder = join(PACKAGE, "build", name);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const [index, code] of programs.entries()) {
    await writeFile(join(folder, `${index}.ts`), `${code}export {};\n`);
  }
  const config = { extends: "../../tsconfig.base.json", compilerOptions: { noUnusedLocals: false }, include: ["*.ts"] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(PACKAGE, "node_modules", "typescript", "bin", "tsc");
  const compiled = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8", timeout: 60_000 });
  assert.equal(compiled.status, 0, compiled.stdout);
  return programs.map((_, index) => join(folder, `${index}.js`));
}

/** Runs a program for the server at `url`; a question is answered with yes. */
export function run(file: string, url: string, cwd: string): Promise<{ code: number | null; output: string }> {
  const env = { ...process.env, TOOLGATE_SERVER: url };
  const child = spawn(process.execPath, [file], { cwd, env, timeout: 30_000 });
  let output = "";
  child.stdout.on("data", (data) => {
    output += data;
    if (output.includes("allow?") && !child.stdin.writableEnded) {
      child.stdin.end("y\n");
    }
  });
  child.stderr.on("data", (data) => {
    output += data;
  });
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, output })));
}
