//! Places where the grammar is known to read a line in another way than the shell.
//!
//! *Invariant:* pure, and only ever adds a doubt.

use tree_sitter::Node;

const UNFIT: &str = "the shell's grammar does not fit it";

/// Node types of which the pieces stand together without a gap.
const TIGHT: &str = "variable_assignment concatenation simple_expansion subscript command_name";

/// Node types in which the grammar leaves out blanks that belong to a text.
const TEXTS: &str = "string translated_string heredoc_body heredoc_redirect regex expansion";

/// Returns what makes a node doubtful, if the shell may see something else there.
pub(super) fn opaque_node(node: Node<'_>, children: &[Node<'_>], line: &str) -> Option<&'static str> {
    let is_listed = |list: &str| list.split_whitespace().any(|kind| kind == node.kind());
    let text = line.get(node.byte_range()).unwrap_or_default();
    let is_sound = match node.kind() {
        "word" | "number" => !is_cut(text) && !is_descriptor(text, line.get(node.end_byte()..).unwrap_or_default()),
        "test_command" => has_room(text),
        "regex" => !text.contains("<(") && !text.contains(">("),
        _ => true,
    };
    let gaps = children
        .windows(2)
        .map(|pair| line.get(pair[0].end_byte()..pair[1].start_byte()).unwrap_or_default());
    let is_whole = is_listed(TEXTS)
        || gaps.map(|gap| gap.replace("\\\n", "")).all(|gap| {
            gap.is_empty()
                || (node.kind() == "redirected_statement" && gap.trim() == "-")
                || (!is_listed(TIGHT) && gap.bytes().all(|byte| byte.is_ascii_whitespace()))
        });
    (!is_sound || !is_whole).then_some(UNFIT)
}

/// Says whether the shell ends a word earlier: at a blank or an operator that nothing escapes.
fn is_cut(text: &str) -> bool {
    let mut is_escaped = false;
    text.bytes().any(|byte| {
        let cuts = !is_escaped && matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>');
        is_escaped = byte == b'\\' && !is_escaped;
        cuts
    })
}

/// Says whether a number belongs to the redirection behind it.
fn is_descriptor(text: &str, behind: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && behind.starts_with(['<', '>'])
}

/// Says whether brackets of a test are words of their own; otherwise they begin or end the name of a command.
fn has_room(text: &str) -> bool {
    let inner = match text.strip_prefix("[[") {
        Some(inner) => inner.strip_suffix("]]"),
        None => text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')),
    };
    let is_blank = |c: char| c.is_ascii_whitespace();
    inner.is_none_or(|inner| inner.starts_with(is_blank) && inner.ends_with(is_blank))
}
