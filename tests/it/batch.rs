//! Several calls in one: each is a call of its own, beside the others, and all end with the one that holds them.

use serde_json::{Value, json};
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

fn setup(permission: Value) -> Setup {
    Setup {
        config: Some(json!({"permission": permission, "experimental": {"batch_tool": true}})),
        ..Setup::default()
    }
}

async fn server() -> Server {
    Server::with(setup(json!({}))).await
}

fn command(command: &str) -> Value {
    json!({"tool": "bash", "parameters": {"command": command, "description": "a test"}})
}

fn batch(calls: impl IntoIterator<Item = Value>) -> ExecuteToolRequest {
    request("batch", json!({"tool_calls": calls.into_iter().collect::<Vec<_>>()}))
}

async fn in_batch(server: &Server, calls: impl IntoIterator<Item = Value>) -> Call {
    run(&mut server.tools(), run_request(batch(calls))).await.unwrap()
}

fn metadata(call: &Call) -> Value {
    json_of(completed(call).metadata.as_ref().unwrap())
}

/// The calls that a call made, in the order of its log.
async fn children(server: &Server, call: &str) -> Vec<Call> {
    let mut children = Vec::new();
    for event in server.watch(call, 0).await.unwrap() {
        if let Some(Event::Child(child)) = event.event {
            children.push(server.get(&child.call_id).await);
        }
    }
    children
}

fn reason(call: &Call) -> FailureReason {
    match &call.ending {
        Some(call::Ending::Failed(failed)) => failed.reason(),
        Some(call::Ending::Completed(_)) | None => FailureReason::Unspecified,
    }
}

async fn answer(server: &Server, prompt: &Prompt, decision: PromptDecision) {
    let request = ReplyPromptRequest {
        reply: Some(reply(prompt, decision)),
        name: String::new(),
    };
    server.permissions().reply_prompt(request).await.unwrap();
}

#[test]
fn runs_side_by_side_in_order() {
    test(async {
        let server = server().await;
        // Each waits for all others.
        let meets = |n: usize| {
            let all = "until [ $(ls m | wc -l) = 25 ]; do sleep 0.02; done";
            command(&format!("mkdir -p m; touch m/{n}; {all}; echo {n}"))
        };
        let call = in_batch(&server, (0..25).map(meets)).await;
        let result = completed(&call);
        assert_eq!(result.title, "Batch execution (25/25 successful)");
        assert!(result.output.starts_with("All 25 tools executed successfully.\n\n"));
        let children = children(&server, &call.call_id).await;
        let named = metadata(&call)["calls"].as_array().unwrap().clone();
        assert_eq!(children.len(), 25);
        for (n, (child, named)) in children.iter().zip(named).enumerate() {
            assert_eq!(completed(child).output.trim(), n.to_string());
            let context = child.context.as_ref().unwrap();
            assert_eq!(context.parent_call_id, call.call_id);
            assert_eq!(context.session_id, call.context.as_ref().unwrap().session_id);
            assert_eq!(named["call"], child.call_id.as_str());
        }
    });
}

#[test]
fn one_that_fails_stops_no_other() {
    test(async {
        let server = Server::with(setup(json!({"edit": "deny"}))).await;
        let mut calls = vec![
            json!({"tool": "read", "parameters": {"filePath": "nowhere"}}),
            json!({"tool": "bash", "parameters": {}}),
            json!({"tool": "Bash", "parameters": {"command": "true", "description": "x"}}),
            json!({"tool": "write", "parameters": {"filePath": "x", "content": "x"}}),
            json!({"tool": "batch", "parameters": {"tool_calls": [command("touch deep")]}}),
        ];
        calls.extend((0..22).map(|n| command(&format!("touch made-{n}"))));
        let call = in_batch(&server, calls).await;
        assert_eq!(completed(&call).output, "Executed 20/27 tools successfully. 7 failed.");
        let metadata = metadata(&call);
        assert_eq!(
            (&metadata["totalCalls"], &metadata["failed"]),
            (&json!(27.0), &json!(7.0))
        );
        let error = |index: usize| metadata["calls"][index]["error"].as_str().unwrap_or_default();
        let missing = |name: &str| {
            format!(
                "Tool '{name}' not in registry. External tools (MCP, environment) cannot be batched - call them \
                 directly. Available tools: "
            )
        };
        assert_eq!((error(0), error(1)), ("", ""), "these are calls that failed");
        for (index, name) in [(2, "Bash"), (3, "write")] {
            let names = error(index).strip_prefix(&missing(name)).unwrap();
            let names: Vec<&str> = names.split(", ").collect();
            assert!(names.contains(&"bash") && names.contains(&"skill"), "{names:?}");
            assert!(
                !["batch", "invalid", "write"].iter().any(|name| names.contains(name)),
                "{names:?}"
            );
        }
        assert_eq!(
            error(4),
            "Tool 'batch' is not allowed in batch. Disallowed tools: batch"
        );
        assert_eq!(error(25), "Maximum of 25 tools allowed in batch");
        for (file, is_there) in [("made-19", true), ("made-20", false), ("x", false), ("deep", false)] {
            assert_eq!(server.work().join(file).exists(), is_there, "{file}");
        }
        let children = children(&server, &call.call_id).await;
        assert_eq!(children.len(), 22);
        assert_eq!(reason(&children[0]), FailureReason::ToolError);
        assert_eq!(reason(&children[1]), FailureReason::InvalidArguments);
    });
}

