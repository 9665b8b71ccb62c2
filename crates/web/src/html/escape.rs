//! Escapes text that would read as Markdown.
//!
//! *Invariant:* what depends on the start of a line goes by the start of a text, as `docs/spec/web-tools.md` §1.7 fixes
//! it.

/// Returns a text that reads in Markdown as it is.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 16);
    let dot = numbered_dot(text);
    if dot.is_none() && reads_as_block(text) {
        escaped.push('\\');
    }
    for (at, c) in text.char_indices() {
        if matches!(c, '\\' | '*' | '`' | '[' | ']' | '_') || dot == Some(at) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Says whether a text begins a block of another kind than a numbered list.
fn reads_as_block(text: &str) -> bool {
    let hashes = text.len() - text.trim_start_matches('#').len();
    text.starts_with(['-', '=', '>'])
        || text.starts_with("+ ")
        || text.starts_with("~~~")
        || (1..=6).contains(&hashes) && text[hashes..].starts_with(' ')
}

/// Returns where the dot is of the number that a text begins with, if it reads as one of a list.
fn numbered_dot(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && text[digits..].starts_with(". ")).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_would_be_markup() {
        let check = |text: &str, expected: &str| assert_eq!(escape(text), expected, "{text}");
        check("", "");
        check("plain - + = # > ~~~ 1. text", "plain - + = # > ~~~ 1. text");
        check(r"\*`[]_", r"\\\*\`\[\]\_");
        check("- a", r"\- a");
        check("-a", r"\-a");
        check("+ a", r"\+ a");
        check("+a", "+a");
        check("== a", r"\== a");
        check("# a", r"\# a");
        check("###### a", r"\###### a");
        check("####### a", "####### a");
        check("#a", "#a");
        check("~~~ a", r"\~~~ a");
        check("~~ a", "~~ a");
        check("> a", r"\> a");
        check("12. a", r"12\. a");
        check("12.a", "12.a");
        check("1) a", "1) a");
        check(" - a", " - a");
        check("<b> & é", "<b> & é");
    }
}
