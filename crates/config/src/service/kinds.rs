//! The kinds of values that a key may have: how each is read from a file, a variable or a flag, checked, and shown.
//!
//! *Invariant:* what is not in its range is an error that says what was expected; nothing is made to fit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use super::values::{CertificateConfig, RawSandboxAgent, RawWorkspace};
use crate::environment::Environment;
use crate::units;

/// More of anything that is counted is a slip of the hand.
pub const MAX_COUNT: u32 = 1_000_000;

/// What a value may look like, for schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`.
    Switch,
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// A duration such as `10s`.
    Duration,
    /// A duration, or `none`.
    DurationOrNone,
    /// A number of bytes.
    Size,
    /// A number from this to [`MAX_COUNT`].
    Count(u32),
    /// One of these.
    Word(Vec<&'static str>),
    /// A table, or a list of tables.
    Tables,
}

/// What a value means may depend on this.
pub(super) struct Context<'a> {
    pub(super) env: &'a Environment,
    /// What relative paths belong to.
    pub(super) base: &'a Path,
}

/// A value as it stands in one layer.
pub(super) enum Written<'a> {
    File(&'a Spanned<DeValue<'a>>),
    Variable(&'a str),
    Flag(&'a toml::Value),
}

/// Why a value cannot be read, and where in the file that is if it is not at the key.
pub(super) struct Malformed {
    pub(super) offset: Option<usize>,
    pub(super) message: String,
}

impl From<String> for Malformed {
    fn from(message: String) -> Self {
        Self { offset: None, message }
    }
}

impl From<toml::de::Error> for Malformed {
    fn from(error: toml::de::Error) -> Self {
        Self {
            offset: error.span().map(|span| span.start),
            message: error.message().trim().to_owned(),
        }
    }
}

/// The form of a value, before it is known what it means.
pub(super) trait Raw: DeserializeOwned + 'static {
    /// Reads it as variables have it.
    fn from_text(text: &str) -> Result<Self, String>;
}

impl Written<'_> {
    fn read<R: Raw>(&self) -> Result<R, Malformed> {
        Ok(match self {
            Self::File(value) => R::deserialize(ValueDeserializer::from((*value).clone()))?,
            Self::Variable(text) => R::from_text(text)?,
            Self::Flag(value) => R::deserialize((*value).clone())?,
        })
    }
}

impl Raw for String {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl Raw for bool {
    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "0" | "false" => Ok(false),
            "1" | "true" => Ok(true),
            other => Err(format!("expected 1, true, 0 or false, found {other:?}")),
        }
    }
}

impl Raw for i64 {
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("expected a number, found {text:?}"))
    }
}

impl Raw for Vec<String> {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.split(',').map(|one| one.trim().to_owned()).collect())
    }
}

/// A size: an integer, or a text such as `8MiB`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number of bytes such as 1048576 or \"8MiB\"")]
pub(super) enum RawSize {
    Bytes(u64),
    Text(String),
}

impl Raw for RawSize {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self::Text(text.to_owned()))
    }
}

/// A list that a variable has one entry of, since that may hold a comma.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct OneOrList(Vec<String>);

impl Raw for OneOrList {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self(vec![text.to_owned()]))
    }
}

impl Raw for Vec<RawWorkspace> {
    fn from_text(text: &str) -> Result<Self, String> {
        pairs(text, "name=folder", |name, directory| RawWorkspace {
            name,
            directory: directory.into(),
            self_approval: None,
            trust: None,
        })
    }
}

impl Raw for BTreeMap<String, RawSandboxAgent> {
    /// Reads `plan=read-only,build=workspace-write/allow`: for each agent its mode and, after a slash, its network.
    fn from_text(text: &str) -> Result<Self, String> {
        pairs(text, "agent=mode or agent=mode/network", |agent, rule| {
            let mut words = rule.splitn(2, '/').map(|word| word.trim().to_owned());
            let (mode, network) = (words.next(), words.next());
            (agent, RawSandboxAgent { mode, network })
        })
    }
}

/// Reads `name=value,other=value`.
fn pairs<T, C: FromIterator<T>>(text: &str, form: &str, entry: fn(String, &str) -> T) -> Result<C, String> {
    let entries = text.split(',').map(|one| one.split_once('='));
    let entries = entries.map(|pair| pair.map(|(name, value)| entry(name.trim().to_owned(), value.trim())));
    let expected = || format!("expected {form}, separated by commas, found {text:?}");
    entries.collect::<Option<_>>().ok_or_else(expected)
}

