/**
 * The parts of OpenCode's messages that stand for running calls.
 *
 * A tool tells how far it is by `metadata` of its context. For the tools of plugins that does nothing in OpenCode 1.18: it gives
 * back a description of the change, which nobody carries out. There the part itself is changed, through OpenCode's server.
 *
 * *Invariant:* a part is changed only while its call runs, and not any more when its tool has returned: OpenCode writes the end.
 */
import type { OpenCodeClient, OpenCodeEvent, ToolContext } from "./opencode.js";

/** How a call stands. */
export interface Standing {
  readonly title: string;
  readonly metadata: Record<string, unknown>;
}

interface ToolPart {
  readonly id: string;
  readonly sessionID: string;
  readonly messageID: string;
  readonly type: string;
  readonly callID?: string;
  readonly state?: { readonly status?: string };
}

/** Knows the parts of calls that run. */
export class Parts {
  readonly #client: OpenCodeClient;
  readonly #open = new Map<string, ToolPart>();

  constructor(client: OpenCodeClient) {
    this.#client = client;
  }

  /** Hears what happens in OpenCode. */
  event({ type, properties = {} }: OpenCodeEvent): void {
    const part = properties["part"] as ToolPart | undefined;
    if (type !== "message.part.updated" || part?.type !== "tool" || !part.callID) {
      return;
    }
    const key = keyOf(part.sessionID, part.callID);
    if (part.state?.status === "pending" || part.state?.status === "running") {
      this.#open.set(key, part);
    } else {
      this.#open.delete(key);
    }
  }

  /** Shows how a call stands. */
  async show(context: ToolContext, standing: Standing): Promise<void> {
    const told: unknown = context.metadata(standing);
    if (typeof told !== "object" || told === null || "then" in told) {
      await told;
      return;
    }
    const part = this.#open.get(keyOf(context.sessionID, context.callID ?? ""));
    if (part?.state?.status !== "running") {
      return;
    }
    await this.#client._client?.patch({
      url: "/session/{sessionID}/message/{messageID}/part/{partID}",
      path: { sessionID: part.sessionID, messageID: part.messageID, partID: part.id },
      body: { ...part, state: { ...part.state, ...standing } },
      headers: { "content-type": "application/json" },
    });
  }
}

function keyOf(sessionID: string, callID: string): string {
  return `${sessionID} ${callID}`;
}
