/** Calls of Toolgate behind the tools of OpenCode. */
import type { CallEvent, CallResult, ModelRef, Prompt } from "toolgate/node";
import type { Asking } from "./dialogs.js";
import type { FilePart, ToolContext, ToolResult } from "./opencode.js";
import type { Parts } from "./parts.js";
import type { Service } from "./service.js";

/** How often OpenCode is told how far a call is, at most. */
const PROGRESS_MS = 100;
/** How much of a running command's output it is told. */
const MAX_OUTPUT = 30_000;
/** How many results wait for the hook behind their tool, which never comes for some (those of OpenCode's `batch`). */
const MAX_RESULTS = 64;

/** How calls are made. */
export interface CallsOptions {
  /** In the place of OpenCode's agent, where Toolgate does not know that. */
  readonly agent?: string | undefined;
}

/** Makes calls, and knows those that run. */
export class Calls {
  /** Those that run, by Toolgate's id. */
  readonly running = new Map<string, Asking>();
  readonly #service: Service;
  readonly #parts: Parts;
  readonly #options: CallsOptions;
  readonly #models = new Map<string, ModelRef>();
  readonly #results = new Map<string, { result: CallResult; messageID: string }>();

  constructor(service: Service, parts: Parts, options: CallsOptions) {
    this.#service = service;
    this.#parts = parts;
    this.#options = options;
  }

  /** Remembers with which model a session works: which tools there are depends on it. */
  uses(sessionID: string, model: ModelRef): void {
    this.#models.set(sessionID, model);
  }

  /** Runs a tool and returns the text for the model. What fails is thrown, as OpenCode's tools do. */
  async run(tool: string, args: Record<string, unknown>, context: ToolContext): Promise<string> {
    const { sessionID, messageID, callID, abort: signal } = context;
    let result: CallResult;
    let asking: Asking | undefined;
    try {
      const execution = this.#service.client.execute(tool, args, {
        workspace: await this.#service.workspace(),
        session: sessionID,
        agent: this.#options.agent ?? context.agent,
        model: this.#models.get(sessionID),
        messageId: messageID,
        extra: { opencode: { messageID, callID: callID ?? "" } },
        signal,
      });
      const progress = new Progress(this.#parts, context, execution.callId);
      asking = {
        context,
        refusal: undefined,
        elsewhere: (prompt) => progress.waits(prompt, this.#service.target),
      };
      this.running.set(execution.callId, asking);
      try {
        for await (const event of execution) {
          progress.take(event);
        }
        result = await execution.result();
      } finally {
        await progress.end();
        this.running.delete(execution.callId);
      }
    } catch (error) {
      throw signal.aborted ? error : this.#service.explained(error);
    }
    if (!result.ok) {
      throw asking.refusal ?? new Error(result.text);
    }
    this.#keep(keyOf(sessionID, callID), { result, messageID });
    return result.text;
  }

  /** Gives a result what OpenCode leaves out of those of plugins: title, metadata, files, and the text as Toolgate cut it. */
  complete(sessionID: string, callID: string, output: ToolResult): void {
    const key = keyOf(sessionID, callID);
    const kept = this.#results.get(key);
    if (!kept) {
      return;
    }
    this.#results.delete(key);
    const { result, messageID } = kept;
    output.title = result.title;
    output.output = result.text;
    output.metadata = {
      ...result.metadata,
      truncated: result.truncation?.truncated ?? false,
      toolgate: { callId: result.callId },
    };
    const files = result.attachments.flatMap((file, index): FilePart[] => {
      const url = file.data ? `data:${file.mime};base64,${Buffer.from(file.data).toString("base64")}` : file.url;
      if (url === undefined) {
        return [];
      }
      const id = `prt_${result.callId.replaceAll("-", "")}${index}`;
      return [
        {
          id,
          sessionID,
          messageID,
          type: "file",
          mime: file.mime,
          url,
          ...named(file.filename),
        },
      ];
    });
    if (files.length > 0) {
      output.attachments = files;
    }
  }

  /** Forgets a session that is gone, and ends what it left running. */
  async forget(sessionID: string): Promise<void> {
    if (this.#models.delete(sessionID)) {
      await this.#service.client.endSession(sessionID);
    }
  }

  #keep(key: string, kept: { result: CallResult; messageID: string }): void {
    this.#results.set(key, kept);
    for (const oldest of this.#results.keys()) {
      if (this.#results.size <= MAX_RESULTS) {
        break;
      }
      this.#results.delete(oldest);
    }
  }
}

/** Tells OpenCode how far a call is: not more often than it can draw, and one after the other. */
class Progress {
  readonly #parts: Parts;
  readonly #context: ToolContext;
  readonly #callId: string;
  readonly #decoder = new TextDecoder();
  #title = "";
  #metadata: Record<string, unknown> = {};
  #output: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #told = Promise.resolve();

  constructor(parts: Parts, context: ToolContext, callId: string) {
    this.#parts = parts;
    this.#context = context;
    this.#callId = callId;
  }

  take(event: CallEvent): void {
    switch (event.type) {
      case "pending":
      case "running":
        this.#title = event.title || this.#title;
        break;
      case "metadata":
        this.#title = event.title ?? this.#title;
        this.#metadata = { ...this.#metadata, ...event.metadata };
        break;
      case "output":
        this.#output = `${this.#output ?? ""}${this.#decoder.decode(event.data, { stream: true })}`.slice(-MAX_OUTPUT);
        break;
      default:
        return;
    }
    this.#timer ??= setTimeout(() => this.#tell(), PROGRESS_MS);
  }

  /** Says that somebody else has to answer. */
  waits(prompt: Prompt, target: string): void {
    const what = prompt.kind === "permission" ? prompt.title || prompt.permission : "an answer";
    this.#title = `waits for ${what}: toolgate approve --server ${target}`;
    this.#tell();
  }

  /** Ends it: when this returns, nothing more is told. */
  async end(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#told;
  }

  #tell(): void {
    this.#timer = undefined;
    const output = this.#output === undefined ? {} : { output: this.#output };
    const metadata = { ...this.#metadata, ...output, toolgate: { callId: this.#callId } };
    const show = () => this.#parts.show(this.#context, { title: this.#title, metadata });
    // What is not shown now is shown at the end.
    this.#told = this.#told.then(show).catch(() => {});
  }
}

function keyOf(sessionID: string, callID: string | undefined): string {
  return `${sessionID} ${callID ?? ""}`;
}

function named(filename: string): { filename?: string } {
  return filename ? { filename } : {};
}
