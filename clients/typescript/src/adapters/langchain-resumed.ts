/**
 * Which of the values that a graph of LangGraph.js was resumed with is a decision about which prompt.
 *
 * LangGraph gives the values of a task to whoever asks first, by counting. Where a node runs several calls at once, as `ToolNode`
 * does, that may be another call than the one that a person was shown; and a value without the id of an interrupt is given to
 * every task that was stopped. So a value counts for the prompt that it names as `prompt`. One that names none counts for the
 * prompt that the task was stopped for last, which the checkpoint says, if it came after that and only one task was stopped.
 * LangGraph also keeps the value of a plain `Command({ resume })`, and gives it once more when a graph goes on without any: one
 * that is like the one before it has to name its prompt, or come by the interrupt's id.
 *
 * A value that may be meant for another prompt decides nothing: the graph is interrupted again.
 */
import { interrupt, isGraphBubbleUp } from "@langchain/langgraph";

const NO_TASK = "00000000-0000-0000-0000-000000000000";

type Write = readonly [task: string, channel: string, value: unknown];

/** What LangGraph tells a tool of its task. */
export interface Configurable {
  readonly thread_id?: string;
  readonly checkpoint_ns?: string;
  readonly checkpoint_map?: Readonly<Record<string, string>>;
  readonly __pregel_scratchpad?: { readonly resume: readonly unknown[]; readonly nullResume?: unknown };
  readonly __pregel_checkpointer?: {
    getTuple?(config: object): Promise<{ readonly pendingWrites?: readonly Write[] } | undefined>;
  };
}

/** What a task was stopped for last. */
interface Stop {
  /** The value of its interrupt. */
  readonly shown: unknown;
  /** Whether a value without the id of an interrupt may be for this one only. */
  readonly isOnly: boolean;
  /** Whether the checkpoint has such a value. */
  readonly isResumedPlainly: boolean;
}

/** What an adapter adds to the value of an interrupt, to know later what was said about it. */
interface Asked {
  readonly id: string;
  answered?: number;
  note?: string;
}

/** What tasks were stopped for before they were resumed; a task that runs again has another scratchpad. */
const stops = new WeakMap<object, Promise<Stop | undefined>>();

/** How often each call was made without an id of the model, since a task began to run. */
const made = new WeakMap<object, Map<string, number>>();

/**
 * Returns how often a task has made a call before, since it began to run; undefined where no task is known. A task that is resumed
 * runs from its beginning, and makes the same calls in the same order.
 */
export function countOf({ __pregel_scratchpad: attempt }: Configurable, callId: string): number | undefined {
  if (attempt === undefined) {
    return undefined;
  }
  const counts = made.get(attempt) ?? new Map<string, number>();
  made.set(attempt, counts);
  const times = counts.get(callId) ?? 0;
  counts.set(callId, times + 1);
  return times;
}

/** The task of a graph that a call runs in, and the values that it was resumed with. */
export class Task {
  readonly #configurable: Configurable;
  readonly #isResumedPlainly: boolean;

  constructor(configurable: Configurable) {
    this.#configurable = configurable;
    this.#isResumedPlainly = configurable.__pregel_scratchpad?.nullResume !== undefined;
  }

  /** Counts a prompt that is decided, so that what comes after it finds its own value. */
  passOne(value: object): void {
    try {
      interrupt(value);
    } catch (error) {
      // Another call of the task has counted all of them.
      if (!isGraphBubbleUp(error) || this.#values().length === 0) {
        throw error;
      }
    }
  }

  /** Returns what was said about the prompt in `value`, which is open; interrupts the graph if nothing was. */
  async answer(value: { readonly toolgate: Asked }): Promise<unknown> {
    const isResumed = this.#isResumedPlainly || this.#values().length > 0;
    const stop = isResumed ? await this.#stop() : undefined;
    const asked = value.toolgate;
    try {
      for (;;) {
        // What comes after an open prompt was not reached yet, so all values are of now or before.
        interrupt(value);
      }
    } catch (error) {
      if (!isGraphBubbleUp(error)) {
        throw error;
      }
      const values = this.#values();
      const named = values.filter((said) => namedBy(said) === asked.id);
      if (named.length > 0) {
        return named.at(-1);
      }
      asked.answered = values.length;
      if (values.length > 0 && namedBy(values.at(-1)) === undefined) {
        if (stop && this.#isFor(asked.id, values, stop)) {
          return values.at(-1);
        }
        asked.note = 'what was said last may be about another prompt: say the id of this one as "prompt"';
      }
      throw error;
    }
  }

