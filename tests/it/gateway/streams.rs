//! Prompts and events of all workers as one stream, and replies that find their worker.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};
use toolgate_contract::channel_response::Message;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{
    check_log, collect, eventually, everybody, failed, list_all, refused, reply, run_request, test, waiting, watch_all,
};

/// The next message but heartbeats.
async fn next(stream: &mut Streaming<ChannelResponse>) -> Message {
    loop {
        match stream
            .message()
            .await
            .unwrap()
            .expect("the channel goes on")
            .message
            .unwrap()
        {
            Message::Heartbeat(_) => {}
            message => return message,
        }
    }
}

/// Opens the channel of an approver, and reads on until all prompts that are open were told.
async fn approver(fleet: &Fleet) -> (mpsc::Sender<ChannelRequest>, Streaming<ChannelResponse>) {
    let open = ChannelOpen {
        name: "carl".to_owned(),
        filter: Some(everybody()),
    };
    let (replies, requests) = mpsc::channel(8);
    let open = Some(channel_request::Message::Open(open));
    replies.send(ChannelRequest { message: open }).await.unwrap();
    let opened = fleet.prompts(CARL).channel(ReceiverStream::new(requests)).await;
    let mut channel = opened.unwrap().into_inner();
    while !matches!(next(&mut channel).await, Message::SnapshotEnd(_)) {}
    (replies, channel)
}

/// Makes a call in each of two workspaces, and returns their prompts.
async fn two_prompts(fleet: &Fleet) -> (Vec<Streaming<ExecuteToolResponse>>, Vec<Prompt>) {
    let (mut calls, mut prompts) = (Vec::new(), Vec::new());
    for workspace in ["wa", "wb"] {
        let request = ExecuteToolRequest {
            on_disconnect: OnDisconnect::Keep.into(),
            ..bash(workspace, "echo ask 1")
        };
        let call = fleet.tools(ANNA).execute_tool(request).await;
        calls.push(call.unwrap().into_inner());
        prompts.push(waiting(calls.last_mut().unwrap()).await);
    }
    (calls, prompts)
}

async fn send_replies(replies: &mpsc::Sender<ChannelRequest>, prompts: &[Prompt]) {
    for prompt in prompts {
        let reply = channel_request::Message::Reply(PromptReply {
            reply_id: format!("r-{}", prompt.prompt_id),
            ..reply(prompt, PromptDecision::Once)
        });
        replies.send(ChannelRequest { message: Some(reply) }).await.unwrap();
    }
}

async fn next_result(channel: &mut Streaming<ChannelResponse>) -> PromptReplyResult {
    loop {
        if let Message::ReplyResult(result) = next(channel).await {
            return result;
        }
    }
}

#[test]
fn an_approver_that_leaves_is_none_any_more() {
    test(async {
        let fleet = Fleet::start().await;
        let (replies, channel) = approver(&fleet).await;
        let run = async |command| {
            let request = RunToolRequest {
                unattended: Unattended::Refuse.into(),
                ..run_request(bash("wa", command))
            };
            let answer = fleet.tools(ANNA).run_tool(request).await;
            answer.unwrap().into_inner().call.unwrap()
        };
        let waits = timeout(Duration::from_secs(2), run("echo ask 1")).await;
        assert!(waits.is_err(), "somebody is there to ask");
        drop((replies, channel));
        let ended = timeout(Duration::from_secs(25), run("echo ask 2")).await;
        let call = ended.expect("nobody is there to ask");
        assert_eq!(failed(&call).reason(), FailureReason::PromptExpired);
        fleet.assert_calm();
    });
}

