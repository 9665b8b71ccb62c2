//! Glob patterns with the semantics of one line of a gitignore file, as `rg --glob` takes them.
//!
//! *Invariant:* pure. A pattern is matched against a path relative to the search folder and touches no file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet};

/// The longest pattern, in bytes. It bounds the nesting that the glob parser descends into.
const MAX_PATTERN: usize = 4096;

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// Nothing to match with.
    #[error("pattern is required")]
    Empty,
    /// Longer than any sensible pattern.
    #[error("the pattern is {length} bytes long, at most {MAX_PATTERN} are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The syntax is wrong.
    #[error("invalid glob pattern '{pattern}': {reason}")]
    Syntax {
        /// The pattern as written.
        pattern: String,
        /// What the parser says.
        reason: String,
    },
}

/// One glob without negation: no slash matches a name at any depth, a slash anchors at the search folder.
#[derive(Clone, Debug)]
pub struct Glob {
    set: GlobSet,
    is_everything: bool,
    folders_only: bool,
}

impl Glob {
    /// Parses a pattern; a leading `!` stands for itself.
    ///
    /// # Errors
    /// The pattern is empty, too long or malformed.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        if pattern.is_empty() {
            return Err(PatternError::Empty);
        }
        if pattern.len() > MAX_PATTERN {
            return Err(PatternError::TooLong { length: pattern.len() });
        }
        let syntax = |error: globset::Error| PatternError::Syntax {
            pattern: pattern.to_owned(),
            reason: error.kind().to_string(),
        };
        let (body, folders_only) = match pattern.strip_suffix('/') {
            Some(body) => (body, true),
            None => (pattern, false),
        };
        let mut glob = match body.strip_prefix('/') {
            Some(rest) => rest.to_owned(),
            None if body.contains('/') || body == "**" => body.to_owned(),
            None => format!("**/{body}"),
        };
        if glob.ends_with("/**") {
            // Everything in a folder, but not the folder itself.
            glob.push_str("/*");
        }
        let parsed = GlobBuilder::new(&glob)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(syntax)?;
        let set = GlobSet::builder().add(parsed).build().map_err(syntax)?;
        let is_everything = glob == "**" || glob == "**/*";
        Ok(Self {
            set,
            is_everything,
            folders_only,
        })
    }

    /// Says whether a path relative to the search folder matches.
    pub fn matches(&self, relative: &Path, is_folder: bool) -> bool {
        (is_folder || !self.folders_only) && (self.is_everything || self.set.is_match(relative))
    }
}

/// What a glob selects among the files below a search folder, and where it is worth looking.
#[derive(Clone, Debug)]
pub struct Selection {
    glob: Glob,
    negated: bool,
    prefix: Vec<OsString>,
    deepest: Option<usize>,
    name: Option<OsString>,
}

impl Selection {
    /// Parses a pattern; a leading `!` selects what does not match.
    ///
    /// # Errors
    /// The pattern is empty, too long or malformed.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        let (body, negated) = match pattern.strip_prefix('!') {
            Some(body) => (body, true),
            None => (pattern, false),
        };
        let glob = Glob::parse(body)?;
        let (prefix, deepest) = if negated { (Vec::new(), None) } else { reach(body) };
        let name = if negated { None } else { literal_name(body) };
        Ok(Self {
            glob,
            negated,
            prefix,
            deepest,
            name,
        })
    }

    /// Says whether a file, by its path relative to the search folder, is selected.
    pub fn takes(&self, relative: &Path) -> bool {
        self.glob.matches(relative, false) != self.negated
    }

    /// Says whether anything below a folder can be selected.
    pub fn enters(&self, relative: &Path) -> bool {
        if self.negated {
            return !self.glob.matches(relative, true);
        }
        let mut depth = 0;
        for part in relative.components() {
            if self.prefix.get(depth).is_some_and(|wanted| wanted != part.as_os_str()) {
                return false;
            }
            depth += 1;
        }
        self.deepest.is_none_or(|deepest| depth < deepest)
    }

    /// Returns the name that every selected file has, if the last part of the pattern has no wildcard: such a file is
    /// named outright, so ignore rules for the file itself do not count.
    pub fn name(&self) -> Option<&OsStr> {
        self.name.as_deref()
    }
}

