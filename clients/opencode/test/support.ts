/** A Toolgate, a real OpenCode with the plugin, and a scripted model, in folders of their own. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Model } from "./model.js";

/** The service to test with. */
const TOOLGATE_BIN = process.env["TOOLGATE_BIN"] ?? "";
/** The plugin, as it is installed. */
const PLUGIN = pathToFileURL(join(dirname(fileURLToPath(import.meta.url)), "../../dist/index.js")).href;
const LIMIT_MS = 60_000;

/** What both sides read in the project's folder. */
const PROJECT = {
  permission: {
    bash: { "*": "ask", "echo *": "allow", "sleep *": "allow", "exit *": "allow" },
    edit: "ask",
  },
};

/** Something that happened in OpenCode. */
export interface Event {
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: what OpenCode sends is looked at as it comes.
  readonly properties: any;
}

/** A dialog of OpenCode. */
export interface Asked {
  readonly id: string;
  readonly sessionID: string;
  readonly permission: string;
  readonly patterns: string[];
  readonly always: string[];
  readonly metadata: Record<string, unknown>;
}

/** All of it. */
export class Playground implements AsyncDisposable {
  readonly model: Model;
  readonly project: string;
  readonly events: Event[] = [];
  /** Where Toolgate listens. */
  readonly socket: string;
  readonly #folder: string;
  readonly #program: string;
  #toolgate: ChildProcess | undefined;
  #openCode: ChildProcess | undefined;
  #log = "";
  #url = "";
  readonly #stop = new AbortController();

  private constructor(folder: string, program: string, model: Model) {
    this.#folder = folder;
    this.#program = program;
    this.model = model;
    this.project = join(folder, "project");
    this.socket = `unix:${join(folder, "socket")}`;
  }

