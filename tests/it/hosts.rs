//! Tools and subagents that front ends lend: they are like any others, whatever their host does. Hooks are in
//! `hosts/hooks.rs`, hosts that mean no good in `hosts/faults.rs`, one in another language in `hosts/python.rs`.

mod faults;
mod hooks;
mod python;

use std::time::Duration;

use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;
use toolgate_contract::host_event::Event;
use toolgate_contract::host_report::Report;
use toolgate_contract::host_request::Message;
use toolgate_contract::host_service_client::HostServiceClient;
use toolgate_contract::*;

use crate::support::*;

async fn listed(server: &Server) -> (Vec<ToolDefinition>, String) {
    let response = server.tools().list_tools(ListToolsRequest::default()).await;
    let response = response.unwrap().into_inner();
    (response.tools, response.etag)
}

async fn offers(server: &Server, name: &str) -> bool {
    listed(server).await.0.iter().any(|tool| tool.name == name)
}

fn call_of(tool: &str, id: &str) -> ExecuteToolRequest {
    kept(id, request(tool, json!({ "text": "x" })))
}

/// Starts a call that goes on by itself.
async fn begin(server: &Server, request: ExecuteToolRequest) -> String {
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    first.event.unwrap().call_id
}

async fn end(server: &Server, id: &str) -> call::Ending {
    end_of(&server.watch(id, 0).await.unwrap())
}

fn output(ending: call::Ending) -> String {
    match ending {
        call::Ending::Completed(completed) => completed.output,
        other => panic!("{other:?}"),
    }
}

fn failure(ending: call::Ending) -> (FailureReason, String) {
    match ending {
        call::Ending::Failed(failed) => (failed.reason(), failed.error),
        other => panic!("{other:?}"),
    }
}

async fn decide(server: &Server, prompt: &Prompt, decision: PromptDecision) {
    let request = ReplyPromptRequest {
        reply: Some(reply(prompt, decision)),
        name: String::new(),
    };
    server.permissions().reply_prompt(request).await.unwrap();
}

/// Waits for the prompt of a call.
async fn prompted(server: &Server, id: &str) -> Prompt {
    let request = watch_request(id, 0, OutputMode::None);
    let mut stream = server.tools().watch_call(request).await.unwrap().into_inner();
    loop {
        let event = stream.message().await.unwrap().unwrap().event.unwrap();
        if let Some(call_event::Event::Waiting(waiting)) = event.event {
            let prompt = waiting.prompt.unwrap();
            let known = server.get(id).await;
            if known.waiting_prompt_id == prompt.prompt_id {
                return prompt;
            }
        }
    }
}

