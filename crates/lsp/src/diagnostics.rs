//! What is told of findings: to the model as text, to a user interface as JSON.
//!
//! *Invariant:* pure, and bounded however much servers find: what is left out is counted.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::diagnostic::{Diagnostic, Severity};

/// Errors of one file that the model is told of.
const MAX_ERRORS: usize = 20;

/// Other files whose errors the model is told of.
const MAX_OTHERS: usize = 5;

/// Bytes of one message that anybody is told of.
const MAX_MESSAGE: usize = 2000;

/// Findings of one file, files, and bytes of all findings that a user interface is told of.
const MAX_FINDINGS: usize = 100;
const MAX_FILES: usize = 50;
const MAX_BYTES: usize = 128 << 10;

/// The findings in files, by path: first the files that were changed, then others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnostics {
    pub(super) changed: Vec<(PathBuf, Arc<[Diagnostic]>)>,
    pub(super) others: Vec<(PathBuf, Arc<[Diagnostic]>)>,
}

impl Diagnostics {
    /// Returns what the model reads after an edit of one file, appended to its result; empty if there is no error in it.
    pub fn of_this_file(&self) -> String {
        let blocks = self.changed.iter().filter_map(|(path, found)| block(path, found));
        blocks
            .map(|block| format!("\n\nLSP errors detected in this file, please fix:\n{block}"))
            .collect()
    }

    /// Returns what the model reads of errors in files that were not changed.
    pub fn of_other_files(&self) -> String {
        let blocks = self.others.iter().filter_map(|(path, found)| block(path, found));
        blocks
            .take(MAX_OTHERS)
            .map(|block| format!("\n\nLSP errors detected in other files:\n{block}"))
            .collect()
    }

    /// Returns what the model reads after a change of several files, which `relative` names.
    pub fn of_each_file<'a>(&self, relative: impl Fn(&Path) -> &'a str) -> String {
        let blocks = self.changed.iter().filter_map(|(path, found)| {
            let name = relative(path);
            Some(format!(
                "\n\nLSP errors detected in {name}, please fix:\n{}",
                block(path, found)?
            ))
        });
        blocks.collect()
    }

    /// Returns the findings by path, as servers sent them. A changed file is there without findings too.
    pub fn to_json(&self) -> Value {
        let others = self.others.iter().filter(|(_, found)| !found.is_empty());
        let mut room = MAX_BYTES;
        let mut files = Map::new();
        for (path, found) in self.changed.iter().chain(others).take(MAX_FILES) {
            let worst_first = by_severity(found);
            let kept = worst_first.take(MAX_FINDINGS).map_while(|finding| {
                let json = shortened(finding.json());
                room = room.checked_sub(json.to_string().len())?;
                Some(json)
            });
            let kept: Vec<Value> = kept.collect();
            files.insert(path.to_string_lossy().into_owned(), json!(kept));
        }
        Value::Object(files)
    }
}

fn by_severity(found: &[Diagnostic]) -> impl Iterator<Item = &Diagnostic> {
    [
        Severity::Error,
        Severity::Warning,
        Severity::Information,
        Severity::Hint,
    ]
    .into_iter()
    .flat_map(|severity| found.iter().filter(move |finding| finding.severity() == severity))
}

/// Returns the errors of a file in the form that models are told of them; none if there is none.
fn block(path: &Path, found: &[Diagnostic]) -> Option<String> {
    let errors = || found.iter().filter(|finding| finding.severity() == Severity::Error);
    let count = errors().count();
    if count == 0 {
        return None;
    }
    let mut block = format!("<diagnostics file=\"{}\">\n", path.display());
    for error in errors().take(MAX_ERRORS) {
        let line = error.to_string();
        // Writing to a String cannot fail.
        let _ = writeln!(block, "{}", cut(&line));
    }
    if count > MAX_ERRORS {
        let _ = writeln!(block, "... and {} more", count - MAX_ERRORS);
    }
    block.push_str("</diagnostics>");
    Some(block)
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_MESSAGE);
    let more = if end < text.len() { "…" } else { "" };
    format!("{}{more}", &text[..end])
}

