//! Commands in the background: started by one call as another, watched, read, written to, and ended with what they
//! belong to.

use std::time::Duration;

use serde_json::{Value, json};
use tonic::{Code, Status, Streaming};
use toolgate_contract::call_event::Event;
use toolgate_contract::*;
use toolgate_model::{CallId, EndReason, OnDisconnect, Outcome};
use toolgate_store::{CallFilter, PageRequest};

use crate::support::*;

mod limits;

const MIB: usize = 1024 * 1024;

fn input(command: &str) -> Value {
    json!({"command": command, "description": "a test", "background": true})
}

fn background(command: &str) -> ExecuteToolRequest {
    request("bash", input(command))
}

/// Starts a command in the background of a session and returns the id of its call.
async fn start(server: &Server, session: &str, command: &str) -> String {
    let request = run_request(in_session(session, background(command)));
    let call = run(&mut server.tools(), request).await.unwrap();
    child_of(&server.watch(&call.call_id, 0).await.unwrap())
}

/// Returns the id of the call that a log says was made.
fn child_of(events: &[CallEvent]) -> String {
    let children: Vec<&CallChild> = events
        .iter()
        .filter_map(|event| match &event.event {
            Some(Event::Child(child)) => Some(child),
            _ => None,
        })
        .collect();
    assert_eq!(children.len(), 1, "{events:?}");
    assert_eq!(children[0].tool, "background");
    children[0].call_id.clone()
}

/// What a call has printed, as far as it was watched.
struct Screen {
    stream: Streaming<WatchCallResponse>,
    text: String,
    output_id: String,
}

impl Screen {
    async fn of(server: &Server, call: &str) -> Self {
        let request = watch_request(call, 0, OutputMode::Full);
        Self {
            stream: server.tools().watch_call(request).await.unwrap().into_inner(),
            text: String::new(),
            output_id: String::new(),
        }
    }

    /// Waits until something is printed, or the end has a text that says so.
    async fn shows(&mut self, wanted: &str) {
        while !self.text.contains(wanted) {
            let response = self.stream.message().await.unwrap();
            match response.map(|response| response.event.unwrap().event.unwrap()) {
                Some(Event::Output(output)) => {
                    self.text += &String::from_utf8_lossy(&output.data);
                    self.output_id = output.output_id;
                }
                Some(Event::Completed(_) | Event::Failed(_)) | None => panic!("{wanted:?} is not in {:?}", self.text),
                Some(_) => {}
            }
        }
    }

    async fn end(mut self) -> call::Ending {
        let mut events = Vec::new();
        while let Some(response) = self.stream.message().await.unwrap() {
            events.extend(response.event);
        }
        end_of(&events)
    }
}

async fn send(
    server: &Server,
    call: &str,
    offset: usize,
    data: impl AsRef<[u8]>,
    close: bool,
) -> Result<SendInputResponse, Status> {
    let request = SendInputRequest {
        call_id: call.to_owned(),
        offset: offset as i64,
        data: data.as_ref().to_vec().into(),
        close,
    };
    Ok(server.tools().send_input(request).await?.into_inner())
}

fn accepted(next_offset: usize, closed: bool) -> SendInputResponse {
    SendInputResponse {
        next_offset: next_offset as i64,
        closed,
    }
}

async fn cancel(server: &Server, call: &str) -> Call {
    let request = CancelCallRequest {
        call_id: call.to_owned(),
    };
    let response = server.tools().cancel_call(request).await.unwrap();
    response.into_inner().call.unwrap()
}

fn result_of(ending: call::Ending) -> CallCompleted {
    match ending {
        call::Ending::Completed(result) => result,
        call::Ending::Failed(failed) => panic!("{failed:?}"),
    }
}

fn exit_of(result: CallCompleted) -> Option<prost_types::value::Kind> {
    result.metadata.unwrap().fields["exit"].kind.clone()
}

fn reason_of(ending: &call::Ending) -> FailureReason {
    match ending {
        call::Ending::Failed(failed) => failed.reason(),
        call::Ending::Completed(_) => FailureReason::Unspecified,
    }
}

