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
        decide(&server, &prompt.prompt_id, PromptDecision::Once).await;
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
