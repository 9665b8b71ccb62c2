//! Diffs of prompts: by file, with what was added and removed.
//!
//! *Invariant:* every line of a diff belongs to a file, except its header, which the name of the file stands for.

use prost_types::value::Kind;
use toolgate_contract::{PermissionRequest, Prompt, prompt};

use super::terminal::counted;

/// Lines of a file's changes up to which they are shown at once.
const FOLDED_FROM: usize = 400;

/// The changes of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileDiff<'a> {
    pub(super) name: String,
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) lines: Vec<&'a str>,
}

impl FileDiff<'_> {
    /// Says how much changes: `+3 −1`.
    pub(super) fn summary(&self) -> String {
        sums(self.added, self.removed)
    }

    pub(super) fn is_long(&self) -> bool {
        self.lines.len() > FOLDED_FROM
    }

    /// Takes a name from the header: the only one, or a second one of a file that moves.
    fn call(&mut self, name: &str) {
        let bare = |name: &str| {
            let prefixes = ["a/", "b/"];
            let stripped = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
            stripped.unwrap_or(name).to_owned()
        };
        if name == "/dev/null" || bare(&self.name) == bare(name) {
            return;
        }
        if !self.name.is_empty() {
            self.name += " → ";
        }
        self.name += name;
    }
}

/// Says how much changes.
fn sums(added: usize, removed: usize) -> String {
    format!("+{added} −{removed}")
}

/// Returns the diff of what is asked.
pub(super) fn of(request: &PermissionRequest) -> Option<&str> {
    let fields = &request.metadata.as_ref()?.fields;
    ["diff", "patch"].iter().find_map(|key| {
        let Some(Kind::StringValue(text)) = &fields.get(*key)?.kind else {
            return None;
        };
        Some(text.as_str())
    })
}

/// Says how much the diff of a prompt changes, of how many files if there are several; none if it has none.
pub(super) fn summary(prompt: &Prompt) -> Option<String> {
    let Some(prompt::Request::Permission(request)) = &prompt.request else {
        return None;
    };
    let files = files(of(request)?);
    (!files.is_empty()).then(|| summary_of(&files))
}

pub(super) fn summary_of(files: &[FileDiff<'_>]) -> String {
    let sum = |count: fn(&FileDiff<'_>) -> usize| files.iter().map(count).sum::<usize>();
    let summary = sums(sum(|file| file.added), sum(|file| file.removed));
    match files.len() {
        1 => summary,
        count => format!("{} {summary}", counted(count, "file")),
    }
}

/// Lines of a hunk that are still to come, of the old text and of the new one.
#[derive(Default)]
struct Left {
    old: usize,
    new: usize,
}

/// Takes a unified diff apart. The lengths in the heads of its hunks say what is content: a removed line `-- x` is no header.
pub(super) fn files(diff: &str) -> Vec<FileDiff<'_>> {
    let mut files: Vec<FileDiff<'_>> = Vec::new();
    let mut left = Left::default();
    // Whether the header of a file is being read.
    let mut in_header = false;
    for line in diff.lines() {
        let is_content = left.old > 0 || left.new > 0;
        if !is_content && let Some(name) = header(line) {
            if !in_header {
                files.push(FileDiff::default());
            }
            in_header = true;
            if let (Some(name), Some(file)) = (name, files.last_mut()) {
                file.call(name);
            }
            continue;
        }
        in_header = false;
        if files.is_empty() {
            files.push(FileDiff::default());
        }
        let Some(file) = files.last_mut() else { continue };
        if is_content {
            match line.as_bytes().first() {
                Some(b'+') => {
                    file.added += 1;
                    left.new = left.new.saturating_sub(1);
                }
                Some(b'-') => {
                    file.removed += 1;
                    left.old = left.old.saturating_sub(1);
                }
                Some(b'\\') => {}
                Some(_) | None => {
                    left.old = left.old.saturating_sub(1);
                    left.new = left.new.saturating_sub(1);
                }
            }
        } else if let Some(hunk) = hunk(line) {
            left = hunk;
        }
        file.lines.push(line);
    }
    files
}

/// Returns the name of a file if a line is of the header of one; `Some(None)` if that line names none.
fn header(line: &str) -> Option<Option<&str>> {
    if let Some(name) = ["Index: ", "--- ", "+++ "]
        .iter()
        .find_map(|head| line.strip_prefix(head))
    {
        return Some(Some(name.split('\t').next().unwrap_or(name)));
    }
    let is_rule = line.len() > 3 && line.bytes().all(|byte| byte == b'=');
    (is_rule || line.starts_with("diff --git ")).then_some(None)
}

/// Reads the lengths in the head of a hunk: `@@ -1,2 +1,3 @@`.
fn hunk(line: &str) -> Option<Left> {
    let mut ranges = line.strip_prefix("@@ ")?.split(' ');
    let mut length = |sign: char| {
        let range = ranges.next()?.strip_prefix(sign)?;
        match range.split_once(',') {
            Some((_, length)) => length.parse().ok(),
            None => Some(1),
        }
    };
    Some(Left {
        old: length('-')?,
        new: length('+')?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diffs_are_taken_apart_by_file() {
        let diff = "Index: /w/a\n=====\n--- /w/a\n+++ /w/a\n@@ -1,2 +1,2 @@\n x\n--- y\n+z\n\
                    Index: /w/b\n=====\n--- /dev/null\n+++ /w/b\n@@ -0,0 +1,1 @@\n+new\n\\ No newline at end of file\n";
        let files = files(diff);
        let told: Vec<(&str, String, usize)> = files
            .iter()
            .map(|file| (file.name.as_str(), file.summary(), file.lines.len()))
            .collect();
        assert_eq!(told, [("/w/a", "+1 −1".to_owned(), 4), ("/w/b", "+1 −0".to_owned(), 3)]);
        assert!(!files[0].is_long());
    }

    #[test]
    fn a_file_that_moves_has_both_names() {
        let name = |header: &str| files(&format!("{header}@@ -1 +1 @@\n-a\n+b\n"))[0].name.clone();
        assert_eq!(name("diff --git a/x b/x\n--- a/x\n+++ b/x\n"), "a/x");
        assert_eq!(name("--- a/x\n+++ b/y\n"), "a/x → b/y");
        assert_eq!(name("--- /dev/null\n+++ b/y\n"), "b/y");
    }

    #[test]
    fn what_is_no_diff_is_shown_as_it_is() {
        let files = files("@@ 1\n-a\n+b");
        assert_eq!((files.len(), files[0].lines.len()), (1, 3));
    }
}
