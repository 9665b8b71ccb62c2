import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import {
  type HostEventSchema,
  type HostReport,
  HostService,
  ServeToolsResponseSchema,
} from "../src/gen/toolgate/v1/host_service_pb.js";
import { Client, defineTool, type HostedTool, type HostOptions } from "../src/index.js";
import { Queue } from "../src/queue.js";

type Told = NonNullable<MessageInitShape<typeof HostEventSchema>["event"]>;

/** A service that tells what it is given, and notes what is reported. */
class FakeService {
  readonly tokens: string[] = [];
  readonly reports: HostReport[] = [];
  accepted = true;
  #told = new Queue<Told | "break">();
  #waiting: (() => void)[] = [];

  tell(...told: (Told | "break")[]): void {
    for (const one of told) {
      this.#told.push(one);
    }
  }

  async reported(count: number): Promise<HostReport[]> {
    while (this.reports.length < count) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    return this.reports;
  }

  lend(tools: HostedTool[], options: HostOptions<Client> = {}) {
    const transport = createRouterTransport(({ service }) =>
      service(HostService, {
        serveTools: (request) => this.#serve(request.hello?.token ?? ""),
        reportInvocation: ({ report }) => {
          if (report) {
            this.reports.push(report);
          }
          for (const wake of this.#waiting.splice(0)) {
            wake();
          }
          return { accepted: this.accepted };
        },
      }),
    );
    return new Client({ transport }).host(tools, options);
  }

  async *#serve(token: string) {
    this.tokens.push(token);
    yield answer({ case: "welcome", value: { token: "secret", resumed: token !== "", workspace: "w" } });
    for await (const told of this.#told) {
      if (told === "break") {
        throw new ConnectError("connection lost", Code.Unavailable);
      }
      yield answer(told);
    }
  }
}

function answer(event: Told) {
  return create(ServeToolsResponseSchema, { event: { event } });
}

function invoke(invocationId: string, resent = false): Told {
  return { case: "invoke", value: { invocationId, callId: "c", tool: "t", inputJson: '{"a":1}', resent } };
}

function tool(run: HostedTool["run"]): HostedTool {
  return defineTool({ name: "t", description: "T", run });
}

test("an invocation that is sent again is not run again, and its end is said again", async () => {
  const service = new FakeService();
  let runs = 0;
  const host = service.lend([
    tool((input) => {
      runs += 1;
      return JSON.stringify(input);
    }),
  ]);
  service.tell(invoke("i1"));
  await service.reported(1);
  service.tell("break", invoke("i1", true));
  const reports = await service.reported(2);
  assert.equal(runs, 1);
  for (const { invocationId, report } of reports) {
    assert.equal(invocationId, "i1");
    assert.equal(report.case === "completed" ? report.value.output : "", '{"a":1}');
  }
  assert.deepEqual(service.tokens, ["", "secret"]);
  assert.equal(host.token, "secret");
  await host.close();
  assert.equal(service.reports.at(-1)?.report.case, "leave");
});

test("a question is put again with its invocation, under the same id", async () => {
  const service = new FakeService();
  const host = service.lend([
    tool(async (_input, { ask }) => ask("deploy", { patterns: ["p"] }).then(() => "went on")),
  ]);
  service.tell(invoke("i1"));
  await service.reported(1);
  service.tell("break", invoke("i1", true));
  const [first, second] = (await service.reported(2)).map(({ report }) => report);
  assert.ok(first?.case === "ask" && second?.case === "ask");
  assert.equal(first.value.askId, second.value.askId);
  service.tell({ case: "askResult", value: { invocationId: "i1", askId: first.value.askId, allowed: true } });
  const last = (await service.reported(3)).at(-1)?.report;
  assert.equal(last?.case === "completed" ? last.value.output : "", "went on");
  await host.close();
});

test("what is refused or thrown is the text of the failure", async () => {
  const service = new FakeService();
  const host = service.lend([tool(async (_input, { ask }) => ask("deploy").then(() => "went on"))]);
  service.tell(invoke("i1"));
  const [asked] = await service.reported(1);
  const askId = asked?.report.case === "ask" ? asked.report.value.askId : "";
  service.tell({ case: "askResult", value: { invocationId: "i1", askId, allowed: false, error: "somebody said no" } });
  const last = (await service.reported(2)).at(-1)?.report;
  assert.equal(last?.case === "failed" ? last.value.error : "", "somebody said no");
  await host.close();
});

test("a function is aborted when its call is given up", async () => {
  const service = new FakeService();
  let aborted: (() => void) | undefined;
  const gone = new Promise<void>((resolve) => {
    aborted = resolve;
  });
  const host = service.lend([
    tool(async (_input, { signal, progress }) => {
      signal.addEventListener("abort", () => aborted?.());
      await progress({ title: "begun" });
      await gone;
      return "late";
    }),
  ]);
  service.tell(invoke("i1"));
  await service.reported(1);
  service.tell({ case: "cancel", value: { invocationId: "i1" } });
  await gone;
  await host.close();
  assert.deepEqual(
    service.reports.map(({ report }) => report.case),
    ["progress", "leave"],
  );
});

test("a subagent gets a client of its own, a hook what it may change", async () => {
  const service = new FakeService();
  const host = service.lend([], {
    subagent: ({ prompt, agent }, { client, sessionId }) =>
      `${agent}: ${prompt} ${sessionId} ${client instanceof Client}`,
    hooks: {
      "shell.env": (_input, output) => {
        output["env"] = { A: "1" };
      },
    },
  });
  service.tell({
    case: "runSubagent",
    value: { invocationId: "i1", callId: "c", agent: "explore", prompt: "look", sessionId: "ses_1" },
  });
  const [ran] = await service.reported(1);
  assert.equal(ran?.report.case === "completed" ? ran.report.value.output : "", "explore: look ses_1 true");
  service.tell({ case: "hook", value: { invocationId: "i2", point: "shell.env", inputJson: "{}", outputJson: "{}" } });
  const [, hooked] = await service.reported(2);
  assert.equal(hooked?.report.case === "hookResult" ? hooked.report.value.outputJson : "", '{"env":{"A":"1"}}');
  await host.close();
});
