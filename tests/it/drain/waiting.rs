//! Calls that wait for a person when the service stops: they go on waiting in its next run, if that can take them up.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;
use tonic::{Code, Streaming};
use toolgate_contract::host_event::Event as HostEvent;
use toolgate_contract::*;

use super::{reason, setup};
use crate::support::*;

/// A grace that no test waits for.
const NEVER: &str = "200s";

/// Much less than that, and enough for a stop.
const SOON: Duration = Duration::from_secs(20);

async fn asked(server: &Server, request: ExecuteToolRequest) -> (Streaming<ExecuteToolResponse>, Prompt) {
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    let prompt = waiting(&mut stream).await;
    (stream, prompt)
}

async fn answer(server: &Server, reply: PromptReply) -> ReplyResult {
    let request = ReplyPromptRequest {
        reply: Some(reply),
        name: String::new(),
    };
    let replied = server.permissions().reply_prompt(request).await.unwrap();
    replied.into_inner().result.unwrap().result()
}

async fn open_prompts(server: &Server) -> Vec<Prompt> {
    let list = list_all();
    let listed = server.permissions().list_prompts(list).await.unwrap();
    listed.into_inner().prompts
}

fn lines(server: &Server) -> Vec<String> {
    let text = fs::read_to_string(server.work().join("ran")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The same request, of a call that ends with its clients.
fn not_kept(request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        on_disconnect: OnDisconnect::Cancel.into(),
        ..request
    }
}

#[test]
fn they_go_on_waiting_and_hold_nothing_up() {
    test(async {
        let setup = Setup::permission(json!({
            "bash": { "*": "allow", ": ask*": "ask" }, "edit": "ask", "external_directory": "ask",
        }));
        let mut server = Server::with(setup.env("TOOLGATE_DRAIN_GRACE", NEVER)).await;
        let outside = server.folder().join("outside");
        fs::create_dir(&outside).unwrap();
        let question = json!({ "questions": [{
            "question": "Which?", "header": "h", "options": [{ "label": "this", "description": "d" }],
        }]});
        let write = json!({ "filePath": server.work().join("written"), "content": "written" });
        let command = format!("echo outside >> {}", server.work().join("ran").display());
        let elsewhere = json!({ "command": command, "description": "d", "workdir": outside });
        let requests = [
            kept("kept", bash(": ask; echo kept >> ran")),
            not_kept(kept("attached", bash(": ask; echo attached >> ran"))),
            kept("question", request("question", question)),
            kept("write", request("write", write)),
            kept("outside", request("bash", elsewhere)),
        ];
        let mut asking = Vec::new();
        for request in &requests {
            let (stream, prompt) = asked(&server, request.clone()).await;
            asking.push((request.clone(), stream, prompt));
        }
        let mut tools = server.tools();
        let unary = not_kept(kept("unary", bash(": ask; echo unary >> ran")));
        let running = run_request(unary.clone());
        let running = tokio::spawn(async move { tools.run_tool(running).await });
        eventually("all wait", async || open_prompts(&server).await.len() == 6).await;
        let prompts = open_prompts(&server).await;

        let from = Instant::now();
        server.signal(Signal::TERM);
        for (request, stream, _) in &mut asking {
            let end = loop {
                match stream.message().await {
                    Ok(Some(response)) => {
                        let event = response.event.unwrap();
                        assert!(!is_terminal(&event), "{}: {event:?}", request.call_id);
                    }
                    Ok(None) => panic!("{}: an end without a status", request.call_id),
                    Err(status) => break status,
                }
            };
            refused::<()>(Err(end), Code::Unavailable, "DRAINING");
        }
        refused(running.await.unwrap(), Code::Unavailable, "DRAINING");
        assert_eq!(server.ended().await.code(), Some(0));
        assert!(from.elapsed() < SOON, "{:?}", from.elapsed());

        server.restart().await;
        let same = open_prompts(&server).await;
        let ids =
            |prompts: &[Prompt]| -> Vec<String> { prompts.iter().map(|prompt| prompt.prompt_id.clone()).collect() };
        assert_eq!(ids(&same), ids(&prompts), "the same prompts, at once");
        assert_eq!(lines(&server), Vec::<String>::new());
        for (request, _, _) in &asking {
            assert_eq!(server.get(&request.call_id).await.state(), CallState::Waiting);
        }
        // Who comes back comes back to the same call.
        let again = server
            .tools()
            .execute_tool(requests[1].clone())
            .await
            .unwrap()
            .into_inner();
        for prompt in &prompts {
            let mut yes = reply(prompt, PromptDecision::Once);
            if prompt.call_id == "question" {
                yes.set_decision(PromptDecision::Answer);
                yes.answers.push(QuestionAnswer {
                    values: vec!["this".to_owned()],
                });
            }
            assert_eq!(answer(&server, yes).await, ReplyResult::Accepted, "{}", prompt.call_id);
        }
        for id in ["kept", "attached", "question", "write", "outside", "unary"] {
            let log = server.watch(id, 0).await.unwrap();
            check_log(0, &log);
            assert!(
                matches!(end_of(&log), call::Ending::Completed(_)),
                "{id}: {:?}",
                log.last()
            );
        }
        check_log(0, &collect(again).await.unwrap());
        let mut ran = lines(&server);
        ran.sort();
        assert_eq!(ran, ["attached", "kept", "outside", "unary"], "each of them once");
        assert_eq!(fs::read(server.work().join("written")).unwrap(), b"written");
        server.stop().await;
    });
}

#[test]
fn a_reply_in_the_grace_lets_the_call_go_on() {
    test(async {
        let mut server = Server::with(setup(NEVER)).await;
        let request = kept("holds", bash("mkfifo go; echo ready; cat go"));
        let mut holds = server.tools().execute_tool(request).await.unwrap().into_inner();
        next_such(&mut holds, is_output).await;
        let (answered, prompt) = asked(&server, kept("answered", bash(": ask; echo answered >> ran"))).await;
        let (left, _) = asked(&server, kept("left", bash(": ask; echo left >> ran"))).await;
        server.signal(Signal::TERM);
        eventually("the drain has begun", async || {
            server.tools().run_tool(run_request(bash("true"))).await.is_err()
        })
        .await;
        let yes = reply(&prompt, PromptDecision::Once);
        assert_eq!(answer(&server, yes).await, ReplyResult::Accepted);
        let log = collect(answered).await.unwrap();
        assert!(matches!(end_of(&log), call::Ending::Completed(_)), "{:?}", log.last());
        assert_eq!(lines(&server), ["answered"]);
        let go = server.work().join("go");
        let write = tokio::task::spawn_blocking(move || fs::write(go, "done\n"));
        write.await.unwrap().unwrap();
        assert!(matches!(
            end_of(&collect(holds).await.unwrap()),
            call::Ending::Completed(_)
        ));
        refused(collect(left).await, Code::Unavailable, "DRAINING");
        assert_eq!(server.ended().await.code(), Some(0));
        server.restart().await;
        assert_eq!(server.get("left").await.state(), CallState::Waiting);
        assert_eq!(lines(&server), ["answered"]);
    });
}

#[test]
fn without_a_grace_they_are_left_as_well_and_again() {
    test(async {
        let mut server = Server::with(setup("0s")).await;
        let running = kept("running", bash("echo ready; sleep 86304"));
        let mut running = server.tools().execute_tool(running).await.unwrap().into_inner();
        next_such(&mut running, is_output).await;
        let (_, prompt) = asked(&server, kept("a", bash(": ask; echo a >> ran"))).await;
        for round in 0..3 {
            server.stop().await;
            server.restart().await;
            let call = server.get("a").await;
            assert_eq!(
                (call.state(), &call.waiting_prompt_id),
                (CallState::Waiting, &prompt.prompt_id),
                "{round}"
            );
        }
        assert_eq!(failed(&server.get("running").await).reason(), FailureReason::Drained);
        let cancelled = CancelCallRequest {
            call_id: "a".to_owned(),
        };
        server.tools().cancel_call(cancelled).await.unwrap();
        server.stop().await;
        server.restart().await;
        assert_eq!(failed(&server.get("a").await).reason(), FailureReason::Cancelled);
        assert_eq!(open_prompts(&server).await, []);
        assert_eq!(lines(&server), Vec::<String>::new());
    });
}

#[test]
fn what_the_next_run_could_not_take_up_ends() {
    test(async {
        let config = json!({
            "permission": { "bash": { "*": "allow", ": ask*": "ask" }, "lent": "ask" },
            "experimental": { "batch_tool": true },
        });
        let setup = Setup {
            config: Some(config),
            ..Setup::default()
        };
        let mut server = Server::with(setup.env("TOOLGATE_DRAIN_GRACE", "300ms")).await;
        let mut host = LendingHost::open(server.connect().await, hello("h", &["lent"]))
            .await
            .unwrap();
        let parameters = json!({ "command": ": ask; echo batch >> ran", "description": "d" });
        let calls = json!({ "tool_calls": [{ "tool": "bash", "parameters": parameters }] });
        let batch = kept("batch", request("batch", calls));
        let batch = server.tools().execute_tool(batch).await.unwrap().into_inner();
        let (lent, _) = asked(&server, kept("lent", request("lent", json!({ "text": "x" })))).await;
        eventually("both wait", async || open_prompts(&server).await.len() == 2).await;
        let prompts = open_prompts(&server).await;
        server.signal(Signal::TERM);
        let lent = collect(lent).await.unwrap();
        assert_eq!(reason(&lent), FailureReason::Drained);
        let call::Ending::Failed(failed) = end_of(&lent) else {
            panic!()
        };
        assert!(failed.error.contains("cannot go on waiting"), "{}", failed.error);
        assert_eq!(reason(&collect(batch).await.unwrap()), FailureReason::Drained);
        let end = loop {
            match host.next().await {
                Ok(event) => assert!(!matches!(event, HostEvent::Invoke(_)), "it ran"),
                Err(status) => break status,
            }
        };
        assert_eq!(end.code(), Code::Unavailable);
        assert_eq!(server.ended().await.code(), Some(0));
        server.restart().await;
        assert_eq!(open_prompts(&server).await, []);
        for prompt in prompts {
            let call = server.get(&prompt.call_id).await;
            assert_eq!(super::failed_reason(&call), FailureReason::Drained, "{call:?}");
        }
        assert_eq!(lines(&server), Vec::<String>::new());
    });
}
