//! `toolgate call --dry-run`: what it prints, and what it ends with.

use serde_json::{Value, json};
use toolgate_contract::*;

use crate::support::*;

#[test]
fn a_dry_run_tells_what_would_be_asked_and_makes_no_call() {
    test(async {
        let rules = json!({"bash": {"rm *": "ask", "sudo *": "deny"}, "edit": {"locked": "deny"}});
        let server = Server::with(Setup::permission(rules)).await;
        let url = server.url();
        let run = async |args: &[&str]| {
            server
                .cli(&[&["--server", &url, "call", "--dry-run"], args].concat())
                .await
        };
        let check = async |args: &[&str], code: i32, parts: &[&str]| {
            let (ended, out, err) = run(args).await;
            assert_eq!(ended, code, "{args:?}: {out} {err}");
            for part in parts {
                assert!(out.contains(part), "{args:?} without {part:?}: {out}");
            }
        };
        let bash = |command: &'static str| ["bash", command, "description=d"];
        check(
            &bash("command=true"),
            0,
            &["allowed bash", "allowed true", "by the rule * *"],
        )
        .await;
        let expected = ["asks    bash", "asks    rm x", "allowed true", "by the rule bash rm *"];
        check(&bash("command=true; rm x"), 6, &expected).await;
        check(&bash("command=sudo x"), 3, &["denied  bash", "by the rule bash sudo *"]).await;
        check(
            &["write", "filePath=locked", "content=x"],
            3,
            &["denied  edit", "locked"],
        )
        .await;
        let missing = ["edit", "filePath=none", "oldString=a", "newString=b"];
        check(&missing, 1, &["would fail: ", "not found"]).await;
        let (code, out, err) = run(&["frobnicate"]).await;
        assert_eq!((code, out.as_str()), (8, ""), "{err}");
        assert!(err.contains("this agent has no tool `frobnicate`"), "{err}");

        // What somebody approved for good is told with the approval.
        let mut approver = Approver::open(server.channel(), "ann").await.unwrap();
        let made = server.run("bash", json!({"command": "rm -f x", "description": "d"}));
        let approve = async {
            let prompt = approver.added().await;
            assert!(approver.send(reply(&prompt, PromptDecision::Always)).await);
            std::future::pending().await
        };
        tokio::select! {
            _ = made => {}
            () = approve => {}
        }
        check(
            &bash("command=rm -f y"),
            0,
            &["granted bash", "by the standing approval grant_"],
        )
        .await;

        let (code, out, err) = server
            .cli(&[
                "--server",
                &url,
                "--json",
                "call",
                "--dry-run",
                "bash",
                "command=rm -f z; rm q",
                "description=d",
            ])
            .await;
        assert_eq!((code, out.lines().count()), (0, 1), "{out} {err}");
        let told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(told["tool"], "bash", "{told}");
        let calls = server.tools().list_calls(ListCallsRequest::default()).await.unwrap();
        assert_eq!(calls.into_inner().calls.len(), 1, "only the one that was approved");
    });
}

#[test]
fn a_dry_run_takes_no_options_of_a_call_that_is_made() {
    test(async {
        let server = Server::start().await;
        for option in ["--yes", "--keep", "--wait", "--exit-code"] {
            let args = ["call", "--dry-run", option, "bash", "command=true", "description=d"];
            let (code, _, err) = server.cli(&args).await;
            assert_eq!(code, 2, "{option}: {err}");
        }
    });
}