/// Returns what of a finding a user interface shows. What servers add for themselves may be large.
fn shortened(finding: &Value) -> Value {
    let mut shortened = Map::new();
    for key in ["range", "severity", "code", "source", "message"] {
        match finding.get(key) {
            Some(Value::String(text)) => shortened.insert(key.to_owned(), json!(cut(text))),
            Some(value) => shortened.insert(key.to_owned(), value.clone()),
            None => None,
        };
    }
    Value::Object(shortened)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(line: u64, severity: u64, message: &str) -> Diagnostic {
        Diagnostic::new(json!({
            "range": {"start": {"line": line, "character": 2}, "end": {"line": line, "character": 3}},
            "severity": severity, "message": message, "data": {"of": "the server"},
        }))
    }

    fn diagnostics(changed: &[(&str, Vec<Diagnostic>)], others: &[(&str, Vec<Diagnostic>)]) -> Diagnostics {
        let files = |files: &[(&str, Vec<Diagnostic>)]| {
            let file = |(path, found): &(&str, Vec<Diagnostic>)| (PathBuf::from(path), found.clone().into());
            files.iter().map(file).collect()
        };
        Diagnostics {
            changed: files(changed),
            others: files(others),
        }
    }

    #[test]
    fn only_errors_reach_the_model() {
        let told = diagnostics(
            &[(
                "/w/a",
                vec![finding(0, 2, "meh"), finding(4, 1, "bad"), finding(1, 4, "hint")],
            )],
            &[
                ("/w/b", vec![finding(0, 1, "theirs")]),
                ("/w/c", vec![finding(0, 2, "meh")]),
            ],
        );
        let a = "<diagnostics file=\"/w/a\">\nERROR [5:3] bad\n</diagnostics>";
        let b = "<diagnostics file=\"/w/b\">\nERROR [1:3] theirs\n</diagnostics>";
        assert_eq!(
            told.of_this_file(),
            format!("\n\nLSP errors detected in this file, please fix:\n{a}")
        );
        assert_eq!(
            told.of_each_file(|_| "a"),
            format!("\n\nLSP errors detected in a, please fix:\n{a}")
        );
        assert_eq!(
            told.of_other_files(),
            format!("\n\nLSP errors detected in other files:\n{b}")
        );
        let json = told.to_json();
        let messages = |path: &str| -> Vec<&str> {
            let found = json[path].as_array().unwrap();
            found.iter().map(|it| it["message"].as_str().unwrap()).collect()
        };
        assert_eq!(messages("/w/a"), ["bad", "meh", "hint"]);
        assert_eq!(messages("/w/c"), ["meh"]);
        assert!(json["/w/a"][0].get("data").is_none());
    }

    #[test]
    fn a_file_without_findings_is_told_if_it_was_changed() {
        let told = diagnostics(&[("/w/a", Vec::new())], &[("/w/b", Vec::new())]);
        assert_eq!(told.of_this_file() + &told.of_other_files(), "");
        assert_eq!(told.to_json(), json!({"/w/a": []}));
        assert_eq!(Diagnostics::default().to_json(), json!({}));
    }

    #[test]
    fn what_is_told_is_bounded() {
        let many = |count| {
            (0..count)
                .map(|line| finding(line, 1, &"é".repeat(5000)))
                .collect::<Vec<_>>()
        };
        let others: Vec<(String, Vec<Diagnostic>)> = (0..200).map(|n| (format!("/w/{n}"), many(2))).collect();
        let others: Vec<(&str, Vec<Diagnostic>)> = others
            .iter()
            .map(|(path, found)| (path.as_str(), found.clone()))
            .collect();
        let told = diagnostics(&[("/w/a", many(10_000))], &others);
        let text = told.of_this_file();
        assert!(text.ends_with("\n... and 9980 more\n</diagnostics>"), "{text}");
        assert_eq!(text.matches("ERROR").count(), 20);
        assert!(text.len() < 25 * MAX_MESSAGE, "{}", text.len());
        assert_eq!(told.of_other_files().matches("other files").count(), 5);
        let json = told.to_json();
        assert!(json.as_object().unwrap().len() <= MAX_FILES);
        assert!(json.to_string().len() < MAX_BYTES + (8 << 10));
    }

    #[test]
    fn twenty_errors_are_told_in_full() {
        let found: Vec<Diagnostic> = (0..20).map(|line| finding(line, 1, "m")).collect();
        let text = diagnostics(&[("/w/a", found)], &[]).of_this_file();
        assert!(text.contains("ERROR [20:3] m\n</diagnostics>"), "{text}");
    }
}
