//! Custom tools, plugins and executables with a manifest, in the real program and the real runtimes.

mod faults;
mod plugin_faults;
mod plugins;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use toolgate_contract::*;

use super::support::{
    Server, Setup, bash, eventually, gone, json_of, kept, list_all, processes, reply, request, test, waiting,
};

/// Every runtime that there is support for.
const RUNTIMES: [&str; 3] = ["bun", "node-22", "deno"];

/// What a project may have, with every feature that the runtimes could differ in.
const SUM: &str = r#"import { tool } from "@opencode-ai/plugin"
import { tool as made } from "@opencode-ai/plugin/tool"
import { z } from "zod/v4"
import { twice } from "../lib/twice"
enum Unit { Meter = "m" }
export default tool({
  description: "Adds numbers",
  args: { a: tool.schema.number().describe("left side"), b: tool.schema.number().default(3) },
  async execute(args, context) {
    context.metadata({ title: "adding" })
    console.log("printed")
    process.stdout.write("no protocol\n")
    return { title: "sum", output: twice(args.a + args.b) + Unit.Meter, metadata: { agent: context.agent } }
  },
})
export const fails = made({ description: "Fails", args: {}, async execute() { throw new Error("boom") } })
const place = z.object({ name: tool.schema.string().min(2).describe("inner"), kind: tool.schema.enum(["a", "b"]) })
export const rich = tool({
  description: "Returns all that can be returned",
  args: { place: place.describe("where"), more: tool.schema.array(tool.schema.union([tool.schema.string(), tool.schema.number()])).optional() },
  async execute({ place, more }, context) {
    const { agent, directory, worktree, sessionID, messageID, callID, extra } = context
    context.metadata({ title: "asking", metadata: { step: 1, gone: true } })
    await context.ask({ permission: "deploy", patterns: [place.name], always: ["*"], metadata: { kind: place.kind } })
    context.metadata({ metadata: { step: 2 } })
    return {
      title: "rich",
      output: [agent, directory === worktree, typeof sessionID, messageID.startsWith("msg_"), typeof callID, typeof extra, more].join(" "),
      metadata: { place },
      attachments: [{ type: "file", mime: "text/plain", url: "data:text/plain;base64,aGk=", filename: "hi.txt" }],
    }
  },
})
export const waits = tool({
  description: "Waits for its end",
  args: {},
  execute: (_, { abort }) => new Promise((_, fail) => abort.addEventListener("abort", () => fail(abort.reason))),
})
"#;
const TWICE: &str = "export const twice = (x: number): number => 2 * x\n";
const TRAPS: &str = r#"const args = {}
export const loop = { description: "l", args, async execute() { for (;;) {} } }
export const exit = { description: "e", args, async execute() { process.exit(7) } }
export const slow = { description: "s", args, execute: (_, c) => new Promise((_, no) => c.abort.addEventListener("abort", () => no(new Error("stopped")))) }
export const fine = { description: "f", args, execute: async () => "fine" }
export const nothing = { description: "n", args, async execute() {} }
export const nil = { description: "n", args, execute: async () => null }
export const three = { description: "t", args, execute: async () => 3 }
"#;
const PLUGIN: &str = r#"export const Rewrite = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    if (input.tool === "bash") output.args.command = "echo rewritten"
  },
  tool: { where: { description: "Where", async execute() { return directory } } },
})
"#;

