//! Calls on behalf of others: whatever their own agent may do, they may no more than those above them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

fn setup() -> Setup {
    Setup {
        config: Some(json!({
            "permission": { "bash": "allow" },
            "agent": {
                "careful": { "mode": "all", "permission": { "bash": { "*": "ask", "rm *": "deny" } } },
                "reader": { "mode": "all", "permission": { "edit": "deny" } },
            },
        })),
        ..Setup::default()
    }
}

fn by(agent: &str, parent: &str, id: &str, request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            session_id: "s".to_owned(),
            agent: agent.to_owned(),
            parent_call_id: parent.to_owned(),
            ..CallContext::default()
        }),
        ..kept(id, request)
    }
}

async fn end(server: &Server, request: ExecuteToolRequest) -> call::Ending {
    end_of(&server.execute(request).await.unwrap())
}

async fn waits(server: &Server, request: ExecuteToolRequest) -> Prompt {
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    waiting(&mut stream).await
}

fn denied(ending: call::Ending) {
    match ending {
        call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Denied),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_child_has_its_parents_limits() {
    test(async {
        let mut server = Server::with(setup()).await;
        let glob = || request("glob", json!({ "pattern": "*" }));
        end(&server, by("careful", "", "careful", glob())).await;
        end(&server, by("reader", "", "reader", glob())).await;
        let free = end(&server, by("build", "", "free", bash("true"))).await;
        assert!(matches!(free, call::Ending::Completed(_)));

        denied(end(&server, by("build", "careful", "rm", bash("rm x"))).await);
        // One step further down nothing is forgotten, whoever stands between.
        end(&server, by("build", "careful", "middle", glob())).await;
        denied(end(&server, by("build", "middle", "rm2", bash("rm x"))).await);
        let asked = waits(&server, by("build", "middle", "asks", bash("echo x >> ran"))).await;

        server.kill9().await;
        server.restart().await;
        assert_eq!(server.get("asks").await.state(), CallState::Waiting);
        let answer = ReplyPromptRequest {
            reply: Some(reply(&asked, PromptDecision::Once)),
            name: String::new(),
        };
        server.permissions().reply_prompt(answer).await.unwrap();
        let log = server.watch("asks", 0).await.unwrap();
        assert!(matches!(end_of(&log), call::Ending::Completed(_)));
        // Below a dead run's calls, too.
        denied(end(&server, by("build", "asks", "rm3", bash("rm x"))).await);

        let write = || request("write", json!({ "filePath": "x", "content": "y" }));
        match end(&server, by("build", "reader", "hidden", write())).await {
            call::Ending::Completed(completed) => {
                assert!(completed.output.contains("unavailable tool"), "{}", completed.output);
            }
            other => panic!("{other:?}"),
        }
        assert!(!server.work().join("x").exists());
    });
}

/// What becomes of a request: it runs, it waits for a person, or it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Runs,
    Asks,
    Refused,
}

async fn outcome(server: &Server, request: ExecuteToolRequest) -> Outcome {
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    let ending = next_such(&mut stream, |event| {
        matches!(event, Event::Waiting(_) | Event::Completed(_) | Event::Failed(_))
    });
    match ending.await.event.unwrap() {
        Event::Waiting(_) => Outcome::Asks,
        Event::Failed(failed) if failed.reason() == FailureReason::Denied => Outcome::Refused,
        Event::Completed(completed) if completed.output.contains("unavailable tool") => Outcome::Refused,
        Event::Completed(_) => Outcome::Runs,
        other => panic!("{other:?}"),
    }
}

/// Rules for commands, in any order, and perhaps one for all of them.
fn any_rules(random: &mut Random) -> Value {
    let mut patterns = vec!["*", "echo *", "printf *", "true *", "echo a"];
    let mut rules = serde_json::Map::new();
    for _ in 0..1 + random.below(4) {
        let pattern = patterns.swap_remove(random.below(patterns.len() as u64) as usize);
        rules.insert(
            pattern.to_owned(),
            json!(random.pick(&["allow", "allow", "ask", "deny"])),
        );
    }
    Value::Object(rules)
}

#[test]
fn no_tree_of_calls_gives_a_child_more_than_its_parent() {
    const AGENTS: u64 = 6;
    const COMMANDS: [&str; 3] = ["echo a", "printf b", "true c"];
    test(async {
        let mut random = Random::new(23);
        let mut seen = BTreeSet::new();
        for _ in 0..3 {
            let agents: serde_json::Map<String, Value> = (0..AGENTS)
                .map(|agent| {
                    let rules = json!({ "bash": any_rules(&mut random), "glob": "allow" });
                    (format!("a{agent}"), json!({ "mode": "all", "permission": rules }))
                })
                .collect();
            let setup = Setup {
                config: Some(json!({ "permission": { "bash": any_rules(&mut random) }, "agent": agents })),
                ..Setup::default()
            };
            let server = Server::with(setup.env("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", "2000")).await;
            // Some commands are approved for good, by whichever agent is asked for them.
            for agent in 0..2 {
                let command = random.pick(&COMMANDS[..2]);
                let request = by(&format!("a{agent}"), "", &format!("grant{agent}"), bash(command));
                let request = in_session(&format!("grant{agent}"), request);
                let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
                let event = next_such(&mut stream, |event| {
                    !matches!(event, Event::Pending(_) | Event::Running(_))
                });
                if let Some(Event::Waiting(waiting)) = event.await.event {
                    let always = ReplyPromptRequest {
                        reply: Some(reply(&waiting.prompt.unwrap(), PromptDecision::Always)),
                        name: String::new(),
                    };
                    server.permissions().reply_prompt(always).await.unwrap();
                }
            }
            // Of each call in the tree, what it gets for each command; the first three have no parent.
            let mut tree: Vec<[Outcome; 3]> = Vec::new();
            for at in 0..30_usize {
                let parent = (at >= 3).then(|| random.below(at as u64) as usize);
                let parent_id = parent.map(|parent| format!("n{parent}")).unwrap_or_default();
                let agent = format!("a{}", random.below(AGENTS));
                let own = |id: String, request| in_session(&id, by(&agent, &parent_id, &id, request));
                end(
                    &server,
                    own(format!("n{at}"), request("glob", json!({ "pattern": "*" }))),
                )
                .await;
                let mut outcomes = [Outcome::Runs; 3];
                for (index, command) in COMMANDS.iter().enumerate() {
                    outcomes[index] = outcome(&server, own(format!("n{at}-{index}"), bash(command))).await;
                }
                if let Some(parent) = parent {
                    for (child, above) in outcomes.iter().zip(tree[parent]) {
                        assert!(
                            *child >= above,
                            "n{at} below n{parent}: {outcomes:?} {:?}",
                            tree[parent]
                        );
                        seen.insert((above, *child));
                    }
                }
                tree.push(outcomes);
            }
        }
        // Every way to keep or to lose a right was there.
        assert_eq!(seen.len(), 6, "{seen:?}");
    });
}

