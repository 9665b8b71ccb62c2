//! What a person sees of prompts in a terminal.

use toolgate_contract::{PermissionAhead, PermissionRule, QuestionOption};

use super::*;

fn text(value: &str) -> prost_types::Value {
    prost_types::Value {
        kind: Some(prost_types::value::Kind::StringValue(value.to_owned())),
    }
}

#[test]
fn everything_that_is_asked_is_shown() {
    let metadata = [
        ("command".to_owned(), text("git push\rls")),
        ("diff".to_owned(), text("@@ 1\n-a\n+b")),
    ];
    let request = PermissionRequest {
        permission: "bash".into(),
        patterns: vec!["git push".into()],
        always: vec!["rm *".into(), "git push *".into()],
        parts: Vec::new(),
        ahead: vec![PermissionAhead {
            permission: "edit".into(),
            patterns: vec!["a".into(), "b".into()],
        }],
        title: "Push\nbash asks for permission: read".into(),
        metadata: Some(prost_types::Struct {
            fields: metadata.into(),
        }),
        rule: Some(PermissionRule {
            permission: "bash".into(),
            pattern: "*".into(),
            action: 2,
        }),
    };
    let prompt = Prompt {
        tool: "bash".into(),
        agent: "build".into(),
        session_id: "s".into(),
        request: Some(prompt::Request::Permission(request)),
        ..Prompt::default()
    };
    let expected = "bash asks for permission: bash\n  Push⏎bash asks for permission: read\n  $ git push\\u{d}ls\n    @@ 1\n    -a\n    +b\n  patterns\n    \
                    git push\n  always would allow bash\n    git push *\n    rm *  broad\n  asks next for edit: a, b\n  \
                    asked by the rule bash *\n  agent build, session s";
    assert_eq!(render(&prompt, Paint(false)), expected);
    assert!(render(&prompt, Paint(true)).contains("\x1b[32m+b\x1b[0m"));
}

#[test]
fn what_is_shown_anyway_is_not_repeated() {
    let list = |value: &str| prost_types::Value {
        kind: Some(prost_types::value::Kind::ListValue(prost_types::ListValue {
            values: vec![text(value)],
        })),
    };
    let shown = |title: &str, pattern: &str| {
        let metadata = [
            ("description".to_owned(), text("Push")),
            ("directories".to_owned(), list("/x")),
            ("patterns".to_owned(), list("/x/*")),
        ];
        let request = PermissionRequest {
            title: title.into(),
            patterns: vec![pattern.into()],
            metadata: Some(prost_types::Struct {
                fields: metadata.into(),
            }),
            ..PermissionRequest::default()
        };
        let mut text = String::new();
        render_permission(&mut text, &request, Paint(false));
        text
    };
    assert_eq!(
        shown("Push", "/x/*"),
        "\n  Push\n  patterns\n    /x/*\n  always would allow this call only"
    );
    let all = shown("Another", "/y/*");
    for part in ["description: Push", "directories: ", "patterns: "] {
        assert!(all.contains(part), "{all}");
    }
}

#[test]
fn parts_are_shown_with_their_verdicts() {
    let part = |text: &str, action: PermissionAction, granted, unclear: &str| PermissionPart {
        text: text.into(),
        patterns: vec![text.into(), "git push".into()],
        paths: vec!["/x".into()],
        action: action.into(),
        granted,
        unclear: unclear.into(),
        ..PermissionPart::default()
    };
    let check = |part: PermissionPart, expected: &str| {
        let mut text = String::new();
        render_part(&mut text, &part, Paint(false));
        assert_eq!(text, expected);
    };
    check(
        part("git push", PermissionAction::Allow, true, ""),
        "\n    granted git push\n            touches /x",
    );
    check(
        part("sudo git push", PermissionAction::Ask, false, "why"),
        "\n    asks    sudo git push\n            unclear: why\n            judged as: git push\n            touches /x",
    );
}

#[test]
fn answers_are_numbers_or_words() {
    let option = |label: &str| QuestionOption {
        label: label.into(),
        description: String::new(),
    };
    let check = |line: &str, multiple: bool, expected: &[&str]| {
        let question = Question {
            options: vec![option("red"), option("blue")],
            multiple,
            ..Question::default()
        };
        assert_eq!(chosen(line, &question), expected, "{line}");
    };
    check("", true, &[]);
    check("1", false, &["red"]);
    check("2, 1", true, &["blue", "red"]);
    check("2, 1", false, &["2, 1"]);
    check("3", true, &["3"]);
    check("0", true, &["0"]);
    check("red, and more", true, &["red, and more"]);
}

#[test]
fn outcomes_name_who_decided() {
    fn check(state: PromptState, resolution: Option<PromptResolution>, expected: &str) {
        assert_eq!(outcome(state.into(), resolution.as_ref()), expected);
    }
    let by = PromptResolution {
        decision: PromptDecision::Reject.into(),
        message: "no".into(),
        resolved_by: "ann".into(),
        ..PromptResolution::default()
    };
    check(PromptState::Resolved, Some(by), "rejected by ann: no");
    let with_another = PromptResolution {
        decision: PromptDecision::Reject.into(),
        resolved_by: "ann".into(),
        because_of_prompt_id: "per_1".into(),
        ..PromptResolution::default()
    };
    check(
        PromptState::Resolved,
        Some(with_another),
        "rejected by ann, with another prompt of the session",
    );
    let always = PromptResolution {
        decision: PromptDecision::Always.into(),
        resolved_by: "ann".into(),
        scope: Some(scope::unlimited(GrantReach::Session)),
        always_patterns: vec!["git push *".into(), "make".into()],
        ..PromptResolution::default()
    };
    check(
        PromptState::Resolved,
        Some(always),
        "always allowed by ann, this session: git push *, make",
    );
    let instead = PromptResolution {
        decision: PromptDecision::Instead.into(),
        resolved_by: "ann".into(),
        ..PromptResolution::default()
    };
    check(
        PromptState::Resolved,
        Some(instead),
        "allowed with another input by ann",
    );
    check(PromptState::Expired, None, "expired: nobody replied in time");
    check(
        PromptState::Withdrawn,
        Some(PromptResolution::default()),
        "withdrawn: its call has ended",
    );
}

#[test]
fn a_line_edits_the_command() {
    let input = r#"{"command":"ls","description":"d"}"#;
    let changed = r#"{"command":"ls -a","description":"d"}"#;
    assert_eq!(edited(input, "ls -a").as_deref(), Some(changed));
    assert_eq!(edited(input, ""), None);
    assert_eq!(edited(r#"{"content":"x"}"#, "{}").as_deref(), Some("{}"));
}
