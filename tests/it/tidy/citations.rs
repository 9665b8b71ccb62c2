//! Every citation of the specification leads to a section that exists.
//!
//! A citation names the page by its path from the root and then sections, each followed by the decisions in it:
//! "permission.md §6" or "framework.md §10 and §16 F4", with the folder in front. The pages cite each other without the
//! folder, and themselves as "section 6".
//!
//! *Invariant:* reads the tree only. What looks like a citation but is written in another way is a finding, not ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::{files, read, report, root};

/// Where the pages are.
const FOLDER: &str = "docs/spec/";

/// Where citations are looked for, besides the files at the root.
const CITING: [&str; 7] = ["src", "crates", "tests", "proto", "docs", "clients", "helm"];

/// How far behind a page's name its sections may reach, in bytes.
const LONGEST_LIST: usize = 300;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

/// A page with a path to it, as citations outside the specification write it.
static PATH: LazyLock<Regex> = LazyLock::new(|| regex(r"([\w./-]*)\bspec/([\w-]+\.md)\b"));

/// A page as the pages name each other.
static NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"()([\w-]+\.md)\b"));

/// Where a line ends and its comment goes on in the next.
static LINE_BREAK: LazyLock<Regex> = LazyLock::new(|| regex(r"\s*\n[ \t]*(?://[/!]?|\*|#|>)?[ \t]*"));

static SECTION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:,? (?:and |or |to )?|, ?|–)§(§?) ?((?:[A-Z]|\d+)(?:\.\d+)*)\b"));

/// A further section after `§§`, where the sign is not repeated.
static FURTHER: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?:, (?:and )?| and | to |–|-)(\d+(?:\.\d+)*)\b"));

static LABEL: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?:, | and )?( ?)([A-Z]\d+)\b"));

/// What names a section, but not in the way that citations have.
static UNCLEAR: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^,? (?:part [A-Z]|sections? |chapters? |§|[A-Z]\d+\b|\d+(?:\.\d+)*\b)"));

/// What can be cited of a page.
#[derive(Default)]
struct Page {
    sections: BTreeSet<String>,
    /// The decisions, such as F4, with the section in which they stand.
    labels: BTreeMap<String, String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let heading = regex(r"^##+ (?:Part )?((?:[A-Z]|\d+)(?:\.\d+)*)(?:[. ]|$)");
        let label = regex(r"^([A-Z]\d+)\. ");
        let mut page = Self::default();
        let (mut section, mut in_fence) = (String::new(), false);
        for line in text.lines() {
            if line.starts_with("```") {
                in_fence = !in_fence;
            } else if in_fence {
            } else if let Some(found) = heading.captures(line) {
                found[1].clone_into(&mut section);
                page.sections.insert(section.clone());
            } else if let Some(found) = label.captures(line) {
                page.labels.insert(found[1].to_owned(), section.clone());
            }
        }
        page
    }

    /// Follows the sections and decisions that a text names right behind the page's name. Returns how many sections
    /// there are, or what is wrong with them.
    fn follow(&self, mut rest: &str) -> Result<usize, String> {
        rest = rest.strip_prefix('`').unwrap_or(rest);
        let (mut sections, mut is_list) = (0, false);
        let mut last = "";
        loop {
            if let Some(found) = SECTION.captures(rest) {
                is_list = !found[1].is_empty();
                last = found.get(2).unwrap().as_str();
                rest = &rest[found[0].len()..];
            } else if let Some(found) = FURTHER.captures(rest).filter(|_| is_list) {
                last = found.get(1).unwrap().as_str();
                rest = &rest[found[0].len()..];
            } else if let Some(found) = LABEL.captures(rest).filter(|_| sections > 0) {
                let label = &found[2];
                if self.labels.get(label).map(String::as_str) != Some(last) {
                    return Err(format!("§{last} has no {label}"));
                }
                rest = &rest[found[0].len()..];
                continue;
            } else if let Some(found) = UNCLEAR.find(rest) {
                return Err(format!("write sections as `§1.2`, not as \"{}\"", found.as_str()));
            } else {
                return Ok(sections);
            }
            sections += 1;
            if !self.sections.contains(last) {
                return Err(format!("there is no §{last}"));
            }
        }
    }
}

/// The pages of the specification by name.
struct Specification(BTreeMap<String, Page>);

impl Specification {
    fn load() -> Self {
        let pages = files(FOLDER).into_iter();
        Self(
            pages
                .map(|file| (file.strip_prefix(FOLDER).unwrap().to_owned(), Page::parse(&read(&file))))
                .collect(),
        )
    }

