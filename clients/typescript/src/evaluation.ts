/** What a call would ask, told before it is made. */
import { PermissionAction } from "./gen/toolgate/v1/prompt_pb.js";
import type { CallEvaluation, EvaluatedRequest as RequestMessage } from "./gen/toolgate/v1/tool_service_pb.js";
import { nameOf, type PermissionActionName } from "./names.js";
import { type AskedPermission, type AskedQuestions, askedOf } from "./prompts.js";

interface RequestBase {
  /** The verdict. */
  readonly action: PermissionActionName;
  /** The standing approvals that turn ask into allow. */
  readonly grantIds: readonly string[];
  /** It is asked only after the one before is approved; what the call finds then may add to it. */
  readonly announced: boolean;
}

/** One thing that a call would ask; `kind` says which. */
export type EvaluatedRequest = RequestBase & (AskedPermission | AskedQuestions);

/** What a call would ask before it does anything. Nothing was run, changed or recorded, and nobody was asked. */
export interface Evaluation {
  /** The strictest verdict of all: ALLOW, ASK or DENY. */
  readonly action: PermissionActionName;
  /** The tool that would run; `invalid` if the name or the JSON could not be understood. */
  readonly tool: string;
  /** One line of what it touches. */
  readonly summary: string;
  /** The frozen input: canonical JSON. */
  readonly inputJson: string;
  /** Its SHA-256. */
  readonly inputDigest: string;
  /** What would be asked, in order. */
  readonly requests: readonly EvaluatedRequest[];
  /** The calls that it would make: of `batch`, and of `bash` in the background. */
  readonly children: readonly Evaluation[];
  /** Why the call would fail before it has asked everything, in the words that the model would read; or empty. */
  readonly problem: string;
  /** Whether `requests` is all that is asked; false for tools whose own code decides. */
  readonly complete: boolean;
  /** The message of the contract. */
  readonly message: CallEvaluation;
}

/** Returns an evaluation of the contract as the library shows it. */
export function evaluationOf(message: CallEvaluation): Evaluation {
  const { tool, summary, inputJson, inputDigest, problem, complete } = message;
  return {
    action: nameOf(PermissionAction, message.action),
    tool,
    summary,
    inputJson,
    inputDigest,
    requests: message.requests.map(requestOf),
    children: message.children.map(evaluationOf),
    problem,
    complete,
    message,
  };
}

function requestOf({ action, grantIds, announced, request }: RequestMessage): EvaluatedRequest {
  return { action: nameOf(PermissionAction, action), grantIds, announced, ...askedOf(request) };
}
