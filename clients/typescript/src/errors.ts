/** What goes wrong with an RPC, as one type. A failed *call* is not an error: see `results.ts`. */
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { milliseconds } from "./time.js";

/** The names of the gRPC status codes that an error can have. */
export type ErrorCode =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

const CODES: Record<Code, ErrorCode> = {
  [Code.Canceled]: "CANCELLED",
  [Code.Unknown]: "UNKNOWN",
  [Code.InvalidArgument]: "INVALID_ARGUMENT",
  [Code.DeadlineExceeded]: "DEADLINE_EXCEEDED",
  [Code.NotFound]: "NOT_FOUND",
  [Code.AlreadyExists]: "ALREADY_EXISTS",
  [Code.PermissionDenied]: "PERMISSION_DENIED",
  [Code.ResourceExhausted]: "RESOURCE_EXHAUSTED",
  [Code.FailedPrecondition]: "FAILED_PRECONDITION",
  [Code.Aborted]: "ABORTED",
  [Code.OutOfRange]: "OUT_OF_RANGE",
  [Code.Unimplemented]: "UNIMPLEMENTED",
  [Code.Internal]: "INTERNAL",
  [Code.Unavailable]: "UNAVAILABLE",
  [Code.DataLoss]: "DATA_LOSS",
  [Code.Unauthenticated]: "UNAUTHENTICATED",
};

/** What a person can do about an error whose text does not say so. */
const HINTS: Readonly<Record<string, string>> = {
  NO_CREDENTIALS: "pass `token` to connect(), or set TOOLGATE_TOKEN",
  BAD_CREDENTIALS: "check `token` or TOOLGATE_TOKEN",
  CREDENTIALS_EXPIRED: "pass a function as `token` that returns a fresh one",
  CREDENTIALS_REVOKED: "ask for a new token",
  CALL_ID_TAKEN: "leave `callId` out, or choose one that no other request has",
};

/** The codes in which a broken connection shows itself, when it is not the server that says them. */
const BROKEN: ReadonlySet<ErrorCode> = new Set([
  "CANCELLED",
  "UNKNOWN",
  "DEADLINE_EXCEEDED",
  "ABORTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
] as const);

/** Details for the constructor of {@link ToolgateError}. */
export interface ToolgateErrorDetails {
  /** The reason of `google.rpc.ErrorInfo`. */
  readonly reason?: string | undefined;
  /** Its metadata. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** The delay of `google.rpc.RetryInfo`. */
  readonly retryDelayMs?: number | undefined;
  /** Whether the same request may succeed later. */
  readonly transient?: boolean | undefined;
  /** The error behind it. */
  readonly cause?: unknown;
}

/** An RPC failed, or a call was never admitted. */
export class ToolgateError extends Error {
  /** The name of the gRPC status code. */
  readonly code: ErrorCode;
  /** The stable word of the service for what is wrong, if the service said it: `SCOPE_MISSING`, `NOT_FOUND`, … */
  readonly reason: string | undefined;
  /** What belongs to the reason. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How long to wait before trying again, if the service said it. */
  readonly retryDelayMs: number | undefined;
  /** Whether the same request may succeed later: the service is away, stopping or busy, or the connection broke. */
  readonly transient: boolean;

  /** Makes an error. */
  constructor(code: ErrorCode, message: string, details: ToolgateErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "ToolgateError";
    this.code = code;
    this.reason = details.reason;
    this.metadata = details.metadata ?? {};
    this.retryDelayMs = details.retryDelayMs;
    this.transient = details.transient ?? false;
  }

  /** Returns `error` as a ToolgateError; what a generated stub of {@link Client.rpc} threw, for instance. */
  static from(error: unknown): ToolgateError {
    if (error instanceof ToolgateError) {
      return error;
    }
    if (!(error instanceof ConnectError)) {
      return new ToolgateError("UNKNOWN", error instanceof Error ? error.message : String(error), { cause: error });
    }
    const code = CODES[error.code];
    const info = error.findDetails(ErrorInfoSchema)[0];
    const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
    const details = {
      reason: info?.reason,
      metadata: info?.metadata,
      retryDelayMs: delay && milliseconds(delay),
      cause: error,
    };
    const hint = info && HINTS[info.reason];
    const text = hint ? `${error.rawMessage} (${hint})` : error.rawMessage;
    if (info) {
      const busy = (code === "RESOURCE_EXHAUSTED" || code === "ABORTED") && delay !== undefined;
      return new ToolgateError(code, text, { ...details, transient: code === "UNAVAILABLE" || busy });
    }
    if (!BROKEN.has(code) && !isCutMessage(error)) {
      return new ToolgateError(code, text, details);
    }
    if (code === "DEADLINE_EXCEEDED") {
      return new ToolgateError(code, "the service did not answer in time", { ...details, transient: true });
    }
    const why = error.cause instanceof Error ? innermost(error.cause) : text;
    const message = `the service cannot be reached, or the connection broke (${why}); is it running?`;
    return new ToolgateError(brokenCode(error, code), message, { ...details, transient: true });
  }
}

/** The connection ended inside a message, which the transport reports as a fault of the protocol. */
function isCutMessage(error: ConnectError): boolean {
  return error.code === Code.InvalidArgument && error.rawMessage.startsWith("protocol error:");
}

/** What the system said; `fetch` wraps it in a text that says nothing. */
function innermost(error: Error): string {
  return error.cause instanceof Error ? innermost(error.cause) : error.message;
}

/** A socket that is not there is UNAVAILABLE, whatever code the transport has for it. */
function brokenCode(error: ConnectError, code: ErrorCode): ErrorCode {
  return error.code === Code.Canceled ? code : "UNAVAILABLE";
}
