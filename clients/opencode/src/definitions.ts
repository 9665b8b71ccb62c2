/**
 * What a model is told of the tools: Toolgate's own words and schemas, or, while it cannot be reached, a few of the plugin's.
 *
 * *Invariant:* every tool stands in for OpenCode's from the start, whether or not a service is there. A tool that nobody runs
 * is a failure that is seen; a tool that OpenCode runs itself would pass everything by.
 */
import { z } from "zod";
import type { Service } from "./service.js";

/** Which tools of OpenCode are replaced: those that reach files, programs and the network. */
export const REPLACED = ["bash", "read", "edit", "write", "apply_patch", "grep", "glob", "webfetch"] as const;

/** One of them. */
export type Replaced = (typeof REPLACED)[number];

/** How long OpenCode's start may wait for the list. */
const LOAD_TIMEOUT_MS = 3_000;

/** A model of the kind that is given `apply_patch` in the place of `edit` and `write`. */
const PATCHING = { providerId: "openai", modelId: "gpt-5" };

/** JSON Schema. */
type Schema = Readonly<Record<string, unknown>>;

/** What is told of a tool. */
export interface Told {
  readonly description: string;
  readonly schema: Schema;
}

/** The definitions, which become Toolgate's own as soon as it answers. */
export class Definitions {
  readonly #service: Service;
  readonly #told = new Map<string, Told>();

  constructor(service: Service) {
    this.#service = service;
  }

  /** Returns what to tell of a tool. */
  of(name: Replaced): Told {
    return this.#told.get(name) ?? UNTIL_THEN[name];
  }

  /** Whether they are Toolgate's own. */
  get loaded(): boolean {
    return this.#told.size > 0;
  }

  /** Asks Toolgate. Throws what it says if it cannot be asked. */
  async load(): Promise<void> {
    const signal = AbortSignal.timeout(LOAD_TIMEOUT_MS);
    const { client } = this.#service;
    const workspace = await this.#service.workspace();
    const [usual, patching] = await Promise.all([
      client.tools({ workspace, signal }),
      client.tools({ workspace, signal, model: PATCHING }),
    ]);
    for (const { name, description, inputSchema } of [...patching, ...usual]) {
      this.#told.set(name, { description, schema: inputSchema });
    }
  }
}

/**
 * Returns arguments as OpenCode wants them: a type of zod for each. They let everything through, since Toolgate checks what the
 * model wrote, and say as their schema what Toolgate says.
 */
export function argumentsOf({ schema }: Told): z.ZodRawShape {
  const required = new Set(Array.isArray(schema["required"]) ? schema["required"] : []);
  const properties = (schema["properties"] ?? {}) as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => [name, saying(property, required.has(name))]),
  );
}

function saying(schema: unknown, required: boolean): z.ZodType {
  const type = required ? z.any() : z.any().optional();
  type._zod.toJSONSchema = () => schema;
  return type;
}

/** A parameter: its type, and what it is. */
type Parameter = readonly [type: "string" | "number" | "boolean", description: string];
type Parameters = Readonly<Record<string, Parameter>>;

function told(description: string, required: Parameters, optional: Parameters = {}): Told {
  const properties = Object.fromEntries(
    Object.entries({ ...required, ...optional }).map(([name, [type, text]]) => [name, { type, description: text }]),
  );
  return {
    description,
    schema: { type: "object", properties, required: Object.keys(required) },
  };
}

/** Enough for a call that is made as soon as there is a service. */
export const UNTIL_THEN: Readonly<Record<Replaced, Told>> = {
  bash: told(
    "Runs a shell command in the project.",
    {
      command: ["string", "The command line."],
      description: ["string", "What it does, in five to ten words."],
    },
    {
      timeout: ["number", "Milliseconds that it may take."],
      workdir: ["string", "The folder to run it in."],
    },
  ),
  read: told(
    "Reads a file.",
    { filePath: ["string", "Its path."] },
    {
      offset: ["number", "The line to begin at."],
      limit: ["number", "How many lines."],
    },
  ),
  edit: told(
    "Replaces text in a file.",
    {
      filePath: ["string", "Its path."],
      oldString: ["string", "The text."],
      newString: ["string", "What takes its place."],
    },
    { replaceAll: ["boolean", "Wherever it stands."] },
  ),
  write: told("Writes a file.", {
    filePath: ["string", "Its path."],
    content: ["string", "All that it shall have."],
  }),
  apply_patch: told("Applies a patch to files.", {
    patchText: ["string", "The patch."],
  }),
  grep: told(
    "Looks for text in files by a regular expression.",
    { pattern: ["string", "The expression."] },
    {
      path: ["string", "The folder."],
      include: ["string", "Which files, as a glob."],
    },
  ),
  glob: told("Finds files by name.", { pattern: ["string", "The glob."] }, { path: ["string", "The folder."] }),
  webfetch: told(
    "Fetches a page.",
    {
      url: ["string", "Its address."],
      format: ["string", "text, markdown or html."],
    },
    { timeout: ["number", "Seconds that it may take."] },
  ),
};
