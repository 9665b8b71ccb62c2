//! Unified diffs for people: what a change would do to a file (`docs/spec/file-tools.md` §1.8).
//!
//! *Invariant:* pure, and bounded: in time by a deadline after which the rest counts as replaced, in memory by not
//! comparing texts above a size and not printing diffs above another.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use super::text::is_js_whitespace;

/// Unchanged lines around a change.
const CONTEXT: usize = 4;

/// Two texts together above this are not compared line by line.
const MAX_COMPARED: usize = 4 << 20;

/// A printed diff ends here, with a line that says so.
const MAX_PRINTED: usize = 1 << 20;

/// The search for the shortest diff ends here.
const DEADLINE: Duration = Duration::from_millis(500);

/// What a change does to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// The unified diff with its header; common indentation is taken off.
    pub text: String,
    /// Lines that the new text has and the old one has not.
    pub additions: usize,
    /// Lines that the old text has and the new one has not.
    pub deletions: usize,
}

impl FileDiff {
    /// Returns the diff of the file `path` as the metadata of a tool have it.
    pub fn to_json(&self, path: &Path) -> Value {
        json!({
            "file": path.to_string_lossy(),
            "patch": self.text,
            "additions": self.additions,
            "deletions": self.deletions,
        })
    }
}

/// Compares two texts of the file `path`, line by line; lines end with LF.
pub fn unified(path: &Path, old: &str, new: &str) -> FileDiff {
    let mut text = header(path);
    let Window { before, old, new } = Window::new(old, new);
    if old.len() + new.len() > MAX_COMPARED {
        let (deletions, additions) = (count_lines(old), count_lines(new));
        let _ = writeln!(
            text,
            "(too large to compare: {} bytes become {} bytes)",
            old.len(),
            new.len()
        );
        return FileDiff {
            text,
            additions,
            deletions,
        };
    }
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(Instant::now() + DEADLINE));
    let (mut additions, mut deletions) = (0, 0);
    for op in ops.iter().filter(|op| op.tag() != DiffTag::Equal) {
        additions += op.new_range().len();
        deletions += op.old_range().len();
    }
    let mut hunks = Vec::new();
    for ops in group_diff_ops(ops, CONTEXT) {
        let range = HunkRange::covering(&ops, before);
        if range.is_empty() {
            continue;
        }
        hunks.push(Line::Range(range));
        hunks.extend(ops.iter().flat_map(|op| lines_of(op, &old, &new)));
    }
    print(&mut text, &hunks);
    FileDiff {
        text,
        additions,
        deletions,
    }
}

/// The parts of two texts from the first to the last line in which they differ, with the lines around that are shown: a small
/// change of a large file costs no more than two looks at it.
struct Window<'a> {
    /// Lines before the parts.
    before: usize,
    old: &'a str,
    new: &'a str,
}

impl<'a> Window<'a> {
    fn new(old: &'a str, new: &'a str) -> Self {
        let start = common_start(old, new);
        let end = common_end(&old[start..], &new[start..]);
        let first = memchr::memrchr_iter(b'\n', &old.as_bytes()[..start]).nth(CONTEXT);
        let first = first.map_or(0, |newline| newline + 1);
        let tail = &old.as_bytes()[old.len() - end..];
        let kept = memchr::memchr_iter(b'\n', tail).nth(CONTEXT - 1);
        let dropped = kept.map_or(0, |newline| tail.len() - newline - 1);
        Self {
            before: memchr::memchr_iter(b'\n', &old.as_bytes()[..first]).count(),
            old: &old[first..old.len() - dropped],
            new: &new[first..new.len() - dropped],
        }
    }
}

/// Compared at once.
const CHUNK: usize = 4096;

/// Returns how many bytes of whole lines both texts begin with.
fn common_start(old: &str, new: &str) -> usize {
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let chunks = old.chunks(CHUNK).zip(new.chunks(CHUNK));
    let mut same: usize = chunks
        .take_while(|(old, new)| old == new)
        .map(|(old, _)| old.len())
        .sum();
    same += (old[same..].iter().zip(&new[same..]))
        .take_while(|(old, new)| old == new)
        .count();
    memchr::memrchr(b'\n', &old[..same]).map_or(0, |newline| newline + 1)
}

/// Returns how many bytes of whole lines both texts, which begin with a line, end with.
fn common_end(old: &str, new: &str) -> usize {
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let chunks = old.rchunks(CHUNK).zip(new.rchunks(CHUNK));
    let mut same: usize = chunks
        .take_while(|(old, new)| old == new)
        .map(|(old, _)| old.len())
        .sum();
    let (old_rest, new_rest) = (&old[..old.len() - same], &new[..new.len() - same]);
    same += (old_rest.iter().rev().zip(new_rest.iter().rev()))
        .take_while(|(old, new)| old == new)
        .count();
    let begins_line = |text: &[u8]| matches!(text[..text.len() - same].last(), None | Some(b'\n'));
    if begins_line(old) && begins_line(new) {
        return same;
    }
    let tail = &old[old.len() - same..];
    memchr::memchr(b'\n', tail).map_or(0, |newline| same - newline - 1)
}

