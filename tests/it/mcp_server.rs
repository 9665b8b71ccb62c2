//! Toolgate as an MCP server, used by SDK clients: over HTTP on a running server, and over the standard input and
//! output of `toolgate mcp`.
//!
//! *Invariant:* clients are the official SDKs, or bytes that no SDK would send.

mod client;
mod hostile;
mod sdk;
mod sessionless;
mod sessions;

use std::fs;
use std::sync::Arc;

use base64::Engine as _;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ReadResourceRequestParams, ResourceContents,
};
use rmcp::service::PeerRequestOptions;
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use toolgate_contract::*;
use toolgate_model::Source;
use toolgate_tool::Contribution;

pub(crate) use self::client::{Client, Form, Person, call, http, text};
use self::client::{Stdio, params};
pub(crate) use self::sessionless::{Sessionless, input};
use crate::support::*;

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

fn asking() -> Setup {
    Setup {
        tcp: true,
        ..Setup::permission(json!({"bash": "ask"}))
    }
}

fn bash_input(command: &str) -> Value {
    json!({"command": command, "description": "Tests"})
}

#[test]
fn its_tools_are_those_of_the_service() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let client = Person::new(Form::None).connect(&server).await;
        let tools = client.list_all_tools().await.unwrap();
        let find = |name: &str| tools.iter().find(|tool| tool.name == name);
        for name in ["bash", "read", "edit", "grep"] {
            assert!(find(name).is_some(), "{name} is missing");
        }
        assert!(find("question").is_none(), "there is nobody to ask");
        let hints = |name: &str| find(name).unwrap().annotations.clone().unwrap();
        assert_eq!(hints("read").read_only_hint, Some(true));
        assert_eq!(hints("bash").destructive_hint, Some(true));

        fs::write(server.work().join("a.txt"), "hello\n").unwrap();
        let path = server.work().join("a.txt");
        let result = call(&client, "read", json!({"filePath": path})).await;
        assert!(text(&result).contains("hello"), "{result:?}");
        let recorded = server.get(&call_id(&result)).await;
        let context = recorded.context.unwrap();
        assert!(context.session_id.starts_with("mcp-"), "{context:?}");
        assert_eq!(context.client_kind, "mcp");

        let missing = call(&client, "read", json!({"filePath": server.work().join("missing")})).await;
        assert_eq!(missing.is_error, Some(true));
        let unknown = call(&client, "no_such_tool", json!({})).await;
        assert!(text(&unknown).contains("no_such_tool"), "{unknown:?}");
        assert_eq!(unknown.is_error, Some(true), "there is no result");
        let recorded = server.get(&call_id(&unknown)).await;
        assert_eq!(recorded.tool, "invalid");
        assert!(
            completed(&recorded).output.contains("no_such_tool"),
            "the model reads it"
        );
        client.cancel().await.unwrap();
        server.assert_calm();
    });
}

/// What a result says beside what a model reads.
fn about(result: &CallToolResult) -> Value {
    json!(result.meta)
}

fn call_id(result: &CallToolResult) -> String {
    about(result)["callId"].as_str().unwrap().to_owned()
}

#[test]
fn nothing_hides_what_a_model_reads() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let client = Person::new(Form::None).connect(&server).await;
        let announces = client.list_all_tools().await.unwrap();
        assert!(announces.iter().all(|tool| tool.output_schema.is_none()));
        // Clients that find `structuredContent` show the model only that.
        let lines: String = (0..950).map(|line| format!("line {line}\n")).collect();
        let path = server.work().join("long.txt");
        fs::write(&path, lines).unwrap();
        let read = call(&client, "read", json!({"filePath": path})).await;
        assert_eq!(read.structured_content, None, "{read:?}");
        assert!(text(&read).contains("line 949"), "{}", text(&read));
        let said = call(&client, "bash", bash_input("echo hi")).await;
        assert_eq!(
            (said.structured_content.as_ref(), text(&said)),
            (None, "hi\n"),
            "{said:?}"
        );
        assert_eq!(about(&said)["state"], "completed");
        assert_eq!(about(&said)["truncation"]["truncated"], false);
        let failed = call(&client, "read", json!({"filePath": server.work().join("none")})).await;
        assert_eq!(failed.structured_content, None, "{failed:?}");
        assert_eq!(
            [&about(&failed)["state"], &about(&failed)["reason"]],
            ["failed", "tool_error"]
        );

        let png = base64::engine::general_purpose::STANDARD.decode(PIXEL).unwrap();
        let path = server.work().join("pixel.png");
        fs::write(&path, png).unwrap();
        let image = call(&client, "read", json!({"filePath": path})).await;
        assert_eq!(image.structured_content, None, "{image:?}");
        let shown = image.content.iter().find_map(|content| content.as_image());
        assert_eq!(
            shown.map(|image| (image.mime_type.as_str(), image.data.as_str())),
            Some(("image/png", PIXEL))
        );
        client.cancel().await.unwrap();
        server.assert_calm();
    });
}