/// The one prompt that a call waits on, when it is there.
async fn open_prompt(server: &Server, call: &str) -> Prompt {
    let list = ListPromptsRequest {
        call_id: call.to_owned(),
        ..Default::default()
    };
    let mut prompts = Vec::new();
    eventually("the prompt is open", async || {
        let listed = server.permissions().list_prompts(list.clone()).await.unwrap();
        prompts = listed.into_inner().prompts;
        prompts.len() == 1
    })
    .await;
    prompts.remove(0)
}

async fn answer(server: &Server, prompt: &Prompt, decision: PromptDecision) {
    let request = ReplyPromptRequest {
        reply: Some(reply(prompt, decision)),
        name: String::new(),
    };
    let replied = server
        .permissions()
        .reply_prompt(request)
        .await
        .unwrap()
        .into_inner()
        .result
        .unwrap();
    assert_eq!(replied.result(), ReplyResult::Accepted);
}

#[test]
fn it_returns_at_once_and_is_a_call_like_any_other() {
    test(async {
        let mut server = Server::start().await;
        let request = in_session(
            "s",
            kept("maker", background("echo one; read line; echo two $line; exit 3")),
        );
        let events = server.execute(request).await.unwrap();
        check_log(0, &events);
        let id = child_of(&events);
        let result = result_of(end_of(&events));
        let metadata = result.metadata.unwrap().fields;
        let text = |key: &str| match metadata[key].kind.clone() {
            Some(prost_types::value::Kind::StringValue(text)) => text,
            other => panic!("{key}: {other:?}"),
        };
        assert_eq!(text("call"), id);
        let path = text("outputPath");
        for part in [id.as_str(), &path, "kill -- -"] {
            assert!(result.output.contains(part), "{part} in {}", result.output);
        }

        let record = server.get(&id).await;
        assert_eq!(
            (record.tool.as_str(), record.state()),
            ("background", CallState::Running)
        );
        let context = record.context.clone().unwrap();
        assert_eq!((&*context.session_id, &*context.parent_call_id), ("s", "maker"));
        assert!(record.accepts_input);

        let mut screen = Screen::of(&server, &id).await;
        screen.shows("one\n").await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        let range = read_output_request::Range::Bytes(ByteRange { offset: 2, limit: 0 });
        let part = ReadOutputRequest {
            output_id: screen.output_id.clone(),
            range: Some(range),
        };
        let mut part = server.outputs().read_output(part).await.unwrap().into_inner();
        let part = part.message().await.unwrap().unwrap();
        assert_eq!((part.offset, &*part.data), (2, b"e\n".as_slice()));

        assert_eq!(
            send(&server, &id, 0, "more\n", false).await.unwrap(),
            accepted(5, false)
        );
        screen.shows("two more\n").await;
        let end = result_of(screen.end().await);
        assert_eq!(end.output, "one\ntwo more\n");
        assert_eq!(exit_of(end), Some(prost_types::value::Kind::NumberValue(3.0)));
        let late = send(&server, &id, 5, "x", false).await;
        refused(late, Code::FailedPrecondition, "CALL_ENDED");
        assert!(!server.get(&id).await.accepts_input);
        server.stop().await;
    });
}

#[test]
fn every_byte_arrives_once() {
    test(async {
        let server = Server::start().await;
        let id = start(&server, "s", "cat").await;
        assert_eq!(send(&server, &id, 0, "abc", false).await.unwrap(), accepted(3, false));
        assert_eq!(send(&server, &id, 0, "abc", false).await.unwrap(), accepted(3, false));
        assert_eq!(send(&server, &id, 1, "bcd", false).await.unwrap(), accepted(4, false));
        let details = refused(
            send(&server, &id, 5, "f", false).await,
            Code::OutOfRange,
            "INPUT_OFFSET",
        );
        assert_eq!(details.error_info().unwrap().metadata["next_offset"], "4");
        // A client that has lost everything asks, over a connection of its own.
        let mut other = tools(server.connect().await);
        let ask = SendInputRequest {
            call_id: id.clone(),
            ..Default::default()
        };
        assert_eq!(other.send_input(ask).await.unwrap().into_inner(), accepted(4, false));
        assert_eq!(server.get(&id).await.next_input_offset, 4);
        assert_eq!(send(&server, &id, 4, "€\n", true).await.unwrap(), accepted(8, true));
        let again = send(&server, &id, 0, "abcd", true).await;
        // The command may have read the end and be gone.
        if let Ok(again) = again {
            assert!(again.closed);
        }
        let end = result_of(Screen::of(&server, &id).await.end().await);
        assert_eq!(end.output, "abcd€\n");
    });
}

