//! What patches are and what they make of texts, as tables and as properties.

use proptest::prelude::*;
use similar::{Algorithm, DiffTag, capture_diff_slices, group_diff_ops};
use tokio_util::sync::CancellationToken;

use super::apply::apply_within;
use super::seek::Budget;
use super::*;

/// Wraps the lines between the markers.
fn patch(body: &str) -> String {
    format!("*** Begin Patch\n{body}\n*** End Patch")
}

/// Applies a patch whose sections all are updates of one text.
fn run(file: &str, body: &str) -> Result<String, ApplyError> {
    let mut text = file.to_owned();
    for section in parse(&patch(&format!("*** Update File: a\n{body}"))).unwrap() {
        let Change::Update { chunks, .. } = section.change else {
            panic!("only updates")
        };
        text = apply(text.as_bytes(), &chunks, &CancellationToken::new())?;
    }
    Ok(text)
}

#[test]
fn reads_sections() {
    let text = "noise\r\n  *** Begin Patch \r\n*** Add File:  a:b c.txt \r\n+one\r\nignored\r\n+\r\n+two\r\n\
                *** Delete File: d\r\n+skipped\r\n*** Unknown File: e\r\n+skipped\r\n*** Add File:\r\n+skipped\r\n\
                *** Update File: f\r\n*** Move to: g\r\n*** End Patch\r\nnoise";
    let section = |line: usize, path: &str, change: Change| Section {
        line,
        path: path.to_owned(),
        change,
    };
    let expected = vec![
        section(3, "a:b c.txt", Change::Add("one\n\ntwo\n".to_owned())),
        section(8, "d", Change::Delete),
        section(
            14,
            "f",
            Change::Update {
                move_to: Some("g".to_owned()),
                chunks: Vec::new(),
            },
        ),
    ];
    assert_eq!(parse(text), Ok(expected.clone()));
    let heredoc = format!("cat <<'EOF'\n{}\nEOF\n", text.replace("noise\r\n", ""));
    assert_eq!(parse(&heredoc), Ok(expected));
}

#[test]
fn reads_chunks() {
    let text = patch(
        "*** Update File: a\n\n-first\n+erste\n@@  class A: \n@@\n keep\n\n-go\n\n\n*** End of File\n@@ x\nno sign\n+y",
    );
    let sections = parse(&text).unwrap();
    let [
        Section {
            change: Change::Update { move_to: None, chunks },
            ..
        },
    ] = sections.as_slice()
    else {
        panic!("{sections:?}")
    };
    let context = |text: &str| ChunkLine::Context(text.to_owned());
    let removed = |text: &str| ChunkLine::Removed(text.to_owned());
    let added = |text: &str| ChunkLine::Added(text.to_owned());
    let chunk = |line: usize, context: Option<&str>, lines: Vec<ChunkLine>| Chunk {
        line,
        context: context.map(str::to_owned),
        lines,
        ..Chunk::default()
    };
    let expected = [
        Chunk {
            blank_head: 1,
            ..chunk(4, None, vec![context(""), removed("first"), added("erste")])
        },
        chunk(6, Some("class A:"), vec![]),
        Chunk {
            blank_tail: 2,
            at_end: true,
            ..chunk(
                7,
                None,
                vec![context("keep"), context(""), removed("go"), context(""), context("")],
            )
        },
        chunk(14, Some("x"), vec![added("y")]),
    ];
    assert_eq!(chunks, &expected);
}

