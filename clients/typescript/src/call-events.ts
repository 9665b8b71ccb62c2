/** What happens to a call, as a discriminated union. */
import type { JsonObject } from "@bufbuild/protobuf";
import { type CallEvent as CallEventMessage, WarningKind } from "./gen/toolgate/v1/call_pb.js";
import { PromptDecision, PromptState } from "./gen/toolgate/v1/prompt_pb.js";
import { nameOf, type PromptDecisionName, type PromptStateName, type WarningKindName } from "./names.js";
import { type ListeningPort, listeningPortOf } from "./ports.js";
import { type Prompt, promptOf } from "./prompts.js";
import { type CompletedResult, completedResult, type FailedResult, failedResult } from "./results.js";
import { date } from "./time.js";

interface EventBase {
  /** The call. */
  readonly callId: string;
  /** Counts from 1 without gaps. */
  readonly sequence: number;
  /** When it happened. */
  readonly time: Date | undefined;
  /** The message of the contract. */
  readonly message: CallEventMessage;
}

/** The call is admitted and recorded. */
export interface PendingEvent extends EventBase {
  readonly type: "pending";
  /** The tool that will run. */
  readonly tool: string;
  /** The name that was asked for. */
  readonly requestedTool: string;
  /** A first title, made from the input. */
  readonly title: string;
  /** What the call touches, one line: a command, a path, a URL, a pattern. */
  readonly summary: string;
}

/** The tool starts. Nothing changes the input after this. */
export interface RunningEvent extends EventBase {
  readonly type: "running";
  /** The frozen input: canonical JSON. */
  readonly inputJson: string;
  /** Its SHA-256. */
  readonly inputDigest: string;
  /** The title so far. */
  readonly title: string;
}

/** Title or metadata changed. */
export interface MetadataEvent extends EventBase {
  readonly type: "metadata";
  /** The new title; undefined if it did not change. */
  readonly title: string | undefined;
  /** A patch: an absent key stays, null clears a key, any other value replaces the key's whole value. */
  readonly metadata: JsonObject;
}

/** The tool produced output. */
export interface OutputEvent extends EventBase {
  readonly type: "output";
  /** The stored output that the bytes belong to. */
  readonly outputId: string;
  /** Absolute offset of the first byte. */
  readonly offset: number;
  /** The bytes; never split inside a character that the tool wrote whole. */
  readonly data: Uint8Array;
}

/** The call waits for a person. */
export interface WaitingEvent extends EventBase {
  readonly type: "waiting";
  /** What is asked. */
  readonly prompt: Prompt;
  /** How many approvers are connected at this moment. */
  readonly approvers: number;
}

/** The wait is over. */
export interface ResumedEvent extends EventBase {
  readonly type: "resumed";
  /** Which prompt. */
  readonly promptId: string;
  /** The state it ended in. */
  readonly state: PromptStateName;
  /** What was decided; UNSPECIFIED if nobody decided. */
  readonly decision: PromptDecisionName;
  /** Feedback for the model, given with a rejection. */
  readonly feedback: string;
  /** Who replied, or empty. */
  readonly resolvedBy: string;
}

/** Something a person should know that does not end the call. */
export interface WarningEvent extends EventBase {
  readonly type: "warning";
  /** A stable word. */
  readonly kind: WarningKindName;
  /** A sentence. */
  readonly text: string;
}

/** The call made another one. */
export interface ChildEvent extends EventBase {
  readonly type: "child";
  /** The other call. */
  readonly childCallId: string;
  /** Its tool. */
  readonly tool: string;
}

/** A program of the call began or ceased to listen on a port; {@link Client.openPort} reaches it. */
export interface ListeningEvent extends EventBase {
  readonly type: "listening";
  /** All that its programs listen on now. */
  readonly ports: readonly ListeningPort[];
}

/** Events that this stream leaves out; its own sequence is that of the last one. */
export interface GapEvent extends EventBase {
  readonly type: "gap";
  /** The first event left out. */
  readonly firstSequence: number;
  /** The last event left out. */
  readonly lastSequence: number;
  /** Bytes of output left out. */
  readonly outputBytes: number;
}

/** The call ended with a result. The last event. */
export interface CompletedEvent extends EventBase {
  readonly type: "completed";
  /** The result. */
  readonly result: CompletedResult;
}

/** The call ended without a result. The last event. */
export interface FailedEvent extends EventBase {
  readonly type: "failed";
  /** The failure. */
  readonly result: FailedResult;
}

/** Something that happened to a call; `type` says what. */
export type CallEvent =
  | PendingEvent
  | RunningEvent
  | MetadataEvent
  | OutputEvent
  | WaitingEvent
  | ResumedEvent
  | WarningEvent
  | ChildEvent
  | ListeningEvent
  | GapEvent
  | CompletedEvent
  | FailedEvent;

/** Returns an event of the contract as the library shows it; undefined for a heartbeat and for what it does not know. */
export function callEventOf(message: CallEventMessage): CallEvent | undefined {
  const { callId, event } = message;
  const base = { callId, sequence: Number(message.sequence), time: date(message.eventTime), message };
  switch (event.case) {
    case "pending": {
      const { tool, requestedTool, title, summary } = event.value;
      return { ...base, type: "pending", tool, requestedTool, title, summary };
    }
    case "running": {
      const { inputJson, inputDigest, title } = event.value;
      return { ...base, type: "running", inputJson, inputDigest, title };
    }
    case "metadata":
      return { ...base, type: "metadata", title: event.value.title, metadata: event.value.metadata ?? {} };
    case "output": {
      const { outputId, offset, data } = event.value;
      return { ...base, type: "output", outputId, offset: Number(offset), data };
    }
    case "waiting": {
      const { prompt, approvers } = event.value;
      return prompt && { ...base, type: "waiting", prompt: promptOf(prompt), approvers };
    }
    case "resumed": {
      const { promptId, state, resolution } = event.value;
      return {
        ...base,
        type: "resumed",
        promptId,
        state: nameOf(PromptState, state),
        decision: nameOf(PromptDecision, resolution?.decision ?? PromptDecision.UNSPECIFIED),
        feedback: resolution?.message ?? "",
        resolvedBy: resolution?.resolvedBy ?? "",
      };
    }
    case "warning":
      return { ...base, type: "warning", kind: nameOf(WarningKind, event.value.kind), text: event.value.text };
    case "child":
      return { ...base, type: "child", childCallId: event.value.callId, tool: event.value.tool };
    case "listening":
      return { ...base, type: "listening", ports: event.value.ports.map(listeningPortOf) };
    case "gap":
      return {
        ...base,
        type: "gap",
        firstSequence: Number(event.value.firstSequence),
        lastSequence: Number(event.value.lastSequence),
        outputBytes: Number(event.value.outputBytes),
      };
    case "completed": {
      const result = completedResult(callId, event.value);
      return result.ok ? { ...base, type: "completed", result } : { ...base, type: "failed", result };
    }
    case "failed":
      return { ...base, type: "failed", result: failedResult(callId, event.value) };
    case "heartbeat":
    case undefined:
      return undefined;
  }
}
