// A real service for each test, on folders of its own, and the calls that the tests make.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test as base, type Locator, type Page, type Route } from "@playwright/test";
import { createClient, type Client } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { PermissionService } from "../src/gen/toolgate/v1/permission_service_pb";
import { ToolService } from "../src/gen/toolgate/v1/tool_service_pb";
import { WorkspaceService } from "../src/gen/toolgate/v1/workspace_service_pb";
import { OnDisconnect, Unattended, type Call } from "../src/gen/toolgate/v1/call_pb";

/** What a service is started with. */
export interface Setup {
  /** What `opencode.json` says. */
  config?: object;
  env?: Record<string, string>;
  /** Lines of a file of tokens. */
  tokens?: string;
  /** The token of the calls that the test makes. */
  token?: string;
  console?: boolean;
  /** Whether workspaces may be opened below the folder `roots`. */
  roots?: boolean;
}

/** How a call is made. */
export interface Making {
  session?: string;
  callId?: string;
  workspace?: string;
}

/** A running service. */
export class Service {
  private readonly folder = mkdtempSync(join(tmpdir(), "console-"));
  private child: ChildProcess | undefined;
  private port = 0;
  tools!: Client<typeof ToolService>;
  permissions!: Client<typeof PermissionService>;
  workspaces!: Client<typeof WorkspaceService>;

  constructor(private readonly setup: Setup) {
    for (const name of ["home/.config/opencode", "work", "data", "roots"])
      mkdirSync(join(this.folder, name), { recursive: true });
    const config = setup.config ?? {};
    writeFileSync(join(this.folder, "home/.config/opencode/opencode.json"), JSON.stringify(config));
    if (setup.tokens !== undefined) writeFileSync(join(this.folder, "tokens"), setup.tokens, { mode: 0o600 });
  }

  /** Where the page is. */
  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  /** The folder below which workspaces may be opened. */
  get root(): string {
    return realpathSync(join(this.folder, "roots"));
  }

  /** Returns a path in the workspace. */
  path(name: string): string {
    return join(this.folder, "work", name);
  }

  /** Writes a file of the workspace. */
  write(name: string, text: string): void {
    writeFileSync(this.path(name), text);
  }

  /** Starts it, again on the same port. */
  async start(): Promise<this> {
    const flags = ["serve", "--json", "--no-socket", "--listen", `127.0.0.1:${this.port}`];
    if (this.setup.console !== false) flags.push("--console");
    flags.push("--data-dir", join(this.folder, "data"), "--workspace", `default=${join(this.folder, "work")}`);
    const child = spawn(process.env.TOOLGATE_BIN ?? "toolgate", flags, {
      cwd: this.folder,
      stdio: ["ignore", "pipe", "ignore"],
      env: {
        PATH: process.env.PATH,
        HOME: join(this.folder, "home"),
        LANG: "C.UTF-8",
        SHELL: "/bin/bash",
        ...(this.setup.tokens === undefined ? {} : { TOOLGATE_AUTH_TOKENS_FILE: join(this.folder, "tokens") }),
        ...(this.setup.roots === true ? { TOOLGATE_WORKSPACE_ROOTS: this.root } : {}),
        ...this.setup.env,
      },
    });
    this.child = child;
    const said = createInterface({ input: child.stdout });
    const [line] = (await Promise.race([once(said, "line"), once(child, "exit").then(() => [undefined])])) as [string];
    if (line === undefined) throw new Error("the service ended before it listened");
    const { listening } = JSON.parse(line) as { listening: { tcp: string } };
    this.port = Number(new URL(listening.tcp).port);
    const { token } = this.setup;
    const transport = createGrpcWebTransport({
      baseUrl: listening.tcp,
      interceptors: [
        (next) => (request) => {
          if (token !== undefined) request.header.set("authorization", `Bearer ${token}`);
          return next(request);
        },
      ],
    });
    this.tools = createClient(ToolService, transport);
    this.permissions = createClient(PermissionService, transport);
    this.workspaces = createClient(WorkspaceService, transport);
    return this;
  }

  /** Kills it as a crash would. */
  async kill(): Promise<void> {
    const { child } = this;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Runs a tool to its end. */
  async run(tool: string, input: object, making: Making = {}): Promise<Call> {
    const { call } = await this.tools.runTool({
      tool,
      arguments: { case: "inputJson", value: JSON.stringify(input) },
      callId: making.callId ?? "",
      context: { sessionId: making.session ?? "demo", workspace: making.workspace ?? "" },
      onDisconnect: OnDisconnect.KEEP,
      unattended: Unattended.WAIT,
    });
    if (call === undefined) throw new Error("no call");
    return call;
  }

  /** Starts a command in the background, and returns when it runs. */
  async background(callId: string, command: string, more: object = {}): Promise<void> {
    const input = { command, description: "A test", ...more };
    const stream = this.tools.executeTool({
      callId,
      tool: "background",
      onDisconnect: OnDisconnect.KEEP,
      arguments: { case: "inputJson", value: JSON.stringify(input) },
    });
    for await (const { event } of stream) if (event?.event.case === "running") return;
  }

  /** Runs a command to its end. */
  bash(command: string, making: Making = {}): Promise<Call> {
    return this.run("bash", { command, description: command.slice(0, 60) }, making);
  }
}

/** What tests get, and what they may choose. */
interface Fixtures {
  start: (setup?: Setup) => Promise<Service>;
  /** The name that the person has given; none for somebody who has not been asked. */
  person: string | null;
}

/** Tests that start services; each is ended after the test. */
export const test = base.extend<Fixtures>({
  person: ["Tester", { option: true }],
  start: async ({}, use) => {
    const services: Service[] = [];
    await use(async (setup = {}) => {
      const service = new Service(setup);
      services.push(service);
      return service.start();
    });
    await Promise.all(services.map((service) => service.close()));
  },
  page: async ({ page, person }, use) => {
    if (person !== null) await page.addInitScript((name) => localStorage.setItem("toolgate.name", name), person);
    const faults: string[] = [];
    page.on("pageerror", (error) => faults.push(error.message));
    // What the policy for the page's content forbids is said here.
    page.on("console", (message) => {
      if (message.type() === "error" && !message.text().includes("Failed to load resource"))
        faults.push(message.text());
    });
    const built = process.env.CONSOLE_BUILT;
    if (built !== undefined) await page.route(/\/console\/[^/]*$/, (route) => replaced(route, built));
    await use(page);
    base.expect(faults).toEqual([]);
  },
});

/** Shows a page that was just built, under the headers of the service: for work on the page, without building the service. */
async function replaced(route: Route, folder: string): Promise<void> {
  const name = new URL(route.request().url()).pathname.replace("/console/", "") || "index.html";
  const response = await route.fetch();
  // The body is neither compressed nor of that length.
  const { "content-encoding": _, "content-length": __, ...headers } = response.headers();
  // A file that the service does not have in this version is one of the page all the same.
  if (response.status() === 404)
    headers["content-type"] = `text/${name.endsWith(".css") ? "css" : "javascript"}; charset=utf-8`;
  await route.fulfill({ status: 200, headers, body: readFileSync(join(folder, name)) });
}

export { expect } from "@playwright/test";

/** What is listed in a part of the first page, such as `Waiting for you`. */
export function listed(page: Page, part: string): Locator {
  return page.getByRole("region", { name: new RegExp(`^${part}`) }).getByRole("link");
}

/** Everything is asked for. */
export const ASK = { permission: { bash: "ask", edit: "ask" } };
