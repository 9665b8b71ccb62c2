//! The parts `audit` and `redact` of the configuration: the key of the audit, and the secrets that are shown to nobody.
//!
//! *Invariant:* names of variables and files are shown, never a value. What is meant to be hidden and cannot be is an
//! error: a service that starts keeps every secret that it was told of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolgate_model::audit_key::Key;
use toolgate_model::redact::{MIN_SECRET_BYTES, Redactor};

use super::layered::{Layered, folder, or_none};
use super::values::{AuditConfig, RedactConfig};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::{read, units};

/// The armour around a key in PEM, which every key has.
const ARMOUR: &str = "-----";

impl Layered<'_> {
    pub(super) fn audit(&mut self) -> Result<AuditConfig, ConfigError> {
        let env = self.env;
        let key = self.value(
            "audit.key_file",
            |raw| &raw.audit.key_file,
            |text, base| key(env, text, base),
            || None,
            |key| {
                key.as_ref()
                    .map_or_else(|| "none".to_owned(), |(path, _)| path.display().to_string())
            },
        )?;
        let retention = self.value(
            "audit.retention",
            |raw| &raw.audit.retention,
            |text, _| retention(text),
            || None,
            |time| time.map_or_else(|| "none".to_owned(), units::show_duration),
        )?;
        self.private_files.extend(key.iter().map(|(path, _)| path.clone()));
        let (key_file, key) = key.unzip();
        Ok(AuditConfig {
            key,
            key_file,
            retention,
        })
    }

    pub(super) fn redact(&mut self) -> Result<RedactConfig, ConfigError> {
        let env = self.env;
        let of_variables = self.value(
            "redact.values_from_env",
            |raw| &raw.redact.values_from_env,
            |names: &Vec<String>, _| {
                names
                    .iter()
                    .map(|name| variable(env, name))
                    .collect::<Result<Vec<_>, _>>()
            },
            Vec::new,
            |list| or_none(list.iter().map(|(name, _)| name.clone()).collect()),
        )?;
        for (name, _) in of_variables.iter().filter(|(_, values)| values.is_empty()) {
            self.warn(format!("redact.values_from_env: the variable {name} is not set"));
        }
        let of_files = self.value(
            "redact.files",
            |raw| &raw.redact.files,
            |paths: &Vec<String>, base| {
                paths
                    .iter()
                    .map(|path| file(env, path, base))
                    .collect::<Result<Vec<_>, _>>()
            },
            Vec::new,
            |list| or_none(list.iter().map(|(path, _)| path.display().to_string()).collect()),
        )?;
        let patterns = self.value(
            "redact.patterns",
            |raw| &raw.redact.patterns,
            |patterns, _| possible(&[], patterns).map(|_| patterns.clone()),
            Vec::new,
            |list: &Vec<String>| or_none(list.clone()),
        )?;
        self.private_files.extend(of_files.iter().map(|(path, _)| path.clone()));
        let values = of_variables.into_iter().flat_map(|(_, values)| values);
        let secrets: Vec<String> = values
            .chain(of_files.into_iter().flat_map(|(_, values)| values))
            .collect();
        possible(&secrets, &patterns)
            .map(RedactConfig)
            .map_err(|message| self.conflict("redact.files", |raw| &raw.redact.files, message))
    }
}

fn possible(secrets: &[String], patterns: &[String]) -> Result<Redactor, String> {
    Redactor::new(secrets, patterns).map_err(|error| match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    })
}

/// Returns the values of a variable: none if it is not set.
fn variable(env: &Environment, name: &str) -> Result<(String, Vec<String>), String> {
    let values = match env.get(name) {
        None => Vec::new(),
        Some(text) => lines(text).map_err(|why| format!("the variable {name}: {why}"))?,
    };
    Ok((name.to_owned(), values))
}

fn file(env: &Environment, text: &str, base: &Path) -> Result<(PathBuf, Vec<String>), String> {
    let path = folder(env, text, base)?;
    let content = content(&path)?;
    let content = String::from_utf8(content).map_err(|_| format!("{}: it is not UTF-8", path.display()))?;
    let values = lines(&content).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok((path, values))
}

