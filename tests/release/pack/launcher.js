#!/usr/bin/env node
// Starts the program. It is in a package of its own for each kind of machine, of which npm installs the one that fits.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";
import process from "node:process";

const carrier = `@toolgate/${process.platform}-${process.arch}`;

function find() {
  try {
    return createRequire(import.meta.url).resolve(`${carrier}/bin/toolgate`);
  } catch {
    console.error(
      `toolgate: there is no package ${carrier}. The program runs on Linux, on x64 and arm64. ` +
        "On these, npm leaves it out only if told to: --omit=optional, --no-optional.",
    );
    process.exit(127);
  }
}

const program = find();
const options = process.argv.slice(2);

// It takes the place of Node where it can: then signals, the terminal and the exit code are its own.
if (process.execve !== undefined) process.execve(program, [program, ...options], process.env);

const child = spawn(program, options, { stdio: "inherit" });
// A terminal sends these to both of them, and a second one would have the service end without waiting for its calls.
for (const signal of ["SIGINT", "SIGQUIT", "SIGHUP"]) process.on(signal, () => {});
process.on("SIGTERM", () => child.kill("SIGTERM"));
child.on("error", (error) => {
  console.error(`toolgate: ${error.message}`);
  process.exit(126);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
