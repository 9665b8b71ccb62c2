//! Secrets that the configuration names, and how they are kept out of what leaves the service: the audit, the log, the
//! events of calls and their outputs.
//!
//! A secret is looked for as it is, as JSON, Rust and shells write it in quotes, in hexadecimal, percent-encoded, and in Base64
//! wherever in an encoded text it begins, these also where they are broken into lines. Where occurrences overlap, all that
//! they cover goes.
//!
//! *Invariant:* a leaf. Nothing of what is executed or digested passes here: only what is shown or kept for showing. A
//! [`Redactor`] without secrets borrows what it gets, and so costs nothing.

mod forms;
mod lines;
mod shown;
mod stream;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

pub use stream::Stream;

/// What stands where a secret was.
pub const MARK: &str = "[redacted]";

/// A shorter value would be found in texts that have nothing to do with it.
pub const MIN_SECRET_BYTES: usize = 6;

/// A longer line is not a secret that anybody could use as one.
pub const MAX_SECRET_BYTES: usize = 4096;

/// Secrets in one configuration.
const MAX_SECRETS: usize = 1000;

/// Of a secret cut at the edge of a text, this much is recognised.
const EDGE_BYTES: usize = 4;

/// The compiled searches may take this much memory.
const REGEX_BYTES: usize = 64 << 20;

/// Why secrets cannot be looked for.
#[derive(Debug, thiserror::Error)]
pub enum RedactError {
    /// A value is too short or too long.
    #[error("a secret has {found} bytes; {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} are possible")]
    Length {
        /// Its bytes.
        found: usize,
    },
    /// There are too many.
    #[error("there are {found} secrets; at most {MAX_SECRETS} are possible")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// A pattern is not a regular expression, or would match everything.
    #[error("the pattern {pattern:?} cannot be used")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The values together are too large to be looked for.
    #[error("the secrets are too large together")]
    TooLarge(#[source] regex::Error),
}

/// Takes secrets out of texts. Cheap to clone.
#[derive(Clone, Default)]
pub struct Redactor(Option<Arc<Rules>>);

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.0.as_ref().map_or(0, |rules| rules.needles.len());
        write!(f, "Redactor({count} needles)")
    }
}

/// What is looked for.
struct Rules {
    /// The secrets in all their forms; the first `plain` of them as they are.
    needles: Vec<Finder<'static>>,
    plain: usize,
    patterns: Vec<Regex>,
    /// Matches wherever a needle does: most texts pass this one search, and are not looked through for each needle.
    any: Regex,
    /// Those of the needles that are looked for across the ends of lines.
    wrapped: Vec<Finder<'static>>,
}

impl Redactor {
    /// Makes a redactor of secrets and of regular expressions for what else is one.
    ///
    /// # Errors
    /// See [`RedactError`]; no value is in its text.
    pub fn new(secrets: &[String], patterns: &[String]) -> Result<Self, RedactError> {
        if secrets.is_empty() && patterns.is_empty() {
            return Ok(Self(None));
        }
        if secrets.len() > MAX_SECRETS {
            return Err(RedactError::TooMany { found: secrets.len() });
        }
        if let Some(wrong) = secrets
            .iter()
            .find(|secret| !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&secret.len()))
        {
            return Err(RedactError::Length { found: wrong.len() });
        }
        let mut secrets = secrets.to_vec();
        secrets.sort();
        secrets.dedup();
        let plain = secrets.len();
        let mut forms = secrets.clone();
        forms.extend(secrets.iter().flat_map(|secret| forms::encoded(secret)));
        let compiled = patterns
            .iter()
            .map(|pattern| compile(pattern))
            .collect::<Result<_, _>>()?;
        let literals: Vec<String> = forms.iter().map(|form| regex::escape(form)).collect();
        let any = RegexBuilder::new(&literals.join("|")).size_limit(REGEX_BYTES).build();
        let any = any.map_err(RedactError::TooLarge)?;
        let finder = |form: &String| Finder::new(form.as_bytes()).into_owned();
        let needles = forms.iter().map(finder);
        let wrapped = secrets.iter().flat_map(|secret| forms::wrapped(secret));
        let wrapped: Vec<_> = wrapped.map(|form| finder(&form)).collect();
        Ok(Self(Some(Arc::new(Rules {
            needles: needles.collect(),
            plain,
            patterns: compiled,
            any,
            wrapped,
        }))))
    }

    /// Says whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Says whether a text is shown as it is.
    pub fn is_shown(&self, text: &str) -> bool {
        matches!(self.text(text), Cow::Borrowed(_))
    }

    /// Returns a text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A pattern may cut a character where it says (?-u).
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Takes secrets out of a text in its place.
    pub fn string(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.text(text) {
            *text = redacted;
        }
    }

    /// Returns bytes without secrets.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(rules) = &self.0 else {
            return Cow::Borrowed(bytes);
        };
        replace(bytes, &rules.find(bytes))
    }

    /// Returns what takes secrets out of a text that comes in pieces; nothing if there is nothing to look for.
    pub fn stream(&self) -> Option<Stream> {
        self.0.clone().map(Stream::new)
    }

    /// As [`Self::text`], and what of a secret is cut at either end of the text goes as well.
    fn piece<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(rules) = &self.0 else {
            return Cow::Borrowed(text);
        };
        let bytes = text.as_bytes();
        let mut found = rules.find(bytes);
        found.extend(rules.edges(bytes));
        match replace(bytes, &merged(found)) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

