/** Which server is meant. */

/** Where a server listens. */
export interface Target {
  /** For the transport. */
  readonly baseUrl: string;
  /** The Unix socket to connect to instead. */
  readonly socket?: string;
}

/**
 * Reads `unix:/path`, `http://host:port`, `https://host:port` or `host:port`. The last is plain text on this machine and
 * TLS elsewhere.
 */
export function parseTarget(text: string): Target {
  if (text.startsWith("unix:")) {
    const socket = text.slice("unix:".length).replace(/^\/\/(?=\/)/, "");
    if (!socket) {
      throw new TypeError(`${text}: the path of the socket is missing, as in unix:/run/toolgate.sock`);
    }
    return { baseUrl: "http://localhost", socket };
  }
  const hasScheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(text);
  const url = parse(hasScheme ? text : `https://${text}`);
  if (!url || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new TypeError(`${text}: not a server; say unix:/path, http://host:port, https://host:port or host:port`);
  }
  if (!hasScheme && isLoopback(url.hostname)) {
    return { baseUrl: `http://${url.host}` };
  }
  return { baseUrl: url.origin };
}

function parse(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host);
}
