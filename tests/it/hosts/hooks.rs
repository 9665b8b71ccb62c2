//! Hooks of hosts: what they see, what they change, and what becomes of calls when they refuse or are silent.

use super::*;

fn with_hooks(names: &[&str]) -> HostHello {
    HostHello {
        hooks: names.iter().map(|&name| name.to_owned()).collect(),
        ..hello("guard", &[])
    }
}

#[test]
fn a_hook_rewrites_a_command_before_anybody_is_asked() {
    test(async {
        let mut server = Server::with(Setup::permission(json!({ "bash": "ask" }))).await;
        let mut host = LendingHost::open(server.channel(), with_hooks(&["tool.execute.before", "shell.env"]))
            .await
            .unwrap();
        let starting = tokio::spawn({
            let mut tools = server.tools();
            async move {
                tools
                    .execute_tool(kept("c", bash("rm -rf /")))
                    .await
                    .unwrap()
                    .into_inner()
            }
        });
        let (id, input, mut output) = host.hook("tool.execute.before").await;
        assert_eq!(
            (input["tool"].as_str(), input["callID"].as_str()),
            (Some("bash"), Some("c"))
        );
        assert_eq!(output["args"]["command"], "rm -rf /");
        output["args"]["command"] = json!("echo $GUARDED");
        host.leaves(&id, output).await;
        let mut stream = starting.await.unwrap();
        let prompt = waiting(&mut stream).await;
        assert_eq!(permission(&prompt).patterns, ["echo $GUARDED"]);
        decide(&server, &prompt, PromptDecision::Once).await;
        let (id, _, mut output) = host.hook("shell.env").await;
        output["env"]["GUARDED"] = json!("by a hook");
        host.leaves(&id, output).await;
        assert_eq!(super::output(end(&server, "c").await), "by a hook\n");

        // A refusal ends the call with the hook's own text, and the tool does not run.
        let running = tokio::spawn({
            let mut tools = server.tools();
            async move { run(&mut tools, run_request(bash("touch x"))).await.unwrap() }
        });
        let (id, ..) = host.hook("tool.execute.before").await;
        let error = HostFailed {
            error: "not on a Sunday".to_owned(),
        };
        host.report(&id, Report::Failed(error)).await;
        assert_eq!(failed(&running.await.unwrap()).error, "not on a Sunday");
        assert!(!server.work().join("x").exists());
        server.stop().await;
    });
}

#[test]
fn a_variable_of_a_hook_that_decides_what_runs_is_asked_for() {
    test(async {
        let rules = json!({ "bash": { "*": "ask", "true": "allow" } });
        let mut server = Server::with(Setup::permission(rules)).await;
        let script = server.work().join("planted");
        std::fs::write(&script, "touch pwned").unwrap();
        let mut host = LendingHost::open(server.channel(), with_hooks(&["shell.env"]))
            .await
            .unwrap();
        let starting = tokio::spawn({
            let mut tools = server.tools();
            async move { tools.execute_tool(kept("c", bash("true"))).await.unwrap().into_inner() }
        });
        let mut stream = starting.await.unwrap();
        let (id, _, mut output) = host.hook("shell.env").await;
        output["env"]["BASH_ENV"] = json!(script);
        output["env"]["HARMLESS"] = json!("x");
        host.leaves(&id, output).await;
        let prompt = waiting(&mut stream).await;
        assert_eq!(
            permission(&prompt).patterns,
            [format!("BASH_ENV='{}'", script.display())]
        );
        decide(&server, &prompt, PromptDecision::Reject).await;
        let call::Ending::Failed(failed) = end(&server, "c").await else {
            panic!("it has run")
        };
        assert_eq!(failed.reason(), FailureReason::Rejected);
        assert!(!server.work().join("pwned").exists());
        server.stop().await;
    });
}

