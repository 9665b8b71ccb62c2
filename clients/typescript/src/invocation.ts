/** One thing that a host was asked to run: its reports in order, its questions, its end. */
import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { ToolgateError } from "./errors.js";
import type { HostAskResult, HostReportSchema } from "./gen/toolgate/v1/host_service_pb.js";
import { type AskOptions, type HostedResult, PermissionDeniedError } from "./hosted-tool.js";
import { uuidv7 } from "./ids.js";
import { bytesOf } from "./streams.js";

/** A report without the invocation's id. */
export type Report = NonNullable<MessageInitShape<typeof HostReportSchema>["report"]>;
/** Brings a report; says whether the invocation was open. */
export type Send = (invocationId: string, report: Report) => Promise<boolean>;

interface Ask {
  readonly report: Report;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** An invocation, from its first event to the time when nobody can ask for its end any more. */
export class Invocation {
  /** Its id. */
  readonly id: string;
  readonly #send: Send;
  readonly #controller = new AbortController();
  readonly #asks = new Map<string, Ask>();
  #order: Promise<unknown> = Promise.resolve();
  #final: Report | undefined;

  constructor(id: string, send: Send) {
    this.id = id;
    this.#send = send;
  }

  /** Aborted when the invocation is given up. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether its function has returned. */
  get ended(): boolean {
    return this.#final !== undefined;
  }

  /** Reports an interim title or metadata. */
  progress({ title, metadata }: { title?: string | undefined; metadata?: JsonObject | undefined }): Promise<void> {
    const value = { ...(title === undefined ? {} : { title }), ...(metadata ? { metadata } : {}) };
    return this.#report({ case: "progress", value });
  }

  /** Reports a piece of the output. */
  output(data: string | Uint8Array): Promise<void> {
    return this.#report({ case: "output", value: { data: bytesOf(data) } });
  }

  /** Asks for a permission. */
  async ask(permission: string, options: AskOptions = {}): Promise<void> {
    const { patterns = [], always = [], title = "", metadata } = options;
    const askId = uuidv7();
    const value = {
      askId,
      permission,
      patterns: [...patterns],
      always: [...always],
      title,
      ...(metadata ? { metadata } : {}),
    };
    const report: Report = { case: "ask", value };
    const answered = new Promise<void>((resolve, reject) => {
      this.#asks.set(askId, { report, resolve, reject });
    });
    const abort = () => this.#asks.get(askId)?.reject(this.signal.reason);
    this.signal.addEventListener("abort", abort, { once: true });
    answered.catch(() => {});
    try {
      await this.#report(report);
      await answered;
    } finally {
      this.#asks.delete(askId);
      this.signal.removeEventListener("abort", abort);
    }
  }

  /** Takes the answer to a question. */
  answered({ askId, allowed, error }: HostAskResult): void {
    const ask = this.#asks.get(askId);
    if (allowed) {
      ask?.resolve();
    } else {
      ask?.reject(new PermissionDeniedError(error));
    }
  }

  /** Ends it. The last report is kept, in case the service asks for it again. */
  async finish(report: Report): Promise<void> {
    this.#final = report;
    await this.#report(report);
  }

  /** The service has sent it again: what may have been lost is said again. */
  async resent(): Promise<void> {
    if (this.#final) {
      await this.#report(this.#final);
      return;
    }
    for (const { report } of this.#asks.values()) {
      await this.#report(report);
    }
  }

  /** The service does not wait for it any more. */
  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Sends a report after those before it. */
  #report(report: Report): Promise<void> {
    const sent = this.#order.then(async () => {
      this.signal.throwIfAborted();
      const open = await this.#send(this.id, report);
      if (!open) {
        this.abort(new ToolgateError("CANCELLED", `the service does not wait for the invocation ${this.id} any more`));
        this.signal.throwIfAborted();
      }
    });
    this.#order = sent.catch(() => {});
    return sent;
  }
}

/** Returns what ends an invocation with a result. */
export function completedReport(result: string | HostedResult): Report {
  if (typeof result === "string") {
    return { case: "completed", value: { output: result } };
  }
  const { title = "", output, metadata, attachments = [] } = result;
  return {
    case: "completed",
    value: {
      title,
      ...(output === undefined ? {} : { output }),
      ...(metadata ? { metadata } : {}),
      attachments: attachments.map(({ mime, filename = "", data, url }) => ({
        mime,
        filename,
        content: data ? { case: "data" as const, value: data } : { case: "url" as const, value: url ?? "" },
      })),
    },
  };
}

/** Returns what ends an invocation without a result. */
export function failedReport(error: unknown): Report {
  return { case: "failed", value: { error: error instanceof Error ? error.message : String(error) } };
}
