//! Approvers: one in each language answers for the calls of another.

use serde_json::json;
use toolgate_contract::{
    CallEvent, FailureReason, Prompt, PromptDecision, PromptFilter, PromptReply, QuestionAnswer, ReplyResult, call,
    call_event, prompt,
};

use super::driver::{Reports, pack, unpack};
use super::{Client, collect, for_each_language, languages};
use crate::support::*;

for_each_language!(
    prompts_come_back_over_connections_that_break,
    a_prompt_that_ends_elsewhere_is_taken_from_the_handler,
    who_asks_for_nothing_else_answers_its_own_calls_only,
);

async fn asked(reports: &mut Reports) -> Prompt {
    unpack(&reports.until("prompt").await.unwrap()).unwrap()
}

async fn reply(client: &Client, approvals: &Reports, reply: PromptReply) {
    let command = json!({"approvals": approvals.id, "reply": pack(&reply)});
    client.driver.ask("reply", command).await.unwrap();
}

fn to(prompt: &Prompt, decision: PromptDecision) -> PromptReply {
    PromptReply {
        prompt_id: prompt.prompt_id.clone(),
        decision: decision.into(),
        input_digest: prompt.input_digest.clone(),
        ..PromptReply::default()
    }
}

#[test]
fn each_answers_for_the_calls_of_the_others() {
    test(async {
        let server = Server::with(Setup::permission(json!({"bash": "ask", "question": "allow"}))).await;
        let mut clients = Vec::new();
        for language in languages() {
            clients.push(Client::of(language, &server).await);
        }
        for approver in &clients {
            let mut approvals = approver.begin("approvals", json!({"name": approver.name, "everybody": true}));
            approvals.until("ready").await.unwrap();
            for caller in &clients {
                decided(&server, caller, approver, &mut approvals).await;
            }
            approver.ask("stop", json!({"command": approvals.id})).await.unwrap();
            approvals.done().await.unwrap();
        }
    });
}

