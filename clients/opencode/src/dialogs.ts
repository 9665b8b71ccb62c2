/**
 * Prompts of Toolgate as permission dialogs of OpenCode, and what is answered there as replies to Toolgate.
 *
 * *Invariant:* only what a person answered is a reply. OpenCode lets a request pass without a dialog where its own rules or an
 * earlier "always" allow it; Toolgate has asked all the same, so it is asked once more under a name of which OpenCode's rules
 * say `ask`, and if that shows nothing either, the prompt is left to others.
 *
 * An "always" of a person makes OpenCode answer "always" for every request that waits and that it covers. What is stored for ours
 * has a random mark in it, so it covers none; after one of somebody else, nobody can tell who said "always" to ours.
 */
import { randomBytes } from "node:crypto";
import {
  always,
  type Decision,
  once,
  type PermissionPrompt,
  type Prompt,
  type PromptContext,
  reject,
} from "toolgate/node";
import type { Ask, OpenCodeClient, OpenCodeEvent, ToolContext } from "./opencode.js";

/** The first word of the permissions that OpenCode always asks about. */
export const OWN_PERMISSION = "toolgate";

/** How far an "always" reaches in Toolgate. */
export type Reach = "session" | "run" | "workspace";

const REACHES: Readonly<Record<Reach, string>> = {
  session: "in this session",
  run: "until Toolgate ends",
  workspace: "in this project from now on",
};

/** What a dialog says about a prompt may be this long. */
const MAX_NAME = 200;
/** How long OpenCode's news of an answer may come behind the answer. */
const NEWS_MS = 500;

/** A call whose prompts are shown. */
export interface Asking {
  readonly context: ToolContext;
  /** OpenCode's own error for what was refused, which it wants back: it ends the turn of the agent, or has the feedback. */
  refusal: Error | undefined;
  /** Tells whoever looks on that somebody else has to answer. */
  elsewhere(prompt: Prompt): void;
}

/** What became of a request. */
type Answer = "once" | "always" | "unseen" | "ended" | { readonly refused: Error; readonly seen: boolean };

/** A dialog, from when OpenCode was asked for it. */
interface Dialog {
  readonly sessionID: string;
  requestID: string | undefined;
  reply: string | undefined;
  /** A request that is not ours got an "always" meanwhile. */
  doubtful: boolean;
  /** It is not needed any more. */
  over: boolean;
  news: () => void;
}

/** Shows prompts. */
export class Dialogs {
  readonly #client: OpenCodeClient;
  readonly #reach: Reach;
  readonly #calls: ReadonlyMap<string, Asking>;
  /** By the mark of their request. */
  readonly #dialogs = new Map<string, Dialog>();

  constructor(client: OpenCodeClient, reach: Reach, calls: ReadonlyMap<string, Asking>) {
    this.#client = client;
    this.#reach = reach;
    this.#calls = calls;
  }

