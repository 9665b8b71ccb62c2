//! What `toolgate call` tells people: mistakes, why a call failed, and what others are asked.

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::*;

#[test]
fn a_misspelt_variable_is_told_by_commands() {
    test(async {
        let server = Server::start().await;
        for args in [
            &["calls"][..],
            &["call", "glob", "pattern=*"],
            &["call", "--standalone", "glob", "pattern=*"],
        ] {
            let output = server.command(args).env("TOOLGATE_SEVER", "x").output().await.unwrap();
            let err = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{args:?}: {err}");
            let told = "the variable TOOLGATE_SEVER is not known and has no effect; did you mean TOOLGATE_SERVER?";
            assert_eq!(err.matches(told).count(), 1, "{args:?}: {err}");
        }
    });
}

#[test]
fn why_a_call_failed_is_told_once_and_to_people() {
    test(async {
        let server = Server::with(Setup::permission(json!({"bash": {"*": "ask", "rm *": "deny"}}))).await;
        let rules = std::fs::canonicalize(server.folder().join("home")).unwrap();
        let rules = rules.join(".config/opencode/opencode.json");
        let check = async |args: &[&str], code: i32, told: &str| {
            let (ended, out, err) = server.cli(&[&["call"], args].concat()).await;
            assert_eq!(ended, code, "{args:?}: {out} {err}");
            assert!(err.contains(&format!("error: {told}")), "{args:?}: {err}");
            for word in ["The user ", "\nfailed", "prompt per_"] {
                assert!(!err.contains(word), "{word:?} {args:?}: {err}");
            }
            assert!(err.matches("rejected").count() < 2, "{args:?}: {err}");
        };
        let denied = format!("bash: denied by the rule \"bash\": \"rm *\" in {}", rules.display());
        for alone in [&[][..], &["--standalone"]] {
            let rm = ["bash", "command=true; rm x", "description=d"];
            check(&[alone, &rm].concat(), 3, &denied).await;
        }
        let asked = ["bash", "command=true", "description=d"];
        check(&[&["--no"], &asked[..]].concat(), 3, "bash: rejected, because of --no").await;
        check(&asked, 3, "bash: rejected, because there is no terminal to ask on").await;
        check(&["read", "filePath=nope.txt"], 1, "read failed in ").await;
    });
}

#[test]
fn what_others_answer_is_told_in_few_lines() {
    test(async {
        let server = Server::with(Setup::permission(json!({"edit": "ask"}))).await;
        let shown = async |args: &[&str]| {
            let mut child = server.command(&[&["call", "--wait"], args].concat()).spawn().unwrap();
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
            let mut shown = Vec::new();
            loop {
                let line = lines.next_line().await.unwrap().expect("it waits");
                if line.contains("waiting for an approver") {
                    break;
                }
                shown.push(line);
            }
            child.kill().await.unwrap();
            assert!(shown.len() < 30, "{shown:?}");
            shown.join("\n")
        };
        let lines: String = (0..200).map(|number| format!("line {number}\n")).collect();
        let written = shown(&["write", "filePath=new", &format!("content={lines}")]).await;
        assert!(
            written.contains("changes: +200 −0") && !written.contains("line 150"),
            "{written}"
        );
        let question = json!([{"header": "Indent", "question": "Tabs or spaces?", "options": [
            {"label": "tabs", "description": "one byte"}, {"label": "spaces", "description": ""}]}]);
        let asked = shown(&["question", &format!("questions:={question}")]).await;
        assert!(
            asked.contains("Tabs or spaces?\n    1  tabs  one byte\n    2  spaces\n"),
            "{asked}"
        );
    });
}
