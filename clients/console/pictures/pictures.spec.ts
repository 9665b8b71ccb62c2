// The pictures of the README, made from the running program: a prompt in the console, and the same in the terminal.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { ASK, expect, test } from "../tests/service";

const folder = join(import.meta.dirname, "../../../docs/pictures");
const OLD = 'fn main() {\n    println!("hello");\n}\n';
const EDIT = { filePath: "main.rs", oldString: '"hello"', newString: '"hello, world"' };

/** What one colour code of a terminal is in a page. */
const STYLES: Record<string, string> = {
  "1": "font-weight: bold",
  "2": "opacity: 0.65",
  "31": "color: #ff7b72",
  "32": "color: #7ee787",
  "33": "color: #e3b341",
  "36": "color: #79c0ff",
};

/** Returns the lines of a terminal as a page. */
function terminal(command: string, output: string): string {
  const escaped = output.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("\r", "");
  const coloured = escaped.replace(/\u001b\[(\d+)m/g, (_, code: string) =>
    code === "0" ? "</span>" : `<span style="${STYLES[code] ?? ""}">`,
  );
  return `<body style="margin: 0; background: #0d1117"><pre style="margin: 0; padding: 20px 24px; width: max-content;
    color: #e6edf3; font: 14px/1.5 monospace"><b>$ ${command}</b>\n${coloured}</pre></body>`;
}

/** Starts `toolgate approve` on a terminal, and returns what it shows once it asks. */
async function approver(url: string): Promise<string> {
  const command = `stty cols 100 rows 40; exec "${process.env.TOOLGATE_BIN}" approve --server ${url}`;
  const child = spawn("script", ["-qec", command, "/dev/null"], { stdio: ["pipe", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8");
  for await (const part of child.stdout) {
    output += part as string;
    if (output.includes("run something else instead")) break;
  }
  child.kill();
  return output;
}

test("a prompt, in the browser and in the terminal", async ({ page, start }) => {
  const service = await start({ config: ASK });
  service.write("main.rs", OLD);
  await service.run("read", { filePath: "main.rs" });
  const call = service.run("edit", EDIT, { callId: "change-greeting" });
  const shown = await approver(service.url);
  await page.setContent(terminal("toolgate approve", shown.trimEnd()));
  await page.locator("pre").screenshot({ path: join(folder, "approve.png") });

  await page.setViewportSize({ width: 1100, height: 640 });
  await page.goto(`${service.url}console/#/prompts`);
  const allow = page.getByRole("button", { name: "Allow once" });
  await expect(allow).toBeEnabled();
  await page.screenshot({ path: join(folder, "console.png") });
  await allow.click();
  expect((await call).ending.case).toBe("completed");
});