#[test]
fn a_reply_waits_until_its_worker_is_back() {
    test(async {
        let mut fleet = Fleet::start().await;
        let (_calls, prompts) = two_prompts(&fleet).await;
        let (replies, mut channel) = approver(&fleet).await;
        fleet.workers[0].kill9().await;
        send_replies(&replies, &prompts).await;
        let result = next_result(&mut channel).await;
        assert_eq!(
            (result.result(), &result.prompt_id),
            (ReplyResult::Accepted, &prompts[1].prompt_id)
        );
        let home = fleet.home();
        fleet.workers[0].run(&home).await;
        let result = next_result(&mut channel).await;
        assert_eq!(
            (result.result(), &result.prompt_id),
            (ReplyResult::Accepted, &prompts[0].prompt_id)
        );
        fleet.assert_calm();
    });
}

#[test]
fn a_reply_to_a_worker_that_hangs_holds_up_no_other_one() {
    test(async {
        let fleet = Fleet::start().await;
        let (_calls, prompts) = two_prompts(&fleet).await;
        let (replies, mut channel) = approver(&fleet).await;
        fleet.workers[0].send(Signal::STOP);
        send_replies(&replies, &prompts).await;
        let result = timeout(Duration::from_secs(4), next_result(&mut channel)).await;
        let result = result.expect("it does not wait");
        assert_eq!(
            (result.result(), result.prompt_id),
            (ReplyResult::Accepted, prompts[1].prompt_id.clone())
        );
        fleet.workers[0].send(Signal::CONT);
        fleet.assert_calm();
    });
}

#[test]
fn one_approver_answers_for_all_workers() {
    test(async {
        let fleet = Fleet::start().await;
        let (replies, requests) = mpsc::channel(8);
        let open = ChannelOpen {
            name: "carl".to_owned(),
            filter: Some(everybody()),
        };
        let send = async |message| replies.send(ChannelRequest { message: Some(message) }).await.unwrap();
        let early = fleet
            .tools(ANNA)
            .execute_tool(bash("wa", "echo ask 0"))
            .await
            .unwrap()
            .into_inner();
        let mut calls = vec![early];
        let prompt = waiting(&mut calls[0]).await;
        send(channel_request::Message::Open(open)).await;
        let mut channel = fleet
            .prompts(CARL)
            .channel(ReceiverStream::new(requests))
            .await
            .unwrap()
            .into_inner();
        assert!(matches!(next(&mut channel).await, Message::Opened(_)));
        let Message::PromptAdded(added) = next(&mut channel).await else {
            panic!("the prompt that is open comes first");
        };
        assert_eq!(added.prompt.as_ref().unwrap().prompt_id, prompt.prompt_id);
        assert!(matches!(
            next(&mut channel).await,
            Message::SnapshotEnd(SnapshotEnd { prompts: 1 })
        ));
        let mut prompts = vec![prompt];
        for (count, workspace) in ["wb", "wa", "wb"].iter().enumerate() {
            let request = bash(workspace, &format!("echo ask {count}"));
            calls.push(fleet.tools(ANNA).execute_tool(request).await.unwrap().into_inner());
            let Message::PromptAdded(PromptAdded { prompt: Some(prompt) }) = next(&mut channel).await else {
                panic!("a new prompt");
            };
            assert_eq!(prompt.workspace, *workspace);
            prompts.push(prompt);
        }
        let listed = fleet
            .prompts(CARL)
            .list_prompts(list_all())
            .await
            .unwrap()
            .into_inner()
            .prompts;
        let ids = |prompts: &[Prompt]| {
            prompts
                .iter()
                .map(|prompt| prompt.prompt_id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&listed), ids(&prompts), "in the order of their arrival");
        let (mut accepted, mut resolved) = (0, BTreeSet::new());
        for prompt in &prompts {
            let reply = PromptReply {
                reply_id: format!("r-{}", prompt.prompt_id),
                ..reply(prompt, PromptDecision::Once)
            };
            send(channel_request::Message::Reply(reply)).await;
        }
        while accepted < 4 || resolved.len() < 4 {
            match next(&mut channel).await {
                Message::ReplyResult(result) => {
                    assert_eq!(result.result(), ReplyResult::Accepted, "{result:?}");
                    accepted += 1;
                }
                Message::PromptResolved(PromptResolved { prompt: Some(prompt) }) => {
                    assert_eq!(prompt.resolution.unwrap().resolved_by, "carl");
                    resolved.insert(prompt.prompt_id);
                }
                other => panic!("{other:?}"),
            }
        }
        for call in calls {
            let events = collect(call).await.unwrap();
            assert!(matches!(
                events.last().unwrap().event,
                Some(call_event::Event::Completed(_))
            ));
        }
        // A reply to nothing is answered as such.
        let nothing = Prompt {
            prompt_id: "nothing".to_owned(),
            ..prompts[0].clone()
        };
        assert_eq!(answer(&fleet, CARL, &nothing).await.result(), ReplyResult::NotFound);
        fleet.assert_calm();
    });
}

