//! Settles white space in a tree: what a browser would not show goes, outside of preformatted text.
//!
//! *Invariant:* one walk; a text is looked at when it and the last one before it are known.

use super::shape::Kind;
use super::space::is_blank;
use super::tree::{Content, NodeId, Step, Tree};

/// Makes one space of each run of blanks, drops those at the edges of blocks, and takes out texts that are left empty and
/// comments.
pub(super) fn collapse(tree: &mut Tree, root: NodeId) {
    let mut pass = Pass {
        tree,
        last_text: None,
        keeps_space: false,
    };
    let mut step = pass.tree.after(Step::Enter(root), root);
    while let Some(now) = step {
        step = pass.follow(now, root);
    }
    if let Some(last) = pass.last_text
        && pass.trim_end(last)
    {
        pass.tree.detach(last);
    }
}

struct Pass<'a> {
    tree: &'a mut Tree,
    /// The text that the next one goes on from; none at the start of a line.
    last_text: Option<NodeId>,
    /// What came before is neither text nor the start of a line, so a space after it is seen.
    keeps_space: bool,
}

impl Pass<'_> {
    /// Treats the node of a step, and returns the step after it.
    fn follow(&mut self, step: Step, root: NodeId) -> Option<Step> {
        let (Step::Enter(id) | Step::Leave(id)) = step;
        let shape = match self.tree.content(id) {
            Content::Element(element) => element.shape,
            Content::Text(_) | Content::Comment | Content::Fragment => {
                let after = self.tree.after(Step::Leave(id), root);
                self.settle(id);
                return after;
            }
        };
        if shape.is_block || shape.kind == Kind::Break {
            if let Some(last) = self.last_text.take() {
                self.trim_end(last);
            }
            self.keeps_space = false;
        } else if shape.is_void {
            self.last_text = None;
            self.keeps_space = true;
        } else if self.last_text.is_some() {
            self.keeps_space = false;
        }
        match step {
            Step::Enter(id) if shape.kind == Kind::Preformatted => self.tree.after(Step::Leave(id), root),
            Step::Enter(_) | Step::Leave(_) => self.tree.after(step, root),
        }
    }

    fn settle(&mut self, id: NodeId) {
        let follows_space = match self.last_text {
            Some(last) => self.tree.text_mut(last).is_some_and(|text| text.ends_with(' ')),
            None => true,
        };
        let drops_first = follows_space && !self.keeps_space;
        let is_empty = match self.tree.text_mut(id) {
            Some(text) => {
                *text = collapsed(text);
                if drops_first && text.starts_with(' ') {
                    text.remove(0);
                }
                text.is_empty()
            }
            None => true,
        };
        if is_empty {
            self.tree.detach(id);
        } else {
            self.last_text = Some(id);
        }
    }

    /// Drops a space at the end of a text. Returns whether nothing is left.
    fn trim_end(&mut self, id: NodeId) -> bool {
        self.tree.text_mut(id).is_none_or(|text| {
            if text.ends_with(' ') {
                text.pop();
            }
            text.is_empty()
        })
    }
}

fn collapsed(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    for c in text.chars() {
        match is_blank(c) {
            true if short.ends_with(' ') => {}
            true => short.push(' '),
            false => short.push(c),
        }
    }
    short
}
