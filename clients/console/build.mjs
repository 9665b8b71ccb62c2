// Builds the page into a folder; `run.sh build` names the one that the service takes it from.
//
//   node build.mjs --out FOLDER
//
// What it writes is the same for the same sources and the same pinned packages: `run.sh check` compares.

import { cp, mkdir } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({ options: { out: { type: "string" } } });
if (!values.out) throw new Error("--out names no folder");
const out = resolve(values.out);

await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", emulator: "src/emulator.ts" },
  // The page loads it when it is needed.
  external: ["./emulator.js"],
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome120", "firefox121", "safari17.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "eof",
  charset: "utf8",
  logLevel: "warning",
});
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/app.css" },
  outdir: out,
  bundle: true,
  minify: true,
  target: ["chrome120", "firefox121", "safari17.4"],
  charset: "utf8",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) await cp(join(here, "src", name), join(out, name));