fn project(server: &Server, files: &[(&str, &str)]) {
    for (name, text) in files {
        write(&server.work().join(name), text);
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // As editors do: never a half of it.
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    if path.extension().is_some_and(|ending| ending == "sh" || ending == "py") {
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::rename(new, path).unwrap();
}

fn trusted() -> Setup {
    Setup::default().env("TOOLGATE_TRUST", "true")
}

/// The runtime of this name that the setup of the tests has installed.
fn runtime(name: &str) -> String {
    crate::support::installed(&format!("bin/{name}"))
}

async fn with_runtime(name: &str, files: &[(&str, &str)]) -> Server {
    let mut setup = Setup::permission(json!({"*": "allow", "deploy": {"*": "allow", "moon": "ask"}}));
    setup.env = trusted().env("TOOLGATE_EXTENSIONS_RUNTIME", &runtime(name)).env;
    let mut server = Server::with(setup).await;
    project(&server, files);
    server.kill9().await;
    server.restart().await;
    server
}

async fn listed(server: &Server) -> Vec<ToolDefinition> {
    let tools = server.tools().list_tools(ListToolsRequest::default()).await.unwrap();
    let mut tools = tools.into_inner().tools;
    tools.retain(|tool| tool.source != i32::from(ToolSource::Builtin));
    tools
}

async fn names(server: &Server) -> Vec<String> {
    listed(server).await.into_iter().map(|tool| tool.name).collect()
}

fn output(call: &Call) -> String {
    match &call.ending {
        Some(call::Ending::Completed(completed)) => completed.output.clone(),
        Some(call::Ending::Failed(failed)) => panic!("{} failed: {}", call.tool, failed.error),
        None => panic!("{} has not ended", call.tool),
    }
}

fn error(call: &Call) -> String {
    match &call.ending {
        Some(call::Ending::Failed(failed)) => failed.error.clone(),
        other => panic!("{} did not fail: {other:?}", call.tool),
    }
}

async fn cancel(server: &Server, id: &str) {
    let cancel = CancelCallRequest { call_id: id.to_owned() };
    server.tools().cancel_call(cancel).await.unwrap();
    eventually("the end of a call that was cancelled", async || {
        server.get(id).await.state() == CallState::Failed
    })
    .await;
}

async fn sources(server: &Server) -> Vec<ToolSourceInfo> {
    let info = server
        .info()
        .get_server_info(GetServerInfoRequest::default())
        .await
        .unwrap();
    info.into_inner().workspaces.remove(0).tool_sources
}

#[test]
fn every_runtime_gives_the_same() {
    test(async {
        let files = [
            (".opencode/tool/sum.ts", SUM),
            (".opencode/lib/twice.ts", TWICE),
            (".opencode/tool/broken.js", "this is no script("),
            (".opencode/plugin/p.js", PLUGIN),
        ];
        let mut seen = Vec::new();
        for name in RUNTIMES {
            let server = with_runtime(name, &files).await;
            let listed = listed(&server).await;
            let sum = server.run("sum", json!({"a": 1})).await;
            let invalid = server.run("sum", json!({"a": "many"})).await;
            let fails = error(&server.run("sum_fails", json!({})).await);
            assert!(fails.starts_with("boom (at .opencode/tool/sum.ts:"), "{fails}");
            assert_eq!(
                output(&server.run("where", json!({})).await),
                server.work().canonicalize().unwrap().to_str().unwrap()
            );
            assert_eq!(output(&sum), "8m", "{name}");
            assert!(error(&invalid).contains("called with invalid arguments: a:"));
            let sources = sources(&server).await;
            let broken = sources
                .iter()
                .find(|source| source.name == ".opencode/tool/broken.js")
                .unwrap();
            assert_eq!(broken.state(), ToolSourceState::Failed);
            assert!(
                broken.problem.ends_with("(at .opencode/tool/broken.js:1:6)") || name != "bun",
                "{}",
                broken.problem
            );
            seen.push((listed, shown(&sum), error(&invalid), rich(&server).await));
        }
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[0], seen[2]);
        let names: Vec<&str> = seen[0].0.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["sum", "sum_fails", "sum_rich", "sum_waits", "where"]);
        let schema = |index: usize| serde_json::from_str::<Value>(&seen[0].0[index].input_schema_json).unwrap();
        assert_eq!(schema(0)["required"], json!(["a"]));
        assert_eq!(schema(0)["properties"]["a"]["description"], "left side");
        let place = &schema(2)["properties"]["place"];
        assert_eq!(
            (&place["description"], &place["properties"]["name"]["description"]),
            (&json!("where"), &json!("inner"))
        );
    });
}

/// What a call came to, without what differs from call to call.
fn shown(call: &Call) -> Value {
    let Some(call::Ending::Completed(completed)) = &call.ending else {
        return json!(error(call));
    };
    let attachments = completed
        .attachments
        .iter()
        .map(|one| format!("{} {} {:?}", one.mime, one.filename, one.content));
    let attachments: Vec<String> = attachments.collect();
    let metadata = completed.metadata.as_ref().map(json_of);
    json!({"title": call.title, "output": completed.output, "metadata": metadata, "attachments": attachments})
}

