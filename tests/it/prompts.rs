//! Prompts: one decision each, whoever answers, however often the server dies meanwhile.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Code, Streaming};
use toolgate_contract::call_event::Event;
use toolgate_contract::channel_response::Message;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::*;

use crate::audit;
use crate::evaluated::evaluated;
use crate::journal;
use crate::support::*;

pub(crate) fn asks() -> Setup {
    Setup::permission(json!({ "bash": "ask" }))
}

pub(crate) async fn ask(
    server: &Server,
    session: &str,
    id: &str,
    command: &str,
) -> (Streaming<ExecuteToolResponse>, Prompt) {
    let request = in_session(session, kept(id, bash(command)));
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    let prompt = waiting(&mut stream).await;
    (stream, prompt)
}

pub(crate) async fn answer(server: &Server, reply: PromptReply) -> PromptReplyResult {
    let request = ReplyPromptRequest {
        reply: Some(reply),
        name: "tester".to_owned(),
    };
    server
        .permissions()
        .reply_prompt(request)
        .await
        .unwrap()
        .into_inner()
        .result
        .unwrap()
}

pub(crate) async fn stored(server: &Server, id: &str) -> Prompt {
    let request = GetPromptRequest {
        prompt_id: id.to_owned(),
    };
    let response = server.permissions().get_prompt(request).await.unwrap();
    response.into_inner().prompt.unwrap()
}

pub(crate) async fn open_prompts(server: &Server) -> Vec<Prompt> {
    let request = ListPromptsRequest {
        page_size: 1000,
        ..list_all()
    };
    server
        .permissions()
        .list_prompts(request)
        .await
        .unwrap()
        .into_inner()
        .prompts
}

