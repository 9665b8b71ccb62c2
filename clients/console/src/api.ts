// The contract, over gRPC-Web to where the page came from.

import { signal } from "@preact/signals";
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { InfoService } from "./gen/toolgate/v1/info_service_pb";
import { PermissionService } from "./gen/toolgate/v1/permission_service_pb";
import { SessionService } from "./gen/toolgate/v1/session_service_pb";
import { ToolService } from "./gen/toolgate/v1/tool_service_pb";

const TOKEN = "toolgate.token";

/** What a filter names to mean all workspaces. */
export const ALL = "-";

/** The token of this tab, or empty. Kept until the tab is closed, and for this tab alone. */
const token = signal(sessionStorage.getItem(TOKEN) ?? "");

/** Why the service wants to know who calls; none while it does not ask, or has been told. */
export const asked = signal<string | undefined>(undefined);

/** Counts logins, so that what waits for one goes on. */
export const logins = signal(0);

/** Whether there is a token to forget. */
export const isLoggedIn = (): boolean => token.value !== "";

/** Takes the token that the person gives. */
export function logIn(given: string): void {
  token.value = given;
  sessionStorage.setItem(TOKEN, given);
  asked.value = undefined;
  logins.value += 1;
}

/** Forgets the token and everything that was shown with it. */
export function logOut(): void {
  sessionStorage.removeItem(TOKEN);
  location.hash = "";
  location.reload();
}

const authorize: Interceptor = (next) => async (request) => {
  const sent = token.value;
  if (sent !== "") request.header.set("authorization", `Bearer ${sent}`);
  try {
    return await next(request);
  } catch (error) {
    throw noted(error, sent);
  }
};

/** Opens the login if an error says that somebody has to say who calls. Streams end with such an error, too. */
export function noted(error: unknown, sent: string = token.value): ConnectError {
  const known = ConnectError.from(error);
  // An answer to the token before must not ask for another one.
  if (known.code === Code.Unauthenticated && sent === token.value) {
    asked.value = sent === "" ? "" : known.rawMessage;
  }
  return known;
}

/** What carries every request. */
export const transport = createGrpcWebTransport({
  baseUrl: location.origin,
  interceptors: [authorize],
});

/** What a person is told of a failed request. */
export function problem(error: unknown): string {
  const known = ConnectError.from(error);
  switch (known.code) {
    case Code.Unknown:
    case Code.Unavailable:
      return "The service cannot be reached.";
    case Code.PermissionDenied:
      return `Not allowed: ${known.rawMessage}`;
    default:
      return known.rawMessage === "" ? `The service says ${Code[known.code]}.` : known.rawMessage;
  }
}

export const tools = createClient(ToolService, transport);
export const permissions = createClient(PermissionService, transport);
export const sessions = createClient(SessionService, transport);
export const info = createClient(InfoService, transport);

/** Returns a moment in milliseconds, none if it is absent. */
export function at(time: Timestamp | undefined): number | undefined {
  return time === undefined ? undefined : Number(time.seconds) * 1000 + time.nanos / 1e6;
}

/** Returns a duration in milliseconds. */
export function millis(length: Duration | undefined): number {
  return length === undefined ? 0 : Number(length.seconds) * 1000 + length.nanos / 1e6;
}
