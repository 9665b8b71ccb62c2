// Toolgate as a client, for the official conformance suite: starts `toolgate mcp` with the suite's server behind it and calls
// every tool that this one has, with the arguments that the scenario names or some that fit. Where the scenario is about a login,
// it does what a person would: `toolgate mcp login`, the page visited, and once more when Toolgate says so.
//
// Arguments: the program, a folder to work in, and the server's address, which the suite adds.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [program, folder, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? "";
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const { toolCalls } = context;
// Without a person: the client gets its tokens by its own secret.
const byItself = scenario.startsWith("auth/client-credentials");
const logsIn = scenario.startsWith("auth/") && !byItself;
mkdirSync(folder, { recursive: true });
const work = mkdtempSync(join(folder, "client-"));
const oauth = {};
if (context.client_id) Object.assign(oauth, { clientId: context.client_id, clientSecret: context.client_secret });
// The document that the suite expects to be named; nothing is there.
if (scenario === "auth/basic-cimd") oauth.clientId = "https://conformance-test.local/client-metadata.json";
if (byItself) {
  // Whoever configures that knows who gives out tokens.
  const { origin, pathname } = new URL(url);
  const about = await (await fetch(`${origin}/.well-known/oauth-protected-resource${pathname}`)).json();
  Object.assign(oauth, { grantType: "client_credentials", issuer: about.authorization_servers[0] });
}
writeFileSync(
  join(work, "opencode.json"),
  JSON.stringify({ permission: "allow", mcp: { s: { type: "remote", url, timeout: 8000, oauth } } }),
);
const env = { PATH: process.env.PATH, HOME: work, TOOLGATE_TRUST: "1" };

// Logs in as a person does; false if there is no login. One that the server does not take is a login all the same.
let logins = 0;
const logIn = async () => {
  if ((logins += 1) > 3) return false;
  const login = spawn(program, ["mcp", "login", "s", "--workspace", work], {
    env,
    cwd: work,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let told = "";
  login.stderr.on("data", (text) => {
    told += text;
    process.stderr.write(text);
  });
  createInterface({ input: login.stdout }).once("line", async (page) => {
    const sent = await fetch(page, { redirect: "manual" });
    const back = sent.headers.get("location");
    if (back) await fetch(back);
    else login.kill();
  });
  const code = await new Promise((ended) => login.once("close", ended));
  return code === 0 || told.includes("the login was stored");
};
if (logsIn && !(await logIn())) process.exit(1);

const toolgate = spawn(program, ["mcp", "--workspace", work], { env, stdio: ["pipe", "pipe", "inherit"] });

const waiting = new Map();
let last = 0;
const write = (message) => toolgate.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const request = (method, params) =>
  new Promise((answer) => {
    const id = (last += 1);
    waiting.set(id, answer);
    write({ id, method, params });
  });
createInterface({ input: toolgate.stdout }).on("line", (line) => {
  const { id, method, result, error } = JSON.parse(line);
  if (method === "elicitation/create") return write({ id, result: { action: "accept", content: {} } });
  if (method === undefined) waiting.get(id)?.(result ?? { error });
});

// A value that fits a schema.
const sample = (schema) => {
  if (schema?.enum) return schema.enum[0];
  switch (schema?.type) {
    case "integer":
    case "number":
      return 3;
    case "boolean":
      return true;
    case "array":
      return [];
    case "object":
      return {};
    default:
      return "text";
  }
};

await request("initialize", {
  protocolVersion: "2025-11-25",
  capabilities: { elicitation: { form: {} } },
  clientInfo: { name: "conformance", version: "1" },
});
write({ method: "notifications/initialized" });
let deadline = Date.now() + (logsIn ? 4_000 : 10_000);
let tools = [];
while (tools.length === 0) {
  if (Date.now() > deadline) {
    if (!logsIn || !(await logIn())) break;
    deadline = Date.now() + 4_000;
  }
  const listed = await request("tools/list", {});
  tools = listed.tools.filter(({ name }) => name.startsWith("s_"));
  if (tools.length === 0) await new Promise((done) => setTimeout(done, 100));
}
const fitting = ({ name, inputSchema }) => {
  const properties = Object.entries(inputSchema.properties ?? {});
  return { name, arguments: Object.fromEntries(properties.map(([key, schema]) => [key, sample(schema)])) };
};
const named = toolCalls?.map((call) => ({ ...call, name: `s_${call.name}` }));
const calls = scenario.startsWith("json-schema") ? [] : (named ?? tools.map(fitting));
for (const call of calls) {
  const make = () => request("tools/call", { name: call.name, arguments: call.arguments });
  let result = await make();
  while (logsIn && JSON.stringify(result).includes("toolgate mcp login") && (await logIn())) {
    // The service looks for logins once a second.
    const until = Date.now() + 4_000;
    do {
      await new Promise((done) => setTimeout(done, 200));
      result = await make();
    } while (JSON.stringify(result).includes("wants a login") && Date.now() < until);
  }
  console.error(`${call.name}: ${JSON.stringify(result).slice(0, 300)}`);
}
toolgate.stdin.end();
toolgate.on("exit", () => process.exit(0));
