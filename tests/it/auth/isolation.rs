//! Whoever is limited to a workspace sees nothing of others.

use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::transport::Channel;
use toolgate_contract::info_service_client::InfoServiceClient;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{self, list_all, refused, test, watch_all};

fn sessions(channel: &Channel, token: &'static str) -> SessionServiceClient<Authorized> {
    SessionServiceClient::with_interceptor(channel.clone(), Bearer(token))
}

fn outputs(channel: &Channel, token: &'static str) -> OutputServiceClient<Authorized> {
    OutputServiceClient::with_interceptor(channel.clone(), Bearer(token))
}

fn call_id(id: &str) -> String {
    id.to_owned()
}

#[test]
fn a_principal_of_one_workspace_sees_nothing_of_another() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        let in_a = ask(&channel, ALICE, "a", "in-a", "").await;
        let in_b = ask(&channel, ALICE, "b", "in-b", "").await;
        // One that has an output and leaves a grant.
        let settled = ask_for(&channel, ALICE, "b", "ended-b", "", "seq 1 3").await;
        answer(&channel, BOB, &settled, PromptDecision::Always).await.unwrap();
        let request = support::watch_request("ended-b", 0, OutputMode::Full);
        let ended = tools(&channel, ALICE).watch_call(request).await.unwrap().into_inner();
        support::collect_watch(ended).await.unwrap();
        let anna = || tools(&channel, ANNA);
        let calls = anna()
            .list_calls(ListCallsRequest {
                workspace: "-".to_owned(),
                ..Default::default()
            })
            .await
            .unwrap()
            .into_inner()
            .calls;
        assert_eq!(
            calls.iter().map(|call| call.call_id.as_str()).collect::<Vec<_>>(),
            ["in-a"]
        );
        let listed = |token, workspace: &str| {
            let request = ListSessionsRequest {
                workspace: workspace.to_owned(),
                ..Default::default()
            };
            let mut client = sessions(&channel, token);
            async move {
                let listed = client.list_sessions(request).await?.into_inner().sessions;
                Ok::<_, tonic::Status>(listed.into_iter().map(|one| one.workspace).collect::<Vec<_>>())
            }
        };
        assert_eq!(listed(ANNA, "-").await.unwrap(), ["a"]);
        assert_eq!(listed(ANNA, "").await.unwrap(), ["a"]);
        assert_eq!(listed(BEN, "").await.unwrap(), ["b", "b"], "the first that he may see");
        assert_eq!(listed(ALICE, "-").await.unwrap(), ["b", "b", "a"]);
        refused(listed(ANNA, "b").await.map(drop), Code::NotFound, "NOT_FOUND");
        let named = ListCallsRequest {
            workspace: "b".to_owned(),
            ..Default::default()
        };
        let hidden = |result: Result<(), tonic::Status>| refused(result, Code::NotFound, "NOT_FOUND");
        hidden(anna().list_calls(named).await.map(drop));
        let get = |id: &str| GetCallRequest { call_id: call_id(id) };
        assert!(anna().get_call(get("in-a")).await.is_ok());
        hidden(anna().get_call(get("in-b")).await.map(drop));
        hidden(
            anna()
                .watch_call(support::watch_request("in-b", 0, OutputMode::Full))
                .await
                .map(drop),
        );
        hidden(
            anna()
                .cancel_call(CancelCallRequest {
                    call_id: call_id("in-b"),
                })
                .await
                .map(drop),
        );
        let input = SendInputRequest {
            call_id: call_id("in-b"),
            ..Default::default()
        };
        hidden(anna().send_input(input).await.map(drop));
        let revert = RevertCallRequest {
            call_id: call_id("ended-b"),
            ..Default::default()
        };
        hidden(anna().revert_call(revert).await.map(drop));
        let foreign = |context: CallContext| ExecuteToolRequest {
            context: Some(context),
            ..support::bash("true")
        };
        let in_b_context = CallContext {
            workspace: "b".to_owned(),
            ..Default::default()
        };
        hidden(anna().execute_tool(foreign(in_b_context)).await.map(drop));
        let under_b = CallContext {
            parent_call_id: call_id("in-b"),
            ..Default::default()
        };
        hidden(anna().execute_tool(foreign(under_b)).await.map(drop));
        let list = ListToolsRequest {
            workspace: "b".to_owned(),
            ..Default::default()
        };
        hidden(anna().list_tools(list).await.map(drop));

        let listed = prompts(&channel, ANNA).list_prompts(list_all()).await;
        let listed = listed.unwrap().into_inner().prompts;
        assert_eq!(
            listed.iter().map(|prompt| &prompt.prompt_id).collect::<Vec<_>>(),
            [&in_a.prompt_id]
        );
        let get = GetPromptRequest {
            prompt_id: in_b.prompt_id.clone(),
        };
        hidden(prompts(&channel, ANNA).get_prompt(get).await.map(drop));
        let unseen = answer(&channel, ANNA, &in_b, PromptDecision::Once).await.unwrap();
        assert_eq!((unseen.result(), unseen.prompt), (ReplyResult::NotFound, None));
        let watch = prompts(&channel, ANNA).watch_prompts(watch_all()).await;
        let mut watch = watch.unwrap().into_inner();
        let mut snapshot = Vec::new();
        loop {
            match watch.message().await.unwrap().unwrap().message.unwrap() {
                watch_prompts_response::Message::PromptAdded(added) => snapshot.push(added.prompt.unwrap().prompt_id),
                watch_prompts_response::Message::SnapshotEnd(_) => break,
                _ => {}
            }
        }
        assert_eq!(snapshot, std::slice::from_ref(&in_a.prompt_id));
        let grants = |token| {
            let mut client = prompts(&channel, token);
            async move {
                client
                    .list_grants(ListGrantsRequest::default())
                    .await
                    .unwrap()
                    .into_inner()
                    .grants
            }
        };
        let standing = grants(BEN).await;
        assert!(!standing.is_empty());
        assert!(grants(ANNA).await.is_empty());
        let revoke = RevokeGrantRequest {
            grant_id: standing[0].grant_id.clone(),
        };
        hidden(prompts(&channel, ANNA).revoke_grant(revoke).await.map(drop));
        let evaluate = EvaluateCallRequest {
            context: Some(CallContext {
                workspace: "b".to_owned(),
                ..CallContext::default()
            }),
            tool: "bash".to_owned(),
            ..Default::default()
        };
        hidden(anna().evaluate_call(evaluate).await.map(drop));

        let stored = |token| {
            let mut client = outputs(&channel, token);
            async move {
                client
                    .list_outputs(ListOutputsRequest::default())
                    .await
                    .unwrap()
                    .into_inner()
                    .outputs
            }
        };
        let output = stored(BEN)
            .await
            .first()
            .expect("a command has an output")
            .output_id
            .clone();
        assert!(stored(ANNA).await.is_empty());
        let get = GetOutputRequest {
            output_id: output.clone(),
        };
        hidden(outputs(&channel, ANNA).get_output(get).await.map(drop));
        let read = ReadOutputRequest {
            output_id: output.clone(),
            ..Default::default()
        };
        hidden(outputs(&channel, ANNA).read_output(read).await.map(drop));
        hidden(
            outputs(&channel, ANNA)
                .delete_output(DeleteOutputRequest { output_id: output })
                .await
                .map(drop),
        );

        let end = EndSessionRequest {
            session_id: in_b.session_id.clone(),
            ..Default::default()
        };
        // The session of that name in her own workspace, which is none of the other.
        let ended = sessions(&channel, ANNA).end_session(end).await.unwrap().into_inner();
        assert_eq!(ended.cancelled_calls, 0);
        let waits = tools(&channel, BEN)
            .get_call(GetCallRequest {
                call_id: call_id("in-b"),
            })
            .await;
        let waits = waits.unwrap().into_inner().call.unwrap();
        assert_eq!(waits.state(), CallState::Waiting);
        let get = GetSessionRequest {
            session_id: in_b.session_id.clone(),
            ..Default::default()
        };
        let session = sessions(&channel, ANNA)
            .get_session(get)
            .await
            .unwrap()
            .into_inner()
            .session
            .unwrap();
        assert!(session.recent_calls.is_empty() && session.open_prompts.is_empty() && session.grants.is_empty());
        let watch = WatchEventsRequest {
            after_sequence: Some(0),
            workspace: "-".to_owned(),
            ..Default::default()
        };
        let events = sessions(&channel, ANNA).watch_events(watch).await.unwrap().into_inner();
        ask(&channel, ALICE, "b", "last-b", "").await;
        ask(&channel, ALICE, "a", "last-a", "").await;
        let mut seen = events.map(|event| event.unwrap().event.unwrap());
        loop {
            let event = seen.next().await.unwrap();
            assert!(event.workspace == "a" || event.workspace.is_empty(), "{event:?}");
            let is_last = |event: &Event| format!("{event:?}").contains("last-a");
            if is_last(&event) {
                break;
            }
        }
        let mut info = InfoServiceClient::with_interceptor(channel.clone(), Bearer(BEN));
        let info = info
            .get_server_info(GetServerInfoRequest {})
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            info.workspaces.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
            ["b"]
        );
        // The default workspace is the first that one may see.
        assert_eq!(ask(&channel, BEN, "", "default-b", "").await.workspace, "b");
        service.stop().await;
    });
}