  static async make(program: string): Promise<Playground> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), "toolgate-opencode-")));
    const made = new Playground(folder, program, await Model.start());
    await mkdir(join(made.project, ".git"), { recursive: true });
    await writeFile(join(made.project, "opencode.json"), JSON.stringify({ ...PROJECT, plugin: [PLUGIN] }));
    return made;
  }

  /** Starts the service, again after {@link Playground.stopToolgate}. */
  async startToolgate(): Promise<void> {
    const home = join(this.#folder, "service");
    await mkdir(home, { recursive: true });
    const args = [
      "serve",
      "--json",
      "--no-tcp",
      "--socket",
      join(this.#folder, "socket"),
      "--data-dir",
      join(home, "data"),
    ];
    // It trusts the project, and so finds the plugin there: it is not to call itself.
    const env = { PATH: process.env["PATH"], HOME: home, TOOLGATE_TRUST: "1" };
    const started = spawn(TOOLGATE_BIN, [...args, "--workspace", `project=${this.project}`], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#toolgate = started;
    this.#keep(started);
    for await (const _ of createInterface({ input: started.stdout })) {
      started.stdout.resume();
      return;
    }
    throw new Error(`Toolgate did not start:\n${this.#log}`);
  }

  async stopToolgate(): Promise<void> {
    await end(this.#toolgate);
    this.#toolgate = undefined;
  }

  /** Starts OpenCode's server. `rules` are OpenCode's only. */
  async startOpenCode(rules: object = {}): Promise<void> {
    const home = join(this.#folder, "home");
    const config = join(home, "config", "opencode");
    // OpenCode would first install its package for plugins, unless it finds that written down.
    await mkdir(join(config, "node_modules"), { recursive: true });
    const dependencies = { "@opencode-ai/plugin": "*" };
    await writeFile(join(config, "package.json"), JSON.stringify({ dependencies }));
    await writeFile(join(config, "package-lock.json"), JSON.stringify({ packages: { "": { dependencies } } }));
    const provider = {
      npm: "@ai-sdk/openai-compatible",
      name: "Scripted",
      options: { baseURL: `${this.model.url}/v1`, apiKey: "key" },
      models: {
        scripted: {
          name: "Scripted",
          tool_call: true,
          limit: { context: 100_000, output: 10_000 },
        },
      },
    };
    const settings = {
      provider: { scripted: provider },
      model: "scripted/scripted",
      autoupdate: false,
      share: "disabled",
    };
    await writeFile(join(config, "opencode.json"), JSON.stringify(settings));
    const env = {
      PATH: process.env["PATH"],
      HOME: home,
      XDG_CONFIG_HOME: join(home, "config"),
      XDG_DATA_HOME: join(home, "data"),
      XDG_CACHE_HOME: join(home, "cache"),
      XDG_STATE_HOME: join(home, "state"),
      OPENCODE_DISABLE_AUTOUPDATE: "1",
      OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
      OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
      OPENCODE_MODELS_URL: this.model.url,
      OPENCODE_PERMISSION: JSON.stringify(rules),
      npm_config_registry: "http://127.0.0.1:9/",
      BUN_CONFIG_REGISTRY: "http://127.0.0.1:9/",
      TOOLGATE_SERVER: this.socket,
    };
    const args = ["serve", "--hostname", "127.0.0.1", "--port", "0", "--print-logs"];
    const started = spawn(this.#program, args, {
      cwd: this.project,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#openCode = started;
    this.#keep(started);
    for await (const line of createInterface({ input: started.stdout })) {
      const [, url] = /listening on (http:\S+)/.exec(line) ?? [];
      if (url) {
        this.#url = url;
        started.stdout.resume();
        break;
      }
    }
    if (!this.#url) {
      throw new Error(`OpenCode did not start:\n${this.#log}`);
    }
    void this.#listen();
    await this.until("OpenCode tells what happens", () => this.events[0]);
  }

  /** Asks OpenCode's server. */
  // biome-ignore lint/suspicious/noExplicitAny: what OpenCode answers is looked at as it comes.
  async api(method: string, path: string, body?: object): Promise<any> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      signal: AbortSignal.timeout(LIMIT_MS),
      ...(body
        ? {
            body: JSON.stringify(body),
            headers: { "content-type": "application/json" },
          }
        : {}),
    });
    const text = await response.text();
    if (!response.ok) {
      throw new Error(`${method} ${path}: ${response.status} ${text}\n${this.log()}`);
    }
    return text ? JSON.parse(text) : undefined;
  }

  async session(): Promise<string> {
    return (await this.api("POST", "/session", {})).id;
  }

  /** Says something to the agent, and returns when it has done what it does. */
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  say(session: string, text: string, agent = "build"): Promise<any> {
    return this.api("POST", `/session/${session}/message`, {
      agent,
      parts: [{ type: "text", text }],
    });
  }

  /** Waits for the next dialog of a session that is not among those seen. */
  async asked(session: string): Promise<Asked> {
    return this.until("a dialog", async () => (await this.dialogs(session))[0]);
  }

  async dialogs(session: string): Promise<Asked[]> {
    const all: Asked[] = await this.api("GET", "/permission");
    return all.filter(({ sessionID }) => sessionID === session);
  }

  /** Answers as OpenCode's dialog does. */
  async reply({ id }: Asked, reply: "once" | "always" | "reject", message?: string): Promise<void> {
    await this.api("POST", `/permission/${id}/reply`, {
      reply,
      ...(message ? { message } : {}),
    });
  }

  /** Returns the tools' parts of a session's messages. */
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  async parts(session: string): Promise<any[]> {
    const messages = await this.api("GET", `/session/${session}/message`);
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    return messages.flatMap(({ parts }: any) => parts).filter(({ type }: { type: string }) => type === "tool");
  }

  async until<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
    const end = Date.now() + LIMIT_MS;
    for (;;) {
      const found = await look();
      if (found) {
        return found;
      }
      if (Date.now() > end) {
        throw new Error(`${what}: not after ${LIMIT_MS / 1000} s\n${this.log()}`);
      }
      await sleep(20);
    }
  }

  log(): string {
    return this.#log.slice(-8_000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await end(this.#openCode);
    await end(this.#toolgate);
    await this.model[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #keep(child: ChildProcess): void {
    child.stderr?.on("data", (data) => {
      // What the tests ask time and again says nothing.
      const lines = String(data)
        .split("\n")
        .filter((line) => !line.includes(" path=/permission "));
      this.#log = `${this.#log}${lines.join("\n")}`.slice(-200_000);
    });
  }

  async #listen(): Promise<void> {
    const response = await fetch(`${this.#url}/event`, {
      signal: this.#stop.signal,
    });
    let rest = "";
    const decoder = new TextDecoder();
    try {
      for await (const data of response.body ?? []) {
        const lines = `${rest}${decoder.decode(data, { stream: true })}`.split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) {
          if (line.startsWith("data: ")) {
            this.events.push(JSON.parse(line.slice(6)));
          }
        }
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) {
        throw error;
      }
    }
  }
}

async function end(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) {
    return;
  }
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), 5_000);
  await ended;
  clearTimeout(late);
}
