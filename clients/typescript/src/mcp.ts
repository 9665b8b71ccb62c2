/** What MCP servers of a workspace have beside tools: resources and prompts, for front ends that let people pick them. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions } from "@connectrpc/connect";
import type { CallContextSchema } from "./gen/toolgate/v1/call_pb.js";
import type {
  CompleteMcpArgumentResponse,
  GetMcpPromptResponse,
  McpOmission,
  McpPrompt,
  McpResource,
  McpResourceTemplate,
  ReadMcpResourceResponse,
} from "./gen/toolgate/v1/mcp_service_pb.js";
import { ANY_TIME, type Link } from "./link.js";
import type { ChangeOptions, SignalOptions } from "./options.js";
import { callMessage } from "./requests.js";

/** What is listed of MCP servers. */
export interface McpListOptions extends SignalOptions {
  /** The server, as the configuration names it; all by default. */
  readonly server?: string | undefined;
  /** How many entries one RPC lists. */
  readonly pageSize?: number | undefined;
  /** Called before the first entry, if the list of all servers lacks some of them: with those, and why. */
  readonly onOmitted?: ((omitted: readonly McpOmission[]) => void) | undefined;
}

/** Whose argument is completed: a prompt's or a template's. */
export type McpArgumentOwner = { readonly prompt: string } | { readonly uriTemplate: string };

/** How an argument is completed. */
export interface McpCompleteOptions extends SignalOptions {
  /** What is typed of it so far. */
  readonly value?: string | undefined;
  /** Other arguments that are given already. */
  readonly arguments?: Readonly<Record<string, string>> | undefined;
}

type Context = MessageInitShape<typeof CallContextSchema>;

interface ListRequest {
  readonly context: Context;
  readonly server: string;
  readonly pageSize: number;
  readonly pageToken: string;
}

interface Page {
  readonly omitted: readonly McpOmission[];
  readonly nextPageToken: string;
}

/**
 * The MCP servers of a workspace, in the name of one session and agent, whose rules for `read` decide. Made by
 * {@link Client.mcp}.
 *
 * Lists and completions ask nobody: what a person would have to be asked about is refused (PERMISSION_NEEDED), and what a
 * rule denies is not in lists. `read` and `prompt` are calls, which people may be asked about for as long as that takes; the
 * metadata of their errors has `call_id`. Nothing that a server says is to be trusted.
 */
export class McpServers {
  readonly #link: Link;
  readonly #context: Context;

  /** @internal */
  constructor(link: Link, context: Context) {
    this.#link = link;
    this.#context = context;
  }

  /** Lists the resources: by server, in the order of the configuration. */
  async *resources(options: McpListOptions = {}): AsyncGenerator<McpResource, void, undefined> {
    for await (const page of this.#pages(this.#link.rpc.mcp.listMcpResources, options)) {
      yield* page.resources;
    }
  }

  /** Lists the templates from which addresses of resources are made. */
  async *templates(options: McpListOptions = {}): AsyncGenerator<McpResourceTemplate, void, undefined> {
    for await (const page of this.#pages(this.#link.rpc.mcp.listMcpResourceTemplates, options)) {
      yield* page.templates;
    }
  }

  /** Lists the prompts. */
  async *prompts(options: McpListOptions = {}): AsyncGenerator<McpPrompt, void, undefined> {
    for await (const page of this.#pages(this.#link.rpc.mcp.listMcpPrompts, options)) {
      yield* page.prompts;
    }
  }

  /** Reads a resource by its address. The server need not have listed it. */
  read(server: string, uri: string, options: ChangeOptions = {}): Promise<ReadMcpResourceResponse> {
    const request = { call: callMessage(this.#context, options), server, uri };
    return this.#waiting((call) => this.#link.rpc.mcp.readMcpResource(request, call), options);
  }

  /** Gets the messages that a server makes of a prompt. MCP_ARGUMENT_MISSING means that it requires another argument. */
  prompt(
    server: string,
    name: string,
    args: Readonly<Record<string, string>> = {},
    options: ChangeOptions = {},
  ): Promise<GetMcpPromptResponse> {
    const request = { call: callMessage(this.#context, options), server, name, arguments: { ...args } };
    return this.#waiting((call) => this.#link.rpc.mcp.getMcpPrompt(request, call), options);
  }

  /** Suggests values for an argument, the best first. */
  complete(
    server: string,
    owner: McpArgumentOwner,
    argument: string,
    { value = "", arguments: others = {}, signal }: McpCompleteOptions = {},
  ): Promise<CompleteMcpArgumentResponse> {
    const request = {
      context: this.#context,
      server,
      owner:
        "prompt" in owner
          ? ({ case: "prompt", value: owner.prompt } as const)
          : ({ case: "uriTemplate", value: owner.uriTemplate } as const),
      argument,
      value,
      arguments: { ...others },
    };
    return this.#link.retrying((call) => this.#link.rpc.mcp.completeMcpArgument(request, call), { signal });
  }

  #waiting<T>(call: (options: CallOptions) => Promise<T>, { signal }: ChangeOptions): Promise<T> {
    return this.#link.retrying(call, { signal, timeoutMs: ANY_TIME });
  }

  async *#pages<T extends Page>(
    list: (request: ListRequest, options: CallOptions) => Promise<T>,
    { server = "", pageSize = 0, signal, onOmitted }: McpListOptions,
  ): AsyncGenerator<T, void, undefined> {
    const request = { context: this.#context, server, pageSize };
    const pages = this.#link.pages((pageToken, call) => list({ ...request, pageToken }, call), signal);
    let first = true;
    for await (const page of pages) {
      // Each page says the same.
      if (first && page.omitted.length > 0) {
        onOmitted?.(page.omitted);
      }
      first = false;
      yield page;
    }
  }
}
