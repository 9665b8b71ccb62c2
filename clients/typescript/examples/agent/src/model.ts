/** The model: chat completions of any OpenAI-compatible endpoint, streamed. */
import type { OpenAITool } from "toolgate/node";

/** The endpoint refused a request, or broke off. */
export class ModelError extends Error {}

/** A call that the model wants. The arguments are its own words, which need not be JSON. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

/** A message of the conversation, as the endpoint takes it. */
export type Message =
  | { role: "system" | "user"; content: string }
  | { role: "assistant"; content: string | null; tool_calls?: object[] }
  | { role: "tool"; tool_call_id: string; content: string };

interface Delta {
  content?: string | null;
  tool_calls?: { index?: number; id?: string; function?: { name?: string; arguments?: string } }[] | null;
}

interface Chunk {
  choices?: { delta?: Delta; finish_reason?: string | null }[];
  error?: unknown;
}

/** One message of the model, put together from the pieces in which it comes. */
export class Reply {
  text = "";
  calls: ToolCall[] = [];

  /** Takes a piece, and returns the text in it. */
  add(delta: Delta): string {
    const text = delta.content ?? "";
    this.text += text;
    for (const part of delta.tool_calls ?? []) {
      // Some servers leave the index out and send each call whole.
      const index = part.index ?? this.calls.length;
      const call = this.calls[index] ?? { id: `call_${index}`, name: "", arguments: "" };
      call.id = part.id || call.id;
      call.name += part.function?.name ?? "";
      call.arguments += part.function?.arguments ?? "";
      this.calls[index] = call;
    }
    return text;
  }

  /** Returns it as the next request repeats it. */
  message(): Message {
    const content = this.text || null;
    if (this.calls.length === 0) {
      return { role: "assistant", content };
    }
    const calls = this.calls.map(({ id, ...called }) => ({ id, type: "function", function: called }));
    return { role: "assistant", content, tool_calls: calls };
  }
}

/** A model behind an endpoint. */
export class Model {
  readonly name: string;
  readonly #url: string;
  readonly #headers: Record<string, string>;

  constructor(baseUrl: string, key: string, name: string) {
    this.name = name;
    this.#url = `${baseUrl.replace(/\/$/, "")}/chat/completions`;
    this.#headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
  }

  /** Yields the text as it comes. `reply` is what has come so far, and is the whole message at the end. */
  async *stream(
    messages: readonly Message[],
    tools: readonly OpenAITool[],
    reply: Reply,
    signal: AbortSignal,
  ): AsyncGenerator<string, void, undefined> {
    const request = { model: this.name, messages, stream: true, ...(tools.length > 0 ? { tools } : {}) };
    const body = JSON.stringify(request);
    let finished = false;
    try {
      const response = await fetch(this.#url, { method: "POST", headers: this.#headers, body, signal });
      if (!response.ok || !response.body) {
        const text = await response.text();
        throw new ModelError(`the model's endpoint answers ${response.status}: ${text.slice(0, 500)}`);
      }
      for await (const data of events(response.body)) {
        if (data === "[DONE]") {
          return;
        }
        const chunk = JSON.parse(data) as Chunk;
        if (chunk.error) {
          throw new ModelError(`the model failed: ${JSON.stringify(chunk.error).slice(0, 500)}`);
        }
        for (const { delta, finish_reason } of chunk.choices ?? []) {
          finished ||= Boolean(finish_reason);
          const text = reply.add(delta ?? {});
          if (text) {
            yield text;
          }
        }
      }
    } catch (error) {
      throw error instanceof ModelError || signal.aborted ? error : new ModelError(reason(error), { cause: error });
    }
    if (!finished) {
      throw new ModelError("the model's answer broke off");
    }
  }
}

async function* events(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const data of body) {
    const lines = (rest + decoder.decode(data, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data:")) {
        yield line.slice("data:".length).trim();
      }
    }
  }
}

function reason(error: unknown): string {
  // `fetch` itself says no more than that it failed.
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return `the model cannot be heard: ${cause instanceof Error ? cause.message : cause}`;
}