#[test]
fn input_is_refused_with_a_reason() {
    test(async {
        let server = Server::start().await;
        refused(send(&server, "none", 0, "x", false).await, Code::NotFound, "NOT_FOUND");
        let mut stream = server
            .tools()
            .execute_tool(kept("plain", bash("echo ready; sleep 86401")))
            .await
            .unwrap()
            .into_inner();
        next_such(&mut stream, is_output).await;
        refused(
            send(&server, "plain", 0, "x", false).await,
            Code::FailedPrecondition,
            "NO_INPUT",
        );
        let id = start(&server, "s", "exec <&-; echo closed; sleep 86401").await;
        Screen::of(&server, &id).await.shows("closed").await;
        eventually("the closed input is noticed", async || {
            !server.get(&id).await.accepts_input
        })
        .await;
        refused(
            send(&server, &id, 0, "x", false).await,
            Code::FailedPrecondition,
            "INPUT_CLOSED",
        );
        refused(
            send(&server, &id, 0, vec![0; MIB + 1], false).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
        let negative = SendInputRequest {
            call_id: id.clone(),
            offset: -1,
            ..Default::default()
        };
        refused(
            server.tools().send_input(negative).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
    });
}

#[test]
fn a_shell_is_answered_step_by_step() {
    test(async {
        let server = Server::start().await;
        let id = start(&server, "s", "exec bash").await;
        let mut screen = Screen::of(&server, &id).await;
        let mut offset = 0;
        for step in 0..20 {
            let line = format!("x=$((x + {step})); echo \"<$x>\"\n");
            offset = send(&server, &id, offset, line, false).await.unwrap().next_offset as usize;
            screen.shows(&format!("<{}>", step * (step + 1) / 2)).await;
        }
        send(&server, &id, offset, "exit 5\n", false).await.unwrap();
        let end = result_of(screen.end().await);
        assert_eq!(exit_of(end), Some(prost_types::value::Kind::NumberValue(5.0)));
    });
}

#[test]
fn a_program_that_does_not_read_fills_a_bounded_buffer() {
    test(async {
        let server = Server::start().await;
        let id = start(&server, "s", "mkfifo go; echo ready; read go < go; exec wc -c").await;
        Screen::of(&server, &id).await.shows("ready").await;
        let whole = vec![b'x'; MIB];
        assert_eq!(
            send(&server, &id, 0, &whole, false).await.unwrap(),
            accepted(MIB, false)
        );
        let details = refused(
            send(&server, &id, MIB, &whole, false).await,
            Code::ResourceExhausted,
            "INPUT_NOT_READ",
        );
        assert!(details.retry_info().is_some());
        assert_eq!(server.get(&id).await.next_input_offset as usize, MIB);
        // The service goes on meanwhile, and the rest arrives when there is room.
        assert_eq!(
            completed(
                &server
                    .run("bash", json!({"command": "echo on", "description": "x"}))
                    .await
            )
            .output,
            "on\n"
        );
        let go = server.work().join("go");
        tokio::task::spawn_blocking(move || std::fs::write(go, "go\n"))
            .await
            .unwrap()
            .unwrap();
        eventually("there is room", async || {
            send(&server, &id, MIB, &whole, true).await.is_ok()
        })
        .await;
        let end = result_of(Screen::of(&server, &id).await.end().await);
        assert!(end.output.contains(&(2 * MIB).to_string()), "{}", end.output);
    });
}

#[test]
fn it_ends_when_it_is_cancelled_and_with_its_session() {
    test(async {
        let mut server = Server::start().await;
        let command = "setsid sleep 86402 & trap '' TERM; echo ready; sleep 86402; sleep 86402";
        let first = start(&server, "one", command).await;
        let second = start(&server, "two", command).await;
        for id in [&first, &second] {
            Screen::of(&server, id).await.shows("ready").await;
        }
        // What nobody reads is no reason to wait.
        send(&server, &first, 0, vec![b'x'; MIB], false).await.unwrap();
        assert_eq!(
            failed(&cancel(&server, &first).await).reason(),
            FailureReason::Cancelled
        );
        assert_eq!(server.get(&second).await.state(), CallState::Running);
        let request = EndSessionRequest {
            session_id: "two".to_owned(),
            ..Default::default()
        };
        let ended = server.sessions().end_session(request).await.unwrap().into_inner();
        assert_eq!(ended.cancelled_calls, 1);
        assert_eq!(failed(&server.get(&second).await).reason(), FailureReason::Cancelled);
        assert_eq!(processes("86402"), Vec::<u32>::new());
        server.stop().await;
    });
}

#[test]
fn it_ends_with_the_service() {
    test(async {
        let mut server = Server::with(Setup::default().env("TOOLGATE_DRAIN_GRACE", "200ms")).await;
        let id = start(&server, "s", "setsid sleep 86403 & echo ready; sleep 86403").await;
        let mut screen = Screen::of(&server, &id).await;
        screen.shows("ready").await;
        server.stop().await;
        assert_eq!(processes("86403"), Vec::<u32>::new());
        assert_eq!(reason_of(&screen.end().await), FailureReason::Drained);

        server.restart().await;
        let id = start(&server, "s", "echo ready; exec sleep 86404").await;
        Screen::of(&server, &id).await.shows("ready").await;
        server.kill9().await;
        gone("86404").await;
        server.restart().await;
        assert_eq!(failed(&server.get(&id).await).reason(), FailureReason::Lost);
        refused(
            send(&server, &id, 0, "x", false).await,
            Code::FailedPrecondition,
            "CALL_ENDED",
        );
        assert_eq!(processes("86404"), Vec::<u32>::new());
    });
}

#[test]
fn what_is_not_allowed_fails_both_calls_alike() {
    test(async {
        let rules = json!({ "bash": { "*": "ask", ": no*": "deny" } });
        let server = Server::with(Setup::permission(rules)).await;
        let same_end = async |events: &[CallEvent], reason: FailureReason| {
            let call::Ending::Failed(end) = end_of(events) else {
                panic!("{events:?}")
            };
            let child = server.get(&child_of(events)).await;
            assert_eq!((end.reason(), failed(&child).reason()), (reason, reason));
            assert_eq!(end.error, failed(&child).error);
        };
        let denied = server.execute(background(": no; touch made")).await.unwrap();
        same_end(&denied, FailureReason::Denied).await;

        let mut stream = server
            .tools()
            .execute_tool(background("touch made"))
            .await
            .unwrap()
            .into_inner();
        let child = next_such(&mut stream, |event| matches!(event, Event::Child(_))).await;
        let id = child_of(std::slice::from_ref(&child));
        let prompt = open_prompt(&server, &id).await;
        assert_eq!((prompt.call_id.as_str(), prompt.tool.as_str()), (&*id, "background"));
        answer(&server, &prompt, PromptDecision::Reject).await;
        let mut events = vec![child];
        events.extend(collect(stream).await.unwrap());
        same_end(&events, FailureReason::Rejected).await;

        let missing = json!({"command": "true", "description": "x", "background": true, "workdir": "missing"});
        let events = server.execute(request("bash", missing)).await.unwrap();
        same_end(&events, FailureReason::ToolError).await;
        assert!(!server.work().join("made").exists());
    });
}

#[test]
fn a_stopped_maker_takes_what_it_waits_for_along() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "bash": "ask" }))).await;
        let mut stream = server
            .tools()
            .execute_tool(kept("maker", background("touch made")))
            .await
            .unwrap()
            .into_inner();
        let child = next_such(&mut stream, |event| matches!(event, Event::Child(_))).await;
        let id = child_of(std::slice::from_ref(&child));
        let prompt = open_prompt(&server, &id).await;
        assert_eq!(
            failed(&cancel(&server, "maker").await).reason(),
            FailureReason::Cancelled
        );
        assert_eq!(failed(&server.get(&id).await).reason(), FailureReason::Cancelled);
        let get = GetPromptRequest {
            prompt_id: prompt.prompt_id,
        };
        let prompt = server.permissions().get_prompt(get).await.unwrap().into_inner().prompt;
        assert_eq!(prompt.unwrap().state(), PromptState::Withdrawn);
        assert!(!server.work().join("made").exists());
    });
}

