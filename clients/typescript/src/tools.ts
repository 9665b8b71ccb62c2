/** What tools there are, and the forms in which model APIs want to be told of them. */
import type { JsonObject } from "@bufbuild/protobuf";
import { ToolgateError } from "./errors.js";
import { type ToolDefinition, ToolEffect, ToolSource } from "./gen/toolgate/v1/call_pb.js";
import type { Link } from "./link.js";
import { nameOf, type ToolEffectName, type ToolSourceName } from "./names.js";

/** A model, as the caller names it. */
export interface ModelRef {
  /** The provider's id: `anthropic`, `openai`, `google`, … */
  readonly providerId: string;
  /** The provider's name for the model. */
  readonly modelId?: string | undefined;
  /** The npm package through which the model is reached; see `ModelRef` of the contract. */
  readonly package?: string | undefined;
}

/** For whom tools are listed. What is left out is what the client was made with. */
export interface ToolsOptions {
  /** The workspace's name. */
  readonly workspace?: string | undefined;
  /** The agent. */
  readonly agent?: string | undefined;
  /** The model. It decides which tools are listed, and in what form their schemas are. */
  readonly model?: ModelRef | undefined;
  /** The kind of client. */
  readonly clientKind?: string | undefined;
  /** The call on whose behalf the agent works. */
  readonly parentCallId?: string | undefined;
  /** How many tools one RPC lists. */
  readonly pageSize?: number | undefined;
  /** Gives the listing up. */
  readonly signal?: AbortSignal | undefined;
}

/** What a model and a front end are told about a tool. */
export interface Tool {
  /** The name that a call uses. */
  readonly name: string;
  /** The text for the model. */
  readonly description: string;
  /** JSON Schema of the input. */
  readonly inputSchema: JsonObject;
  /** Where the tool comes from. */
  readonly source: ToolSourceName;
  /** What it may do. */
  readonly effects: readonly ToolEffectName[];
  /** The permissions that it may ask for. */
  readonly permissions: readonly string[];
  /** Whether the tool may change or vanish without notice. */
  readonly experimental: boolean;
  /** The message of the contract. */
  readonly message: ToolDefinition;
}

/** A tool in the form of OpenAI's chat completions, which many other servers take. */
export interface OpenAITool {
  readonly type: "function";
  readonly function: { readonly name: string; readonly description: string; readonly parameters: JsonObject };
}

/** A tool in the form of OpenAI's responses. */
export interface OpenAIResponsesTool {
  readonly type: "function";
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
  /** Strict mode, the default there, takes only schemas that require every property. */
  readonly strict: false;
}

/** A tool in the form of Anthropic's messages. */
export interface AnthropicTool {
  readonly name: string;
  readonly description: string;
  readonly input_schema: JsonObject;
}

/** Tools in the form of Gemini. */
export interface GeminiTools {
  readonly functionDeclarations: readonly {
    readonly name: string;
    readonly description: string;
    readonly parameters: JsonObject;
  }[];
}

/**
 * A listing of tools. Awaiting it gives their definitions; a method gives them in the form of a model API, listed for a
 * model of that provider unless another one was named.
 */
export class ToolQuery implements Promise<Tool[]> {
  readonly #link: Link;
  readonly #options: ToolsOptions;

  /** @internal */
  constructor(link: Link, options: ToolsOptions) {
    this.#link = link;
    this.#options = options;
  }

  /** Lists the tools, all pages. */
  async list(): Promise<Tool[]> {
    return listTools(this.#link, this.#options);
  }

  /** Lists the tools for `tools` of OpenAI's chat completions. */
  async openai(): Promise<OpenAITool[]> {
    const tools = await this.#for("openai");
    return tools.map(({ name, description, inputSchema }) => ({
      type: "function",
      function: { name, description, parameters: inputSchema },
    }));
  }

  /** Lists the tools for `tools` of OpenAI's responses. */
  async openaiResponses(): Promise<OpenAIResponsesTool[]> {
    const tools = await this.#for("openai");
    return tools.map(({ name, description, inputSchema: parameters }) => ({
      type: "function",
      name,
      description,
      parameters,
      strict: false,
    }));
  }

  /** Lists the tools for `tools` of Anthropic's messages. */
  async anthropic(): Promise<AnthropicTool[]> {
    const tools = await this.#for("anthropic");
    return tools.map(({ name, description, inputSchema }) => ({ name, description, input_schema: inputSchema }));
  }

  /** Lists the tools for `tools` of Gemini. */
  async gemini(): Promise<GeminiTools[]> {
    const tools = await this.#for("google");
    const declare = ({ name, description, inputSchema }: Tool) => ({ name, description, parameters: inputSchema });
    return [{ functionDeclarations: tools.map(declare) }];
  }

  get [Symbol.toStringTag](): string {
    return "ToolQuery";
  }

  // biome-ignore lint/suspicious/noThenProperty: awaiting the listing is what it is for.
  then<A = Tool[], B = never>(
    fulfilled?: ((tools: Tool[]) => A | PromiseLike<A>) | null,
    rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.list().then(fulfilled, rejected);
  }

  catch<B = never>(rejected?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Tool[] | B> {
    return this.list().catch(rejected);
  }

  finally(settled?: (() => void) | null): Promise<Tool[]> {
    return this.list().finally(settled);
  }

  #for(providerId: string): Promise<Tool[]> {
    return listTools(this.#link, { ...this.#options, model: this.#options.model ?? { providerId } });
  }
}

async function listTools(link: Link, options: ToolsOptions): Promise<Tool[]> {
  const { workspace = "", agent = "", clientKind = "", parentCallId = "", pageSize = 0 } = options;
  const request = { workspace, agent, clientKind, parentCallId, pageSize, ...modelField(options.model) };
  const tools: Tool[] = [];
  const pages = link.pages(
    (pageToken, call) => link.rpc.tools.listTools({ ...request, pageToken }, call),
    options.signal,
  );
  for await (const page of pages) {
    tools.push(...page.tools.map(toolOf));
  }
  return tools;
}

/** Returns the field `model` of a request, if there is a model. */
export function modelField(model: ModelRef | undefined) {
  return model
    ? { model: { providerId: model.providerId, modelId: model.modelId ?? "", package: model.package ?? "" } }
    : {};
}

/** Returns a definition of the contract as the library shows it. */
export function toolOf(message: ToolDefinition): Tool {
  return {
    name: message.name,
    description: message.description,
    inputSchema: schemaOf(message),
    source: nameOf(ToolSource, message.source),
    effects: message.effects.map((effect) => nameOf(ToolEffect, effect)),
    permissions: message.permissions,
    experimental: message.experimental,
    message,
  };
}

function schemaOf({ name, inputSchemaJson }: ToolDefinition): JsonObject {
  try {
    return JSON.parse(inputSchemaJson || "{}") as JsonObject;
  } catch (cause) {
    throw new ToolgateError("DATA_LOSS", `the schema of the tool ${name} is not JSON`, { cause });
  }
}