#[test]
fn the_list_is_the_agents_and_the_models() {
    test(async {
        let config = json!({
            "permission": { "list": "deny" },
            "agent": {
                "reader": { "mode": "all", "permission": { "edit": "deny", "bash": { "*": "ask", "rm *": "deny" } } },
                "hands": { "mode": "all", "tools": { "bash": false, "list": true }, "permission": { "list": "allow" } },
            },
        });
        let server = Server::with(Setup {
            config: Some(config),
            ..Setup::default()
        })
        .await;
        let names = async |agent: &str, model: &str| {
            let request = ListToolsRequest {
                agent: agent.to_owned(),
                model: Some(ModelRef {
                    provider_id: "p".to_owned(),
                    model_id: model.to_owned(),
                    ..Default::default()
                }),
                ..Default::default()
            };
            let tools = server.tools().list_tools(request).await.unwrap().into_inner().tools;
            tools.into_iter().map(|tool| tool.name).collect::<BTreeSet<String>>()
        };
        const EDITS: [&str; 3] = ["edit", "write", "apply_patch"];
        let check = async |agent: &str, model: &str, present: &[&str], absent: &[&str]| {
            let names = names(agent, model).await;
            assert!(
                present.iter().all(|name| names.contains(*name)),
                "{agent} {model}: {names:?}"
            );
            assert!(
                !absent.iter().any(|name| names.contains(*name)),
                "{agent} {model}: {names:?}"
            );
        };
        check(
            "build",
            "claude",
            &["edit", "write", "bash", "read"],
            &["apply_patch", "list", "invalid"],
        )
        .await;
        check(
            "build",
            "gpt-5",
            &["apply_patch", "bash", "read"],
            &["edit", "write", "list"],
        )
        .await;
        check("build", "gpt-4o", &["edit", "write"], &["apply_patch"]).await;
        for model in ["claude", "gpt-5"] {
            check("reader", model, &["bash", "read"], &EDITS).await;
            check("hands", model, &["read"], &["bash"]).await;
        }
        // What is not listed cannot be called, neither by its own name nor in another case.
        for name in ["bash", "BASH"] {
            let request = by(
                "hands",
                "",
                name,
                request(name, json!({ "command": "true", "description": "d" })),
            );
            assert_eq!(outcome(&server, request).await, Outcome::Refused);
        }
    });
}

#[test]
fn the_approver_of_a_client_is_shown_its_calls_and_those_on_their_behalf() {
    test(async {
        let server = Server::with(setup()).await;
        let of = |client: &str, mut request: ExecuteToolRequest| {
            let context = request.context.get_or_insert_default();
            context.client_ids = vec![client.to_owned()];
            context.session_id = client.to_owned();
            request
        };
        let filter = PromptFilter {
            client_ids: vec!["mine".to_owned()],
            ..PromptFilter::default()
        };
        let glob = request("glob", json!({ "pattern": "*" }));
        end(&server, of("mine", by("careful", "", "above", glob))).await;
        let others = waits(&server, of("theirs", by("careful", "", "other", bash("echo 1")))).await;
        // A subagent's client makes this one; its parent is a call of the client whose approver this is.
        let below = waits(&server, of("subagent", by("build", "above", "below", bash("echo 2")))).await;
        let mut approver = Approver::open_for(server.channel(), "own", filter).await.unwrap();
        let shown: Vec<&str> = approver
            .snapshot
            .iter()
            .map(|prompt| prompt.prompt_id.as_str())
            .collect();
        assert_eq!(shown, [below.prompt_id.as_str()], "not {}", others.prompt_id);
        let own = waits(&server, of("mine", by("careful", "", "own", bash("echo 3")))).await;
        assert_eq!(approver.added().await.prompt_id, own.prompt_id);

        // Another client that repeats a start is attached to the call, and changes nothing about it.
        let mut again = of("theirs", by("careful", "", "other", bash("echo 1")));
        again.context.get_or_insert_default().client_ids = vec!["mine".to_owned()];
        assert_eq!(waits(&server, again).await.prompt_id, others.prompt_id);
        let call = server.get("other").await;
        assert_eq!(call.context.unwrap().client_ids, ["theirs"]);

        let mut unnamed = by("build", "", "unnamed", bash("true"));
        unnamed.context.get_or_insert_default().client_ids = vec![String::new()];
        let refused = server.tools().execute_tool(unnamed).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    });
}
