/** Makes the messages that start calls. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { type CallContextSchema, OnDisconnect, OutputMode } from "./gen/toolgate/v1/call_pb.js";
import type { ExecuteToolRequestSchema } from "./gen/toolgate/v1/tool_service_pb.js";
import type { CallDefaults, ExecuteOptions, ToolInput } from "./options.js";
import { duration } from "./time.js";
import { modelField } from "./tools.js";
import { CLIENT_NAME } from "./version.js";

/** The modes of output by their names here. */
export const OUTPUT_MODES = { full: OutputMode.FULL, tail: OutputMode.TAIL, none: OutputMode.NONE } as const;

/** What the service is to do when the stream is lost. */
export const ON_DISCONNECT = {
  reattach: OnDisconnect.KEEP,
  keep: OnDisconnect.KEEP,
  cancel: OnDisconnect.CANCEL,
} as const;

/** Returns in whose name a call is made. */
export function contextMessage(
  defaults: CallDefaults,
  clientIds: readonly string[],
  options: CallDefaults & Pick<ExecuteOptions, "messageId" | "extra">,
): MessageInitShape<typeof CallContextSchema> {
  return {
    workspace: options.workspace ?? defaults.workspace ?? "",
    sessionId: options.session ?? defaults.session ?? "",
    messageId: options.messageId ?? "",
    agent: options.agent ?? defaults.agent ?? "",
    clientKind: options.clientKind ?? defaults.clientKind ?? "",
    clientName: options.clientName ?? defaults.clientName ?? CLIENT_NAME,
    clientIds: [...clientIds],
    parentCallId: options.parentCallId ?? defaults.parentCallId ?? "",
    ...modelField(options.model ?? defaults.model),
    ...(options.extra ? { extra: options.extra } : {}),
  };
}

/** Returns the request that starts a call. */
export function executeMessage(
  defaults: CallDefaults,
  clientIds: readonly string[],
  callId: string,
  tool: string,
  input: ToolInput,
  options: ExecuteOptions,
): MessageInitShape<typeof ExecuteToolRequestSchema> {
  const inputJson = typeof input === "string" ? input : JSON.stringify(input);
  return {
    context: contextMessage(defaults, clientIds, options),
    callId,
    tool,
    arguments: { case: "inputJson", value: inputJson },
    onDisconnect: ON_DISCONNECT[options.onDisconnect ?? "reattach"],
    output: OUTPUT_MODES[options.output ?? "full"],
    ...(options.timeoutMs === undefined ? {} : { timeout: duration(options.timeoutMs) }),
  };
}
