/** How calls end. A failed call is a result, which the model has to read; it is not an exception. */
import type { JsonObject } from "@bufbuild/protobuf";
import {
  type Attachment as AttachmentMessage,
  type Call,
  type CallCompleted,
  type CallFailed,
  FailureReason,
  type Timing as TimingMessage,
  type Truncation as TruncationMessage,
} from "./gen/toolgate/v1/call_pb.js";
import { CallOutcome } from "./gen/toolgate/v1/result_pb.js";
import { type CallOutcomeName, type FailureReasonName, nameOf } from "./names.js";
import { milliseconds } from "./time.js";

/** A file that belongs to a result: its bytes, or where to fetch them. */
export interface Attachment {
  /** Unique within the service. */
  readonly id: string;
  /** The media type. */
  readonly mime: string;
  /** The name of the file it came from, or empty. */
  readonly filename: string;
  /** The bytes. */
  readonly data?: Uint8Array;
  /** Where to fetch it. */
  readonly url?: string;
}

/** What the model sees of the whole output, and where the whole is. */
export interface Truncation {
  /** Whether the model sees less than the whole. */
  readonly truncated: boolean;
  /** The stored output, for {@link Client.output}; empty if the call stored none. */
  readonly outputId: string;
  /** Its file on the service's machine. */
  readonly path: string;
  /** Bytes of the whole. */
  readonly totalBytes: number;
  /** Lines of the whole. */
  readonly totalLines: number;
}

/** How a call spent its time, in milliseconds. */
export interface Timing {
  /** Until the tool started. */
  readonly queuedMs: number;
  /** Waiting for people. */
  readonly waitedMs: number;
  /** Running. */
  readonly ranMs: number;
}

interface ResultBase {
  /** The call. */
  readonly callId: string;
  /** A short text for people. */
  readonly title: string;
  /** The text for the model: the output, or the error. */
  readonly text: string;
  /** All metadata. */
  readonly metadata: JsonObject;
  /** Files that belong to the result. */
  readonly attachments: readonly Attachment[];
  /** What truncation did. */
  readonly truncation: Truncation | undefined;
  /** How long it took. */
  readonly timing: Timing | undefined;
}

/** A call that ended with a result. */
export interface CompletedResult extends ResultBase {
  /** It completed. */
  readonly ok: true;
  /** The text for the model. */
  readonly output: string;
  /** How it is to be read: a command may have ended with another exit code than 0, for instance. */
  readonly outcome: CallOutcomeName;
  /** The exit code of the command that the call ran; undefined if it ran none, or if a signal ended it. */
  readonly exitCode: number | undefined;
  /** The message of the contract. */
  readonly message: CallCompleted;
}

/**
 * A call that ended without one. What it reached is kept. So does one of which the service could not understand the name
 * of the tool or the JSON: its record completes with a text for the model, but nothing ran.
 */
export interface FailedResult extends ResultBase {
  /** It failed. */
  readonly ok: false;
  /** Why, for programs. */
  readonly reason: FailureReasonName;
  /** Why, for the model. */
  readonly error: string;
  /** The message of the contract; the record of a call that was not understood has a `CallCompleted`. */
  readonly message: CallFailed | CallCompleted;
}

/** How a call ended; `ok` says which. */
export type CallResult = CompletedResult | FailedResult;

/** Thrown by {@link orThrow} for a call that failed. */
export class CallFailedError extends Error {
  /** The failure. */
  readonly result: FailedResult;

  constructor(result: FailedResult) {
    super(`${result.callId} failed (${result.reason}): ${result.error}`);
    this.name = "CallFailedError";
    this.result = result;
  }
}

/** Returns a completed result; throws {@link CallFailedError} for a failed one. */
export function orThrow(result: CallResult): CompletedResult {
  if (!result.ok) {
    throw new CallFailedError(result);
  }
  return result;
}

/** Returns the result of a completed call: a failure if the call was not understood. */
export function completedResult(callId: string, message: CallCompleted): CallResult {
  if (message.outcome === CallOutcome.INVALID) {
    const { output: error } = message;
    return { ok: false, callId, text: error, error, reason: "INVALID_ARGUMENTS", ...common(message), message };
  }
  const outcome = nameOf(CallOutcome, message.outcome);
  const exitCode = message.result.case === "command" ? message.result.value.exitCode : undefined;
  const { output } = message;
  return { ok: true, callId, text: output, output, outcome, exitCode, ...common(message), message };
}

/** Returns the result of a failed call. */
export function failedResult(callId: string, message: CallFailed): FailedResult {
  const reason = nameOf(FailureReason, message.reason);
  return { ok: false, callId, text: message.error, error: message.error, reason, ...common(message), message };
}

/** Returns how the call of a record ended, if it did. */
export function resultOf(call: Call): CallResult | undefined {
  switch (call.ending.case) {
    case "completed":
      return completedResult(call.callId, call.ending.value);
    case "failed":
      return failedResult(call.callId, call.ending.value);
    case undefined:
      return undefined;
  }
}

function common(message: CallCompleted | CallFailed) {
  return {
    title: message.title,
    metadata: message.metadata ?? {},
    attachments: message.attachments.map(attachment),
    truncation: message.truncation && truncation(message.truncation),
    timing: message.timing && timing(message.timing),
  };
}

function attachment({ attachmentId: id, mime, filename, content }: AttachmentMessage): Attachment {
  switch (content.case) {
    case "data":
      return { id, mime, filename, data: content.value };
    case "url":
      return { id, mime, filename, url: content.value };
    case undefined:
      return { id, mime, filename };
  }
}

function truncation(message: TruncationMessage): Truncation {
  const { truncated, outputId, path, totalBytes, totalLines } = message;
  return { truncated, outputId, path, totalBytes: Number(totalBytes), totalLines: Number(totalLines) };
}

function timing({ queued, waited, ran }: TimingMessage): Timing {
  return {
    queuedMs: queued ? milliseconds(queued) : 0,
    waitedMs: waited ? milliseconds(waited) : 0,
    ranMs: ran ? milliseconds(ran) : 0,
  };
}
