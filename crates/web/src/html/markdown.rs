//! HTML to Markdown (`docs/spec/web-tools.md` §1.7).
//!
//! *Invariant:* one walk over the tree, with a stack of its own. What grows with the depth of a page, or with elements that
//! the parser opens again, is paid from an [`Allowance`]; once it is spent, such text is left out.

use super::escape::escape;
use super::flow::{Flow, Mark};
use super::parse::{Page, parse};
use super::passage::{Edges, Passages};
use super::shape::{Kind, Shape};
use super::space::is_space;
use super::tree::{Content, Element, NodeId, Step, Tree};
use super::{forms, numbers, whitespace};

/// What stands at the end of a page that is too large.
const CUT: &str = "\n\n(This page is too large; the rest of it is left out.)";

/// What separates a block from what is around it.
const GAP: &str = "\n\n";

/// Converts a page to Markdown.
///
/// Headings begin with `#`, items with `-`, code blocks are fenced; tables have no form, each cell is a paragraph. What
/// would read as Markdown in a text is escaped.
pub fn to_markdown(html: &str) -> String {
    let Page { mut tree, root, is_cut } = parse(html);
    whitespace::collapse(&mut tree, root);
    let mut writer = Writer {
        tree: &tree,
        passages: &Passages::new(&tree, root),
        allowance: Allowance::new(html),
        flows: Vec::new(),
        frames: Vec::new(),
    };
    let text = writer.write(root);
    let text = text.trim_start_matches(['\t', '\r', '\n']).trim_end_matches(is_space);
    match is_cut {
        true => format!("{text}{CUT}"),
        false => text.to_owned(),
    }
}

/// Bytes that may still be written besides the text of the page.
struct Allowance(usize);

impl Allowance {
    fn new(html: &str) -> Self {
        Self(64 * 1024 + 4 * html.len())
    }

    /// Takes some. Returns false if there are not enough left.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// An element whose content is being written.
struct Frame<'a> {
    id: NodeId,
    form: Form<'a>,
    is_code: bool,
    /// Elements directly in it so far.
    elements: usize,
}

/// How the content of an element becomes text.
enum Form<'a> {
    /// It is written where the element stands, as a block.
    Block(Mark),
    /// It is written where the element stands.
    Inline(Mark),
    /// It is written apart, wrapped, and put between white space.
    Apart(Edges<'a>),
}

struct Writer<'a> {
    tree: &'a Tree,
    passages: &'a Passages,
    allowance: Allowance,
    /// The text that is written to, after those that wait for it.
    flows: Vec<Flow>,
    /// The elements that the walk is in.
    frames: Vec<Frame<'a>>,
}

impl<'a> Writer<'a> {
    fn write(&mut self, root: NodeId) -> String {
        self.flows.push(Flow::default());
        self.frames.push(Frame {
            id: root,
            form: Form::Apart(Edges::default()),
            is_code: false,
            elements: 0,
        });
        let mut step = self.tree.after(Step::Enter(root), root);
        while let Some(now) = step {
            let done = match now {
                Step::Enter(id) => self.enter(id),
                Step::Leave(id) => {
                    self.leave(id);
                    now
                }
            };
            step = self.tree.after(done, root);
        }
        self.flows.pop().map(Flow::into_text).unwrap_or_default()
    }

    /// Returns the step that is done with it: the one into a node, or already the one out of it.
    fn enter(&mut self, id: NodeId) -> Step {
        match self.tree.content(id) {
            Content::Text(text) if self.is_code() => self.join(text),
            Content::Text(text) => self.join(&escape(text)),
            Content::Comment | Content::Fragment => self.join(""),
            Content::Element(element) => return self.enter_element(id, element),
        }
        Step::Leave(id)
    }

    fn enter_element(&mut self, id: NodeId, element: &'a Element) -> Step {
        if let Some(parent) = self.frames.last_mut() {
            parent.elements += 1;
        }
        let Shape { kind, is_block, .. } = element.shape;
        let edges = match is_block {
            true => Edges::default(),
            false => self.passages.edges(self.tree, id),
        };
        if let Some(text) = self.childless(id, element) {
            self.join(&format!("{}{text}{}", edges.leading, edges.trailing));
            return Step::Leave(id);
        }
        let frame = Frame {
            id,
            form: self.form(id, element, edges),
            is_code: self.is_code() || kind == Kind::Code,
            elements: 0,
        };
        self.frames.push(frame);
        Step::Enter(id)
    }

    /// Returns the text of an element that does not depend on the text of those in it.
    fn childless(&mut self, id: NodeId, element: &Element) -> Option<String> {
        let Shape { kind, is_block, .. } = element.shape;
        if self.passages.is_blank(id) {
            return Some(if is_block { GAP } else { "" }.to_owned());
        }
        match kind {
            Kind::Break => Some("  \n".to_owned()),
            Kind::Line => Some(format!("{GAP}---{GAP}")),
            Kind::Image => Some(forms::image(element)),
            Kind::Removed => Some(String::new()),
            Kind::Preformatted => {
                let code = self.tree.first(id)?;
                let element = self.tree.element(code).filter(|code| code.shape.kind == Kind::Code)?;
                let language = forms::language(element.attribute("class"));
                let is_paid = self.allowance.take(language.len());
                let language = if is_paid { language } else { "" };
                Some(forms::fenced(language, self.passages.text(code)))
            }
            Kind::Plain
            | Kind::Heading(_)
            | Kind::Quote
            | Kind::BulletList
            | Kind::NumberedList
            | Kind::Item
            | Kind::Link
            | Kind::Emphasis
            | Kind::Strong
            | Kind::Code => None,
        }
    }