pub(crate) fn lines(server: &Server, file: &str) -> Vec<String> {
    let text = fs::read_to_string(server.work().join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// What one approver learned of a prompt: the decision that stands, and whether its own reply made it.
struct Learned {
    prompt: Prompt,
    accepted: Option<String>,
}

/// Answers at random, leaving now and then in the middle and coming back, until the server is gone.
async fn approve(channel: Channel, name: String, mut random: Random, learned: mpsc::UnboundedSender<Learned>) {
    while visit(channel.clone(), &name, &mut random, &learned).await {}
}

/// Answers over the channel and beside it; true if it left by its own will.
async fn visit(channel: Channel, name: &str, random: &mut Random, learned: &mpsc::UnboundedSender<Learned>) -> bool {
    let Ok(mut approver) = Approver::open(channel.clone(), name).await else {
        return false;
    };
    let mut unary = PermissionServiceClient::new(channel);
    let mut known = HashSet::new();
    let mut fresh: Vec<Prompt> = std::mem::take(&mut approver.snapshot);
    loop {
        for prompt in fresh.drain(..) {
            assert!(
                known.insert(prompt.prompt_id.clone()),
                "{name} is told twice of {}",
                prompt.prompt_id
            );
            assert_eq!(prompt.state(), PromptState::Open);
            let mut reply = reply(
                &prompt,
                *random.pick(&[
                    PromptDecision::Once,
                    PromptDecision::Once,
                    PromptDecision::Once,
                    PromptDecision::Always,
                    PromptDecision::Reject,
                ]),
            );
            reply.reply_id = format!("{name}-{}", random.below(1 << 40));
            match random.below(10) {
                0 => continue,
                1 => reply.input_digest = "0".repeat(64),
                2 => reply.prompt_id = "per_nobody".to_owned(),
                3 => {
                    // The same reply twice: both get the same answer, or the first is somebody else's.
                    approver.send(reply.clone()).await;
                }
                4 | 5 => {
                    let request = ReplyPromptRequest {
                        reply: Some(reply.clone()),
                        name: name.to_owned(),
                    };
                    if let Ok(response) = unary.reply_prompt(request).await {
                        let response = response.into_inner().result.unwrap();
                        let accepted = response.result() == ReplyResult::Accepted;
                        let prompt = response.prompt.unwrap();
                        assert_ne!(prompt.state(), PromptState::Open, "a reply leaves no prompt open");
                        let accepted = accepted.then_some(reply.reply_id);
                        let _ = learned.send(Learned { prompt, accepted });
                    }
                    continue;
                }
                _ => {}
            }
            approver.send(reply).await;
        }
        if random.below(200) == 0 {
            return true;
        }
        match approver.next().await {
            Ok(Message::PromptAdded(added)) => fresh.extend(added.prompt),
            Ok(Message::PromptResolved(resolved)) => {
                let prompt = resolved.prompt.unwrap();
                assert!(
                    known.contains(&prompt.prompt_id),
                    "{name} hears of the end of an unknown prompt"
                );
                let _ = learned.send(Learned { prompt, accepted: None });
            }
            Ok(Message::ReplyResult(result)) => {
                let accepted = match result.result() {
                    ReplyResult::Accepted => Some(result.reply_id),
                    ReplyResult::AlreadyResolved | ReplyResult::Withdrawn => None,
                    ReplyResult::NotFound => {
                        assert_eq!(result.prompt_id, "per_nobody");
                        continue;
                    }
                    ReplyResult::DigestMismatch => continue,
                    other @ (ReplyResult::Unspecified
                    | ReplyResult::Expired
                    | ReplyResult::Invalid
                    | ReplyResult::NotAllowed
                    | ReplyResult::SecondApprovalNeeded
                    | ReplyResult::OtherInstance) => panic!("{other:?}"),
                };
                let _ = learned.send(Learned {
                    prompt: result.prompt.unwrap(),
                    accepted,
                });
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => return false,
        }
    }
}

#[test]
fn one_decision_each_in_a_crowd() {
    test(async {
        let mut random = Random::new(3);
        let mut server = Server::with(asks().env("TOOLGATE_DRAIN_GRACE", "1s")).await;
        let (learned, mut lessons) = mpsc::unbounded_channel();
        let mut first_prompts: HashMap<String, String> = HashMap::new();
        // Some replies are withheld or wrong, so every batch leaves prompts over for the next run of the server.
        for batch in 0..7 {
            let mut approvers = JoinSet::new();
            for index in 0..8 {
                let channel = server.connect().await;
                approvers.spawn(approve(
                    channel,
                    format!("a{batch}{index}"),
                    random.fork(),
                    learned.clone(),
                ));
            }
            let mut clients = JoinSet::new();
            for index in 0..146 {
                let id = format!("p{batch}-{index}");
                let request = in_session(
                    &format!("s{batch}-{}", index % 37),
                    // An approval of `eval` covers the one call, so that every call has a prompt of its own.
                    kept(&id, bash(&format!("eval 'echo {id} >> ran'"))),
                );
                let mut tools = server.tools();
                clients.spawn(async move {
                    let mut stream = tools.execute_tool(request).await.ok()?.into_inner();
                    while let Ok(Some(response)) = stream.message().await {
                        if let Some(Event::Waiting(waiting)) = response.event?.event {
                            return Some((id, waiting.prompt?.prompt_id));
                        }
                    }
                    None
                });
            }
            for asked in clients.join_all().await.into_iter().flatten() {
                first_prompts.insert(asked.0, asked.1);
            }
            match batch {
                0..5 => server.kill9().await,
                5 => server.stop().await,
                _ => break,
            }
            approvers.join_all().await;
            server.restart().await;
        }
        // Whoever still waits is let through.
        let mut left = String::new();
        eventually("no prompt is open", async || {
            let open = open_prompts(&server).await;
            for prompt in &open {
                let response = answer(&server, reply(prompt, PromptDecision::Once)).await;
                assert_ne!(response.prompt.unwrap().state(), PromptState::Open);
            }
            let list = ListCallsRequest {
                states: vec![
                    CallState::Waiting.into(),
                    CallState::Running.into(),
                    CallState::Pending.into(),
                ],
                ..Default::default()
            };
            let calls = server.tools().list_calls(list).await.unwrap().into_inner().calls;
            let ids = |call: &Call| (call.call_id.clone(), call.state(), call.waiting_prompt_id.clone());
            left = format!(
                "{} prompts, calls {:?}",
                open.len(),
                calls.iter().map(ids).collect::<Vec<_>>()
            );
            open.is_empty() && calls.is_empty()
        })
        .await;
        assert!(first_prompts.len() >= 1000, "{} calls asked", first_prompts.len());
        let ran = lines(&server, "ran");
        for (call, prompt) in &first_prompts {
            let prompt = stored(&server, prompt).await;
            let count = ran.iter().filter(|line| *line == call).count();
            let record = server.get(call).await;
            let decision = prompt.resolution.as_ref().unwrap().decision();
            let allowed = matches!(decision, PromptDecision::Once | PromptDecision::Always);
            match record.ending.as_ref().unwrap() {
                call::Ending::Completed(_) => {
                    assert!(allowed, "{call} ran on {:?}", prompt.resolution);
                    assert_eq!(count, 1, "{call}");
                }
                call::Ending::Failed(failed) => match failed.reason() {
                    FailureReason::Rejected => {
                        assert_eq!((decision, count), (PromptDecision::Reject, 0), "{call}");
                    }
                    FailureReason::Lost => {
                        assert!(count <= usize::from(allowed), "{call}");
                        assert_ne!(prompt.state(), PromptState::Open);
                    }
                    FailureReason::Drained => {
                        assert!(count <= usize::from(allowed), "{call}");
                    }
                    other => panic!("{call}: {other:?}"),
                },
            }
        }
        let unapproved: Vec<&String> = ran.iter().filter(|line| !first_prompts.contains_key(*line)).collect();
        for call in unapproved {
            // Its client did not hear of the prompt before the server died; it had one.
            let list = ListPromptsRequest {
                call_id: call.clone(),
                states: vec![PromptState::Resolved.into()],
                ..Default::default()
            };
            let prompts = server.prompts(list).await;
            assert_eq!(prompts.len(), 1, "{call} ran unapproved");
        }
        drop(learned);
        let mut accepted: HashMap<String, String> = HashMap::new();
        let mut settled: HashMap<String, Prompt> = HashMap::new();
        let mut heard = 0;
        while let Ok(lesson) = lessons.try_recv() {
            let id = lesson.prompt.prompt_id.clone();
            if !settled.contains_key(&id) {
                settled.insert(id.clone(), stored(&server, &id).await);
            }
            let now = &settled[&id];
            assert_eq!(
                lesson.prompt.resolution, now.resolution,
                "everybody is told the decision that stands"
            );
            assert_eq!(lesson.prompt.state(), now.state());
            if let Some(reply) = lesson.accepted {
                let first = accepted.entry(id).or_insert_with(|| reply.clone());
                assert_eq!(*first, reply, "one reply decides");
            }
            heard += 1;
        }
        assert!(heard > 200 && accepted.len() > 20, "{heard} {}", accepted.len());
        assert!(audit::agrees(&server).await >= first_prompts.len());
        server.stop().await;
        journal::agrees(&server);
    });
}

#[test]
fn open_prompts_are_there_at_once_after_reconnecting() {
    test(async {
        let mut server = Server::with(asks()).await;
        for index in 0..100 {
            ask(&server, &format!("s{index}"), &format!("c{index}"), "true").await;
        }
        for after in ["a lost connection", "a crash of the server"] {
            let mut times = Vec::new();
            for _ in 0..9 {
                let begin = Instant::now();
                let approver = Approver::open(server.connect().await, "back").await.unwrap();
                times.push(begin.elapsed());
                assert_eq!(approver.snapshot.len(), 100);
            }
            times.sort();
            println!(
                "100 open prompts after {after}: {:?}, at worst {:?}",
                times[4], times[8]
            );
            // The best of them: what else the machine does meanwhile is no reason to fail.
            assert!(times[0] < Duration::from_secs(1), "{times:?}");
            server.kill9().await;
            server.restart().await;
        }
    });
}

#[test]
fn a_waiting_prompt_survives_the_server() {
    test(async {
        let mut server = Server::with(asks()).await;
        let (_, first) = ask(&server, "s", "a", "echo a >> ran").await;
        let (_, second) = ask(&server, "s", "b", "echo b >> ran").await;
        for _ in 0..3 {
            server.kill9().await;
            server.restart().await;
            let mut approver = Approver::open(server.connect().await, "back").await.unwrap();
            let ids: Vec<&str> = approver
                .snapshot
                .iter()
                .map(|prompt| prompt.prompt_id.as_str())
                .collect();
            assert_eq!(
                ids,
                [&first.prompt_id, &second.prompt_id],
                "the snapshot is complete at once"
            );
            assert_eq!(approver.snapshot[0].input_digest, first.input_digest);
            assert_eq!(approver.snapshot[0].create_time, first.create_time);
            if ids.is_empty() {
                approver.added().await;
            }
        }
        // At once after the start, before the call can have asked again.
        server.kill9().await;
        server.restart().await;
        let response = answer(&server, reply(&first, PromptDecision::Once)).await;
        assert_eq!(response.result(), ReplyResult::Accepted);
        let log = server.watch("a", 0).await.unwrap();
        check_log(0, &log);
        assert!(matches!(end_of(&log), call::Ending::Completed(_)));
        assert_eq!(server.get("b").await.state(), CallState::Waiting);
        let response = answer(&server, reply(&second, PromptDecision::Reject)).await;
        assert_eq!(response.result(), ReplyResult::Accepted);
        let log = server.watch("b", 0).await.unwrap();
        check_log(0, &log);
        assert_eq!(lines(&server, "ran"), ["a"]);
        server.stop().await;
    });
}

#[test]
fn a_call_that_cannot_ask_again_leaves_no_prompt() {
    test(async {
        let setup = Setup::permission(json!({ "external_directory": "ask", "bash": "allow" }));
        let mut server = Server::with(setup).await;
        let (outside, link) = (server.folder().join("outside"), server.work().join("link"));
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let input = json!({ "command": "touch here", "description": "d", "workdir": "link" });
        let mut stream = server
            .tools()
            .execute_tool(kept("gone", request("bash", input)))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut stream).await;
        server.kill9().await;
        // Now the folder is inside: the call has nothing to ask any more.
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        server.restart().await;
        let log = server.watch("gone", 0).await.unwrap();
        check_log(0, &log);
        let prompt = stored(&server, &prompt.prompt_id).await;
        assert_eq!(prompt.state(), PromptState::Withdrawn, "{:?}", log.last());
        assert_ne!(prompt.resolution.unwrap().withdrawn_because, "");
    });
}

#[test]
fn cascades() {
    test(async {
        let server = Server::with(asks()).await;
        let mut streams = Vec::new();
        let mut prompts = Vec::new();
        for (id, session, command) in [
            ("a", "one", "echo x"),
            ("b", "one", "echo x"),
            ("c", "one", "printf y"),
            ("d", "two", "echo x"),
        ] {
            let (stream, prompt) = ask(&server, session, id, command).await;
            streams.push(stream);
            prompts.push(prompt);
        }
        let response = answer(&server, reply(&prompts[0], PromptDecision::Always)).await;
        assert_eq!(response.result(), ReplyResult::Accepted);
        let also = stored(&server, &prompts[1].prompt_id).await;
        assert_eq!(
            also.resolution.as_ref().unwrap().because_of_prompt_id,
            prompts[0].prompt_id
        );
        let first = stored(&server, &prompts[0].prompt_id).await;
        assert_eq!(first.resolution.as_ref().unwrap().resolved_by, "tester");
        for (stream, prompt) in streams.iter_mut().zip([first, also]) {
            let event = next_such(stream, |event| matches!(event, Event::Resumed(_))).await;
            let Some(Event::Resumed(resumed)) = event.event else {
                unreachable!()
            };
            assert_eq!(
                resumed.resolution, prompt.resolution,
                "the stream says what the record says"
            );
        }
        assert_eq!(stored(&server, &prompts[2].prompt_id).await.state(), PromptState::Open);
        assert_eq!(
            stored(&server, &prompts[3].prompt_id).await.state(),
            PromptState::Open,
            "another session"
        );
        let free = server.execute(in_session("one", bash("echo x"))).await.unwrap();
        assert!(!free.iter().any(|event| matches!(event.event, Some(Event::Waiting(_)))));

        let (_, other) = ask(&server, "one", "e", "printf z").await;
        let reject = PromptReply {
            message: "not like this".to_owned(),
            ..reply(&prompts[2], PromptDecision::Reject)
        };
        answer(&server, reject).await;
        let cascaded = stored(&server, &other.prompt_id).await;
        assert_eq!(cascaded.resolution.as_ref().unwrap().decision(), PromptDecision::Reject);
        assert_eq!(cascaded.resolution.unwrap().because_of_prompt_id, prompts[2].prompt_id);
        let rejected = collect(streams.remove(2)).await.unwrap();
        match end_of(&rejected) {
            call::Ending::Failed(failed) => assert!(failed.error.contains("not like this"), "{}", failed.error),
            other => panic!("{other:?}"),
        }
        assert_eq!(stored(&server, &prompts[3].prompt_id).await.state(), PromptState::Open);
    });
}

#[test]
fn replies_that_do_not_count() {
    test(async {
        let server = Server::with(asks()).await;
        let (stream, prompt) = ask(&server, "s", "c", "true").await;
        let id = prompt.prompt_id.as_str();
        let mut approver = Approver::open(server.connect().await, "channel").await.unwrap();
        let once = || reply(&prompt, PromptDecision::Once);
        let wrong = [
            (
                PromptReply {
                    input_digest: "f".repeat(64),
                    ..once()
                },
                ReplyResult::DigestMismatch,
            ),
            (
                PromptReply {
                    input_digest: String::new(),
                    ..once()
                },
                ReplyResult::Invalid,
            ),
            (
                PromptReply {
                    prompt_id: "per_x".to_owned(),
                    ..once()
                },
                ReplyResult::NotFound,
            ),
            (
                PromptReply {
                    prompt_id: String::new(),
                    ..once()
                },
                ReplyResult::Invalid,
            ),
            (reply(&prompt, PromptDecision::Unspecified), ReplyResult::Invalid),
            (PromptReply { decision: 99, ..once() }, ReplyResult::Invalid),
            (
                PromptReply {
                    message: "why".to_owned(),
                    ..once()
                },
                ReplyResult::Invalid,
            ),
            (
                PromptReply {
                    reply_id: "x".repeat(129),
                    ..once()
                },
                ReplyResult::Invalid,
            ),
            (PromptReply::default(), ReplyResult::Invalid),
        ];
        for (given, expected) in wrong {
            approver.send(given.clone()).await;
            let result = approver.result().await;
            assert_eq!(result.result(), expected, "{given:?}");
            assert_ne!(result.message, "", "{given:?}");
            assert_eq!(
                result.message.contains("input_digest"),
                given.input_digest.is_empty() && !given.prompt_id.is_empty()
            );
            // The words are the same without a channel.
            assert_eq!(answer(&server, given).await, result);
        }
        assert_eq!(stored(&server, id).await.state(), PromptState::Open);
        let good = PromptReply {
            reply_id: "mine".to_owned(),
            ..once()
        };
        for _ in 0..2 {
            approver.send(good.clone()).await;
            assert_eq!(
                approver.result().await.result(),
                ReplyResult::Accepted,
                "also when it comes again"
            );
        }
        approver
            .send(PromptReply {
                reply_id: "other".to_owned(),
                ..good
            })
            .await;
        let late = approver.result().await;
        assert_eq!(late.result(), ReplyResult::AlreadyResolved);
        assert_eq!(late.prompt.unwrap().resolution.unwrap().resolved_by, "channel");
        assert!(matches!(
            end_of(&collect(stream).await.unwrap()),
            call::Ending::Completed(_)
        ));
    });
}

#[test]
fn snapshot_and_changes_fit_together() {
    test(async {
        let server = Server::with(asks()).await;
        let mut clients = JoinSet::new();
        for index in 0..60 {
            let request = in_session(&format!("s{index}"), kept(&format!("c{index}"), bash("true")));
            let mut tools = server.tools();
            clients.spawn(async move {
                let mut stream = tools.execute_tool(request).await.unwrap().into_inner();
                waiting(&mut stream).await.prompt_id
            });
        }
        let mut listeners = JoinSet::new();
        for index in 0..8 {
            let channel = server.connect().await;
            listeners.spawn(async move {
                let mut approver = Approver::open(channel, &format!("l{index}")).await.unwrap();
                let mut ids: Vec<String> = approver.snapshot.drain(..).map(|prompt| prompt.prompt_id).collect();
                while ids.len() < 60 {
                    ids.push(approver.added().await.prompt_id);
                }
                ids
            });
        }
        let asked: HashSet<String> = clients.join_all().await.into_iter().collect();
        for heard in listeners.join_all().await {
            let ids: HashSet<String> = heard.iter().cloned().collect();
            assert_eq!((heard.len(), &ids), (60, &asked));
        }
    });
}

#[test]
fn a_reader_that_falls_behind_is_told() {
    test(async {
        let setup = asks().env("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", "2000");
        let server = Server::with(setup).await;
        let mut lagging = server
            .permissions()
            .watch_prompts(watch_all())
            .await
            .unwrap()
            .into_inner();
        assert!(lagging.message().await.unwrap().is_some());
        // Every prompt is two changes; one rejection settles all that wait in the session. They are long, so that not many
        // fit on their way to a reader that does not read.
        let padding = "x".repeat(4096);
        for batch in 0..3 {
            let mut clients = JoinSet::new();
            for index in 0..800 {
                let request = in_session(
                    &format!("s{batch}"),
                    kept(&format!("c{batch}-{index}"), bash(&format!("echo {index} {padding}"))),
                );
                let mut tools = server.tools();
                clients.spawn(async move {
                    let mut stream = tools.execute_tool(request).await.unwrap().into_inner();
                    waiting(&mut stream).await
                });
            }
            let prompts = clients.join_all().await;
            answer(&server, reply(&prompts[0], PromptDecision::Reject)).await;
        }
        let end = loop {
            match lagging.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("an end without a status"),
                Err(status) => break status,
            }
        };
        refused::<()>(Err(end), Code::Aborted, "MISSED_CHANGES");
        let again = Approver::open(server.connect().await, "again").await.unwrap();
        assert!(again.snapshot.is_empty());
    });
}

#[test]
fn grants_are_listed_used_and_revoked() {
    test(async {
        let server = Server::with(asks()).await;
        let (stream, prompt) = ask(&server, "s", "g", "echo granted").await;
        answer(&server, reply(&prompt, PromptDecision::Always)).await;
        collect(stream).await.unwrap();
        let list = ListGrantsRequest {
            workspace: "default".to_owned(),
            ..Default::default()
        };
        let grants = server
            .permissions()
            .list_grants(list.clone())
            .await
            .unwrap()
            .into_inner()
            .grants;
        assert_eq!(grants.len(), 1);
        assert_eq!(
            (grants[0].pattern.as_str(), &grants[0].prompt_id),
            ("echo *", &prompt.prompt_id)
        );
        let of_both = bash("echo granted; printf other");
        let foretold = evaluated(&server, of_both).await.unwrap();
        assert_eq!(foretold.action(), PermissionAction::Ask);
        let Some(evaluated_request::Request::Permission(permission)) = &foretold.requests[0].request else {
            panic!("{foretold:?}")
        };
        let parts: Vec<_> = permission
            .parts
            .iter()
            .map(|part| (part.action(), part.granted))
            .collect();
        assert_eq!(parts, [(PermissionAction::Allow, true), (PermissionAction::Ask, false)]);
        let granted = evaluated(&server, bash("echo granted")).await.unwrap();
        assert_eq!(granted.action(), PermissionAction::Allow);
        assert_eq!(granted.requests[0].grant_ids, [grants[0].grant_id.clone()]);
        let revoke = RevokeGrantRequest {
            grant_id: grants[0].grant_id.clone(),
        };
        server.permissions().revoke_grant(revoke.clone()).await.unwrap();
        refused(
            server.permissions().revoke_grant(revoke).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        assert!(
            server
                .permissions()
                .list_grants(list)
                .await
                .unwrap()
                .into_inner()
                .grants
                .is_empty()
        );
        ask(&server, "s", "again", "echo granted").await;
    });
}

#[test]
fn a_client_is_recorded_as_it_says() {
    test(async {
        let server = Server::start().await;
        let listed = async |kind: &str| {
            let request = ListToolsRequest {
                client_kind: kind.to_owned(),
                ..ListToolsRequest::default()
            };
            let tools = server.tools().list_tools(request).await.unwrap().into_inner().tools;
            tools.into_iter().any(|tool| tool.name == "question")
        };
        assert!(listed("").await && listed("cli").await && !listed("toolgate-python/0.1.0").await);
        for (id, kind, name) in [
            ("none", "", ""),
            ("named", "", "mine/1.0"),
            ("both", "desktop", "mine/1.0"),
        ] {
            let mut request = kept(id, bash("true"));
            let context = request.context.get_or_insert_default();
            (context.client_kind, context.client_name) = (kind.to_owned(), name.to_owned());
            server.execute(request).await.unwrap();
            let recorded = server.get(id).await.context.unwrap();
            assert_eq!(
                (recorded.client_kind.as_str(), recorded.client_name.as_str()),
                (kind, name)
            );
        }
        // Without a kind, the tools are those for `cli`: the question finds somebody to ask.
        let question = json!({"questions": [{"question": "q", "header": "h", "options": []}]});
        let mut stream = server
            .tools()
            .execute_tool(request("question", question))
            .await
            .unwrap()
            .into_inner();
        assert!(waiting(&mut stream).await.prompt_id.starts_with("que_"));
    });
}
