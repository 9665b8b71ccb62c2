//! Agents written as Markdown files: front matter in YAML, the prompt as the body (`spec/extensions.md` §4.6).
//!
//! *Invariant:* a walk visits a bounded number of entries and each folder once, so links that form a loop end.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::{ConfigError, Position, Problem};
use crate::call::JsonMap;

const MAX_ENTRIES: usize = 1000;

/// Returns the Markdown files below a folder in the order of their paths, links followed.
///
/// # Errors
/// There are more entries than a folder of agents could sensibly have.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let mut found = Vec::new();
    let mut entries_seen = 0;
    let mut folders_seen = HashSet::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
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
            if path.is_dir() {
                folders.push(path);
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
    let (front, body) = split(text);
    let mut block = yaml(front).map_err(|problem| ConfigError::invalid(path.display(), problem))?;
    let name = match block.get("name") {
        Some(Value::String(name)) => name.clone(),
        Some(_) | None => {
            let below = path.strip_prefix(folder).unwrap_or(path);
            below.with_extension("").to_string_lossy().into_owned()
        }
    };
    block.insert("prompt".to_owned(), Value::from(body.trim()));
    Ok((name, block))
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

/// Splits a text into the front matter between two lines of `---`, and the rest.
fn split(text: &str) -> (&str, &str) {
    let Some(start) = text
        .split_inclusive('\n')
        .next()
        .filter(|line| line.trim_end() == "---")
    else {
        return ("", text);
    };
    let mut end = start.len();
    for line in text[start.len()..].split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (&text[start.len()..end], &text[end + line.len()..]);
        }
        end += line.len();
    }
    ("", text)
}

fn yaml(front: &str) -> Result<JsonMap, Problem> {
    match parse(front) {
        Ok(map) => Ok(map),
        // What people write as `description: Use it when: always` is no YAML, and is meant as text.
        Err(problem) => parse(&quote_colons(front)).map_err(|_| problem),
    }
}

fn parse(front: &str) -> Result<JsonMap, Problem> {
    if front.trim().is_empty() {
        return Ok(JsonMap::new());
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 10_000, max_events: 40_000, max_aliases: 100 },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Value>(front, options) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(JsonMap::new()),
        Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(Problem::new(None, "", "expected keys and values in the front matter"))
        }
        Err(error) => {
            // The front matter begins on the second line of the file.
            let position = error.location().map(|place| Position {
                line: usize::try_from(place.line()).unwrap_or(usize::MAX).saturating_add(1),
                column: usize::try_from(place.column()).unwrap_or(usize::MAX),
            });
            Err(Problem::new(
                position,
                "",
                format!("the front matter is not YAML: {error}"),
            ))
        }
    }
}

/// Quotes the plain values of top-level keys that have a colon in them.
fn quote_colons(front: &str) -> String {
    let quoted = front.lines().map(|line| match line.split_once(": ") {
        Some((key, value)) if is_plain_key(key) && value.contains(':') && is_plain_value(value.trim()) => {
            format!("{key}: {}\n", Value::from(value.trim()))
        }
        Some(_) | None => format!("{line}\n"),
    });
    quoted.collect()
}

fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

fn is_plain_value(value: &str) -> bool {
    !value.starts_with(['"', '\'', '{', '[', '|', '>', '&', '*', '!'])
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
        let found = files(folder.path()).expect("there are few files");
        let expected = [".hidden.md", "b.md", "team/a.md"].map(|name| folder.path().join(name));
        assert_eq!(found, expected);
        assert!(files(&folder.path().join("none")).is_ok_and(|found| found.is_empty()));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(---\n)?[a-c:\\-\\[\\]{}&*!|>'\" \n]{0,40}(\n---\n)?x?") {
            let _ = agent(Path::new("/c"), Path::new("/c/x.md"), &text);
        }
    }
}
