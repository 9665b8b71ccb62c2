/** Answers prompts with a function, over any number of connections. */
import { ToolgateError } from "./errors.js";
import { type PromptReplyResult, ReplyResult } from "./gen/toolgate/v1/permission_service_pb.js";
import { type Prompt as PromptMessage, PromptState } from "./gen/toolgate/v1/prompt_pb.js";
import { uuidv7 } from "./ids.js";
import { Attempts, type Link } from "./link.js";
import { nameOf, type ReplyResultName } from "./names.js";
import {
  ChannelConnection,
  type PromptConnection,
  type PromptUpdate,
  type Reply,
  WatchConnection,
} from "./prompt-connection.js";
import { type Decision, type Prompt, promptOf, replyMessage } from "./prompts.js";
import { follow } from "./time.js";

/** How long closing waits to hear what became of the last replies. */
const CLOSE_GRACE_MS = 5_000;
/** How often a handler is called again for a prompt because its reply was not taken. */
const MAX_AGAIN = 5;

/** What a handler is given beside the prompt. */
export interface PromptContext {
  /** Aborted when the prompt has ended otherwise: somebody else replied, it expired, its call ended. */
  readonly signal: AbortSignal;
  /** Why the handler is called again: its last reply was not taken. Undefined the first time. */
  readonly problem?: string | undefined;
}

/**
 * Decides about a prompt. What it returns is the reply; nothing leaves the prompt to others. If it throws, the prompt
 * stays open, and `onError` hears of it. If the reply itself was wrong (`INVALID`, `DIGEST_MISMATCH`), it is called again
 * with the prompt as it stands, five times at most; then `onError` hears of that.
 */
export type PromptHandler = (
  prompt: Prompt,
  context: PromptContext,
) => Decision | undefined | void | Promise<Decision | undefined | void>;

/** What became of a reply. */
export interface ReplyOutcome {
  /** The prompt that was replied to. */
  readonly promptId: string;
  /** The id of the reply. */
  readonly replyId: string;
  /** What became of it. */
  readonly result: ReplyResultName;
  /** A sentence for a person, if the reply was not accepted. */
  readonly message: string;
  /** The prompt as it stands; undefined if there is none. */
  readonly prompt: Prompt | undefined;
}

/**
 * Which prompts to answer, and who wants to know what. By default: those of the calls that the client makes, also by
 * {@link Client.with}, of calls made on their behalf, and of the client's `session`.
 */
export interface ApprovalsOptions {
  /** The approver's name; recorded with its decisions. */
  readonly name?: string | undefined;
  /** The workspace; all by default. */
  readonly workspace?: string | undefined;
  /** The prompts of these sessions instead, whoever makes the calls. */
  readonly sessions?: readonly string[] | undefined;
  /** The prompts of everybody's calls instead. */
  readonly everybody?: boolean | undefined;
  /** Called when the prompts that were open are known, again after each reconnection. */
  readonly onReady?: (() => void) | undefined;
  /** Called with what became of each reply. */
  readonly onReply?: ((outcome: ReplyOutcome) => void) | undefined;
  /** Called with what a handler threw, or when its replies were not taken time after time; to the console by default. */
  readonly onError?: ((error: unknown, prompt: Prompt) => void) | undefined;
  /** Called when the connection is lost; it is made again. */
  readonly onDisconnect?: ((error: ToolgateError) => void) | undefined;
  /** Ends the answering. */
  readonly signal?: AbortSignal | undefined;
}

/** What is a client's own. */
export interface Own {
  /** The client's names for itself, its own first. */
  readonly clientIds: readonly string[];
  /** The session of its calls that name none. */
  readonly session?: string | undefined;
}

/** A prompt that the handler was called for. */
interface Known {
  readonly controller: AbortController;
  /** As the handler was given it last. */
  prompt: Prompt;
  /** How many replies were not taken. */
  refused: number;
  /** It ended while its reply was under way. */
  hasEnded: boolean;
  /** What was decided, until the service has said what became of it. */
  reply: Reply | undefined;
  /** The connection on which it was said last. */
  saidOn: number;
}

