/**
 * The driver: does what it is told on standard input through the library's public functions, and reports on standard
 * output what they gave. The protocol is in `clients/DRIVER.md`.
 *
 * With TOOLGATE_DRIVER_TRANSPORT=web everything goes over gRPC-Web and `fetch`, as in a page.
 */
import { createInterface } from "node:readline";
import { ToolgateError } from "../src/node.js";
import { type Command, InvalidCommand, type Report, run } from "./driver-commands.js";
import { Session } from "./driver-session.js";

const session = new Session(process.env["TOOLGATE_DRIVER_TRANSPORT"] === "web");

function say(id: number, report: Report): void {
  process.stdout.write(`${JSON.stringify({ id, ...report })}\n`);
}

function errorReport(error: unknown): Report {
  if (error instanceof InvalidCommand) {
    return { error: { code: "INVALID_ARGUMENT", message: error.message } };
  }
  if (error instanceof ToolgateError) {
    const { code, reason, message } = error;
    return { error: { code, ...(reason ? { reason } : {}), message } };
  }
  return { error: { code: "UNKNOWN", message: error instanceof Error ? error.message : String(error) } };
}

function parse(line: string): Command | undefined {
  try {
    const command: unknown = JSON.parse(line);
    if (typeof command === "object" && command !== null && "id" in command && typeof command.id === "number") {
      return command as Command;
    }
  } catch {
    // Falls through to the complaint.
  }
  console.error(`driver: not a command: ${line.slice(0, 200)}`);
  return undefined;
}

async function obey(command: Command): Promise<void> {
  try {
    say(command.id, { done: await run(session, command, (report) => say(command.id, report)) });
  } catch (error) {
    say(command.id, errorReport(error));
  }
}

const running = new Set<Promise<void>>();
for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
  const command = line.trim() === "" ? undefined : parse(line);
  if (command) {
    const done = obey(command).finally(() => running.delete(done));
    running.add(done);
  }
}
await session.close();
await Promise.race([Promise.allSettled(running), new Promise((resolve) => setTimeout(resolve, 10_000).unref())]);
process.exit(0);
