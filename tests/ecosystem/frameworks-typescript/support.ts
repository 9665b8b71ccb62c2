/** What the tests of all frameworks share. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Client } from "../src/client.js";
import { connect } from "../src/node.js";
import type { CallResult } from "../src/results.js";
import { TestServer } from "./server.js";

export const ASKS = { permission: { bash: { "*": "ask", "echo *": "allow", "sleep *": "allow" } } };

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

/** A service and a client of it. */
export class Place implements AsyncDisposable {
  readonly server: TestServer;
  readonly client: Client;

  private constructor(server: TestServer) {
    this.server = server;
    this.client = connect(server.url);
  }

  static async make(rules: object = ASKS): Promise<Place> {
    return new Place(await TestServer.start(rules));
  }

  /** Another program that works with the service. */
  other(): Client {
    return connect(this.server.url);
  }

  has(name: string): boolean {
    return existsSync(join(this.server.workspace, name));
  }

  async picture(): Promise<string> {
    const path = join(this.server.workspace, "dot.png");
    await writeFile(path, PNG);
    return path;
  }

  /** A file outside of the workspace, which is asked for beside the command that reads it. */
  async outside(): Promise<string> {
    const path = join(this.server.folder, "outside.txt");
    await writeFile(path, "from outside\n");
    return path;
  }

  /** The end of the only call. */
  async end(): Promise<CallResult> {
    const calls = [];
    for await (const call of this.client.calls()) {
      calls.push(call.callId);
    }
    assert.equal(calls.length, 1);
    return this.client.watch(calls[0] ?? "", { signal: AbortSignal.timeout(20_000) }).result();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
    await this.server[Symbol.asyncDispose]();
  }
}

export function bash(command: string) {
  return { command, description: "Does it" };
}