  /** Whether the last value, which names no prompt, was given when this one was shown. */
  #isFor(prompt: string, values: readonly unknown[], { shown, isOnly, isResumedPlainly }: Stop): boolean {
    const asked = (shown as { toolgate?: Asked } | undefined)?.toolgate;
    if (asked?.id !== prompt || asked.answered !== values.length - 1) {
      return false;
    }
    const isPlain = this.#isResumedPlainly || isResumedPlainly;
    const isRepeated = values.length > 1 && JSON.stringify(values.at(-1)) === JSON.stringify(values.at(-2));
    return !isPlain || (isOnly && !isRepeated);
  }

  #values(): readonly unknown[] {
    return this.#configurable.__pregel_scratchpad?.resume ?? [];
  }

  /** Reads it once for all calls of the task: when one of them interrupts it again, the checkpoint says something else. */
  #stop(): Promise<Stop | undefined> {
    const attempt = this.#configurable.__pregel_scratchpad ?? {};
    const stop = stops.get(attempt) ?? this.#readStop();
    stops.set(attempt, stop);
    return stop;
  }

  async #readStop(): Promise<Stop | undefined> {
    const namespace = this.#configurable.checkpoint_ns ?? "";
    const at = namespace.lastIndexOf("|");
    const task = namespace.slice(namespace.lastIndexOf(":") + 1);
    const writes = await this.#writes(namespace.slice(0, Math.max(at, 0)));
    const whole = at < 0 ? writes : await this.#writes("");
    const interrupts = interruptsIn(writes, task);
    if (interrupts.length !== 1) {
      return undefined;
    }
    const stopped = new Set(whole.flatMap(([id, channel]) => (channel === "__interrupt__" ? [id] : [])));
    const open = [...stopped].filter((id) => whole.every(([of, channel]) => of !== id || !isResult(channel)));
    return {
      shown: interrupts[0]?.value,
      isOnly: open.length === 1 && open.flatMap((id) => interruptsIn(whole, id)).length === 1,
      isResumedPlainly: [...writes, ...whole].some(([id, channel]) => id === NO_TASK && channel === "__resume__"),
    };
  }

  async #writes(checkpoint_ns: string): Promise<readonly Write[]> {
    const { thread_id, checkpoint_map, __pregel_checkpointer: saver } = this.#configurable;
    const checkpoint_id = checkpoint_map?.[checkpoint_ns];
    if (checkpoint_id === undefined) {
      return [];
    }
    return (
      (await saver?.getTuple?.({ configurable: { thread_id, checkpoint_ns, checkpoint_id } }))?.pendingWrites ?? []
    );
  }
}

/** What a task was stopped for last. */
function interruptsIn(writes: readonly Write[], task: string): readonly { readonly value?: unknown }[] {
  const found = writes.filter(([id, channel]) => id === task && channel === "__interrupt__").at(-1)?.[2];
  return (Array.isArray(found) ? found : found === undefined ? [] : [found]) as { value?: unknown }[];
}

/** Whether a task that wrote there has ended. */
function isResult(channel: string): boolean {
  return channel !== "__interrupt__" && channel !== "__resume__" && channel !== "__error__";
}

/** Returns the id of the prompt that a value says it is about; undefined if it says nothing of that. */
function namedBy(said: unknown): string | undefined {
  if (typeof said !== "object" || said === null) {
    return undefined;
  }
  const { prompt, decisions } = said as { prompt?: unknown; decisions?: unknown };
  if (prompt === undefined && Array.isArray(decisions) && decisions.length === 1) {
    return namedBy(decisions[0]);
  }
  return prompt === undefined ? undefined : String(prompt);
}
