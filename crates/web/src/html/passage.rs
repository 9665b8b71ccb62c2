//! The text of every element of a tree, and what can be told from it.
//!
//! *Invariant:* the text of the page is held once; that of an element is a part of it, so that asking takes no longer for
//! large elements.

use std::ops::Range;

use super::space::{Runs, is_blank, is_space};
use super::tree::{Content, NodeId, Step, Tree};

/// The text of a page, and where that of each node is in it.
pub(super) struct Passages {
    text: String,
    passages: Vec<Passage>,
    spaces: Runs,
    blanks: Runs,
}

#[derive(Clone, Default)]
struct Passage {
    range: Range<usize>,
    /// It is, or holds, an element that says something even without text.
    has_matter: bool,
}

/// White space that is moved out of an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Edges<'a> {
    pub(super) leading: &'a str,
    pub(super) trailing: &'a str,
}

impl Passages {
    /// Reads a tree.
    pub(super) fn new(tree: &Tree, root: NodeId) -> Self {
        let mut text = String::new();
        let mut passages = vec![Passage::default(); tree.len()];
        let mut step = tree.after(Step::Enter(root), root);
        while let Some(now) = step {
            match now {
                Step::Enter(id) => {
                    passages[id.index()].range.start = text.len();
                    if let Content::Text(own) = tree.content(id) {
                        text.push_str(own);
                    }
                }
                Step::Leave(id) => {
                    let shape = tree.element(id).map(|element| element.shape);
                    let passage = &mut passages[id.index()];
                    passage.range.end = text.len();
                    passage.has_matter |= shape.is_some_and(|shape| shape.is_void || shape.matters_blank);
                    if let (true, Some(parent)) = (passage.has_matter, tree.parent(id)) {
                        passages[parent.index()].has_matter = true;
                    }
                }
            }
            step = tree.after(now, root);
        }
        Self {
            spaces: Runs::find(&text, is_space),
            blanks: Runs::find(&text, is_blank),
            text,
            passages,
        }
    }

    /// Returns the text of a node.
    pub(super) fn text(&self, id: NodeId) -> &str {
        &self.text[self.range(id)]
    }

    fn range(&self, id: NodeId) -> Range<usize> {
        self.passages[id.index()].range.clone()
    }

    /// Says whether there is nothing to see in an element.
    pub(super) fn is_blank(&self, id: NodeId) -> bool {
        let Range { start, end } = self.range(id);
        !self.passages[id.index()].has_matter && self.spaces.end_of_start(start, end) == end
    }

    /// Returns the white space at the edges of an element in a line: what is already there beside it is not wanted again.
    pub(super) fn edges(&self, tree: &Tree, id: NodeId) -> Edges<'_> {
        let Range { start, end } = self.range(id);
        let inner = self.spaces.end_of_start(start, end);
        let mut leading = start..inner;
        let mut trailing = self.spaces.start_of_end(inner, end)..end;
        let blank = self.blanks.end_of_start(start, inner);
        if blank > start && tree.previous(id).is_some_and(|id| self.ends_in_space(tree, id)) {
            leading.start = blank;
        }
        let blank = self.blanks.start_of_end(trailing.start, end);
        if blank < end && tree.next(id).is_some_and(|id| self.starts_with_space(tree, id)) {
            trailing.end = blank;
        }
        Edges {
            leading: &self.text[leading],
            trailing: &self.text[trailing],
        }
    }

    fn ends_in_space(&self, tree: &Tree, id: NodeId) -> bool {
        !is_block(tree, id) && self.text(id).ends_with(' ')
    }

    fn starts_with_space(&self, tree: &Tree, id: NodeId) -> bool {
        !is_block(tree, id) && self.text(id).starts_with(' ')
    }
}

fn is_block(tree: &Tree, id: NodeId) -> bool {
    tree.element(id).is_some_and(|element| element.shape.is_block)
}