    fn form(&mut self, id: NodeId, element: &Element, edges: Edges<'a>) -> Form<'a> {
        let is_wrapped = match element.shape.kind {
            Kind::BulletList | Kind::NumberedList => self.is_end_of_item(id),
            Kind::Link => !element.attribute("href").is_empty(),
            Kind::Heading(_) | Kind::Quote | Kind::Item | Kind::Emphasis | Kind::Strong | Kind::Code => true,
            Kind::Plain | Kind::Break | Kind::Preformatted | Kind::Line | Kind::Image | Kind::Removed => false,
        };
        if is_wrapped || edges != Edges::default() {
            self.flows.push(Flow::default());
            return Form::Apart(edges);
        }
        let flow = self.flow();
        match element.shape.is_block {
            true => Form::Block(flow.begin_block()),
            false => Form::Inline(flow.begin_inline()),
        }
    }

    /// Says whether a list is the last element of an item of another one.
    fn is_end_of_item(&self, id: NodeId) -> bool {
        let parent = self.tree.parent(id).and_then(|parent| self.tree.element(parent));
        let mut later = std::iter::successors(self.tree.next(id), |id| self.tree.next(*id));
        parent.is_some_and(|parent| parent.shape.kind == Kind::Item)
            && later.all(|sibling| self.tree.element(sibling).is_none())
    }

    fn leave(&mut self, id: NodeId) {
        let Some(frame) = self.frames.pop_if(|frame| frame.id == id) else {
            return;
        };
        match frame.form {
            Form::Block(mark) => self.flow().end_block(mark),
            Form::Inline(mark) => self.flow().end_inline(mark),
            Form::Apart(edges) => {
                let flow = self.flows.pop().unwrap_or_default();
                let content = match edges == Edges::default() {
                    true => flow.into_text(),
                    false => flow.into_trimmed(),
                };
                let text = self.wrapped(id, content);
                if edges == Edges::default() {
                    self.join(&text);
                } else {
                    self.join(&format!("{}{text}{}", edges.leading, edges.trailing));
                }
            }
        }
    }

    fn wrapped(&mut self, id: NodeId, content: String) -> String {
        let Some(element) = self.tree.element(id) else {
            return content;
        };
        match element.shape.kind {
            Kind::Heading(level) => format!("{GAP}{} {content}{GAP}", "#".repeat(level.into())),
            Kind::Quote => {
                let content = content.trim_matches('\n');
                format!("{GAP}{}{GAP}", self.prefixed(content, "> ", "> "))
            }
            Kind::BulletList | Kind::NumberedList => format!("\n{content}"),
            Kind::Item => self.item(id, &content),
            Kind::Link => {
                let (target, title) = (element.attribute("href"), element.attribute("title"));
                match !target.is_empty() && self.allowance.take(target.len() + title.len()) {
                    true => forms::link(&content, target, title),
                    false => content,
                }
            }
            Kind::Emphasis => forms::emphasized(content, "*"),
            Kind::Strong => forms::emphasized(content, "**"),
            Kind::Code => forms::code(&content),
            Kind::Plain | Kind::Break | Kind::Preformatted | Kind::Line | Kind::Image | Kind::Removed => content,
        }
    }

    fn item(&mut self, id: NodeId, content: &str) -> String {
        let list = self.tree.parent(id).and_then(|list| self.tree.element(list));
        let prefix = match list.filter(|list| list.shape.kind == Kind::NumberedList) {
            Some(list) => {
                let index = self.frames.last().map_or(0, |frame| frame.elements.saturating_sub(1));
                format!("{}.  ", numbers::of_item(list.attribute("start"), index))
            }
            None => "-   ".to_owned(),
        };
        let content = content.trim_start_matches('\n');
        let text = content.trim_end_matches('\n');
        let end = &content[text.len()..];
        let mut item = self.prefixed(&content[..text.len() + end.len().min(1)], &prefix, "    ");
        if self.tree.next(id).is_some() && !item.ends_with('\n') {
            item.push('\n');
        }
        item
    }

    /// Returns a text with something before its first line, and before each other one.
    fn prefixed(&mut self, text: &str, first: &str, other: &str) -> String {
        let line_ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let other = match self.allowance.take(line_ends * other.len()) {
            true => other,
            false => "",
        };
        let mut prefixed = String::with_capacity(first.len() + text.len() + line_ends * other.len());
        let mut prefix = first;
        for line in text.split_inclusive('\n') {
            prefixed.push_str(prefix);
            prefixed.push_str(line);
            prefix = other;
        }
        if text.is_empty() || text.ends_with('\n') {
            prefixed.push_str(prefix);
        }
        prefixed
    }

    fn is_code(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.is_code)
    }

    fn join(&mut self, piece: &str) {
        self.flow().join(piece);
    }

    fn flow(&mut self) -> &mut Flow {
        if self.flows.is_empty() {
            self.flows.push(Flow::default());
        }
        let last = self.flows.len() - 1;
        &mut self.flows[last]
    }
}
