/** One call while it runs: its events, its result, what reaches its programs, and the ways to stop it. */
import { type CallEvent, callEventOf } from "./call-events.js";
import { ToolgateError } from "./errors.js";
import { type FollowOptions, followCall } from "./follow-call.js";
import type { Call } from "./gen/toolgate/v1/call_pb.js";
import type { Link } from "./link.js";
import type { SignalName } from "./names.js";
import type { SendInputOptions, SignalOptions } from "./options.js";
import { type CallResult, resultOf } from "./results.js";
import {
  type InputSent,
  resizeTerminal,
  sendInput,
  sendSignal,
  type TerminalPicture,
  type TerminalSize,
  terminal,
} from "./terminals.js";
import { follow } from "./time.js";

/** How long a cancelled call may take to say that it has ended. */
const CANCEL_GRACE_MS = 20_000;

type Events = AsyncGenerator<CallEvent, undefined, undefined>;

/** What an {@link Execution} is made of. */
export interface ExecutionOptions extends Omit<FollowOptions, "signal"> {
  /** Whether leaving the execution cancels the call. */
  readonly owned: boolean;
  /** Does the same as leaving when aborted. */
  readonly signal?: AbortSignal | undefined;
  /** Called when nothing more will come. */
  readonly onSettled?: ((execution: Execution) => void) | undefined;
}

/**
 * A call that has been started, or that is watched.
 *
 * Its events are read with `for await`, its result with {@link Execution.result}; either goes on by itself after a lost
 * connection. Leaving the loop early, `await using` and the signal cancel a call that was started with
 * {@link Client.execute} (unless `onDisconnect` is `"keep"`); a call that is only watched is left alone.
 */
export class Execution implements AsyncIterable<CallEvent>, AsyncDisposable {
  /** The call's id. */
  readonly callId: string;
  readonly #link: Link;
  readonly #owned: boolean;
  readonly #options: FollowOptions;
  #events: Events;
  readonly #stop = new AbortController();
  readonly #release: () => void;
  readonly #onSettled: ((execution: Execution) => void) | undefined;
  readonly #result: Promise<CallResult>;
  #settle!: { resolve: (result: CallResult) => void; reject: (error: unknown) => void };
  /** The first event, asked for when the execution is made, so that a call starts without a reader. */
  readonly #started: Promise<IteratorResult<CallEvent, undefined>>;
  #ahead: Promise<IteratorResult<CallEvent, undefined>> | undefined;
  #reading: "nobody" | "loop" | "result" = "nobody";
  /** The last event that was read. */
  #last: bigint;
  #wanted = false;
  #lost = false;
  #settled = false;
  #cancelling: Promise<void> | undefined;