#[test]
fn its_arguments_have_words_of_their_own() {
    test(async {
        let server = server().await;
        let check = async |input: Value, lines: &[&str]| {
            let call = server.run("batch", input).await;
            let failed = failed(&call);
            assert_eq!(failed.reason(), FailureReason::InvalidArguments);
            let text = &failed.error;
            assert!(text.starts_with("Invalid parameters for tool 'batch':\n  - "), "{text}");
            assert!(text.ends_with(
                "\n\nExpected payload format:\n  [{\"tool\": \"tool_name\", \"parameters\": {...}}, {...}]"
            ));
            for line in lines {
                assert!(text.contains(&format!("\n  - {line}")), "{text}");
            }
        };
        check(
            json!({"tool_calls": []}),
            &["tool_calls: Provide at least one tool call\n"],
        )
        .await;
        check(json!({}), &["tool_calls: "]).await;
        check(
            json!({"tool_calls": [{"tool": 5, "parameters": {}}, {"tool": "read"}]}),
            &["tool_calls.0.tool: ", "tool_calls.1.parameters: "],
        )
        .await;
        check(json!([1]), &["root: "]).await;

        let without = Server::start().await;
        let call = without.run("batch", json!({"tool_calls": [command("true")]})).await;
        assert_eq!((call.tool.as_str(), call.requested_tool.as_str()), ("invalid", "batch"));
    });
}

#[test]
fn ends_with_all_that_it_started() {
    test(async {
        let server = server().await;
        let calls = [
            command("exec sleep 86421"),
            command("exec sleep 86421"),
            command("true"),
        ];
        let mut stream = server
            .tools()
            .execute_tool(kept("stop-me", batch(calls)))
            .await
            .unwrap()
            .into_inner();
        eventually("both run", async || processes("86421").len() == 2).await;
        let has_ended = async || {
            let listed = server.tools().list_calls(ListCallsRequest::default()).await.unwrap();
            listed.into_inner().calls.iter().any(|call| call.end_time.is_some())
        };
        eventually("the third one ends", has_ended).await;
        let cancel = CancelCallRequest {
            call_id: "stop-me".to_owned(),
        };
        server.tools().cancel_call(cancel).await.unwrap();
        while stream.message().await.unwrap().is_some() {}
        let call = server.get("stop-me").await;
        assert_eq!(reason(&call), FailureReason::Cancelled);
        let reached = json_of(failed(&call).metadata.as_ref().unwrap());
        assert_eq!(
            reached["calls"].as_array().unwrap().len(),
            3,
            "what it started is known"
        );
        let children = children(&server, "stop-me").await;
        let reasons: Vec<FailureReason> = children.iter().map(reason).collect();
        let stopped = FailureReason::Cancelled;
        assert_eq!(reasons, [stopped, stopped, FailureReason::Unspecified]);
        gone("86421").await;
    });
}