function filterOf({ workspace = "-", sessions = [], everybody = false }: ApprovalsOptions, own: Own) {
  if (everybody && sessions.length > 0) {
    throw new ToolgateError("INVALID_ARGUMENT", "approvals of everybody's calls name no sessions");
  }
  if (everybody || sessions.length > 0) {
    return { workspace, all: everybody, sessionIds: [...sessions] };
  }
  return { workspace, sessionIds: own.session ? [own.session] : [], clientIds: own.clientIds.slice(0, 1) };
}

/** The results after which a prompt does not come back. */
const FINAL: ReadonlySet<ReplyResult> = new Set([
  ReplyResult.ACCEPTED,
  ReplyResult.ALREADY_RESOLVED,
  ReplyResult.NOT_FOUND,
  ReplyResult.EXPIRED,
  ReplyResult.WITHDRAWN,
]);

/** The results after which a better reply may be taken. */
const NOT_TAKEN: ReadonlySet<ReplyResult> = new Set([ReplyResult.INVALID, ReplyResult.DIGEST_MISMATCH]);

/** Prompts being answered, until it is closed. */
export class Approvals implements AsyncDisposable {
  /** Resolves when the prompts that were open are known for the first time. Rejects as `done` does. */
  readonly ready: Promise<void>;
  /** Resolves when it is closed. Rejects if the service refuses, or was never reached. */
  readonly done: Promise<void>;
  readonly #handler: PromptHandler;
  readonly #options: ApprovalsOptions;
  readonly #connection: PromptConnection;
  readonly #stop = new AbortController();
  readonly #known = new Map<string, Known>();
  #snapshot = new Set<string>();
  /** Counts connections. */
  #connected = 0;
  #wasReady = false;
  #isClosing = false;
  #onReady!: () => void;
  #onIdle: (() => void) | undefined;

  /** @internal */
  constructor(link: Link, bidirectional: boolean, handler: PromptHandler, options: ApprovalsOptions, own: Own) {
    this.#handler = handler;
    this.#options = options;
    const approver = { name: options.name ?? "", filter: filterOf(options, own) };
    this.#connection = bidirectional
      ? new ChannelConnection(link, approver)
      : new WatchConnection(link, approver, (update) => this.#take(update));
    const ready = new Promise<void>((resolve) => {
      this.#onReady = resolve;
    });
    this.done = this.#run(link);
    this.done.catch(() => {});
    this.ready = Promise.race([ready, this.done]);
    this.ready.catch(() => {});
  }

  /** Stops answering. Waits a little to hear what became of replies that are under way. */
  async close(): Promise<void> {
    this.#isClosing = true;
    if (this.#replies().length > 0 && this.#wasReady) {
      const timer = setTimeout(() => this.#onIdle?.(), CLOSE_GRACE_MS);
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      clearTimeout(timer);
    }
    this.#stop.abort(new ToolgateError("CANCELLED", "the approvals are closed"));
    await this.done.catch(() => {});
  }

  /** Closes. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #run(link: Link): Promise<void> {
    const { signal } = this.#stop;
    const release = follow(this.#stop, this.#options.signal, link.closed);
    // Who has been there once comes back however long it takes: a person may leave a laptop closed overnight.
    const patience = () => (this.#wasReady ? Number.POSITIVE_INFINITY : link.patienceMs);
    const attempts = new Attempts(patience, signal);
    try {
      while (!signal.aborted) {
        try {
          for await (const update of this.#connection.updates(signal)) {
            if (update.case === "snapshotEnd") {
              attempts.succeeded();
            }
            this.#take(update);
          }
          throw new ToolgateError("UNAVAILABLE", "the stream of prompts ended", { transient: true });
        } catch (error) {
          if (signal.aborted) {
            return;
          }
          const lost = reopenable(ToolgateError.from(error));
          this.#options.onDisconnect?.(lost);
          await attempts.failed(lost);
        }
      }
    } catch (error) {
      if (!signal.aborted) {
        throw error;
      }
    } finally {
      release();
      attempts.release();
      for (const { controller } of this.#known.values()) {
        controller.abort(new ToolgateError("CANCELLED", "the approvals are closed"));
      }
    }
  }

  #take(update: PromptUpdate): void {
    switch (update.case) {
      case "opened":
        this.#connected += 1;
        this.#snapshot = new Set();
        return;
      case "promptAdded":
        this.#added(update.value.prompt);
        return;
      case "snapshotEnd":
        this.#snapshotEnded();
        return;
      case "promptResolved":
        this.#ended(update.value.prompt?.promptId ?? "");
        return;
      case "replyResult":
        this.#replied(update.value);
        return;
      case "promptUpdated":
      case "heartbeat":
      case undefined:
        return;
    }
  }

  #added(message: PromptMessage | undefined): void {
    if (!message) {
      return;
    }
    this.#snapshot.add(message.promptId);
    if (!this.#known.has(message.promptId)) {
      const known: Known = {
        controller: new AbortController(),
        prompt: promptOf(message),
        refused: 0,
        hasEnded: false,
        reply: undefined,
        saidOn: 0,
      };
      this.#known.set(message.promptId, known);
      void this.#handle(known);
    }
  }

  /** What is not in the snapshot ended while there was no connection. */
  #snapshotEnded(): void {
    for (const [id, known] of this.#known) {
      if (known.reply) {
        known.hasEnded = !this.#snapshot.has(id);
        this.#say(known, known.reply);
      } else if (!this.#snapshot.has(id)) {
        this.#ended(id);
      }
    }
    this.#wasReady = true;
    this.#onReady();
    this.#options.onReady?.();
  }

  #ended(promptId: string): void {
    const known = this.#known.get(promptId);
    if (known?.reply) {
      // It stays known until the service has said what became of the reply.
      known.hasEnded = true;
    } else if (known) {
      this.#known.delete(promptId);
      known.controller.abort(new ToolgateError("CANCELLED", `the prompt ${promptId} has ended`));
    }
  }

