//! HTML to plain text (`docs/spec/web-tools.md` §1.8): what is left without the tags.
//!
//! *Invariant:* no tree is built and nothing is put between elements: a line of the page is a line of the text.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use html5ever::LocalName;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult};

use super::source::{self, Reader};
use super::space::trim;

/// Returns the text of a page, without that of scripts, styles and what is embedded.
pub fn to_text(html: &str) -> String {
    let reader = source::read(html, Text::default());
    trim(&reader.state.into_inner().text).to_owned()
}

#[derive(Default)]
struct Text {
    state: RefCell<State>,
    tokens: Cell<usize>,
    reads_raw: Cell<bool>,
}

#[derive(Default)]
struct State {
    text: String,
    open: Vec<Open>,
    /// How many elements of a name are open.
    names: HashMap<LocalName, usize>,
    /// How many of the open elements have no text to be shown.
    hidden: usize,
}

/// An open element.
struct Open {
    name: LocalName,
    /// What is in it is a drawing or a formula, where any tag may close itself.
    is_foreign: bool,
}

impl State {
    fn is_foreign(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_foreign)
    }

    /// Returns how the content is to be read, if not as markup.
    fn begin(&mut self, tag: &Tag) -> Option<RawKind> {
        while self.open.last().is_some_and(|open| ends(&tag.name, &open.name)) {
            self.close_last();
        }
        if is_void(&tag.name) {
            return None;
        }
        let raw = raw_kind(&tag.name).filter(|_| !self.is_foreign());
        let is_foreign = match &*tag.name {
            "svg" | "math" => true,
            "annotation-xml" | "desc" | "foreignobject" | "mi" | "mn" | "mo" | "ms" | "mtext" | "title" => false,
            _ => self.is_foreign(),
        };
        *self.names.entry(tag.name.clone()).or_default() += 1;
        self.hidden += usize::from(is_hidden(&tag.name));
        self.open.push(Open {
            name: tag.name.clone(),
            is_foreign,
        });
        if tag.self_closing && is_foreign {
            self.close_last();
            return None;
        }
        raw
    }

    /// Closes an element with those in it; does nothing if none of that name is open.
    fn end(&mut self, name: &LocalName) {
        if self.names.get(name).is_none_or(|open| *open == 0) {
            return;
        }
        while self.close_last().is_some_and(|closed| closed != *name) {}
    }

    fn close_last(&mut self) -> Option<LocalName> {
        let Open { name, .. } = self.open.pop()?;
        if let Some(open) = self.names.get_mut(&name) {
            *open -= 1;
        }
        self.hidden -= usize::from(is_hidden(&name));
        Some(name)
    }
}

impl TokenSink for Text {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut state = self.state.borrow_mut();
        match token {
            Token::CharacterTokens(text) if state.hidden == 0 => state.text.push_str(&text),
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => {
                if let Some(raw) = state.begin(&tag) {
                    self.reads_raw.set(true);
                    self.tokens.set(self.tokens.get() + 1);
                    return TokenSinkResult::RawData(raw);
                }
            }
            Token::TagToken(tag) => {
                self.reads_raw.set(false);
                state.end(&tag.name);
            }
            Token::ParseError(_) => return TokenSinkResult::Continue,
            Token::CharacterTokens(_)
            | Token::CommentToken(_)
            | Token::DoctypeToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken => {}
        }
        self.tokens.set(self.tokens.get() + 1);
        TokenSinkResult::Continue
    }
}

impl Reader for Text {
    fn tokens(&self) -> usize {
        self.tokens.get()
    }

    fn reads_raw(&self) -> bool {
        self.reads_raw.get()
    }

    fn is_full(&self) -> bool {
        false
    }
}

fn is_hidden(name: &str) -> bool {
    matches!(name, "script" | "style" | "noscript" | "iframe" | "object" | "embed")
}

#[rustfmt::skip]
fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area" | "base" | "basefont" | "br" | "col" | "command" | "embed" | "frame" | "hr" | "img" | "input" | "isindex"
            | "keygen" | "link" | "meta" | "param" | "source" | "track" | "wbr"
    )
}

fn raw_kind(name: &str) -> Option<RawKind> {
    match name {
        "script" => Some(RawKind::ScriptData),
        "style" | "xmp" => Some(RawKind::Rawtext),
        "title" | "textarea" => Some(RawKind::Rcdata),
        _ => None,
    }
}

/// Says whether a tag ends an element that is open: pages leave out such end tags, and hidden elements would not end.
fn ends(tag: &str, open: &str) -> bool {
    match tag {
        "tr" => matches!(open, "tr" | "th" | "td"),
        "th" => open == "th",
        "td" => matches!(open, "thead" | "th" | "td"),
        "body" => matches!(open, "head" | "link" | "script"),
        "li" => open == "li",
        "option" => open == "option",
        "optgroup" => matches!(open, "optgroup" | "option"),
        "dd" | "dt" => matches!(open, "dd" | "dt"),
        "rt" | "rp" => matches!(open, "rt" | "rp"),
        "tbody" | "tfoot" => matches!(open, "thead" | "tbody"),
        "button" | "datalist" | "input" | "output" | "select" | "textarea" => matches!(
            open,
            "button" | "datalist" | "input" | "optgroup" | "option" | "select" | "textarea"
        ),
        "address" | "article" | "aside" | "blockquote" | "details" | "div" | "dl" | "fieldset" | "figcaption"
        | "figure" | "footer" | "form" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "header" | "hr" | "main" | "nav"
        | "ol" | "p" | "pre" | "section" | "table" | "ul" => open == "p",
        _ => false,
    }
}
