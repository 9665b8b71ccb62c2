//! Sides that do not read, end in the midst of something, or say what is no message or too long a one.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::eventually;

use super::*;

fn is_there(pid: &Value) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn kill(pid: &Value) {
    let pid = Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn prompts_are_answered_while_the_agent_reads_nothing() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        let session = editor.opens().await;
        let file = editor.project().join("new.txt");
        let input = json!({"filePath": file, "content": "hello\n"});
        let turn = editor.prompts(&session, "write", input).await;
        let (id, _) = editor.asked().await;
        editor.does("x/stall", json!({})).await;
        // More than fits into a pipe.
        let note = json!({"jsonrpc": "2.0", "method": "x/note", "params": "x".repeat(1 << 20)}).to_string();
        for _ in 0..4 {
            editor.send(&note).await;
        }
        editor.chooses(&id, "once").await;
        let (result, _) = editor.result(turn).await;
        assert_eq!(result["result"]["isError"], false, "{result}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello\n");
        // It is not waited for until it reads.
        let (ended, complaints) = editor.leaves().await;
        assert_eq!(ended.code(), Some(128 + 15), "{complaints}");
    });
}

#[test]
fn prompts_are_answered_when_the_agent_has_closed_its_input() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        let session = editor.opens().await;
        let turn = editor.prompts(&session, "bash", bash("echo hello")).await;
        let (id, _) = editor.asked().await;
        editor.does("x/close", json!({})).await;
        let note = json!({"jsonrpc": "2.0", "method": "x/note", "params": {}}).to_string();
        for _ in 0..3 {
            editor.send(&note).await;
        }
        editor.chooses(&id, "once").await;
        let (result, _) = editor.result(turn).await;
        assert_eq!(result["result"]["isError"], false, "{result}");
        let (ended, _) = editor.leaves().await;
        assert_eq!(ended.code(), Some(128 + 15));
    });
}

#[test]
fn both_sides_may_say_much_before_they_read() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        let last = editor.asks("x/many", json!(400)).await;
        let note = json!({"jsonrpc": "2.0", "method": "x/note", "params": "x".repeat(1 << 20)}).to_string();
        for _ in 0..6 {
            editor.send(&note).await;
        }
        let (_, before) = editor.until(|message| message["id"] == last).await;
        let numbers: Vec<u64> = before.iter().map(|one| one["params"][0].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..400).collect::<Vec<_>>());
        let (ended, complaints) = editor.leaves().await;
        assert!(ended.success(), "{ended}: {complaints}");
    });
}

#[test]
fn a_request_for_a_session_changes_by_its_servers_only() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        editor.requests += 1;
        let (before, behind) = (
            format!(
                r#"{{"id": 2.0, "method":"session\/new","params": {{"cwd":{},"#,
                json!(editor.project())
            ),
            r#""_meta":{"n":1.50,"big":12345678901234567890123,"n":1e999,"lone":"\ud800"}},  "jsonrpc":"2.0"}"#,
        );
        editor.send(&format!(r#"{before}"mcpServers":[ ],{behind}"#)).await;
        let (opened, _) = editor.until(|message| message["id"] == 2.0).await;
        assert!(opened["result"]["sessionId"].is_string(), "{opened}");
        let sent = editor.does("x/opened", json!({})).await;
        let sent = sent.as_str().unwrap();
        assert!(
            sent.starts_with(&format!(r#"{before}"mcpServers":[{{"name":"toolgate","#)),
            "{sent}"
        );
        assert!(sent.ends_with(&format!("}}],{behind}\n")), "{sent}");
        let (ended, complaints) = editor.leaves().await;
        assert!(ended.success(), "{ended}: {complaints}");
    });
}

#[test]
fn messages_of_any_length_pass() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        let length = 65 << 20;
        editor.requests += 1;
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"x/length","params":"{}"}}"#,
            editor.requests,
            "x".repeat(length)
        );
        editor.send(&request).await;
        assert_eq!(editor.next().await["result"], request.len() + 1);
        let long = editor.does("x/long", json!(length)).await;
        assert_eq!(long.as_str().map(str::len), Some(length));
        let (ended, complaints) = editor.leaves().await;
        assert!(ended.success(), "{ended}: {complaints}");
        for who in ["the editor", "the agent"] {
            let told = format!("a message of {who} is longer than 64.0 MiB: it is passed on unread");
            assert!(complaints.contains(&told), "{complaints}");
        }
    });
}