#[test]
fn hooks_change_results_definitions_and_answers() {
    test(async {
        let mut server = Server::with(Setup::permission(json!({ "bash": "ask" }))).await;
        let names = ["tool.execute.after", "permission.ask"];
        let mut host = LendingHost::open(server.channel(), with_hooks(&names)).await.unwrap();
        let start = |id: &'static str| {
            let mut tools = server.tools();
            tokio::spawn(async move { run(&mut tools, run_request(kept(id, bash("echo one")))).await.unwrap() })
        };
        let running = start("allowed");
        let (id, input, _) = host.hook("permission.ask").await;
        assert_eq!(
            (input["permission"].as_str(), input["tool"]["name"].as_str()),
            (Some("bash"), Some("bash"))
        );
        host.leaves(&id, json!({ "status": "allow" })).await;
        let (id, _, mut result) = host.hook("tool.execute.after").await;
        result["output"] = json!("two");
        result["title"] = json!("Changed");
        host.leaves(&id, result).await;
        let call = running.await.unwrap();
        assert_eq!(
            (completed(&call).output.as_str(), call.title.as_str()),
            ("two", "Changed")
        );

        let running = start("denied");
        let (id, ..) = host.hook("permission.ask").await;
        host.leaves(&id, json!({ "status": "deny" })).await;
        assert_eq!(failed(&running.await.unwrap()).reason(), FailureReason::Rejected);

        // A host that goes away takes its hooks with it.
        host.say(Message::Report(HostReport {
            invocation_id: String::new(),
            report: Some(Report::Leave(HostLeave {})),
        }))
        .await;
        assert!(host.next().await.is_err());
        let mut stream = server
            .tools()
            .execute_tool(kept("asks", bash("echo one")))
            .await
            .unwrap()
            .into_inner();
        waiting(&mut stream).await;

        let mut host = LendingHost::open(server.channel(), with_hooks(&["tool.definition"]))
            .await
            .unwrap();
        let listing = tokio::spawn({
            let mut tools = server.tools();
            async move {
                tools
                    .list_tools(ListToolsRequest::default())
                    .await
                    .unwrap()
                    .into_inner()
                    .tools
            }
        });
        // Once for each tool that is listed, however many there are.
        while !listing.is_finished() {
            let asked = tokio::time::timeout(Duration::from_millis(200), host.hook("tool.definition")).await;
            let Ok((id, input, mut output)) = asked else { continue };
            if input["toolID"] == "bash" {
                output["description"] = json!("mine");
            }
            host.leaves(&id, output).await;
        }
        let tools = listing.await.unwrap();
        assert_eq!(
            tools.iter().find(|tool| tool.name == "bash").unwrap().description,
            "mine"
        );
        server.stop().await;
    });
}

#[test]
fn a_silent_hook_is_waited_for_once() {
    test(async {
        let mut server = Server::start().await;
        let host = LendingHost::open(server.channel(), with_hooks(&["tool.definition"]))
            .await
            .unwrap();
        // Not once for each of the tools.
        let (tools, _) = tokio::time::timeout(2 * SOON, listed(&server))
            .await
            .expect("the limit of one answer");
        assert!(tools.len() > 3);
        tokio::time::timeout(SOON, listed(&server))
            .await
            .expect("it is not asked again");
        drop(host);
        server.stop().await;
    });
}

/// Starts a call in the background.
fn starting(server: &Server, request: ExecuteToolRequest) -> tokio::task::JoinHandle<Result<Call, tonic::Status>> {
    let mut tools = server.tools();
    tokio::spawn(async move { run(&mut tools, run_request(request)).await })
}

