//! The tree of a page, as the parser builds it.
//!
//! *Invariant:* nodes lie in one vector and name each other by number, so every change takes the same time and no depth is
//! too deep to be walked or dropped.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;

use html5ever::tendril::StrTendril;
use html5ever::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::{Attribute, LocalName, QualName, ns};

use super::shape::Shape;

/// The number of a node. There are many that are none, so that takes no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(NonZeroU32);

impl NodeId {
    pub(super) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// What a node is.
pub(super) enum Content {
    /// The whole page, or what is not part of it.
    Fragment,
    /// A comment: nothing to read, but it stands between its neighbours.
    Comment,
    /// Text, its characters as they are meant.
    Text(String),
    /// An element.
    Element(Element),
}

/// An element.
pub(super) struct Element {
    /// What its name makes of it.
    pub(super) shape: Shape,
    attributes: Box<[Attribute]>,
    /// Elements of other vocabularies may have places where HTML is allowed.
    holds_html: bool,
}

impl Element {
    /// Returns an attribute; empty if there is none.
    pub(super) fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|attribute| &*attribute.name.local == name);
        found.map_or("", |attribute| &attribute.value)
    }
}

struct Node {
    content: Content,
    parent: Option<NodeId>,
    previous: Option<NodeId>,
    next: Option<NodeId>,
    first: Option<NodeId>,
    last: Option<NodeId>,
}

/// A step of a walk that visits every node on the way down and on the way up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Enter(NodeId),
    Leave(NodeId),
}

/// A page.
pub(super) struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    const DOCUMENT: NodeId = NodeId(NonZeroU32::MIN);
    /// Where everything is put that is not part of the page.
    const LOST: NodeId = NodeId(NonZeroU32::MIN.saturating_add(1));

    fn new() -> Self {
        let mut tree = Self { nodes: Vec::new() };
        tree.add(Content::Fragment);
        tree.add(Content::Fragment);
        tree
    }

    fn add(&mut self, content: Content) -> NodeId {
        self.nodes.push(Node {
            content,
            parent: None,
            previous: None,
            next: None,
            first: None,
            last: None,
        });
        // There is a limit to the nodes of a page, far below.
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        NodeId(NonZeroU32::MIN.saturating_add(number - 1))
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// Returns how many numbers of nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns what a node is.
    pub(super) fn content(&self, id: NodeId) -> &Content {
        &self.node(id).content
    }

    /// Returns the text of a node; none if it is no text.
    pub(super) fn text_mut(&mut self, id: NodeId) -> Option<&mut String> {
        match &mut self.node_mut(id).content {
            Content::Text(text) => Some(text),
            Content::Fragment | Content::Comment | Content::Element(_) => None,
        }
    }

    /// Returns the element that a node is.
    pub(super) fn element(&self, id: NodeId) -> Option<&Element> {
        match self.content(id) {
            Content::Element(element) => Some(element),
            Content::Fragment | Content::Comment | Content::Text(_) => None,
        }
    }

    pub(super) fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.node(id).parent
    }

    pub(super) fn previous(&self, id: NodeId) -> Option<NodeId> {
        self.node(id).previous
    }

    pub(super) fn next(&self, id: NodeId) -> Option<NodeId> {
        self.node(id).next
    }

    pub(super) fn first(&self, id: NodeId) -> Option<NodeId> {
        self.node(id).first
    }

    /// Returns the step after a step, in a walk of what lies under `root`; none after the last one.
    pub(super) fn after(&self, step: Step, root: NodeId) -> Option<Step> {
        let step = match step {
            Step::Enter(id) => self.first(id).map_or(Step::Leave(id), Step::Enter),
            Step::Leave(id) => match self.next(id) {
                Some(next) => Step::Enter(next),
                None => Step::Leave(self.parent(id)?),
            },
        };
        (step != Step::Leave(root)).then_some(step)
    }

    /// Takes a node out of its place, with what lies under it.
    pub(super) fn detach(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        let (parent, previous, next) = (node.parent.take(), node.previous.take(), node.next.take());
        let Some(parent) = parent else { return };
        match previous {
            Some(previous) => self.node_mut(previous).next = next,
            None => self.node_mut(parent).first = next,
        }
        match next {
            Some(next) => self.node_mut(next).previous = previous,
            None => self.node_mut(parent).last = previous,
        }
    }

    /// Puts a node that has no place under a parent: before one of its children, or at the end.
    fn attach(&mut self, id: NodeId, parent: NodeId, before: Option<NodeId>) {
        let previous = match before {
            Some(before) => self.node_mut(before).previous.replace(id),
            None => self.node_mut(parent).last.replace(id),
        };
        match previous {
            Some(previous) => self.node_mut(previous).next = Some(id),
            None => self.node_mut(parent).first = Some(id),
        }
        let node = self.node_mut(id);
        (node.parent, node.previous, node.next) = (Some(parent), previous, before);
    }

    fn insert(&mut self, child: NodeOrText<Handle>, parent: NodeId, before: Option<NodeId>) {
        let id = match child {
            NodeOrText::AppendNode(handle) => {
                self.detach(handle.id);
                handle.id
            }
            NodeOrText::AppendText(text) => {
                let neighbour = before.map_or(self.node(parent).last, |before| self.previous(before));
                if let Some(present) = neighbour.and_then(|id| self.text_mut(id)) {
                    present.push_str(&text);
                    return;
                }
                self.add(Content::Text(text.to_string()))
            }
        };
        self.attach(id, parent, before);
    }
}

