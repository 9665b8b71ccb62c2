//! The Markdown of single elements, from their content and attributes.
//!
//! *Invariant:* pure; what the content is, is not looked at again.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::space::{is_space, trim};
use super::tree::Element;

/// The shortest fence of a code block.
const FENCE: usize = 3;

/// Returns an image; nothing if there is none.
pub(super) fn image(element: &Element) -> String {
    let source = element.attribute("src");
    if source.is_empty() {
        return String::new();
    }
    let title = squeezed(element.attribute("title"));
    let title = if title.is_empty() {
        title
    } else {
        format!(" \"{title}\"")
    };
    format!("![{}]({source}{title})", squeezed(element.attribute("alt")))
}

/// Returns a link.
pub(super) fn link(content: &str, target: &str, title: &str) -> String {
    let target = target.replace('(', r"\(").replace(')', r"\)");
    let title = squeezed(title).replace('"', "\\\"");
    let title = if title.is_empty() {
        title
    } else {
        format!(" \"{title}\"")
    };
    format!("[{content}]({target}{title})")
}

/// Returns a text that is emphasized, if there is anything to emphasize.
pub(super) fn emphasized(content: String, mark: &str) -> String {
    match trim(&content).is_empty() {
        true => String::new(),
        false => format!("{mark}{content}{mark}"),
    }
}

/// Returns code in the line.
pub(super) fn code(content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    let content = match memchr::memchr2(b'\r', b'\n', content.as_bytes()) {
        Some(_) => Cow::Owned(content.replace("\r\n", " ").replace(['\r', '\n'], " ")),
        None => Cow::Borrowed(content),
    };
    let has_spaces = content.starts_with(' ') && content.ends_with(' ') && !content.trim_matches(' ').is_empty();
    let is_padded = has_spaces || content.starts_with('`') || content.ends_with('`');
    let padding = if is_padded { " " } else { "" };
    let delimiter = "`".repeat(free_run(content.as_bytes()));
    format!("{delimiter}{padding}{content}{padding}{delimiter}")
}

/// Returns the length of the shortest run of back-ticks that is not in a text.
fn free_run(text: &[u8]) -> usize {
    let (mut runs, mut run, mut end) = (BTreeSet::new(), 0, 0);
    for at in memchr::memchr_iter(b'`', text) {
        if at != end {
            runs.insert(run);
            run = 0;
        }
        (run, end) = (run + 1, at + 1);
    }
    runs.insert(run);
    (1..).find(|length| !runs.contains(length)).unwrap_or(1)
}

/// Returns the language that the class of a code block names; empty if none.
pub(super) fn language(class: &str) -> &str {
    let mut names = class
        .match_indices("language-")
        .map(|(at, prefix)| class[at + prefix.len()..].split(is_space).next().unwrap_or_default());
    names.find(|name| !name.is_empty()).unwrap_or_default()
}

/// Returns a code block.
pub(super) fn fenced(language: &str, code: &str) -> String {
    let ticks = |line: &str| line.len() - line.trim_start_matches('`').len();
    let longest = code.split('\n').map(ticks).max().unwrap_or_default();
    let fence = "`".repeat(FENCE.max(longest + 1));
    let code = code.strip_suffix('\n').unwrap_or(code);
    format!("\n\n{fence}{language}\n{code}\n{fence}\n\n")
}

/// Returns an attribute without blank lines, and without white space at the start of its later lines.
fn squeezed(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    let mut is_after_line = false;
    for c in text.chars() {
        if is_after_line && is_space(c) {
            continue;
        }
        is_after_line = c == '\n';
        squeezed.push(c);
    }
    squeezed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_delimited_by_what_is_not_in_it() {
        let check = |content: &str, expected: &str| assert_eq!(code(content), expected, "{content:?}");
        check("", "");
        check("a", "`a`");
        check("a`b", "``a`b``");
        check("a``b", "`a``b`");
        check("`a``b", "``` `a``b ```");
        check("`", "`` ` ``");
        check("a\r\nb\nc", "`a b c`");
        check(" a ", "`  a  `");
        check("  ", "`  `");
        check(" a", "` a`");
    }

    #[test]
    fn the_language_is_in_the_class() {
        let check = |class: &str, expected: &str| assert_eq!(language(class), expected, "{class:?}");
        check("", "");
        check("rust", "");
        check("language-rust", "rust");
        check("hljs language-c++\tother", "c++");
        check("language- language-x", "x");
        check("my-language-x-y", "x-y");
    }

    #[test]
    fn a_fence_is_longer_than_those_in_the_code() {
        let check = |code: &str, fence: &str| {
            let expected = format!("\n\n{fence}x\n{code}\n{fence}\n\n");
            assert_eq!(fenced("x", code), expected);
        };
        check("a", "```");
        check("``a", "```");
        check("a ````", "```");
        check("a\n````\nb", "`````");
        assert_eq!(fenced("", "a\n\n"), "\n\n```\na\n\n```\n\n");
    }
}