#[test]
fn each_asks_for_itself_and_the_clock_stands_still() {
    test(async {
        let server = Server::with(setup(json!({"bash": "ask"}))).await;
        let mut approver = Approver::open(server.channel(), "approver").await.unwrap();
        let limited = ExecuteToolRequest {
            timeout: Some(prost_types::Duration { seconds: 20, nanos: 0 }),
            ..kept("asks", batch([command("touch yes"), command("touch no")]))
        };
        let stream = server.tools().execute_tool(limited).await.unwrap().into_inner();
        // Which of them asks first is not said, and a rejection rejects what else its session
        // asks: the wanted one is answered first.
        let mut prompts = Vec::new();
        for _ in 0..2 {
            let prompt = approver.added().await;
            let child = server.get(&prompt.call_id).await;
            assert_eq!(child.context.as_ref().unwrap().parent_call_id, "asks");
            prompts.push((child.input_json.contains("touch no"), prompt));
        }
        prompts.sort_by_key(|(is_unwanted, _)| *is_unwanted);
        let [(false, wanted), (true, unwanted)] = &prompts[..] else {
            panic!("one prompt for each command: {prompts:?}");
        };
        answer(&server, wanted, PromptDecision::Once).await;
        answer(&server, unwanted, PromptDecision::Reject).await;
        collect(stream).await.unwrap();
        let call = server.get("asks").await;
        assert_eq!(completed(&call).output, "Executed 1/2 tools successfully. 1 failed.");
        assert!(server.work().join("yes").exists() && !server.work().join("no").exists());
        let timing = completed(&call).timing.unwrap();
        assert!(
            timing
                .waited
                .is_some_and(|waited| waited.seconds > 0 || waited.nanos > 0),
            "{timing:?}"
        );
        let rejected = children(&server, "asks")
            .await
            .iter()
            .map(reason)
            .filter(|it| *it == FailureReason::Rejected)
            .count();
        assert_eq!(rejected, 1);
    });
}

#[test]
fn its_calls_count_in_the_row() {
    test(async {
        let mut server = Server::with(setup(json!({"doom_loop": "deny"}))).await;
        let same = || command("echo same");
        let of_session = async |server: &Server, session: &str, request: ExecuteToolRequest| {
            run(&mut server.tools(), run_request(in_session(session, request)))
                .await
                .unwrap()
        };
        // Three in one batch count once; what comes after them counts on.
        let call = of_session(&server, "one", batch([same(), same(), same()])).await;
        assert!(completed(&call).output.starts_with("All 3 tools"), "{call:?}");
        of_session(&server, "one", batch([same()])).await;
        let call = of_session(&server, "one", batch([same(), command("true")])).await;
        assert_eq!(completed(&call).output, "Executed 1/2 tools successfully. 1 failed.");
        let children = children(&server, &call.call_id).await;
        assert_eq!(reason(&children[0]), FailureReason::DoomLoop);
        // Two in batches and one by itself, also after a restart.
        for session in ["two", "three"] {
            of_session(&server, session, batch([command("true"), same()])).await;
            of_session(&server, session, batch([same()])).await;
        }
        let direct = || request("bash", same()["parameters"].clone());
        assert_eq!(
            reason(&of_session(&server, "two", direct()).await),
            FailureReason::DoomLoop
        );
        server.stop().await;
        server.restart().await;
        assert_eq!(
            reason(&of_session(&server, "three", direct()).await),
            FailureReason::DoomLoop
        );
        // The same batch again and again.
        let again = || batch([command("echo a"), command("echo b")]);
        let mut reasons = Vec::new();
        for _ in 0..3 {
            reasons.push(reason(&of_session(&server, "four", again()).await));
        }
        let fine = FailureReason::Unspecified;
        assert_eq!(reasons, [fine, fine, FailureReason::DoomLoop]);
    });
}

#[test]
fn what_waits_in_a_lost_batch_is_lost() {
    test(async {
        let mut server = Server::with(setup(json!({"bash": "ask"}))).await;
        let request = kept("lost", batch([command("touch never")]));
        let stream = server.tools().execute_tool(request).await.unwrap();
        let mut child = String::new();
        eventually("it waits", async || {
            let prompts = server.permissions().list_prompts(list_all()).await;
            let prompts = prompts.unwrap().into_inner().prompts;
            child = prompts.first().map(|prompt| prompt.call_id.clone()).unwrap_or_default();
            !child.is_empty()
        })
        .await;
        server.kill9().await;
        drop(stream);
        server.restart().await;
        for id in ["lost", child.as_str()] {
            assert_eq!(reason(&server.get(id).await), FailureReason::Lost, "{id}");
        }
        let open = list_all();
        let open = server.permissions().list_prompts(open).await.unwrap().into_inner();
        assert!(open.prompts.is_empty(), "{open:?}");
    });
}

#[test]
fn a_full_service_runs_the_parts_in_turn() {
    test(async {
        // Two parts at a time, as many as calls may run at all.
        let setup = setup(json!({})).env("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", "2");
        let server = Server::with(setup.env("TOOLGATE_LIMITS_MAX_QUEUED_CALLS", "0")).await;
        let meets = |n: usize| {
            let pair = "until [ $(ls m | wc -l) -ge 2 ]; do sleep 0.02; done";
            command(&format!("mkdir -p m; touch m/{n}; {pair}"))
        };
        let call = in_batch(&server, (0..5).map(meets)).await;
        assert!(
            completed(&call).output.contains("All 5 tools executed successfully"),
            "{call:?}"
        );
    });
}