    /// Checks the citations in a file. Returns how many sections they name, and adds what is wrong to the findings.
    fn check(&self, file: &str, text: &str, findings: &mut Vec<String>) -> usize {
        let own = file.strip_prefix(FOLDER).and_then(|name| self.0.get(name));
        if own.is_none() && !text.contains("spec/") {
            return 0;
        }
        let mut sections = 0;
        let mut finding = |at: usize, what: String| {
            findings.push(format!("{file}:{}: {what}", text[..at].matches('\n').count() + 1));
        };
        for found in PATH
            .captures_iter(text)
            .chain(own.iter().flat_map(|_| NAME.captures_iter(text)))
        {
            let whole = found.get(0).unwrap();
            let (before, name) = (&found[1], &found[2]);
            let is_path = whole.as_str() != name;
            if !is_path && (text[..whole.start()].ends_with('/') || !self.0.contains_key(name)) {
                continue; // another file, or a path that was looked at as such
            }
            if text[..whole.start()].ends_with("](") {
                let target = Path::new(file).parent().unwrap().join(whole.as_str());
                if !root().join(target).is_file() {
                    finding(whole.start(), format!("{} is not there", whole.as_str()));
                }
                continue;
            }
            if is_path && before != "docs/" {
                finding(whole.start(), format!("write {FOLDER}{name}"));
                continue;
            }
            let Some(page) = self.0.get(name) else {
                finding(whole.start(), format!("{FOLDER}{name} is not there"));
                continue;
            };
            let mut end = (whole.end() + LONGEST_LIST).min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            match page.follow(&LINE_BREAK.replace_all(&text[whole.end()..end], " ")) {
                Ok(more) => sections += more,
                Err(problem) => finding(whole.start(), format!("{name}: {problem}")),
            }
        }
        if let Some(own) = own {
            for found in regex(r"\bsections?\s+(\d+(?:\.\d+)*)\b").captures_iter(text) {
                sections += 1;
                if !own.sections.contains(&found[1]) {
                    finding(
                        found.get(0).unwrap().start(),
                        format!("there is no section {}", &found[1]),
                    );
                }
            }
        }
        sections
    }
}

#[test]
fn every_citation_of_the_specification_resolves() {
    let specification = Specification::load();
    let at_root = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap());
    let at_root = at_root.filter(|entry| entry.file_type().unwrap().is_file());
    let mut citing: Vec<String> = at_root.map(|entry| entry.file_name().into_string().unwrap()).collect();
    // Maven builds in the folder of its project.
    let below = CITING.iter().flat_map(|folder| files(folder));
    citing.extend(below.filter(|file| !file.contains("/target/")));
    let (mut sections, mut findings) = (0, Vec::new());
    for file in citing {
        if let Ok(text) = fs::read_to_string(root().join(&file)) {
            sections += specification.check(&file, &text, &mut findings);
        }
    }
    report(&findings);
    assert!(
        sections > 0,
        "nothing cites the specification: are citations still found?"
    );
}

#[test]
fn citations_that_lead_nowhere_are_found() {
    let page = "# P\n\n## 1. One\n\n### 1.2 Two\n\n```\n## 7. Not\n```\n\n## 3. Three\n\nF4. Text\nF5. Text\n\n## Part A — A\n";
    let specification = Specification(BTreeMap::from([("page.md".to_owned(), Page::parse(page))]));
    let check = |file: &str, citation: &str, expected: Result<usize, &str>| {
        // In halves, since this file is looked at too.
        let text = citation.replace('@', &format!("{}/page.md", "spec"));
        let mut findings = Vec::new();
        let sections = specification.check(file, &text, &mut findings);
        match expected {
            Ok(expected) => assert_eq!((sections, findings), (expected, Vec::new()), "{text}"),
            Err(expected) => assert!(
                findings.len() == 1 && findings[0].contains(expected),
                "{text}: {findings:?}"
            ),
        }
    };
    check("a.rs", "/// See `docs/@`.", Ok(0));
    check("a.rs", "/// (`docs/@` §1.2, step 5).", Ok(1));
    check("a.rs", "/// `docs/@` §1, §1.2 and §3 F4 and F5.", Ok(3));
    check("a.rs", "/// `docs/@` §1,\n    /// §3\n    /// F4", Ok(2));
    check("a.rs", "/// `docs/@` §§1, 1.2 and 3; `docs/@` §A", Ok(4));
    check("a.md", "docs/@ §1–§3; [page](docs/@)", Err("a.md:1: "));
    check("a.rs", "/// one\n/// `@` §1", Err("a.rs:2: write docs/"));
    check("a.rs", "`docs/@x` §1, `docs/@` §7", Err("there is no §7"));
    check("a.rs", "`docs/@` §1 and §1.3", Err("there is no §1.3"));
    check("a.rs", "`docs/@` §§1, 4", Err("there is no §4"));
    check("a.rs", "`docs/@` §1 F4", Err("§1 has no F4"));
    check("a.rs", "`docs/@` §3, F6", Err("§3 has no F6"));
    check("a.rs", "`docs/@`, 1.2", Err("write sections as"));
    check("a.rs", "`docs/@`, part A", Err("write sections as"));
    check("a.rs", "`docs/@` F4", Err("write sections as"));
    let own = format!("{FOLDER}page.md");
    check(&own, "page.md §3 F5; section 1.2", Ok(2));
    check(&own, "page.md §2", Err("there is no §2"));
    check(&own, "in section\n2", Err("there is no section 2"));
}
