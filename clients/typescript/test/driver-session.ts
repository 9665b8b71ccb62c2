/** What a driver has open: clients, and commands that others refer to. */
import { type AddressInfo, connect as connectSocket, createServer, type Server } from "node:net";
import type { HostReport } from "../src/gen/toolgate/v1/host_service_pb.js";
import type { PromptReply } from "../src/gen/toolgate/v1/permission_service_pb.js";
import { type Client, connect } from "../src/node.js";
import { parseTarget } from "../src/target.js";
import { connect as connectWeb } from "../src/web.js";

/** A command that goes on until it is stopped. */
export interface Stoppable {
  stop(): Promise<void>;
}

/** All that a driver has open. */
export class Session {
  /** What cancels each execution, in the way of the language, and waits until the call has been told. */
  readonly executions = new Map<number, () => Promise<void>>();
  readonly stoppable = new Map<number, Stoppable>();
  readonly replies = new Map<number, Map<string, (reply: PromptReply) => void>>();
  readonly invocations = new Map<number, Map<string, (report: HostReport) => Promise<object>>>();
  readonly #web: boolean;
  readonly #clients = new Map<string, { client: Client; bridge: Server | undefined }>();

  constructor(web: boolean) {
    this.#web = web;
  }

  async connect(name: string, target: string, token: string | undefined): Promise<void> {
    const options = token === undefined ? {} : { token };
    if (!this.#web) {
      this.#clients.set(name, { client: connect(target, options), bridge: undefined });
      return;
    }
    const { baseUrl, socket } = parseTarget(target);
    const bridge = socket === undefined ? undefined : await bridgeTo(socket);
    const url = bridge ? `http://127.0.0.1:${(bridge.address() as AddressInfo).port}` : baseUrl;
    this.#clients.set(name, { client: connectWeb(url, options), bridge });
  }

  client(name: string): Client | undefined {
    return this.#clients.get(name)?.client;
  }

  async closeClient(name: string): Promise<void> {
    const found = this.#clients.get(name);
    this.#clients.delete(name);
    await found?.client.close();
    found?.bridge?.close();
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#clients.keys()].map((name) => this.closeClient(name)));
  }
}

/** `fetch` knows no Unix sockets: this listens on loopback in their place. */
async function bridgeTo(socket: string): Promise<Server> {
  const server = createServer((near) => {
    const far = connectSocket(socket);
    near.pipe(far).pipe(near);
    near.on("error", () => far.destroy()).on("close", () => far.destroy());
    far.on("error", () => near.destroy()).on("close", () => near.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return server;
}
