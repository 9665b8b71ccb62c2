//! Workspaces are apart: what has the same name in two of them is two things, and nobody learns of the other one.

use serde_json::{Value, json};
use tonic::Code;
use tonic::transport::Channel;
use toolgate_contract::audit_service_client::AuditServiceClient;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{self, completed, end_of, output_of, refused, request, test};

fn sessions(channel: &Channel, token: &'static str) -> SessionServiceClient<Authorized> {
    SessionServiceClient::with_interceptor(channel.clone(), Bearer(token))
}

/// A call of a session in the first workspace that the caller may see.
fn of_session(session: &str, request: ExecuteToolRequest) -> RunToolRequest {
    support::run_request(support::in_session(session, request))
}

async fn run(channel: &Channel, token: &'static str, request: RunToolRequest) -> Call {
    let response = tools(channel, token).run_tool(request).await.unwrap();
    response.into_inner().call.unwrap()
}

async fn todos(channel: &Channel, token: &'static str, session: &str, workspace: &str) -> Vec<String> {
    let request = GetSessionRequest {
        session_id: session.to_owned(),
        workspace: workspace.to_owned(),
    };
    let response = sessions(channel, token).get_session(request).await.unwrap();
    let todos = response.into_inner().session.unwrap().todos;
    todos.into_iter().map(|todo| todo.content).collect()
}

fn list(content: &str) -> Value {
    json!({ "todos": [{ "content": content, "status": "pending", "priority": "high", "id": "1" }] })
}

#[test]
fn a_session_of_the_same_id_in_another_workspace_is_another_one() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        run(&channel, ANNA, of_session("s", request("todowrite", list("of a")))).await;
        let read = run(&channel, BEN, of_session("s", request("todoread", json!({})))).await;
        assert_eq!(completed(&read).output, "[]");
        assert!(todos(&channel, BEN, "s", "").await.is_empty());
        run(&channel, BEN, of_session("s", request("todowrite", list("of b")))).await;
        assert_eq!(todos(&channel, ANNA, "s", "").await, ["of a"]);
        assert_eq!(todos(&channel, ALICE, "s", "a").await, ["of a"]);
        assert_eq!(todos(&channel, ALICE, "s", "b").await, ["of b"]);
        assert_eq!(todos(&channel, ALICE, "s", "-").await, ["of b"], "the latest call's");

        let asked = ask(&channel, ANNA, "", "waits", "").await;
        let end = |workspace: &str| EndSessionRequest {
            session_id: "session-waits".to_owned(),
            workspace: workspace.to_owned(),
        };
        let ended = sessions(&channel, BEN).end_session(end("")).await.unwrap().into_inner();
        assert_eq!(ended.cancelled_calls, 0);
        let other = sessions(&channel, BEN).end_session(end("a")).await;
        refused(other, Code::NotFound, "NOT_FOUND");
        answer(&channel, ALICE, &asked, PromptDecision::Once).await.unwrap();
        let end = EndSessionRequest {
            session_id: "s".to_owned(),
            ..Default::default()
        };
        sessions(&channel, BEN).end_session(end).await.unwrap();
        assert!(todos(&channel, BEN, "s", "").await.is_empty());
        assert_eq!(todos(&channel, ANNA, "s", "").await, ["of a"]);
        service.stop().await;
    });
}