#[test]
fn watchers_are_told_when_a_worker_is_back() {
    test(async {
        let mut fleet = Fleet::start().await;
        let mut watch = fleet
            .prompts(CARL)
            .watch_prompts(watch_all())
            .await
            .unwrap()
            .into_inner();
        let mut events = fleet
            .sessions(CARL)
            .watch_events(WatchEventsRequest {
                workspace: "-".to_owned(),
                ..WatchEventsRequest::default()
            })
            .await
            .unwrap()
            .into_inner();
        let mut told = async || loop {
            use watch_prompts_response::Message as Told;
            match watch
                .message()
                .await
                .unwrap()
                .expect("the stream goes on")
                .message
                .unwrap()
            {
                Told::Heartbeat(_) => {}
                message => return message,
            }
        };
        use watch_prompts_response::Message as Told;
        assert!(matches!(told().await, Told::Opened(_)));
        assert!(matches!(told().await, Told::SnapshotEnd(SnapshotEnd { prompts: 0 })));
        let request = ExecuteToolRequest {
            call_id: "asked".to_owned(),
            on_disconnect: OnDisconnect::Keep.into(),
            ..bash("wb", "echo ask")
        };
        let mut call = fleet.tools(ANNA).execute_tool(request).await.unwrap().into_inner();
        let prompt = waiting(&mut call).await;
        assert!(matches!(told().await, Told::PromptAdded(_)));
        // From the last event that it had, the stream goes on.
        let mut number = 0;
        loop {
            let event = events
                .message()
                .await
                .unwrap()
                .expect("the stream goes on")
                .event
                .unwrap();
            number = event.sequence.max(number);
            if matches!(event.event, Some(event::Event::PromptOpened(_))) {
                break;
            }
        }
        let home = fleet.home();
        fleet.workers[1].kill9().await;
        fleet.workers[1].run(&home).await;
        // The prompt is open still, and was told before: what is told next is that it is answered.
        eventually("the worker takes the reply", async || {
            let request = ReplyPromptRequest {
                reply: Some(reply(&prompt, PromptDecision::Once)),
                ..ReplyPromptRequest::default()
            };
            let answer = fleet.prompts(CARL).reply_prompt(request).await;
            answer.is_ok_and(|answer| {
                let result = answer.into_inner().result.unwrap().result();
                [ReplyResult::Accepted, ReplyResult::AlreadyResolved].contains(&result)
            })
        })
        .await;
        match told().await {
            Told::PromptResolved(PromptResolved { prompt: Some(resolved) }) => {
                assert_eq!(resolved.prompt_id, prompt.prompt_id);
            }
            other => panic!("{other:?}"),
        }
        // The stream of the call goes on over the death of its worker, from where it was.
        let rest = collect(call).await.unwrap();
        let first = rest.iter().find(|event| event.sequence != 0).unwrap().sequence;
        check_log(first - 1, &rest);
        assert!(
            matches!(rest.last().unwrap().event, Some(call_event::Event::Completed(_))),
            "{rest:?}"
        );
        let mut number = 0;
        loop {
            let event = events
                .message()
                .await
                .unwrap()
                .expect("the stream goes on")
                .event
                .unwrap();
            match event.event.unwrap() {
                event::Event::Heartbeat(_) => {}
                kind => {
                    assert!(event.sequence > number);
                    number = event.sequence;
                    if let event::Event::CallStateChanged(changed) = kind
                        && changed.state() == CallState::Completed
                    {
                        break;
                    }
                }
            }
        }
        fleet.assert_calm();
    });
}

