/** Toolgate in web pages: gRPC-Web over `fetch`, which every browser has. */
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client } from "./client.js";
import type { CommonOptions } from "./options.js";

export * from "./index.js";

/** What {@link connect} takes. */
export interface ConnectOptions extends CommonOptions {
  /** Used in the place of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/**
 * Makes a client.
 *
 * The service answers pages of its own origin, and those that `listen.origins` of its configuration names.
 *
 * @param target `http://host:port` or `https://host:port`; the page's own origin by default.
 */
export function connect(target?: string, options: ConnectOptions = {}): Client {
  const baseUrl = target ?? globalThis.location.origin;
  const { fetch } = options;
  const transport = createGrpcWebTransport({ baseUrl, ...(fetch ? { fetch } : {}) });
  return new Client({ ...options, transport });
}
