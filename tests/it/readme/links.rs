//! The links of the pages for people: every file that they lead to is there, and so is every heading.
//!
//! *Invariant:* reads files only. Addresses of the web are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use super::{README, SPECIFICATION, pages_below, read, repository};

/// The list of all pages.
const INDEX: &str = "docs/README.md";

/// Folders with pages of this repository. What package managers bring is left out.
const FOLDERS: [&str; 3] = ["docs", "clients", "helm"];
const FOREIGN: [&str; 5] = ["/node_modules/", "/target/", "/.venv/", "/build/", "/dist/"];

/// Every page: at the top, and below the folders.
fn pages() -> Vec<String> {
    let top = std::fs::read_dir(repository()).unwrap();
    let top = top.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let below = FOLDERS.iter().flat_map(|folder| pages_below(folder));
    let is_ours = |page: &String| page.ends_with(".md") && !FOREIGN.iter().any(|folder| page.contains(folder));
    top.chain(below).filter(is_ours).collect()
}

/// The lines of a page outside its fenced blocks, with their numbers, and without code in the line.
fn prose(text: &str) -> Vec<(usize, String)> {
    let code = Regex::new("`[^`]*`").unwrap();
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((number, code.replace_all(line, "``").into_owned()));
        }
    }
    lines
}

/// What a page's headings are called in links, as GitHub calls them.
fn anchors(text: &str) -> BTreeSet<String> {
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    let mut fenced = false;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let title = line.trim_start_matches('#');
        if fenced || title == line || !title.starts_with(' ') {
            continue;
        }
        let title = link.replace_all(title.trim(), "$1");
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        let name: String = title.to_lowercase().chars().filter(kept).collect();
        let name = name.replace(' ', "-");
        let again = seen.entry(name.clone()).or_default();
        anchors.insert(match *again {
            0 => name,
            times => format!("{name}-{times}"),
        });
        *again += 1;
    }
    anchors
}

/// Takes `.` and `..` out of a path; none if it leads out of the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !normal.pop() => return None,
            Component::Normal(name) => normal.push(name),
            _ => {}
        }
    }
    Some(normal)
}

/// The links of a page that lead to files: the line, the file from the repository's top, and the heading.
fn links(page: &str) -> Vec<(usize, String, String)> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut found = Vec::new();
    for (line, text) in prose(&read(page)) {
        for target in link.captures_iter(&text).map(|link| link[1].to_owned()) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let folder = Path::new(page).parent().unwrap();
            let file = match file {
                "" => Some(PathBuf::from(page)),
                file => normal(&folder.join(file)),
            };
            let file = file.map_or_else(|| target.clone(), |file| file.to_str().unwrap().to_owned());
            found.push((line, file, heading.to_owned()));
        }
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let mut findings = Vec::new();
    for page in pages() {
        for (line, file, heading) in links(&page) {
            if !repository().join(&file).exists() {
                findings.push(format!("{page}:{line}: there is no {file}"));
            } else if !heading.is_empty() && !anchors(&read(&file)).contains(&heading) {
                findings.push(format!("{page}:{line}: {file} has no heading #{heading}"));
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn every_page_is_in_the_list() {
    let listed: BTreeSet<String> = links(INDEX).into_iter().map(|(_, file, _)| file).collect();
    let pages = pages_below("docs");
    let pages = pages
        .iter()
        .filter(|page| *page != INDEX && !page.starts_with(SPECIFICATION));
    let missing: Vec<_> = pages.filter(|page| !listed.contains(*page)).collect();
    assert!(missing.is_empty(), "{INDEX} does not name {missing:?}");
    assert!(links(README).iter().any(|(_, file, _)| file == "docs/start.md"));
}

#[test]
fn headings_are_named_as_on_github() {
    let page = "# A `b.c`: d/e\n```\n# no heading\n```\n## Two words\n## Two words\n#hash\n### A [link](x.md) here\n";
    let expected = ["a-bc-de", "a-link-here", "two-words", "two-words-1"];
    assert_eq!(anchors(page), expected.map(str::to_owned).into());
    assert_eq!(normal(Path::new("docs/a/../b.md")), Some(PathBuf::from("docs/b.md")));
    assert_eq!(normal(Path::new("docs/../../b.md")), None);
}
