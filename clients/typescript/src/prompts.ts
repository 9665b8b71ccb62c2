/** What people are asked, and what they may decide. */
import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { PromptReplySchema } from "./gen/toolgate/v1/permission_service_pb.js";
import {
  GrantReach,
  type PermissionPart as PartMessage,
  PermissionAction,
  PromptDecision,
  type Prompt as PromptMessage,
  type PermissionRule as RuleMessage,
} from "./gen/toolgate/v1/prompt_pb.js";
import { nameOf, type PermissionActionName } from "./names.js";
import { date } from "./time.js";

/** A rule of the configuration. */
export interface PermissionRule {
  /** Matches names of permissions. */
  readonly permission: string;
  /** Matches what the tool is about to touch. */
  readonly pattern: string;
  /** The verdict. */
  readonly action: PermissionActionName;
}

/** One part of a compound request, such as one command of a shell line. */
export interface PermissionPart {
  /** The source text. */
  readonly text: string;
  /** The words that a program gets, its name first. */
  readonly arguments: readonly string[];
  /** Everything that the part is judged as. */
  readonly patterns: readonly string[];
  /** Which of the request's `always` patterns come from this part. */
  readonly always: readonly string[];
  /** The paths that it touches, as far as they are known. */
  readonly paths: readonly string[];
  /** Why nobody can say what this part does; empty if it is clear. */
  readonly unclear: string;
  /** The verdict: ALLOW or ASK. */
  readonly action: PermissionActionName;
  /** The rule that decided. */
  readonly rule: PermissionRule | undefined;
  /** The rule asks, and a grant allows it. */
  readonly granted: boolean;
}

/** One question of the model. */
export interface Question {
  /** The whole question. */
  readonly question: string;
  /** A very short label. */
  readonly header: string;
  /** What may be chosen; the answer is the label. */
  readonly options: readonly { readonly label: string; readonly description: string }[];
  /** Several options may be chosen. */
  readonly multiple: boolean;
  /** An own answer makes sense beside the options. */
  readonly custom: boolean;
}

interface PromptBase {
  /** The prompt's id. */
  readonly id: string;
  /** The call that waits. */
  readonly callId: string;
  /** The call's session. */
  readonly sessionId: string;
  /** The call's workspace. */
  readonly workspace: string;
  /** The call's agent. */
  readonly agent: string;
  /** The call's tool. */
  readonly tool: string;
  /** Who made the call; empty without authentication. */
  readonly requester: string;
  /** When it was asked. */
  readonly createTime: Date | undefined;
  /** When it ends by itself; undefined if it waits for ever. */
  readonly expireTime: Date | undefined;
  /** SHA-256 of exactly the input that would run. Replies of the library cite it. */
  readonly inputDigest: string;
  /** Whether {@link instead} may be decided. */
  readonly editable: boolean;
  /** If it is editable: the call's input, canonical JSON. */
  readonly inputJson: string;
  /** The message of the contract. */
  readonly message: PromptMessage;
}

/** A tool needs a permission. */
export interface AskedPermission {
  readonly kind: "permission";
  /** The permission's name: `bash`, `edit`, … */
  readonly permission: string;
  /** What the tool is about to touch. */
  readonly patterns: readonly string[];
  /** What {@link always} would allow from now on. */
  readonly always: readonly string[];
  /** A short line for the person. */
  readonly title: string;
  /** What the person should see. */
  readonly metadata: JsonObject;
  /** The change as a unified diff, for tools that change files. */
  readonly diff: string | undefined;
  /** What a compound request consists of. */
  readonly parts: readonly PermissionPart[];
  /** The rule that made it a question. */
  readonly rule: PermissionRule | undefined;
}

/** A tool asks questions. */
export interface AskedQuestions {
  readonly kind: "questions";
  /** In the order in which they are answered. */
  readonly questions: readonly Question[];
}

/** A call waits for a permission. */
export interface PermissionPrompt extends PromptBase, AskedPermission {}

/** A call waits for answers. */
export interface QuestionPrompt extends PromptBase, AskedQuestions {}

/** A question to a person that a call waits on; `kind` says which. */
export type Prompt = PermissionPrompt | QuestionPrompt;

/** How far an `always` reaches, and which patterns it grants. */
export interface AlwaysOptions {
  /** `run`: the workspace until the service ends (the default); `session`; `workspace`: also after restarts. */
  readonly reach?: "run" | "session" | "workspace" | undefined;
  /** When it ends. */
  readonly expires?: Date | undefined;
  /** How many further requests it lets through; any number by default. */
  readonly maxUses?: number | undefined;
  /** Which of the prompt's `always` patterns to grant; all by default. */
  readonly patterns?: readonly string[] | undefined;
}

