/** Real servers, and proxies that cut their connections. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect as connectSocket, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Client, type CommonOptions, connect } from "../src/node.js";
import { connect as connectWeb } from "../src/web.js";

/** The server to test against, if there is one. */
export const TOOLGATE_BIN = process.env["TOOLGATE_BIN"] ?? "";

/** Why tests against the real server are left out; undefined when they run. */
export const NO_SERVER = existsSync(TOOLGATE_BIN) ? false : "TOOLGATE_BIN does not name a server";

/** What every test's workspace allows. */
export const CONFIG = {
  permission: { bash: { "*": "ask", "echo *": "allow", "sleep *": "allow", "seq *": "allow", "rm *": "deny" } },
};

/** The kinds of connection that the library has on Node. */
export const TRANSPORTS = ["grpc", "web"] as const;

/** Makes a client of either kind. */
export function connectBy(kind: (typeof TRANSPORTS)[number], url: string, options: CommonOptions = {}): Client {
  return kind === "grpc" ? connect(url, options) : connectWeb(url, options);
}

/** A server of its own, in a folder of its own. */
export class TestServer implements AsyncDisposable {
  readonly folder: string;
  url = "";
  #process: ChildProcess | undefined;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** Starts a server; `prepare` may put a `toolgate.toml` into its folder. */
  static async start(config: object = CONFIG, prepare?: (folder: string) => Promise<void>): Promise<TestServer> {
    const server = new TestServer(await mkdtemp(join(tmpdir(), "toolgate-ts-")));
    await mkdir(server.workspace);
    await writeFile(join(server.workspace, "opencode.json"), JSON.stringify(config));
    await writeFile(join(server.folder, "toolgate.toml"), "");
    await prepare?.(server.folder);
    await server.run();
    return server;
  }

  get workspace(): string {
    return join(this.folder, "work");
  }

  /** The target of its Unix socket. */
  get socket(): string {
    return `unix:${join(this.folder, "socket")}`;
  }

  /** Starts the service, again after `kill`. */
  async run(): Promise<void> {
    const { folder } = this;
    const listen = this.url ? this.url.replace(/^https?:\/\//, "") : "127.0.0.1:0";
    const args = [
      "--config",
      join(folder, "toolgate.toml"),
      "serve",
      "--json",
      "--listen",
      listen,
      "--socket",
      join(folder, "socket"),
    ];
    const places = ["--data-dir", join(folder, "data"), "--workspace", `default=${this.workspace}`];
    const env = { ...process.env, HOME: folder, XDG_CONFIG_HOME: join(folder, "config") };
    const started = spawn(TOOLGATE_BIN, [...args, ...places], { env, stdio: ["ignore", "pipe", "pipe"] });
    this.#process = started;
    let log = "";
    started.stderr.on("data", (data) => {
      log += data;
    });
    for await (const line of createInterface({ input: started.stdout })) {
      this.url = JSON.parse(line).listening.tcp;
      started.stdout.resume();
      return;
    }
    throw new Error(`the server did not start:\n${log}`);
  }

  /** Ends the service as a crash would. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const running = this.#process;
    if (running && running.exitCode === null && running.signalCode === null) {
      const ended = new Promise((resolve) => running.once("exit", resolve));
      running.kill(signal);
      await ended;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill("SIGTERM");
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A proxy on loopback whose connections can be cut. */
export class CuttingProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  /** How many bytes of the server's go through on each connection before it is cut. */
  budget: () => number = () => Number.POSITIVE_INFINITY;
  /** How many connections were made. */
  connections = 0;

  private constructor(upstream: string) {
    const { hostname, port } = new URL(upstream);
    this.#server = createServer((near) => {
      const far = connectSocket(Number(port), hostname);
      this.connections += 1;
      let left = this.budget();
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#open.add(one);
        one.on("error", () => other.destroy());
        one.on("close", () => {
          this.#open.delete(one);
          other.destroy();
        });
      }
      near.pipe(far);
      far.on("data", (data) => {
        left -= data.length;
        if (left < 0) {
          // By turns as a crash does it, which may take back what was sent, and after what was sent.
          if (this.connections % 2 === 0) {
            near.resetAndDestroy();
          } else {
            near.end(() => near.destroy());
          }
          far.destroy();
        } else if (!near.write(data)) {
          far.pause();
          near.once("drain", () => far.resume());
        }
      });
    });
  }

  static async to(upstream: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(upstream);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cuts what is open. */
  cut(): void {
    for (const socket of this.#open) {
      socket.resetAndDestroy();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.cut();
  }
}
