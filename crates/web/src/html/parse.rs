//! Parses a page into a [`Tree`].
//!
//! *Invariant:* the parser goes through all open elements for many a tag, and opens elements again that were not closed. So
//! there is a limit to open elements, below which tags are left out but text stays, and one to the nodes of a page, at which
//! it is cut.

use std::cell::Cell;

use html5ever::tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult};
use html5ever::tree_builder::{QuirksMode, Tracer, TreeBuilder, TreeBuilderOpts};
use html5ever::{LocalName, local_name};

use super::source::{self, Reader};
use super::tree::{Handle, NodeId, Sink, Tree};

/// Elements that may be open, those included that may be opened again. Browsers stop at twice as many.
const MAX_OPEN: usize = 256;

/// Nodes of a page.
const MAX_NODES: usize = 1_000_000;

/// No tag of a page can have a blank in its name.
const ROOT: &str = "the page";

/// A page as it was parsed.
pub(super) struct Page {
    pub(super) tree: Tree,
    /// The element that everything is in.
    pub(super) root: NodeId,
    /// The page goes on, but is too large.
    pub(super) is_cut: bool,
}

/// Parses a page: all of it is content of one element, whatever it says itself.
pub(super) fn parse(html: &str) -> Page {
    let root_name = LocalName::from(ROOT);
    let opts = TreeBuilderOpts {
        scripting_enabled: false,
        quirks_mode: QuirksMode::Quirks,
        ..TreeBuilderOpts::default()
    };
    let gate = Gate {
        builder: TreeBuilder::new(Sink::new(root_name.clone()), opts),
        open: Cell::default(),
        nodes: Cell::default(),
        left_out: Cell::default(),
        tokens: Cell::default(),
        reads_raw: Cell::default(),
        after_pre: Cell::default(),
    };
    let _ = gate.builder.process_token(start(root_name), 1);
    let gate = source::read(html, gate);
    let is_cut = gate.is_full();
    let (tree, root) = gate.builder.sink.into_parts();
    Page { tree, root, is_cut }
}

fn start(name: LocalName) -> Token {
    Token::TagToken(Tag {
        kind: TagKind::StartTag,
        name,
        self_closing: false,
        attrs: Vec::new(),
        had_duplicate_attributes: false,
    })
}

/// What stands between tokenizer and tree builder.
struct Gate {
    builder: TreeBuilder<Handle, Sink>,
    /// How many elements were open when they were counted, and nodes there were then.
    open: Cell<usize>,
    nodes: Cell<usize>,
    /// Start tags that were left out, and whose end tags are to be.
    left_out: Cell<usize>,
    tokens: Cell<usize>,
    reads_raw: Cell<bool>,
    /// The last tag was `pre`.
    after_pre: Cell<bool>,
}

impl Gate {
    /// Says whether as many elements are open as may be.
    fn is_deep(&self) -> bool {
        let nodes = self.builder.sink.nodes();
        // An element is opened by making a node, so the elements are counted only when there could be too many.
        if self.open.get() + (nodes - self.nodes.get()) >= MAX_OPEN {
            let count = Count::default();
            self.builder.trace_handles(&count);
            self.open.set(count.0.get());
            self.nodes.set(nodes);
        }
        self.open.get() + (nodes - self.nodes.get()) >= MAX_OPEN
    }

    /// Says whether a tag is for the tree builder.
    fn admits(&self, tag: &Tag) -> bool {
        let left_out = self.left_out.get();
        match tag.kind {
            // Frames take the place of everything that was read before.
            TagKind::StartTag if tag.name == local_name!("frameset") => false,
            TagKind::StartTag
                if is_leaf(&tag.name) && !self.adjusted_current_node_present_but_not_in_html_namespace() =>
            {
                true
            }
            TagKind::StartTag if left_out > 0 || self.is_deep() => {
                self.left_out.set(left_out + 1);
                false
            }
            TagKind::EndTag if left_out > 0 && !self.reads_raw.get() => {
                self.left_out.set(left_out - 1);
                false
            }
            TagKind::StartTag | TagKind::EndTag => true,
        }
    }
}

impl TokenSink for Gate {
    type Handle = Handle;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Handle> {
        if matches!(token, Token::ParseError(_)) {
            return TokenSinkResult::Continue;
        }
        self.tokens.set(self.tokens.get() + 1);
        let token = match token {
            Token::TagToken(mut tag) => {
                if !self.admits(&tag) {
                    return TokenSinkResult::Continue;
                }
                if tag.kind == TagKind::EndTag {
                    self.reads_raw.set(false);
                }
                let in_block = self.after_pre.replace(tag.name == local_name!("pre"));
                tag.attrs.retain(|attribute| match &*attribute.name.local {
                    // Only a code block has a language.
                    "class" => in_block && tag.name == local_name!("code"),
                    name => matters(&tag.name, name),
                });
                if tag.name == local_name!("font") {
                    // What they say has no meaning here, but that they are there has.
                    tag.attrs.iter_mut().for_each(|attribute| attribute.value.clear());
                }
                Token::TagToken(tag)
            }
            Token::ParseError(_)
            | Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::CharacterTokens(_)
            | Token::NullCharacterToken
            | Token::EOFToken => token,
        };
        let result = self.builder.process_token(token, line);
        match &result {
            TokenSinkResult::RawData(_) | TokenSinkResult::Plaintext => self.reads_raw.set(true),
            TokenSinkResult::Continue | TokenSinkResult::Script(_) | TokenSinkResult::EncodingIndicator(_) => {}
        }
        result
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

impl Reader for Gate {
    fn tokens(&self) -> usize {
        self.tokens.get()
    }

    fn reads_raw(&self) -> bool {
        self.reads_raw.get()
    }

    fn is_full(&self) -> bool {
        self.builder.sink.nodes() > MAX_NODES
    }
}

/// Counts what the tree builder holds on to: the open elements, and those that it may open again.
#[derive(Default)]
struct Count(Cell<usize>);

impl Tracer for Count {
    type Handle = Handle;

    fn trace_handle(&self, _: &Handle) {
        self.0.set(self.0.get() + 1);
    }
}

/// Says whether nothing can be nested in an element: it has no content, or its content is text to the tokenizer, which
/// depends on its start tag.
#[rustfmt::skip]
fn is_leaf(name: &str) -> bool {
    matches!(
        name,
        "area" | "base" | "br" | "col" | "embed" | "hr" | "iframe" | "img" | "input" | "keygen" | "link" | "meta" | "noembed"
            | "noframes" | "param" | "plaintext" | "script" | "source" | "style" | "textarea" | "title" | "track" | "wbr"
            | "xmp"
    )
}

/// Says whether anything depends on an attribute: here, or in the tree builder. The others would have elements told apart
/// that are opened again together.
fn matters(element: &str, attribute: &str) -> bool {
    match element {
        "a" => matches!(attribute, "href" | "title"),
        "img" => matches!(attribute, "alt" | "src" | "title"),
        "ol" => attribute == "start",
        "input" => attribute == "type",
        "annotation-xml" => attribute == "encoding",
        "font" => matches!(attribute, "color" | "face" | "size"),
        _ => false,
    }
}