fn permission(prompt: &Prompt) -> &PermissionRequest {
    match &prompt.request {
        Some(prompt::Request::Permission(asked)) => asked,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lent_tool_is_like_any_other() {
    test(async {
        let mut server = Server::with(Setup::permission(json!({ "crm": "ask", "crm_write": "ask" }))).await;
        let before = listed(&server).await.1;
        let mut host = LendingHost::open(server.channel(), hello("app", &["crm"]))
            .await
            .unwrap();
        assert_eq!(
            (host.welcome.workspace.as_str(), host.welcome.refused.len()),
            ("default", 0)
        );
        let (tools, after) = listed(&server).await;
        assert_ne!(before, after);
        let tool = tools.iter().find(|tool| tool.name == "crm").unwrap();
        assert_eq!(
            (tool.source(), tool.permissions.as_slice()),
            (ToolSource::Hosted, &["crm".to_owned()][..])
        );

        // What does not fit never reaches the host.
        let wrong = server.run("crm", json!({ "text": 1 })).await;
        assert_eq!(failed(&wrong).reason(), FailureReason::InvalidArguments);

        begin(&server, call_of("crm", "c")).await;
        let asked = prompted(&server, "c").await;
        assert_eq!(
            (
                permission(&asked).permission.as_str(),
                permission(&asked).patterns.as_slice()
            ),
            ("crm", &["*".to_owned()][..])
        );
        decide(&server, &asked, PromptDecision::Once).await;
        let invoke = host.invoked().await;
        assert_eq!(
            (
                invoke.call_id.as_str(),
                invoke.tool.as_str(),
                invoke.input_json.as_str()
            ),
            ("c", "crm", r#"{"text":"x"}"#)
        );
        let id = invoke.invocation_id;
        let progress = HostProgress {
            title: Some("Looking".to_owned()),
            metadata: None,
        };
        host.report(&id, Report::Progress(progress)).await;
        host.report(
            &id,
            Report::Output(HostOutput {
                data: "streamed\n".into(),
            }),
        )
        .await;
        // It asks for more while it runs, and is told what came of it: both times it goes on by itself.
        for (ask, decision) in [("one", PromptDecision::Once), ("two", PromptDecision::Reject)] {
            let request = HostAsk {
                ask_id: ask.to_owned(),
                permission: "crm_write".to_owned(),
                patterns: vec![ask.to_owned()],
                ..HostAsk::default()
            };
            host.report(&id, Report::Ask(request)).await;
            let asked = prompted(&server, "c").await;
            assert_eq!(permission(&asked).permission, "crm_write");
            decide(&server, &asked, decision).await;
            match host.next().await.unwrap() {
                Event::AskResult(result) => {
                    assert_eq!(
                        (result.ask_id.as_str(), result.allowed),
                        (ask, decision == PromptDecision::Once)
                    );
                    assert_eq!(result.error.is_empty(), result.allowed);
                }
                other => panic!("{other:?}"),
            }
        }
        host.complete(&id, &"line\n".repeat(5000)).await;
        let log = server.watch("c", 0).await.unwrap();
        check_log(0, &log);
        assert_eq!(output_of(&log), b"streamed\n");
        let record = server.get("c").await;
        let done = completed(&record);
        assert_eq!(record.title, "Looking");
        assert!(
            done.truncation.as_ref().unwrap().truncated,
            "long output is cut by the service"
        );
        server.stop().await;
    });
}

#[test]
fn a_host_that_never_answers_holds_nobody_up() {
    test(async {
        let mut server = Server::start().await;
        let mut host = LendingHost::open(server.channel(), hello("app", &["crm"]))
            .await
            .unwrap();
        begin(&server, call_of("crm", "cancelled")).await;
        let id = host.invoked().await.invocation_id;
        let request = CancelCallRequest {
            call_id: "cancelled".to_owned(),
        };
        server.tools().cancel_call(request).await.unwrap();
        assert_eq!(host.cancelled().await, id);
        assert_eq!(failure(end(&server, "cancelled").await).0, FailureReason::Cancelled);

        let timed = ExecuteToolRequest {
            timeout: Some(prost_types::Duration { seconds: 2, nanos: 0 }),
            ..call_of("crm", "timed")
        };
        begin(&server, timed).await;
        let id = host.invoked().await.invocation_id;
        assert_eq!(failure(end(&server, "timed").await).0, FailureReason::TimedOut);
        assert_eq!(host.cancelled().await, id);
        server.stop().await;
    });
}

#[test]
fn a_host_that_comes_back_goes_on() {
    test(async {
        let mut server = Server::with(Setup::tcp()).await;
        let mut host = LendingHost::losable(&server, hello("app", &["crm"])).await;
        begin(&server, call_of("crm", "before")).await;
        let id = host.invoked().await.invocation_id;
        let etag = listed(&server).await.1;
        let token = host.lose().token;
        assert!(offers(&server, "crm").await, "within the grace");
        begin(&server, call_of("crm", "meanwhile")).await;

        let again = || HostHello {
            token: token.clone(),
            ..hello("app", &["crm"])
        };
        let mut host = LendingHost::open(server.connect().await, again()).await.unwrap();
        assert!(host.welcome.resumed);
        assert_eq!(listed(&server).await.1, etag);
        let (first, second) = (host.invoked().await, host.invoked().await);
        assert_eq!(
            (first.invocation_id.as_str(), first.resent, second.resent),
            (id.as_str(), true, false)
        );
        host.complete(&first.invocation_id, "one").await;
        host.complete(&second.invocation_id, "two").await;
        assert_eq!(output(end(&server, "before").await), "one");
        assert_eq!(output(end(&server, "meanwhile").await), "two");

        // Another stream takes the place of this one.
        let mut newer = LendingHost::open(server.connect().await, again()).await.unwrap();
        assert_eq!(host.next().await.unwrap_err().code(), Code::Aborted);
        begin(&server, call_of("crm", "newer")).await;
        let id = newer.invoked().await.invocation_id;
        newer.complete(&id, "three").await;
        assert_eq!(output(end(&server, "newer").await), "three");
        server.stop().await;
    });
}

#[test]
fn a_host_that_is_gone_ends_its_calls() {
    test(async {
        let mut server = Server::with(Setup::tcp()).await;
        let mut host = LendingHost::losable(&server, hello("app", &["crm"])).await;
        begin(&server, call_of("crm", "lost")).await;
        host.invoked().await;
        host.lose();
        let (reason, text) = failure(end(&server, "lost").await);
        assert_eq!(reason, FailureReason::ToolError);
        assert!(text.contains("app") && text.contains("did not come back"), "{text}");
        assert!(!offers(&server, "crm").await);

        // One that ends its requests leaves at once.
        let mut host = LendingHost::open(server.channel(), hello("app", &["crm"]))
            .await
            .unwrap();
        begin(&server, call_of("crm", "left")).await;
        host.invoked().await;
        drop(std::mem::replace(&mut host.requests, tokio::sync::mpsc::channel(1).0));
        let (_, text) = failure(end(&server, "left").await);
        assert!(text.contains("it has left"), "{text}");
        assert!(!offers(&server, "crm").await);

        // One that was started again without its token takes the place of the lost one.
        LendingHost::losable(&server, hello("app", &["crm"])).await.lose();
        eventually("the server has seen the loss", async || {
            let host = LendingHost::open(server.connect().await, hello("app", &["crm"]))
                .await
                .unwrap();
            host.welcome.refused.is_empty() && !host.welcome.resumed
        })
        .await;
        server.stop().await;
    });
}

#[test]
fn a_name_is_lent_once() {
    test(async {
        let mut server = Server::start().await;
        let mut first = hello(
            "one",
            &[
                "crm",
                "CRM",
                "bash",
                "Read",
                "external_directory",
                "a b",
                "broken",
                "task",
            ],
        );
        first.tools[6].input_schema_json = r#"{"type": "nothing"}"#.to_owned();
        first.hooks = vec!["no.such".to_owned(), "shell.env".to_owned()];
        let one = LendingHost::open(server.channel(), first).await.unwrap();
        let mut refused: Vec<&str> = one.welcome.refused.iter().map(|it| it.name.as_str()).collect();
        refused.sort_unstable();
        assert_eq!(
            refused,
            [
                "CRM",
                "Read",
                "a b",
                "bash",
                "broken",
                "external_directory",
                "no.such",
                "task"
            ]
        );
        assert!(one.welcome.refused.iter().all(|it| !it.reason.is_empty()));

        let mut two = LendingHost::open(server.connect().await, hello("one", &["crm", "other"]))
            .await
            .unwrap();
        assert_eq!(two.welcome.refused.len(), 1);
        assert!(
            two.welcome.refused[0].reason.contains("one"),
            "{:?}",
            two.welcome.refused
        );
        assert!(offers(&server, "other").await);
        let info = server
            .info()
            .get_server_info(GetServerInfoRequest {})
            .await
            .unwrap()
            .into_inner();
        let sources: Vec<&str> = info.workspaces[0]
            .tool_sources
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        assert_eq!(sources, ["one", "one (2)"]);

        // What is lent can be changed at any time; a call keeps the tool that it has.
        begin(&server, call_of("other", "keeps")).await;
        let id = two.invoked().await.invocation_id;
        let mut events = server
            .sessions()
            .watch_events(WatchEventsRequest::default())
            .await
            .unwrap()
            .into_inner();
        two.say(Message::Hello(hello("one", &["third"]))).await;
        assert!(matches!(two.next().await.unwrap(), Event::Welcome(_)));
        assert!(!offers(&server, "other").await && offers(&server, "third").await);
        loop {
            let event = events.message().await.unwrap().unwrap().event.unwrap();
            if let Some(event::Event::ToolsChanged(changed)) = event.event {
                assert_eq!(
                    (changed.added, changed.removed),
                    (vec!["third".to_owned()], vec!["other".to_owned()])
                );
                break;
            }
        }
        two.complete(&id, "kept").await;
        assert_eq!(output(end(&server, "keeps").await), "kept");
        server.stop().await;
    });
}

#[test]
fn everything_works_without_client_streaming() {
    test(async {
        let mut server = Server::start().await;
        let mut client: HostServiceClient<Channel> = HostServiceClient::new(server.channel());
        let request = ServeToolsRequest {
            hello: Some(hello("app", &["crm"])),
        };
        let mut events = client.serve_tools(request).await.unwrap().into_inner();
        let mut next = async || events.message().await.unwrap().unwrap().event.unwrap().event.unwrap();
        let Event::Welcome(welcome) = next().await else {
            panic!()
        };
        begin(&server, call_of("crm", "c")).await;
        let Event::Invoke(invoke) = next().await else { panic!() };
        let report = |token: &str, report: Report| ReportInvocationRequest {
            token: token.to_owned(),
            report: Some(HostReport {
                invocation_id: invoke.invocation_id.clone(),
                report: Some(report),
            }),
        };
        let done = || {
            Report::Completed(HostCompleted {
                output: Some("done".to_owned()),
                ..HostCompleted::default()
            })
        };
        let wrong = client.report_invocation(report("host_0", done())).await;
        refused(wrong, Code::NotFound, "NOT_FOUND");
        for accepted in [true, false] {
            let answer = client.report_invocation(report(&welcome.token, done())).await;
            assert_eq!(answer.unwrap().into_inner().accepted, accepted);
        }
        assert_eq!(output(end(&server, "c").await), "done");
        client
            .report_invocation(report(&welcome.token, Report::Leave(HostLeave {})))
            .await
            .unwrap();
        assert!(!offers(&server, "crm").await);
        server.stop().await;
    });
}

fn task(id: &str, agent: &str) -> ExecuteToolRequest {
    let input = json!({ "description": "d", "prompt": "p", "subagent_type": agent });
    in_session("parent", kept(id, request("task", input)))
}

fn below(parent: &str, session: &str, agent: &str, id: &str, request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            session_id: session.to_owned(),
            agent: agent.to_owned(),
            parent_call_id: parent.to_owned(),
            ..CallContext::default()
        }),
        ..kept(id, request)
    }
}