/// One call approved, one rejected with a message, one whose questions are answered.
async fn decided(server: &Server, caller: &Client, approver: &Client, approvals: &mut Reports) {
    let pair = format!("{} answers {}", approver.name, caller.name);
    let mut call = caller.execute(&in_session("s", bash("echo done")));
    let prompt = asked(approvals).await;
    reply(approver, approvals, to(&prompt, PromptDecision::Once)).await;
    let (_, ending) = collect(&mut call).await;
    let call::Ending::Completed(end) = ending else {
        panic!("{pair}: {ending:?}");
    };
    assert_eq!(end.output, "done\n", "{pair}");
    let settled = server.get(&prompt.call_id).await;
    assert_eq!(settled.tool, "bash");

    let mut call = caller.execute(&in_session("s", bash("rm -rf everything")));
    let prompt = asked(approvals).await;
    let no = PromptReply {
        message: "use rg instead".to_owned(),
        ..to(&prompt, PromptDecision::Reject)
    };
    reply(approver, approvals, no).await;
    let (_, ending) = collect(&mut call).await;
    let call::Ending::Failed(end) = ending else {
        panic!("{pair}: {ending:?}");
    };
    assert_eq!(end.reason(), FailureReason::Rejected, "{pair}");
    assert!(end.error.contains("use rg instead"), "{pair}: {}", end.error);

    let options = json!([{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]);
    let questions = json!([{"question": "Which colour?", "header": "Colour", "options": options}]);
    let mut call = caller.execute(&request("question", json!({"questions": questions})));
    let prompt = asked(approvals).await;
    assert!(matches!(prompt.request, Some(prompt::Request::Questions(_))), "{pair}");
    let answer = PromptReply {
        answers: vec![QuestionAnswer {
            values: vec!["Blue".to_owned()],
        }],
        ..to(&prompt, PromptDecision::Answer)
    };
    reply(approver, approvals, answer).await;
    let (_, ending) = collect(&mut call).await;
    let call::Ending::Completed(end) = ending else {
        panic!("{pair}: {ending:?}");
    };
    assert!(end.output.contains("Blue"), "{pair}: {}", end.output);
}

async fn prompts_come_back_over_connections_that_break(language: &str) {
    let setup = Setup {
        config: Some(json!({"permission": {"bash": "ask"}})),
        ..Setup::tcp()
    };
    let server = Server::with(setup).await;
    let shaky = Shaky::before(server.tcp.as_ref().unwrap(), Random::new(9)).await;
    let client = Client::to(language, &format!("http://{}", shaky.address)).await;
    let mut approvals = client.begin("approvals", json!({"name": "shaky"}));
    approvals.until("ready").await.unwrap();
    for number in 0..30 {
        let id = format!("call-{number}");
        let mut call = client.execute(&kept(&id, bash(&format!("echo {number}"))));
        let prompt = asked(&mut approvals).await;
        assert_eq!(prompt.call_id, id, "{language}: each prompt is handled once");
        reply(&client, &approvals, to(&prompt, PromptDecision::Once)).await;
        let (events, ending) = collect(&mut call).await;
        check_log(0, &events);
        let call::Ending::Completed(end) = ending else {
            panic!("{language}: {ending:?}");
        };
        assert_eq!(end.output, format!("{number}\n"), "{language}");
    }
    assert!(shaky.cuts() > 3, "only {} connections were cut", shaky.cuts());
}

async fn a_prompt_that_ends_elsewhere_is_taken_from_the_handler(language: &str) {
    let server = Server::with(Setup::permission(json!({"bash": "ask"}))).await;
    let client = Client::of(language, &server).await;
    let mut approvals = client.begin("approvals", json!({"name": "slow"}));
    approvals.until("ready").await.unwrap();
    let mut call = client.execute(&bash("echo done"));
    let prompt = asked(&mut approvals).await;
    let mut other = Approver::open(server.channel(), "quick").await.unwrap();
    let [seen] = &other.snapshot[..] else {
        panic!("one prompt is open: {:?}", other.snapshot);
    };
    let seen = seen.clone();
    assert_eq!(seen.prompt_id, prompt.prompt_id);
    assert!(other.send(to(&seen, PromptDecision::Once)).await);
    assert_eq!(other.result().await.result(), ReplyResult::Accepted);
    assert_eq!(
        approvals.until("gone").await.unwrap(),
        json!(prompt.prompt_id),
        "{language}"
    );
    assert!(matches!(collect(&mut call).await.1, call::Ending::Completed(_)));
    let command = json!({"approvals": approvals.id, "reply": pack(&to(&prompt, PromptDecision::Reject))});
    let error = client.driver.ask("reply", command).await.unwrap_err();
    let error: &super::driver::DriverError = error.downcast_ref().unwrap();
    assert_eq!(error.code, "NOT_FOUND", "{language}: nobody waits for it any more");
}

async fn who_asks_for_nothing_else_answers_its_own_calls_only(language: &str) {
    let server = Server::with(Setup::permission(json!({"bash": "ask"}))).await;
    let (mine, theirs) = (Client::of(language, &server).await, Client::of(language, &server).await);
    let mut own = mine.begin("approvals", json!({"name": "own"}));
    own.until("ready").await.unwrap();

    // Nobody is there for the call of the other: had this one been shown it, it would be the first.
    let mut other = theirs.execute(&in_session("theirs", bash("echo theirs")));
    let approvers = loop {
        let event: CallEvent = unpack(&other.until("event").await.unwrap()).unwrap();
        if let Some(call_event::Event::Waiting(waiting)) = event.event {
            break waiting.approvers;
        }
    };
    assert_eq!(approvers, 0, "{language}");
    for request in [in_session("mine", bash("echo named")), bash("echo unnamed")] {
        let mut call = mine.execute(&request);
        let prompt = asked(&mut own).await;
        assert!(!format!("{prompt:?}").contains("echo theirs"), "{language}: {prompt:?}");
        reply(&mine, &own, to(&prompt, PromptDecision::Once)).await;
        assert!(
            matches!(collect(&mut call).await.1, call::Ending::Completed(_)),
            "{language}"
        );
    }

    // Another's is answered by who asks for its session, or for everybody's.
    let filter = PromptFilter {
        session_ids: vec!["theirs".to_owned()],
        ..PromptFilter::default()
    };
    for wider in [json!({"filter": pack(&filter)}), json!({"everybody": true})] {
        let mut command = wider;
        command["name"] = json!("wider");
        let mut approvals = mine.begin("approvals", command);
        let prompt = asked(&mut approvals).await;
        assert_eq!(prompt.session_id, "theirs", "{language}");
        mine.ask("stop", json!({"command": approvals.id})).await.unwrap();
    }
}