fn header(path: &Path) -> String {
    let path = path.display();
    let rule = "=".repeat(67);
    format!("Index: {path}\n{rule}\n--- {path}\n+++ {path}\n")
}

fn count_lines(text: &str) -> usize {
    text.split_inclusive('\n').count()
}

/// One line of a hunk.
enum Line<'a> {
    Range(HunkRange),
    /// The sign and the text with its line ending, if it has one.
    Text(char, &'a str),
}

/// The part of both texts that a hunk shows; starts count from 0.
struct HunkRange {
    old_start: usize,
    old_count: usize,
    new_start: usize,
    new_count: usize,
}

impl HunkRange {
    fn covering(ops: &[DiffOp], before: usize) -> Self {
        let span = |of: fn(&DiffOp) -> std::ops::Range<usize>| {
            let start = ops.first().map_or(0, |op| of(op).start);
            let end = ops.last().map_or(0, |op| of(op).end);
            (start, end - start)
        };
        let (old_start, old_count) = span(DiffOp::old_range);
        let (new_start, new_count) = span(DiffOp::new_range);
        Self {
            old_start: before + old_start,
            old_count,
            new_start: before + new_start,
            new_count,
        }
    }

    fn is_empty(&self) -> bool {
        self.old_count == 0 && self.new_count == 0
    }
}

fn lines_of<'a>(op: &DiffOp, old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let signed = |sign: char, lines: &[&'a str]| lines.iter().map(|line| Line::Text(sign, line)).collect::<Vec<_>>();
    match op.tag() {
        DiffTag::Equal => signed(' ', &old[op.old_range()]),
        DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => {
            let mut lines = signed('-', &old[op.old_range()]);
            lines.extend(signed('+', &new[op.new_range()]));
            lines
        }
    }
}

