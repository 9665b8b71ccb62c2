//! Questions to people, plan mode and todos, on the real program.

use std::time::Duration;

use serde_json::{Value, json};
use tonic::Streaming;
use toolgate_contract::event::Event as Kind;
use toolgate_contract::*;

use crate::support::*;

fn questions(texts: &[&str]) -> ExecuteToolRequest {
    let one = |text: &&str| json!({"question": text, "header": "h", "options": [{"label": "Yes", "description": "d"}]});
    let questions: Vec<Value> = texts.iter().map(one).collect();
    request("question", json!({ "questions": questions }))
}

fn todo(content: &str) -> Value {
    json!({"content": content, "status": "pending", "priority": "low"})
}

fn todowrite(session: &str, todos: &[Value]) -> ExecuteToolRequest {
    in_session(session, request("todowrite", json!({ "todos": todos })))
}

fn answers(prompt: &Prompt, lists: &[&[&str]]) -> PromptReply {
    let answer = |values: &&[&str]| QuestionAnswer {
        values: values.iter().map(|&value| value.to_owned()).collect(),
    };
    PromptReply {
        answers: lists.iter().map(answer).collect(),
        input_digest: prompt.input_digest.clone(),
        ..reply(prompt, PromptDecision::Answer)
    }
}

async fn reply_unary(server: &Server, reply: PromptReply) -> Result<PromptReplyResult, tonic::Status> {
    let request = ReplyPromptRequest {
        reply: Some(reply),
        name: "tester".to_owned(),
    };
    Ok(server
        .permissions()
        .reply_prompt(request)
        .await?
        .into_inner()
        .result
        .unwrap())
}

async fn start(server: &Server, request: ExecuteToolRequest) -> (Streaming<ExecuteToolResponse>, Prompt) {
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    let prompt = waiting(&mut stream).await;
    (stream, prompt)
}

async fn session(server: &Server, id: &str) -> Session {
    let request = GetSessionRequest {
        session_id: id.to_owned(),
        ..Default::default()
    };
    let response = server.sessions().get_session(request).await.unwrap();
    response.into_inner().session.unwrap()
}

async fn todos(server: &Server, id: &str) -> Vec<String> {
    let todos = session(server, id).await.todos;
    todos.into_iter().map(|todo| todo.content).collect()
}

async fn end_session(server: &Server, id: &str) {
    let request = EndSessionRequest {
        session_id: id.to_owned(),
        ..Default::default()
    };
    server.sessions().end_session(request).await.unwrap();
}

