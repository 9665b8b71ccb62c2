/** Enumerations of the contract as string unions, so that they read well and narrow. */
import type { CallState, FailureReason, ToolEffect, ToolSource, WarningKind } from "./gen/toolgate/v1/call_pb.js";
import type { FileKind } from "./gen/toolgate/v1/file_service_pb.js";
import type { ReplyResult } from "./gen/toolgate/v1/permission_service_pb.js";
import type { GrantReach, PermissionAction, PromptDecision, PromptState } from "./gen/toolgate/v1/prompt_pb.js";
import type { CallOutcome } from "./gen/toolgate/v1/result_pb.js";
import type { Signal } from "./gen/toolgate/v1/terminal_pb.js";

/** Why a call failed. `UNSPECIFIED` stands for what this version of the library does not know. */
export type FailureReasonName = keyof typeof FailureReason;
/** How the result of a completed call is to be read. `UNSPECIFIED` stands for what this version does not know. */
export type CallOutcomeName = keyof typeof CallOutcome;
/** Where a call is in its life. */
export type CallStateName = keyof typeof CallState;
/** What a warning is about. `UNSPECIFIED` stands for what this version of the library does not know. */
export type WarningKindName = keyof typeof WarningKind;
/** Where a tool comes from. */
export type ToolSourceName = keyof typeof ToolSource;
/** What a tool may do to the world. */
export type ToolEffectName = keyof typeof ToolEffect;
/** Whether a prompt still waits. */
export type PromptStateName = keyof typeof PromptState;
/** What a person decided. */
export type PromptDecisionName = keyof typeof PromptDecision;
/** What a permission rule says. */
export type PermissionActionName = keyof typeof PermissionAction;
/** For whom a standing approval holds. */
export type GrantReachName = keyof typeof GrantReach;
/** What became of a reply. */
export type ReplyResultName = keyof typeof ReplyResult;

/** What an entry of a folder is. `UNSPECIFIED` stands for what this version of the library does not know. */
export type FileKindName = keyof typeof FileKind;
/** A signal that programs can be sent. */
export type SignalName = Exclude<keyof typeof Signal, "UNSPECIFIED">;

/** Returns the name of an enumeration's value. */
export function nameOf<E extends Record<string, string | number>>(names: E, value: number): keyof E & string {
  const name = names[value];
  return (typeof name === "string" ? name : "UNSPECIFIED") as keyof E & string;
}