#[test]
fn the_makers_time_stands_still_while_a_person_is_asked() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "bash": "ask" }))).await;
        let limited = ExecuteToolRequest {
            timeout: Some(prost_types::Duration { seconds: 3, nanos: 0 }),
            ..kept("maker", background("true"))
        };
        let mut stream = server.tools().execute_tool(limited).await.unwrap().into_inner();
        let child = next_such(&mut stream, |event| matches!(event, Event::Child(_))).await;
        let prompt = open_prompt(&server, &child_of(&[child])).await;
        // The wait is longer than the limit: that is what is tested.
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        answer(&server, &prompt, PromptDecision::Once).await;
        let events = collect(stream).await.unwrap();
        assert!(matches!(end_of(&events), call::Ending::Completed(_)), "{events:?}");
    });
}

#[test]
fn a_call_may_wait_for_the_end_of_one_that_it_made() {
    test(async {
        let inside = Inside::new();
        let make = async |id: &str| {
            let mut call = Inside::call(id, OnDisconnect::Keep);
            call.tool = "maker".to_owned();
            inside.engine.start(call).await.unwrap();
            eventually("both run", async || inside.engine.calls().count() == 2).await;
        };
        let end = async |id: &str| {
            eventually("both have ended", async || inside.engine.calls().count() == 0).await;
            let record = inside.engine.get(&CallId::from(id)).await.unwrap().unwrap();
            record.ending.unwrap().outcome
        };
        make("stopped").await;
        inside.engine.cancel(&CallId::from("stopped")).await.unwrap();
        let page = PageRequest { size: 9, after: None };
        let calls = inside.engine.list(&CallFilter::default(), &page).await.unwrap().items;
        let ended = calls.iter().filter(|call| call.state.is_terminal()).count();
        assert_eq!((calls.len(), ended), (2, 2), "the call that it made ends first");
        assert!(matches!(
            end("stopped").await,
            Outcome::Failed {
                reason: EndReason::Cancelled,
                ..
            }
        ));
        make("finished").await;
        inside.gate.add_permits(2);
        let all_taken = async || inside.gate.available_permits() == 0;
        eventually("both lines are written", all_taken).await;
        inside.gate.close();
        let output = "line\nline\n".to_owned();
        assert_eq!(end("finished").await, Outcome::Completed { output });
    });
}

#[test]
fn input_before_the_answer_waits_for_it() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "bash": "ask" }))).await;
        let call = request("background", json!({"command": "cat", "description": "a test"}));
        let mut stream = server
            .tools()
            .execute_tool(kept("direct", call))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut stream).await;
        assert_eq!(
            send(&server, "direct", 0, "early\n", true).await.unwrap(),
            accepted(6, true)
        );
        answer(&server, &prompt, PromptDecision::Once).await;
        let events = collect(stream).await.unwrap();
        let end = result_of(end_of(&events));
        assert_eq!(end.output, "early\n");
    });
}

#[test]
fn its_time_limit_is_its_own() {
    test(async {
        let server = Server::start().await;
        let limited = json!({"command": "sleep 86405", "description": "x", "background": true, "timeout": 300});
        let maker = server.run("bash", limited).await;
        completed(&maker);
        let id = child_of(&server.watch(&maker.call_id, 0).await.unwrap());
        let end = result_of(Screen::of(&server, &id).await.end().await);
        assert!(end.output.contains("exceeding timeout 300 ms"), "{}", end.output);
        assert_eq!(processes("86405"), Vec::<u32>::new());
    });
}