#[test]
fn a_prompt_is_a_form_of_the_client() {
    test(async {
        let server = Server::with(asking()).await;
        let check = async |form: Form, expected: Result<&str, &str>, forms: usize| {
            let person = Person::new(form.clone());
            let log = person.log.clone();
            let client = person.connect(&server).await;
            // Twice, but not so that it looks like a loop.
            for at in 0..2 {
                let result = call(&client, "bash", bash_input(&format!("printf ran-{at}"))).await;
                let part = expected.unwrap_or_else(|part| part);
                assert_eq!(result.is_error, Some(expected.is_err()), "{form:?}: {result:?}");
                assert!(text(&result).contains(part), "{form:?}: {result:?}");
            }
            let shown = log.forms();
            assert_eq!(shown.len(), forms, "{form:?}: {shown:?}");
            assert!(shown[0].contains("printf ran-0"), "{shown:?}");
            client.cancel().await.unwrap();
        };
        let reject = json!({"decision": "reject", "message": "use something else"});
        check(Form::Fill(reject), Err("use something else"), 2).await;
        check(Form::Decline, Err("reject"), 2).await;
        check(Form::Fill(json!({"decision": "once"})), Ok("ran-"), 2).await;
        check(Form::Fill(json!({"decision": "always"})), Ok("ran-"), 1).await;
        server.assert_calm();
    });
}

#[test]
fn questions_are_forms_too() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let person = Person::new(Form::Fill(json!({"answer01": "Tabs", "answer02_own": "Both"})));
        let client = person.connect(&server).await;
        let tools = client.list_all_tools().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "question"));
        let option = |label: &str| json!({"label": label, "description": "d"});
        let question = |text: &str, multiple: bool| {
            json!({
                "question": text, "header": "h", "options": [option("Tabs"), option("Spaces")], "multiple": multiple,
            })
        };
        let input = json!({"questions": [question("Tabs?", false), question("Which?", true)]});
        let result = call(&client, "question", input).await;
        assert!(
            text(&result).contains("Tabs") && text(&result).contains("Both"),
            "{result:?}"
        );
        client.cancel().await.unwrap();
    });
}

#[test]
fn without_forms_others_answer() {
    test(async {
        let server = Server::with(asking()).await;
        let person = Person::new(Form::None);
        let log = person.log.clone();
        let client = person.connect(&server).await;
        let mut approver = Approver::open(server.channel(), "somebody").await.unwrap();
        let (result, ()) = tokio::join!(call(&client, "bash", bash_input("echo done")), async {
            let prompt = approver.added().await;
            eventually("the client knows", async || {
                log.notes().iter().any(|note| note.contains("waits for an approver"))
            })
            .await;
            assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        });
        assert_eq!(text(&result), "done\n", "{result:?}");
        client.cancel().await.unwrap();
    });
}

#[test]
fn a_dismissed_form_is_no_refusal() {
    test(async {
        let server = Server::with(asking()).await;
        let person = Person::new(Form::Cancel);
        let log = person.log.clone();
        let client = person.connect(&server).await;
        let (result, ()) = tokio::join!(call(&client, "bash", bash_input("echo done")), async {
            eventually("the client knows that it still waits", async || {
                let notes = log.notes();
                notes.iter().any(|note| note.contains("waits for an approver"))
            })
            .await;
            // Whoever comes now still finds it.
            let mut approver = Approver::open(server.channel(), "somebody").await.unwrap();
            let prompt = approver.snapshot[0].clone();
            assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
            approver.result().await;
        });
        assert_eq!(text(&result), "done\n", "{result:?}");
        assert_eq!(log.forms().len(), 1);
        client.cancel().await.unwrap();
        server.assert_calm();
    });
}

