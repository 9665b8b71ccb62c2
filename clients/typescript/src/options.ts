/** What a client is made with, and what its methods take. */
import type { JsonObject } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import type { Patience } from "./link.js";
import type { CallStateName } from "./names.js";
import type { ModelRef } from "./tools.js";
import type { Token } from "./transport.js";

/** In whose name calls are made. */
export interface CallDefaults {
  /** The workspace's name; the service's default one if left out. */
  readonly workspace?: string | undefined;
  /** The session. Without one each call gets a session of its own. */
  readonly session?: string | undefined;
  /** The agent; `build` if left out. */
  readonly agent?: string | undefined;
  /** The model. */
  readonly model?: ModelRef | undefined;
  /** The kind of client: `cli`, `app`, `desktop`, or a name of your own. */
  readonly clientKind?: string | undefined;
  /** The program that makes the calls: its name and its version, by default those of this library. */
  readonly clientName?: string | undefined;
  /** The call on whose behalf calls are made. */
  readonly parentCallId?: string | undefined;
}

/** What every client is made with. */
export interface CommonOptions extends CallDefaults, Patience {
  /** The bearer token, or a function that gives a fresh one for each RPC. */
  readonly token?: Token | undefined;
}

/** What {@link Client} is made with, on any transport. */
export interface ClientOptions extends CommonOptions {
  /** Carries the RPCs: made by `@connectrpc/connect-node`, `@connectrpc/connect-web`, or for a test. */
  readonly transport: Transport;
  /** Whether the transport streams in both directions (gRPC over HTTP/2); false by default. */
  readonly bidirectional?: boolean | undefined;
  /** Where the service answers HTTP, for {@link OpenedPort.url}; none for a Unix socket. */
  readonly baseUrl?: string | undefined;
  /** Closes the connection, when the client is closed. */
  readonly onClose?: (() => void) | undefined;
}

/** A tool's input: a value, or JSON text exactly as a model wrote it (which may be malformed). */
export type ToolInput = object | string;

/** How a call is made. What is left out of the context is what the client was made with. */
export interface ExecuteOptions extends CallDefaults {
  /** The call's id, 1 to 128 letters, digits and `-_.:`; a UUIDv7 by default. The same id attaches to the same call. */
  readonly callId?: string | undefined;
  /** The message of the model that the call belongs to. */
  readonly messageId?: string | undefined;
  /** Free data; kept in the record. */
  readonly extra?: JsonObject | undefined;
  /** The time that the tool may run, in milliseconds; waiting for people does not count. */
  readonly timeoutMs?: number | undefined;
  /**
   * What a lost connection and leaving the execution mean.
   *
   * - `"reattach"` (the default): the library connects again and goes on. Leaving the execution early cancels the call.
   *   A process that is killed cannot do that; its call goes on.
   * - `"keep"`: as above, but leaving does not cancel the call either.
   * - `"cancel"`: the service cancels the call as soon as the connection is lost.
   */
  readonly onDisconnect?: "reattach" | "keep" | "cancel" | undefined;
  /** How much of the running output comes as events; everything by default. The result is the same. */
  readonly output?: "full" | "tail" | "none" | undefined;
  /**
   * Cancels the call when aborted: it is told to stop, the events go on to the terminal one, and the result is a failed
   * one with the reason CANCELLED.
   */
  readonly signal?: AbortSignal | undefined;
}

/** In whose name a call would be made. */
export interface EvaluateOptions extends CallDefaults {
  /** Gives the evaluation up. */
  readonly signal?: AbortSignal | undefined;
}

/** How a method makes the call that does its work, about which people may be asked. */
export interface ChangeOptions {
  /** The call's id; a UUIDv7 by default. The same id with the same request is the same call, which is made once. */
  readonly callId?: string | undefined;
  /**
   * What becomes of prompts that nobody answers: with `"refuse"`, the default, they are refused when nobody listens; with
   * `"wait"` they wait for somebody.
   */
  readonly unattended?: "refuse" | "wait" | undefined;
  /** With `"wait"`: how long each prompt waits, in milliseconds; by default as long as the service lets prompts wait. */
  readonly waitTimeoutMs?: number | undefined;
  /** Cancels the call when aborted. */
  readonly signal?: AbortSignal | undefined;
}

/** How a port is opened. What is left out of the context is what the client was made with, but for the workspace. */
export interface OpenPortOptions extends ChangeOptions, CallDefaults {}

/** How a call is watched. */
export interface WatchOptions {
  /** Events after this one; all by default. */
  readonly after?: number | undefined;
  /** How much of the output comes as events; everything by default. */
  readonly output?: "full" | "tail" | "none" | undefined;
  /** Ends the watching; the call is not touched. */
  readonly signal?: AbortSignal | undefined;
}

/** How a call is taken back. */
export interface RevertOptions
  extends Pick<ExecuteOptions, "workspace" | "session" | "agent" | "model" | "onDisconnect" | "signal"> {
  /** The id of the call that takes it back; a UUIDv7 by default. */
  readonly callId?: string | undefined;
  /** Keep what was changed since in the same files, where it lies apart. */
  readonly merge?: boolean | undefined;
}

/** Which calls to list. Filters that are set must all match. */
export interface CallsOptions {
  /** The workspace; the service's default one if left out, `-` for all. */
  readonly workspace?: string | undefined;
  /** The session; all by default. */
  readonly session?: string | undefined;
  /** Any of these states. */
  readonly states?: readonly Exclude<CallStateName, "UNSPECIFIED">[] | undefined;
  /** Any of these tools. */
  readonly tools?: readonly string[] | undefined;
  /** How many calls one RPC lists. */
  readonly pageSize?: number | undefined;
  /** Gives the listing up. */
  readonly signal?: AbortSignal | undefined;
}

/** Which outputs to list. Filters that are set must all match. */
export interface OutputsOptions {
  /** The workspace; the service's default one if left out, `-` for all. */
  readonly workspace?: string | undefined;
  /** The session; all by default. */
  readonly session?: string | undefined;
  /** The call; all by default. */
  readonly callId?: string | undefined;
  /** How many outputs one RPC lists. */
  readonly pageSize?: number | undefined;
  /** Gives the listing up. */
  readonly signal?: AbortSignal | undefined;
}

/** What is sent to a call's standard input. */
export interface SendInputOptions {
  /** How many bytes come before in the whole input; by default where the input stands. */
  readonly offset?: number | undefined;
  /** Nothing follows. */
  readonly close?: boolean | undefined;
  /** Gives the sending up. */
  readonly signal?: AbortSignal | undefined;
}

/** How a workspace is opened. */
export interface OpenWorkspaceOptions extends SignalOptions {
  /** Makes the folder, and those above it, if they are not there; false by default. */
  readonly create?: boolean | undefined;
}

/** Which workspaces to list. */
export interface WorkspacesOptions extends SignalOptions {
  /** How many workspaces one RPC lists. */
  readonly pageSize?: number | undefined;
}

/** Gives up what it is handed to. */
export interface SignalOptions {
  /** Gives up when aborted. */
  readonly signal?: AbortSignal | undefined;
}
