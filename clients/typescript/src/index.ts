/**
 * Toolgate for TypeScript, on any transport. Programs on Node import `toolgate/node`, pages `toolgate/web`; both have
 * everything that is here, and `connect`.
 */
export {
  Approvals,
  type ApprovalsOptions,
  type PromptContext,
  type PromptHandler,
  type ReplyOutcome,
} from "./approvals.js";
export type {
  CallEvent,
  ChildEvent,
  CompletedEvent,
  FailedEvent,
  GapEvent,
  ListeningEvent,
  MetadataEvent,
  OutputEvent,
  PendingEvent,
  ResumedEvent,
  RunningEvent,
  WaitingEvent,
  WarningEvent,
} from "./call-events.js";
export { Client, type OpenedWorkspace } from "./client.js";
export { type ErrorCode, ToolgateError, type ToolgateErrorDetails } from "./errors.js";
export type { EvaluatedRequest, Evaluation } from "./evaluation.js";
export { Execution } from "./execution.js";
export {
  type ArchiveEnd,
  type Change,
  type Content,
  CursorTooOldError,
  type DeleteOptions,
  type DownloadOptions,
  type FileChange,
  type FileContent,
  type FileInfo,
  Files,
  type FilesChanged,
  type FilesMissed,
  type FilesNews,
  type FilesWatched,
  type ListOptions,
  type MoveOptions,
  type StatOptions,
  type UploadArchiveOptions,
  type WatchFilesOptions,
  type WriteOptions,
} from "./files.js";
export { anthropicResult, geminiResult, openaiResponsesResult, openaiResult } from "./forms.js";
export type { Call } from "./gen/toolgate/v1/call_pb.js";
export type { GetServerInfoResponse, WorkspaceInfo } from "./gen/toolgate/v1/info_service_pb.js";
export type {
  CompleteMcpArgumentResponse,
  GetMcpPromptResponse,
  McpOmission,
  McpPrompt,
  McpResource,
  McpResourceTemplate,
  ReadMcpResourceResponse,
} from "./gen/toolgate/v1/mcp_service_pb.js";
export type { Output as OutputInfo, SearchOutputResponse } from "./gen/toolgate/v1/output_service_pb.js";
export type { Session, Todo } from "./gen/toolgate/v1/session_service_pb.js";
export { Host, type HostOptions, type HostReady } from "./host.js";
export {
  type AskOptions,
  defineTool,
  type Hook,
  type HookContext,
  type HookPoint,
  type HostContext,
  type HostedAttachment,
  type HostedFunction,
  type HostedResult,
  type HostedTool,
  type InvocationContext,
  PermissionDeniedError,
  type SubagentContext,
  type SubagentRunner,
  type SubagentTask,
} from "./hosted-tool.js";
export type { Patience, Rpc } from "./link.js";
export { type McpArgumentOwner, type McpCompleteOptions, type McpListOptions, McpServers } from "./mcp.js";
export type {
  CallOutcomeName,
  CallStateName,
  FailureReasonName,
  FileKindName,
  GrantReachName,
  PermissionActionName,
  PromptDecisionName,
  PromptStateName,
  ReplyResultName,
  SignalName,
  ToolEffectName,
  ToolSourceName,
  WarningKindName,
} from "./names.js";
export type {
  CallDefaults,
  CallsOptions,
  ChangeOptions,
  ClientOptions,
  CommonOptions,
  EvaluateOptions,
  ExecuteOptions,
  OpenPortOptions,
  OpenWorkspaceOptions,
  OutputsOptions,
  RevertOptions,
  SendInputOptions,
  SignalOptions,
  ToolInput,
  WatchOptions,
  WorkspacesOptions,
} from "./options.js";
export { type LinesOptions, Output, type ReadOptions, type SearchOptions } from "./outputs.js";
export { type ListeningPort, OpenedPort, type PortConnection } from "./ports.js";
export {
  type AlwaysOptions,
  type AskedPermission,
  type AskedQuestions,
  always,
  answer,
  type Decision,
  instead,
  once,
  type PermissionPart,
  type PermissionPrompt,
  type PermissionRule,
  type Prompt,
  promptOf,
  type Question,
  type QuestionPrompt,
  reject,
} from "./prompts.js";
export {
  type Attachment,
  CallFailedError,
  type CallResult,
  type CompletedResult,
  type FailedResult,
  orThrow,
  resultOf,
  type Timing,
  type Truncation,
} from "./results.js";
export type { SchemaLike } from "./schema.js";
export type { EventsOptions, ServiceEvent } from "./service-events.js";
export type { InputSent, TerminalPicture, TerminalSize } from "./terminals.js";
export type {
  AnthropicTool,
  GeminiTools,
  ModelRef,
  OpenAIResponsesTool,
  OpenAITool,
  Tool,
  ToolQuery,
  ToolsOptions,
} from "./tools.js";
export type { Token } from "./transport.js";
