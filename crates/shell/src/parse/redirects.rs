//! Redirections, here-documents and the comments between them.

use tree_sitter::Node;

use super::{Redirect, Walk, pieces, substitutes};
use crate::words::Word;

impl Walk<'_> {
    pub(super) fn redirects(&mut self, nodes: &[Node<'_>]) -> Vec<Redirect> {
        let mut found = Vec::new();
        for node in nodes {
            match node.kind() {
                "file_redirect" => {
                    self.taken.insert(node.id());
                    found.extend(self.file_redirect(*node));
                }
                "heredoc_redirect" => {
                    let children: Vec<Node<'_>> = node.children(&mut node.walk()).collect();
                    let files: Vec<&Node<'_>> = children
                        .iter()
                        .filter(|child| child.kind() == "file_redirect")
                        .collect();
                    self.taken.extend(files.iter().map(|child| child.id()));
                    found.extend(files.into_iter().filter_map(|child| self.file_redirect(*child)));
                }
                _ => {}
            }
        }
        found
    }

    pub(super) fn file_redirect(&self, node: Node<'_>) -> Option<Redirect> {
        if pieces::closes(node) {
            return None;
        }
        let target = node.child_by_field_name("destination")?;
        let operator = node.children(&mut node.walk()).find(|child| !child.is_named())?;
        // In a damaged tree a part of the operator is an error beside it.
        let before = self
            .line
            .get(node.start_byte()..target.start_byte())
            .unwrap_or_default();
        let (operator, target) = (self.text(operator), self.word(target.byte_range(), true));
        let is_descriptor = operator.ends_with('&')
            && target.fixed().is_some_and(|value| {
                value == "-" || value.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit())
            });
        (!is_descriptor).then(|| Redirect {
            writes: before.contains('>'),
            target,
            text: self.text(node).to_owned(),
        })
    }

    pub(super) fn comment(&mut self, node: Node<'_>) {
        let before = self
            .line
            .get(..node.start_byte())
            .and_then(|text| text.chars().next_back());
        let starts = before.is_none_or(|c| c.is_ascii_whitespace() || ";&|()<>`".contains(c));
        let in_text = node
            .parent()
            .is_some_and(|parent| matches!(parent.kind(), "string" | "concatenation" | "expansion"));
        if !starts || in_text {
            self.mark_opaque("it may hold a comment where the shell sees none");
        }
        self.quoted.push(node.byte_range());
    }

    /// Checks that the shell ends the here-document where the grammar does.
    pub(super) fn heredoc(&mut self, node: Node<'_>, children: &[Node<'_>]) {
        let part = |kind: &str| {
            children
                .iter()
                .find(|child| child.kind() == kind)
                .map(|child| self.text(*child))
        };
        let start = part("heredoc_start").unwrap_or_default();
        let strips = children.iter().any(|child| child.kind() == "<<-");
        let delimiter = Word::new(start);
        let body = part("heredoc_body").unwrap_or_default();
        let line_of = |line: &str| {
            if strips {
                line.trim_start_matches('\t').to_owned()
            } else {
                line.to_owned()
            }
        };
        // The grammar lets blanks stand before the delimiter; the shell reads on there.
        let until = self.line.get(..node.end_byte()).unwrap_or_default();
        let end = until.rsplit('\n').next().map(line_of);
        let is_sound = delimiter.fixed().is_some_and(|delimiter| {
            end.as_deref() == Some(delimiter) && !body.lines().any(|line| line_of(line) == delimiter)
        });
        // The grammar does not look into every body that the shell expands.
        let is_literal = start.contains(['\'', '"', '\\']);
        let is_walked = children
            .iter()
            .any(|child| child.kind() == "heredoc_body" && child.child_count() > 0);
        if !is_literal && !is_walked && substitutes(body) {
            self.mark_opaque("a here-document in it may hide a command");
        }
        let after = self.line.get(node.end_byte()..).unwrap_or_default();
        if !is_sound || !(after.is_empty() || after.starts_with('\n')) {
            self.mark_opaque("it is not certain where its here-document ends");
        }
    }
}
