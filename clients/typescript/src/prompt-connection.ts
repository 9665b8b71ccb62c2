/** The two ways in which prompts come and replies go: one stream in both directions, or a stream and unary RPCs. */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { ToolgateError } from "./errors.js";
import {
  type ChannelRequestSchema,
  type ChannelResponse,
  type PromptFilterSchema,
  type PromptReplyResult,
  PromptReplyResultSchema,
  type PromptReplySchema,
  ReplyResult,
} from "./gen/toolgate/v1/permission_service_pb.js";
import type { Link } from "./link.js";
import { Queue } from "./queue.js";

/** What an approver is told. */
export type PromptUpdate = ChannelResponse["message"];
/** What an approver says. */
export type Reply = MessageInitShape<typeof PromptReplySchema>;

/** Who approves what. */
export interface ApproverOptions {
  /** The approver's name. */
  readonly name: string;
  /** Which prompts to see. */
  readonly filter: MessageInitShape<typeof PromptFilterSchema>;
}

/** A way to see prompts and to answer them. */
export interface PromptConnection {
  /** Connects once, and yields what comes until the connection ends. */
  updates(signal: AbortSignal): AsyncGenerator<PromptUpdate, void, undefined>;
  /** Sends a reply. What becomes of it comes as an update, or never if the connection is lost. */
  reply(reply: Reply): void;
}

/** Both directions in one stream. */
export class ChannelConnection implements PromptConnection {
  readonly #link: Link;
  readonly #options: ApproverOptions;
  #requests = new Queue<MessageInitShape<typeof ChannelRequestSchema>>();

  constructor(link: Link, options: ApproverOptions) {
    this.#link = link;
    this.#options = options;
  }

  async *updates(signal: AbortSignal): AsyncGenerator<PromptUpdate, void, undefined> {
    const requests = new Queue<MessageInitShape<typeof ChannelRequestSchema>>();
    requests.push({ message: { case: "open", value: this.#options } });
    this.#requests = requests;
    try {
      const responses = this.#link.stream((call) => this.#link.rpc.permissions.channel(requests, call), { signal });
      for await (const { message } of responses) {
        yield message;
      }
    } finally {
      requests.close();
    }
  }

  reply(value: Reply): void {
    this.#requests.push({ message: { case: "reply", value } });
  }
}

/** A stream for the prompts and a unary RPC for each reply: for transports without client streaming. */
export class WatchConnection implements PromptConnection {
  readonly #link: Link;
  readonly #options: ApproverOptions;
  readonly #results: (update: PromptUpdate) => void;

  /** `results` takes what becomes of replies. */
  constructor(link: Link, options: ApproverOptions, results: (update: PromptUpdate) => void) {
    this.#link = link;
    this.#options = options;
    this.#results = results;
  }

  async *updates(signal: AbortSignal): AsyncGenerator<PromptUpdate, void, undefined> {
    const request = { filter: this.#options.filter };
    const responses = this.#link.stream((call) => this.#link.rpc.permissions.watchPrompts(request, call), { signal });
    for await (const { message } of responses) {
      yield message;
    }
  }

  reply(reply: Reply): void {
    void this.#reply(reply);
  }

  async #reply(reply: Reply): Promise<void> {
    const ids = { promptId: reply.promptId ?? "", replyId: reply.replyId ?? "" };
    const request = { reply, name: this.#options.name };
    try {
      const { result } = await this.#link.retrying((call) => this.#link.rpc.permissions.replyPrompt(request, call));
      this.#result(result ?? ids);
    } catch (error) {
      const refused = ToolgateError.from(error);
      if (!refused.transient && !this.#link.closed.aborted) {
        // The request itself was refused: the service says nothing about the prompt.
        const denied = refused.code === "PERMISSION_DENIED" || refused.code === "UNAUTHENTICATED";
        const result = denied ? ReplyResult.NOT_ALLOWED : ReplyResult.INVALID;
        this.#result({ ...ids, result, message: refused.message });
      }
    }
  }

  #result(value: MessageInitShape<typeof PromptReplyResultSchema>): void {
    const result: PromptReplyResult = create(PromptReplyResultSchema, value);
    this.#results({ case: "replyResult", value: result });
  }
}
