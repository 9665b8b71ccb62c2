//! Checks of the runner itself, made before every run: each condition of a matcher must be able to fail.
//!
//! *Invariant:* needs neither a server nor files.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};
use toolgate_contract::{PermissionRequest, Prompt, PromptDecision, QuestionAnswer, QuestionRequest, prompt};

use crate::approver::{Desk, Notice};
use crate::args::Args;
use crate::case::{Answer, Reply, Step, parse};
use crate::entry::{Content, Entry};
use crate::happenings::Happening;
use crate::http::Reached;
use crate::known;
use crate::matcher::Matcher;
use crate::report::{Outcome, judge};
use crate::vars::Vars;
use crate::verdict;
use crate::workspace::merge;

/// Runs every check.
///
/// # Errors
/// The first check that does not hold.
pub(crate) fn run() -> Result<()> {
    matchers().context("matchers")?;
    refused_matchers().context("matchers that never fail")?;
    strictness().context("unknown keys")?;
    entries().context("file entries")?;
    placeholders().context("placeholders")?;
    merging().context("merging")?;
    replies().context("replies")?;
    question_replies().context("replies to questions")?;
    expected_events().context("expected events")?;
    expected_requests().context("expected requests")?;
    expected_messages().context("expected messages")?;
    parallel_replies().context("replies of parallel steps")?;
    outcomes().context("outcomes")?;
    arguments().context("arguments")
}

fn matchers() -> Result<()> {
    let text = |text: &str| Some(Value::String(text.to_owned()));
    let rows: [(Value, Option<Value>, bool); 34] = [
        (json!({"equals": "a"}), text("a"), true),
        (json!({"equals": "a"}), text("a "), false),
        (json!({"equals": "a"}), None, false),
        (json!({"equals": 0}), Some(json!(0.0)), true),
        (json!({"equals": 3}), Some(json!(3.5)), false),
        (json!({"equals": 0}), Some(json!(false)), false),
        (json!({"equals": 0}), text("0"), false),
        (json!({"equals": null}), Some(Value::Null), true),
        (json!({"equals": null}), None, false),
        (json!({"equals": null}), Some(json!(1)), false),
        (
            json!({"equals": [1, {"a": 2, "b": 3}]}),
            Some(json!([1.0, {"b": 3, "a": 2}])),
            true,
        ),
        (json!({"equals": [1, 2]}), Some(json!([2, 1])), false),
        (json!({"equals": {"a": 1}}), Some(json!({"a": 1, "b": 2})), false),
        (json!({"contains": ["a", "b"]}), text("ba"), true),
        (json!({"contains": ["a", "b"]}), text("a"), false),
        (json!({"contains": ["a"]}), None, false),
        (json!({"not_contains": ["a", "b"]}), text("c"), true),
        (json!({"not_contains": ["a", "b"]}), text("xb"), false),
        (json!({"not_contains": ["a"]}), None, false),
        (json!({"matches": "^b$"}), text("a\nb\nc"), true),
        (json!({"matches": "\\Ab"}), text("a\nb"), false),
        (json!({"matches": "a"}), None, false),
        (json!({"line_count": 2}), text("a\nb"), true),
        (json!({"line_count": 2}), text("a\nb\n"), true),
        (json!({"line_count": 2}), text("a"), false),
        (json!({"line_count": 0}), None, false),
        (json!({"max_bytes": 2}), text("é"), true),
        (json!({"max_bytes": 2}), text("éa"), false),
        (json!({"max_bytes": 2}), None, false),
        (json!({"exists": true}), Some(Value::Null), true),
        (json!({"exists": true}), None, false),
        (json!({"exists": false}), None, true),
        (json!({"exists": false}), Some(Value::Null), false),
        (json!({"contains": ["a"], "line_count": 2}), text("a"), false),
    ];
    for (written, value, expected) in rows {
        let matcher: Matcher = serde_json::from_value(written.clone())?;
        let held = matcher.check(value.as_ref()).is_ok();
        ensure!(held == expected, "{written} on {value:?} gave {held}");
    }
    Ok(())
}