#[test]
fn a_dismissed_form_leaves_it_to_the_policy_for_unattended_prompts() {
    test(async {
        let server = Server::with(asking().env("TOOLGATE_PERMISSION_UNATTENDED", "refuse")).await;
        let client = Person::new(Form::Cancel).connect(&server).await;
        // Another call of the same client whose form is still open shows nobody this prompt.
        let other = Person::new(Form::Never).connect(&server).await;
        let other_log = other.service().log.clone();
        let waiting = tokio::spawn(async move {
            let _ = other.call_tool(params("bash", bash_input("echo other"))).await;
        });
        eventually("the other form is shown", async || other_log.forms().len() == 1).await;
        let result = call(&client, "bash", bash_input("echo done")).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        assert_eq!(
            about(&result)["reason"],
            "prompt_expired",
            "nobody refused it: {result:?}"
        );
        assert!(!text(&result).contains("rejected"), "{}", text(&result));

        // With an approver there it waits for that one.
        let mut approver = Approver::open(server.channel(), "somebody").await.unwrap();
        let (result, ()) = tokio::join!(call(&client, "bash", bash_input("echo again")), async {
            let prompt = approver.added().await;
            assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        });
        assert_eq!(text(&result), "again\n", "{result:?}");
        waiting.abort();
        client.cancel().await.unwrap();
    });
}

#[test]
fn a_form_is_withdrawn_when_somebody_else_answers() {
    test(async {
        let server = Server::with(asking()).await;
        let person = Person::new(Form::Never);
        let log = person.log.clone();
        let client = person.connect(&server).await;
        let mut approver = Approver::open(server.channel(), "somebody").await.unwrap();
        let (result, ()) = tokio::join!(call(&client, "bash", bash_input("echo done")), async {
            let prompt = approver.added().await;
            eventually("the form is shown", async || log.forms().len() == 1).await;
            assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        });
        assert_eq!(text(&result), "done\n", "{result:?}");
        eventually("the form is withdrawn", async || log.withdrawn() == 1).await;
        client.cancel().await.unwrap();
    });
}

#[test]
fn a_cancelled_request_cancels_its_call_and_so_does_the_end_of_the_session() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        for ends_session in [false, true] {
            let client = Person::new(Form::None).connect(&server).await;
            let marker = format!("600.{}", 1000 + u32::from(ends_session));
            let params = params("bash", bash_input(&format!("sleep {marker}")));
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let handle = client
                .send_cancellable_request(request, PeerRequestOptions::no_options())
                .await
                .unwrap();
            eventually("it runs", async || !processes(&marker).is_empty()).await;
            if ends_session {
                client.cancel().await.unwrap();
            } else {
                handle.cancel(Some("never mind".to_owned())).await.unwrap();
            }
            gone(&marker).await;
        }
        let request = ListCallsRequest::default();
        let calls = server.tools().list_calls(request).await.unwrap().into_inner().calls;
        assert_eq!(calls.len(), 2);
        for call in calls {
            let id = call.call_id;
            eventually("it has its end", async || server.get(&id).await.ending.is_some()).await;
            assert_eq!(
                failed(&server.get(&id).await).reason,
                i32::from(FailureReason::Cancelled)
            );
        }
        server.assert_calm();
    });
}

#[test]
fn a_stop_answers_who_waits_and_leaves_nothing_that_nobody_could_come_back_to() {
    test(async {
        let mut server = Server::with(asking().env("TOOLGATE_DRAIN_GRACE", "300ms")).await;
        let client = Person::new(Form::Never).connect(&server).await;
        let idle = Person::new(Form::None).connect(&server).await;
        let log = client.service().log.clone();
        let calling = tokio::spawn(async move {
            let result = call(&client, "bash", bash_input("touch ran")).await;
            (client, result)
        });
        eventually("the form is shown", async || log.forms().len() == 1).await;
        let list = ListCallsRequest::default();
        let calls = server.tools().list_calls(list).await.unwrap().into_inner().calls;
        server.signal(rustix::process::Signal::TERM);
        let (_client, result) = calling.await.unwrap();
        assert_eq!(result.is_error, Some(true));
        assert!(text(&result).contains("the service is stopping"), "{}", text(&result));
        assert_eq!(server.ended().await.code(), Some(0));
        drop(idle);
        server.restart().await;
        let call = server.get(&calls[0].call_id).await;
        assert_eq!(failed(&call).reason(), FailureReason::Drained);
        let list = list_all();
        let prompts = server.prompts(list).await;
        assert_eq!(prompts, []);
        assert!(!server.work().join("ran").exists());
    });
}