/// How the parser names a node.
#[derive(Clone)]
pub(super) struct Handle {
    id: NodeId,
    name: Rc<QualName>,
}

/// Receives a tree from the parser.
pub(super) struct Sink {
    tree: RefCell<Tree>,
    /// What is not an element has no name, and nobody asks for it.
    nameless: Rc<QualName>,
    /// The name of the element that everything of the page is in.
    root_name: LocalName,
    root: Cell<Option<NodeId>>,
}

impl Sink {
    /// Makes one for a page whose content is in the first element of this name.
    pub(super) fn new(root_name: LocalName) -> Self {
        Self {
            tree: RefCell::new(Tree::new()),
            nameless: Rc::new(QualName::new(None, ns!(html), LocalName::from(""))),
            root_name,
            root: Cell::new(None),
        }
    }

    /// Returns how many nodes there are, with those that lost their place.
    pub(super) fn nodes(&self) -> usize {
        self.tree.borrow().len()
    }

    /// Returns the tree and the element that everything of the page is in.
    pub(super) fn into_parts(self) -> (Tree, NodeId) {
        (self.tree.into_inner(), self.root.get().unwrap_or(Tree::DOCUMENT))
    }

    fn add(&self, content: Content) -> Handle {
        Handle {
            id: self.tree.borrow_mut().add(content),
            name: self.nameless.clone(),
        }
    }
}

impl TreeSink for Sink {
    type Handle = Handle;
    type Output = Self;
    type ElemName<'a> = &'a QualName;

    fn finish(self) -> Self {
        self
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        Handle {
            id: Tree::DOCUMENT,
            name: self.nameless.clone(),
        }
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> &'a QualName {
        &target.name
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> Handle {
        let handle = self.add(Content::Element(Element {
            shape: Shape::from_name(&name),
            attributes: attributes.into(),
            holds_html: flags.mathml_annotation_xml_integration_point,
        }));
        if self.root.get().is_none() && name.local == self.root_name {
            self.root.set(Some(handle.id));
        }
        Handle {
            name: Rc::new(name),
            ..handle
        }
    }

    fn create_comment(&self, _: StrTendril) -> Handle {
        self.add(Content::Comment)
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Handle {
        self.add(Content::Comment)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.tree.borrow_mut().insert(child, parent.id, None);
    }

    fn append_based_on_parent_node(&self, element: &Handle, previous: &Handle, child: NodeOrText<Handle>) {
        let parent = self.tree.borrow().parent(element.id);
        let mut tree = self.tree.borrow_mut();
        match parent {
            Some(parent) => tree.insert(child, parent, Some(element.id)),
            None => tree.insert(child, previous.id, None),
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    /// What a `template` holds is not part of the page.
    fn get_template_contents(&self, _: &Handle) -> Handle {
        Handle {
            id: Tree::LOST,
            name: self.nameless.clone(),
        }
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        one.id == other.id
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        let mut tree = self.tree.borrow_mut();
        if let Some(parent) = tree.parent(sibling.id) {
            tree.insert(child, parent, Some(sibling.id));
        }
    }

    fn add_attrs_if_missing(&self, _: &Handle, _: Vec<Attribute>) {}

    fn remove_from_parent(&self, target: &Handle) {
        self.tree.borrow_mut().detach(target.id);
    }

    fn reparent_children(&self, node: &Handle, parent: &Handle) {
        let mut tree = self.tree.borrow_mut();
        while let Some(child) = tree.first(node.id) {
            tree.detach(child);
            tree.attach(child, parent.id, None);
        }
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &Handle) -> bool {
        let tree = self.tree.borrow();
        tree.element(handle.id).is_some_and(|element| element.holds_html)
    }
}
