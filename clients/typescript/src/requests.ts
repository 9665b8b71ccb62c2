/** Makes the messages that start calls. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type CallContextSchema,
  type CallStartSchema,
  OnDisconnect,
  OutputMode,
  Unattended,
} from "./gen/toolgate/v1/call_pb.js";
import type { EvaluateCallRequestSchema, ExecuteToolRequestSchema } from "./gen/toolgate/v1/tool_service_pb.js";
import { uuidv7 } from "./ids.js";
import type { CallDefaults, ChangeOptions, EvaluateOptions, ExecuteOptions, ToolInput } from "./options.js";
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

const UNATTENDED = { refuse: Unattended.REFUSE, wait: Unattended.WAIT } as const;

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

/** Returns how an RPC makes the call that does its work. */
export function callMessage(
  context: MessageInitShape<typeof CallContextSchema>,
  options: ChangeOptions,
): MessageInitShape<typeof CallStartSchema> {
  return {
    context,
    callId: options.callId ?? uuidv7(),
    unattended: UNATTENDED[options.unattended ?? "refuse"],
    ...(options.waitTimeoutMs === undefined ? {} : { waitTimeout: duration(options.waitTimeoutMs) }),
  };
}

/** Returns the arguments of a call. */
function argumentsField(input: ToolInput) {
  const value = typeof input === "string" ? input : JSON.stringify(input);
  return { arguments: { case: "inputJson", value } } as const;
}

/** Returns the request that says what a call would ask. */
export function evaluateMessage(
  defaults: CallDefaults,
  clientIds: readonly string[],
  tool: string,
  input: ToolInput,
  options: EvaluateOptions,
): MessageInitShape<typeof EvaluateCallRequestSchema> {
  return { context: contextMessage(defaults, clientIds, options), tool, ...argumentsField(input) };
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
  return {
    context: contextMessage(defaults, clientIds, options),
    callId,
    tool,
    ...argumentsField(input),
    onDisconnect: ON_DISCONNECT[options.onDisconnect ?? "reattach"],
    output: OUTPUT_MODES[options.output ?? "full"],
    ...(options.timeoutMs === undefined ? {} : { timeout: duration(options.timeoutMs) }),
  };
}