#[test]
fn refuses_with_the_line() {
    let check = |text: &str, expected: &str| {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    };
    check("", "patchText is required");
    for text in ["text", " \r\n\u{feff}"] {
        check(
            text,
            "apply_patch verification failed: Error: Invalid patch format: missing Begin/End markers (no line is",
        );
    }
    check(
        "x\n*** Begin Patch",
        "apply_patch verification failed: Error: Invalid patch format: missing Begin/End markers (`*** Begin Patch` is line 2,",
    );
    check(
        "*** End Patch\n*** Begin Patch",
        "apply_patch verification failed: Error: Invalid patch format: missing Begin/End markers (`*** End Patch` is line 1, before",
    );
    check("*** Begin Patch\n*** End Patch", "patch rejected: empty patch (line 1)");
    check(
        "x\r\n*** Begin Patch\r\n*** End Patch\r\n",
        "patch rejected: empty patch (line 2)",
    );
    check(
        &patch("*** Rename File: a\n+x"),
        "apply_patch verification failed: no hunks found (lines 2 to 3 ",
    );
    check(
        &patch("*** Update File: a\n@@\n-a\n*** Move to: b"),
        "apply_patch verification failed: Error: Invalid patch format: `*** Move to:` must be the line after \
         `*** Update File:` (line 5)",
    );
    check(
        &patch("*** Add File: a\n*** Move to: b"),
        "apply_patch verification failed: Error: Invalid patch format: `*** Move to:` must",
    );
    for body in [
        "",
        "unsigned",
        "*** Oops\n@@\n-a",
        "@@ a",
        "@@\n\n\n",
        "*** Move to:",
        "*** End of File",
    ] {
        let expected = "apply_patch verification failed: Error: Invalid patch format: no changes for a; its lines must begin \
                        with a space, `-` or `+` (line 3)";
        check(
            &patch(&format!("*** Delete File: d\n*** Update File: a\n{body}")),
            expected,
        );
    }
    check(
        &patch(&"*** Delete File: a\n".repeat(1001)),
        "apply_patch verification failed: the patch has more than 1000 sections (line 1002)",
    );
}

#[test]
fn applies_chunks() {
    let check = |file: &str, body: &str, expected: &str| {
        assert_eq!(run(file, body).as_deref(), Ok(expected), "{body:?} on {file:?}");
    };
    check("a\nb\n", "@@\n-b\n+B", "a\nB\n");
    check("a\nb\n", "-b\n+B", "a\nB\n");
    check("a\nb", "@@\n-a\n+A", "A\nb\n");
    check("a", "@@\n-a", "");
    check("", "@@\n+a", "a\n");
    check("\n", "@@\n-\n+a", "a\n");
    // Added lines alone go to the end, also below a named line, and do not move the cursor.
    check("a\nb\n\n", "@@ a\n+c\n@@\n-b\n+B", "a\nB\n\nc\n");
    check("a\nb\n", "@@\n+c\n@@\n+d\n*** End of File", "a\nb\nc\nd\n");
    // Named lines nest.
    check("f\nx\ng\nx\nf\nx\n", "@@ g\n@@ f\n-x\n+y", "f\nx\ng\nx\nf\ny\n");
    // The end of the file comes first, by whatever standard, then the rest.
    check("x\ny\nx \n", "@@\n-x\n+z\n*** End of File", "x\ny\nz\n");
    check("x\ny\n", "@@\n-x\n+z\n*** End of File", "z\ny\n");
    check("a\nx\nb\n", "@@ x\n-b\n+B\n*** End of File", "a\nx\nB\n");
    // A last empty line that the file does not have.
    check("a\nb\n", "@@\n-b\n+B\n \n", "a\nB\n");
    check("a\nb\n", "@@\n-b\n-\n+B\n+\n", "a\nB\n");
    check("a\nb\nc\n", "@@\n-b\n+B\n\n\n\n@@\n-c\n+C", "a\nB\nC\n");
    // A blank line that the file does have places the chunk and is left to the next one.
    check("b\nb\n\nc\n", "@@\n-b\n+B\n\n@@\n \n-c\n+C", "b\nB\n\nC\n");
    check("a\n\n\nb\n", "@@\n-\n-b\n+B", "a\n\nB\n");
    // Also where all other lines are added ones, which go to the end only if the file has no such line.
    check("a\n\nb\n", "@@\n+c\n\n", "a\nc\n\nb\n");
    check("a\n\nb\n\n", "@@ b\n+c\n\n", "a\n\nb\nc\n\n");
    check("a\nb\n", "@@\n+c\n\n\n", "a\nb\nc\n");
    check("a\n\nb\n\n", "@@\n+c\n\n*** End of File", "a\n\nb\nc\n\n");
    check("a\n\nb\n", "@@\n+c\n\n*** End of File", "a\n\nb\nc\n");
    check("b\n\nb\n", "@@\n\n@@\n-b\n+B", "B\n\nb\n");
    // Blank lines below the header do the same for a chunk without a marker.
    check("b\n \r\nb\r\n", "\n-b\n+B", "b\n \r\nB\r\n");
    check("a\nb\n", "\n\n-b\n+B\n", "a\nB\n");
    check("a\n\nb\n", "\n-\n-b\n+B\n\n", "a\nB\n");
    check("a\n\nb\n\nb\nc\n", "\n-b\n+B\n\n", "a\n\nB\n\nb\nc\n");
    check("a\n\nb\n", "\n+c", "a\n\nc\nb\n");
    check("a\nb\n", "\n+c\n\n", "a\nb\nc\n");
    check("b\n\nb\n", "\n@@\n-b\n+B", "B\n\nb\n");
    // Context takes the patch's text.
    check("  a  \nb\n", "@@\n a\n-b\n+c", "a\nc\n");
    check("a\nb\n", "@@\n a\n+x\n b\n@@\n+y", "a\nx\nb\ny\n");
}

