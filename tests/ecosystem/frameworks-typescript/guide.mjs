/**
 * Writes the programs of `docs/guides/frameworks.md` as modules, each with a model that says what a script says:
 * `node guide.mjs PAGE FOLDER`. What they are to print goes into `FOLDER/printed.txt`.
 */
import { readFileSync, writeFileSync } from "node:fs";

const [page, folder] = process.argv.slice(2);
const guide = readFileSync(page, "utf8");
const programs = [...guide.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code);
const scripted = {
  ai: [
    'import { openai } from "@ai-sdk/openai";',
    'import { openai as model } from "./scripted.js";\nconst openai = (_name: string) => model();',
  ],
  langchain: [
    'model: "openai:gpt-5"',
    "model: new Scripted()",
    'import { Scripted } from "./scripted-langchain.js";\n',
  ],
  mastra: ['model: "openai/gpt-5"', "model: openai() as never", 'import { openai } from "./scripted.js";\n'],
};
for (const [framework, [named, given, head = ""]] of Object.entries(scripted)) {
  const [program, another] = programs.filter((code) => code.includes(`"toolgate/${framework}"`));
  if (!program?.includes(named) || another) {
    throw new Error(`${page}: there has to be one program for toolgate/${framework}, with ${named}`);
  }
  writeFileSync(`${folder}/${framework}.ts`, head + program.replace(named, given));
}
writeFileSync(`${folder}/printed.txt`, [...guide.matchAll(/^```text\n(.*?)^```$/gms)].map(([, text]) => text).join(""));