#[test]
fn what_is_no_message_holds_up_nobody() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        // Of all of it more would be told than fits into a pipe that nobody reads.
        editor.does("x/babble", json!({"times": 20_000})).await;
        for nonsense in ["\u{0}\u{1}\u{7f}", "{", "[1,", "\"text", "{\"id\":", "}{"] {
            editor.send(nonsense).await;
        }
        let session = editor.opens().await;
        let missing = editor.project().join("missing");
        let turn = editor.prompts(&session, "read", json!({"filePath": missing})).await;
        editor.result(turn).await;
        let (ended, complaints) = editor.leaves().await;
        assert!(ended.success(), "{ended}: {complaints}");
        assert!(complaints.contains("more lines that are no messages are not told of"));
    });
}

#[test]
fn what_the_agent_leaves_is_given_time_to_end() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        let mark = editor.home.path().join("mark");
        editor.asks("x/leave", json!(mark)).await;
        let (ended, complaints) = editor.ended().await;
        assert_eq!(ended.code(), Some(3), "{complaints}");
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), "done\n");
    });
}

#[test]
fn whoever_is_killed_takes_the_others_with_it() {
    test(async {
        for victim in ["agent", "program"] {
            let mut editor = Editor::start(1, &[]).await;
            let session = editor.opens().await;
            editor.prompts(&session, "bash", bash("sleep 1000")).await;
            editor.asked().await;
            let agent = editor.does("x/babble", json!({})).await;
            let program = json!(editor.program.id().unwrap());
            let expected = if victim == "agent" {
                kill(&agent);
                Some(128 + 9)
            } else {
                kill(&program);
                None
            };
            let (ended, complaints) = editor.ended().await;
            assert_eq!(ended.code(), expected, "{victim}: {complaints}");
            eventually("the agent has ended", async || !is_there(&agent)).await;
        }
    });
}

#[test]
fn two_editors_at_one_project_are_shown_what_is_theirs() {
    test(async {
        let mut one = Editor::start(1, &[]).await;
        let (home, project) = (one.home.clone(), one.project());
        let mut other = Editor::at((home, &project), 1, &[], &[]).await;
        let mut turns = Vec::new();
        for (number, editor) in [&mut one, &mut other].into_iter().enumerate() {
            let session = editor.opens().await;
            let file = project.join(number.to_string());
            let input = json!({"filePath": file, "content": "x"});
            turns.push((editor.prompts(&session, "write", input).await, file));
        }
        for (editor, (turn, file)) in [&mut one, &mut other].into_iter().zip(turns) {
            let (id, shown) = editor.asked().await;
            assert_eq!(shown["toolCall"]["content"][0]["path"], json!(file), "{shown}");
            editor.chooses(&id, "once").await;
            let (result, _) = editor.result(turn).await;
            assert_eq!(result["result"]["isError"], false, "{result}");
            assert!(file.exists());
        }
        for editor in [one, other] {
            let (ended, complaints) = editor.leaves().await;
            assert!(ended.success(), "{ended}: {complaints}");
        }
    });
}

#[test]
fn an_agent_that_ends_at_once_ends_it() {
    test(async {
        for (program, expected) in [("true", 0), ("false", 1)] {
            let output = Command::new(PROGRAM)
                .args(["acp", "--", program])
                .stdin(Stdio::piped())
                .kill_on_drop(true)
                .output();
            let output = timeout(LIMIT, output).await.expect("it does not end").unwrap();
            assert_eq!(output.status.code(), Some(expected), "{program}: {output:?}");
        }
    });
}
