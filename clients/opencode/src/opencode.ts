/**
 * What the plugin uses of OpenCode, as 1.1 and 1.18 both have it.
 *
 * Written down here, because the two versions' own types differ, and leave out what is there at run time.
 */
import type { z } from "zod";

/** What a plugin is given. */
export interface PluginInput {
  /** The client of OpenCode's own server. */
  readonly client: OpenCodeClient;
  /** The folder that OpenCode works in. */
  readonly directory: string;
  /** Where OpenCode's server listens. */
  readonly serverUrl?: URL;
  /** Set by a Toolgate that runs the plugins of the project, this one too. */
  readonly toolgate?: boolean;
}

/** The part of OpenCode's client that is used here. */
export interface OpenCodeClient {
  readonly app: {
    log(request: {
      body: {
        service: string;
        level: "info" | "warn" | "error";
        message: string;
      };
    }): Promise<unknown>;
  };
  postSessionIdPermissionsPermissionId(request: {
    path: { id: string; permissionID: string };
    body: { response: "once" | "always" | "reject" };
  }): Promise<unknown>;
  /** What it is built on: for routes of the server that have no method. */
  readonly _client?: {
    patch(request: {
      url: string;
      path: Record<string, string>;
      body: unknown;
      headers: Record<string, string>;
    }): Promise<unknown>;
  };
}

/** A request for a permission, which OpenCode judges by its own rules before it shows a dialog. */
export interface Ask {
  readonly permission: string;
  readonly patterns: string[];
  readonly always: string[];
  readonly metadata: Record<string, unknown>;
}

/** What a tool is given beside its arguments. */
export interface ToolContext {
  readonly sessionID: string;
  readonly messageID: string;
  readonly callID?: string;
  readonly agent: string;
  readonly abort: AbortSignal;
  metadata(progress: { title?: string; metadata?: Record<string, unknown> }): unknown;
  ask(request: Ask): Promise<void>;
}

/** A tool that a plugin brings. */
export interface ToolDefinition {
  readonly description: string;
  readonly args: z.ZodRawShape;
  execute(args: Record<string, unknown>, context: ToolContext): Promise<string>;
}

/** A file that belongs to a result, as OpenCode keeps it. */
export interface FilePart {
  readonly id: string;
  readonly sessionID: string;
  readonly messageID: string;
  readonly type: "file";
  readonly mime: string;
  readonly url: string;
  readonly filename?: string;
}

/** A result, as the hook behind a tool may change it. */
export interface ToolResult {
  title: string;
  output: string;
  metadata: Record<string, unknown>;
  attachments?: FilePart[];
}

/** What happens in OpenCode. Versions differ in what they tell. */
export interface OpenCodeEvent {
  readonly type: string;
  readonly properties?: Record<string, unknown>;
}

/** The part of OpenCode's configuration that is changed here. */
export interface OpenCodeConfig {
  permission?: Permissions;
  agent?: Record<string, { permission?: Permissions } | undefined>;
  mode?: Record<string, { permission?: Permissions } | undefined>;
}

/** A block of rules: one action for everything, or actions by name. */
export type Permissions = string | Record<string, unknown>;

/** The hooks that are used here. */
export interface Hooks {
  tool?: Record<string, ToolDefinition>;
  config?(config: OpenCodeConfig): Promise<void>;
  event?(input: { event: OpenCodeEvent }): Promise<void>;
  dispose?(): Promise<void>;
  "chat.params"?(input: {
    sessionID: string;
    model: {
      providerID: string;
      id: string;
      api?: { id?: string; npm?: string };
    };
  }): Promise<void>;
  "tool.definition"?(input: { toolID: string }, output: { description: string; jsonSchema?: unknown }): Promise<void>;
  "tool.execute.after"?(input: { tool: string; sessionID: string; callID: string }, output: ToolResult): Promise<void>;
}
