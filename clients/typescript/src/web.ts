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
  const transport = createGrpcWebTransport({ baseUrl, fetch: abortable(options.fetch) });
  return new Client({ ...options, transport, baseUrl });
}

/**
 * Lets the signal of a request end the body of its response. By the standard it does so anyway, but Node loses the
 * connection between the two when the request is collected as garbage (nodejs/undici#4984), and a stream would not end.
 */
function abortable(fetch: typeof globalThis.fetch | undefined): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await (fetch ?? globalThis.fetch)(input, init);
    const signal = init?.signal;
    if (!response.body || !signal) {
      return response;
    }
    const { status, statusText, headers } = response;
    const body = response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), { signal });
    return new Response(body, { status, statusText, headers });
  };
}