#[test]
fn keeps_endings_and_the_mark() {
    let check = |file: &str, body: &str, expected: &str| {
        assert_eq!(run(file, body).as_deref(), Ok(expected), "{body:?} on {file:?}");
    };
    check("a\r\nb\r\n", "@@\n a\n-b\n+B\n+C", "a\r\nB\r\nC\r\n");
    check("a\r\nb", "@@\n-b\n+B", "a\r\nB\r\n");
    check("a\r\nb", "@@\n-a\n+A", "A\r\nb\r\n");
    check("a\nb\n", "@@\r\n-b\r\n+B\r", "a\nB\n");
    check("a\r\nb\nc\n", "@@\n a\n b\n+x\n c", "a\r\nb\nx\nc\n");
    check("a\nb\r\nc\r\n", "@@\n-a\n+x", "x\r\nb\r\nc\r\n");
    check("a\rb\n", "@@\n-a\rb\n+c", "c\n");
    check("\u{feff}a\n", "@@\n-a\n+b", "\u{feff}b\n");
    check("\u{feff}", "@@\n+b", "\u{feff}b\n");
}

#[test]
fn tells_what_it_cannot_find() {
    let lines = |lines: &str, line: usize| {
        Err(ApplyError::Lines {
            lines: lines.to_owned(),
            line,
        })
    };
    assert_eq!(run("a\nb\n", "@@\n a\n-c\n+d"), lines("a\nc", 3));
    assert_eq!(run("a\nb\n", "@@\n-b\n@@\n-a"), lines("a", 5));
    assert_eq!(run("a\n", "@@\n-a\n@@\n-a"), lines("a", 5));
    let context = Err(ApplyError::Context {
        context: "c".to_owned(),
        line: 3,
    });
    assert_eq!(run("a\n", "@@ c\n+x"), context);
    let chunks = [];
    let cancelled = CancellationToken::new();
    assert_eq!(
        apply(b"ab\xff", &chunks, &cancelled),
        Err(ApplyError::NotText { at: 2 })
    );
    let large = "\n".repeat(2_000_001);
    assert_eq!(
        apply(large.as_bytes(), &chunks, &cancelled),
        Err(ApplyError::TooManyLines)
    );
}

#[test]
fn many_chunks_are_cheap_and_hostile_ones_end() {
    let count = 20_000;
    let file: String = (0..count).map(|n| format!("  line {n}\n")).collect();
    let body: String = (0..count).map(|n| format!("@@\n-line {n}\n+changed {n}\n")).collect();
    let sections = parse(&patch(&format!("*** Update File: a\n{body}"))).unwrap();
    let Change::Update { chunks, .. } = &sections[0].change else {
        panic!("an update")
    };
    let cancelled = CancellationToken::new();
    let mut budget = Budget::with_work(40 * count, &cancelled);
    let new = apply_within(&file, chunks, &mut budget).unwrap();
    assert_eq!(new.lines().count() as u64, count);

    // Every chunk but the last line of it fits everywhere.
    let file = "{\n".repeat(50_000) + "}\n";
    let body = "@@\n {\n {\n }\n@@ {\n".repeat(3000);
    let sections = parse(&patch(&format!("*** Update File: a\n{body}"))).unwrap();
    let Change::Update { chunks, .. } = &sections[0].change else {
        panic!("an update")
    };
    let mut budget = Budget::with_work(1 << 20, &cancelled);
    assert!(apply_within(&file, chunks, &mut budget).is_err());
    cancelled.cancel();
    let mut budget = Budget::new(&cancelled);
    assert_eq!(apply_within(&file, chunks, &mut budget), Err(ApplyError::Stopped));
}