#[test]
fn a_task_bounds_its_subagent() {
    test(async {
        let setup = Setup {
            config: Some(json!({
                "permission": { "bash": "allow" },
                "agent": { "nested": { "mode": "subagent", "permission": { "task": "allow" } } },
            })),
            ..Setup::default()
        };
        let mut server = Server::with(setup).await;
        assert!(!offers(&server, "task").await, "nobody can run subagents");
        let runs = HostHello {
            runs_subagents: true,
            ..hello("app", &[])
        };
        let mut host = LendingHost::open(server.channel(), runs).await.unwrap();
        assert!(offers(&server, "task").await);

        begin(&server, task("t", "general")).await;
        let run = host.subagent().await;
        assert_eq!(
            (run.call_id.as_str(), run.agent.as_str(), run.prompt.as_str()),
            ("t", "general", "p")
        );
        assert!(run.session_id.starts_with("ses_") && !run.resumed);
        let request = ListToolsRequest {
            agent: "general".to_owned(),
            parent_call_id: "t".to_owned(),
            ..ListToolsRequest::default()
        };
        let below_list = server.tools().list_tools(request).await.unwrap().into_inner().tools;
        let names: Vec<String> = below_list.into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, run.allowed_tools);
        assert!(names.contains(&"bash".to_owned()) && !names.contains(&"task".to_owned()));
        assert!(run.denied_tools.contains(&"todowrite".to_owned()));

        // Cancelling the task ends what its subagent does, and nothing more can be done in its name.
        let sleeping = below("t", &run.session_id, "general", "child", bash("sleep 300"));
        begin(&server, sleeping).await;
        let request = CancelCallRequest {
            call_id: "t".to_owned(),
        };
        server.tools().cancel_call(request).await.unwrap();
        assert_eq!(server.get("child").await.state(), CallState::Failed);
        assert_eq!(host.cancelled().await, run.invocation_id);
        let late = below("t", &run.session_id, "general", "late", bash("true"));
        refused(
            server.tools().execute_tool(late).await,
            Code::FailedPrecondition,
            "TASK_ENDED",
        );

        // An agent that may give tasks is stopped by the depth.
        begin(&server, task("outer", "nested")).await;
        let run = host.subagent().await;
        let inner = json!({ "description": "d", "prompt": "p", "subagent_type": "general" });
        let inner = below(
            "outer",
            &run.session_id,
            "nested",
            "inner",
            crate::support::request("task", inner),
        );
        begin(&server, inner).await;
        let (_, text) = failure(end(&server, "inner").await);
        assert!(text.contains("Subagent depth limit reached (1)"), "{text}");
        let error = HostFailed {
            error: "the model is gone".to_owned(),
        };
        host.report(&run.invocation_id, Report::Failed(error)).await;
        let (_, text) = failure(end(&server, "outer").await);
        assert!(
            text.starts_with("Subagent failed (task_id: ses_") && text.ends_with("the model is gone"),
            "{text}"
        );
        drop(host);
        eventually("nobody can run subagents", async || !offers(&server, "task").await).await;
        server.stop().await;
    });
}

