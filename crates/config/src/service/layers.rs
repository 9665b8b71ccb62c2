//! The layers of the configuration: the strongest one that says something of a key decides.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::kinds::{Context, Kind, Malformed, Written, table};
use super::values::{Setting, Source};
use crate::environment::Environment;
use crate::error::{ConfigError, Position, Problem};

/// What the command line says: values as a file would have them, by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawConfig(BTreeMap<String, toml::Value>);

impl RawConfig {
    /// Adds a value.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a value, if there is one.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl Into<toml::Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds workspaces by name and folder, if there are any.
    #[must_use]
    pub fn with_workspaces(self, workspaces: &[(&str, String)]) -> Self {
        let entries = workspaces.iter();
        let entries: Vec<_> = entries
            .map(|(name, folder)| table([("name", *name), ("directory", folder)]))
            .collect();
        self.with_some("workspaces", (!entries.is_empty()).then_some(entries))
    }
}

/// One key of the configuration.
pub struct Key {
    /// Its name, such as `listen.tcp`.
    pub path: &'static str,
    /// Its documentation.
    pub doc: &'static str,
    /// What its values look like.
    pub shape: fn() -> super::Shape,
    pub(super) check: fn(&Written<'_>) -> Result<(), Malformed>,
}

/// What one file, all variables or all flags say.
pub(super) enum Layer<'a> {
    File {
        path: PathBuf,
        text: &'a str,
        root: DeTable<'a>,
    },
    Variables(&'a Environment),
    Flags(&'a RawConfig),
}

impl<'a> Layer<'a> {
    pub(super) fn file(path: PathBuf, text: &'a str) -> Result<Self, ConfigError> {
        let root = DeTable::parse(text).map_err(|error| {
            let position = error.span().map(|span| Position::at(text, span.start));
            ConfigError::invalid(path.display(), Problem::new(position, "", error.message().trim()))
        })?;
        let root = root.into_inner();
        Ok(Self::File { path, text, root })
    }

    /// Returns the file that it was read from.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::File { path, .. } => Some(path.clone()),
            Self::Variables(_) | Self::Flags(_) => None,
        }
    }

    /// Checks that it names known keys only, and that the form of their values is right.
    pub(super) fn check(&self, keys: &[Key]) -> Result<(), ConfigError> {
        match self {
            Self::File { root, .. } => self.check_names(keys, root, "")?,
            Self::Variables(_) => {}
            Self::Flags(RawConfig(flags)) => {
                if let Some(name) = flags.keys().find(|name| !keys.iter().any(|key| key.path == *name)) {
                    return Err(self.error(name, "it is not known".to_owned()));
                }
            }
        }
        let written = keys.iter().filter_map(|key| Some((key, self.written(key.path)?)));
        let mut checked = written.map(|(key, written)| (key.check)(&written).map_err(|why| self.error(key.path, why)));
        checked.try_for_each(|checked| checked)
    }

    fn check_names(&self, keys: &[Key], table: &DeTable<'_>, prefix: &str) -> Result<(), ConfigError> {
        for (name, value) in table {
            let at = |message: String| {
                let offset = Some(name.span().start);
                self.error(&format!("{prefix}{}", name.get_ref()), Malformed { offset, message })
            };
            let path = format!("{prefix}{}.", name.get_ref());
            let is_plain = !name.get_ref().contains('.');
            let known = || keys.iter().filter_map(|key| key.path.strip_prefix(prefix));
            if is_plain && known().any(|rest| rest == name.get_ref()) {
                continue;
            }
            if !is_plain || !keys.iter().any(|key| key.path.starts_with(&path)) {
                let mut names: Vec<String> = known()
                    .map(|rest| format!("`{}`", rest.split('.').next().unwrap_or(rest)))
                    .collect();
                names.dedup();
                let names = names.join(", ");
                return Err(at(format!(
                    "unknown field `{}`, expected one of {names}",
                    name.get_ref()
                )));
            }
            match value.get_ref().as_table() {
                Some(table) => self.check_names(keys, table, &path)?,
                None => return Err(at("expected a table".to_owned())),
            }
        }
        Ok(())
    }

