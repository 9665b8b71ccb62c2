/** The loop: the model speaks, its calls are executed, it reads what came of them, and so on until it calls no more. */
import type { CallEvent, CallResult, Client, OpenAITool, SubagentContext, SubagentTask } from "toolgate/node";
import { type Message, type Model, Reply, type ToolCall } from "./model.js";
import { type Terminal, visible } from "./terminal.js";

/** What all conversations of one program share. */
export interface Parts {
  readonly model: Model;
  readonly terminal: Terminal;
  /** The name of the host that runs their subagents. */
  readonly host: string;
}

/** Takes what an agent says, as it comes. */
export type Say = (text: string) => void | Promise<void>;

/** One agent, and what was said to it and by it. Its client makes calls in its name. */
export class Conversation {
  readonly #parts: Parts;
  readonly #messages: Message[];

  constructor(parts: Parts, system: string) {
    this.#parts = parts;
    this.#messages = [{ role: "system", content: system }];
  }

  /** Has the agent work on a message until it is done, and returns its last text. */
  async turn(client: Client, text: string, say: Say, signal: AbortSignal, isNested = false): Promise<string> {
    this.#messages.push({ role: "user", content: text });
    // Listed anew for each turn: MCP servers and hosts come and go.
    const tools = await client.tools({ signal }).openai();
    for (;;) {
      const reply = await this.#listen(tools, say, signal);
      if (reply.calls.length === 0 || !(await this.#executeAll(client, reply.calls, signal, isNested))) {
        return reply.text;
      }
    }
  }

  async #listen(tools: readonly OpenAITool[], say: Say, signal: AbortSignal): Promise<Reply> {
    const reply = new Reply();
    let complete = false;
    try {
      for await (const text of this.#parts.model.stream(this.#messages, tools, reply, signal)) {
        await say(text);
      }
      complete = true;
    } finally {
      // Calls of a message that broke off may lack a part.
      if (!complete) {
        reply.calls = [];
      }
      if (reply.text || reply.calls.length > 0) {
        this.#messages.push(reply.message());
      }
    }
    return reply;
  }

  /** Executes the calls of one message side by side. Returns whether the model is to go on. */
  async #executeAll(client: Client, calls: ToolCall[], signal: AbortSignal, isNested: boolean): Promise<boolean> {
    const feedback: string[] = [];
    // When the signal is aborted each call is cancelled, and ends when its programs are gone.
    const ends = await Promise.allSettled(
      calls.map((call) =>
        this.#execute(client, call, feedback, signal, new CallView(this.#parts.terminal, call.name, isNested)),
      ),
    );
    // Each call needs an answer, or the endpoint refuses the next request.
    for (const [index, end] of ends.entries()) {
      const content = end.status === "fulfilled" ? end.value.text : "This call has no result.";
      this.#messages.push({ role: "tool", tool_call_id: calls[index]?.id ?? "", content });
    }
    signal.throwIfAborted();
    const results = ends.map((end) => {
      if (end.status === "rejected") {
        throw end.reason;
      }
      return end.value;
    });
    // Who refuses and says nothing wants to be asked what to do; who says something has answered that.
    const refused = results.some((result) => !result.ok && result.reason === "REJECTED");
    return !refused || feedback.some((text) => text !== "");
  }

  async #execute(
    client: Client,
    call: ToolCall,
    feedback: string[],
    signal: AbortSignal,
    view: CallView,
  ): Promise<CallResult> {
    // The arguments go as the model wrote them: the service explains to it what is no JSON.
    const execution = client.execute(call.name, call.arguments || "{}", {
      extra: { host: this.#parts.host },
      output: "tail",
      signal,
    });
    try {
      for await (const event of execution) {
        view.show(event);
        if (event.type === "resumed") {
          feedback.push(event.feedback);
        }
      }
      return await execution.result();
    } finally {
      view.close();
    }
  }
}

/** A call, as the person sees it: a line that changes while it runs, and one that stays. */
class CallView {
  readonly #terminal: Terminal;
  readonly #indent: string;
  readonly #name: string;
  readonly #decoder = new TextDecoder();
  #title = "";
  #output = "";

  constructor(terminal: Terminal, name: string, isNested: boolean) {
    this.#terminal = terminal;
    this.#indent = isNested ? "  " : "";
    this.#name = visible(name);
  }

  /** Shows what has become of it. */
  show(event: CallEvent): void {
    switch (event.type) {
      case "running":
        this.#title = event.title || subject(event.inputJson);
        break;
      case "metadata":
        this.#title = event.title || this.#title;
        break;
      case "output":
        this.#output = (this.#output + this.#decoder.decode(event.data, { stream: true })).slice(-1000);
        break;
      case "waiting":
        this.#output = "waits for an answer";
        break;
      case "resumed":
        this.#output = "";
        break;
      case "warning":
        this.#stay(33, "!", event.text);
        break;
      case "completed":
        this.#stay(
          32,
          "✓",
          event.result.title + (event.result.truncation?.truncated ? " (shortened for the model)" : ""),
        );
        return;
      case "failed":
        this.#stay(31, "✗", `${this.#title}: ${event.result.error.trim().split("\n", 1)[0]}`);
        return;
      case "pending":
      case "child":
      case "gap":
        return;
    }
    const tail = this.#output.trimEnd().split("\n").at(-1);
    this.#terminal.running(this, this.#line("…", `${this.#title}  ${tail}`));
  }

  /** Takes the line away that changes. */
  close(): void {
    this.#terminal.running(this, undefined);
  }

  #stay(code: number, mark: string, text: string): void {
    this.#terminal.line(this.#line(this.#terminal.paint(code, mark), text));
  }

  #line(mark: string, text: string): string {
    return `${this.#indent}${mark} ${this.#name}  ${visible(text.trim().split(/\s+/).join(" ")).slice(0, 200)}`;
  }
}

/** Returns what a call is about, for tools that give themselves a title only at the end. */
function subject(inputJson: string): string {
  const input = JSON.parse(inputJson) as Record<string, unknown>;
  const texts = [input["description"], ...Object.values(input)].filter((value) => typeof value === "string");
  return texts[0] ?? "";
}

/** Runs what the tool `task` starts: the service owns the tools, and whoever has the model runs the agents. */
export class Subagents {
  readonly #parts: Parts;
  readonly #sessions: Set<string>;
  readonly #system: string;
  readonly #known = new Map<string, Conversation>();

  constructor(parts: Parts, sessions: Set<string>, system: string) {
    this.#parts = parts;
    this.#sessions = sessions;
    this.#system = system;
  }

  /** Runs a subagent, and returns its last text. It is given up with the call of `task`. */
  async run(task: SubagentTask, context: SubagentContext<Client>): Promise<string> {
    this.#sessions.add(context.sessionId);
    const system = task.agentPrompt || this.#system;
    const conversation = this.#known.get(context.sessionId) ?? new Conversation(this.#parts, system);
    this.#known.set(context.sessionId, conversation);
    // What it says is the output of `task` while it runs, for everybody who watches that call. The client of the context
    // makes calls in the subagent's session and names the call of `task`, which bounds what they may do.
    return conversation.turn(context.client, task.prompt, (text) => context.output(text), context.signal, true);
  }
}
