/**
 * The little that the adapters use of the frameworks, so that the library is built without them. They are real where the
 * adapters are tested, and where they are used: `tests/ecosystem/frameworks-typescript.sh` compiles without this file.
 */
declare module "ai" {
  export interface ToolCallPart {
    type: "tool-call";
    toolCallId: string;
    toolName: string;
    input: unknown;
  }
  export interface ToolApprovalRequest {
    type: "tool-approval-request";
    approvalId: string;
    toolCallId: string;
  }
  export interface ToolApprovalResponse {
    type: "tool-approval-response";
    approvalId: string;
    approved: boolean;
    reason?: string;
  }
  export interface ToolModelMessage {
    role: "tool";
    content: ToolApprovalResponse[];
  }
  export type ModelMessage = {
    content: string | (ToolCallPart | ToolApprovalRequest | ToolApprovalResponse | { type: "other" })[];
  };
  export interface ToolOptions {
    toolCallId: string;
    messages: ModelMessage[];
    abortSignal?: AbortSignal;
  }
  export type ToolSet = Record<string, object>;
  export function jsonSchema(schema: object): object;
  export function dynamicTool(tool: {
    description: string;
    inputSchema: object;
    needsApproval: (input: unknown, options: ToolOptions) => Promise<boolean>;
    execute: (input: unknown, options: ToolOptions) => AsyncIterable<unknown>;
    toModelOutput: (options: { output: unknown }) => object;
  }): object;
}

declare module "@langchain/core/messages" {
  export class ToolMessage {
    constructor(fields: never);
  }
}

declare module "@langchain/core/tools" {
  export class DynamicStructuredTool {
    name: string;
    invoke(input: unknown, config?: object): Promise<unknown>;
  }
  export function tool(run: never, fields: never): object;
}

declare module "@langchain/langgraph" {
  export function interrupt(value: unknown): unknown;
  export function isGraphBubbleUp(error: unknown): boolean;
}

declare module "@mastra/core/tools" {
  export interface CreatedTool {
    id: string;
  }
  export function createTool(options: {
    id: string;
    description: string;
    inputSchema: never;
    resumeSchema: never;
    execute: never;
    toModelOutput: never;
  }): CreatedTool;
}
