/** Toolgate on Node: gRPC over HTTP/2, over TCP, TLS or a Unix socket. */
import { readFileSync } from "node:fs";
import type { ClientSessionOptions, SecureClientSessionOptions } from "node:http2";
import { connect as connectSocket } from "node:net";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { Client } from "./client.js";
import type { CommonOptions } from "./options.js";
import { parseTarget, type Target } from "./target.js";
import type { Token } from "./transport.js";

export * from "./index.js";
export { type Saved, type SaveOptions, saveOutput } from "./save.js";
export { uploadFile } from "./upload.js";

/** PEM texts, or their bytes. */
export type Pem = string | Uint8Array;

/** How a connection is encrypted. What is left out is taken from TOOLGATE_TLS_CA, TOOLGATE_TLS_CERT and TOOLGATE_TLS_KEY. */
export interface TlsOptions {
  /** The authorities that may have signed the server's certificate; those of Node by default. */
  readonly ca?: Pem | undefined;
  /** The certificate to show to the server. */
  readonly cert?: Pem | undefined;
  /** Its key. */
  readonly key?: Pem | undefined;
  /** The name that the server's certificate must have, if it is not the target's. */
  readonly serverName?: string | undefined;
}

/** What {@link connect} takes. */
export interface ConnectOptions extends CommonOptions {
  /** How the connection is encrypted, if it is. */
  readonly tls?: TlsOptions | undefined;
}

/** The server's own limit on a message is below this. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;
const PING_INTERVAL_MS = 20_000;
const PING_TIMEOUT_MS = 15_000;
const STREAM_WINDOW = 1 << 20;

/**
 * Makes a client. It connects when it is first used.
 *
 * @param target `unix:/path`, `http://host:port`, `https://host:port`, or `host:port`, which is plain text on this
 * machine and TLS elsewhere. By default TOOLGATE_SERVER, else `http://127.0.0.1:50551`.
 * @param options Without a `token`, TOOLGATE_TOKEN or the file that TOOLGATE_TOKEN_FILE names is used.
 */
export function connect(target?: string, options: ConnectOptions = {}): Client {
  const { env } = process;
  const where = parseTarget(target ?? (env["TOOLGATE_SERVER"] || "http://127.0.0.1:50551"));
  const ping = { pingIntervalMs: PING_INTERVAL_MS, pingTimeoutMs: PING_TIMEOUT_MS };
  const sessionManager = new Http2SessionManager(where.baseUrl, ping, sessionOptions(where, options.tls));
  const transport = createGrpcTransport({
    baseUrl: where.baseUrl,
    sessionManager,
    readMaxBytes: MAX_MESSAGE_BYTES,
    writeMaxBytes: MAX_MESSAGE_BYTES,
  });
  return new Client({
    ...options,
    token: options.token ?? tokenOfEnvironment(),
    transport,
    bidirectional: true,
    ...(where.socket === undefined ? { baseUrl: where.baseUrl } : {}),
    onClose: () => sessionManager.abort(),
  });
}

function sessionOptions(
  { baseUrl, socket }: Target,
  tls: TlsOptions | undefined,
): ClientSessionOptions | SecureClientSessionOptions {
  const windows: ClientSessionOptions = { settings: { initialWindowSize: STREAM_WINDOW } };
  if (socket !== undefined) {
    return { ...windows, createConnection: () => connectSocket(socket) };
  }
  return baseUrl.startsWith("https:") ? { ...windows, ...secureOptions(tls) } : windows;
}

function secureOptions(tls: TlsOptions = {}): SecureClientSessionOptions {
  const pem = (given: Pem | undefined, variable: string) => {
    const file = process.env[variable];
    return given ? Buffer.from(given) : file ? readFileSync(file) : undefined;
  };
  const ca = pem(tls.ca, "TOOLGATE_TLS_CA");
  const cert = pem(tls.cert, "TOOLGATE_TLS_CERT");
  const key = pem(tls.key, "TOOLGATE_TLS_KEY");
  return {
    ...(ca ? { ca } : {}),
    ...(cert ? { cert } : {}),
    ...(key ? { key } : {}),
    ...(tls.serverName ? { servername: tls.serverName } : {}),
  };
}

/** A file is read for each RPC, since whoever wrote it may renew it. */
function tokenOfEnvironment(): Token | undefined {
  const { TOOLGATE_TOKEN: token, TOOLGATE_TOKEN_FILE: file } = process.env;
  if (token) {
    return token;
  }
  return file ? () => readFileSync(file, "utf8").trim() : undefined;
}
