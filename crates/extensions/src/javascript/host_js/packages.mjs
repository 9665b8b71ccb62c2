// Where packages are: those that Toolgate brings, and those of a project.
import fs from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { Reported, isObject } from "./answer.mjs";

// Lets `@opencode-ai/plugin` and zod be imported where the project has not installed them. Bun finds them by NODE_PATH,
// deno by its import map.
export async function resolveHelpers() {
  if (globalThis.Bun || globalThis.Deno) return;
  const { registerHooks } = await import("node:module");
  const endings = ["", ".ts", ".js", ".mjs", "/index.ts", "/index.js"];
  registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context);
      } catch (error) {
        const isHelper = /^(zod|@opencode-ai\/plugin)(\/|$)/.test(specifier);
        if (isHelper && /MODULE_NOT_FOUND$/.test(error?.code)) return next(specifier, { ...context, parentURL: import.meta.url });
        if (!/^\.{0,2}\//.test(specifier)) throw error;
        const stem = specifier.replace(/\.js$/, "");
        for (const ending of endings) {
          try {
            return next(stem + ending, context);
          } catch {
            // The next ending may do.
          }
        }
        throw error;
      }
    },
  });
}

// Finds what is imported where a folder is named, as a package is.
export function entryOf(path) {
  if (!fs.statSync(path).isDirectory()) return path;
  // A folder without one has an index.
  const about = aboutOf(path) ?? {};
  const conditions = ["import", "node", "default", ...(globalThis.Bun ? ["bun"] : [])];
  const pick = (target) => {
    if (typeof target === "string") return target;
    if (!isObject(target)) return undefined;
    const fitting = Object.entries(target).filter(([condition]) => conditions.includes(condition));
    return fitting.map(([, inner]) => pick(inner)).find(Boolean);
  };
  const exported = isObject(about.exports) && "." in about.exports ? about.exports["."] : about.exports;
  const named = [pick(exported), about.module, about.main, "index.ts", "index.js"];
  const entries = named.filter((name) => typeof name === "string").map((name) => join(path, name));
  const found = entries.find((file) => fs.existsSync(file));
  if (!found) throw new Reported("the folder has neither an entry in package.json nor an index file");
  return found;
}

function aboutOf(folder) {
  try {
    return JSON.parse(fs.readFileSync(join(folder, "package.json"), "utf8"));
  } catch {
    return undefined;
  }
}

// Imports the copy of zod of a version that a file finds, itself or by way of the helper package; else the one that is here.
export async function importZod({ major, minor, patch } = {}, file) {
  const wanted = `${major}.${minor}.${patch}`;
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    for (const place of ["zod", "@opencode-ai/plugin/node_modules/zod"]) {
      const copy = join(folder, "node_modules", place);
      if (aboutOf(copy)?.version === wanted) return (await import(pathToFileURL(entryOf(copy)).href)).z;
    }
    if (folder === dirname(folder)) return (await import("./node_modules/zod/index.js")).z;
  }
}
