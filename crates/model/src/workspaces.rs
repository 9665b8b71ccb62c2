//! Names of workspaces, and sets of them: all, or those of some names and below some prefixes.
//!
//! *Invariant:* an empty set is never all of them. A name and a prefix never mean the same text: a prefix ends with `/`, and no
//! name does. What is not understood is refused.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of the longest name of a workspace.
const MAX_NAME_BYTES: usize = 128;

/// A set has at most this many prefixes: each is a condition of its own where records are listed.
const MAX_PREFIXES: usize = 100;

/// What is between the parts of a name, and ends a prefix.
const SEPARATOR: char = '/';

/// The character after [`SEPARATOR`].
const AFTER_SEPARATOR: char = '0';

/// What follows a prefix where one is written.
const BELOW: &str = "/*";

/// Says what is wrong with the name of a workspace: it stands in paths, addresses and lists of names.
pub fn workspace_name_problem(name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // `-` stands for all of them, and the two others for folders.
    let is_word = |part: &str| !matches!(part, "" | "-" | "." | "..") && part.chars().all(plain);
    let fits = name.len() <= MAX_NAME_BYTES && name.split(SEPARATOR).all(is_word);
    (!fits).then(|| {
        let shown: String = name.chars().take(MAX_NAME_BYTES).collect();
        format!(
            "expected a name of 1 to {MAX_NAME_BYTES} letters, digits, '-', '_' or '.', or several with a '/' between two, and \
             none of them '-', '.' or '..', found {shown:?}"
        )
    })
}

/// Workspaces, whether they are there or not: all, or those of some names and those below some prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceSet(Option<Arc<Selection>>);

/// Each is needed: no name is below a prefix, and no prefix below another one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Selection {
    names: BTreeSet<String>,
    /// With the separator at their ends.
    prefixes: BTreeSet<String>,
}

impl Selection {
    /// Returns the entries, without those that another one includes.
    fn of(names: BTreeSet<String>, prefixes: BTreeSet<String>) -> Self {
        let all = Self { names, prefixes };
        let names = all.names.iter().filter(|name| !all.is_below(name)).cloned().collect();
        let is_outer = |prefix: &&String| !all.is_below(without_separator(prefix));
        let prefixes = all.prefixes.iter().filter(is_outer).cloned().collect();
        Self { names, prefixes }
    }

    fn contains(&self, name: &str) -> bool {
        self.names.contains(name) || self.is_below(name)
    }

    /// Says whether a name, or a prefix without its end, is below one of the prefixes.
    fn is_below(&self, name: &str) -> bool {
        let ends = name.match_indices(SEPARATOR).map(|(at, _)| at + SEPARATOR.len_utf8());
        ends.into_iter()
            .any(|end| name.get(..end).is_some_and(|prefix| self.prefixes.contains(prefix)))
    }

    /// Says whether all that is below a prefix is among these.
    fn covers(&self, prefix: &str) -> bool {
        self.prefixes.contains(prefix) || self.is_below(without_separator(prefix))
    }
}

fn without_separator(prefix: &str) -> &str {
    prefix.strip_suffix(SEPARATOR).unwrap_or(prefix)
}

impl WorkspaceSet {
    /// All workspaces.
    pub const ALL: Self = Self(None);

    /// Returns the set of one workspace.
    pub fn one(name: &str) -> Self {
        Self::of_names([name.to_owned()])
    }

    /// Returns the set of some workspaces; none of no names.
    pub fn of_names(names: impl IntoIterator<Item = String>) -> Self {
        let names = names.into_iter().collect();
        Self(Some(Arc::new(Selection::of(names, BTreeSet::new()))))
    }

