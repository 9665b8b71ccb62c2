//! The kinds of values that a key may have: how each is read from a file, a variable or a flag, checked, and shown.
//!
//! *Invariant:* what is not in its range is an error that says what was expected; nothing is made to fit.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::de::{DeValue, ValueDeserializer};
use toml::{Spanned, Value};

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
    Flag(&'a Value),
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

/// A size: an integer, or a text such as `8MiB`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number of bytes such as 1048576 or \"8MiB\"")]
pub(super) enum RawSize {
    Bytes(u64),
    Text(String),
}

type Parse<R, T> = Box<dyn Fn(R, &Context<'_>) -> Result<T, Malformed>>;
type FromVariable = fn(&str) -> Result<Value, String>;

/// One kind of values: of the form `R`, meaning a `T`.
pub(super) struct Kind<R, T> {
    pub(super) shape: Shape,
    /// Makes of a variable's text what a file would have.
    from_variable: FromVariable,
    parse: Parse<R, T>,
    show: Box<dyn Fn(&T) -> String>,
}

impl<R: DeserializeOwned + 'static, T: 'static> Kind<R, T> {
    pub(super) fn new(
        shape: Shape,
        parse: impl Fn(R, &Context<'_>) -> Result<T, String> + 'static,
        show: impl Fn(&T) -> String + 'static,
    ) -> Self {
        let parse = move |raw: R, context: &Context<'_>| parse(raw, context).map_err(Malformed::from);
        Self::placed(shape, parse, show)
    }

    /// One whose errors say where in the value they are.
    pub(super) fn placed(
        shape: Shape,
        parse: impl Fn(R, &Context<'_>) -> Result<T, Malformed> + 'static,
        show: impl Fn(&T) -> String + 'static,
    ) -> Self {
        let from_variable: FromVariable = match shape {
            Shape::Switch => |text| match text {
                "0" | "false" => Ok(Value::from(false)),
                "1" | "true" => Ok(Value::from(true)),
                other => Err(format!("expected 1, true, 0 or false, found {other:?}")),
            },
            Shape::Count(_) => |text| {
                let count: Result<i64, _> = text.parse();
                count
                    .map(Value::from)
                    .map_err(|_| format!("expected a whole number, found {text:?}"))
            },
            Shape::Texts => |text| Ok(text.split(',').map(str::trim).collect::<Vec<_>>().into()),
            Shape::Tables => |_| Err("a list of tables can be set in the file only".to_owned()),
            Shape::Text | Shape::Duration | Shape::DurationOrNone | Shape::Size | Shape::Word(_) => {
                |text| Ok(text.into())
            }
        };
        let (parse, show) = (Box::new(parse), Box::new(show));
        Self {
            shape,
            from_variable,
            parse,
            show,
        }
    }

    /// Has another form in a variable.
    pub(super) fn with_variable(self, from_variable: FromVariable) -> Self {
        Self { from_variable, ..self }
    }

    fn read(&self, written: &Written<'_>) -> Result<R, Malformed> {
        let read = match written {
            Written::File(value) => R::deserialize(ValueDeserializer::from((*value).clone())),
            Written::Variable(text) => R::deserialize((self.from_variable)(text)?),
            Written::Flag(value) => R::deserialize((*value).clone()),
        };
        read.map_err(|error| {
            let error = Malformed::from(error);
            let message = self.in_words(&error.message);
            Malformed { message, ..error }
        })
    }

    /// Says what was expected in place of the names of types.
    fn in_words(&self, message: &str) -> String {
        let Some((found, _)) = message
            .strip_prefix("invalid type: ")
            .and_then(|rest| rest.rsplit_once(", expected "))
        else {
            return message.to_owned();
        };
        let expected = match self.shape {
            Shape::Count(_) => "a whole number",
            Shape::Texts => "a list of texts",
            Shape::Tables => "a list of tables: write `[[…]]` with double brackets",
            Shape::Switch => "true or false",
            Shape::Text | Shape::Duration | Shape::DurationOrNone | Shape::Size | Shape::Word(_) => {
                return message.to_owned();
            }
        };
        format!("expected {expected}, found {found}")
    }

    /// Checks the form of a value.
    pub(super) fn check(&self, written: &Written<'_>) -> Result<(), Malformed> {
        self.read(written).map(drop)
    }

    pub(super) fn parse(&self, written: &Written<'_>, context: &Context<'_>) -> Result<T, Malformed> {
        (self.parse)(self.read(written)?, context)
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
        let Self { shape, parse, show, .. } = self;
        let checked = move |raw, context: &Context<'_>| {
            let value = parse(raw, context)?;
            if fits(&value) {
                Ok(value)
            } else {
                Err(Malformed::from(message(&value)))
            }
        };
        Self::placed(shape, checked, show).with_variable(self.from_variable)
    }

    /// Lets it be absent.
    pub(super) fn optional(self) -> Kind<R, Option<T>> {
        let Self { shape, parse, show, .. } = self;
        let show = move |value: &Option<T>| value.as_ref().map(&show).unwrap_or_default();
        Kind::placed(shape, move |raw, context| parse(raw, context).map(Some), show)
    }
}

impl<T: 'static> Kind<String, T> {
    /// Lets it be absent, and switched off with `none`.
    pub(super) fn or_none(self) -> Kind<String, Option<T>> {
        let Kind { shape, parse, show, .. } = self.optional();
        let of_none = match shape == Shape::Duration {
            true => Shape::DurationOrNone,
            false => shape,
        };
        let parse = move |raw: String, context: &Context<'_>| match raw.as_str() {
            "none" => Ok(None),
            _ => parse(raw, context),
        };
        Kind::placed(of_none, parse, show)
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

pub(super) fn between((least, most): (Duration, Duration)) -> Kind<String, Duration> {
    let expected = move |time: &Duration| {
        let [least, most, found] = [least, most, *time].map(units::show_duration);
        format!("expected {least} to {most}, found {found}")
    };
    duration().that(move |time| (least..=most).contains(time), expected)
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
    Kind::placed(Shape::Texts, parse, move |list: &Vec<T>| joined(list, &show))
}

pub(super) fn joined<T>(list: &[T], show: impl Fn(&T) -> String) -> String {
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

/// Reads `name=value,other=value`; `form` says so in an error.
pub(super) fn pairs<T, C: FromIterator<T>>(text: &str, form: &str, entry: fn(&str, &str) -> T) -> Result<C, String> {
    let entries = text.split(',').map(|one| one.split_once('='));
    let entries = entries.map(|pair| pair.map(|(name, value)| entry(name.trim(), value.trim())));
    let expected = || format!("expected {form}, separated by commas, found {text:?}");
    entries.collect::<Option<_>>().ok_or_else(expected)
}

/// Makes a table of texts.
pub(super) fn table<const N: usize>(entries: [(&str, &str); N]) -> toml::Table {
    let entries = entries.map(|(key, value)| (key.to_owned(), Value::from(value)));
    entries.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Config, KEYS, RawConfig};
    use super::*;

    fn wrong(flags: RawConfig, vars: &[(&str, &str)]) -> String {
        let vars = [("HOME", "/nowhere/u")].iter().chain(vars);
        let vars = vars.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let env = Environment::new(vars, "/nowhere/w").with_system_dir("/nowhere/etc");
        Config::load(None, flags, &env).unwrap_err().to_string()
    }

    #[test]
    fn keys_are_documented_in_sentences() {
        for key in KEYS {
            assert!(key.doc.starts_with(' ') && key.doc.ends_with('.'), "{}", key.path);
        }
    }

    #[test]
    fn flags_are_checked_as_files_are() {
        let unknown = wrong(RawConfig::default().with("listen.tpc", "x"), &[]);
        assert!(
            unknown.contains("the command line") && unknown.contains("listen.tpc"),
            "{unknown}"
        );
        let form = wrong(RawConfig::default().with("console", "yes"), &[]);
        assert!(
            form.contains("console") && form.contains("expected true or false"),
            "{form}"
        );
    }

    #[test]
    fn a_wrong_value_is_an_error_even_where_a_stronger_layer_decides() {
        let vars = [("TOOLGATE_CONSOLE", "yes"), ("TOOLGATE_AUTH_CERTIFICATES", "x")];
        let flags = RawConfig::default().with("console", true);
        assert!(wrong(flags, &vars[..1]).contains("TOOLGATE_CONSOLE"));
        assert!(wrong(RawConfig::default(), &vars[1..]).contains("in the file only"));
    }
}