/// Returns the leading parts that are plain names, and the number of parts of any match if it is fixed.
fn reach(pattern: &str) -> (Vec<OsString>, Option<usize>) {
    let body = pattern.strip_suffix('/').unwrap_or(pattern);
    if !body.contains('/') {
        return (Vec::new(), None);
    }
    let parts: Vec<&str> = body.strip_prefix('/').unwrap_or(body).split('/').collect();
    let folders = &parts[..parts.len() - 1];
    let prefix = folders
        .iter()
        .take_while(|part| !part.contains(SPECIAL))
        .map(OsString::from)
        .collect();
    let is_fixed = !body.contains("**") && !body.contains(['[', '{', '\\']);
    (prefix, is_fixed.then_some(parts.len()))
}

const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// Returns the last part of the pattern with escapes taken out, if it is a plain name.
fn literal_name(pattern: &str) -> Option<OsString> {
    let (folders, last) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let mut name = String::with_capacity(last.len());
    let mut letters = last.chars();
    while let Some(letter) = letters.next() {
        match letter {
            // Whether this ends a class that spans the slash is not looked into.
            '\\' if folders.contains(['[', '{']) => return None,
            '\\' => name.push(letters.next()?),
            '*' | '?' | '[' | ']' | '{' | '}' => return None,
            other => name.push(other),
        }
    }
    let is_name = !name.is_empty() && name != "." && name != ".." && !name.as_bytes().contains(&0);
    is_name.then(|| OsStr::from_bytes(name.as_bytes()).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn selects_as_a_gitignore_line_does() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let selection = Selection::parse(pattern).unwrap();
            assert_eq!(selection.takes(Path::new(path)), expected, "{pattern} on {path}");
        };
        check("*.ts", "a.ts", true);
        check("*.ts", "src/deep/a.ts", true);
        check("*.ts", ".a.ts", true);
        check("*.ts", "a.TS", false);
        check("src/*.ts", "src/a.ts", true);
        check("src/*.ts", "src/deep/a.ts", false);
        check("src/*.ts", "lib/src/a.ts", false);
        check("/a.ts", "a.ts", true);
        check("/a.ts", "src/a.ts", false);
        check("./a.ts", "a.ts", false);
        check("**/*.ts", "a.ts", true);
        check("src/**", "src/deep/a.ts", true);
        check("src/**/a.ts", "src/a.ts", true);
        check("**", "x/y", true);
        check("*.{ts,md}", "x/y.md", true);
        check("a?c", "abc", true);
        check("a?c", "a/c", false);
        check("[!a]b", "cb", true);
        check("[!a]b", "ab", false);
        check("src/", "src", false);
        check("!*.ts", "a.ts", false);
        check("!*.ts", "a.md", true);
        check(r"\!x", "!x", true);
        check("#x", "#x", true);
        check(r"a\*", "a*", true);
        check(r"a\*", "ab", false);
    }

    #[test]
    fn knows_where_to_look() {
        let check = |pattern: &str, folder: &str, expected: bool| {
            let selection = Selection::parse(pattern).unwrap();
            assert_eq!(selection.enters(Path::new(folder)), expected, "{pattern} in {folder}");
        };
        check("src/*.ts", "src", true);
        check("src/*.ts", "lib", false);
        check("src/*.ts", "src/deep", false);
        check("src/**/*.ts", "src/deep", true);
        check("s*/x/*.ts", "src", true);
        check("*.ts", "any/where", true);
        check("{a/b,c}/d", "a/b", true);
        check("!src", "src", false);
        check("!src", "lib", true);
        check("!*.ts", "lib", true);
    }

    #[test]
    fn finds_the_name_without_wildcards() {
        let check = |pattern: &str, expected: Option<&str>| {
            let selection = Selection::parse(pattern).unwrap();
            assert_eq!(selection.name(), expected.map(OsStr::new), "{pattern}");
        };
        check("debug.log", Some("debug.log"));
        check("**/debug.log", Some("debug.log"));
        check("*/a/debug.log", Some("debug.log"));
        check(r"a\*b", Some("a*b"));
        check("*.log", None);
        check("debug.{log,txt}", None);
        check("{a,b/c}", None);
        check("{a,b}/debug.log", Some("debug.log"));
        check("[ab]/debug.log", Some("debug.log"));
        check(r"a\[1\].log", Some("a[1].log"));
        check(r"[a/\]", None);
        check("!debug.log", None);
        check("logs/", None);
        check("x/..", None);
    }

    #[test]
    fn refuses_what_cannot_be_meant() {
        let refuses = |pattern: &str| assert!(Selection::parse(pattern).is_err(), "{pattern:.20}");
        refuses("");
        refuses("!");
        refuses("{a");
        refuses("[a");
        refuses(&"a".repeat(MAX_PATTERN + 1));
        refuses(&"{".repeat(MAX_PATTERN));
        refuses(&format!("{}a{}", "{".repeat(2000), "}".repeat(2000)));
    }

    /// The documented rules, spelled out part by part without any care for speed.
    fn naive(pattern: &str, path: &str) -> bool {
        let (pattern, is_anchored) = match pattern.strip_prefix('/') {
            Some(rest) => (rest, true),
            None => (pattern, pattern.contains('/')),
        };
        let parts: Vec<&str> = path.split('/').collect();
        let mut wanted: Vec<&str> = pattern.split('/').collect();
        if !is_anchored {
            wanted.insert(0, "**");
        }
        naive_parts(&wanted, &parts)
    }

    fn naive_parts(wanted: &[&str], parts: &[&str]) -> bool {
        match (wanted, parts) {
            ([], []) => true,
            // At the end, two stars need something to stand for.
            (["**"], parts) => !parts.is_empty(),
            (["**", rest @ ..], parts) => (0..=parts.len()).any(|taken| naive_parts(rest, &parts[taken..])),
            ([first, rest @ ..], [part, others @ ..]) => {
                naive_name(first.as_bytes(), part.as_bytes()) && naive_parts(rest, others)
            }
            _ => false,
        }
    }

    fn naive_name(wanted: &[u8], name: &[u8]) -> bool {
        match (wanted, name) {
            ([], []) => true,
            ([b'*', rest @ ..], name) => (0..=name.len()).any(|taken| naive_name(rest, &name[taken..])),
            ([b'?', rest @ ..], [_, others @ ..]) => naive_name(rest, others),
            ([letter, rest @ ..], [other, others @ ..]) => letter == other && naive_name(rest, others),
            _ => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_the_naive_matcher(
            pattern in "/?([ab?*]{1,3}|\\*\\*)(/([ab?]{1,2}|\\*[ab]?|\\*\\*)){0,3}",
            path in "[ab]{1,3}(/[ab]{1,3}){0,3}",
        ) {
            // Two stars mean "any folders" only as a whole part; three have no documented meaning.
            prop_assume!(pattern.split('/').all(|part| part == "**" || !part.contains("**")));
            let selection = Selection::parse(&pattern).unwrap();
            let path_of = Path::new(&path);
            let expected = naive(&pattern, &path);
            prop_assert_eq!(selection.takes(path_of), expected, "{} on {}", pattern, path);
            if expected {
                let parents = path_of.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
                for folder in parents {
                    prop_assert!(selection.enters(folder), "{} must enter {}", pattern, folder.display());
                }
                if let Some(name) = selection.name() {
                    prop_assert_eq!(path_of.file_name(), Some(name));
                }
            }
        }

        #[test]
        fn never_panics(pattern in "[a*?\\[\\]{},!/\\\\.-]{0,12}") {
            if let Ok(selection) = Selection::parse(&pattern) {
                for path in ["a", "-", "]", "!", "a/a", "a/b", "a/]", "a/a/a", "-/a", "a/-"].map(Path::new) {
                    if selection.takes(path) && let Some(name) = selection.name() {
                        prop_assert_eq!(path.file_name(), Some(name), "{}", pattern);
                    }
                }
                selection.enters(Path::new("a"));
            }
        }
    }
}
