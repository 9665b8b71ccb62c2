// The prompts that wait, and the answers of the person.

import { computed, signal } from "@preact/signals";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { ALL, permissions, problem, tools } from "./api";
import { forget } from "./drafts";
import { announce } from "./notices";
import { tell } from "./notify";
import { introduced, recorded } from "./person";
import type { Turn } from "./live";
import { OutputMode } from "./gen/toolgate/v1/call_pb";
import { PromptDecision, type Prompt } from "./gen/toolgate/v1/prompt_pb";
import { PromptReplySchema, ReplyResult } from "./gen/toolgate/v1/permission_service_pb";
import { short } from "./text";

/** Every open prompt, in the order of arrival. */
export const open = signal<ReadonlyMap<string, Prompt>>(new Map());

/** How many wait. */
export const waiting = computed(() => open.value.size);

/** The open prompts by the calls that wait for them. */
export const asking = computed(() => new Map([...open.value.values()].map((prompt) => [prompt.callId, prompt])));

/** Says in a line what a prompt asks. */
export function subject(prompt: Prompt): string {
  const request = prompt.request;
  switch (request.case) {
    case "permission": {
      const { title, patterns, permission, metadata } = request.value;
      const { command } = (metadata ?? {}) as Record<string, unknown>;
      const says = title || patterns.join(", ") || permission;
      // What is to be allowed is the command, not what the model says of it.
      if (typeof command !== "string") return short(says, 200);
      return short(command.startsWith(says) ? command : `${command} · ${says}`, 200);
    }
    case "questions":
      return short(request.value.questions.map((question) => question.header || question.question).join(", "), 200);
    case undefined:
      return "something that this page cannot show";
  }
}

/** Watches the prompts. Whoever does so counts as somebody who may be asked. */
export async function watch({ signal, alive }: Turn): Promise<void> {
  let snapshot: Map<string, Prompt> | undefined = new Map();
  for await (const { message } of permissions.watchPrompts(
    { filter: { workspace: ALL, all: true } },
    { signal, onHeader: alive },
  )) {
    alive();
    switch (message.case) {
      case "promptAdded":
      case "promptUpdated": {
        const prompt = message.value.prompt!;
        if (snapshot !== undefined) {
          snapshot.set(prompt.promptId, prompt);
          break;
        }
        if (!open.value.has(prompt.promptId)) {
          announce(`${prompt.tool} asks: ${subject(prompt)}`);
          tell(prompt.promptId, `${short(prompt.tool, 40)} asks`, subject(prompt));
        }
        open.value = new Map(open.value).set(prompt.promptId, prompt);
        break;
      }
      case "promptResolved":
        remove(message.value.prompt!.promptId);
        snapshot?.delete(message.value.prompt!.promptId);
        break;
      case "snapshotEnd":
        if (snapshot !== undefined) {
          const news = [...snapshot.keys()].filter((id) => !open.value.has(id));
          const text = news.length === 1 ? "A prompt is waiting." : `${news.length} prompts are waiting.`;
          if (news.length > 0) {
            announce(text);
            tell(news[0]!, "Toolgate", text);
          }
          open.value = snapshot;
        }
        snapshot = undefined;
        break;
      case "opened":
      case "heartbeat":
      case undefined:
        break;
    }
  }
}

function remove(id: string): void {
  if (!open.value.has(id)) return;
  const rest = new Map(open.value);
  rest.delete(id);
  open.value = rest;
}

const DONE: Partial<Record<PromptDecision, string>> = {
  [PromptDecision.ONCE]: "Allowed once.",
  [PromptDecision.ALWAYS]: "Allowed, from now on.",
  [PromptDecision.REJECT]: "Rejected.",
  [PromptDecision.ANSWER]: "Answered.",
  [PromptDecision.INSTEAD]: "Allowed, with the input that you wrote.",
};

const NOT_DONE: Partial<Record<ReplyResult, string>> = {
  [ReplyResult.ALREADY_RESOLVED]: "Somebody else was faster: the prompt had been answered.",
  [ReplyResult.NOT_FOUND]: "There is no such prompt any more.",
  [ReplyResult.EXPIRED]: "The prompt had expired.",
  [ReplyResult.WITHDRAWN]: "The call had ended.",
  [ReplyResult.DIGEST_MISMATCH]: "The input is another one than you were shown. Nothing was decided.",
  [ReplyResult.OTHER_INSTANCE]: "Another instance of the service waits for this prompt: answer there.",
  [ReplyResult.NOT_ALLOWED]: "You may not answer prompts of your own calls.",
};

/** The results after which the prompt is no longer open. */
const OVER: ReadonlySet<ReplyResult> = new Set([
  ReplyResult.ALREADY_RESOLVED,
  ReplyResult.NOT_FOUND,
  ReplyResult.EXPIRED,
  ReplyResult.WITHDRAWN,
]);

/** An answer without what every answer has. */
export type Answer = Omit<
  MessageInitShape<typeof PromptReplySchema>,
  "$typeName" | "promptId" | "replyId" | "inputDigest"
> & {
  decision: PromptDecision;
};

/** Sends an answer, once the person has said who answers. Returns what is wrong with it, or nothing. */
export async function answer(prompt: Prompt, given: Answer): Promise<string | undefined> {
  if (!(await introduced())) return undefined;
  const reply = create(PromptReplySchema, {
    ...given,
    promptId: prompt.promptId,
    replyId: crypto.randomUUID(),
    // The approval is for exactly what the person was shown.
    inputDigest: prompt.inputDigest,
  });
  try {
    const replied = await permissions.replyPrompt({ reply, name: recorded() });
    const { result, message } = replied.result!;
    if (result === ReplyResult.ACCEPTED) {
      forget(prompt.promptId);
      remove(prompt.promptId);
      announce(DONE[given.decision] ?? "Answered.");
      return undefined;
    }
    if (result === ReplyResult.SECOND_APPROVAL_NEEDED) {
      announce("Approved. Another person has to approve as well.");
      return undefined;
    }
    const text = NOT_DONE[result] ?? `The service did not take the answer: ${message}`;
    if (OVER.has(result)) {
      remove(prompt.promptId);
      announce(text);
    }
    return text;
  } catch (error) {
    return problem(error);
  }
}

/** Finds out how many who may answer look at a prompt at this moment, this page included. */
export async function lookers(prompt: Prompt): Promise<number | undefined> {
  const abort = new AbortController();
  try {
    // Only the event says so, and as of the moment when it is sent.
    const request = { callId: prompt.callId, output: OutputMode.NONE };
    for await (const { event } of tools.watchCall(request, { signal: abort.signal })) {
      const what = event?.event;
      if (what?.case === "waiting" && what.value.prompt?.promptId === prompt.promptId) return what.value.approvers;
      if (what?.case === "heartbeat") break;
    }
  } catch {
    // It is asked again soon.
  } finally {
    abort.abort();
  }
  return undefined;
}
