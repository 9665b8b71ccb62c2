//! The audit says who: the principal of each call, reply and refusal, whatever somebody calls itself.

use serde_json::json;
use tonic::transport::Channel;
use toolgate_contract::audit_service_client::AuditServiceClient;
use toolgate_contract::*;
use toolgate_store::audit::{Fact, Kind, Record, Verifier};

use super::setup::*;
use crate::support::{collect_watch, reply, request, test, watch_request};

/// The facts of the audit, which verifies.
async fn facts(channel: &Channel) -> Vec<Fact> {
    let mut client = AuditServiceClient::with_interceptor(channel.clone(), Bearer(CAROL));
    let request = ExportAuditRequest::default();
    let mut parts = client.export_audit(request).await.unwrap().into_inner();
    let (mut lines, mut head) = (Vec::new(), String::new());
    while let Some(part) = parts.message().await.unwrap() {
        lines.extend(part.records);
        head += &part.head_line;
    }
    let text = lines.join("\n") + "\n" + &head + "\n";
    Verifier::default().text(text.as_bytes()).unwrap();
    let fact = |line: &String| serde_json::from_str::<Record>(line).unwrap().fact;
    lines.iter().map(fact).collect()
}

/// Replies in somebody else's name, as far as words go.
async fn try_reply(
    channel: &Channel,
    token: &'static str,
    reply: PromptReply,
) -> Result<PromptReplyResult, tonic::Status> {
    let request = ReplyPromptRequest {
        reply: Some(reply),
        name: "token:carol".to_owned(),
    };
    let response = prompts(channel, token).reply_prompt(request).await?;
    Ok(response.into_inner().result.unwrap())
}

#[test]
fn it_names_principals() {
    test(async {
        let folder = Folder::new();
        let settings = format!("{}\npermission.second_approver = [\"edit\"]", with_tokens(&folder));
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;

        let asked = ask(&channel, ALICE, "a", "c", "").await;
        let once = reply(&asked, PromptDecision::Once);
        let own = try_reply(&channel, ALICE, once).await;
        not_allowed(own);
        let instead = PromptReply {
            input_json: json!({ "command": "echo other", "description": "d" }).to_string(),
            input_digest: asked.input_digest.clone(),
            ..reply(&asked, PromptDecision::Instead)
        };
        let taken = try_reply(&channel, BOB, instead).await.unwrap();
        assert_eq!(taken.result(), ReplyResult::Accepted);
        let shown = prompts(&channel, BOB)
            .get_prompt(GetPromptRequest {
                prompt_id: asked.prompt_id.clone(),
            })
            .await
            .unwrap();
        let resolution = shown.into_inner().prompt.unwrap().resolution.unwrap();
        assert_eq!(
            resolution.resolved_by, "bob (token:carol)",
            "people see what somebody calls itself as well"
        );

        // One call below another's, that takes two.
        let write = json!({ "filePath": "new", "content": "x" });
        let two = ask_with(&channel, BOB, "a", "two", "c", request("write", write)).await;
        let mut always = reply(&two, PromptDecision::Always);
        always.input_digest = two.input_digest.clone();
        let first = try_reply(&channel, CAROL, always).await.unwrap();
        assert_eq!(first.result(), ReplyResult::SecondApprovalNeeded);
        let second = try_reply(&channel, ANNA, reply(&two, PromptDecision::Once))
            .await
            .unwrap();
        assert_eq!(second.result(), ReplyResult::Accepted);

        let granting = ask(&channel, ALICE, "a", "granting", "").await;
        try_reply(&channel, BOB, reply(&granting, PromptDecision::Always))
            .await
            .unwrap();
        let grants = prompts(&channel, CAROL).list_grants(ListGrantsRequest::default()).await;
        let grant_id = grants.unwrap().into_inner().grants[0].grant_id.clone();
        let revoke = RevokeGrantRequest { grant_id };
        prompts(&channel, CAROL).revoke_grant(revoke).await.unwrap();
        for call in ["c", "two", "granting"] {
            let request = watch_request(call, 0, OutputMode::None);
            let events = tools(&channel, CAROL).watch_call(request).await.unwrap().into_inner();
            collect_watch(events).await.unwrap();
        }

        let facts = facts(&channel).await;
        let of = |call: &str| {
            let of_call = |fact: &&Fact| fact.call.as_ref().is_some_and(|id| id.as_str() == call);
            facts.iter().filter(of_call).collect::<Vec<_>>()
        };
        let said = |call: &str| -> Vec<(Kind, String, String, String)> {
            let say = |fact: &&Fact| {
                (
                    fact.kind,
                    fact.requester.clone(),
                    fact.by.clone(),
                    fact.decision.clone(),
                )
            };
            of(call).iter().map(say).collect()
        };
        let row = |kind, requester: &str, by: &str, decision: &str| {
            (kind, requester.to_owned(), by.to_owned(), decision.to_owned())
        };
        let (alice, bob) = ("token:alice", "token:bob");
        assert_eq!(
            said("c"),
            [
                row(Kind::Admitted, alice, "", ""),
                row(Kind::Prompted, alice, "", ""),
                row(Kind::Refused, alice, alice, ""),
                row(Kind::Decided, alice, bob, "instead"),
                row(Kind::Allowed, alice, "", ""),
                row(Kind::Ended, alice, "", "completed"),
            ]
        );
        let edited = of("c");
        let (prompted, decided, ended) = (edited[1], edited[3], edited[5]);
        assert_eq!(
            (&prompted.input_digest, &decided.input_digest),
            (&asked.input_digest, &asked.input_digest)
        );
        assert_eq!(
            (&decided.reason, &ended.input_digest),
            (&resolution.input_digest, &resolution.input_digest)
        );
        assert_eq!(edited[4].reason, "edited");
        assert_eq!(edited[2].reason, "self_approval");

        assert_eq!(
            said("two"),
            [
                row(Kind::Admitted, bob, "", ""),
                row(Kind::Prompted, bob, "", ""),
                row(Kind::Approved, bob, "token:carol", ""),
                row(Kind::Approved, bob, "token:anna", ""),
                row(Kind::Decided, bob, "token:anna", "once"),
                row(Kind::Ended, bob, "", "completed"),
            ]
        );
        let two = of("two");
        assert_eq!(two[0].parent.as_ref().map(ToString::to_string).as_deref(), Some("c"));
        assert!(two.iter().all(|fact| fact.input_digest == two[0].input_digest));
        assert_eq!(two[2].permission, "edit");

        let made = of("granting")
            .into_iter()
            .find(|fact| fact.kind == Kind::Decided)
            .unwrap();
        let revoked = facts.iter().find(|fact| fact.kind == Kind::Revoked).unwrap();
        assert_eq!((made.by.as_str(), revoked.by.as_str()), (bob, "token:carol"));
        assert_eq!(made.grants, revoked.grants);
    });
}
