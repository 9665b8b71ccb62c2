//! Values out of layers: the strongest layer that says something decides, and every value is checked with its source at
//! hand.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::raw::{RawConfig, RawSize};
use super::values::{Setting, Source};
use super::{toml_file, variables};
use crate::environment::Environment;
use crate::error::{ConfigError, Problem};
use crate::units;

/// Where the service listens unless somebody says otherwise.
pub(super) const DEFAULT_TCP: &str = "127.0.0.1:50551";

/// What one file, all variables or all flags say.
pub(super) struct RawLayer {
    raw: RawConfig,
    kind: Kind,
    /// What relative paths belong to.
    pub(super) base: PathBuf,
}

enum Kind {
    File { path: PathBuf, text: String },
    Variables,
    Flags,
}

impl RawLayer {
    pub(super) fn file(raw: RawConfig, path: PathBuf, text: String) -> Self {
        let base = path.parent().unwrap_or(&path).to_path_buf();
        let kind = Kind::File { path, text };
        Self { raw, kind, base }
    }

    pub(super) fn variables(raw: RawConfig, env: &Environment) -> Self {
        let base = env.cwd().to_path_buf();
        let kind = Kind::Variables;
        Self { raw, kind, base }
    }

    pub(super) fn flags(raw: RawConfig, env: &Environment) -> Self {
        let base = env.cwd().to_path_buf();
        let kind = Kind::Flags;
        Self { raw, kind, base }
    }

    /// Returns the file that it was read from.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match &self.kind {
            Kind::File { path, .. } => Some(path.clone()),
            Kind::Variables | Kind::Flags => None,
        }
    }

    pub(super) fn source(&self, key: &str) -> Source {
        match &self.kind {
            Kind::File { path, text } => Source::File {
                path: path.clone(),
                line: toml_file::locate(text, key).map(|place| place.line),
            },
            Kind::Variables => Source::Variable(variables::name_of(key)),
            Kind::Flags => Source::Flag,
        }
    }

    pub(super) fn error(&self, key: &str, message: String) -> ConfigError {
        match &self.kind {
            Kind::File { path, text } => {
                let problem = Problem::new(toml_file::locate(text, key), key, message);
                ConfigError::invalid(path.display(), problem)
            }
            Kind::Variables => {
                ConfigError::invalid("the environment", Problem::new(None, variables::name_of(key), message))
            }
            Kind::Flags => ConfigError::invalid("the command line", Problem::new(None, key, message)),
        }
    }
}

/// Takes one value after the other out of the layers.
pub(super) struct Layered<'a> {
    pub(super) layers: &'a [RawLayer],
    pub(super) env: &'a Environment,
    pub(super) settings: Vec<Setting>,
    pub(super) warnings: Vec<String>,
    /// The files with secrets that the configuration names, and those that it is in.
    pub(super) private_files: Vec<PathBuf>,
}

impl<'a> Layered<'a> {
    /// Returns the strongest layer that says something about a key, and what it says.
    pub(super) fn said<R>(&self, get: impl Fn(&RawConfig) -> &Option<R>) -> Option<(&'a RawLayer, &'a R)> {
        let layers = self.layers;
        layers
            .iter()
            .rev()
            .find_map(|layer| get(&layer.raw).as_ref().map(|value| (layer, value)))
    }

    /// Takes a value from the strongest layer, checks it, and notes it with its source.
    pub(super) fn value<R, T>(
        &mut self,
        key: &str,
        get: impl Fn(&RawConfig) -> &Option<R>,
        parse: impl FnOnce(&R, &Path) -> Result<T, String>,
        default: impl FnOnce() -> T,
        show: impl FnOnce(&T) -> String,
    ) -> Result<T, ConfigError> {
        let (value, source) = match self.said(get) {
            Some((layer, raw)) => {
                let value = parse(raw, &layer.base).map_err(|message| layer.error(key, message))?;
                (value, layer.source(key))
            }
            None => (default(), Source::Default),
        };
        self.record(key, show(&value), source);
        Ok(value)
    }

    /// Says something once.
    pub(super) fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub(super) fn record(&mut self, key: &str, value: String, source: Source) {
        let key = key.to_owned();
        self.settings.push(Setting { key, value, source });
    }

    /// Makes the error of a value that was picked and does not go with another one.
    pub(super) fn conflict<R>(
        &self,
        key: &str,
        get: impl Fn(&RawConfig) -> &Option<R>,
        message: String,
    ) -> ConfigError {
        match self.said(get) {
            Some((layer, _)) => layer.error(key, message),
            None => ConfigError::invalid("the defaults", Problem::new(None, key, message)),
        }
    }

    pub(super) fn duration(
        &mut self,
        key: &str,
        get: impl Fn(&RawConfig) -> &Option<String>,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        let parse = |text: &String, _: &Path| units::duration(text);
        self.value(key, get, parse, || default, |value| units::show_duration(*value))
    }

    /// Takes what is off unless somebody says otherwise.
    pub(super) fn switch(&mut self, key: &str, get: impl Fn(&RawConfig) -> &Option<bool>) -> Result<bool, ConfigError> {
        self.value(key, get, |on, _| Ok(*on), || false, bool::to_string)
    }

    pub(super) fn size(
        &mut self,
        key: &str,
        get: impl Fn(&RawConfig) -> &Option<RawSize>,
        default: u64,
    ) -> Result<u64, ConfigError> {
        let parse = |raw: &RawSize, _: &Path| match raw {
            RawSize::Bytes(0) => Err("expected at least one byte, found 0".to_owned()),
            RawSize::Bytes(bytes) => Ok(*bytes),
            RawSize::Text(text) => units::size(text).and_then(|bytes| match bytes {
                0 => Err(format!("expected at least one byte, found {text:?}")),
                bytes => Ok(bytes),
            }),
        };
        self.value(key, get, parse, || default, |value| units::show_size(*value))
    }

    /// Takes names of variables, in which `*` stands for any characters.
    pub(super) fn names(
        &mut self,
        key: &str,
        get: impl Fn(&RawConfig) -> &Option<Vec<String>>,
        none: &str,
    ) -> Result<Vec<String>, ConfigError> {
        let parse = |names: &Vec<String>, _: &Path| match names.iter().find(|name| !is_variable(name)) {
            Some(name) => Err(format!("expected names of variables such as \"LC_*\", found {name:?}")),
            None => Ok(names.clone()),
        };
        let show = |names: &Vec<String>| {
            if names.is_empty() {
                none.to_owned()
            } else {
                names.join(",")
            }
        };
        self.value(key, get, parse, Vec::new, show)
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', ',', '\0']) && name.trim() == name
}

pub(super) fn or_none(list: Vec<String>) -> String {
    if list.is_empty() {
        "none".to_owned()
    } else {
        list.join(",")
    }
}

pub(super) fn folder(env: &Environment, text: &str, base: &Path) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err(format!("expected a path, found {text:?}"));
    }
    Ok(env.resolve(text, base))
}