  /** Answers a prompt by what a person says; undefined leaves it to others. */
  async answer(prompt: Prompt, { signal, problem }: PromptContext): Promise<Decision | undefined> {
    const call = this.#calls.get(prompt.callId);
    if (!call) {
      return undefined;
    }
    if (prompt.kind === "questions" || problem !== undefined) {
      call.elsewhere(prompt);
      return undefined;
    }
    let answer = await this.#show(prompt, prompt.permission, call, signal);
    if (answer === "unseen") {
      answer = await this.#show(prompt, ownName(prompt), call, signal);
    }
    switch (answer) {
      case "once":
        return once();
      case "always":
        return prompt.always.length > 0 ? always({ reach: this.#reach }) : once();
      case "unseen":
        call.elsewhere(prompt);
        return undefined;
      case "ended":
        return undefined;
      default:
        call.refusal = answer.refused;
        return reject(answer.seen ? feedbackOf(answer.refused) : "OpenCode's own rules do not allow it.");
    }
  }

  /** Hears what happens in OpenCode. */
  event({ type, properties = {} }: OpenCodeEvent): void {
    if (type === "permission.asked") {
      const dialog = this.#dialogs.get(markOf(properties["metadata"]));
      if (dialog) {
        dialog.requestID = String(properties["id"]);
        dialog.news();
        if (dialog.over) {
          this.#dismiss(dialog);
        }
      }
    } else if (type === "permission.replied") {
      this.#replied(properties["requestID"], String(properties["reply"]));
    }
  }

  #replied(requestID: unknown, reply: string): void {
    const dialogs = [...this.#dialogs.values()];
    const dialog = dialogs.find((one) => one.requestID !== undefined && one.requestID === requestID);
    if (dialog) {
      dialog.reply = dialog.doubtful && reply === "always" ? "nobody's" : reply;
      dialog.news();
    } else if (reply === "always") {
      // What it covers is answered next. Not every version looks only at the same session.
      for (const waiting of dialogs) {
        waiting.doubtful = true;
      }
    }
  }

  async #show(prompt: PermissionPrompt, permission: string, call: Asking, signal: AbortSignal): Promise<Answer> {
    const mark = randomBytes(8).toString("hex");
    const { sessionID } = call.context;
    const dialog: Dialog = {
      sessionID,
      requestID: undefined,
      reply: undefined,
      doubtful: false,
      over: false,
      news: () => {},
    };
    this.#dialogs.set(mark, dialog);
    const asked = call.context.ask(this.#request(prompt, permission, mark)).then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
    );
    const refused = await Promise.race([asked, aborted(signal)]);
    if (refused === "aborted") {
      dialog.over = true;
      this.#dismiss(dialog);
      void asked.then(() => this.#dialogs.delete(mark));
      return "ended";
    }
    await this.#news(dialog);
    this.#dialogs.delete(mark);
    if (refused) {
      return { refused, seen: dialog.requestID !== undefined };
    }
    return dialog.reply === "once" || dialog.reply === "always" ? dialog.reply : "unseen";
  }

  /**
   * What OpenCode is to store after an "always" says in words what Toolgate stores, and by its mark matches nothing: Toolgate
   * knows when its own grant is over.
   */
  #request(
    { id, callId, title, patterns, metadata, always: offered }: PermissionPrompt,
    permission: string,
    mark: string,
  ): Ask {
    const reach = `(by Toolgate, ${REACHES[this.#reach]}; ${mark})`;
    const stored =
      offered.length > 0
        ? offered.map((pattern) => `${pattern} ${reach}`)
        : [`nothing but this call (by Toolgate; ${mark})`];
    const toolgate = { mark, promptId: id, callId, title };
    return {
      permission,
      patterns: [...patterns],
      always: stored,
      metadata: { ...metadata, toolgate },
    };
  }

  /** Waits a moment for what OpenCode tells of an answer. */
  async #news(dialog: Dialog): Promise<void> {
    const end = Date.now() + NEWS_MS;
    while (dialog.reply === undefined && Date.now() < end) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, end - Date.now());
        dialog.news = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** Takes a dialog away. The answer goes nowhere, and unlike a rejection it leaves the other dialogs of the session alone. */
  #dismiss({ sessionID, requestID }: Dialog): void {
    if (requestID === undefined) {
      return;
    }
    const request = {
      path: { id: sessionID, permissionID: requestID },
      body: { response: "once" },
    } as const;
    // It may be gone already.
    this.#client.postSessionIdPermissionsPermissionId(request).catch(() => {});
  }
}

/** A dialog that knows nothing of a permission shows its name, so that has to say what is asked. */
function ownName({ permission, patterns }: PermissionPrompt): string {
  const text = `${OWN_PERMISSION} ${permission}: ${patterns.join(", ")}`.replaceAll(/\s+/g, " ");
  return text.length > MAX_NAME ? `${text.slice(0, MAX_NAME)}…` : text;
}

function markOf(metadata: unknown): string {
  const { toolgate } = (metadata ?? {}) as { toolgate?: { mark?: string } };
  return toolgate?.mark ?? "";
}

function feedbackOf(error: Error & { feedback?: unknown }): string {
  if (typeof error.feedback === "string") {
    return error.feedback;
  }
  return /with the following feedback: ([\s\S]*)$/.exec(error.message)?.[1] ?? "";
}

function aborted(signal: AbortSignal): Promise<"aborted"> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve("aborted");
    }
    signal.addEventListener("abort", () => resolve("aborted"), { once: true });
  });
}