fn compile(pattern: &str) -> Result<Regex, RedactError> {
    let wrong = |source: Box<dyn std::error::Error + Send + Sync>| RedactError::Pattern {
        pattern: pattern.to_owned(),
        source,
    };
    let compiled = Regex::new(pattern).map_err(|error| wrong(error.into()))?;
    if compiled.is_match(b"") {
        return Err(wrong("it matches an empty text".into()));
    }
    Ok(compiled)
}

impl Rules {
    /// Returns what is secret, in order and apart.
    fn find(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let needles = if !self.needles.is_empty() && self.any.is_match(bytes) {
            &self.needles[..]
        } else {
            &[]
        };
        for needle in needles {
            let length = needle.needle().len();
            let mut from = 0;
            // Also where one occurrence begins inside another.
            while let Some(at) = bytes.get(from..).and_then(|rest| needle.find(rest)) {
                found.push(from + at..from + at + length);
                from += at + 1;
            }
        }
        for pattern in &self.patterns {
            found.extend(pattern.find_iter(bytes).map(|found| found.range()));
        }
        if let Some(joined) = lines::Joined::new(bytes).filter(|joined| self.any.is_match(&joined.bytes)) {
            for needle in &self.wrapped {
                let length = needle.needle().len();
                let mut from = 0;
                while let Some(at) = joined.bytes.get(from..).and_then(|rest| needle.find(rest)) {
                    found.push(joined.place(from + at)..joined.place(from + at + length - 1) + 1);
                    from += at + 1;
                }
            }
        }
        merged(found)
    }

    /// Returns where the longest end of the bytes begins that may grow into a secret.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        let begins = |needle: &Finder<'_>| {
            let needle = needle.needle();
            let longest = bytes.len().min(needle.len() - 1);
            (1..=longest)
                .rev()
                .find(|length| bytes.ends_with(&needle[..*length]))
                .map(|length| bytes.len() - length)
        };
        let plain = self.needles.iter().filter_map(begins).min().unwrap_or(bytes.len());
        // Only so much of the end can belong to one that is broken into lines, however short these are.
        let longest = self.wrapped.iter().map(|needle| needle.needle().len()).max();
        let tail = bytes.len().saturating_sub(longest.unwrap_or(0) * 3);
        let Some(joined) = lines::Joined::new_unfinished(&bytes[tail..]) else {
            return plain;
        };
        let begins_wrapped = |needle: &Finder<'_>| {
            let needle = needle.needle();
            let longest = joined.bytes.len().min(needle.len() - 1);
            let length = (1..=longest)
                .rev()
                .find(|length| joined.bytes.ends_with(&needle[..*length]))?;
            Some(tail + joined.place(joined.bytes.len() - length))
        };
        self.wrapped
            .iter()
            .filter_map(begins_wrapped)
            .min()
            .unwrap_or(plain)
            .min(plain)
    }

    fn edges(&self, bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
        let cut = |needle: &Finder<'_>| {
            let needle = needle.needle();
            let longest = bytes.len().min(needle.len() - 1);
            let lengths = || (EDGE_BYTES..=longest).rev();
            let head = lengths().find(|length| bytes.starts_with(&needle[needle.len() - length..]));
            let tail = lengths().find(|length| bytes.ends_with(&needle[..*length]));
            let head = head.map(|length| 0..length);
            head.into_iter()
                .chain(tail.map(|length| bytes.len() - length..bytes.len()))
        };
        self.needles[..self.plain].iter().flat_map(cut)
    }
}

fn merged(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            Some(_) | None => apart.push(range),
        }
    }
    apart
}

fn replace<'a>(bytes: &'a [u8], found: &[Range<usize>]) -> Cow<'a, [u8]> {
    if found.is_empty() {
        return Cow::Borrowed(bytes);
    }
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for range in found {
        replaced.extend_from_slice(&bytes[from..range.start]);
        replaced.extend_from_slice(MARK.as_bytes());
        from = range.end;
    }
    replaced.extend_from_slice(&bytes[from..]);
    Cow::Owned(replaced)
}

#[cfg(test)]
mod tests;
