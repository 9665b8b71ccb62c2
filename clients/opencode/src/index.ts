/**
 * A plugin for OpenCode: the tools that reach files, programs and the network run in Toolgate.
 *
 * Toolgate's prompts are shown in OpenCode's own permission dialog, and every call is in Toolgate's record. In reading order:
 * `opencode.ts` (what OpenCode is to a plugin), `service.ts`, `definitions.ts`, `parts.ts`, `calls.ts`, `dialogs.ts`.
 *
 * *Invariant:* this module exports nothing but the plugin: OpenCode calls whatever a plugin's module exports.
 */
import { ToolgateError } from "toolgate/node";
import { Calls } from "./calls.js";
import { argumentsOf, Definitions, REPLACED, type Replaced, UNTIL_THEN } from "./definitions.js";
import { Dialogs, OWN_PERMISSION, type Reach } from "./dialogs.js";
import type { Hooks, OpenCodeConfig, Permissions, PluginInput, ToolContext, ToolDefinition } from "./opencode.js";
import { Parts } from "./parts.js";
import { Service } from "./service.js";

/** What `opencode.json` may say beside the plugin's name, in versions that have options; the environment says the rest. */
interface Options {
  /** Where Toolgate is: TOOLGATE_SERVER. */
  readonly server?: string;
  /** Which of its workspaces: TOOLGATE_WORKSPACE. */
  readonly workspace?: string;
  /** In the place of OpenCode's agent: TOOLGATE_AGENT. */
  readonly agent?: string;
  /** How far an "always" reaches, `session` by default: TOOLGATE_ALWAYS. */
  readonly always?: string;
}

const APPROVER = "OpenCode";

/** The plugin. */
export default async function toolgate(input: PluginInput, options?: Options): Promise<Hooks> {
  // A Toolgate that reads the project's `opencode.json` finds this plugin there, and would call itself.
  if (input.toolgate === true) {
    return {};
  }
  try {
    return await replacing(input, options ?? {});
  } catch (error) {
    return refusing(error);
  }
}

async function replacing(input: PluginInput, options: Options): Promise<Hooks> {
  const { env } = process;
  const log = (level: "info" | "warn" | "error", message: string) => {
    void input.client.app.log({ body: { service: "toolgate", level, message } }).catch(() => {});
  };
  const service = new Service(input.directory, options);
  const definitions = new Definitions(service);
  const parts = new Parts(input.client);
  const calls = new Calls(service, parts, {
    agent: options.agent || env["TOOLGATE_AGENT"] || undefined,
  });
  const dialogs = new Dialogs(input.client, reachOf(options.always || env["TOOLGATE_ALWAYS"]), calls.running);
  let approving: Promise<void> | undefined;

  /** Has prompts answered here from now on: a call that nobody watches is refused what it would ask for. */
  const approve = () => {
    approving ??= (async () => {
      const approvals = service.client.approvals((prompt, context) => dialogs.answer(prompt, context), {
        name: APPROVER,
        onReply: ({ promptId, result, message, prompt }) => {
          if (result !== "ACCEPTED" && result !== "ALREADY_RESOLVED") {
            log("warn", `Toolgate did not take the answer to the prompt ${promptId}: ${message || result}`);
            // Whoever made a call may not be the one who allows it, for instance.
            if (prompt) {
              calls.running.get(prompt.callId)?.elsewhere(prompt);
            }
          }
        },
        onError: (error, prompt) => log("error", `the prompt ${prompt.id} was not shown: ${error}`),
      });
      approvals.done.catch((error) => {
        approving = undefined;
        log("error", `Toolgate lets nobody answer prompts in OpenCode: ${error}`);
      });
      await approvals.ready;
    })();
    return approving;
  };

  const prepare = async () => {
    await service.reach();
    if (!definitions.loaded) {
      await definitions.load().catch((error: unknown) => Promise.reject(service.explained(error)));
    }
    try {
      await approve();
    } catch (error) {
      approving = undefined;
      // Who may not answer prompts may still call; others answer then.
      if (!(error instanceof ToolgateError) || error.transient) {
        throw service.explained(error);
      }
    }
  };

  // OpenCode waits for what is told of the tools, and not for people.
  await definitions.load().catch((error: unknown) => log("warn", service.explained(error).message));

  return {
    tool: Object.fromEntries(REPLACED.map((name) => [name, tool(name)])),
    config: async (config) => askAlways(config),
    event: async ({ event }) => {
      parts.event(event);
      dialogs.event(event);
      if (event.type === "session.deleted") {
        const { info } = (event.properties ?? {}) as { info?: { id?: string } };
        await calls.forget(info?.id ?? "").catch((error) => log("warn", `Toolgate did not end the session: ${error}`));
      }
    },
    dispose: () => service.client.close(),
    "chat.params": async ({ sessionID, model }) => {
      const { providerID: providerId, id, api } = model;
      calls.uses(sessionID, {
        providerId,
        modelId: api?.id ?? id,
        package: api?.npm,
      });
    },
    "tool.definition": async ({ toolID }, output) => {
      const replaced = REPLACED.find((name) => name === toolID);
      if (replaced) {
        const { description, schema } = definitions.of(replaced);
        output.description = description;
        output.jsonSchema = schema;
      }
    },
    "tool.execute.after": async ({ sessionID, callID }, output) => calls.complete(sessionID, callID, output),
  };

  /** OpenCode 1.1 asks for description and arguments each time it lists the tools, later versions by `tool.definition`. */
  function tool(name: Replaced): ToolDefinition {
    return {
      get description() {
        return definitions.of(name).description;
      },
      get args() {
        return argumentsOf(definitions.of(name));
      },
      execute: async (args: Record<string, unknown>, context: ToolContext) => {
        await prepare();
        return calls.run(name, args, context);
      },
    };
  }
}

/** A plugin that fails is left out by OpenCode, which then runs its own tools: those are to be replaced all the same. */
function refusing(error: unknown): Hooks {
  const message = `Toolgate's plugin cannot work as it is set up, so nothing was done: ${error instanceof Error ? error.message : error}`;
  const execute = () => Promise.reject(new Error(message));
  return {
    tool: Object.fromEntries(
      REPLACED.map((name) => [
        name,
        {
          description: UNTIL_THEN[name].description,
          args: argumentsOf(UNTIL_THEN[name]),
          execute,
        },
      ]),
    ),
  };
}

/** Has OpenCode ask about the plugin's own permissions, whatever else its rules allow. The last rule that matches counts. */
function askAlways(config: OpenCodeConfig): void {
  config.permission = asking(config.permission ?? {});
  for (const agents of [config.agent, config.mode]) {
    for (const agent of Object.values(agents ?? {})) {
      if (agent?.permission !== undefined) {
        agent.permission = asking(agent.permission);
      }
    }
  }
}

function asking(rules: Permissions): Permissions {
  const byName = typeof rules === "string" ? { "*": rules } : rules;
  return { ...byName, [`${OWN_PERMISSION} *`]: "ask" };
}

function reachOf(text: string | undefined): Reach {
  switch (text || "session") {
    case "session":
      return "session";
    case "run":
      return "run";
    case "workspace":
      return "workspace";
    default:
      throw new Error(`TOOLGATE_ALWAYS is session, run or workspace, not "${text}"`);
  }
}