    /// Returns what it says of a key.
    fn written(&self, key: &str) -> Option<Written<'_>> {
        match self {
            Self::File { root, .. } => find(root, key).1.map(Written::File),
            Self::Variables(env) => env.get(&variable_of(key)).map(Written::Variable),
            Self::Flags(RawConfig(flags)) => flags.get(key).map(Written::Flag),
        }
    }

    /// Returns the place of an offset, else that of a key.
    fn position(&self, key: &str, offset: Option<usize>) -> Option<Position> {
        let Self::File { root, text, .. } = self else {
            return None;
        };
        let offset = offset.or_else(|| find(root, key).0);
        offset.map(|offset| Position::at(text, offset))
    }

    fn source(&self, key: &str) -> Source {
        match self {
            Self::File { path, .. } => Source::File {
                path: path.clone(),
                line: self.position(key, None).map(|place| place.line),
            },
            Self::Variables(_) => Source::Variable(variable_of(key)),
            Self::Flags(_) => Source::Flag,
        }
    }

    fn error(&self, key: &str, why: impl Into<Malformed>) -> ConfigError {
        let Malformed { offset, message } = why.into();
        let (place, name) = match self {
            Self::File { path, .. } => (format!("at {}", path.display()), key.to_owned()),
            Self::Variables(_) => ("in the environment".to_owned(), variable_of(key)),
            Self::Flags(_) => ("on the command line".to_owned(), key.to_owned()),
        };
        ConfigError::invalid_in(place, Problem::new(self.position(key, offset), name, message))
    }
}

/// Returns where the name of a key begins, or that of the last table on the way to it, and the value of the key.
fn find<'t, 'a>(root: &'t DeTable<'a>, key: &str) -> (Option<usize>, Option<&'t Spanned<DeValue<'a>>>) {
    let (mut table, mut place) = (Some(root), None);
    let mut segments = key.split('.').peekable();
    while let Some(segment) = segments.next() {
        let entries = table.into_iter().flatten();
        let Some((name, value)) = entries.into_iter().find(|(name, _)| name.get_ref() == segment) else {
            break;
        };
        place = Some(name.span().start);
        if segments.peek().is_none() {
            return (place, Some(value));
        }
        table = value.get_ref().as_table();
    }
    (place, None)
}

/// Returns the variable of a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("TOOLGATE_{}", key.replace('.', "_").to_ascii_uppercase())
}

/// Takes one value after the other out of the layers, the strongest last.
pub(super) struct Layers<'a> {
    pub(super) layers: &'a [Layer<'a>],
    pub(super) env: &'a Environment,
    pub(super) settings: Vec<Setting>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Layers<'a> {
    /// Takes a value from the strongest layer that has one, and notes it with its source.
    pub(super) fn value<R: DeserializeOwned + 'static, T: 'static>(
        &mut self,
        key: &str,
        kind: &Kind<R, T>,
        default: T,
    ) -> Result<T, ConfigError> {
        let (value, source) = match self.said(key) {
            Some((layer, written)) => {
                let base = match layer {
                    Layer::File { path, .. } => path.parent().unwrap_or(path),
                    Layer::Variables(_) | Layer::Flags(_) => self.env.cwd(),
                };
                let context = Context { env: self.env, base };
                let value = kind.parse(&written, &context).map_err(|why| layer.error(key, why))?;
                (value, layer.source(key))
            }
            None => (default, Source::Default),
        };
        self.settings.push(Setting {
            key: key.to_owned(),
            value: kind.show(&value),
            source,
        });
        Ok(value)
    }

    fn said(&self, key: &str) -> Option<(&'a Layer<'a>, Written<'a>)> {
        let mut strongest_first = self.layers.iter().rev();
        strongest_first.find_map(|layer| Some((layer, layer.written(key)?)))
    }

    /// Returns whether any layer has a value for a key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.said(key).is_some()
    }

    /// Shows another value for a key than the one that was taken.
    pub(super) fn show(&mut self, key: &str, value: String) -> Option<&mut Setting> {
        let setting = self.settings.iter_mut().find(|setting| setting.key == key)?;
        setting.value = value;
        Some(setting)
    }

    /// Says something once.
    pub(super) fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Refuses that `key` has no value although `given` has one.
    pub(super) fn requires(&self, given: &str, key: &str, message: &str) -> Result<(), ConfigError> {
        match self.said(given) {
            Some((layer, _)) if !self.has(key) => Err(layer.error(key, message.to_owned())),
            Some(_) | None => Ok(()),
        }
    }

    /// Makes the error of a value that does not go with another one.
    pub(super) fn conflict(&self, key: &str, message: impl Into<String>) -> ConfigError {
        match self.said(key) {
            Some((layer, _)) => layer.error(key, message.into()),
            None => ConfigError::invalid_in("by default", Problem::new(None, key, message)),
        }
    }
}
