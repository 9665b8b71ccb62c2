//! The patch parser, and what its chunks make of a file. The input is `PATCH~FILE`.
//!
//! *Invariant:* nothing panics; an error says where it is; lines that no chunk names survive byte for byte, in order; a file
//! keeps its byte order mark and ends a line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokio_util::sync::CancellationToken;
use toolgate_fuzz::workspace::patch::{Change, Chunk, ChunkLine, ParseError, apply, parse};

fuzz_target!(|input: &str| {
    let (patch, file) = input.split_once('~').unwrap_or((input, ""));
    let sections = match parse(patch) {
        Ok(sections) => sections,
        Err(error) => return check_error(&error, patch),
    };
    let line_count = patch.split('\n').count();
    let mut last_line = 0;
    assert!(!sections.is_empty());
    for section in sections {
        assert!(!section.path.is_empty());
        assert!(
            section.line > last_line && section.line <= line_count,
            "line {}",
            section.line
        );
        last_line = section.line;
        if let Change::Update { chunks, .. } = section.change {
            for chunk in &chunks {
                assert!(
                    chunk.line > last_line && chunk.line <= line_count,
                    "line {}",
                    chunk.line
                );
                last_line = chunk.line;
                assert!(chunk.blank_tail <= chunk.lines.len());
            }
            check_apply(file, &chunks);
        }
    }
});

fn check_error(error: &ParseError, patch: &str) {
    let text = error.to_string();
    match error {
        ParseError::NoText => assert!(patch.trim().is_empty() || !patch.contains("*** ")),
        ParseError::Markers { .. } => assert!(text.contains("line"), "{text}"),
        ParseError::Empty { line }
        | ParseError::StrayMove { line }
        | ParseError::NoChanges { line, .. }
        | ParseError::TooManySections { line } => assert!(text.contains(&format!("line {line}")), "{text}"),
        ParseError::NoSections { from, to } => assert!(from <= to, "{text}"),
    }
}

fn check_apply(file: &str, chunks: &[Chunk]) {
    let Ok(new) = apply(file.as_bytes(), chunks, &CancellationToken::new()) else {
        return;
    };
    assert_eq!(new.starts_with('\u{feff}'), file.starts_with('\u{feff}'));
    assert!(new.trim_start_matches('\u{feff}').is_empty() || new.ends_with('\n'));
    let named = chunks.iter().flat_map(|chunk| &chunk.lines);
    let named = named.filter(|line| !matches!(line, ChunkLine::Added(_))).count();
    let (before, after) = (lines(file), lines(&new));
    assert!(
        in_common(&before, &after) + named >= before.len(),
        "lines outside the chunks were touched: {file:?} became {new:?}"
    );
    let added = chunks.iter().flat_map(|chunk| &chunk.lines);
    for line in added {
        if let ChunkLine::Added(text) = line {
            let is_there = after
                .iter()
                .any(|line| line.trim_end_matches(['\r', '\n']) == text.trim_end_matches('\r'));
            assert!(is_there, "{text:?} was not added: {new:?}");
        }
    }
}

/// Lines with their endings; the last one is given the ending that it lacks, as a patch does.
fn lines(text: &str) -> Vec<String> {
    let text = text.trim_start_matches('\u{feff}');
    let usual = if text.matches("\r\n").count() * 2 > text.matches('\n').count() {
        "\r\n"
    } else {
        "\n"
    };
    let with_ending = |line: &str| {
        if line.ends_with('\n') {
            line.to_owned()
        } else {
            format!("{line}{usual}")
        }
    };
    text.split_inclusive('\n').map(with_ending).collect()
}

/// The length of the longest common subsequence.
fn in_common(one: &[String], other: &[String]) -> usize {
    let mut row = vec![0_usize; other.len() + 1];
    for line in one {
        let mut diagonal = 0;
        for (at, candidate) in other.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if line == candidate {
                diagonal + 1
            } else {
                above.max(row[at])
            };
            diagonal = above;
        }
    }
    row[other.len()]
}
