//! Prompts of commands that have a service of their own, answered at the service that has the same data directory.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use toolgate_contract::channel_response::Message;
use toolgate_contract::*;

use crate::command_line::greeting;
use crate::prompts::{answer, asks, open_prompts};
use crate::support::*;

/// An MCP client, and `toolgate mcp` with a service of its own on the server's data.
struct Agent {
    _program: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Results that were read while others were waited for.
    results: BTreeMap<u64, String>,
}

impl Agent {
    async fn start(server: &Server) -> Self {
        let mut program = server.command_aside(&["mcp"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut agent = Self {
            input: program.stdin.take().unwrap(),
            output: BufReader::new(program.stdout.take().unwrap()).lines(),
            results: BTreeMap::new(),
            _program: program,
        };
        agent.input.write_all(greeting().as_bytes()).await.unwrap();
        agent
    }

    async fn call(&mut self, id: u64, command: &str) {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "bash", "arguments": {"command": command, "description": "d"}}});
        self.input.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    }

    /// Waits for the result of a call.
    async fn result(&mut self, id: u64) -> String {
        while !self.results.contains_key(&id) {
            let line = self.output.next_line().await.unwrap().expect("a result");
            let message: Value = serde_json::from_str(&line).unwrap();
            if let (Some(id), Value::Object(result)) = (message["id"].as_u64(), &message["result"]) {
                self.results.insert(id, Value::Object(result.clone()).to_string());
            }
        }
        self.results.remove(&id).unwrap()
    }
}

/// A person at `toolgate call`, with a service of its own on the server's data, in the server's folder.
fn person(server: &Server, id: &str, command: &str) -> Pty {
    let command = format!("command={command}");
    let args = [
        "call",
        "--standalone",
        "--call-id",
        id,
        "bash",
        &command,
        "description=d",
    ];
    let mut command = server.command_aside(&args);
    command.current_dir(server.work());
    Pty::of(command.into_std())
}

#[test]
fn a_person_elsewhere_answers_what_a_command_asks() {
    test(async {
        let server = Server::with(asks()).await;
        let mut approver = Approver::open(server.connect().await, "ann").await.unwrap();
        assert_eq!(approver.snapshot, []);
        let mut person = person(&server, "c", "echo it-was-al''lowed");
        person.shows("echo it-was").await;
        let prompt = approver.added().await;
        assert_eq!(prompt.call_id, "c");
        assert_eq!(open_prompts(&server).await, std::slice::from_ref(&prompt));
        let replied = answer(&server, reply(&prompt, PromptDecision::Once)).await;
        assert_eq!(replied.result(), ReplyResult::Accepted, "{replied:?}");
        person.shows("it-was-allowed").await;
        assert_eq!(person.ended().await, 0);
        assert_eq!(
            approver.resolved(&prompt.prompt_id).await.state(),
            PromptState::Resolved
        );
        let late = answer(&server, reply(&prompt, PromptDecision::Once)).await;
        assert_eq!(late.result(), ReplyResult::AlreadyResolved, "{late:?}");

        // And the other way round: the person at the terminal is faster, and whoever watches is told.
        let mut person = self::person(&server, "d", "echo of-the-per''son");
        let prompt = approver.added().await;
        person.press('o').await;
        person.shows("of-the-person").await;
        assert_eq!(
            approver.resolved(&prompt.prompt_id).await.state(),
            PromptState::Resolved
        );
    });
}

#[test]
fn a_reply_decides_other_prompts_of_the_session_and_grants_there() {
    test(async {
        let server = Server::with(asks()).await;
        let mut approver = Approver::open(server.connect().await, "ann").await.unwrap();
        let mut agent = Agent::start(&server).await;
        for (id, command) in [(1, "echo one"), (2, "echo two"), (3, "printf three")] {
            agent.call(id, command).await;
        }
        let mut prompts = Vec::new();
        while prompts.len() < 3 {
            prompts.push(approver.added().await);
        }
        let title = |prompt: &Prompt| match &prompt.request {
            Some(prompt::Request::Permission(asked)) => asked.patterns.join(" "),
            other => panic!("{other:?}"),
        };
        let of = |command: &str| prompts.iter().find(|prompt| title(prompt).contains(command)).unwrap();
        assert!(approver.send(reply(of("echo one"), PromptDecision::Always)).await);
        let (mut ended, mut accepted) = (BTreeSet::new(), false);
        while ended.len() < 2 || !accepted {
            match approver.next().await.unwrap() {
                Message::PromptResolved(resolved) => {
                    ended.insert(resolved.prompt.unwrap().prompt_id);
                }
                Message::ReplyResult(result) => accepted = result.result() == ReplyResult::Accepted,
                other => panic!("{other:?}"),
            }
        }
        let expected = [of("echo one"), of("echo two")].map(|prompt| prompt.prompt_id.clone());
        assert_eq!(ended, BTreeSet::from(expected));
        for (id, text) in [(1, "one"), (2, "two")] {
            let result = agent.result(id).await;
            assert!(result.contains(text), "{result}");
        }
        // It is granted in the other process: nobody is asked.
        agent.call(4, "echo four").await;
        let result = agent.result(4).await;
        assert!(result.contains("four"), "{result}");
        // A rejection comes there, too.
        answer(&server, reply(of("printf three"), PromptDecision::Reject)).await;
        let result = agent.result(3).await;
        assert!(result.contains("rejected permission"), "{result}");
        assert_eq!(open_prompts(&server).await, []);
    });
}

#[test]
fn a_prompt_of_a_killed_command_is_answered_before_anybody_takes_its_call_over() {
    test(async {
        let server = Server::with(asks()).await;
        let mut prompts = Vec::new();
        for (id, decision) in [("once", PromptDecision::Once), ("reject", PromptDecision::Reject)] {
            let person = person(&server, id, &format!("echo goes-on-after-{id}"));
            let found = async || {
                let open = open_prompts(&server).await;
                open.into_iter().find(|prompt| prompt.call_id == id)
            };
            eventually("the prompt is there", async || found().await.is_some()).await;
            let prompt = found().await.unwrap();
            // The prompt is stored before the call is recorded as waiting for it.
            let waits = async || server.get(id).await.state() == CallState::Waiting;
            eventually("the call waits", waits).await;
            person.signal(Signal::KILL);
            drop(person);
            prompts.push((id, decision, prompt));
        }
        for (_, decision, prompt) in &prompts {
            let replied = answer(&server, reply(prompt, *decision)).await;
            assert_eq!(replied.result(), ReplyResult::Accepted, "{replied:?}");
        }
        eventually("the calls have come to their ends", async || {
            let mut ended = 0;
            for (id, ..) in &prompts {
                let state = server.get(id).await.state();
                ended += usize::from(matches!(state, CallState::Completed | CallState::Failed));
            }
            ended == prompts.len()
        })
        .await;
        let once = server.get("once").await;
        assert_eq!(completed(&once).output.trim(), "goes-on-after-once");
        let rejected = server.get("reject").await;
        assert_eq!(failed(&rejected).reason(), FailureReason::Rejected, "{rejected:?}");
    });
}
