//! The diff of a prompt as an editor shows it: what stood in a file, and what will.
//!
//! *Invariant:* nothing is added to what the prompt shows, and nothing left out: a diff that is not understood to its last line
//! is not taken apart.

/// The changes of one place in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: String,
    /// None where there was nothing.
    pub(super) old: Option<String>,
    pub(super) new: String,
    /// The place as the diff has it.
    pub(super) hunk: String,
}

/// Takes a unified diff of one or several files apart; none if it is not understood.
pub(super) fn parse(diff: &str) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    let mut path: Option<String> = None;
    let mut lines = diff.split('\n').peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("+++ ") {
            path = Some(name.to_owned());
        } else if let Some(range) = line.strip_prefix("@@ -") {
            let path = path.clone()?;
            let (old_range, rest) = range.split_once(" +")?;
            let (new_range, _) = rest.split_once(" @@")?;
            let ((old_start, mut old_left), (_, mut new_left)) = (numbers(old_range)?, numbers(new_range)?);
            let is_new = old_start == 0 && old_left == 0;
            let (mut old, mut new, mut hunk) = (String::new(), String::new(), format!("{line}\n"));
            // The sides that the last line belongs to.
            let mut last = (false, false);
            while old_left > 0 || new_left > 0 {
                let line = lines.next()?;
                let (text, is_old, is_new) = match line.chars().next() {
                    Some('-') => (&line[1..], true, false),
                    Some('+') => (&line[1..], false, true),
                    Some(' ') => (&line[1..], true, true),
                    Some('\\') => {
                        last = cut((&mut old, &mut new), last)?;
                        hunk.push_str(line);
                        hunk.push('\n');
                        continue;
                    }
                    Some(_) | None => return None,
                };
                last = (is_old, is_new);
                for (side, left, takes) in [(&mut old, &mut old_left, is_old), (&mut new, &mut new_left, is_new)] {
                    if takes {
                        *left = usize::checked_sub(*left, 1)?;
                        if !side.is_empty() && !side.ends_with('\n') {
                            // Its end was told already.
                            return None;
                        }
                        side.push_str(text);
                        side.push('\n');
                    }
                }
                hunk.push_str(line);
                hunk.push('\n');
            }
            while let Some(note) = lines.next_if(|line| line.starts_with('\\')) {
                last = cut((&mut old, &mut new), last)?;
                hunk.push_str(note);
                hunk.push('\n');
            }
            changes.push(Change {
                path,
                old: (!is_new).then_some(old),
                new,
                hunk,
            });
        } else if !is_header(line) {
            return None;
        }
    }
    (!changes.is_empty()).then_some(changes)
}

/// Takes the line feed at the end of the sides that the last line belongs to: "\ No newline at end of file". None where that says
/// nothing, after another one for instance.
fn cut((old, new): (&mut String, &mut String), last: (bool, bool)) -> Option<(bool, bool)> {
    for (side, _) in [(old, last.0), (new, last.1)].into_iter().filter(|(_, takes)| *takes) {
        side.pop()?;
    }
    (last.0 || last.1).then_some((false, false))
}

fn is_header(line: &str) -> bool {
    line.is_empty() || line.starts_with("Index: ") || line.starts_with("--- ") || line.bytes().all(|byte| byte == b'=')
}

/// Reads `START,COUNT`, or `START` for one line.
fn numbers(range: &str) -> Option<(usize, usize)> {
    let (start, count) = range.split_once(',').unwrap_or((range, "1"));
    Some((start.parse().ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "Index: /w/a.txt\n===\n--- /w/a.txt\n+++ /w/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -9,1 +9,2 @@\n nine\n+ten\n\
                       Index: /w/b.txt\n===\n--- /w/b.txt\n+++ /w/b.txt\n@@ -0,0 +1,1 @@\n+++ new\n\\ No newline at end of file\n";

    #[test]
    fn places_are_told_apart() {
        let changes = parse(TWO).unwrap();
        let seen: Vec<_> = changes
            .iter()
            .map(|one| (one.path.as_str(), one.old.as_deref(), one.new.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("/w/a.txt", Some("one\ntwo\n"), "one\n2\n"),
                ("/w/a.txt", Some("nine\n"), "nine\nten\n"),
                ("/w/b.txt", None, "++ new"),
            ]
        );
        assert!(changes[2].hunk.ends_with("end of file\n"));
        let gone = parse("--- /w/c\n+++ /w/c\n@@ -1,1 +0,0 @@\n-x\n").unwrap();
        assert_eq!((gone[0].old.as_deref(), gone[0].new.as_str()), (Some("x\n"), ""));
        let ends = parse("--- /w/e\n+++ /w/e\n@@ -1,1 +1,1 @@\n-x\n\\ No newline at end of file\n+x\n").unwrap();
        assert_eq!((ends[0].old.as_deref(), ends[0].new.as_str()), (Some("x"), "x\n"));
        let returns = parse("--- /w/d\n+++ /w/d\n@@ -1,1 +1,1 @@\n-x\r\n+x\n").unwrap();
        assert_eq!(
            (returns[0].old.as_deref(), returns[0].new.as_str()),
            (Some("x\r\n"), "x\n")
        );
    }

    #[test]
    fn what_is_not_understood_stays_whole() {
        for diff in [
            "",
            "--- a\n+++ a\n",
            "--- a\n+++ a\n(too large to compare: 1 bytes become 2 bytes)\n",
            "--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-two\n",
            "--- a\n+++ a\n@@ -1,1 +1,1 @@\n-one\n+1\nand more\n",
            "--- a\n+++ a\n@@ -1,1 +1,1 @@\n-one\n-two\n+1\n",
            "@@ -1,1 +1,1 @@\n-one\n+1\n",
        ] {
            assert_eq!(parse(diff), None, "{diff}");
        }
    }
}