/// Runs the tool that does all there is: allowed, refused, told to end; and tells what was seen of it.
async fn rich(server: &Server) -> Value {
    let input = |name: &str| json!({"place": {"name": name, "kind": "a"}, "more": ["x", 1]});
    let allowed = server.run("sum_rich", input("here")).await;
    let updates: Vec<Value> = server
        .watch(&allowed.call_id, 0)
        .await
        .unwrap()
        .iter()
        .filter_map(|event| match &event.event {
            Some(call_event::Event::Metadata(update)) => {
                Some(json!([update.title, update.metadata.as_ref().map(json_of)]))
            }
            _ => None,
        })
        .collect();
    let short = error(&server.run("sum_rich", input("x")).await);
    let mut tools = server.tools();
    let mut stream = tools
        .execute_tool(kept("refused", request("sum_rich", input("moon"))))
        .await
        .unwrap()
        .into_inner();
    let prompt = waiting(&mut stream).await;
    let mut reject = reply(&prompt, PromptDecision::Reject);
    reject.message = "not there".to_owned();
    let reject = ReplyPromptRequest {
        reply: Some(reject),
        name: "ann".to_owned(),
    };
    server.permissions().reply_prompt(reject).await.unwrap();
    eventually("the refused call has ended", async || {
        server.get("refused").await.state() == CallState::Failed
    })
    .await;
    drop(
        tools
            .execute_tool(kept("waits", request("sum_waits", json!({}))))
            .await
            .unwrap(),
    );
    cancel(server, "waits").await;
    let Some(prompt::Request::Permission(asked)) = prompt.request else {
        panic!("{prompt:?}");
    };
    let asked = json!([
        asked.permission,
        asked.patterns,
        asked.always,
        asked.metadata.as_ref().map(json_of)
    ]);
    let ends = [shown(&server.get("refused").await), shown(&server.get("waits").await)];
    json!([shown(&allowed), updates, short, asked, ends])
}

#[test]
fn arguments_are_of_the_projects_own_zod() {
    test(async {
        let tool = |package: &str| {
            let arguments = "{ s: z.string().min(1).max(5).describe(\"a text\"), n: z.number().int().min(0).default(7), \
                             l: z.array(z.enum([\"a\", \"b\"])).max(2).optional(), o: z.object({ k: z.boolean().describe(\"inner\") }).optional() }";
            format!(
                "import {{ z }} from \"{package}\"\nexport default {{ description: \"d\", args: {arguments}, execute: async (args) => JSON.stringify(args) }}\n"
            )
        };
        let (four, three) = (tool("zod"), tool("zod/v3"));
        let files = [
            (".opencode/tool/four.ts", four.as_str()),
            (".opencode/tool/three.ts", &three),
        ];
        for name in RUNTIMES {
            let mut server = Server::with(trusted().env("TOOLGATE_EXTENSIONS_RUNTIME", &runtime(name))).await;
            project(&server, &files);
            let packages = server.work().join(".opencode/node_modules");
            fs::create_dir(&packages).unwrap();
            // Another version than the one that is brought along.
            let zod = crate::support::installed("npm/node_modules/zod");
            std::os::unix::fs::symlink(zod, packages.join("zod")).unwrap();
            server.kill9().await;
            server.restart().await;
            for tool in listed(&server).await {
                let schema: Value = serde_json::from_str(&tool.input_schema_json).unwrap();
                let at = |path: &str| {
                    schema
                        .pointer(path)
                        .unwrap_or_else(|| panic!("{name}: {path} of {schema}"))
                };
                assert_eq!(at("/required"), &json!(["s"]), "{name}");
                assert_eq!(at("/properties/s/description"), "a text");
                assert_eq!(
                    (at("/properties/s/minLength"), at("/properties/s/maxLength")),
                    (&json!(1), &json!(5))
                );
                assert_eq!(
                    (at("/properties/n/type"), at("/properties/n/default")),
                    (&json!("integer"), &json!(7))
                );
                assert_eq!(at("/properties/l/items/enum"), &json!(["a", "b"]));
                assert_eq!(at("/properties/l/maxItems"), &json!(2));
                assert_eq!(at("/properties/o/properties/k/description"), "inner");
                assert_eq!(
                    output(&server.run(&tool.name, json!({"s": "x"})).await),
                    r#"{"s":"x","n":7}"#
                );
            }
            assert_eq!(
                names(&server).await,
                ["four", "three"],
                "{name}: {:?}",
                sources(&server).await
            );
        }
    });
}