#[test]
fn what_a_result_leaves_out_is_a_resource() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let client = Person::new(Form::None).connect(&server).await;
        let result = call(&client, "bash", bash_input("seq 1 100000")).await;
        assert!(!text(&result).contains("Task tool"), "{}", text(&result));
        let truncation = &about(&result)["truncation"];
        assert_eq!(truncation["truncated"], true);
        let uri = truncation["uri"].as_str().unwrap();
        let listed = client.list_resources(None).await.unwrap().resources;
        assert!(listed.iter().any(|resource| resource.uri == uri), "{listed:?}");
        let read = async |uri: String| {
            let read = client.read_resource(ReadResourceRequestParams::new(uri)).await;
            read.map(|read| match read.contents.into_iter().next().unwrap() {
                ResourceContents::TextResourceContents { text, meta, .. } => (text, json!(meta)),
                other => panic!("{other:?}"),
            })
        };
        let (all, meta) = read(uri.to_owned()).await.unwrap();
        assert_eq!(all.len(), 256 * 1024);
        assert_eq!(meta["nextOffset"], 256 * 1024);
        let (end, meta) = read(format!("{uri}?line=99999")).await.unwrap();
        assert_eq!(end, "99999\n100000\n");
        assert!(meta["nextOffset"].is_null());
        assert_eq!(read(format!("{uri}?tail=1")).await.unwrap().0, "100000\n");
        assert!(read("toolgate://outputs/tool_nothing".to_owned()).await.is_err());
        assert!(read("file:///etc/passwd".to_owned()).await.is_err());
        client.cancel().await.unwrap();
    });
}

#[test]
fn a_client_is_told_when_tools_come() {
    test(async {
        let inside = Inside::new();
        let service = client::serve(&inside).await;
        let person = Person::new(Form::None);
        let log = person.log.clone();
        let transport = StreamableHttpClientTransport::with_client(client::http(), client::config(&service.address));
        let client = person.start(transport).await;
        let names = async || {
            let tools = client.list_all_tools().await.unwrap();
            tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names().await, ["gate", "maker"]);
        let catalog = &inside.engine.catalogs().all()[0].tools;
        let contribution = Contribution {
            tools: vec![Arc::new(toolgate_tools::todoread::TodoRead)],
            hooks: Vec::new(),
        };
        // Whether the client is listened for already cannot be seen: so it is said until it is heard.
        eventually("the client is told", async || {
            catalog.offer(Source::Hosted, "front end", contribution.clone());
            let is_told = log.list_changes() > 0;
            if !is_told {
                catalog.remove(Source::Hosted, "front end");
            }
            is_told
        })
        .await;
        assert_eq!(names().await, ["gate", "maker", "todoread"]);
        client.cancel().await.unwrap();
        service.stop().await;
    });
}

#[test]
fn it_talks_on_standard_input_and_output() {
    test(async {
        let mut stdio = Stdio::start(&[]);
        let person = Person::new(Form::Fill(json!({"decision": "once"})));
        let log = person.log.clone();
        let client = person.start(stdio.transport()).await;
        let result = call(&client, "bash", bash_input("pwd; echo here > made")).await;
        let work = stdio.work().canonicalize().unwrap();
        assert_eq!(text(&result).trim(), work.to_str().unwrap(), "{result:?}");
        assert_eq!(log.forms().len(), 1);
        assert_eq!(fs::read_to_string(work.join("made")).unwrap(), "here\n");

        // With the end of its input it goes, and so does what it runs.
        let marker = "600.2001";
        let params: CallToolRequestParams = params("bash", bash_input(&format!("sleep {marker}")));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let _handle = client
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .unwrap();
        eventually("it runs", async || !processes(marker).is_empty()).await;
        drop(client);
        assert_eq!(stdio.ended().await.code(), Some(0));
        gone(marker).await;
    });
}

#[test]
fn what_a_killed_one_left_is_removed_by_the_next() {
    test(async {
        let mut stdio = Stdio::start(&[]);
        let client = Person::new(Form::None).start(stdio.transport()).await;
        let left = stdio.temporary();
        assert!(!left.is_empty());
        let mut next = stdio.killed().await;
        drop(client);
        let client = Person::new(Form::None).start(next.transport()).await;
        eventually("nothing of it is left", async || {
            next.temporary().iter().all(|folder| !left.contains(folder))
        })
        .await;
        assert!(!next.temporary().is_empty(), "its own are in use");
        client.cancel().await.unwrap();
        assert_eq!(next.ended().await.code(), Some(0));
        assert!(next.temporary().is_empty());
    });
}

#[test]
fn it_hands_on_to_a_server() {
    test(async {
        let server = Server::with(Setup::default()).await;
        let socket = format!("unix:{}", server.folder().join("s").display());
        let mut stdio = Stdio::start(&["--server", &socket, "--workspace", "default", "--agent", "plan"]);
        let client = Person::new(Form::None).start(stdio.transport()).await;
        let result = call(&client, "bash", bash_input("pwd")).await;
        let work = server.work().canonicalize().unwrap();
        assert_eq!(text(&result).trim(), work.to_str().unwrap(), "{result:?}");
        assert_eq!(server.get(&call_id(&result)).await.context.unwrap().agent, "plan");
        client.cancel().await.unwrap();
        assert_eq!(stdio.ended().await.code(), Some(0));
        server.assert_calm();
    });
}