  #replied(message: PromptReplyResult): void {
    const { promptId, replyId, result } = message;
    const known = this.#known.get(promptId);
    if (known?.reply?.replyId !== replyId) {
      return;
    }
    known.reply = undefined;
    if (FINAL.has(result) || known.hasEnded) {
      this.#known.delete(promptId);
    }
    this.#options.onReply?.({
      promptId,
      replyId,
      result: nameOf(ReplyResult, result),
      message: message.message,
      prompt: message.prompt && promptOf(message.prompt),
    });
    if (NOT_TAKEN.has(result) && !known.hasEnded) {
      this.#askAgain(known, message);
    }
    if (this.#replies().length === 0) {
      this.#onIdle?.();
    }
  }

  #askAgain(known: Known, { prompt, result, message }: PromptReplyResult): void {
    // A reply that cannot be read at all is answered without the prompt, which is as it was then.
    known.prompt = prompt ? promptOf(prompt) : known.prompt;
    if (known.prompt.message.state !== PromptState.OPEN || this.#isClosing) {
      return;
    }
    const problem = message || `the reply was not taken: ${nameOf(ReplyResult, result)}`;
    known.refused += 1;
    if (known.refused > MAX_AGAIN) {
      const error = new ToolgateError("INVALID_ARGUMENT", `${known.refused} replies were not taken: ${problem}`);
      (this.#options.onError ?? report)(error, known.prompt);
      return;
    }
    known.saidOn = 0;
    void this.#handle(known, problem);
  }

  async #handle(known: Known, problem?: string): Promise<void> {
    const { prompt } = known;
    const { signal } = known.controller;
    try {
      const decision = await this.#handler(prompt, { signal, problem });
      if (decision && !signal.aborted) {
        known.reply = replyMessage(prompt, uuidv7(), decision);
        this.#say(known, known.reply);
      }
    } catch (error) {
      // What a handler throws because its prompt has ended is no news.
      if (!signal.aborted) {
        (this.#options.onError ?? report)(error, prompt);
      }
    }
  }

  /** Sends a reply, once on each connection. */
  #say(known: Known, reply: Reply): void {
    if (known.saidOn !== this.#connected) {
      known.saidOn = this.#connected;
      this.#connection.reply(reply);
    }
  }

  #replies(): Reply[] {
    return [...this.#known.values()].flatMap(({ reply }) => (reply ? [reply] : []));
  }
}

/** After these the channel is to be opened again: a reply could not be stored, and decides nothing. */
function reopenable(error: ToolgateError): ToolgateError {
  const again = error.code === "INTERNAL" || error.code === "RESOURCE_EXHAUSTED" || error.code === "ABORTED";
  return again ? new ToolgateError(error.code, error.message, { ...error, transient: true, cause: error }) : error;
}

function report(error: unknown, prompt: Prompt): void {
  console.error(`toolgate: the handler for the prompt ${prompt.id} failed, which leaves it open:`, error);
}