#[test]
fn the_prompt_shows_what_a_plugin_made_of_a_command() {
    test(async {
        let mut setup = Setup::permission(json!({"bash": "ask"}));
        setup.env = trusted().env("TOOLGATE_EXTENSIONS_RUNTIME", &runtime("bun")).env;
        let server = Server::with(setup).await;
        project(&server, &[(".opencode/plugin/p.js", PLUGIN)]);
        eventually("the plugin is there", async || {
            names(&server).await.contains(&"where".to_owned())
        })
        .await;
        let mut tools = server.tools();
        let _stream = tools
            .execute_tool(kept("rewritten", bash("rm -rf everything")))
            .await
            .unwrap();
        let mut prompts = Vec::new();
        eventually("a prompt", async || {
            let listed = server.permissions().list_prompts(list_all()).await.unwrap();
            prompts = listed.into_inner().prompts;
            !prompts.is_empty()
        })
        .await;
        let shown = format!("{:?}", prompts[0]);
        assert!(shown.contains("echo rewritten"), "{shown}");
        assert!(!shown.contains("everything"), "{shown}");
    });
}

#[test]
fn what_goes_wrong_in_one_file_stays_there() {
    test(async {
        for name in RUNTIMES {
            let other = TRAPS.to_owned();
            let server = with_runtime(
                name,
                &[(".opencode/tool/trap.js", TRAPS), (".opencode/tool/other.js", &other)],
            )
            .await;
            let (first, waiting) = (kept("slow", request("other_slow", json!({}))), server.tools());
            let mut waiting = waiting.clone();
            let _stream = waiting.execute_tool(first).await.unwrap();
            let mut looping = request("trap_loop", json!({}));
            looping.timeout = Some(prost_types::Duration { seconds: 1, nanos: 0 });
            let events = server.execute(looping).await.unwrap();
            assert!(format!("{:?}", events.last()).contains("ran longer than"), "{events:?}");
            assert_eq!(output(&server.run("trap_fine", json!({})).await), "fine", "{name}");
            for nothing in ["nothing", "nil"] {
                let error = error(&server.run(&format!("trap_{nothing}"), json!({})).await);
                assert!(
                    error.contains(&format!("trap_{nothing} returned nothing. It has to")),
                    "{error}"
                );
            }
            assert_eq!(output(&server.run("trap_three", json!({})).await), "3", "{name}");
            let exit = error(&server.run("trap_exit", json!({})).await);
            assert!(exit.starts_with("process.exit(7) was called"), "{exit}");
            assert_eq!(output(&server.run("trap_fine", json!({})).await), "fine", "{name}");
            assert_eq!(server.get("slow").await.state(), CallState::Running, "{name}");
            cancel(&server, "slow").await;
        }
    });
}

#[test]
fn changes_are_noticed() {
    test(async {
        let server = Server::with(trusted().env("TOOLGATE_EXTENSIONS_RUNTIME", &runtime("bun"))).await;
        let of =
            |text: &str| format!("export default {{ description: \"d\", args: {{}}, execute: async () => {text} }}\n");
        let path = server.work().join(".opencode/tool/late.js");
        write(&path, &of("\"one\""));
        eventually("the tool is there", async || names(&server).await == ["late"]).await;
        assert_eq!(output(&server.run("late", json!({})).await), "one");
        write(&path, &of("\"two\""));
        eventually("the new one runs", async || {
            output(&server.run("late", json!({})).await) == "two"
        })
        .await;
        write(&path, "export default {");
        eventually("it is broken", async || {
            sources(&server)
                .await
                .iter()
                .any(|source| source.state() == ToolSourceState::Failed)
        })
        .await;
        fs::remove_file(&path).unwrap();
        eventually("it is gone", async || sources(&server).await.is_empty()).await;
    });
}

