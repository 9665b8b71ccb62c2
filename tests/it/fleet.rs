//! Gateways that share a database, and workers that keep nothing: what one of them does is seen at the other, and what dies loses
//! nothing that was stored.
//!
//! *Invariant:* every process is a real one, and is killed as such.

mod agents;
mod away;
mod bounds;
mod chaos;
mod clock;
mod clocks;
mod commands;
mod deaths;
mod dice;
mod imported;
mod line;
mod long_outputs;
mod machines;
mod made;
mod many;
mod plugins;
mod rolled;
mod rules;
#[allow(dead_code)] // the tests of the store itself use all of it
#[path = "../../crates/postgres/tests/store/s3.rs"]
mod s3;
mod sandboxes;
#[allow(dead_code)] // the tests of the store itself use all of it
#[path = "../../crates/postgres/tests/store/server.rs"]
pub(crate) mod server;
mod setup;
mod simulated;
mod skew;
mod told;
mod watched;

use toolgate_contract::audit_service_client::AuditServiceClient;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::watch_prompts_response::Message;
use toolgate_contract::*;

use self::setup::Fleet;
use crate::gateway::setup::*;
use crate::support::{self, collect, completed, end_of, everybody, refused, test, waiting};

#[test]
fn what_happens_at_one_gateway_is_known_at_the_other() {
    test(async {
        let fleet = Fleet::start().await;
        let made = fleet.run(0, "wa", "seq 3000").await.unwrap();
        let other = fleet.run(1, "wb", "echo b").await.unwrap();
        let found = fleet.get(1, &made.call_id).await.unwrap();
        assert_eq!(found, made);
        let mut tools = fleet.tools(1, ANNA).await;
        let list = ListCallsRequest {
            workspace: "-".to_owned(),
            ..ListCallsRequest::default()
        };
        let listed = tools.list_calls(list.clone()).await.unwrap().into_inner().calls;
        let ids: Vec<&str> = listed.iter().map(|call| call.call_id.as_str()).collect();
        assert_eq!(ids, [other.call_id.as_str(), made.call_id.as_str()]);
        // Who sees one workspace sees one call.
        let mut of_ben = fleet.tools(0, BEN).await;
        let listed = of_ben.list_calls(list).await.unwrap().into_inner().calls;
        assert_eq!(listed.len(), 1);
        let hidden = GetCallRequest {
            call_id: made.call_id.clone(),
        };
        refused(of_ben.get_call(hidden).await, tonic::Code::NotFound, "NOT_FOUND");

        let output_id = completed(&made).truncation.as_ref().unwrap().output_id.clone();
        let mut outputs = OutputServiceClient::with_interceptor(fleet.channel(1).await, Shown(ANNA, None));
        let read = ReadOutputRequest { output_id, range: None };
        let mut stream = outputs.read_output(read).await.unwrap().into_inner();
        let mut data = Vec::new();
        while let Some(part) = stream.message().await.unwrap() {
            data.extend_from_slice(&part.data);
        }
        let expected: String = (1..=3000).map(|number| format!("{number}\n")).collect();
        assert!(String::from_utf8(data).unwrap() == expected);

        let mut heads = Vec::new();
        for gateway in 0..2 {
            let mut audit = AuditServiceClient::with_interceptor(fleet.channel(gateway).await, Shown(ANNA, None));
            let head = audit.get_audit_head(GetAuditHeadRequest {}).await.unwrap().into_inner();
            heads.push(head.head.unwrap().sequence);
        }
        assert!(heads[0] > 4 && heads[1] >= heads[0], "{heads:?}");
        fleet.assert_calm();
    });
}

#[test]
fn what_is_asked_through_one_gateway_is_answered_at_the_other() {
    test(async {
        let fleet = Fleet::start().await;
        let mut asking = fleet.tools(0, ANNA).await;
        let mut asking = asking
            .execute_tool(bash("wa", "echo ask 1"))
            .await
            .unwrap()
            .into_inner();
        let request = WatchPromptsRequest {
            filter: Some(everybody()),
        };
        let mut watched = fleet
            .prompts(1, CARL)
            .await
            .watch_prompts(request)
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut asking).await;
        let seen = loop {
            if let Some(Message::PromptAdded(added)) = watched.message().await.unwrap().unwrap().message {
                break added.prompt.unwrap();
            }
        };
        assert_eq!(seen.prompt_id, prompt.prompt_id);
        // Nobody answers what is asked in their own name, and a worker answers nothing.
        let own = ReplyPromptRequest {
            reply: Some(support::reply(&prompt, PromptDecision::Once)),
            ..ReplyPromptRequest::default()
        };
        let refused = fleet
            .prompts(1, ANNA)
            .await
            .reply_prompt(own)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(refused.result.unwrap().result(), ReplyResult::NotAllowed);
        let taken = fleet.allow(1, &seen).await.unwrap();
        assert_eq!(taken.result(), ReplyResult::Accepted);
        let late = fleet.allow(0, &seen).await.unwrap();
        assert_eq!(late.result(), ReplyResult::AlreadyResolved);
        let events = collect(asking).await.unwrap();
        assert!(matches!(end_of(&events), call::Ending::Completed(_)), "{events:?}");
        loop {
            if let Some(Message::PromptResolved(resolved)) = watched.message().await.unwrap().unwrap().message {
                assert_eq!(resolved.prompt.unwrap().prompt_id, prompt.prompt_id);
                break;
            }
        }
        fleet.assert_calm();
    });
}

#[test]
fn what_is_allowed_for_good_is_granted_everywhere() {
    test(async {
        let fleet = Fleet::start().await;
        let mut asking = fleet.tools(0, ANNA).await;
        let mut first = asking
            .execute_tool(bash("wa", "echo ask 1"))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut first).await;
        let always = ReplyPromptRequest {
            reply: Some(support::reply(&prompt, PromptDecision::Always)),
            ..ReplyPromptRequest::default()
        };
        let taken = fleet
            .prompts(1, CARL)
            .await
            .reply_prompt(always)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(taken.result.unwrap().result(), ReplyResult::Accepted);
        collect(first).await.unwrap();
        // The same again is not asked.
        let again = fleet.run(1, "wa", "echo ask 1").await.unwrap();
        completed(&again);
        let list = ListGrantsRequest {
            workspace: "wa".to_owned(),
            ..ListGrantsRequest::default()
        };
        for gateway in 0..2 {
            let mut prompts = fleet.prompts(gateway, CARL).await;
            let grants = prompts.list_grants(list.clone()).await.unwrap().into_inner().grants;
            assert_eq!(grants.len(), 1, "{grants:?}");
            if gateway == 0 {
                continue;
            }
            let revoke = RevokeGrantRequest {
                grant_id: grants[0].grant_id.clone(),
            };
            prompts.revoke_grant(revoke).await.unwrap();
        }
        let mut asking = fleet.tools(1, ANNA).await;
        let mut third = asking
            .execute_tool(bash("wa", "echo ask 1"))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut third).await;
        fleet.allow(0, &prompt).await.unwrap();
        collect(third).await.unwrap();
        fleet.assert_calm();
    });
}
