//! What the service promises about servers: their environment, their lists, their ends, calls while they run.

use std::fs;

use serde_json::json;
use toolgate_contract::call_event::Event;

use super::*;
use crate::prompts::answer;

/// A server that writes what it sees into the file `seen` of a folder.
async fn watched(how: &str, change: impl FnOnce(&mut Value)) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seen");
    let mut entry = local(&["python3", SCRIPT, how, file.to_str().unwrap()]);
    change(&mut entry);
    let server = service(&[("s", entry)]).await;
    ready(&server, "s").await;
    (folder, server)
}

#[test]
fn servers_get_few_variables_and_the_folder_of_the_workspace() {
    test(async {
        let mut entry = faulty_server("environment");
        entry["environment"] = json!({"OWN": "of the entry"});
        let setup = Setup {
            config: Some(
                json!({"mcp": {"s": entry, "elsewhere": {"type": "local", "cwd": "below",
                "command": ["python3", SCRIPT, "environment"]}}}),
            ),
            ..Setup::default()
        };
        let setup = setup.env("AWS_SECRET_ACCESS_KEY", "secret").env("LC_ALL", "C.UTF-8");
        let server = Server::with(setup).await;
        ready(&server, "s").await;
        let call = server.run("s_work", json!({})).await;
        let environment: Value = serde_json::from_str(&completed(&call).output).unwrap();
        assert_eq!(environment["OWN"], "of the entry");
        assert_eq!(environment["LC_ALL"], "C.UTF-8");
        assert!(environment["PATH"].is_string() && environment["HOME"].is_string());
        assert_eq!(environment["PWD"], json!(server.work().canonicalize().unwrap()));
        assert!(environment.get("AWS_SECRET_ACCESS_KEY").is_none(), "{environment}");
        let (_, problem) = source(&server, "elsewhere").await;
        assert!(problem.contains("cannot enter the directory"), "{problem}");
    });
}

#[test]
fn what_only_the_project_names_is_not_started() {
    test(async {
        let mut server = Server::start().await;
        let marker = server.work().join("started");
        let entry = local(&["touch", marker.to_str().unwrap()]);
        let config = json!({"mcp": {"p": entry, "q": {"type": "remote", "url": "http://127.0.0.1:1/"}}});
        fs::write(server.work().join("opencode.json"), config.to_string()).unwrap();
        server.stop().await;
        server.restart().await;
        for name in ["p", "q"] {
            let (state, problem) = source(&server, name).await;
            assert_eq!(state, ToolSourceState::Untrusted);
            for way in ["trust = true", "--trust", "TOOLGATE_TRUST"] {
                assert!(problem.contains(way), "{problem}");
            }
        }
        server.run("bash", json!({"command": "true", "description": "d"})).await;
        assert!(!marker.exists());
    });
}

#[test]
fn a_changed_list_is_seen_and_a_running_call_keeps_its_tool() {
    test(async {
        let (_folder, server) = watched("renames", |_| {}).await;
        assert!(names(&server).await.contains(&"s_old".to_owned()));
        let call = server.run("s_old", json!({})).await;
        assert_eq!(completed(&call).output, "renamed");
        eventually("the new name", async || {
            names(&server).await.contains(&"s_new".to_owned())
        })
        .await;
        assert!(!names(&server).await.contains(&"s_old".to_owned()));
        assert_eq!(completed(&server.run("s_new", json!({})).await).output, "renamed");
    });
}

#[test]
fn a_cancelled_call_is_cancelled_at_the_server() {
    test(async {
        let (folder, server) = watched("cancelled", |_| {}).await;
        let request = kept("c1", request("s_work", json!({})));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        next_such(&mut stream, |event| matches!(event, Event::Running(_))).await;
        let cancel = CancelCallRequest {
            call_id: "c1".to_owned(),
        };
        server.tools().cancel_call(cancel).await.unwrap();
        let call = server.get("c1").await;
        assert_eq!(failed(&call).reason(), FailureReason::Cancelled);
        let seen = || fs::read_to_string(folder.path().join("seen")).unwrap();
        eventually("the server is told", async || {
            seen().contains("notifications/cancelled")
        })
        .await;
    });
}