fn questions_of(prompt: &Prompt) -> &[Question] {
    match &prompt.request {
        Some(prompt::Request::Questions(request)) => &request.questions,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_of_two_approvers_answers() {
    test(async {
        let mut server = Server::start().await;
        let mut one = Approver::open(server.connect().await, "one").await.unwrap();
        let mut other = Approver::open(server.connect().await, "other").await.unwrap();
        let (stream, prompt) = start(&server, kept("q", questions(&["Name?", "Age?"]))).await;
        assert!(prompt.prompt_id.starts_with("que_"), "{prompt:?}");
        let asked = questions_of(&prompt);
        assert_eq!((asked.len(), asked[1].question.as_str()), (2, "Age?"));
        assert!(asked[0].custom && !asked[0].multiple);
        for approver in [&mut one, &mut other] {
            assert_eq!(approver.added().await, prompt);
        }
        assert!(one.send(answers(&prompt, &[&["Ann", "Bob"]])).await);
        let result = one.result().await;
        assert_eq!(result.result(), ReplyResult::Accepted, "{result:?}");
        let resolved = other.resolved(&prompt.prompt_id).await;
        let resolution = resolved.resolution.unwrap();
        assert_eq!(resolution.decision(), PromptDecision::Answer);
        assert_eq!((resolution.resolved_by.as_str(), resolution.answers.len()), ("one", 1));
        other.send(answers(&prompt, &[&["Late"]])).await;
        assert_eq!(other.result().await.result(), ReplyResult::AlreadyResolved);
        let events = collect(stream).await.unwrap();
        let call::Ending::Completed(end) = end_of(&events) else {
            panic!("{events:?}")
        };
        assert_eq!(end.title, "Asked 2 questions");
        assert!(
            end.output.contains(r#""Name?"="Ann, Bob", "Age?"="Unanswered""#),
            "{}",
            end.output
        );
        // Nobody is needed for no questions.
        let none = server.run("question", json!({"questions": []})).await;
        assert_eq!(completed(&none).title, "Asked 0 question");
        server.stop().await;
    });
}

#[test]
fn a_reply_of_the_wrong_kind_decides_nothing() {
    test(async {
        let mut server = Server::with(Setup::permission(json!({"bash": "ask"}))).await;
        let mut approver = Approver::open(server.connect().await, "one").await.unwrap();
        let (question_stream, question) = start(&server, kept("q", questions(&["Go on?"]))).await;
        let (command_stream, command) = start(&server, kept("c", bash("echo ran"))).await;
        let wrong = [
            (reply(&question, PromptDecision::Once), "reply ANSWER or REJECT"),
            (reply(&question, PromptDecision::Always), "reply ANSWER or REJECT"),
            (answers(&command, &[&["Yes"]]), "reply ONCE, ALWAYS, INSTEAD or REJECT"),
        ];
        for (wrong, problem) in wrong {
            assert!(approver.send(wrong.clone()).await);
            let result = approver.result().await;
            assert_eq!(result.result(), ReplyResult::Invalid);
            assert!(result.message.contains(problem), "{}", result.message);
            assert_eq!(reply_unary(&server, wrong).await.unwrap(), result);
        }
        let once_with_answers = PromptReply {
            decision: PromptDecision::Once.into(),
            ..answers(&command, &[&["Yes"]])
        };
        let refusal = reply_unary(&server, once_with_answers).await.unwrap();
        assert_eq!(refusal.result(), ReplyResult::Invalid);
        // Both are still open, and a refused question does not take the session's other prompts along.
        reply_unary(&server, reply(&question, PromptDecision::Reject))
            .await
            .unwrap();
        let call::Ending::Failed(end) = end_of(&collect(question_stream).await.unwrap()) else {
            panic!("a dismissed question fails its call")
        };
        assert_eq!(end.reason(), FailureReason::Rejected);
        assert_eq!(end.error, "The user dismissed this question");
        reply_unary(&server, reply(&command, PromptDecision::Once))
            .await
            .unwrap();
        let end = end_of(&collect(command_stream).await.unwrap());
        assert!(matches!(end, call::Ending::Completed(_)), "{end:?}");
        server.stop().await;
    });
}

#[test]
fn a_dismissal_may_say_why() {
    test(async {
        let server = Server::start().await;
        let (stream, question) = start(&server, questions(&["Go on?"])).await;
        let mut later = reply(&question, PromptDecision::Reject);
        later.message = "ask tomorrow".to_owned();
        reply_unary(&server, later).await.unwrap();
        let call::Ending::Failed(end) = end_of(&collect(stream).await.unwrap()) else {
            panic!("a dismissed question fails its call")
        };
        assert_eq!(
            end.error,
            "The user dismissed this question with the following feedback: ask tomorrow"
        );
    });
}

#[test]
fn an_open_question_survives_the_service() {
    test(async {
        let plan_mode = Setup::default().env("OPENCODE_EXPERIMENTAL_PLAN_MODE", "1");
        let mut server = Server::with(plan_mode).await;
        let (_stream, question) = start(&server, in_session("s", kept("q", questions(&["Go on?"])))).await;
        let (_stream, plan) = start(&server, in_session("s", kept("p", request("plan_enter", json!({}))))).await;
        for _ in 0..2 {
            server.kill9().await;
            server.restart().await;
            let mut open = session(&server, "s").await.open_prompts;
            open.sort_by(|a, b| a.call_id.cmp(&b.call_id));
            let ids: Vec<&str> = open.iter().map(|prompt| prompt.prompt_id.as_str()).collect();
            assert_eq!(ids, [&plan.prompt_id, &question.prompt_id]);
            // The plan is named once, so the question is word for word the same.
            assert_eq!(questions_of(&open[0]), questions_of(&plan));
            for call in ["q", "p"] {
                eventually("the call waits again", async || {
                    server.get(call).await.state() == CallState::Waiting
                })
                .await;
            }
        }
        for prompt in [&question, &plan] {
            let response = reply_unary(&server, answers(prompt, &[&["Yes"]])).await.unwrap();
            assert_eq!(response.result(), ReplyResult::Accepted);
        }
        for (call, title) in [("q", "Asked 1 question"), ("p", "Switching to plan agent")] {
            let call::Ending::Completed(end) = end_of(&server.watch(call, 0).await.unwrap()) else {
                panic!("{call} is answered")
            };
            assert_eq!(end.title, title);
        }
        server.stop().await;
    });
}

#[test]
fn nobody_is_asked_for_a_call_that_is_gone() {
    test(async {
        let server = Server::start().await;
        let mut approver = Approver::open(server.connect().await, "one").await.unwrap();
        let cancelled = start(&server, in_session("s", kept("cancelled", questions(&["1?"])))).await;
        let ended = start(&server, in_session("s", kept("ended", questions(&["2?"])))).await;
        let left = start(&server, in_session("s", questions(&["3?"]))).await;
        let call_id = "cancelled".to_owned();
        server.tools().cancel_call(CancelCallRequest { call_id }).await.unwrap();
        let gone = approver.resolved(&cancelled.1.prompt_id).await;
        assert_eq!(gone.state(), PromptState::Withdrawn);
        drop(left.0);
        let gone = approver.resolved(&left.1.prompt_id).await;
        assert_eq!(gone.state(), PromptState::Withdrawn);
        end_session(&server, "s").await;
        let gone = approver.resolved(&ended.1.prompt_id).await;
        assert_eq!(gone.state(), PromptState::Withdrawn);
        let late = reply_unary(&server, answers(&ended.1, &[&["Yes"]])).await.unwrap();
        assert_eq!(late.result(), ReplyResult::Withdrawn);
        assert!(session(&server, "s").await.open_prompts.is_empty());
        for call in ["cancelled", "ended"] {
            assert_eq!(failed(&server.get(call).await).reason(), FailureReason::Cancelled);
        }
        server.assert_calm();
    });
}

#[test]
fn todos_belong_to_their_session() {
    test(async {
        let mut server = Server::start().await;
        let mut events = server
            .sessions()
            .watch_events(WatchEventsRequest {
                session_id: "a".to_owned(),
                ..Default::default()
            })
            .await
            .unwrap()
            .into_inner();
        server.execute(todowrite("a", &[todo("1")])).await.unwrap();
        let updated = loop {
            let event = events.message().await.unwrap().unwrap().event.unwrap();
            if let Some(Kind::TodosUpdated(updated)) = event.event {
                assert_eq!(event.session_id, "a");
                break updated;
            }
        };
        assert_eq!((updated.todos.len(), updated.todos[0].content.as_str()), (1, "1"));
        assert_eq!(updated.todos[0].id, None);
        server.execute(todowrite("b", &[todo("2")])).await.unwrap();
        // Both were written before the service died, the second one right before.
        server.kill9().await;
        server.restart().await;
        assert_eq!(todos(&server, "a").await, ["1"]);
        server.execute(todowrite("a", &[todo("3"), todo("4")])).await.unwrap();
        assert_eq!(todos(&server, "a").await, ["3", "4"]);
        assert_eq!(todos(&server, "b").await, ["2"]);
        assert!(todos(&server, "c").await.is_empty());
        let mut all = server
            .sessions()
            .watch_events(WatchEventsRequest {
                after_sequence: Some(0),
                ..Default::default()
            })
            .await
            .unwrap()
            .into_inner();
        let mut lists = Vec::new();
        while lists.len() < 3 {
            let event = all.message().await.unwrap().unwrap().event.unwrap();
            if let Some(Kind::TodosUpdated(updated)) = event.event {
                lists.push((event.session_id, updated.todos.len()));
            }
        }
        assert_eq!(
            lists,
            [("a", 1), ("b", 1), ("a", 2)].map(|(id, count)| (id.to_owned(), count))
        );
        end_session(&server, "a").await;
        assert!(todos(&server, "a").await.is_empty());
        assert_eq!(todos(&server, "b").await, ["2"]);
        server.stop().await;
    });
}

#[test]
fn what_is_too_much_is_refused_with_a_reason() {
    test(async {
        let mut server = Server::start().await;
        server.execute(todowrite("s", &[todo("kept")])).await.unwrap();
        let wide = "é".repeat(200_000);
        let asked = |question: &str| json!({"question": question, "header": "h", "options": []});
        let calls = [
            (
                todowrite("s", &vec![todo("x"); 10_000]),
                "10000 todos, and at most 1000",
            ),
            (todowrite("s", &[todo(&wide)]), "400010 bytes of text"),
            (
                request("question", json!({"questions": vec![asked("?"); 1000]})),
                "1000 questions are too many",
            ),
            (
                request("question", json!({"questions": [asked(&wide)]})),
                "400001 bytes of text",
            ),
            (
                request(
                    "question",
                    json!({"questions": [{"question": "?", "header": "h", "options": null}]}),
                ),
                "options",
            ),
            (request("todowrite", json!({"todos": {"content": "x"}})), "todos"),
        ];
        for (request, problem) in calls {
            let ended = tokio::time::timeout(Duration::from_secs(30), server.execute(request)).await;
            let call::Ending::Failed(end) = end_of(&ended.unwrap().unwrap()) else {
                panic!("{problem}: it went through")
            };
            assert!(end.error.contains(problem), "{}", end.error);
        }
        assert_eq!(todos(&server, "s").await, ["kept"]);
        // The largest list that is taken is a long text, so it is cut for the model and kept whole.
        let most = vec![todo("x"); 1000];
        let events = server.execute(todowrite("s", &most)).await.unwrap();
        let call::Ending::Completed(end) = end_of(&events) else {
            panic!("{events:?}")
        };
        assert!(end.truncation.unwrap().truncated);
        assert_eq!(todos(&server, "s").await.len(), 1000);
        server.stop().await;
    });
}

#[test]
fn who_is_offered_what() {
    test(async {
        async fn check(setup: Setup, agent: &str, client: &str, present: &[&str], absent: &[&str]) {
            let server = Server::with(setup).await;
            let request = ListToolsRequest {
                agent: agent.to_owned(),
                client_kind: client.to_owned(),
                ..Default::default()
            };
            let tools = server.tools().list_tools(request).await.unwrap().into_inner().tools;
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            assert!(present.iter().all(|name| names.contains(name)), "{client}: {names:?}");
            assert!(!absent.iter().any(|name| names.contains(name)), "{client}: {names:?}");
        }
        let plain = Setup::default;
        let plan = || Setup::default().env("OPENCODE_EXPERIMENTAL", "true");
        check(
            plain(),
            "build",
            "",
            &["question", "todowrite"],
            &["plan_enter", "plan_exit"],
        )
        .await;
        check(plan(), "build", "cli", &["question", "plan_enter"], &["plan_exit"]).await;
        check(plan(), "plan", "cli", &["question", "plan_exit"], &["plan_enter"]).await;
        check(plan(), "build", "app", &["question"], &["plan_enter"]).await;
        check(plain(), "build", "acp", &["todowrite"], &["question"]).await;
        let acp = || Setup::default().env("OPENCODE_CLIENT", "acp");
        check(acp(), "build", "", &["todowrite"], &["question"]).await;
        check(
            acp().env("OPENCODE_ENABLE_QUESTION_TOOL", "1"),
            "build",
            "",
            &["question"],
            &[],
        )
        .await;
    });
}

#[test]
fn a_question_that_nobody_answers_ends_as_the_policy_says() {
    test(async {
        async fn check(name: &'static str, value: &str, error: &str) {
            let server = Server::with(Setup::default().env(name, value)).await;
            let call::Ending::Failed(end) = end_of(&server.execute(questions(&["Anybody?"])).await.unwrap()) else {
                panic!("nobody answered")
            };
            assert_eq!(end.reason(), FailureReason::PromptExpired);
            assert!(end.error.contains(error), "{}", end.error);
        }
        check(
            "TOOLGATE_PERMISSION_TIMEOUT",
            "200ms",
            "Nobody answered the prompt que_",
        )
        .await;
        check("TOOLGATE_PERMISSION_UNATTENDED", "refuse", "nobody is there").await;
    });
}
