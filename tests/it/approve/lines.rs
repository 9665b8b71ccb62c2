//! `toolgate approve --json`: a program writes replies as lines and reads what the services say.

use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use toolgate_contract::*;

use super::{ask, asks, decided};
use crate::support::*;

/// Runs it for all services of this home, with these lines as its whole input.
async fn piped(home: &str, lines: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.args(["approve", "--json", "--name", "ann"]);
    command.env_clear().env("HOME", home).kill_on_drop(true);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).await.unwrap();
    drop(input);
    child.wait_with_output().await.unwrap()
}

/// The ids of the prompts that were told.
fn told(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ids = messages.filter_map(|message| Some(message["promptAdded"]["prompt"]["promptId"].as_str()?.to_owned()));
    let mut ids: Vec<String> = ids.collect();
    ids.sort();
    ids
}

fn reply_line(prompt: &Prompt) -> String {
    let reply = json!({
        "promptId": prompt.prompt_id, "inputDigest": prompt.input_digest, "decision": "PROMPT_DECISION_ONCE",
    });
    format!("{reply}\n")
}

#[test]
fn a_reply_that_is_there_at_once_finds_its_service() {
    test(async {
        let first = Server::with(asks()).await;
        let home = first.folder().join("home").display().to_string();
        let second = Server::with(asks().env("HOME", &home)).await;
        let third = Server::with(asks().env("HOME", &home)).await;
        let mut prompts = Vec::new();
        let mut streams = Vec::new();
        for (number, server) in [&first, &second, &third].into_iter().enumerate() {
            let (stream, prompt) = ask(server, &format!("c{number}"), bash("echo x")).await;
            streams.push(stream);
            prompts.push(prompt);
        }

        // All of them are listed, however short the input is.
        let output = piped(&home, "").await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let mut ids: Vec<String> = prompts.iter().map(|prompt| prompt.prompt_id.clone()).collect();
        ids.sort();
        assert_eq!(told(&output), ids);

        for (server, prompt) in [&first, &second, &third].into_iter().zip(&prompts) {
            let output = piped(&home, &reply_line(prompt)).await;
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            assert_eq!(decided(server, prompt).await, (PromptDecision::Once, "ann".to_owned()));
        }
    });
}

#[test]
fn what_decides_nothing_is_seen_from_the_exit_code() {
    test(async {
        let server = Server::with(asks()).await;
        let home = server.folder().join("home").display().to_string();
        let (_stream, prompt) = ask(&server, "one", bash("echo x")).await;
        let stranger = Prompt {
            prompt_id: "per_unknown".to_owned(),
            ..prompt.clone()
        };
        let output = piped(&home, &reply_line(&stranger)).await;
        assert_eq!(output.status.code(), Some(9), "{output:?}");

        // A line that is no reply keeps none of the others back.
        let output = piped(&home, &format!("once\n{}", reply_line(&prompt))).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(
            decided(&server, &prompt).await,
            (PromptDecision::Once, "ann".to_owned())
        );
    });
}