#[test]
fn progress_is_shown_and_begins_the_time_limit_anew() {
    test(async {
        let (_folder, server) = watched("progress", |entry| entry["timeout"] = json!(1500)).await;
        let events = server.execute(request("s_work", json!({}))).await.unwrap();
        let steps: Vec<String> = events
            .iter()
            .filter_map(|event| match &event.event {
                Some(Event::Metadata(patch)) => patch
                    .metadata
                    .as_ref()?
                    .fields
                    .get("message")
                    .map(|it| format!("{it:?}")),
                _ => None,
            })
            .collect();
        assert!(steps.iter().any(|step| step.contains("step")), "{events:?}");
        match end_of(&events) {
            call::Ending::Completed(end) => assert_eq!(end.output, "done"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn what_servers_ask_for_is_answered() {
    test(async {
        let (_folder, server) = watched("asks", |_| {}).await;
        let request = request("s_work", json!({}));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        assert!(
            format!("{prompt:?}").contains("The MCP server s asks: Who?"),
            "{prompt:?}"
        );
        let agreed = toolgate_contract::QuestionAnswer {
            values: vec!["Accept".to_owned()],
        };
        let reply = toolgate_contract::PromptReply {
            answers: vec![agreed],
            ..reply(&prompt, toolgate_contract::PromptDecision::Answer)
        };
        let reply = toolgate_contract::ReplyPromptRequest {
            reply: Some(reply),
            name: "tester".to_owned(),
        };
        server.permissions().reply_prompt(reply).await.unwrap();
        let events = collect(stream).await.unwrap();
        let call::Ending::Completed(end) = end_of(&events) else {
            panic!("{events:?}")
        };
        let answers: Value = serde_json::from_str(&end.output).unwrap();
        let uri = answers["r"]["roots"][0]["uri"].as_str().unwrap();
        assert!(uri.starts_with("file:///") && uri.ends_with("/work"), "{uri}");
        assert_eq!(answers["s"]["code"], -32601, "{answers}");
        assert_eq!(answers["e"]["action"], "accept", "{answers}");
        assert_eq!(answers["x"]["code"], -32601, "{answers}");
    });
}

#[test]
fn a_lost_server_is_told_of_at_once_and_calls_wait_for_its_return() {
    test(async {
        let (_folder, server) = watched("lost", |_| {}).await;
        let lost = server.run("s_work", json!({})).await;
        assert_eq!(failed(&lost).error, "MCP error -32000: Connection closed");
        // What it started keeps its streams open, and cleaning up after it takes longer than the second until it is tried again.
        let mut problem = String::new();
        eventually("it is told of", async || {
            let state;
            (state, problem) = source(&server, "s").await;
            state == ToolSourceState::Failed
        })
        .await;
        assert!(problem.contains("(tried again in 1 s)"), "{problem}");
        assert!(
            names(&server).await.contains(&"s_work".to_owned()),
            "it is about to be back"
        );
        let again = server.run("s_work", json!({})).await;
        assert_eq!(completed(&again).output, "fine");
        ready(&server, "s").await;
    });
}

#[test]
fn calls_do_not_wait_for_a_server_that_does_not_come_back() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("server.py");
        fs::copy(SCRIPT, &script).unwrap();
        let server = service(&[("s", local(&["python3", script.to_str().unwrap(), "crash_call"]))]).await;
        ready(&server, "s").await;
        fs::remove_file(&script).unwrap();
        let lost = server.run("s_work", json!({})).await;
        assert_eq!(failed(&lost).error, "MCP error -32000: Connection closed");
        let waiting = server.run("s_work", json!({})).await;
        assert!(failed(&waiting).error.contains("Connection closed"), "{waiting:?}");
        let unknown = server.run("s_work", json!({})).await;
        assert_eq!(unknown.tool, "invalid", "{unknown:?}");
    });
}

#[test]
fn servers_end_with_the_service() {
    test(async {
        let (folder, mut server) = watched("fine", |_| {}).await;
        let marker = folder.path().join("seen").display().to_string();
        assert!(!processes(&marker).is_empty());
        server.stop().await;
        assert!(processes(&marker).is_empty());
    });
}

#[test]
fn a_call_that_waited_for_a_person_goes_on_after_a_crash_of_the_service() {
    test(async {
        let config = json!({"permission": {"s_work": "ask"}, "mcp": {"s": faulty_server("fine")}});
        let mut server = Server::with(Setup {
            config: Some(config),
            ..Setup::default()
        })
        .await;
        let request = kept("w1", request("s_work", json!({"path": "/srv/all"})));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        let Some(toolgate_contract::prompt::Request::Permission(asked)) = &prompt.request else {
            panic!("{prompt:?}")
        };
        let shown = toolgate_contract::json::struct_to_json(asked.metadata.clone().unwrap());
        assert_eq!(Value::Object(shown), json!({"input": {"path": "/srv/all"}}));
        server.kill9().await;
        server.restart().await;
        // The call takes its prompt up again a moment after its tool is there. It can be answered before.
        let answered = answer(&server, reply(&prompt, PromptDecision::Once)).await;
        assert_eq!(answered.result(), ReplyResult::Accepted);
        let log = server.watch("w1", 0).await.unwrap();
        match end_of(&log) {
            call::Ending::Completed(end) => assert_eq!(end.output, "fine"),
            other => panic!("{other:?}"),
        }
    });
}