impl Raw for Vec<CertificateConfig> {
    fn from_text(_: &str) -> Result<Self, String> {
        Err("a list of tables can be set in the file only".to_owned())
    }
}

type Parse<R, T> = Box<dyn Fn(R, &Context<'_>) -> Result<T, String>>;

/// One kind of values: of the form `R`, meaning a `T`.
pub(super) struct Kind<R, T> {
    pub(super) shape: Shape,
    parse: Parse<R, T>,
    show: Box<dyn Fn(&T) -> String>,
}

impl<R: Raw, T: 'static> Kind<R, T> {
    pub(super) fn new(
        shape: Shape,
        parse: impl Fn(R, &Context<'_>) -> Result<T, String> + 'static,
        show: impl Fn(&T) -> String + 'static,
    ) -> Self {
        let (parse, show) = (Box::new(parse), Box::new(show));
        Self { shape, parse, show }
    }

    /// Checks the form of a value.
    pub(super) fn check(&self, written: &Written<'_>) -> Result<(), Malformed> {
        written.read::<R>().map(drop)
    }

    pub(super) fn parse(&self, written: &Written<'_>, context: &Context<'_>) -> Result<T, Malformed> {
        Ok((self.parse)(written.read()?, context)?)
    }

    /// Writes a value as people would.
    pub(super) fn show(&self, value: &T) -> String {
        or_none((self.show)(value))
    }

    pub(super) fn shown(self, show: impl Fn(&T) -> String + 'static) -> Self {
        Self {
            show: Box::new(show),
            ..self
        }
    }

    /// Refuses what does not fit with a message.
    pub(super) fn that(self, fits: impl Fn(&T) -> bool + 'static, message: impl Fn(&T) -> String + 'static) -> Self {
        let Self { shape, parse, show } = self;
        let checked = move |raw, context: &Context<'_>| {
            let value = parse(raw, context)?;
            if fits(&value) { Ok(value) } else { Err(message(&value)) }
        };
        Self::new(shape, checked, show)
    }

    /// Lets it be absent.
    pub(super) fn optional(self) -> Kind<R, Option<T>> {
        let Self { shape, parse, show } = self;
        let show = move |value: &Option<T>| value.as_ref().map(&show).unwrap_or_default();
        Kind::new(shape, move |raw, context| parse(raw, context).map(Some), show)
    }
}

impl<T: 'static> Kind<String, T> {
    /// Lets it be absent, and switched off with `none`.
    pub(super) fn or_none(self) -> Kind<String, Option<T>> {
        let Kind { shape, parse, show } = self.optional();
        let shape = if shape == Shape::Duration {
            Shape::DurationOrNone
        } else {
            shape
        };
        let parse = move |raw: String, context: &Context<'_>| match raw.as_str() {
            "none" => Ok(None),
            _ => parse(raw, context),
        };
        Kind::new(shape, parse, show)
    }
}

pub(super) fn switch() -> Kind<bool, bool> {
    Kind::new(Shape::Switch, |on, _| Ok(on), bool::to_string)
}

pub(super) fn duration() -> Kind<String, Duration> {
    let show = |time: &Duration| units::show_duration(*time);
    Kind::new(Shape::Duration, |text: String, _| units::duration(&text), show)
}

pub(super) fn at_most(max: Duration) -> Kind<String, Duration> {
    let expected = move |time: &Duration| {
        let (max, found) = (units::show_duration(max), units::show_duration(*time));
        format!("expected at most {max}, found {found}")
    };
    duration().that(move |time| *time <= max, expected)
}

/// `otherwise` says what else the value may be.
pub(super) fn more_than_nothing(otherwise: &'static str) -> Kind<String, Duration> {
    let expected = move |_: &Duration| format!("expected more than no time at all{otherwise}");
    duration().that(|time| !time.is_zero(), expected)
}

pub(super) fn size() -> Kind<RawSize, u64> {
    let parse = |raw, _: &Context<'_>| {
        let (bytes, written) = match raw {
            RawSize::Bytes(bytes) => (bytes, bytes.to_string()),
            RawSize::Text(text) => (units::size(&text)?, format!("{text:?}")),
        };
        match bytes {
            0 => Err(format!("expected at least one byte, found {written}")),
            bytes => Ok(bytes),
        }
    };
    Kind::new(Shape::Size, parse, |bytes| units::show_size(*bytes))
}

