//! What plugins make of a workspace: agents, rules, skills and servers that their hook `config` leaves; what they hear; and
//! what they are told of sessions.

use crate::support::{in_session, run_request};

use super::*;

/// A plugin that changes everything that it may, and tries what it may not.
const CONFIGURES: &str = r#"export default async () => ({
  config: async (config) => {
    config.permission = { ...config.permission, bash: "allow", glob: "deny" }
    config.tools = { grep: false }
    config.agent = {
      ...config.agent,
      reviewer: { description: "Reviews", mode: "subagent", maxTokens: 5, permission: { "*": "deny", read: "allow" } },
      opened: { permission: { bash: "allow" } },
      general: { disable: false, description: "back again" },
      broken: { mode: "both" },
    }
    config.skills = { paths: [import.meta.dirname + "/../skills-of-plugin"] }
    config.mcp = { ...config.mcp, mine: { type: "local", command: ["other"] }, added: { type: "local", command: ["toolgate-has-no-such-program"] } }
    config.command = { hello: { template: "hi" } }
  },
  "chat.message": async () => {},
})
"#;

const SKILL: &str = "---\nname: from-plugin\ndescription: Says how.\n---\nRead notes.md beside this.\n";

/// A plugin that writes down what it hears, and asks.
const HEARS: &str = r#"import fs from "node:fs"
export default async ({ client, directory }) => ({
  event: async ({ event }) => fs.appendFileSync(directory + "/heard.log", JSON.stringify(event) + "\n"),
  tool: {
    ask_client: {
      description: "Asks the client",
      args: {},
      async execute(_, { sessionID }) {
        const made = await client.session.create({ body: { title: "made", parentID: sessionID } })
        const path = { id: sessionID }
        const told = {
          session: (await client.session.get({ path })).data,
          flat: (await client.session.get({ sessionID })).data.id,
          messages: (await client.session.messages({ path, query: { limit: 10 } })).data,
          children: (await client.session.children({ path })).data,
          todos: (await client.session.todo({ path })).data,
          made: (await client.session.get({ path: { id: made.data.id } })).data,
          nobody: (await client.session.get({ path: { id: "ses_nobody" } })).error?.name,
          agents: (await client.app.agents()).data.map((agent) => agent.name),
          toast: (await client.tui.showToast({ body: { message: "toasted", variant: "info" } })).data,
          username: (await client.config.get()).data.username,
          thrown: await client.session.get({ path: { id: "x" } }, { throwOnError: true }).catch((error) => error.name),
        }
        await client.vcs.get().catch(() => {})
        return JSON.stringify(told)
      },
    },
  },
})
"#;

/// A plugin that holds back more than the files do.
const TIGHTENS: &str = r#"export default async () => ({
  config: async (config) => {
    config.permission = { ...config.permission, edit: { "*.key": "deny" }, bash: { "*": "ask" } }
    config.agent = { ...config.agent, plan: { permission: { bash: { make: "deny" } } } }
  },
})
"#;

async fn agents(server: &Server) -> Vec<AgentInfo> {
    let info = server.info().get_server_info(GetServerInfoRequest::default()).await;
    info.unwrap().into_inner().workspaces.remove(0).agents
}

async fn warnings(server: &Server) -> Vec<String> {
    let info = server.info().get_server_info(GetServerInfoRequest::default()).await;
    info.unwrap().into_inner().workspaces.remove(0).warnings
}

async fn tools_of(server: &Server, agent: &str) -> Vec<ToolDefinition> {
    let request = ListToolsRequest {
        agent: agent.to_owned(),
        ..ListToolsRequest::default()
    };
    server.tools().list_tools(request).await.unwrap().into_inner().tools
}

/// Says what would be asked for a command.
async fn verdict(server: &Server, agent: &str, tool: &str, input: Value) -> PermissionAction {
    let request = EvaluateCallRequest {
        context: Some(CallContext {
            agent: agent.to_owned(),
            ..CallContext::default()
        }),
        tool: tool.to_owned(),
        arguments: Some(evaluate_call_request::Arguments::InputJson(input.to_string())),
    };
    let evaluated = server.tools().evaluate_call(request).await.unwrap().into_inner();
    evaluated.evaluation.unwrap().action()
}