#[test]
fn a_call_id_is_a_name_of_its_workspace() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        let of_anna = ask(&channel, ANNA, "", "same", "").await;
        let of_ben = ask_for(&channel, BEN, "", "same", "", "echo other").await;
        assert_eq!((of_anna.workspace.as_str(), of_ben.workspace.as_str()), ("a", "b"));
        assert_eq!((of_anna.call_id.as_str(), of_ben.call_id.as_str()), ("same", "same"));
        // The same request once more attaches, and another one is refused, as in a workspace alone.
        let again = ask_for(&channel, BEN, "", "same", "", "echo other").await;
        assert_eq!(again.prompt_id, of_ben.prompt_id);
        let other = tools(&channel, BEN)
            .execute_tool(support::kept("same", support::bash("third")))
            .await;
        refused(other, Code::AlreadyExists, "CALL_ID_TAKEN");

        let get = |id: &str| GetCallRequest { call_id: id.to_owned() };
        let seen = async |token, id: &str| {
            let call = tools(&channel, token)
                .get_call(get(id))
                .await?
                .into_inner()
                .call
                .unwrap();
            Ok::<_, tonic::Status>((call.context.unwrap().workspace, call.call_id))
        };
        let named = |workspace: &str| (workspace.to_owned(), "same".to_owned());
        assert_eq!(seen(ANNA, "same").await.unwrap(), named("a"));
        assert_eq!(seen(BEN, "same").await.unwrap(), named("b"));
        refused(seen(ALICE, "same").await, Code::FailedPrecondition, "AMBIGUOUS_CALL_ID");
        assert_eq!(seen(ALICE, "same~a").await.unwrap(), named("a"));
        assert_eq!(seen(ALICE, "same~b").await.unwrap(), named("b"));
        refused(seen(BEN, "same~a").await, Code::NotFound, "NOT_FOUND");
        refused(seen(ALICE, "same~c").await, Code::NotFound, "NOT_FOUND");

        answer(&channel, BOB, &of_ben, PromptDecision::Once).await.unwrap();
        let watched = support::watch_request("same", 0, OutputMode::Full);
        let watched = tools(&channel, BEN).watch_call(watched).await.unwrap().into_inner();
        let events = support::collect_watch(watched).await.unwrap();
        assert_eq!(output_of(&events), b"other\n");
        assert!(events.iter().all(|event| event.call_id == "same"));
        let filter = ListOutputsRequest {
            call_id: "same".to_owned(),
            ..Default::default()
        };
        let outputs = |token| OutputServiceClient::with_interceptor(channel.clone(), Bearer(token));
        let listed = outputs(BEN)
            .list_outputs(filter.clone())
            .await
            .unwrap()
            .into_inner()
            .outputs;
        assert_eq!(listed.len(), 1);
        assert!(
            outputs(ANNA)
                .list_outputs(filter)
                .await
                .unwrap()
                .into_inner()
                .outputs
                .is_empty()
        );
        let cancel = CancelCallRequest {
            call_id: "same".to_owned(),
        };
        tools(&channel, BEN).cancel_call(cancel).await.unwrap();
        let left = tools(&channel, ANNA)
            .get_call(get("same"))
            .await
            .unwrap()
            .into_inner()
            .call
            .unwrap();
        assert_eq!(left.state(), CallState::Waiting);
        service.stop().await;
    });
}

#[test]
fn an_agent_gets_to_the_outputs_of_its_own_workspace_only() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        let mut paths = Vec::new();
        for (token, id) in [(ANNA, "in-a"), (BEN, "in-b")] {
            let asked = ask_for(&channel, token, "", id, "", "seq 100000").await;
            answer(&channel, BOB, &asked, PromptDecision::Once).await.unwrap();
            let watch = support::watch_request(id, 0, OutputMode::None);
            let events = tools(&channel, token).watch_call(watch).await.unwrap().into_inner();
            let events = support::collect_watch(events).await.unwrap();
            let call::Ending::Completed(end) = end_of(&events) else {
                panic!("{events:?}")
            };
            paths.push(end.truncation.unwrap().path);
        }
        let [of_a, of_b] = [0, 1].map(|at| std::path::PathBuf::from(&paths[at]));
        let ways = |file: &std::path::Path| {
            let parent = file.parent().unwrap();
            [
                ("read", json!({ "filePath": file, "limit": 1 })),
                ("grep", json!({ "pattern": "^99999$", "path": parent })),
                ("glob", json!({ "pattern": "*", "path": parent })),
                ("list", json!({ "path": parent })),
            ]
        };
        for (tool, input) in ways(&of_b) {
            let call = run(&channel, BEN, support::run_request(request(tool, input))).await;
            assert!(
                matches!(call.ending, Some(call::Ending::Completed(_))),
                "{tool}: {:?}",
                call.ending
            );
        }
        let every = of_a.ancestors().nth(3).unwrap();
        let mut foreign = ways(&of_a).to_vec();
        foreign.push(("grep", json!({ "pattern": "^99999$", "path": every })));
        foreign.push((
            "bash",
            json!({ "command": format!("cat {}", of_a.display()), "description": "d" }),
        ));
        for (index, (tool, input)) in foreign.into_iter().enumerate() {
            let id = format!("foreign-{index}");
            let asked = ask_with(&channel, BEN, "", &id, "", request(tool, input)).await;
            let Some(prompt::Request::Permission(asked)) = asked.request else {
                panic!("{asked:?}")
            };
            assert_eq!(asked.permission, "external_directory", "{tool}");
        }
        service.stop().await;
    });
}

#[test]
fn the_audit_of_all_is_for_who_may_see_all() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        ask(&channel, ANNA, "", "in-a", "").await;
        let audits = |token| AuditServiceClient::with_interceptor(channel.clone(), Bearer(token));
        let export = audits(BEN).export_audit(ExportAuditRequest::default()).await;
        refused(export.map(drop), Code::PermissionDenied, "WORKSPACES_LIMITED");
        let head = audits(BEN).get_audit_head(GetAuditHeadRequest {}).await;
        refused(head, Code::PermissionDenied, "WORKSPACES_LIMITED");
        assert!(audits(ALICE).export_audit(ExportAuditRequest::default()).await.is_ok());
        service.stop().await;
    });
}
