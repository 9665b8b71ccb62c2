// Builds the page into a folder; `run.sh build` names the one that the service takes it from.
//
//   node build.mjs --out FOLDER
//
// What it writes is the same for the same sources and the same pinned packages, but for the compressed files, which depend on
// the version of node: `run.sh check` compares the ones, and what the others hold.
//
//   node build.mjs --check FOLDER     says whether the compressed files there hold what is beside them

import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({ options: { out: { type: "string" }, check: { type: "string" } } });
const COMPRESSED = ["app.js", "shared.js", "parts.js", "emulator.js", "app.css"];

if (values.check !== undefined) {
  for (const name of COMPRESSED) {
    const [plain, brotli, gzip] = await Promise.all(
      ["", ".br", ".gz"].map((ending) => readFile(join(values.check, `${name}${ending}`))),
    );
    if (!brotliDecompressSync(brotli).equals(plain) || !gunzipSync(gzip).equals(plain)) {
      throw new Error(`the compressed ${name} is another one`);
    }
  }
  process.exit(0);
}

if (!values.out) throw new Error("--out names no folder");
const out = resolve(values.out);

/** Returns a file as the page names it: by its content, so that browsers may keep it for good. The service does the same. */
async function address(name) {
  const hash = createHash("sha256").update(await readFile(join(out, name)));
  return `${name}?v=${hash.digest("hex").slice(0, 32)}`;
}

/** Descriptors of the contract are kept as the bytes that they are, which compress better than Base64. */
const descriptors = {
  name: "descriptors",
  setup: (within) =>
    within.onLoad({ filter: /_pb\.ts$/ }, async ({ path }) => ({
      loader: "ts",
      contents: (await readFile(path, "utf8")).replace(
        /(?<=fileDesc\()"([A-Za-z0-9+/]+)"/,
        (_, base64) => `btoa(${JSON.stringify(atob(base64))})`,
      ),
    })),
};

const common = {
  absWorkingDir: here,
  outdir: out,
  bundle: true,
  minify: true,
  target: ["chrome120", "firefox121", "safari17.4"],
  charset: "utf8",
  logLevel: "warning",
};
const script = { ...common, format: "esm", jsx: "automatic", jsxImportSource: "preact", legalComments: "eof" };

await mkdir(out, { recursive: true });
await build({ ...script, entryPoints: { emulator: "src/emulator.ts" } });
await build({
  ...script,
  entryPoints: { app: "src/main.tsx", parts: "src/parts.tsx" },
  // What both use is a third file.
  splitting: true,
  chunkNames: "shared",
  // The page loads it when it is needed.
  external: ["./emulator.js"],
  plugins: [descriptors],
});
await build({ ...common, entryPoints: { app: "src/app.css" } });
for (const name of ["index.html", "icon.svg"]) await cp(join(here, "src", name), join(out, name));

// Each file is named by its content where another one names it: first those that name no other.
for (const [within, names] of [
  ["parts.js", ["shared.js", "emulator.js"]],
  ["app.js", ["shared.js", "parts.js"]],
  ["index.html", ["app.css", "shared.js", "app.js"]],
]) {
  let text = await readFile(join(out, within), "utf8");
  for (const name of names) {
    const named = await address(name);
    text = text.replace(new RegExp(`"(\\./)?${name.replace(".", "\\.")}"`, "g"), `"$1${named}"`);
    if (!text.includes(named)) throw new Error(`${within} does not name ${name}`);
  }
  await writeFile(join(out, within), text);
}
for (const name of COMPRESSED) {
  const plain = await readFile(join(out, name));
  const size = { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length, [constants.BROTLI_PARAM_LGWIN]: 22 };
  await writeFile(join(out, `${name}.br`), brotliCompressSync(plain, { params: size }));
  await writeFile(join(out, `${name}.gz`), gzipSync(plain, { level: 9 }));
}
