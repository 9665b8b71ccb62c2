/** A model that says what a script says: chat completions on loopback. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** What the model says: text, or a call of a tool. */
export type Turn = string | { readonly tool: string; readonly input: object };

/** What a model is told of a tool. */
export interface ToldTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: {
    readonly properties?: Record<string, { description?: string }>;
    readonly required?: string[];
  };
}

interface Message {
  readonly role: string;
  readonly content: unknown;
  readonly tool_calls?: readonly { readonly id: string }[];
}

/** Plays scripts, each chosen by what the user says. */
export class Model implements AsyncDisposable {
  /** What it was told of the tools, last. */
  readonly tools = new Map<string, ToldTool>();
  /** What came back of its calls, in the order in which it was told. */
  readonly results: string[] = [];
  readonly #scripts = new Map<string, readonly Turn[]>();
  readonly #server: Server;
  #calls = 0;

  private constructor() {
    this.#server = createServer(async (request, response) => {
      if (request.method === "GET") {
        // The list of all models of the world, which OpenCode asks for first.
        response.end("{}");
        return;
      }
      const body = JSON.parse(await text(request));
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const chunk of this.#chunks(this.#turn(body))) {
        response.write(
          `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...chunk })}\n\n`,
        );
      }
      response.end("data: [DONE]\n\n");
    });
  }

  static async start(): Promise<Model> {
    const model = new Model();
    await new Promise<void>((resolve) => model.#server.listen(0, "127.0.0.1", resolve));
    return model;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Says these things, one after the other, to whoever says `user`. */
  plays(user: string, ...turns: Turn[]): void {
    this.#scripts.set(user, turns);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #turn(body: { messages: Message[]; tools?: { function: ToldTool }[] }): Turn {
    // A title is made without tools.
    if (!body.tools?.length) {
      return "A title";
    }
    this.tools.clear();
    for (const { function: tool } of body.tools) {
      this.tools.set(tool.name, tool);
    }
    const { messages } = body;
    const first = messages.findLastIndex(({ role, content }) => role === "user" && this.#scriptOf(content));
    const script = this.#scriptOf(messages[first]?.content) ?? [];
    const since = messages.slice(first);
    const answers = since.filter(({ role }) => role === "tool");
    if (since.at(-1)?.role === "tool") {
      this.results.push(contentOf(since.at(-1)?.content));
    }
    return script[answers.length] ?? "Nothing more.";
  }

  #scriptOf(content: unknown): readonly Turn[] | undefined {
    const said = contentOf(content);
    return [...this.#scripts].find(([user]) => said.includes(user))?.[1];
  }

  #chunks(turn: Turn): object[] {
    const end = (finish_reason: string) => [
      { choices: [{ index: 0, delta: {}, finish_reason }] },
      {
        choices: [],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      },
    ];
    if (typeof turn === "string") {
      return [
        {
          choices: [
            {
              index: 0,
              delta: { role: "assistant", content: turn },
              finish_reason: null,
            },
          ],
        },
        ...end("stop"),
      ];
    }
    this.#calls += 1;
    const call = {
      index: 0,
      id: `call_${this.#calls}`,
      type: "function",
      function: { name: turn.tool, arguments: JSON.stringify(turn.input) },
    };
    return [
      {
        choices: [
          {
            index: 0,
            delta: { role: "assistant", content: null, tool_calls: [call] },
            finish_reason: null,
          },
        ],
      },
      ...end("tool_calls"),
    ];
  }
}

function contentOf(content: unknown): string {
  return typeof content === "string" ? content : JSON.stringify(content ?? "");
}

async function text(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) {
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}
