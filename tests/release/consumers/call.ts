// Makes a call by the package as it is installed, beside zod 3.
import { connect, type Prompt, reject } from "toolgate/node";
import { CallState } from "toolgate/proto";
import { z } from "zod";

const client = connect();
const approvals = client.approvals((prompt: Prompt) => reject(prompt.kind));
await approvals.ready;
const input = z.object({ command: z.string(), description: z.string() });
const result = await client.run("bash", input.parse({ command: "echo hello from a call", description: "Greets" }));
console.log(result.text, CallState.COMPLETED);
await client.close();
