/** The person in the loop: prompts, shown in the terminal and answered there. */
import {
  always,
  answer,
  type Decision,
  instead,
  once,
  type PermissionPrompt,
  type Prompt,
  type PromptContext,
  type Question,
  type ReplyOutcome,
  reject,
} from "toolgate/node";
import { type Terminal, visible } from "./terminal.js";

// With a message the model goes on, and finds another way if there is one.
const NOBODY = "There is nobody to ask. Go on without it, or say what is missing.";

/** Whoever sits at the terminal. */
export class Person {
  readonly #terminal: Terminal;
  readonly #sessions: ReadonlySet<string>;

  constructor(terminal: Terminal, sessions: ReadonlySet<string>) {
    this.#terminal = terminal;
    this.#sessions = sessions;
  }

  /** Asks the person. It is given up when the prompt ends otherwise: another approver, a cancelled call. */
  async decide(prompt: Prompt, { signal }: PromptContext): Promise<Decision | undefined> {
    // The prompts of other agents in the same workspace are for their own people.
    if (!this.#sessions.has(prompt.sessionId)) {
      return undefined;
    }
    return this.#terminal.dialog(signal, async () => {
      const head = `? ${prompt.tool} of the agent ${prompt.agent} asks`;
      if (prompt.kind === "questions") {
        this.#terminal.say(this.#terminal.paint(33, visible(head)));
        return this.#answer(prompt.questions, signal);
      }
      this.#terminal.say(this.#terminal.paint(33, visible(`${head} for the permission ${prompt.permission}`)));
      this.#show(prompt);
      return this.#permit(prompt, signal);
    });
  }

  /** Says what became of a reply that did not decide. */
  told({ result, message }: ReplyOutcome): void {
    if (result !== "ACCEPTED") {
      this.#terminal.line(this.#terminal.paint(33, `! ${visible(message)}`));
    }
    if (result === "INVALID") {
      this.#terminal.line("  The call still waits for an answer. Ctrl-C cancels it.");
    }
  }

  #show({ title, diff, patterns, parts, always: standing }: PermissionPrompt): void {
    if (title) {
      this.#terminal.say(`  ${visible(title)}`);
    }
    if (diff) {
      for (const line of visible(diff).split("\n")) {
        const code = line.startsWith("+") ? 32 : line.startsWith("-") ? 31 : 0;
        this.#terminal.say(`  ${this.#terminal.paint(code, line)}`);
      }
    } else {
      for (const pattern of patterns) {
        this.#terminal.say(`  ${visible(pattern).replaceAll("\n", "\n  ")}`);
      }
    }
    for (const { text, unclear } of parts) {
      if (unclear) {
        this.#terminal.say(`  ${visible(text)}: ${visible(unclear)}`);
      }
    }
    if (standing.length > 0) {
      this.#terminal.say(this.#terminal.paint(2, `  always: ${visible(standing.join(", "))}`));
    }
  }

  async #permit(prompt: PermissionPrompt, signal: AbortSignal): Promise<Decision> {
    const keys = `[y]es, [a]lways, [n]o${prompt.editable ? ", [e]dit" : ""}? `;
    for (;;) {
      const line = await this.#terminal.ask(keys, { signal });
      switch (line?.trim().toLowerCase()) {
        case undefined:
          return reject(NOBODY);
        case "y":
          return once();
        case "a":
          return always();
        case "n":
          return reject(await this.#terminal.ask("What should it do instead (empty: stop)? ", { signal }));
        case "e": {
          const changed = prompt.editable ? await this.#edit(prompt.inputJson, signal) : undefined;
          if (changed) {
            return changed;
          }
        }
      }
    }
  }

  async #edit(inputJson: string, signal: AbortSignal): Promise<Decision | undefined> {
    this.#terminal.say(`  ${visible(inputJson)}`);
    const line = await this.#terminal.ask("What to change, as JSON (empty: nothing)? ", { signal });
    try {
      const changes: unknown = JSON.parse(line || "null");
      return changes && typeof changes === "object" ? instead({ ...JSON.parse(inputJson), ...changes }) : undefined;
    } catch (error) {
      this.#terminal.say(`  This is no JSON: ${error instanceof Error ? visible(error.message) : error}`);
      return undefined;
    }
  }

  async #answer(questions: readonly Question[], signal: AbortSignal): Promise<Decision> {
    const answers: string[][] = [];
    for (const question of questions) {
      this.#terminal.say(`  ${visible(question.question)}`);
      for (const [index, { label, description }] of question.options.entries()) {
        this.#terminal.say(`  ${index + 1}. ${visible(label)}: ${visible(description)}`);
      }
      const several = question.multiple ? "numbers with commas" : "a number";
      const choose = `${question.custom ? "your own words, or " : ""}${several} `;
      const line = await this.#terminal.ask(`${question.options.length > 0 ? choose : ""}(n: dismiss)? `, { signal });
      if (line === undefined || line.trim().toLowerCase() === "n") {
        return reject();
      }
      answers.push(choice(question, line.trim()));
    }
    return answer(...answers);
  }
}

/** Returns the labels of the numbers in a line; a line that is anything else is an answer of its own. */
function choice({ options, multiple }: Question, line: string): string[] {
  const words = multiple ? line.split(",") : [line];
  const labels = words.map((word) => (/^\s*\d+\s*$/.test(word) ? options[Number(word) - 1]?.label : undefined));
  if (labels.every((label) => label !== undefined)) {
    return labels;
  }
  return line ? [line] : [];
}
