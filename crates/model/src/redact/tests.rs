//! What is taken out, from whole texts, pieces and prompts.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Ask, AskPart, PromptRequest};

fn redactor(secrets: &[&str], patterns: &[&str]) -> Redactor {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Redactor::new(&owned(secrets), &owned(patterns)).unwrap()
}

#[test]
fn texts() {
    let check = |secrets: &[&str], patterns: &[&str], text: &str, expected: &str| {
        assert_eq!(redactor(secrets, patterns).text(text), expected, "{text:?}");
    };
    check(&[], &[], "anything", "anything");
    check(&["hunter2"], &[], "a hunter2, b hunter2", "a [redacted], b [redacted]");
    check(&["hunter2"], &[], "hunter", "hunter");
    check(&["abcdef", "defghi"], &[], "<abcdefghi>", "<[redacted]>");
    check(&["abcdef", "abcdefgh"], &[], "abcdefgh", "[redacted]");
    check(&["ababab"], &[], "xabababab", "x[redacted]");
    check(&["päßwörd"], &[], "=päßwörd=", "=[redacted]=");
    check(&["a\"b\\c d"], &[], r#"{"k":"a\"b\\c d"}"#, r#"{"k":"[redacted]"}"#);
    check(
        &["a\"b\\c d"],
        &[],
        "a%22b%5cc%20d a%22b%5Cc%20d",
        "[redacted] [redacted]",
    );
    check(
        &["hunter2"],
        &[],
        "68756e74657232 68756E74657232",
        "[redacted] [redacted]",
    );
    check(&[], &["sk-[a-z]{4}"], "sk-abcd sk-abc", "[redacted] sk-abc");
    check(&[], &["(?x) tok # of something\n en=[0-9]+"], "token=12", "[redacted]");
}

#[test]
fn base64_at_every_offset() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let redactor = redactor(&["a secret value"], &[]);
    for before in ["", "x", "xy", "xyz", "user:"] {
        for after in ["", "1", "12", "123"] {
            let text = STANDARD.encode(format!("{before}a secret value{after}"));
            let shown = redactor.text(&text);
            assert!(shown.contains(MARK), "{before:?} {after:?}: {shown}");
        }
    }
}

#[test]
fn base64_in_lines() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let secret = "a secret value of some length";
    let redactor = redactor(&[secret], &[]);
    for (width, end) in [(76, "\n"), (64, "\r\n"), (60, "\n"), (4, "\n")] {
        for before in 0..100 {
            let text = format!("{}{secret}{}", "x".repeat(before), "y".repeat(100));
            let encoded = [
                STANDARD.encode(&text),
                text.bytes().map(|byte| format!("{byte:02x}")).collect(),
            ];
            for encoded in encoded {
                let lines: Vec<&str> = encoded
                    .as_bytes()
                    .chunks(width)
                    .map(|line| std::str::from_utf8(line).unwrap())
                    .collect();
                let text = lines.join(end);
                let shown = redactor.text(&text);
                assert!(shown.contains(MARK), "{before} {width}: {shown}");
                let mut stream = redactor.stream().unwrap();
                let mut pieces: Vec<u8> = text.as_bytes().chunks(7).flat_map(|piece| stream.push(piece)).collect();
                pieces.extend(stream.finish());
                assert_eq!(String::from_utf8(pieces).unwrap(), shown, "{before} {width}");
            }
        }
    }
}

#[test]
fn quoted_by_shells_and_in_ascii() {
    let secret = "a b'c$d/é\u{1f600},\n~e#";
    let redactor = redactor(&[secret], &[]);
    for text in [
        r#"a b'c$d/\u00e9\ud83d\ude00,\n~e#"#,
        r#"a b'c$d/\u00E9\uD83D\uDE00,\n~e#"#,
        r#"a b'c$d\/\u00e9\ud83d\ude00,\n~e#"#,
        r#"\u0061\u0020\u0062\u0027\u0063\u0024\u0064\u002f\u00e9\ud83d\ude00\u002c\u000a\u007e\u0065\u0023"#,
        "$'a b\\'c$d/é\u{1f600},\\n~e#'",
        "$'a b\\'c$d/\\303\\251\\360\\237\\230\\200,\\n~e#'",
        "'a b'\\''c$d/é\u{1f600},\n~e#'",
        "'a b'\"'\"'c$d/é\u{1f600},\n~e#'",
    ] {
        assert!(redactor.text(text).contains(MARK), "{text}");
    }
    let redactor = super::tests::redactor(&["it's $5 & (more)"], &[]);
    assert_eq!(redactor.text(r"x=it\'s\ \$5\ \&\ \(more\)"), "x=[redacted]");
}