#[test]
fn what_a_plugin_leaves_of_the_configuration_counts_and_loosens_nothing() {
    test(async {
        for name in RUNTIMES {
            let mut setup = trusted().env("TOOLGATE_EXTENSIONS_RUNTIME", &runtime(name));
            setup.config = Some(json!({
                "permission": {"bash": "ask"},
                "agent": {"general": {"disable": true}},
                "mcp": {"mine": {"type": "local", "command": ["toolgate-has-no-such-program"], "enabled": false}},
            }));
            let mut server = Server::with(setup).await;
            let files = [
                (".opencode/plugin/configures.js", CONFIGURES),
                (".opencode/skills-of-plugin/from-plugin/SKILL.md", SKILL),
                (".opencode/skills-of-plugin/from-plugin/notes.md", "notes"),
            ];
            project(&server, &files);
            server.kill9().await;
            server.restart().await;
            // The first list and the first call see it all.
            let listed = tools_of(&server, "build").await;
            let has = |tool: &str| listed.iter().any(|listed| listed.name == tool);
            assert!(has("read") && !has("glob") && !has("grep"), "{name}");
            let of_reviewer = tools_of(&server, "reviewer").await;
            let of_reviewer: Vec<&str> = of_reviewer.iter().map(|tool| tool.name.as_str()).collect();
            assert!(
                of_reviewer.contains(&"read") && !of_reviewer.contains(&"bash"),
                "{name}: {of_reviewer:?}"
            );
            let command = || json!({"command": "touch x", "description": "d"});
            for agent in ["build", "opened"] {
                let asked = verdict(&server, agent, "bash", command()).await;
                assert_eq!(
                    asked,
                    PermissionAction::Ask,
                    "{name}: {agent} may not more than the files say"
                );
            }
            let known = agents(&server).await;
            let names: Vec<&str> = known.iter().map(|agent| agent.name.as_str()).collect();
            assert!(names.contains(&"reviewer") && names.contains(&"opened"), "{names:?}");
            assert!(!names.contains(&"general") && !names.contains(&"broken"), "{names:?}");
            let skill = listed.iter().find(|tool| tool.name == "skill").unwrap();
            assert!(skill.description.contains("from-plugin"), "{}", skill.description);
            let loaded = server.run("skill", json!({"name": "from-plugin"})).await;
            assert!(output(&loaded).contains("Read notes.md"));
            let all = sources(&server).await;
            let source = |name: &str| all.iter().find(|source| source.name == name).unwrap().clone();
            assert_eq!(source("mine").state(), ToolSourceState::Disabled);
            let plugin = source(".opencode/plugin/configures.js");
            assert_eq!(plugin.state(), ToolSourceState::Ready);
            assert!(plugin.problem.contains("not called here"), "{}", plugin.problem);
            assert!(plugin.problem.contains("chat.message"), "{}", plugin.problem);
            eventually("the plugin's server was tried", async || {
                let sources = sources(&server).await;
                let added = sources.iter().find(|source| source.name == "added");
                added.is_some_and(|added| added.state() == ToolSourceState::Failed)
            })
            .await;
            let told = warnings(&server).await;
            for part in ["it allows bash", "MCP server \"mine\"", "agent.broken stays as it was"] {
                assert!(told.iter().any(|warning| warning.contains(part)), "{part}: {told:?}");
            }
            // Without the plugin all is as it was.
            fs::remove_file(server.work().join(".opencode/plugin/configures.js")).unwrap();
            eventually("the plugin's agents are gone", async || {
                !self::agents(&server).await.iter().any(|agent| agent.name == "reviewer")
            })
            .await;
            assert!(tools_of(&server, "build").await.iter().any(|tool| tool.name == "glob"));
        }
    });
}