/// Prints the lines without the white space that all of them begin with.
fn print(text: &mut String, lines: &[Line<'_>]) {
    let indentation = common_indentation(lines);
    for line in lines {
        if text.len() > MAX_PRINTED {
            text.push_str("(the rest of this diff is too long to be shown)\n");
            return;
        }
        match line {
            Line::Range(range) => {
                // An empty side is named by the line before it.
                let start = |start: usize, count: usize| if count == 0 { start } else { start + 1 };
                let _ = writeln!(
                    text,
                    "@@ -{},{} +{},{} @@",
                    start(range.old_start, range.old_count),
                    range.old_count,
                    start(range.new_start, range.new_count),
                    range.new_count
                );
            }
            Line::Text(sign, content) => {
                let (content, ended) = match content.strip_suffix('\n') {
                    Some(content) => (content, true),
                    None => (*content, false),
                };
                text.push(*sign);
                text.push_str(if looks_like_header(*sign, content) {
                    content
                } else {
                    skip_chars(content, indentation)
                });
                text.push('\n');
                if !ended {
                    text.push_str("\\ No newline at end of file\n");
                }
            }
        }
    }
}

/// A removed line `-- x` prints as `--- x`: where indentation is concerned it counts as a header and stays as it is.
fn looks_like_header(sign: char, content: &str) -> bool {
    (sign == '-' && content.starts_with("--")) || (sign == '+' && content.starts_with("++"))
}

fn common_indentation(lines: &[Line<'_>]) -> usize {
    lines
        .iter()
        .filter_map(|line| match line {
            Line::Text(sign, content) if !looks_like_header(*sign, content) => {
                let indentation = content.chars().take_while(|&c| is_js_whitespace(c)).count();
                // A line of nothing but white space says nothing about the indentation.
                (content.chars().nth(indentation).is_some()).then_some(indentation)
            }
            Line::Text(..) | Line::Range(_) => None,
        })
        .min()
        .unwrap_or(0)
}

fn skip_chars(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or("", |(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(old: &str, new: &str) -> String {
        let diff = unified(Path::new("/w/a.txt"), old, new);
        let header = format!("Index: /w/a.txt\n{}\n--- /w/a.txt\n+++ /w/a.txt\n", "=".repeat(67));
        diff.text.strip_prefix(&header).expect("the header is fixed").to_owned()
    }

    #[test]
    fn prints_hunks() {
        let check = |old: &str, new: &str, expected: &str| assert_eq!(body(old, new), expected, "{old:?} to {new:?}");
        check("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n");
        check("a\n", "", "@@ -1,1 +0,0 @@\n-a\n");
        check("a\n", "a\n", "");
        check("", "", "");
        check(
            "a\nb",
            "a\nc",
            "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n",
        );
        check("a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n");
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n",
            "1\n2\n3\n4\n5\nsix\n7\n8\n",
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n 5\n-6\n+six\n 7\n 8\n",
        );
        check("a\r\n", "a\n", "@@ -1,1 +1,1 @@\n-a\r\n+a\n");
    }

    #[test]
    fn takes_common_indentation_off() {
        let check = |old: &str, new: &str, expected: &str| assert_eq!(body(old, new), expected, "{old:?} to {new:?}");
        check(
            "    a\n      b\n",
            "    a\n      c\n",
            "@@ -1,2 +1,2 @@\n a\n-  b\n+  c\n",
        );
        check(
            "  a\n\n \n  b\n",
            "  a\n\n \n  c\n",
            "@@ -1,4 +1,4 @@\n a\n \n \n-b\n+c\n",
        );
        check("\ta\n", "  a\n", "@@ -1,1 +1,1 @@\n-a\n+ a\n");
        check("  a\n-- b\n", "  a\n", "@@ -1,2 +1,1 @@\n a\n--- b\n");
        check("x\n", "  y\n", "@@ -1,1 +1,1 @@\n-x\n+  y\n");
    }

    #[test]
    fn far_changes_are_two_hunks() {
        let lines = |changed: &[usize]| -> String {
            (1..=30)
                .map(|n| {
                    if changed.contains(&n) {
                        "x\n".to_owned()
                    } else {
                        format!("{n}\n")
                    }
                })
                .collect()
        };
        let text = body(&lines(&[]), &lines(&[5, 25]));
        assert!(
            text.contains("@@ -1,9 +1,9 @@\n") && text.contains("@@ -21,9 +21,9 @@\n"),
            "{text}"
        );
        assert_eq!(body(&lines(&[]), &lines(&[5, 13])).matches("@@ -").count(), 1);
        assert_eq!(body(&lines(&[]), &lines(&[5, 15])).matches("@@ -").count(), 2);
    }

    #[test]
    fn is_bounded() {
        let large = "a\n".repeat(MAX_COMPARED / 2);
        let diff = unified(Path::new("/w/a"), "b\n", &large);
        assert!(diff.text.contains("too large to compare") && diff.text.len() < 1000);
        assert_eq!((diff.additions, diff.deletions), (MAX_COMPARED / 2, 1));
        let long = "some line of text\n".repeat(MAX_PRINTED / 10);
        let diff = unified(Path::new("/w/a"), "", &long);
        assert!(diff.text.len() < MAX_PRINTED + 1000 && diff.text.ends_with("too long to be shown)\n"));
        assert_eq!(diff.additions, MAX_PRINTED / 10);
    }

    #[test]
    fn a_small_change_of_a_large_text_is_shown() {
        let lines = MAX_COMPARED / 10;
        let half = "some line of text\n".repeat(lines);
        let old = format!("{half}{half}");
        let same = " some line of text\n".repeat(CONTEXT);
        let hunk = format!("@@ -{0},8 +{0},9 @@\n{same}+new\n{same}", lines - CONTEXT + 1);
        assert_eq!(body(&old, &format!("{half}new\n{half}")), hunk);
    }

    /// Applies a diff whose indentation was not touched.
    fn apply(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut at, mut new) = (0, String::new());
        let lines: Vec<&str> = diff.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            let ending = if lines.get(n + 1).is_some_and(|next| next.starts_with('\\')) {
                ""
            } else {
                "\n"
            };
            if let Some(range) = line.strip_prefix("@@ -") {
                let (start, rest) = range.split_once(',').unwrap();
                let (start, count): (usize, usize) =
                    (start.parse().unwrap(), rest.split_once(' ').unwrap().0.parse().unwrap());
                let start = if count == 0 { start } else { start - 1 };
                new.extend(old[at..start].iter().copied());
                at = start;
            } else if let Some(text) = line.strip_prefix('+') {
                new.push_str(text);
                new.push_str(ending);
            } else if line.starts_with(['-', ' ']) {
                if line.starts_with(' ') {
                    new.push_str(old[at]);
                }
                at += 1;
            }
        }
        new.extend(old[at..].iter().copied());
        new
    }

    proptest! {
        #[test]
        fn a_diff_leads_from_old_to_new(old in "([a-d]\n){0,12}[a-d]?", new in "([a-d]\n){0,12}[a-d]?") {
            prop_assert_eq!(apply(&old, &body(&old, &new)), new);
        }
    }
}