/// A number that is at least `least`.
pub(super) fn count(least: u32) -> Kind<i64, u32> {
    let parse = move |count: i64, _: &Context<'_>| {
        let fits = u32::try_from(count)
            .ok()
            .filter(|count| (least..=MAX_COUNT).contains(count));
        fits.ok_or_else(|| format!("expected a number from {least} to {MAX_COUNT}, found {count}"))
    };
    Kind::new(Shape::Count(least), parse, u32::to_string)
}

/// One of several words.
pub(super) fn word<T: Copy + PartialEq + 'static>(words: &'static [(&'static str, T)]) -> Kind<String, T> {
    let shape = Shape::Word(words.iter().map(|(word, _)| *word).collect());
    let show = move |value: &T| {
        let word = words.iter().find(|(_, known)| known == value);
        word.map_or("", |(word, _)| word).to_owned()
    };
    Kind::new(shape, move |text: String, _| meaning(&text, words), show)
}

/// Returns what a word stands for.
pub(super) fn meaning<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let known = words.iter().find(|(word, _)| *word == text);
    known.map(|(_, value)| *value).ok_or_else(|| {
        let mut names: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let last = names.pop().unwrap_or_default();
        format!("expected {} or {last}, found {text:?}", names.join(", "))
    })
}

/// A text that means something.
pub(super) fn text<T: ToString + 'static>(parse: impl Fn(&str) -> Result<T, String> + 'static) -> Kind<String, T> {
    Kind::new(Shape::Text, move |text: String, _| parse(&text), T::to_string)
}

/// A text that is not empty.
pub(super) fn name() -> Kind<String, String> {
    let expected = |_: &String| "expected a text that is not empty".to_owned();
    text(|text| Ok(text.to_owned())).that(|text| !text.trim().is_empty(), expected)
}

pub(super) fn path() -> Kind<String, PathBuf> {
    let show = |path: &PathBuf| path.display().to_string();
    Kind::new(Shape::Text, |text: String, context| context.path(&text), show)
}

/// A file and what it holds, which is read at once and never shown.
pub(super) fn content<T: 'static>(read: fn(&Path) -> Result<T, String>) -> Kind<String, (PathBuf, T)> {
    let parse = move |text: String, context: &Context<'_>| {
        let path = context.path(&text)?;
        let content = read(&path)?;
        Ok((path, content))
    };
    Kind::new(Shape::Text, parse, |(path, _)| path.display().to_string())
}

/// A list of values.
pub(super) fn list<T: 'static>(one: Kind<String, T>) -> Kind<Vec<String>, Vec<T>> {
    let Kind { parse, show, .. } = one;
    let parse =
        move |texts: Vec<String>, context: &Context<'_>| texts.into_iter().map(|text| parse(text, context)).collect();
    Kind::new(Shape::Texts, parse, move |list: &Vec<T>| joined(list, &show))
}

/// As [`list`], but a variable has one entry only.
pub(super) fn one_or_list(check: fn(&[String]) -> Result<(), String>) -> Kind<OneOrList, Vec<String>> {
    let parse = move |OneOrList(texts), _: &Context<'_>| check(&texts).map(|()| texts);
    Kind::new(Shape::Texts, parse, |list: &Vec<String>| list.join(","))
}

/// A list of tables.
pub(super) fn tables<T: 'static>(
    parse: impl Fn(Vec<T>, &Context<'_>) -> Result<Vec<T>, String> + 'static,
    show: fn(&T) -> String,
) -> Kind<Vec<T>, Vec<T>>
where
    Vec<T>: Raw,
{
    Kind::new(Shape::Tables, parse, move |entries: &Vec<T>| joined(entries, show))
}

fn joined<T>(list: &[T], show: impl Fn(&T) -> String) -> String {
    list.iter().map(show).collect::<Vec<_>>().join(",")
}

/// What is empty is none.
pub(super) fn or_none(shown: String) -> String {
    if shown.is_empty() { "none".to_owned() } else { shown }
}

impl Context<'_> {
    /// Makes a path absolute.
    pub(super) fn path(&self, text: &str) -> Result<PathBuf, String> {
        if text.is_empty() || text.contains('\0') {
            return Err(format!("expected a path, found {text:?}"));
        }
        Ok(self.env.resolve(text, self.base))
    }
}
