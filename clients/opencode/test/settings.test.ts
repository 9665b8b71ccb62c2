/** What the plugin makes of its settings, without an OpenCode. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { REPLACED } from "../src/definitions.js";
import plugin from "../src/index.js";
import type { PluginInput, ToolContext } from "../src/opencode.js";

const INPUT: PluginInput = {
  client: {
    app: { log: async () => {} },
    postSessionIdPermissionsPermissionId: async () => {},
  },
  directory: "/",
};
const CONTEXT = { sessionID: "s", abort: new AbortController().signal } as unknown as ToolContext;

test("settings that make no sense leave no tool to OpenCode", async () => {
  for (const options of [{ always: "for ever" }, { server: "gopher://here" }]) {
    const { tool = {} } = await plugin(INPUT, options);
    assert.deepEqual(Object.keys(tool), [...REPLACED]);
    for (const { execute } of Object.values(tool)) {
      await assert.rejects(execute({}, CONTEXT), /cannot work as it is set up, so nothing was done/);
    }
  }
});

test("a service that finds the plugin in its project gets nothing of it", async () => {
  assert.deepEqual(await plugin({ ...INPUT, toolgate: true }), {});
});

test("OpenCode's rules ask about the plugin's own permissions, whatever they are", async () => {
  const { config } = await plugin(INPUT, { server: "http://127.0.0.1:9" });
  const settings = {
    permission: "allow",
    agent: { mine: { permission: { "*": "allow" } }, other: {} },
  };
  await config?.(settings);
  assert.deepEqual(settings, {
    permission: { "*": "allow", "toolgate *": "ask" },
    agent: { mine: { permission: { "*": "allow", "toolgate *": "ask" } }, other: {} },
  });
});
