//! Nobody answers for themselves, and some things take two.

use futures_util::future::join_all;
use serde_json::json;
use tonic::Code;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{self, Approver, Random, Server, Setup, refused, test};

#[test]
fn who_asked_does_not_answer() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        let own = ask(&channel, ALICE, "a", "own", "").await;
        assert_eq!(own.requester, "token:alice");
        for decision in [PromptDecision::Once, PromptDecision::Always, PromptDecision::Reject] {
            let result = answer(&channel, ALICE, &own, decision).await;
            not_allowed(result);
        }
        // A call below it, made by somebody else, is hers as well.
        let below = ask(&channel, BOB, "a", "below", "own").await;
        assert_eq!(
            (below.requester.as_str(), below.on_behalf_of.as_slice()),
            ("token:bob", ["token:alice".to_owned()].as_slice())
        );
        for token in [ALICE, BOB] {
            let result = answer(&channel, token, &below, PromptDecision::Once).await;
            not_allowed(result);
        }
        let settled = answer(&channel, CAROL, &below, PromptDecision::Once).await.unwrap();
        assert_eq!(settled.result(), ReplyResult::Accepted);
        let resolution = settled.prompt.unwrap().resolution.unwrap();
        assert_eq!(resolution.resolved_by, "carol (somebody)");
        // What Bob allows for good holds for Alice, and not for himself.
        let always = answer(&channel, BOB, &own, PromptDecision::Always).await.unwrap();
        assert_eq!(always.result(), ReplyResult::Accepted);
        let request = ExecuteToolRequest {
            context: Some(CallContext {
                workspace: "a".to_owned(),
                ..Default::default()
            }),
            ..support::bash("echo own")
        };
        let run = tools(&channel, ALICE)
            .run_tool(support::run_request(request))
            .await
            .unwrap();
        support::completed(&run.into_inner().call.unwrap());
        assert_eq!(ask(&channel, BOB, "a", "own-of-bob", "").await.requester, "token:bob");
        service.stop().await;
    });
}

#[test]
fn who_only_watches_is_no_approver_and_reaches_no_program_of_others() {
    test(async {
        let folder = Folder::new();
        folder.put(
            "tokens",
            "alice alice-alice-alice-alice *\n\
             bob bob-bob-bob-bob-bob-bob calls.read,calls.execute\n\
             carol carol-carol-carol-carol prompts.reply\n",
        );
        let settings = format!("{ON_A_PORT}\nauth.tokens_file = \"tokens\"");
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let everything = || PromptFilter {
            all: true,
            workspace: "-".to_owned(),
            ..PromptFilter::default()
        };
        let watch = |token| {
            let request = WatchPromptsRequest {
                filter: Some(everything()),
            };
            let mut client = prompts(&channel, token);
            async move { client.watch_prompts(request).await.unwrap().into_inner() }
        };
        let run = |token| {
            let request = RunToolRequest {
                unattended: Unattended::Refuse.into(),
                ..support::run_request(ExecuteToolRequest {
                    context: Some(CallContext {
                        workspace: "a".to_owned(),
                        ..CallContext::default()
                    }),
                    ..support::bash("echo x")
                })
            };
            let mut client = tools(&channel, token);
            async move { client.run_tool(request).await.unwrap().into_inner().call.unwrap() }
        };
        let _watching = watch(BOB).await;
        let unseen = run(BOB).await;
        assert_eq!(
            support::failed(&unseen).reason(),
            FailureReason::PromptExpired,
            "Bob cannot answer"
        );
        // An approver needs no other scope to see what it is to answer.
        let mut approving = watch(CAROL).await;
        let call = tokio::task::JoinSet::from_iter([run(BOB)]);
        let prompt = loop {
            let message = approving.message().await.unwrap().unwrap().message.unwrap();
            if let watch_prompts_response::Message::PromptAdded(added) = message {
                break added.prompt.unwrap();
            }
        };
        answer(&channel, CAROL, &prompt, PromptDecision::Once).await.unwrap();
        support::completed(&call.join_all().await[0]);

        // What was approved for Alice reads what Alice sends, or who may approve.
        let input = serde_json::json!({"command": "cat", "description": "d"});
        let background = support::request("background", input);
        let waiting = ask_with(&channel, ALICE, "a", "cat", "", background).await;
        answer(&channel, CAROL, &waiting, PromptDecision::Once).await.unwrap();
        let send = |token, offset, close: bool| {
            let request = SendInputRequest {
                call_id: "cat".to_owned(),
                offset,
                data: b"x"[..usize::from(!close)].to_vec().into(),
                close,
            };
            let mut client = tools(&channel, token);
            async move { client.send_input(request).await }
        };
        refused(send(BOB, 0, false).await, Code::PermissionDenied, "FOREIGN_CALL");
        let signal = SignalCallRequest {
            call_id: "cat".to_owned(),
            signal: Signal::Term.into(),
        };
        let foreign = tools(&channel, BOB).signal_call(signal).await;
        refused(foreign, Code::PermissionDenied, "FOREIGN_CALL");
        send(ALICE, 0, false).await.unwrap();
        send(ALICE, 1, true).await.unwrap();
        let mut watching = tools(&channel, ALICE);
        let events = watching
            .watch_call(support::watch_request("cat", 0, OutputMode::Full))
            .await;
        let events = support::collect_watch(events.unwrap().into_inner()).await.unwrap();
        assert!(matches!(support::end_of(&events), call::Ending::Completed(end) if end.output == "x"));
        service.stop().await;
    });
}

