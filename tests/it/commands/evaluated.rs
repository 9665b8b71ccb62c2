//! The lists again, through the contract: what a dry run says of a line is what its call asks.
//!
//! *Invariant:* every prompt is refused, so no line is run; one that would be run unasked fails the test before it is.

use serde_json::json;
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use super::corpus::{Way, ways};
use super::{report, shown};
use crate::evaluated::{evaluated, permission_of};
use crate::support::*;

/// A line of more bytes is not taken apart to its end.
const LONG: usize = 1_000;

fn permissions(set: &str) -> serde_json::Value {
    match set {
        "ask-list" => json!({
            "bash": {"*": "allow", "rm *": "ask", "git push *": "ask", "curl *": "ask", "chmod *": "ask", "mv *": "ask"},
            "external_directory": "ask",
        }),
        "allow-list" => json!({
            "bash": {
                "*": "ask", "ls *": "allow", "echo *": "allow", "cat *": "allow", "git status *": "allow", "find *": "allow",
                "xargs *": "allow", "env *": "allow", "sed *": "allow", "awk *": "allow",
            },
            "external_directory": "ask",
        }),
        other => panic!("{other}: no such set of rules"),
    }
}

/// Evaluates a line, calls it and refuses its first prompt. Says what differs.
async fn compared(server: &Server, line: &str) -> Option<&'static str> {
    let foretold = evaluated(server, bash(line)).await.unwrap();
    let mut asking = foretold.requests.iter();
    let Some(expected) = asking.find(|request| request.action() == PermissionAction::Ask) else {
        return Some("would be run unasked");
    };
    let mut stream = server.tools().execute_tool(bash(line)).await.unwrap().into_inner();
    let prompt = waiting(&mut stream).await;
    let Some(prompt::Request::Permission(got)) = &prompt.request else {
        return Some("asks questions");
    };
    let expected = permission_of(expected).unwrap();
    // How much of a long line is taken apart is a matter of time.
    let is_same = line.len() > LONG || expected == got;
    let request = ReplyPromptRequest {
        reply: Some(reply(&prompt, PromptDecision::Reject)),
        ..Default::default()
    };
    server.permissions().reply_prompt(request).await.unwrap();
    let events = collect(stream).await.unwrap();
    let ended = events.last().and_then(|event| event.event.as_ref());
    match ended {
        Some(Event::Failed(failed)) if failed.reason() == FailureReason::Rejected => {}
        _ => return Some("is not refused"),
    }
    (!is_same).then_some("asks for something else")
}

#[test]
fn a_dry_run_of_every_way_around_says_what_is_asked() {
    test(async {
        let mut found = Vec::new();
        for set in ["ask-list", "allow-list"] {
            let server = Server::with(Setup {
                more: vec!["outside"],
                ..Setup::permission(permissions(set))
            })
            .await;
            let outside = server.folder().join("outside");
            std::fs::write(outside.join("victim.txt"), "x\n").unwrap();
            let is_meant = |way: &&Way| way.rules.iter().any(|name| name == set);
            for way in ways().iter().filter(is_meant) {
                let line = way.command.replace("${outside}", outside.to_str().unwrap());
                if let Some(difference) = compared(&server, &line).await {
                    found.push(format!("{} ({set}) {difference}: {}", way.name, shown(&way.command)));
                }
            }
        }
        report("lines are asked about otherwise than was foretold", &found);
    });
}