/// Reads a file that holds a secret.
pub(super) fn content(path: &Path) -> Result<Vec<u8>, String> {
    read::bounded(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Returns the secrets in a text: its lines, since a program that prints a key prints it in lines. Short rests of a longer
/// secret are left out.
fn lines(text: &str) -> Result<Vec<String>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(ARMOUR));
    let secrets: Vec<String> = lines
        .filter(|line| line.len() >= MIN_SECRET_BYTES)
        .map(str::to_owned)
        .collect();
    if secrets.is_empty() {
        return Err(format!(
            "expected a line of at least {MIN_SECRET_BYTES} bytes, found none"
        ));
    }
    possible(&secrets, &[]).map(|_| secrets)
}

fn key(env: &Environment, text: &str, base: &Path) -> Result<Option<(PathBuf, Key)>, String> {
    if text == "none" {
        return Ok(None);
    }
    let path = folder(env, text, base)?;
    let key = Key::new(&content(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Some((path, key)))
}

fn retention(text: &str) -> Result<Option<Duration>, String> {
    if text == "none" {
        return Ok(None);
    }
    units::duration(text).map(Some)
}

#[cfg(test)]
mod tests {
    use super::super::{Config, RawConfig};
    use super::*;

    fn load(file: &str, vars: &[(&str, &str)]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
        std::fs::write(folder.path().join("short"), "abc\n").unwrap();
        std::fs::write(
            folder.path().join("pem"),
            "-----BEGIN X-----\nMIIabcdefgh\nab==\n-----END X-----\n",
        )
        .unwrap();
        let path = folder.path().join("toolgate.toml");
        std::fs::write(&path, file).unwrap();
        let vars = [("HOME", "/nowhere/u")].iter().chain(vars);
        let vars = vars.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(Some(&path), RawConfig::default(), &Environment::new(vars, "/nowhere/w"));
        config.map_err(|error| error.to_string())
    }

    #[test]
    fn secrets_come_from_variables_and_files() {
        let text = "[redact]\nvalues_from_env = [\"TOKEN\", \"GONE\"]\nfiles = [\"pem\"]\npatterns = [\"sk-[0-9]+\"]\n\
                    [audit]\nkey_file = \"key\"\nretention = \"90d\"";
        let config = load(text, &[("TOKEN", "hunter2 it is")]).unwrap();
        assert_eq!(
            config
                .redact
                .0
                .text("hunter2 it is, MIIabcdefgh, ab==, sk-12, -----BEGIN X-----"),
            "[redacted], [redacted], ab==, [redacted], -----BEGIN X-----"
        );
        assert!(
            config.warnings.iter().any(|warning| warning.contains("GONE")),
            "{:?}",
            config.warnings
        );
        assert!(config.audit.key.is_some());
        assert_eq!(config.audit.retention, Some(Duration::from_secs(90 * 86_400)));
        assert!(!format!("{config:?}").contains("hunter2"), "a value is never shown");
        let config = load("", &[]).unwrap();
        assert!(config.redact.0.is_empty() && config.audit.key.is_none() && config.audit.retention.is_none());
        let config = load(
            "",
            &[("TOOLGATE_REDACT_VALUES_FROM_ENV", "TOKEN"), ("TOKEN", "hunter2")],
        )
        .unwrap();
        assert_eq!(config.redact.0.text("hunter2"), "[redacted]");
    }

    #[test]
    fn what_cannot_be_hidden_is_an_error() {
        let check = |file: &str, vars: &[(&str, &str)], expected: &str| {
            let error = load(file, vars).unwrap_err();
            assert!(error.contains(expected), "{expected:?} is not in {error:?}");
        };
        check("[redact]\nfiles = [\"missing\"]", &[], "cannot read");
        check("[redact]\nfiles = [\"short\"]", &[], "at least 6 bytes");
        check("[redact]\nvalues_from_env = [\"A\"]", &[("A", "abc")], "the variable A");
        check("[redact]\npatterns = [\"(\"]", &[], "redact.patterns");
        check("[audit]\nkey_file = \"short\"", &[], "a key has 32");
        check("[audit]\nretention = \"x\"", &[], "audit.retention");
    }
}
