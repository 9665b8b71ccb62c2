// Asks a service what its plugins bring, and holds that to what is wanted: ask.mjs SOCKET EXPRESSION.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const START_MS = 60_000;
const [, , socket, wanted] = process.argv;

const call = (method, request) => {
  const args = ["-plaintext", "-max-msg-sz", "50000000", "-d", JSON.stringify(request), `unix://${socket}`, `toolgate.v1.${method}`];
  return JSON.parse(execFileSync("grpcurl", args, { encoding: "utf8", maxBuffer: 1 << 27 }));
};

const deadline = Date.now() + START_MS;
while (!existsSync(socket)) {
  if (Date.now() > deadline) throw new Error("the service does not listen");
  await sleep(50);
}
// Waits until the plugins are loaded.
const tools = call("ToolService/ListTools", {}).tools;
const [workspace] = call("InfoService/GetServerInfo", {}).workspaces;
const sources = workspace.toolSources ?? [];
const skill = tools.find((tool) => tool.name === "skill")?.description ?? "";
const facts = {
  tools: tools.map((tool) => tool.name),
  agents: workspace.agents.map((agent) => agent.name),
  servers: sources.filter((source) => source.source === "TOOL_SOURCE_MCP").map((source) => source.name),
  skills: [...skill.matchAll(/<name>(.*?)<\/name>/g)].map(([, name]) => name),
  source: sources.find((source) => source.source === "TOOL_SOURCE_PLUGIN"),
  warnings: workspace.warnings ?? [],
};
if (!new Function(...Object.keys(facts), `return ${wanted}`)(...Object.values(facts))) {
  console.log(`not so: ${wanted}`, JSON.stringify(facts));
  process.exit(1);
}
