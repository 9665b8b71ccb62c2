//! Agents written as Markdown files: front matter in YAML, the prompt as the body (`docs/spec/extensions.md` §4.6).
//!
//! *Invariant:* a walk visits a bounded number of entries and each folder once, so links that form a loop end.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toolgate_model::JsonMap;
use toolgate_model::frontmatter::{self, FrontMatterError};

use super::error::{ConfigError, Position, Problem};
use super::seen::Seen;

const MAX_ENTRIES: usize = 1000;

/// How far below a folder files are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// In the folder itself.
    One,
    /// In the folders below, too.
    Any,
}

/// Returns the Markdown files below a folder in the order of their paths, links followed.
///
/// # Errors
/// There are more entries than a folder of agents could sensibly have.
pub(super) fn files(folder: &Path, depth: Depth, seen: &mut Seen) -> Result<Vec<PathBuf>, ConfigError> {
    let mut found = Vec::new();
    let mut entries_seen = 0;
    let mut folders_seen = HashSet::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        seen.add(&folder);
        // A folder that is missing or closed has no agents for us.
        let Ok(real) = folder.canonicalize() else { continue };
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        if !folders_seen.insert(real) {
            continue;
        }
        for entry in entries.flatten() {
            entries_seen += 1;
            if entries_seen > MAX_ENTRIES {
                let message = format!("more than {MAX_ENTRIES} entries, too many for a folder of agents");
                return Err(ConfigError::invalid(folder.display(), Problem::new(None, "", message)));
            }
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                // What it leads to may come later, and change nothing here.
                seen.add(&path);
            }
            if path.is_dir() {
                if depth == Depth::Any {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the name and the block of the agent that a file describes: the name is the path below `folder`, or the
/// `name` of the front matter.
pub(super) fn agent(folder: &Path, path: &Path, text: &str) -> Result<(String, JsonMap), ConfigError> {
    let (front, body) = frontmatter::split(text);
    let mut block = frontmatter::parse(front).map_err(|error| ConfigError::invalid(path.display(), problem(error)))?;
    let named = block.get("name").and_then(Value::as_str).map(str::to_owned);
    let name = named.unwrap_or_else(|| {
        let below = path.strip_prefix(folder).unwrap_or(path);
        below.with_extension("").to_string_lossy().into_owned()
    });
    block.insert("prompt".to_owned(), Value::from(body.trim()));
    Ok((name, block))
}

/// Says whether a file's front matter is begun and not ended, so that all of it counts as text.
pub(super) fn is_open(text: &str) -> bool {
    let (front, body) = frontmatter::split(text);
    let begins = text.lines().next().is_some_and(|line| line.trim_end() == "---");
    begins && front.is_empty() && body.len() == text.len()
}

/// Returns the place of a top-level key of the front matter.
pub(super) fn locate(text: &str, key: &str) -> Option<Position> {
    let line = text.lines().position(|line| {
        line.strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with(':'))
    })?;
    Some(Position {
        line: line + 1,
        column: 1,
    })
}

fn problem(error: FrontMatterError) -> Problem {
    let position = error.place.map(|(line, column)| Position { line, column });
    Problem::new(position, "", error.message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(text: &str, name: &str, expected: Value) {
        let read = agent(Path::new("/c/agent"), Path::new("/c/agent/team/deep.md"), text).expect("it is valid");
        assert_eq!(read.0, name);
        assert_eq!(Value::Object(read.1).to_string(), expected.to_string());
    }

    #[test]
    fn front_matter_and_body() {
        check(
            "---\ndescription: Rev\npermission:\n  bash:\n    \"git *\": allow\n    \"*\": deny\n  edit: ask\nn: 5\n---\n\nYou review.\n---\nmore\n",
            "team/deep",
            json!({"description": "Rev", "permission": {"bash": {"git *": "allow", "*": "deny"}, "edit": "ask"}, "n": 5,
                "prompt": "You review.\n---\nmore"}),
        );
        check(
            "---\r\nname: other\r\n---\r\nx",
            "other",
            json!({"name": "other", "prompt": "x"}),
        );
        check("no front matter", "team/deep", json!({"prompt": "no front matter"}));
        check("---\n---\nx", "team/deep", json!({"prompt": "x"}));
        check("---\nopen: 1\n", "team/deep", json!({"prompt": "---\nopen: 1"}));
    }

    #[test]
    fn front_matter_that_does_not_end_is_told_from_none() {
        for (text, expected) in [
            ("---\npermission:\n  bash: deny\n", true),
            ("---", true),
            ("---\n---\n", false),
            ("---\na: 1\n---", false),
            ("text\n---\n", false),
            ("", false),
        ] {
            assert_eq!(is_open(text), expected, "{text:?}");
        }
    }

    #[test]
    fn colons_in_plain_text_are_meant_as_text() {
        check(
            "---\ndescription: Use it when: always\nmode: all\n---\n",
            "team/deep",
            json!({"description": "Use it when: always", "mode": "all", "prompt": ""}),
        );
    }

    #[test]
    fn what_is_no_yaml_is_named() {
        for text in ["---\na: [1\n---\n", "---\n- a\n---\n", "---\njust text\n---\n"] {
            let error = agent(Path::new("/c"), Path::new("/c/x.md"), text).expect_err("it is invalid");
            assert!(error.to_string().contains("/c/x.md"), "{error}");
        }
    }

    #[test]
    fn hostile_anchors_are_refused() {
        let mut text = String::from("---\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let below = format!("*a{}, ", level - 1).repeat(10);
            text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        text.push_str("---\n");
        assert!(agent(Path::new("/c"), Path::new("/c/x.md"), &text).is_err());
    }

    #[test]
    fn files_are_found_in_order() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        for name in ["b.md", "a.txt", "team/a.md", ".hidden.md"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("the folder is ours");
            std::fs::write(path, "").expect("the folder is ours");
        }
        std::os::unix::fs::symlink(folder.path(), folder.path().join("team/loop")).expect("the folder is ours");
        let found = files(folder.path(), Depth::Any, &mut Seen::default()).expect("there are few files");
        let expected = [".hidden.md", "b.md", "team/a.md"].map(|name| folder.path().join(name));
        assert_eq!(found, expected);
        let beside = files(folder.path(), Depth::One, &mut Seen::default()).expect("there are few files");
        assert_eq!(beside, expected[..2]);
        assert!(
            files(&folder.path().join("none"), Depth::Any, &mut Seen::default()).is_ok_and(|found| found.is_empty())
        );
    }

    proptest! {
        #[test]
        fn never_panics(text in "(---\n)?[a-c:\\-\\[\\]{}&*!|>'\" \n]{0,40}(\n---\n)?x?") {
            let _ = agent(Path::new("/c"), Path::new("/c/x.md"), &text);
        }
    }
}