fn refused_matchers() -> Result<()> {
    let rows = [
        json!({}),
        json!({"contains": []}),
        json!({"not_contains": []}),
        json!({"matches": "("}),
        json!({"equal": 1}),
    ];
    for written in rows {
        ensure!(
            serde_json::from_value::<Matcher>(written.clone()).is_err(),
            "{written} was read"
        );
    }
    Ok(())
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn strictness() -> Result<()> {
    let read = |steps: Value, more: Value| {
        let mut case = object(json!({"id": "a/b", "about": "x", "source": "seed", "steps": steps}));
        case.extend(object(more));
        parse(case).map(|_| ())
    };
    let step = |more: Value| {
        let mut step = object(json!({"tool": "bash", "input": {}, "expect": {"status": "error"}}));
        step.extend(object(more));
        json!([step])
    };
    read(step(json!({})), json!({})).context("a plain case")?;
    read(
        json!([{"op": "tools", "expect": {"tools": {"absent": ["x"]}}}]),
        json!({}),
    )
    .context("an op")?;
    let wrong = [
        (step(json!({})), json!({"colour": 1})),
        (step(json!({})), json!({"kind": "colours"})),
        (step(json!({})), json!({"files": {"a": {"text": "x", "dir": true}}})),
        (step(json!({})), json!({"http": {"/": {"colour": 1}}})),
        (step(json!({})), json!({"http": {"/": [{"status": 1}, {"colour": 1}]}})),
        (step(json!({})), json!({"mcp": {"s": {"tools": [{"colour": 1}]}}})),
        (step(json!({})), json!({"lsp": {"s": {"colour": 1}}})),
        (step(json!({"colour": 1})), json!({})),
        (step(json!({"input_json": "{}"})), json!({})),
        (step(json!({"expect": {"colour": 1}})), json!({})),
        (step(json!({"expect": {"tools": {}}})), json!({})),
        (step(json!({"expect": {"status": "maybe"}})), json!({})),
        (
            step(json!({"expect": {"lsp_messages": [{"method": "a", "colour": 1}]}})),
            json!({}),
        ),
        (step(json!({"expect": {"permissions": [{"colour": 1}]}})), json!({})),
        (
            step(json!({"replies": [{"permission": "bash", "reply": "yes"}]})),
            json!({}),
        ),
        (step(json!({"replies": [{"permission": "bash"}]})), json!({})),
        (step(json!({"replies": [{"question": 0}]})), json!({})),
        (step(json!({"replies": [{"question": 0, "reject": false}]})), json!({})),
        (
            step(json!({"replies": [{"question": 0, "reject": true, "answers": []}]})),
            json!({}),
        ),
        (step(json!({"expect": {"events": [{"data": {}}]}})), json!({})),
        (step(json!({"expect": {"todos": {"equals": []}}})), json!({})),
        (
            json!([{"op": "todos", "expect": {"todos": {"/0": {"equals": 1}, "equals": []}}}]),
            json!({}),
        ),
        (step(json!({"parallel_with_next": true})), json!({})),
        (json!([{"op": "tools", "tool": "bash", "expect": {}}]), json!({})),
        (json!([{"op": "tools", "expect": {"status": "error"}}]), json!({})),
        (json!([{"expect": {}}]), json!({})),
        (json!([]), json!({})),
    ];
    for (steps, more) in wrong {
        let shown = format!("{steps} {more}");
        ensure!(read(steps, more).is_err(), "{shown} was read");
    }
    Ok(())
}

fn entries() -> Result<()> {
    let text = |text: &str| Content::Text(text.to_owned());
    let rows = [
        (json!({"text": "a"}), text("a")),
        (json!({"base64": "/wA="}), Content::Bytes(vec![255, 0])),
        (json!({"repeat": {"text": "ab", "times": 3}}), text("ababab")),
        (
            json!({"lines": {"prefix": "l ", "from": 9, "to": 11}}),
            text("l 9\nl 10\nl 11\n"),
        ),
        (json!({"dir": true}), Content::Folder),
        (json!({"symlink": "x"}), Content::Symlink("x".to_owned())),
        (json!({"fifo": true}), Content::Fifo),
    ];
    for (written, expected) in rows {
        let entry: Entry = serde_json::from_value(written)?;
        ensure!(entry.content == expected, "{:?}, not {expected:?}", entry.content);
    }
    let entry: Entry = serde_json::from_value(json!({"text": "", "mode": "0755"}))?;
    ensure!(entry.mode == Some(0o755), "mode {:?}", entry.mode);
    for wrong in [
        json!({}),
        json!({"dir": false}),
        json!({"text": "", "mode": "rwx"}),
        json!({"base64": "?"}),
    ] {
        ensure!(
            serde_json::from_value::<Entry>(wrong.clone()).is_err(),
            "{wrong} was read"
        );
    }
    Ok(())
}

fn placeholders() -> Result<()> {
    let mut vars = Vars::default();
    vars.set("workspace", "/t.m+p/w".to_owned());
    ensure!(vars.text("cd ${workspace}; echo ${arr[1]} ${home}") == "cd /t.m+p/w; echo ${arr[1]} ${home}");
    ensure!(
        vars.pattern("^${workspace}.$") == "^/t\\.m\\+p/w.$",
        "{}",
        vars.pattern("^${workspace}.$")
    );
    let value = json!({"${workspace}": ["${workspace}/a", 1]});
    ensure!(vars.json(&value) == json!({"/t.m+p/w": ["/t.m+p/w/a", 1]}));
    vars.unset("workspace");
    ensure!(vars.text("${workspace}") == "${workspace}");
    let matcher: Matcher = serde_json::from_value(json!({"equals": "${workspace}"}))?;
    vars.set("workspace", "x".to_owned());
    ensure!(matcher.with(&vars).check_str(Some("x")).is_ok() && matcher.check_str(Some("x")).is_err());
    Ok(())
}

fn merging() -> Result<()> {
    let mut base = object(json!({"permission": {"*": "ask", "bash": "allow"}, "list": [1], "only": 1}));
    let over = object(json!({"permission": {"edit": "deny", "*": "deny"}, "list": [2], "only": {"a": 1}, "new": null}));
    merge(&mut base, &over);
    let expected = r#"{"permission":{"*":"deny","bash":"allow","edit":"deny"},"list":[2],"only":{"a":1},"new":null}"#;
    let got = Value::Object(base).to_string();
    ensure!(got == expected, "{got}");
    Ok(())
}

fn asks(call_id: &str, permission: &str) -> Prompt {
    let request = PermissionRequest {
        permission: permission.to_owned(),
        ..PermissionRequest::default()
    };
    Prompt {
        call_id: call_id.to_owned(),
        request: Some(prompt::Request::Permission(request)),
        ..Prompt::default()
    }
}

fn reply(permission: &str, answer: Answer) -> Reply {
    Reply::Permission {
        permission: permission.to_owned(),
        answer,
        message: String::new(),
    }
}

fn starts(call_id: &str, replies: Vec<Reply>, after: Option<&str>) -> Notice {
    Notice::Started {
        call_id: call_id.to_owned(),
        replies,
        after: after.map(str::to_owned),
        inner: None,
    }
}

fn replies() -> Result<()> {
    let mut desk = Desk::default();
    let given = vec![
        reply("bash", Answer::Once),
        reply("read", Answer::Always),
        reply("bash", Answer::None),
    ];
    ensure!(desk.note(starts("a", given, None)).is_empty());
    let rows = [
        ("read", Some(PromptDecision::Always)),
        ("bash", Some(PromptDecision::Once)),
        ("bash", None),
        ("bash", Some(PromptDecision::Reject)),
        ("edit", Some(PromptDecision::Reject)),
    ];
    for (permission, expected) in rows {
        let due = desk.take(asks("a", permission));
        let got = due.first().map(|(_, given)| given.decision);
        ensure!(got == expected, "{permission}: {got:?}, not {expected:?}");
    }
    let stray = desk.take(asks("unknown", "bash"));
    ensure!(
        stray
            .first()
            .is_some_and(|(_, given)| given.decision == PromptDecision::Reject),
        "an unknown call"
    );
    Ok(())
}

fn question_replies() -> Result<()> {
    let asks_questions = || Prompt {
        call_id: "a".to_owned(),
        request: Some(prompt::Request::Questions(QuestionRequest::default())),
        ..Prompt::default()
    };
    let question = |index, answers: Option<Vec<Vec<String>>>| Reply::Question { index, answers };
    let mut desk = Desk::default();
    let answers = vec![vec!["Yes".to_owned()], Vec::new()];
    let given = vec![
        question(2, None),
        question(0, Some(answers)),
        reply("bash", Answer::Once),
    ];
    desk.note(starts("a", given, None));
    let values = vec!["Yes".to_owned()];
    let expected = [
        (
            PromptDecision::Answer,
            vec![QuestionAnswer { values }, QuestionAnswer::default()],
        ),
        (PromptDecision::Reject, Vec::new()),
        (PromptDecision::Reject, Vec::new()),
    ];
    for (decision, answers) in expected {
        let due = desk.take(asks_questions());
        let got = due.first().map(|(_, given)| (given.decision, given.answers.clone()));
        ensure!(got == Some((decision, answers)), "{got:?}");
    }
    let due = desk.take(asks("a", "bash"));
    ensure!(
        due.first()
            .is_some_and(|(_, given)| given.decision == PromptDecision::Once)
    );
    Ok(())
}

fn expected_events() -> Result<()> {
    let happened = [("a", 1), ("b", 2), ("a", 3)].map(|(kind, number)| Happening {
        kind,
        data: json!({ "n": number }),
    });
    let rows = [
        (json!([{"type": "a"}, {"type": "b"}, {"type": "a"}]), true),
        (json!([{"type": "a", "data": {"/n": {"equals": 3}}}]), true),
        (
            json!([{"type": "a", "data": {"/n": {"equals": 3}}}, {"type": "b"}]),
            false,
        ),
        (json!([{"type": "b"}, {"type": "b"}]), false),
        (json!([{"type": "a", "data": {"/n": {"equals": 2}}}]), false),
        (json!([{"type": "c"}]), false),
    ];
    for (expected, holds) in rows {
        let step = json!({"tool": "x", "expect": {"events": expected}});
        let step: Step = serde_json::from_value(step)?;
        let problems = verdict::events("step", &step, &happened, &Vars::default());
        ensure!(problems.is_empty() == holds, "{expected}: {problems:?}");
    }
    Ok(())
}

fn expected_requests() -> Result<()> {
    let reached = Reached {
        method: "POST".to_owned(),
        path: "/mcp".to_owned(),
        headers: object(json!({"accept": "text/plain"})),
        json: Some(json!({"id": 1})),
    };
    let rows = [
        (json!([{}]), true),
        (json!([]), false),
        (json!([{}, {}]), false),
        (json!([{"method": "POST", "path": "/mcp"}]), true),
        (json!([{"method": "GET"}]), false),
        (json!([{"path": "/"}]), false),
        (json!([{"headers": {"accept": {"equals": "text/plain"}}}]), true),
        (json!([{"headers": {"accept": {"equals": "*"}}}]), false),
        (json!([{"headers": {"cookie": {"exists": true}}}]), false),
        (json!([{"json": {"/id": {"equals": 1}}}]), true),
        (json!([{"json": {"/id": {"equals": 2}}}]), false),
        (json!([{"json": {"/more": {"exists": true}}}]), false),
    ];
    for (expected, holds) in rows {
        let step = json!({"tool": "x", "expect": {"requests": expected}});
        let step: Step = serde_json::from_value(step)?;
        let problems = verdict::requests(&step, std::slice::from_ref(&reached), &Vars::default());
        ensure!(problems.is_empty() == holds, "{expected}: {problems:?}");
    }
    Ok(())
}

fn expected_messages() -> Result<()> {
    let got = [("a", 1), ("b", 2), ("a", 3)].map(|(method, number)| json!({"method": method, "params": {"n": number}}));
    let rows = [
        (json!([]), true),
        (json!([{"method": "a"}, {"method": "b"}, {"method": "a"}]), true),
        (json!([{"method": "a", "params": {"/n": {"equals": 3}}}]), true),
        (
            json!([{"method": "a", "params": {"/n": {"equals": 3}}}, {"method": "b"}]),
            false,
        ),
        (json!([{"method": "b"}, {"method": "b"}]), false),
        (json!([{"method": "b", "params": {"/m": {"exists": true}}}]), false),
        (json!([{"method": "c"}]), false),
    ];
    for (expected, holds) in rows {
        let step = json!({"tool": "x", "expect": {"lsp_messages": expected}});
        let step: Step = serde_json::from_value(step)?;
        let problems = verdict::lsp_messages(&step, &got, &Vars::default());
        ensure!(problems.is_empty() == holds, "{expected}: {problems:?}");
    }
    Ok(())
}

fn parallel_replies() -> Result<()> {
    let mut desk = Desk::default();
    desk.note(starts("a", vec![reply("bash", Answer::None)], None));
    desk.note(starts("b", vec![reply("bash", Answer::Reject)], Some("a")));
    ensure!(
        desk.take(asks("b", "bash")).is_empty(),
        "the second was answered before the first had asked"
    );
    let due = desk.take(asks("a", "bash"));
    ensure!(
        due.len() == 1 && due[0].0.call_id == "b",
        "only the second is answered: {due:?}"
    );

    desk.note(starts("c", Vec::new(), None));
    desk.note(starts("d", vec![reply("bash", Answer::Once)], Some("c")));
    ensure!(desk.take(asks("d", "bash")).is_empty());
    let due = desk.note(Notice::Ended {
        call_id: "c".to_owned(),
    });
    ensure!(
        due.len() == 1 && due[0].1.decision == PromptDecision::Once,
        "the first ended without asking: {due:?}"
    );
    Ok(())
}

fn outcomes() -> Result<()> {
    let problem = || vec!["wrong".to_owned()];
    let rows = [
        (judge(Some("later"), Ok(problem())), Outcome::Known("later".to_owned())),
        (
            judge(Some("later"), Err(anyhow::anyhow!("broken"))),
            Outcome::Known("later".to_owned()),
        ),
        (judge(None, Ok(Vec::new())), Outcome::Passed),
        (judge(None, Ok(problem())), Outcome::Failed(problem())),
        (judge(None, Err(anyhow::anyhow!("wrong"))), Outcome::Failed(problem())),
    ];
    for (got, expected) in rows {
        ensure!(got == expected, "{got:?}, not {expected:?}");
    }
    ensure!(
        matches!(judge(Some("later"), Ok(Vec::new())), Outcome::Failed(_)),
        "a known case that passes must fail"
    );

    let list = [("a/*", ""), ("b", ""), ("a/x", "")];
    ensure!(known::faults(&list, &["a/y", "b", "a/x"]).len() == 1, "named twice");
    ensure!(known::faults(&list[..2], &["a/y", "b"]).is_empty(), "an exact list");
    ensure!(known::faults(&list[..2], &["ab", "b/c"]).len() == 2, "names no case");
    Ok(())
}

fn arguments() -> Result<()> {
    let rows = [
        ("", "a/b", true),
        ("a/", "a/b", true),
        ("c d", "a/b", false),
        ("--nocapture -q --color always a/b", "a/b", true),
        ("--test-threads 2", "2", true),
        ("--test-threads 2 --format=pretty a/", "b/c", false),
        ("--exact a", "a/b", false),
        ("--exact a/b", "a/b", true),
        ("--skip a/", "a/b", false),
        ("--skip=a/ b", "b/c", true),
    ];
    for (line, id, expected) in rows {
        let args = Args::parse(line.split_whitespace().map(str::to_owned));
        ensure!(args.wants(id) == expected, "{line:?} and {id}");
    }
    ensure!(Args::parse(["--list".to_owned()]).list, "--list");
    Ok(())
}