#[test]
fn a_workspace_may_let_them() {
    test(async {
        let folder = Folder::new();
        let settings = format!("{}\npermission.self_approval = true", with_tokens(&folder));
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let own = ask(&channel, ALICE, "a", "own", "").await;
        let settled = answer(&channel, ALICE, &own, PromptDecision::Once).await.unwrap();
        assert_eq!(settled.result(), ReplyResult::Accepted);
        service.stop().await;
    });
}

#[test]
fn the_owner_answers_on_its_socket() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let socket = format!("unix:{}", folder.path("s").display());
        let channel = tonic::transport::Endpoint::from_shared(socket)
            .unwrap()
            .connect()
            .await
            .unwrap();
        let own = ask(&channel, "", "a", "own", "").await;
        assert!(own.requester.starts_with("unix:"), "{}", own.requester);
        let settled = answer(&channel, "", &own, PromptDecision::Once).await.unwrap();
        assert_eq!(settled.result(), ReplyResult::Accepted);
        service.stop().await;
    });
}

#[test]
fn two_approve_and_one_refuses() {
    test(async {
        let folder = Folder::new();
        let settings = format!("{}\npermission.second_approver = [\"bash\"]", with_tokens(&folder));
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let prompt = ask(&channel, ALICE, "a", "two", "").await;
        let result = answer(&channel, ALICE, &prompt, PromptDecision::Once).await;
        not_allowed(result);
        for _ in 0..2 {
            let first = answer(&channel, BOB, &prompt, PromptDecision::Always).await.unwrap();
            assert_eq!(first.result(), ReplyResult::SecondApprovalNeeded);
            let shown = first.prompt.unwrap();
            assert_eq!(shown.state(), PromptState::Open);
            assert_eq!(shown.approvals.len(), 1);
            assert_eq!(shown.approvals[0].principal, "token:bob");
        }
        let second = answer(&channel, CAROL, &prompt, PromptDecision::Once).await.unwrap();
        assert_eq!(second.result(), ReplyResult::Accepted);
        let settled = second.prompt.unwrap();
        // Once and always are once.
        assert_eq!(settled.resolution.unwrap().decision(), PromptDecision::Once);
        assert_eq!(settled.approvals.len(), 2);
        let grants = prompts(&channel, BOB).list_grants(ListGrantsRequest::default()).await;
        assert!(grants.unwrap().into_inner().grants.is_empty());
        // One refusal is enough.
        let prompt = ask(&channel, ALICE, "a", "no", "").await;
        answer(&channel, BOB, &prompt, PromptDecision::Once).await.unwrap();
        let rejected = answer(&channel, CAROL, &prompt, PromptDecision::Reject).await.unwrap();
        assert_eq!(rejected.result(), ReplyResult::Accepted);
        service.stop().await;
    });
}

#[test]
fn a_first_approval_survives_a_crash() {
    test(async {
        let folder = Folder::new();
        folder.put("tokens", TOKENS);
        let tokens = folder.path("tokens").display().to_string();
        let setup = Setup::permission(json!({"bash": "ask"}))
            .env("TOOLGATE_AUTH_TOKENS_FILE", &tokens)
            .env("TOOLGATE_PERMISSION_SECOND_APPROVER", "bash");
        let mut server = Server::with(setup).await;
        let prompt = ask(&server.channel(), ALICE, "", "crash", "").await;
        let first = answer(&server.channel(), BOB, &prompt, PromptDecision::Once)
            .await
            .unwrap();
        assert_eq!(first.result(), ReplyResult::SecondApprovalNeeded);
        server.kill9().await;
        server.restart().await;
        let again = answer(&server.channel(), BOB, &prompt, PromptDecision::Once)
            .await
            .unwrap();
        assert_eq!(again.result(), ReplyResult::SecondApprovalNeeded);
        let own = answer(&server.channel(), ALICE, &prompt, PromptDecision::Once).await;
        not_allowed(own);
        let second = answer(&server.channel(), CAROL, &prompt, PromptDecision::Once)
            .await
            .unwrap();
        assert_eq!(second.result(), ReplyResult::Accepted);
        assert_eq!(second.prompt.unwrap().approvals.len(), 2);
        assert!(!server.log().contains(ALICE), "no token in the log");
        server.stop().await;
    });
}