#[test]
fn a_call_that_waits_for_a_hook_counts_and_can_be_cancelled() {
    test(async {
        let setup = Setup::default().env("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", "1");
        let mut server = Server::with(setup.env("TOOLGATE_LIMITS_MAX_QUEUED_CALLS", "0")).await;
        let mut host = LendingHost::open(server.channel(), with_hooks(&["tool.execute.before"]))
            .await
            .unwrap();
        let first = starting(&server, kept("c", bash("touch ran")));
        let (hook, ..) = host.hook("tool.execute.before").await;
        // It is no record yet, but it is there: the same start attaches to it, another one finds the service full.
        let again = starting(&server, kept("c", bash("touch ran")));
        let other = starting(&server, kept("d", bash("touch other")));
        let full = other.await.unwrap();
        refused(full, Code::ResourceExhausted, "TOO_MANY_CALLS");
        let request = CancelCallRequest {
            call_id: "c".to_owned(),
        };
        let cancelling = server.tools();
        let cancelled = tokio::time::timeout(SOON, async move { cancelling.clone().cancel_call(request).await });
        let ended = cancelled.await.expect("at once").unwrap().into_inner().call.unwrap();
        assert_eq!(failed(&ended).reason(), FailureReason::Cancelled);
        assert_eq!(host.cancelled().await, hook);
        for call in [first, again] {
            let call = call.await.unwrap().unwrap();
            assert_eq!(failed(&call).reason(), FailureReason::Cancelled);
            assert_eq!(json_of(failed(&call).metadata.as_ref().unwrap())["interrupted"], true);
        }
        assert!(!server.work().join("ran").exists());
        // The hook is not asked about a call that was made.
        let stored = starting(&server, kept("c", bash("touch ran"))).await.unwrap().unwrap();
        assert_eq!(failed(&stored).reason(), FailureReason::Cancelled);
        let next = starting(&server, kept("e", bash("true")));
        let (id, input, output) = host.hook("tool.execute.before").await;
        assert_eq!(input["callID"], "e");
        host.leaves(&id, output).await;
        completed(&next.await.unwrap().unwrap());
        server.stop().await;
    });
}

#[test]
fn a_call_that_waits_for_the_last_hook_can_be_cancelled() {
    test(async {
        let mut server = Server::start().await;
        let mut host = LendingHost::open(server.channel(), with_hooks(&["tool.execute.after"]))
            .await
            .unwrap();
        let running = starting(&server, kept("c", bash("echo secret")));
        let (hook, ..) = host.hook("tool.execute.after").await;
        let request = CancelCallRequest {
            call_id: "c".to_owned(),
        };
        let cancelling = server.tools();
        let cancelled = tokio::time::timeout(SOON, async move { cancelling.clone().cancel_call(request).await });
        cancelled.await.expect("soon").unwrap();
        assert_eq!(host.cancelled().await, hook);
        let call = running.await.unwrap().unwrap();
        assert_eq!(failed(&call).reason(), FailureReason::Cancelled);
        server.stop().await;
    });
}

#[test]
fn what_a_hook_writes_is_in_the_dialect_of_the_model() {
    test(async {
        let mut server = Server::start().await;
        let mut host = LendingHost::open(server.channel(), with_hooks(&["tool.definition"]))
            .await
            .unwrap();
        let model = ModelRef {
            provider_id: "google".to_owned(),
            model_id: "gemini-3-pro".to_owned(),
            ..ModelRef::default()
        };
        let request = ListToolsRequest {
            model: Some(model),
            ..ListToolsRequest::default()
        };
        let mut tools = server.tools();
        let listing = tokio::spawn(async move { tools.list_tools(request).await.unwrap().into_inner().tools });
        while !listing.is_finished() {
            let asked = tokio::time::timeout(Duration::from_millis(200), host.hook("tool.definition")).await;
            let Ok((id, _, mut output)) = asked else { continue };
            output["jsonSchema"] = json!({"type": "object", "properties": {"n": {"type": "integer", "enum": [1]}}});
            host.leaves(&id, output).await;
        }
        let tools = listing.await.unwrap();
        let schema: serde_json::Value = serde_json::from_str(&tools[0].input_schema_json).unwrap();
        assert_eq!(schema["properties"]["n"], json!({"type": "string", "enum": ["1"]}));
        server.stop().await;
    });
}

#[test]
fn hooks_that_change_definitions_are_announced() {
    test(async {
        let mut server = Server::start().await;
        let watching = server.sessions().watch_events(WatchEventsRequest::default()).await;
        let mut events = watching.unwrap().into_inner();
        let mut changed = async || loop {
            let event = events.message().await.unwrap().unwrap().event.unwrap();
            if let Some(event::Event::ToolsChanged(changes)) = event.event {
                assert!(changes.added.is_empty() && changes.removed.is_empty(), "{changes:?}");
                return changes.changed;
            }
        };
        let host = LendingHost::open(server.channel(), with_hooks(&["tool.definition"])).await;
        let host = host.unwrap();
        assert!(changed().await.contains(&"bash".to_owned()));
        host.report("", Report::Leave(HostLeave {})).await;
        assert!(changed().await.contains(&"bash".to_owned()));
        server.stop().await;
    });
}
