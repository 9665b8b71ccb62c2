//! The pieces that a command's node falls into, and the command put together from them again.
//!
//! *Invariant:* nodes only; what a word means is not its business.

use std::ops::Range;

use tree_sitter::Node;

/// Says whether a redirection closes a descriptor. The grammar takes the word behind it for a target.
pub(super) fn closes(node: Node<'_>) -> bool {
    node.children(&mut node.walk())
        .any(|child| matches!(child.kind(), "<&-" | ">&-"))
}

/// The nodes of one command.
#[derive(Default)]
pub(super) struct Pieces<'t> {
    pub(super) assignments: Vec<Node<'t>>,
    pub(super) words: Vec<Node<'t>>,
    /// A word that is no node.
    pub(super) lost: Option<Range<usize>>,
    pub(super) redirects: Vec<Node<'t>>,
    /// Where the command's own text ends, if redirections behind it are not part of that text.
    pub(super) own_end: Option<usize>,
}

impl<'t> Pieces<'t> {
    /// Takes a redirection. What the grammar lists as further targets are arguments.
    pub(super) fn redirect(&mut self, node: Node<'t>) {
        self.redirects.push(node);
        let mut cursor = node.walk();
        match node.kind() {
            "file_redirect" => self.behind(node),
            "heredoc_redirect" => {
                self.words.extend(node.children_by_field_name("argument", &mut cursor));
                let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
                let files = children.into_iter().filter(|child| child.kind() == "file_redirect");
                files.for_each(|file| self.behind(file));
            }
            _ => {}
        }
    }

    /// Takes the arguments that stand behind the target of a redirection. One that closes a descriptor has no target; what
    /// does not fit into its node is an error there.
    fn behind(&mut self, node: Node<'t>) {
        let mut cursor = node.walk();
        if !closes(node) {
            self.words
                .extend(node.children_by_field_name("destination", &mut cursor).skip(1));
            return;
        }
        let named = node.named_children(&mut cursor);
        for child in named.filter(|child| child.kind() != "file_descriptor") {
            if child.is_error() {
                self.words.extend(child.named_children(&mut child.walk()));
            } else {
                self.words.push(child);
            }
        }
    }

    /// Returns the command without assignments and with one blank where there are several.
    pub(super) fn canonical(&self, line: &str) -> String {
        let words = self.words.iter().map(Node::byte_range);
        let mut spans: Vec<Range<usize>> = words.chain(self.lost.clone()).collect();
        for redirect in self
            .redirects
            .iter()
            .filter(|node| self.own_end.is_none_or(|end| node.start_byte() < end))
        {
            if redirect.kind() == "heredoc_redirect" {
                spans.push(redirect.byte_range());
            } else {
                spans.extend(redirect.children(&mut redirect.walk()).map(|child| child.byte_range()));
            }
        }
        spans.retain(|span| self.own_end.is_none_or(|end| span.start < end));
        spans.sort_by_key(|span| (span.start, span.end));
        let mut text = String::new();
        let mut at = None;
        for span in spans {
            if at.is_some_and(|at| span.start < at) {
                continue;
            }
            if at.is_some_and(|at| at < span.start) {
                text.push(' ');
            }
            text.push_str(line.get(span.clone()).unwrap_or_default());
            at = Some(span.end);
        }
        text
    }
}