#[test]
fn a_project_that_is_not_trusted_runs_nothing() {
    test(async {
        let mut server = Server::start().await;
        let touch = "import fs from \"node:fs\"\nfs.writeFileSync(\"ran\", \"\")\nexport default async () => ({})\n";
        project(
            &server,
            &[
                (".opencode/tool/t.js", touch),
                (".opencode/plugin/p.js", touch),
                (".opencode/tool/s.json", r#"{"description": "s"}"#),
                (".opencode/tool/s.sh", "#!/bin/sh\ntouch ran\n"),
                ("plugin.js", touch),
                ("opencode.json", r#"{"plugin": ["./plugin.js"]}"#),
            ],
        );
        server.kill9().await;
        server.restart().await;
        assert!(names(&server).await.is_empty());
        let sources = sources(&server).await;
        assert_eq!(sources.len(), 4, "{sources:?}");
        for source in sources {
            assert_eq!(source.state(), ToolSourceState::Untrusted);
            assert!(source.problem.contains("TOOLGATE_TRUST=1"), "{}", source.problem);
        }
        assert!(!server.work().join("ran").exists());
    });
}

#[test]
fn executables_are_tools() {
    test(async {
        let schema = r#""parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;
        let greet = format!(r#"{{"description": "Greets", {schema}}}"#);
        let python = "import json, sys\nn = json.load(sys.stdin)['n']\nif n < 0: sys.exit('n is negative')\n\
                      print(json.dumps({'title': 'doubled', 'output': str(2 * n), 'metadata': {'n': n}}))\n";
        let double = "name = \"double_it\"\ndescription = \"Doubles\"\ncommand = [\"python3\", \"-c\", \"\"\"\n"
            .to_owned()
            + python
            + "\"\"\"]\nresult = \"json\"\n[parameters]\ntype = \"object\"\n[parameters.properties.n]\ntype = \"integer\"\n";
        let server = Server::with(trusted()).await;
        project(
            &server,
            &[
                (
                    ".opencode/tool/greet.sh",
                    "#!/bin/bash\necho \"$(cat) as $TOOL_AGENT in $PWD\"\n",
                ),
                (".opencode/tool/greet.json", &greet),
                (".opencode/tool/double.toml", &double),
                (".opencode/tool/hang.sh", "#!/bin/bash\nsleep 1000 & sleep 1000\n"),
                (
                    ".opencode/tool/hang.json",
                    r#"{"description": "Hangs", "timeout": 0.3}"#,
                ),
                (".opencode/tool/data.json", r#"{"some": "data"}"#),
                (".opencode/tool/wrong.sh", "#!/bin/bash\n"),
                (".opencode/tool/wrong.json", r#"{"description": "x", "unknown": 1}"#),
            ],
        );
        eventually("the tools are there", async || {
            names(&server).await == ["double_it", "greet", "hang"]
        })
        .await;
        let greeting = output(&server.run("greet", json!({"n": 1})).await);
        assert!(greeting.starts_with("{\"n\":1} as build in /"), "{greeting}");
        assert!(error(&server.run("greet", json!({})).await).contains("n: this argument is required"));
        let doubled = server.run("double_it", json!({"n": 21})).await;
        assert_eq!((output(&doubled).as_str(), doubled.title.as_str()), ("42", "doubled"));
        let failed = error(&server.run("double_it", json!({"n": -1})).await);
        assert_eq!(failed, "The tool double_it ended with exit code 1.\nn is negative");
        assert!(error(&server.run("hang", json!({})).await).contains("longer than 0.3 s"));
        let sources = sources(&server).await;
        let wrong = sources
            .iter()
            .find(|source| source.name == ".opencode/tool/wrong.json")
            .unwrap();
        assert!(wrong.problem.contains("unknown"), "{}", wrong.problem);
        assert!(!sources.iter().any(|source| source.name.ends_with("data.json")));
    });
}