#[test]
fn parsing_is_linear() {
    // A parser that looked at lines twice would not come back from this.
    let text = patch(&format!(
        "*** Update File: a\n{}",
        "@@ x\n-a\n+b\n\n*** End of File\n".repeat(100_000)
    ));
    assert!(parse(&text).is_ok());
}

/// Writes the sections that lead from one text to the other with `context` lines around each change.
fn sections(old: &[String], new: &[String], context: usize) -> String {
    let ops = capture_diff_slices(Algorithm::Myers, old, new);
    let mut body = String::new();
    for group in group_diff_ops(ops, context) {
        body.push_str("@@\n");
        for op in group {
            let mut push = |sign: char, lines: &[String]| {
                for line in lines {
                    body.push(sign);
                    body.push_str(line);
                    body.push('\n');
                }
            };
            match op.tag() {
                DiffTag::Equal => push(' ', &old[op.old_range()]),
                DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => {
                    push('-', &old[op.old_range()]);
                    push('+', &new[op.new_range()]);
                }
            }
        }
    }
    body
}

fn text(lines: &[String], ending: &str) -> String {
    lines.iter().map(|line| format!("{line}{ending}")).collect()
}

/// Distinct lines, some of them changed.
fn distinct() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    prop::collection::vec(0_u8..8, 1..40).prop_map(|fates| {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (n, fate) in fates.into_iter().enumerate() {
            let line = format!("{}line {n} – «é»", " ".repeat(n % 5));
            match fate {
                0 => old.push(line),
                1 => new.push(line),
                2 => {
                    new.push(format!("{line} changed"));
                    old.push(line);
                }
                _ => {
                    old.push(line.clone());
                    new.push(line);
                }
            }
        }
        (old, new)
    })
}

fn leads(old: &[String], new: &[String], context: usize, ending: &str) -> Result<(), TestCaseError> {
    let body = sections(old, new, context);
    if !body.is_empty() {
        prop_assert_eq!(
            run(&text(old, ending), &body),
            Ok(text(new, if old.is_empty() { "\n" } else { ending }))
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_patch_leads_from_old_to_new((old, new) in distinct(), context in 1_usize..4, crlf: bool) {
        leads(&old, &new, context, if crlf { "\r\n" } else { "\n" })?;
    }

    #[test]
    fn with_all_the_context_any_text_leads_to_any(
        old in prop::collection::vec("[ab \t]{0,3}", 0..12),
        new in prop::collection::vec("[ab \t]{0,3}", 0..12),
        crlf: bool,
    ) {
        leads(&old, &new, 100, if crlf { "\r\n" } else { "\n" })?;
    }

    #[test]
    fn any_text_is_a_patch_or_an_error(
        lines in prop::collection::vec(
            prop_oneof![
                Just("*** Begin Patch".to_owned()),
                Just("*** End Patch".to_owned()),
                Just("*** End of File".to_owned()),
                Just("*** Add File: a".to_owned()),
                Just("*** Update File: a".to_owned()),
                Just("*** Delete File: a".to_owned()),
                Just("*** Move to: b".to_owned()),
                "[-+ @]{0,2}[ab]{0,2}\r?",
                "\\PC{0,8}",
            ],
            0..24,
        ),
        file in "([ab]{0,2}\r?\n){0,8}[ab]?",
    ) {
        let text = lines.join("\n");
        for text in [text.clone(), patch(&text), patch(&format!("*** Update File: a\n{text}"))] {
            let Ok(sections) = parse(&text) else { continue };
            prop_assert!(!sections.is_empty());
            for section in sections {
                prop_assert!(!section.path.is_empty() && text.split('\n').nth(section.line - 1).unwrap().contains(&section.path));
                if let Change::Update { chunks, .. } = section.change
                    && let Ok(new) = apply(file.as_bytes(), &chunks, &CancellationToken::new())
                {
                    prop_assert!(new.is_empty() || new.ends_with('\n'));
                }
            }
        }
    }
}
