/**
 * Prompts and decisions as plain values, which frameworks store, send to a page, and bring back. What is not clearly a
 * decision is none.
 */
import type { JsonObject } from "@bufbuild/protobuf";
import { always, answer, type Decision, instead, once, type Prompt, reject } from "../prompts.js";

/** A prompt as a value of JSON: what a person has to see, and by what it is known. */
export interface PromptFacts {
  readonly id: string;
  readonly callId: string;
  readonly kind: "permission" | "questions";
  readonly tool: string;
  readonly title: string;
  /** A text that says all of it. */
  readonly description: string;
  readonly permission?: string;
  readonly patterns?: readonly string[];
  /** What `always` would allow from now on. */
  readonly always?: readonly string[];
  readonly diff?: string;
  /** The input, where another one may be given. */
  readonly input?: JsonObject;
  readonly questions?: readonly JsonObject[];
  readonly inputDigest: string;
  readonly session: string;
  readonly workspace: string;
  readonly expires?: string;
}

/**
 * A decision as a value of JSON, as `Command({ resume })` and `resumeData` bring it. For LangGraph it has the id of the prompt that
 * it is about beside it, as `prompt`.
 */
export type DecisionValue =
  | boolean
  | { readonly decision: "once" }
  | {
      readonly decision: "always";
      readonly reach?: "run" | "session" | "workspace";
      readonly patterns?: readonly string[];
    }
  | { readonly decision: "reject"; readonly message?: string }
  | { readonly decision: "answer"; readonly answers: readonly (string | readonly string[])[] }
  | { readonly decision: "instead"; readonly input: object };

/** Decides about a prompt, as a handler of {@link Client.approvals} does; nothing leaves it to others. */
export type Decide = (prompt: Prompt) => Decision | undefined | Promise<Decision | undefined>;

/**
 * The schema of a decision. Nothing is required: what is no decision has to come here, to be refused in words, and is not to
 * be held back.
 */
export const DECISION_SCHEMA = {
  type: ["object", "boolean", "string"],
  properties: {
    decision: { type: "string", description: "once, always, reject, answer or instead." },
    message: { type: "string", description: "With reject: what to do instead." },
    answers: { type: "array", items: {}, description: "With answer: one for each question, or several in a list." },
    input: { type: "object", description: "With instead: the whole input to run." },
    reach: { type: "string", description: "With always, how far it reaches: run, session or workspace." },
    patterns: { type: "array", items: { type: "string" }, description: "With always: which patterns; all by default." },
  },
} as const;

/** Returns a prompt as a value of JSON. */
export function promptFacts(prompt: Prompt): PromptFacts {
  const common = {
    id: prompt.id,
    callId: prompt.callId,
    tool: prompt.tool,
    inputDigest: prompt.inputDigest,
    session: prompt.sessionId,
    workspace: prompt.workspace,
    ...(prompt.expireTime ? { expires: prompt.expireTime.toISOString() } : {}),
  };
  if (prompt.kind === "questions") {
    const [first] = prompt.questions;
    const lines = prompt.questions.flatMap(({ question, options }) => [
      question,
      ...options.map(({ label, description }) => `- ${label}: ${description}`),
    ]);
    const questions = prompt.questions.map((question) => ({
      ...question,
      options: question.options.map((option) => ({ ...option })),
    }));
    return {
      ...common,
      kind: "questions",
      title: first?.question ?? prompt.tool,
      description: lines.join("\n"),
      questions,
    };
  }
  const { permission, patterns, diff } = prompt;
  const title = prompt.title || `${permission}: ${patterns.join(", ")}`;
  const lines = [title, ...patterns.map((pattern) => `${permission}: ${pattern}`), ...(diff ? [diff] : [])];
  return {
    ...common,
    kind: "permission",
    title,
    description: lines.join("\n"),
    permission,
    patterns,
    always: prompt.always,
    ...(diff ? { diff } : {}),
    ...(prompt.editable && prompt.inputJson ? { input: JSON.parse(prompt.inputJson) as JsonObject } : {}),
  };
}

/** Reads a decision; undefined for what is none. */
export function decisionOf(value: unknown, prompt: Prompt): Decision | undefined {
  if (typeof value === "boolean") {
    return value ? once() : reject();
  }
  if (typeof value === "string") {
    return prompt.kind === "questions" ? answer(value) : decisionOf({ decision: value }, prompt);
  }
  if (typeof value !== "object" || value === null) {
    return undefined;
  }
  const fields = value as Record<string, unknown>;
  const message = typeof fields["message"] === "string" ? fields["message"] : "";
  const isPermission = prompt.kind === "permission";
  switch (fields["decision"]) {
    case "once":
      return isPermission ? once() : undefined;
    case "always":
      return isPermission ? alwaysOf(fields) : undefined;
    case "reject":
      return reject(message);
    case "answer":
      return Array.isArray(fields["answers"]) ? answer(...(fields["answers"] as string[])) : undefined;
    case "instead":
      return typeof fields["input"] === "object" && fields["input"] !== null ? instead(fields["input"]) : undefined;
    default:
      return undefined;
  }
}

/** Reads a decision; what is none refuses, and says so. */
export function decisionOrRefusal(value: unknown, prompt: Prompt): Decision {
  return decisionOf(value, prompt) ?? reject(`The reply to the prompt was not a decision: ${JSON.stringify(value)}`);
}

function alwaysOf({ reach, patterns }: Record<string, unknown>): Decision | undefined {
  if (reach !== undefined && reach !== "run" && reach !== "session" && reach !== "workspace") {
    return undefined;
  }
  return always({ reach, ...(Array.isArray(patterns) ? { patterns: patterns as string[] } : {}) });
}
