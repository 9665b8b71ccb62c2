/** The driver's handler of prompts, which does what `reply` commands say. */
import { timestampDate } from "@bufbuild/protobuf/wkt";
import {
  PromptFilterSchema,
  type PromptReply,
  PromptReplySchema,
} from "../src/gen/toolgate/v1/permission_service_pb.js";
import { GrantReach, type GrantScope, PromptDecision, PromptSchema } from "../src/gen/toolgate/v1/prompt_pb.js";
import {
  type AlwaysOptions,
  always,
  answer,
  type Decision,
  instead,
  once,
  type PromptHandler,
  reject,
  ToolgateError,
} from "../src/node.js";
import { decode, encode } from "./codec.js";
import { type Command, client, InvalidCommand, number, type Say } from "./driver-commands.js";
import type { Session } from "./driver-session.js";

/** `approvals` */
export async function approvals(session: Session, command: Command, say: Say): Promise<object> {
  const waiting = new Map<string, (reply: PromptReply) => void>();
  const handler: PromptHandler = (prompt, { signal }) =>
    new Promise<Decision | undefined>((resolve, refuse) => {
      waiting.set(prompt.id, (reply) => {
        try {
          resolve(decisionOf(reply));
          waiting.delete(prompt.id);
        } catch (error) {
          refuse(error);
          throw error;
        }
      });
      signal.addEventListener("abort", () => {
        if (waiting.delete(prompt.id) && !stopping) {
          say({ gone: prompt.id });
        }
        resolve(undefined);
      });
      say({ prompt: encode(PromptSchema, prompt.message) });
    });
  const { workspace, sessionIds: sessions } = decode(PromptFilterSchema, command["filter"]);
  const open = client(session, command).approvals(handler, {
    name: typeof command["name"] === "string" ? command["name"] : "",
    workspace,
    sessions,
    everybody: command["everybody"] === true,
    onReady: () => say({ ready: true }),
    onReply: ({ promptId, result }) => say({ result: { prompt_id: promptId, result } }),
  });
  let stopping = false;
  const stop = async () => {
    stopping = true;
    await open.close();
  };
  session.replies.set(command.id, waiting);
  session.stoppable.set(command.id, { stop });
  try {
    await open.done;
    return {};
  } finally {
    session.replies.delete(command.id);
    session.stoppable.delete(command.id);
  }
}

/** `reply` */
export async function reply(session: Session, command: Command): Promise<object> {
  const given = decode(PromptReplySchema, command["reply"]);
  const waiting = session.replies.get(number(command, "approvals"))?.get(given.promptId);
  if (!waiting) {
    throw new ToolgateError("NOT_FOUND", `no handler waits for the prompt ${given.promptId}`);
  }
  waiting(given);
  return {};
}

function decisionOf(given: PromptReply): Decision {
  switch (given.decision) {
    case PromptDecision.ONCE:
      return once();
    case PromptDecision.ALWAYS:
      return always({ ...scopeOf(given.scope), patterns: given.alwaysPatterns });
    case PromptDecision.REJECT:
      return reject(given.message);
    case PromptDecision.ANSWER:
      return answer(...given.answers.map(({ values }) => values));
    case PromptDecision.INSTEAD:
      return instead(given.inputJson);
    case PromptDecision.UNSPECIFIED:
      throw new InvalidCommand("the reply has no decision");
  }
}

function scopeOf(scope: GrantScope | undefined): AlwaysOptions {
  if (!scope) {
    return {};
  }
  return {
    reach: REACH[scope.reach],
    expires: scope.expireTime && timestampDate(scope.expireTime),
    maxUses: scope.maxUses,
  };
}

const REACH = {
  [GrantReach.UNSPECIFIED]: undefined,
  [GrantReach.RUN]: "run",
  [GrantReach.SESSION]: "session",
  [GrantReach.WORKSPACE]: "workspace",
} as const;