#[test]
fn a_subagent_has_the_tools_of_its_own_model() {
    test(async {
        let setup = Setup {
            config: Some(json!({
                "agent": { "other": { "mode": "subagent", "model": "work/gpt-5" } },
                "provider": { "work": { "npm": "@ai-sdk/openai" } },
            })),
            ..Setup::default()
        };
        let mut server = Server::with(setup).await;
        let runs = HostHello {
            runs_subagents: true,
            ..hello("app", &[])
        };
        let mut host = LendingHost::open(server.channel(), runs).await.unwrap();
        for (id, agent, model, package, edits) in [
            ("a", "general", "claude", "", "edit"),
            ("b", "other", "gpt-5", "@ai-sdk/openai", "apply_patch"),
        ] {
            let mut request = task(id, agent);
            request.context.as_mut().unwrap().model = Some(ModelRef {
                provider_id: "anthropic".to_owned(),
                model_id: "claude".to_owned(),
                ..ModelRef::default()
            });
            begin(&server, request).await;
            let run = host.subagent().await;
            let of = run.model.unwrap();
            assert_eq!((of.model_id.as_str(), of.package.as_str()), (model, package));
            for name in ["edit", "apply_patch"] {
                assert_eq!(run.allowed_tools.contains(&name.to_owned()), name == edits, "{name}");
            }
            assert!(!run.denied_tools.contains(&"invalid".to_owned()));
            let file = Attachment {
                mime: "text/plain".to_owned(),
                filename: "report.txt".to_owned(),
                content: Some(attachment::Content::Data("found".into())),
                ..Attachment::default()
            };
            let completed_with = HostCompleted {
                output: Some("done".to_owned()),
                attachments: vec![file],
                ..HostCompleted::default()
            };
            host.report(&run.invocation_id, Report::Completed(completed_with)).await;
            match end(&server, id).await {
                call::Ending::Completed(completed) => {
                    assert!(completed.output.starts_with("done\n\n<task_metadata>"));
                    assert_eq!(completed.attachments[0].filename, "report.txt");
                }
                other => panic!("{other:?}"),
            }
        }
        server.stop().await;
    });
}

/// A bound for what must not wait for a host.
const SOON: Duration = Duration::from_secs(5);
