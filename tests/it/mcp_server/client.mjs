// A client of MCP by the official SDK: lists tools, makes calls, answers a form, reads a resource, and prints what it saw.
// Usage: client.mjs SDK http URL | client.mjs SDK stdio COMMAND ARGS…
import { pathToFileURL } from "node:url";

const [sdk, kind, ...rest] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${sdk}/${file}`).href);
const { Client } = await load("client/index.js");
const { ElicitRequestSchema } = await load("types.js");

async function transport() {
  if (kind === "http") {
    const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
    return new StreamableHTTPClientTransport(new URL(rest[0]));
  }
  const { StdioClientTransport } = await load("client/stdio.js");
  return new StdioClientTransport({ command: rest[0], args: rest.slice(1) });
}

const client = new Client({ name: "sdk", version: "1" }, { capabilities: { elicitation: { form: {} } } });
let forms = 0;
client.setRequestHandler(ElicitRequestSchema, async () => {
  forms += 1;
  return { action: "accept", content: { decision: "once" } };
});
await client.connect(await transport());

const { tools } = await client.listTools();
const progress = [];
const result = await client.callTool(
  { name: "bash", arguments: { command: "echo from the sdk", description: "Tests" } },
  undefined,
  { onprogress: (note) => progress.push(note.message) },
);
const missing = await client.callTool({ name: "read", arguments: { filePath: "missing" } });
const { contents } = await client.readResource({ uri: result._meta.truncation.uri });
await client.close();

console.log(
  JSON.stringify({
    tools: tools.map((tool) => tool.name),
    text: result.content[0].text,
    forms,
    progress,
    failed: missing.isError === true,
    resource: contents[0].text,
  }),
);