    /// Reads entries: `*` for all, `PREFIX/*` for all whose names begin with `PREFIX/`, at any depth, or a name.
    ///
    /// # Errors
    /// There is no entry, one is none of these, or too many are prefixes.
    pub fn parse<'e>(entries: impl IntoIterator<Item = &'e str>) -> Result<Self, String> {
        let (mut names, mut prefixes) = (BTreeSet::new(), BTreeSet::new());
        let mut has_all = false;
        for entry in entries {
            let name = entry.strip_suffix(BELOW).unwrap_or(entry);
            if entry == "*" {
                has_all = true;
            } else if name.contains('*') {
                let shown: String = entry.chars().take(MAX_NAME_BYTES).collect();
                return Err(format!(
                    "expected a workspace's name, `PREFIX/*` for all below a prefix, or `*` for all, found {shown:?}"
                ));
            } else if let Some(problem) = workspace_name_problem(name) {
                return Err(format!("{problem}; `PREFIX/*` and `*` stand for several workspaces"));
            } else if name.len() == entry.len() {
                names.insert(name.to_owned());
            } else {
                prefixes.insert(format!("{name}{SEPARATOR}"));
            }
        }
        if has_all {
            return Ok(Self::ALL);
        }
        if names.is_empty() && prefixes.is_empty() {
            return Err("expected at least one workspace".to_owned());
        }
        let selection = Selection::of(names, prefixes);
        if selection.prefixes.len() > MAX_PREFIXES {
            let found = selection.prefixes.len();
            return Err(format!(
                "expected at most {MAX_PREFIXES} of the form `PREFIX/*`, found {found}"
            ));
        }
        Ok(Self(Some(Arc::new(selection))))
    }

    /// Says whether an entry is none for workspaces at all, but a text that is meant for somebody else.
    pub fn is_foreign(entry: &str) -> bool {
        !entry.contains('*') && workspace_name_problem(entry).is_some()
    }

    /// Says whether all workspaces are in it.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Says whether a workspace is in it.
    pub fn contains(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|selection| selection.contains(name))
    }

    /// Returns what is in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let (Some(one), Some(another)) = (&self.0, &other.0) else {
            return if self.is_all() { other.clone() } else { self.clone() };
        };
        // Of two prefixes one is below the other, or they have nothing in common.
        let both = |one: &Selection, another: &Selection| {
            let names = one.names.iter().filter(|name| another.contains(name));
            let prefixes = one.prefixes.iter().filter(|prefix| another.covers(prefix));
            (
                names.cloned().collect::<Vec<_>>(),
                prefixes.cloned().collect::<Vec<_>>(),
            )
        };
        let ((names, prefixes), (more_names, more_prefixes)) = (both(one, another), both(another, one));
        Self(Some(Arc::new(Selection::of(
            names.into_iter().chain(more_names).collect(),
            prefixes.into_iter().chain(more_prefixes).collect(),
        ))))
    }

    /// Returns the name of the only workspace that can be in it, if it names one.
    pub fn single(&self) -> Option<&str> {
        let selection = self.0.as_ref().filter(|selection| selection.prefixes.is_empty())?;
        let mut names = selection.names.iter();
        names.next().filter(|_| names.next().is_none()).map(String::as_str)
    }

    /// Returns the names in it beside its prefixes; no name if all workspaces are in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|selection| &selection.names).map(String::as_str)
    }

    /// Says whether no workspace can be in it.
    pub fn is_empty(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|selection| selection.names.is_empty() && selection.prefixes.is_empty())
    }

    /// Returns the entries that [`Self::parse`] reads as this set; none for all workspaces.
    pub fn entries(&self) -> Option<Vec<String>> {
        let selection = self.0.as_ref()?;
        let prefixes = selection.prefixes.iter().map(|prefix| format!("{prefix}*"));
        Some(selection.names.iter().cloned().chain(prefixes).collect())
    }

    /// Returns texts between which all names are that are in it beside [`Self::names`], in the order of their bytes: from the
    /// first one, up to and without the second one.
    pub fn ranges(&self) -> impl Iterator<Item = (&str, String)> {
        let prefixes = self.0.iter().flat_map(|selection| &selection.prefixes);
        prefixes.map(|prefix| {
            (
                prefix.as_str(),
                format!("{}{AFTER_SEPARATOR}", without_separator(prefix)),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(entries: &[&str]) -> WorkspaceSet {
        WorkspaceSet::parse(entries.iter().copied()).unwrap()
    }

    #[test]
    fn names_are_words_with_slashes_between() {
        for good in [
            "a",
            "main",
            "a.b-c_D",
            "acme/web-17",
            "a/b/c/d",
            "...",
            "a/...",
            "-a/--",
            &"x".repeat(128),
        ] {
            assert_eq!(workspace_name_problem(good), None, "{good}");
        }
        for bad in [
            "",
            "-",
            ".",
            "..",
            "/",
            "/a",
            "a/",
            "a//b",
            "a/.",
            "a/../b",
            "./a",
            "a/-",
            "a b",
            "a~b",
            "a\\b",
            "a*",
            "*",
            "a/*",
            "a\0",
            "é",
            "a%2fb",
            &"x".repeat(129),
        ] {
            let problem = workspace_name_problem(bad).expect(bad);
            assert!(problem.contains("expected a name of 1 to 128"), "{problem}");
        }
    }

    #[test]
    fn prefixes_mean_what_is_below_them() {
        let acme = set(&["acme/*", "main"]);
        for (name, is_in) in [
            ("acme/web", true),
            ("acme/web/17", true),
            ("main", true),
            ("acme", false),
            ("acme0", false),
            ("acme-b/web", false),
            ("acmeweb", false),
            ("ACME/web", false),
            ("main/x", false),
            ("x/acme/web", false),
            ("", false),
        ] {
            assert_eq!(acme.contains(name), is_in, "{name}");
        }
        let deep = set(&["a/b/*"]);
        assert!(deep.contains("a/b/c") && deep.contains("a/b/c/d") && !deep.contains("a/b") && !deep.contains("a/c"));
        assert!(set(&["x", "*"]).is_all() && set(&["*"]).contains("any/thing"));
        assert_eq!(
            set(&["a/b", "a/*", "a/b/*", "a/*"]),
            set(&["a/*"]),
            "what is in another one is left out"
        );
        assert_eq!(WorkspaceSet::default(), WorkspaceSet::ALL);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "a*", "*a", "**", "*/", "*/*", "a/*/b", "a/*b", "a/**", "/*", "a//*", "./*", "a/../*", "-/*", "a/*/*",
            "acme/we*", "", " ", "a b", "-", "a/",
        ] {
            let problem = WorkspaceSet::parse(["fine", bad]).expect_err(bad);
            assert!(
                problem.contains("PREFIX/*") && problem.contains("expected"),
                "{bad}: {problem}"
            );
        }
        assert!(WorkspaceSet::parse([]).unwrap_err().contains("at least one"));
        let many: Vec<String> = (0..=MAX_PREFIXES).map(|n| format!("t{n}/*")).collect();
        let many = many.iter().map(String::as_str);
        assert!(WorkspaceSet::parse(many.clone()).unwrap_err().contains("at most 100"));
        assert!(WorkspaceSet::parse(many.take(MAX_PREFIXES)).is_ok());
    }

    #[test]
    fn no_workspace_is_not_all() {
        let none = set(&["a"]).and(&set(&["b/*"]));
        assert!(!none.is_all() && !none.contains("a") && !none.contains("b/x"));
        assert_eq!(
            (none.names().count(), none.ranges().count(), none.single()),
            (0, 0, None)
        );
        assert_eq!(WorkspaceSet::of_names([]), none);
        assert!(none.is_empty() && !WorkspaceSet::ALL.is_empty() && !set(&["a"]).is_empty());
    }

    #[test]
    fn one_workspace_is_told_from_several() {
        assert_eq!(WorkspaceSet::one("a/b").single(), Some("a/b"));
        assert_eq!(set(&["a/*"]).and(&WorkspaceSet::one("a/b")).single(), Some("a/b"));
        for several in [WorkspaceSet::ALL, set(&["a", "b"]), set(&["a/*"]), set(&["a", "a/*"])] {
            assert_eq!(several.single(), None);
        }
    }

    fn entries() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[ab](/[ab]){0,2}(/\\*)?", 1..5)
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = WorkspaceSet::parse([text.as_str()]);
        }

        /// Both ways to ask give the same answer, and that of both sets is that of each.
        #[test]
        fn what_is_in_both_is_in_each(one in entries(), other in entries(), name in "[ab](/[ab0]){0,3}") {
            let read = |entries: &[String]| WorkspaceSet::parse(entries.iter().map(String::as_str)).unwrap();
            let (one, other) = (read(&one), read(&other));
            let both = one.and(&other);
            prop_assert_eq!(both.contains(&name), one.contains(&name) && other.contains(&name));
            prop_assert_eq!(&both, &other.and(&one));
            prop_assert_eq!(&one.and(&WorkspaceSet::ALL), &one);
            prop_assert_eq!(&one.entries().map(|entries| read(&entries)), &Some(one.clone()));
            let mut ranges = one.ranges();
            let is_between = ranges.any(|(from, until)| from <= name.as_str() && name < until);
            prop_assert_eq!(one.contains(&name), one.names().any(|one| one == name) || is_between);
        }
    }
}