/// Reads until the calls of these ids have completed, and returns the last token and the ids in the order of their ends.
async fn completed_of(events: &mut Streaming<WatchEventsResponse>, wanted: &[&str]) -> (String, Vec<String>, i64) {
    let mut done = Vec::new();
    loop {
        let message = events.message().await.unwrap().expect("the stream goes on");
        assert!(!message.resume_token.is_empty(), "{message:?}");
        let event = message.event.unwrap();
        if let Some(event::Event::CallStateChanged(changed)) = event.event
            && changed.state() == CallState::Completed
        {
            done.push(changed.call_id);
        }
        if wanted.iter().all(|id| done.iter().any(|one| one == id)) {
            return (message.resume_token, done, event.sequence);
        }
    }
}

#[test]
fn events_of_all_workers_are_taken_up_again() {
    test(async {
        let mut fleet = Fleet::start().await;
        let all = || WatchEventsRequest {
            workspace: "-".to_owned(),
            ..WatchEventsRequest::default()
        };
        let run = async |fleet: &Fleet, id: &str, workspace: &str| {
            let request = ExecuteToolRequest {
                call_id: id.to_owned(),
                ..bash(workspace, "true")
            };
            let call = fleet.tools(ANNA).execute_tool(request).await.unwrap().into_inner();
            collect(call).await.unwrap();
        };
        // Before the stream, so that what it replays would show.
        for workspace in ["wa", "wb", "wc"] {
            run(&fleet, &format!("before-{workspace}"), workspace).await;
        }
        let mut events = fleet.sessions(CARL).watch_events(all()).await.unwrap().into_inner();
        run(&fleet, "first", "wa").await;
        let (resume_token, done, number) = completed_of(&mut events, &["first"]).await;
        assert_eq!(done, ["first"]);
        drop(events);
        // What happens meanwhile happens also at workers that the stream has not heard of yet, also while one is started again.
        let home = fleet.home();
        run(&fleet, "meanwhile-b", "wb").await;
        fleet.workers[1].kill9().await;
        fleet.workers[1].run(&home).await;
        run(&fleet, "meanwhile-a", "wa").await;
        // Any gateway takes it up.
        fleet.gateway.kill9().await;
        fleet.gateway.run(&home).await;
        eventually("the gateway is back", async || {
            fleet.run(ANNA, "wc", "true").await.is_ok()
        })
        .await;
        let again = WatchEventsRequest { resume_token, ..all() };
        let events = fleet.sessions(CARL).watch_events(again.clone()).await;
        let (_, done, last) = completed_of(&mut events.unwrap().into_inner(), &["meanwhile-a", "meanwhile-b"]).await;
        let told: BTreeSet<&str> = done.iter().map(String::as_str).collect();
        assert_eq!(told.len(), done.len(), "each once: {done:?}");
        assert!(
            !told.contains("first") && !done.iter().any(|id| id.starts_with("before")),
            "{done:?}"
        );
        assert!(last > number, "the numbers go on");

        let wrong = [
            (
                WatchEventsRequest {
                    after_sequence: Some(1),
                    ..again.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                WatchEventsRequest {
                    resume_token: "x".to_owned(),
                    ..all()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                WatchEventsRequest {
                    after_sequence: Some(7),
                    ..all()
                },
                Code::OutOfRange,
                "CURSOR_TOO_OLD",
            ),
            // One worker's stream goes on by number.
            (
                WatchEventsRequest {
                    workspace: "wa".to_owned(),
                    ..again
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
        ];
        for (request, code, reason) in wrong {
            refused(fleet.sessions(CARL).watch_events(request).await, code, reason);
        }
        fleet.assert_calm();
    });
}