#[test]
fn nothing_to_look_for_costs_nothing() {
    let redactor = Redactor::default();
    assert!(redactor.is_empty() && redactor.stream().is_none());
    assert!(matches!(redactor.text("text"), Cow::Borrowed("text")));
}

#[test]
fn what_cannot_be_looked_for_is_refused_and_not_shown() {
    let check = |secrets: &[&str], patterns: &[&str], expected: &str| {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let error = Redactor::new(&owned(secrets), &owned(patterns))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert!(
            secrets
                .iter()
                .all(|secret| secret.is_empty() || !error.contains(secret))
        );
    };
    check(&["short"], &[], "has 5 bytes");
    check(&[&"x".repeat(5000)], &[], "has 5000 bytes");
    check(&[], &["("], "cannot be used");
    check(&[], &["x*"], "cannot be used");
}

#[test]
fn cut_previews() {
    let redactor = redactor(&["correct horse battery"], &[]);
    let check = |text: &str, expected: &str| {
        let mut value = json!({ "output": [text] });
        redactor.value(&mut value);
        assert_eq!(value, json!({ "output": [expected] }));
    };
    check("it is correct ho", "it is [redacted]");
    check("rse battery it was", "[redacted] it was");
    check("it is cor", "it is cor");
    check("correct horse battery", "[redacted]");
}

#[test]
fn a_prompt_about_a_secret_leaves_no_grant() {
    let redactor = redactor(&["hunter2"], &[]);
    let ask = Ask {
        always: vec!["login *".to_owned()],
        title: "Logs in with hunter2".to_owned(),
        parts: vec![AskPart {
            variants: vec!["login --key hunter2".to_owned()],
            ..AskPart::default()
        }],
        ..Ask::new("bash", vec!["login hunter2".to_owned()])
    };
    let request = PromptRequest::Permission {
        ask: Box::new(ask),
        rule: None,
        verdicts: Vec::new(),
    };
    let PromptRequest::Permission { ask, verdicts, .. } = redactor.request(request) else {
        panic!("it is a permission prompt");
    };
    assert_eq!(ask.patterns, ["login [redacted]"]);
    assert_eq!(ask.title, "Logs in with [redacted]");
    assert_eq!(ask.parts[0].variants, ["login --key [redacted]"]);
    assert!(ask.always.is_empty() && ask.parts[1].unclear.is_some());
    assert_eq!(verdicts.len(), ask.parts.len());
}

#[test]
fn lines_are_held_back_for_patterns() {
    let mut stream = redactor(&[], &["sk-[0-9]{3,}"]).stream().unwrap();
    assert_eq!(stream.push(b"a sk-1"), b"");
    assert_eq!(stream.push(b"23\nb"), b"a [redacted]\n");
    assert_eq!(stream.finish(), b"b");
    let long = "x".repeat(200_000);
    assert!(stream.push(long.as_bytes()).len() > 100_000, "memory is bounded");
}

fn check_pieces(text: &str, cuts: Vec<usize>, secrets: &[&str]) {
    let redactor = redactor(secrets, &[]);
    let mut stream = redactor.stream().unwrap();
    let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    let mut out = Vec::new();
    for pair in cuts.windows(2) {
        out.extend(stream.push(&text.as_bytes()[pair[0]..pair[1]]));
        assert!(stream.held_bytes() < 9);
    }
    out.extend(stream.finish());
    assert_eq!(String::from_utf8(out).unwrap(), redactor.text(text));
}

#[test]
fn a_secret_that_ends_with_the_text_comes_out_as_the_whole() {
    check_pieces("ababaaaa", vec![8], &["ababaaaa"]);
}

proptest! {
    #[test]
    fn pieces_come_out_as_the_whole(
        text in "[abc]{0,60}",
        cuts in prop::collection::vec(0..61_usize, 0..8),
        secrets in prop::collection::vec("[abc]{6,9}", 1..4),
    ) {
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        check_pieces(&text, cuts, &secrets);
    }

    #[test]
    fn no_text_panics(text in any::<Vec<u8>>()) {
        let redactor = redactor(&["hunter2", "päßwörd"], &["[0-9]+"]);
        let mut stream = redactor.stream().unwrap();
        let _ = (redactor.bytes(&text), stream.push(&text), stream.finish());
    }
}
