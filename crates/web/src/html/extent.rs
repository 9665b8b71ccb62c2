//! How far a piece of markup reaches, without reading it.
//!
//! *Invariant:* goes by the same rules as the tokenizer, and looks at every byte once.

use memchr::memchr;
use memchr::memmem::find;

/// How many attributes of a tag are read. The tokenizer compares each with all before it, and no page needs so many.
const MAX_ATTRIBUTES: usize = 1000;

/// Where a tag ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The byte after it.
    pub(super) end: usize,
    /// Where the attributes begin that are too many.
    pub(super) excess: Option<usize>,
}

impl Extent {
    fn whole(end: usize) -> Self {
        Self { end, excess: None }
    }
}

/// Returns how far the markup reaches that a text begins with: a tag, a comment, or what is taken for one.
pub(super) fn of_markup(text: &str, is_foreign: bool) -> Extent {
    let bytes = text.as_bytes();
    let name = if bytes.get(1) == Some(&b'/') { 2 } else { 1 };
    if bytes.get(name).is_some_and(u8::is_ascii_alphabetic) {
        return of_tag(bytes, name);
    }
    if bytes.starts_with(b"<!--") {
        return Extent::whole(end_of_comment(bytes));
    }
    if is_foreign && bytes.starts_with(b"<![CDATA[") {
        return Extent::whole(find(bytes, b"]]>").map_or(bytes.len(), |at| at + 3));
    }
    match bytes.get(1) {
        Some(b'!' | b'?' | b'/') => Extent::whole(memchr(b'>', bytes).map_or(bytes.len(), |at| at + 1)),
        Some(_) | None => Extent::whole(1),
    }
}

fn end_of_comment(bytes: &[u8]) -> usize {
    let mut from = 0;
    while let Some(at) = memchr(b'>', &bytes[from..]) {
        let end = from + at;
        if bytes[2..end].ends_with(b"--") || bytes[4.min(end)..end].ends_with(b"--!") {
            return end + 1;
        }
        from = end + 1;
    }
    bytes.len()
}

/// Where in a tag a byte is.
enum Part {
    Name,
    Between,
    Attribute,
    AfterAttribute,
    BeforeValue,
    Value,
}

fn of_tag(bytes: &[u8], name: usize) -> Extent {
    let (mut part, mut attributes, mut excess) = (Part::Name, 0, None);
    let mut at = name;
    while let Some(&byte) = bytes.get(at) {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c');
        part = match (part, byte) {
            (Part::BeforeValue, b'"' | b'\'') => {
                let Some(length) = memchr(byte, &bytes[at + 1..]) else {
                    break;
                };
                at += length + 1;
                Part::Between
            }
            (_, b'>') => return Extent { end: at + 1, excess },
            (Part::Name, b'/') => Part::Between,
            (Part::Name, _) if is_blank => Part::Between,
            (Part::Name, _) => Part::Name,
            (Part::Attribute | Part::AfterAttribute, b'=') => Part::BeforeValue,
            (Part::Attribute | Part::AfterAttribute, b'/') => Part::Between,
            (Part::Attribute | Part::AfterAttribute, _) if is_blank => Part::AfterAttribute,
            (Part::Attribute, _) => Part::Attribute,
            (Part::BeforeValue, _) if is_blank => Part::BeforeValue,
            (Part::BeforeValue, _) => Part::Value,
            (Part::Value, _) if is_blank => Part::Between,
            (Part::Value, _) => Part::Value,
            (Part::Between, b'/') => Part::Between,
            (Part::Between, _) if is_blank => Part::Between,
            (Part::Between | Part::AfterAttribute, _) => {
                attributes += 1;
                if attributes > MAX_ATTRIBUTES && excess.is_none() {
                    excess = Some(at);
                }
                Part::Attribute
            }
        };
        at += 1;
    }
    Extent {
        end: bytes.len(),
        excess,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_where_the_tokenizer_ends() {
        let check = |markup: &str| {
            let text = format!("{markup}x > \" ' --> ]]>");
            assert_eq!(of_markup(&text, true), Extent::whole(markup.len()), "{markup}");
        };
        check("<p>");
        check("</p>");
        check("<br/>");
        check("<a href=x>");
        check("<a href='>' title=\">\">");
        check("<a b='>'c=\">\"d>");
        check("<a b = c d = '>'>");
        check("<a b=c\"d>");
        check("<a/b/c=d/>");
        check("<a =b=c>");
        check("<a \"b'>");
        check("<!-- a > b -->");
        check("<!-->");
        check("<!--->");
        check("<!-- a --!>");
        check("<!doctype html>");
        check("<?xml?>");
        check("</ p>");
        check("<![CDATA[ > ]]>");
    }

    #[test]
    fn says_where_attributes_are_too_many() {
        let all: String = (0..MAX_ATTRIBUTES).map(|at| format!(" a{at}='>'")).collect();
        let text = format!("<p{all}>");
        assert_eq!(of_markup(&text, false), Extent::whole(text.len()));
        let text = format!("<p{all} more and='>' more>");
        let expected = Extent {
            end: text.len(),
            excess: Some(3 + all.len()),
        };
        assert_eq!(of_markup(&text, false), expected);
    }
}