  /** @internal */
  constructor(link: Link, options: ExecutionOptions) {
    this.callId = options.callId;
    this.#link = link;
    this.#owned = options.owned;
    this.#onSettled = options.onSettled;
    this.#result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // Whoever wants the result hears of the error; nobody else has to.
    this.#result.catch(() => {});
    this.#options = { ...options, signal: this.#stop.signal };
    this.#last = options.after;
    this.#events = this.#read(this.#options);
    const aborted = new AbortController();
    aborted.signal.addEventListener("abort", () => void this.#aborted(aborted.signal.reason), { once: true });
    const before = options.signal?.aborted === true;
    if (before) {
      this.#stop.abort(options.signal?.reason);
    }
    this.#release = before ? () => {} : follow(aborted, options.signal);
    this.#started = this.#events.next();
    this.#started.catch(() => {});
    this.#ahead = this.#started;
  }

  /** Whether the call has ended, or following it has. */
  get settled(): boolean {
    return this.#settled;
  }

  /**
   * Returns how the call ended, once it has. Reads what no loop reads. Rejects if the call was not admitted, or could
   * not be followed to its end.
   */
  result(): Promise<CallResult> {
    this.#wanted = true;
    void this.#drain();
    return this.#result;
  }

  /**
   * Asks the call to stop, and returns when it has; its programs are gone then. The loop over the events goes on to the
   * terminal one, and the result is a failed one with the reason CANCELLED, unless the call was faster.
   */
  async cancel(): Promise<void> {
    this.#cancelling ??= this.#cancel();
    try {
      await this.#cancelling;
    } catch (error) {
      this.#cancelling = undefined;
      throw error;
    }
  }

  /** Sends bytes to the standard input of a command in the background. Returns how much was accepted so far. */
  sendInput(data: string | Uint8Array, options: SendInputOptions = {}): Promise<InputSent> {
    return sendInput(this.#link, this.callId, data, options);
  }

  /** Sends a signal to a command in the background. After UNAVAILABLE it may have been sent. */
  sendSignal(name: SignalName, options: SignalOptions = {}): Promise<void> {
    return sendSignal(this.#link, this.callId, name, options);
  }

  /** Gives the terminal of a command in the background another size. */
  resizeTerminal(size: TerminalSize, options: SignalOptions = {}): Promise<void> {
    return resizeTerminal(this.#link, this.callId, size, options);
  }

  /** Returns what the terminal of a command in the background shows. */
  terminal(options: SignalOptions = {}): Promise<TerminalPicture> {
    return terminal(this.#link, this.callId, options);
  }

  /** Leaves the call running and ends the following. {@link Client.watch} takes it up again. */
  detach(): void {
    this.#stop.abort(new ToolgateError("CANCELLED", `call ${this.callId} is not followed any more`));
    void this.#drain();
  }

  /** Reads the events. There is one reader at a time. */
  [Symbol.asyncIterator](): AsyncIterator<CallEvent, undefined, undefined> {
    if (this.#lost) {
      throw new TypeError(
        "result() has consumed events of this execution: begin the loop before asking for the result",
      );
    }
    this.#reading = "loop";
    return {
      next: async () => {
        const next = await this.#next();
        return next.done ? { done: true, value: undefined } : next;
      },
      return: async () => {
        this.#reading = "nobody";
        await this.#leave();
        return { done: true, value: undefined };
      },
    };
  }

  /** Cancels the call if it still runs and is this execution's; otherwise ends the following. */
  async close(): Promise<void> {
    await this.#leave();
    if (!this.#settled && !this.#owned) {
      this.detach();
    }
  }

  /** Closes. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #leave(): Promise<void> {
    if (this.#settled) {
      return;
    }
    if (!this.#owned) {
      await this.#pause();
      return;
    }
    const timer = setTimeout(() => this.#giveUp(undefined), CANCEL_GRACE_MS);
    try {
      await this.cancel();
      await this.result();
    } catch (error) {
      this.#giveUp(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the stream that nobody reads; whoever reads on gets another one. */
  async #pause(): Promise<void> {
    if (this.#wanted) {
      void this.#drain();
    } else if (!this.#ahead) {
      const events = this.#events;
      this.#events = this.#read({ ...this.#options, start: undefined, after: this.#last });
      await events.return(undefined);
    }
  }

  #giveUp(reason: unknown): void {
    this.#stop.abort(reason ?? new ToolgateError("DEADLINE_EXCEEDED", `call ${this.callId} did not stop in time`));
  }

  async #aborted(reason: unknown): Promise<void> {
    if (!this.#owned) {
      this.#stop.abort(reason);
      return;
    }
    const timer = setTimeout(() => this.#stop.abort(reason), CANCEL_GRACE_MS);
    this.#result.catch(() => {}).finally(() => clearTimeout(timer));
    try {
      await this.cancel();
    } catch {
      this.#stop.abort(reason);
    }
    void this.#drain();
  }

  async #cancel(): Promise<void> {
    if (this.#settled) {
      return;
    }
    const cancel = () =>
      this.#link.retrying((options) => this.#link.rpc.tools.cancelCall({ callId: this.callId }, options), {
        timeoutMs: CANCEL_GRACE_MS,
      });
    try {
      await cancel();
    } catch (error) {
      if (!(error instanceof ToolgateError && error.code === "NOT_FOUND") || this.#settled) {
        throw error;
      }
      // The request to start it may still be on its way; to give up here would leave it running.
      const first = await this.#started;
      if (!first.done) {
        await cancel();
      }
    }
  }

  /** Reads to the end while no loop does. */
  async #drain(): Promise<void> {
    if (this.#reading !== "nobody") {
      return;
    }
    this.#reading = "result";
    // A loop that begins in the same turn comes first.
    await Promise.resolve();
    try {
      while (this.#reading === "result") {
        this.#lost = true;
        const next = await this.#next();
        if (next.done) {
          return;
        }
      }
    } catch {
      // The result has it.
    }
  }

  #next(): Promise<IteratorResult<CallEvent, undefined>> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    return ahead ?? this.#events.next();
  }

  async *#read(options: FollowOptions): Events {
    const messages = followCall(this.#link, options);
    try {
      for (;;) {
        const next = await messages.next();
        if (next.done) {
          this.#succeedWith(next.value);
          return undefined;
        }
        this.#last = next.value.sequence;
        const event = callEventOf(next.value);
        if (event?.type === "completed" || event?.type === "failed") {
          this.#succeed(event.result);
        }
        if (event) {
          yield event;
        }
      }
    } catch (error) {
      this.#end();
      this.#settle.reject(error);
      throw error;
    } finally {
      await messages.return(undefined);
    }
  }

  /** The terminal event has said how the call ended, or lies before what was to be read; then its record says it. */
  #succeedWith(call: Call | undefined): void {
    if (this.#settled) {
      return;
    }
    const result = call && resultOf(call);
    if (!result) {
      throw new ToolgateError("DATA_LOSS", `call ${this.callId} has ended, but its record does not say how`);
    }
    this.#succeed(result);
  }

  #succeed(result: CallResult): void {
    this.#end();
    this.#settle.resolve(result);
  }

  #end(): void {
    this.#settled = true;
    this.#release();
    this.#onSettled?.(this);
  }
}
