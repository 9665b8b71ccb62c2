//! What a person reads of a prompt.

use toolgate_contract::PermissionAhead;

use super::*;
use crate::cli::approve::screen::fixtures;

fn text(prompt: &Prompt, width: u16, folds: &Folds) -> (Vec<String>, Vec<usize>) {
    let view = View {
        width,
        theme: Theme::new(false),
        folds,
        others_of_session: 1,
    };
    let content = of(prompt, None, &view);
    let row = |line: &Line<'_>| line.spans.iter().map(|span| &*span.content).collect::<String>();
    let rows = content.lines.iter().map(|line| row(line).trim_end().to_owned());
    (rows.collect(), content.files)
}

#[test]
fn the_command_comes_first_and_each_fact_once() {
    let mut prompt = fixtures::command("p", "ls src && git push --force origin main");
    prompt.requester = "token:alice".into();
    prompt.environment.insert("A".into(), "1".into());
    if let Some(prompt::Request::Permission(request)) = &mut prompt.request {
        request.ahead.push(PermissionAhead {
            permission: "edit".into(),
            patterns: vec!["a".into(), "b".into()],
        });
    }
    let (rows, _) = text(&prompt, 80, &Folds::default());
    assert_eq!(
        rows,
        [
            "bash · Pushes the branch",
            "",
            "$ ls src && git push --force origin main",
            "",
            "  allowed ls src",
            "! asks    git push --force origin main",
            "",
            "in /w",
            "asks next for edit: a, b",
            "always git push *",
            "with A=1",
            "asked by the rule bash *",
            "Rejecting it rejects 1 other prompt of the session as well.",
            "",
            "agent build, session s1, workspace default, requested by token:alice",
        ]
    );
}

#[test]
fn nothing_of_a_command_moves_the_cursor_or_is_hidden() {
    let line = "echo a\x1b[2J\r\u{202e}b\u{e0041}\u{7}\nrm -rf \"x\ty\"";
    for width in [10, 40, 80] {
        let (rows, _) = text(&fixtures::command("p", line), width, &Folds::default());
        let whole = rows.join("\n");
        assert!(
            !whole.contains(|letter: char| letter.is_control() && letter != '\n'),
            "{whole:?}"
        );
        assert!(!whole.contains(['\u{202e}', '\u{e0041}']), "{whole:?}");
        let joined: String = rows
            .iter()
            .map(|row| row.trim_start_matches(['↪', '│', ' ', '$']))
            .collect();
        let squeezed: String = joined.split_whitespace().collect();
        assert!(
            squeezed.contains("echoa\\u{1b}[2J\\u{d}\\u{202e}b\\u{e0041}\\u{7}rm-rf\"xy\""),
            "{squeezed}"
        );
    }
}

#[test]
fn what_nobody_can_judge_is_marked() {
    let mut prompt = fixtures::command("p", "x");
    if let Some(prompt::Request::Permission(request)) = &mut prompt.request {
        let part = &mut request.parts[0];
        part.unclear = "it is read from a file".into();
        part.patterns.push("ls *".into());
        part.paths.push("/etc".into());
    }
    let (rows, _) = text(&prompt, 80, &Folds::default());
    let at = rows.iter().position(|row| row.starts_with("! allowed ls src")).unwrap();
    assert_eq!(
        rows[at + 1..at + 5],
        [
            "          unclear: it is read from a file",
            "          judged as: ls *",
            "          touches /etc",
            "  asks    git push --force origin main",
        ]
    );
}

#[test]
fn long_diffs_are_folded_with_a_summary() {
    let both = fixtures::diff("/w/a", 3000) + &fixtures::diff("/w/b", 1);
    let prompt = fixtures::edit("p", &both);
    let (rows, files) = text(&prompt, 80, &Folds::default());
    assert_eq!(
        rows[..8],
        [
            "edit · src/main.rs",
            "",
            "2 files +3001 −3001",
            "▸ /w/a +3000 −3000 folded: z shows it",
            "▾ /w/b +1 −1",
            "  @@ -1,1 +1,1 @@",
            "  -old 0",
            "  +new 0",
        ]
    );
    assert_eq!(files, [3, 4]);
    let (rows, files) = text(&prompt, 80, &Folds::from([(0, false), (1, true)]));
    assert_eq!((rows[5].as_str(), rows[6004].as_str()), ("  -old 0", "  +new 2999"));
    assert_eq!(rows[files[1]], "▸ /w/b +1 −1 folded: z shows it");
    assert!(rows.iter().any(|row| row == "always * (broad)"), "{:?}", rows.last());
}

#[test]
fn values_without_a_form_are_shown_whole() {
    let mut prompt = fixtures::edit("p", "");
    if let Some(prompt::Request::Permission(request)) = &mut prompt.request {
        request.patterns = vec!["https://example.org/a".into()];
        request.metadata = fixtures::metadata(&[("url", "https://example.org/a"), ("body", "one\ntwo")]);
    }
    let (rows, _) = text(&prompt, 80, &Folds::default());
    for row in ["for   https://example.org/a", "body:", "  one", "│ two"] {
        assert!(rows.iter().any(|one| one == row), "{row}: {rows:#?}");
    }
    assert!(!rows.iter().any(|row| row.starts_with("url")), "{rows:#?}");
}

#[test]
fn what_only_the_input_says_is_shown_whole() {
    let mut prompt = fixtures::edit("p", "");
    prompt.tool = "weather_delete".into();
    prompt.input_json = r#"{"city":"Oslo","days":[1,2],"force":true,"none":null}"#.into();
    if let Some(prompt::Request::Permission(request)) = &mut prompt.request {
        request.permission = "weather_delete".into();
        request.title = "weather_delete".into();
        request.patterns = vec!["*".into()];
        request.metadata = None;
    }
    let (rows, _) = text(&prompt, 80, &Folds::default());
    let head = [
        "weather_delete",
        "",
        "city: Oslo",
        "days:",
        "  [",
        "│   1,",
        "│   2",
        "│ ]",
        "force: true",
    ];
    assert_eq!(rows[..head.len()], head);
    prompt.input_json.clear();
    let (rows, _) = text(&prompt, 80, &Folds::default());
    assert!(rows[2].contains("toolgate watch call-p"), "{rows:#?}");

    let mut prompt = fixtures::command("p", "ls src");
    prompt.input_json = r#"{"command":"ls src","description":"Pushes the branch","timeout":5000,"workdir":"w"}"#.into();
    let (rows, _) = text(&prompt, 80, &Folds::default());
    assert!(rows.iter().any(|row| row == "timeout: 5000"), "{rows:#?}");
    assert!(
        !rows
            .iter()
            .any(|row| row.starts_with("workdir") || row.starts_with("description")),
        "{rows:#?}"
    );
}