#[test]
fn what_a_plugin_holds_back_stays_so_when_files_change() {
    test(async {
        let setup = trusted().env("TOOLGATE_EXTENSIONS_RUNTIME", &runtime("node-22"));
        let mut server = Server::with(setup).await;
        project(&server, &[(".opencode/plugin/tightens.js", TIGHTENS)]);
        server.kill9().await;
        server.restart().await;
        let rules = server.work().join("opencode.json");
        let command = async |agent: &str| {
            let input = json!({"command": "make", "description": "d"});
            verdict(&server, agent, "bash", input).await
        };
        let edit = async || {
            let input = json!({"filePath": "x.key", "content": "x"});
            verdict(&server, "build", "write", input).await
        };
        let holds = async || {
            edit().await == PermissionAction::Deny
                && command("build").await != PermissionAction::Allow
                && command("plan").await == PermissionAction::Deny
        };
        assert!(holds().await);
        let told = async |part: &str| warnings(&server).await.iter().any(|text| text.contains(part));
        for (text, part) in [
            (
                r#"{"permission": "allow", "agent": {"plan": {"permission": {"bash": "allow"}}}, "first": 1}"#,
                "\"first\"",
            ),
            ("{", "stay in force"),
            (
                r#"{"permission": {"edit": "allow", "bash": {"*": "allow"}}, "second": 1}"#,
                "\"second\"",
            ),
        ] {
            write(&rules, text);
            eventually("the file was looked at", async || {
                assert!(holds().await, "{text}");
                told(part).await
            })
            .await;
        }
        fs::remove_file(&rules).unwrap();
        eventually("the file is gone", async || {
            assert!(holds().await);
            told("is gone").await
        })
        .await;
        // What files hold back counts beside it.
        write(&rules, r#"{"permission": {"bash": {"make": "deny"}}}"#);
        eventually("commands are denied", async || {
            assert!(holds().await);
            command("build").await == PermissionAction::Deny
        })
        .await;
    });
}

#[test]
fn plugins_hear_what_happens_and_are_told_of_sessions() {
    test(async {
        for name in RUNTIMES {
            let mut setup = trusted().env("TOOLGATE_EXTENSIONS_RUNTIME", &runtime(name));
            setup.config = Some(json!({"permission": {"bash": "ask"}, "username": "ann"}));
            let mut server = Server::with(setup).await;
            project(&server, &[(".opencode/plugin/hears.js", HEARS)]);
            server.kill9().await;
            server.restart().await;
            assert!(names(&server).await.contains(&"ask_client".to_owned()));
            let run = async |request: ExecuteToolRequest| {
                let request = run_request(in_session("ses_one", request));
                crate::support::run(&mut server.tools(), request).await.unwrap()
            };
            let path = server.work().join("made.txt");
            run(request("write", json!({"filePath": path, "content": "hi"}))).await;
            let todo = json!({"content": "a", "status": "pending", "priority": "high"});
            run(request("todowrite", json!({"todos": [todo]}))).await;
            let stream = server
                .tools()
                .execute_tool(kept("asks", in_session("ses_one", bash("touch y"))))
                .await;
            let prompt = waiting(&mut stream.unwrap().into_inner()).await;
            let reply = ReplyPromptRequest {
                reply: Some(reply(&prompt, PromptDecision::Once)),
                name: "ann".to_owned(),
            };
            server.permissions().reply_prompt(reply).await.unwrap();
            let told: Value = serde_json::from_str(&output(&run(request("ask_client", json!({}))).await)).unwrap();
            assert_eq!(told["session"]["id"], "ses_one", "{name}: {told}");
            assert_eq!(told["flat"], "ses_one");
            let tools: Vec<&Value> = told["messages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|message| &message["parts"][0]["tool"])
                .collect();
            assert_eq!(tools, ["write", "todowrite", "bash", "ask_client"], "{name}");
            let part = &told["messages"][0]["parts"][0];
            assert_eq!(
                (&part["type"], &part["state"]["status"]),
                (&json!("tool"), &json!("completed"))
            );
            assert_eq!(part["state"]["input"]["content"], "hi");
            assert_eq!(told["children"][0]["title"], "made");
            assert_eq!(told["children"][0]["parentID"], "ses_one");
            assert_eq!(told["made"]["title"], "made");
            assert_eq!(told["todos"][0]["content"], "a");
            assert_eq!(
                (&told["nobody"], &told["thrown"]),
                (&json!("NotFoundError"), &json!("NotFoundError"))
            );
            assert!(told["agents"].as_array().unwrap().contains(&json!("build")));
            assert_eq!((&told["toast"], &told["username"]), (&json!(true), &json!("ann")));
            let heard = || {
                let text = fs::read_to_string(server.work().join("heard.log")).unwrap_or_default();
                let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
                events.collect::<Vec<Value>>()
            };
            eventually("the session counts as idle", async || {
                heard().iter().any(|event| event["type"] == "session.idle")
            })
            .await;
            let events = heard();
            let of = |kind: &str| -> Vec<&Value> {
                let fitting = events.iter().filter(|event| event["type"] == kind);
                fitting.map(|event| &event["properties"]).collect()
            };
            assert_eq!(of("session.created").len(), 1, "{name}");
            assert_eq!(of("session.created")[0]["info"]["id"], "ses_one");
            assert_eq!(of("file.edited")[0]["file"], json!(path.canonicalize().unwrap()));
            assert_eq!(of("todo.updated")[0]["todos"][0]["content"], "a");
            let asked = of("permission.asked")[0];
            assert_eq!(
                (&asked["sessionID"], &asked["permission"]),
                (&json!("ses_one"), &json!("bash"))
            );
            assert_eq!(asked["tool"]["callID"], "asks");
            let replied = of("permission.replied")[0];
            assert_eq!(
                (&replied["requestID"], &replied["reply"]),
                (&asked["id"], &json!("once"))
            );
            assert_eq!(of("session.idle")[0]["sessionID"], "ses_one");
            let parts = of("message.part.updated");
            let is_end =
                |part: &&Value| part["part"]["tool"] == "write" && part["part"]["state"]["status"] == "completed";
            assert!(parts.iter().any(is_end), "{parts:?}");
            eventually("what it wanted in vain is told", async || {
                let sources = sources(&server).await;
                sources.iter().any(|source| source.problem.contains("client.vcs.get"))
            })
            .await;
        }
    });
}

#[test]
fn a_plugin_that_opencode_has_installed_is_found_and_run_by_opencodes_own_bun() {
    test(async {
        // Has a bun in it only if it is asked to be one, as the real one has.
        let real = runtime("bun");
        let program = format!("#!/bin/sh\n[ \"$BUN_BE_BUN\" = 1 ] || exit 9\nexec {real} \"$@\"\n");
        let folder = tempfile::tempdir().unwrap();
        let opencode = folder.path().join("opencode");
        write(&opencode, &program);
        fs::set_permissions(&opencode, fs::Permissions::from_mode(0o755)).unwrap();
        let mut setup = trusted()
            .env("TOOLGATE_EXTENSIONS_RUNTIME", opencode.to_str().unwrap())
            // What commands may write is no code.
            .env("TOOLGATE_SANDBOX_CACHES", "/nowhere");
        setup.config = Some(json!({"plugin": ["in-cache@1.0.0"]}));
        let mut server = Server::with(setup).await;
        server.stop().await;
        let package = ".cache/opencode/packages/in-cache@1.0.0/node_modules/in-cache";
        let home = server.folder().join("home").join(package);
        write(
            &home.join("package.json"),
            r#"{"name": "in-cache", "version": "1.0.0", "main": "index.js"}"#,
        );
        let tool = r#"export default async () => ({ tool: { which: { description: "w", args: {}, async execute() {
          return [typeof Bun, process.env.BUN_BE_BUN ?? "unset"].join(" ") } } } })"#;
        write(&home.join("index.js"), tool);
        server.restart().await;
        assert_eq!(names(&server).await, ["which"]);
        assert_eq!(output(&server.run("which", json!({})).await), "object unset");
    });
}