#[test]
fn without_authentication_everybody_answers() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(ON_A_PORT).await.unwrap();
        let channel = service.connect().await;
        let mut approver = Approver::open(channel.clone(), "me").await.unwrap();
        let own = ask(&channel, "", "a", "own", "").await;
        assert_eq!(own.requester, "");
        assert!(approver.added().await.prompt_id == own.prompt_id);
        let settled = answer(&channel, "", &own, PromptDecision::Once).await.unwrap();
        assert_eq!(settled.result(), ReplyResult::Accepted);
        assert_eq!(settled.prompt.unwrap().resolution.unwrap().resolved_by, "somebody");
        service.stop().await;
    });
}

/// A bearer token of somebody who may have several.
struct Card {
    token: &'static str,
    principal: String,
    executes: bool,
    replies: bool,
    /// Whether it is good for the workspace of the test.
    sees: bool,
}

/// Tokens of ten people, who all have one of each kind; with the file that lists them.
fn cards() -> (Vec<Card>, String) {
    const KINDS: [(&str, bool, bool, bool); 4] = [
        ("* a", true, true, true),
        ("calls.execute,calls.read", true, false, true),
        ("prompts.reply,calls.read a,b", false, true, true),
        ("calls.execute,prompts.reply b", true, true, false),
    ];
    let (mut cards, mut file) = (Vec::new(), String::new());
    for person in 0..10 {
        for (kind, (rights, executes, replies, sees)) in KINDS.into_iter().enumerate() {
            let token = format!("the-{kind}th-token-of-person-{person}");
            file += &format!("p{person} {token} {rights}\n");
            cards.push(Card {
                // A client borrows its token for as long as it likes.
                token: token.leak(),
                principal: format!("token:p{person}"),
                executes,
                replies,
                sees,
            });
        }
    }
    (cards, file)
}

#[test]
fn no_tree_of_calls_lets_anybody_answer_for_themselves() {
    const CALLS: usize = 250;
    test(async {
        let (cards, file) = cards();
        let folder = Folder::new();
        folder.put("tokens", &file);
        let settings = format!("{ON_A_PORT}\nauth.tokens_file = \"tokens\"\nlimits.max_running_calls = 1000");
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let mut random = Random::new(7);
        let makers: Vec<&Card> = cards.iter().filter(|card| card.executes && card.sees).collect();
        // Who stands behind each call, itself included.
        let mut behind: Vec<Vec<&str>> = Vec::new();
        let (mut tried, mut answered) = (0, 0);
        for at in 0..CALLS {
            let maker = *random.pick(&makers);
            let parent = (at > 0 && random.below(4) > 0).then(|| random.below(at as u64) as usize);
            let parent_id = parent.map(|parent| format!("tree-{parent}")).unwrap_or_default();
            let prompt = ask(&channel, maker.token, "a", &format!("tree-{at}"), &parent_id).await;
            let mut all = parent.map(|parent| behind[parent].clone()).unwrap_or_default();
            all.push(&maker.principal);
            let may = |card: &&Card| card.replies && card.sees && !all.contains(&card.principal.as_str());
            // Whoever may not answer comes first: with an answer the prompt is gone.
            let (may, may_not): (Vec<&Card>, Vec<&Card>) = cards.iter().partition(may);
            let once = async |card: &Card| answer(&channel, card.token, &prompt, PromptDecision::Once).await;
            for result in join_all(may_not.iter().map(|card| async { (*card, once(card).await) })).await {
                match result {
                    (card, result) if !card.replies => {
                        refused(result, Code::PermissionDenied, "SCOPE_MISSING");
                    }
                    (card, result) if !card.sees => assert_eq!(result.unwrap().result(), ReplyResult::NotFound),
                    (_, result) => not_allowed(result),
                };
            }
            tried += may_not.len();
            if !may.is_empty() {
                let results = join_all(may.iter().map(|card| once(card))).await;
                let taken = |result: &PromptReplyResult| result.result() == ReplyResult::Accepted;
                let results: Vec<PromptReplyResult> = results.into_iter().map(Result::unwrap).collect();
                assert_eq!(results.iter().filter(|result| taken(result)).count(), 1, "one decision");
                tried += may.len();
                answered += 1;
            }
            behind.push(all);
        }
        assert_eq!(tried, CALLS * cards.len());
        assert!(tried >= 10_000 && answered > CALLS / 2, "{tried} {answered}");
        service.stop().await;
    });
}
