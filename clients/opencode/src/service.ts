/** The Toolgate that the tools run in: where it is, and which of its workspaces is OpenCode's folder. */
import { realpathSync } from "node:fs";
import { type Client, connect, ToolgateError } from "toolgate/node";

/** How long a service that was never reached may take. */
const CONNECT_TIMEOUT_MS = 2_000;
const DEFAULT_TARGET = "http://127.0.0.1:50551";

/** What a person may say about the connection. In OpenCode 1.1, which has no options for plugins, by the environment. */
export interface ServiceOptions {
  /** Where Toolgate is; by default TOOLGATE_SERVER, else `http://127.0.0.1:50551`. */
  readonly server?: string | undefined;
  /** Which of its workspaces; by default TOOLGATE_WORKSPACE, else the one whose folder OpenCode works in. */
  readonly workspace?: string | undefined;
}

/** A service, and what is known of it. */
export class Service {
  /** For all workspaces; calls are made with what {@link Service.workspace} returns. */
  readonly client: Client;
  /** Where it is, for people. */
  readonly target: string;
  readonly #directory: string;
  readonly #named: string | undefined;
  #workspace: string | undefined;

  constructor(directory: string, options: ServiceOptions) {
    const { env } = process;
    this.target = options.server || env["TOOLGATE_SERVER"] || DEFAULT_TARGET;
    this.#named = options.workspace || env["TOOLGATE_WORKSPACE"] || undefined;
    this.#directory = directory;
    this.client = connect(this.target, {
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
    });
  }

  /** Returns when it answers: a call would wait for a service that went away as long as it takes to restart one. Throws in words. */
  async reach(): Promise<void> {
    try {
      await this.client.info({ signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS) });
    } catch (error) {
      throw this.explained(error);
    }
  }

  /** Returns the name of the workspace. Throws in words if there is none, or no service. */
  async workspace(): Promise<string> {
    this.#workspace ??= this.#named ?? (await this.#found());
    return this.#workspace;
  }

  /** Returns an error in words: what to do, and that nothing was done. */
  explained(error: unknown): Error {
    if (error instanceof ToolgateError && error.code !== "UNAVAILABLE" && error.code !== "DEADLINE_EXCEEDED") {
      return new Error(`Toolgate at ${this.target} refused: ${error.message}`, { cause: error });
    }
    if (!(error instanceof Error)) {
      return new Error(String(error));
    }
    if (!(error instanceof ToolgateError) && error.name !== "TimeoutError") {
      return error;
    }
    return new Error(
      `Toolgate at ${this.target} does not answer: ${error.message}. Its tools stand in for those of OpenCode, so nothing was done. ` +
        `Start it with \`toolgate serve\` in ${this.#directory}, or name another one with TOOLGATE_SERVER.`,
      { cause: error },
    );
  }

  async #found(): Promise<string> {
    const wanted = real(this.#directory);
    const others: string[] = [];
    for await (const { name, directory } of this.client.workspaces()) {
      if (directory === this.#directory || real(directory) === wanted) {
        return name;
      }
      others.push(`${name} (${directory})`);
    }
    throw new Error(
      `Toolgate at ${this.target} has no workspace for ${this.#directory}: it has ${others.join(", ") || "none that may be seen"}. ` +
        `Start \`toolgate serve\` there, or, if one of them is the same folder seen from elsewhere, name it with TOOLGATE_WORKSPACE.`,
    );
  }
}

/** Links followed; a folder of another machine stays as it is. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
