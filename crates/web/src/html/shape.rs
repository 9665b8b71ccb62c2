//! What an element's name says about how it is converted.
//!
//! *Invariant:* the lists are those of `docs/spec/web-tools.md` §1.7. Elements of other vocabularies, such as those of
//! a drawing, are only their text.

use html5ever::{QualName, ns};

/// What becomes of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its content, with what separates blocks if it is one.
    Plain,
    Break,
    Heading(u8),
    Quote,
    BulletList,
    NumberedList,
    Item,
    Preformatted,
    Line,
    Link,
    Emphasis,
    Strong,
    Code,
    Image,
    Removed,
}

/// What an element's name makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    /// It stands on lines of its own.
    pub(super) is_block: bool,
    /// It never has content.
    pub(super) is_void: bool,
    /// It says something even without text.
    pub(super) matters_blank: bool,
}

impl Shape {
    /// Returns what a name says.
    pub(super) fn from_name(name: &QualName) -> Self {
        let local = &*name.local;
        let is_html = name.ns == ns!(html);
        let is_removed = matches!(local, "script" | "style" | "meta" | "link");
        Self {
            kind: match is_html {
                true => kind(local),
                false if is_removed => Kind::Removed,
                false => Kind::Plain,
            },
            is_block: is_html && is_block(local),
            is_void: is_html && is_void(local),
            matters_blank: is_html && matters_blank(local),
        }
    }
}

fn kind(name: &str) -> Kind {
    match name {
        "br" => Kind::Break,
        "h1" => Kind::Heading(1),
        "h2" => Kind::Heading(2),
        "h3" => Kind::Heading(3),
        "h4" => Kind::Heading(4),
        "h5" => Kind::Heading(5),
        "h6" => Kind::Heading(6),
        "blockquote" => Kind::Quote,
        "ul" => Kind::BulletList,
        "ol" => Kind::NumberedList,
        "li" => Kind::Item,
        "pre" => Kind::Preformatted,
        "hr" => Kind::Line,
        "a" => Kind::Link,
        "em" | "i" => Kind::Emphasis,
        "strong" | "b" => Kind::Strong,
        "code" => Kind::Code,
        "img" => Kind::Image,
        "script" | "style" | "meta" | "link" => Kind::Removed,
        _ => Kind::Plain,
    }
}

#[rustfmt::skip]
fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address" | "article" | "aside" | "audio" | "blockquote" | "body" | "canvas" | "center" | "dd" | "dir" | "div"
            | "dl" | "dt" | "fieldset" | "figcaption" | "figure" | "footer" | "form" | "frameset" | "h1" | "h2" | "h3"
            | "h4" | "h5" | "h6" | "header" | "hgroup" | "hr" | "html" | "isindex" | "li" | "main" | "menu" | "nav"
            | "noframes" | "noscript" | "ol" | "output" | "p" | "pre" | "section" | "table" | "tbody" | "td" | "tfoot"
            | "th" | "thead" | "tr" | "ul"
    )
}

#[rustfmt::skip]
fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area" | "base" | "br" | "col" | "command" | "embed" | "hr" | "img" | "input" | "keygen" | "link" | "meta"
            | "param" | "source" | "track" | "wbr"
    )
}

fn matters_blank(name: &str) -> bool {
    matches!(
        name,
        "a" | "table" | "thead" | "tbody" | "tfoot" | "th" | "td" | "iframe" | "script" | "audio" | "video"
    )
}