/** What a handler decides. Made by {@link once}, {@link always}, {@link reject}, {@link answer} and {@link instead}. */
export type Decision =
  | { readonly decision: "once" }
  | { readonly decision: "always"; readonly scope: AlwaysOptions }
  | { readonly decision: "reject"; readonly message: string }
  | { readonly decision: "answer"; readonly answers: readonly (readonly string[])[] }
  | { readonly decision: "instead"; readonly inputJson: string };

/** Allows this call only. */
export function once(): Decision {
  return { decision: "once" };
}

/** Allows this call, and from now on what the prompt's `always` patterns match. */
export function always(scope: AlwaysOptions = {}): Decision {
  return { decision: "always", scope };
}

/** Refuses, with a text for the model. */
export function reject(message = ""): Decision {
  return { decision: "reject", message };
}

/** Answers questions: for each one the label or labels chosen, or own words; an empty list leaves it unanswered. */
export function answer(...answers: readonly (string | readonly string[])[]): Decision {
  return { decision: "answer", answers: answers.map((one) => (typeof one === "string" ? [one] : one)) };
}

/** Allows this call with another input: a value, or JSON text. Only for prompts that are `editable`. */
export function instead(input: object | string): Decision {
  return { decision: "instead", inputJson: typeof input === "string" ? input : JSON.stringify(input) };
}

const REACH = { run: GrantReach.RUN, session: GrantReach.SESSION, workspace: GrantReach.WORKSPACE } as const;

/** Returns the reply that says what was decided about exactly this prompt. */
export function replyMessage(
  prompt: Prompt,
  replyId: string,
  decision: Decision,
): MessageInitShape<typeof PromptReplySchema> {
  const reply = { promptId: prompt.id, replyId, inputDigest: prompt.inputDigest };
  switch (decision.decision) {
    case "once":
      return { ...reply, decision: PromptDecision.ONCE };
    case "always":
      return { ...reply, decision: PromptDecision.ALWAYS, ...scopeFields(prompt, decision.scope) };
    case "reject":
      return { ...reply, decision: PromptDecision.REJECT, message: decision.message };
    case "answer":
      return {
        ...reply,
        decision: PromptDecision.ANSWER,
        answers: decision.answers.map((values) => ({ values: [...values] })),
      };
    case "instead":
      return { ...reply, decision: PromptDecision.INSTEAD, inputJson: decision.inputJson };
  }
}

function scopeFields(prompt: Prompt, { reach, expires, maxUses, patterns }: AlwaysOptions) {
  const listed = prompt.kind === "permission" ? prompt.always : [];
  const scoped = reach !== undefined || expires !== undefined || maxUses !== undefined;
  const scope = {
    reach: reach ? REACH[reach] : GrantReach.UNSPECIFIED,
    maxUses: maxUses ?? 0,
    ...(expires ? { expireTime: timestampFromDate(expires) } : {}),
  };
  return { alwaysPatterns: [...(patterns?.length ? patterns : listed)], ...(scoped ? { scope } : {}) };
}

/** Returns a prompt of the contract as the library shows it. */
export function promptOf(message: PromptMessage): Prompt {
  const base = {
    id: message.promptId,
    callId: message.callId,
    sessionId: message.sessionId,
    workspace: message.workspace,
    agent: message.agent,
    tool: message.tool,
    requester: message.requester,
    createTime: date(message.createTime),
    expireTime: date(message.expireTime),
    inputDigest: message.inputDigest,
    editable: message.editable,
    inputJson: message.inputJson,
    message,
  };
  return { ...base, ...askedOf(message.request) };
}

/** Returns what a prompt asks, or would ask, as the library shows it. */
export function askedOf(request: PromptMessage["request"]): AskedPermission | AskedQuestions {
  if (request.case === "questions") {
    return { kind: "questions", questions: request.value.questions };
  }
  const asked = request.value;
  const diff = asked?.metadata?.["diff"];
  return {
    kind: "permission",
    permission: asked?.permission ?? "",
    patterns: asked?.patterns ?? [],
    always: asked?.always ?? [],
    title: asked?.title ?? "",
    metadata: asked?.metadata ?? {},
    diff: typeof diff === "string" ? diff : undefined,
    parts: asked?.parts.map(part) ?? [],
    rule: rule(asked?.rule),
  };
}

function part(message: PartMessage): PermissionPart {
  return { ...message, action: nameOf(PermissionAction, message.action), rule: rule(message.rule) };
}

function rule(message: RuleMessage | undefined): PermissionRule | undefined {
  return (
    message && {
      permission: message.permission,
      pattern: message.pattern,
      action: nameOf(PermissionAction, message.action),
    }
  );
}
