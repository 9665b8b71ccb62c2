//! Secrets that the configuration names: the key of the audit, that of the search service, and what is shown to nobody.
//!
//! *Invariant:* names of variables and files are shown, never a value. What is meant to be hidden and cannot be is an
//! error: a service that starts keeps every secret that it was told of.

use std::fmt;
use std::path::Path;

use toolgate_model::audit_key::Key;
use toolgate_model::redact::{MIN_SECRET_BYTES, Redactor};

use super::bucket::BucketKeys;
use super::kinds::{Context, Kind, Shape};
use super::values::{ApiKey, StoreAddress};
use crate::read;

/// The armour around a key in PEM, which every key has.
const ARMOUR: &str = "-----";

/// Texts that are shown to nobody.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Secrets(pub(super) Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// Makes what takes secrets out of texts.
pub(super) fn redactor(secrets: &[String], patterns: &[String]) -> Result<Redactor, String> {
    Redactor::new(secrets, patterns).map_err(|error| match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    })
}

/// Regular expressions. A variable has one, since it may hold a comma.
pub(super) fn patterns() -> Kind<Vec<String>, Vec<String>> {
    let parse = |patterns: Vec<String>, _: &Context<'_>| redactor(&[], &patterns).map(|_| patterns);
    let kind = Kind::new(Shape::Texts, parse, |patterns: &Vec<String>| patterns.join(","));
    kind.with_variable(|text| Ok(vec![text].into()))
}

/// A variable and its values: none if it is not set.
pub(super) fn variable() -> Kind<String, (String, Secrets)> {
    let parse = |name: String, context: &Context<'_>| {
        let values = context.env.get(&name).map(lines).transpose();
        let values = values.map_err(|why| format!("the variable {name}: {why}"))?;
        Ok((name, values.unwrap_or_default()))
    };
    Kind::new(Shape::Text, parse, |(name, _)| name.clone())
}

/// Reads a file whose lines are secrets.
pub(super) fn of_file(path: &Path) -> Result<Secrets, String> {
    lines(&text(path)?).map_err(|why| format!("{}: {why}", path.display()))
}

/// Reads the key of the audit.
pub(super) fn audit_key(path: &Path) -> Result<Key, String> {
    Key::new(&content(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the key of the search service.
pub(super) fn api_key(path: &Path) -> Result<ApiKey, String> {
    ApiKey::parse(&text(path)?).map_err(|why| format!("{}: {why}", path.display()))
}

/// Reads where a database is.
pub(super) fn store_address(path: &Path) -> Result<StoreAddress, String> {
    if read::is_open_to_others(path).is_ok_and(|is_open| is_open) {
        let path = path.display();
        return Err(format!("{path}: others may read or change it: `chmod 600` it"));
    }
    StoreAddress::parse(&text(path)?).map_err(|why| format!("{}: {why}", path.display()))
}

/// Reads who uses a bucket.
pub(super) fn bucket_keys(path: &Path) -> Result<BucketKeys, String> {
    BucketKeys::parse(&text(path)?).map_err(|why| format!("{}: {why}", path.display()))
}

/// An address of a database, of which the secrets are not shown.
pub(super) fn database() -> Kind<String, StoreAddress> {
    let parse = |text: String, _: &Context<'_>| StoreAddress::parse(&text);
    Kind::new(Shape::Text, parse, StoreAddress::shown)
}

fn text(path: &Path) -> Result<String, String> {
    String::from_utf8(content(path)?).map_err(|_| format!("{}: it is not UTF-8", path.display()))
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    read::bounded(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Returns the secrets in a text: its lines, since a program that prints a key prints it in lines. Short rests of a longer
/// secret are left out.
fn lines(text: &str) -> Result<Secrets, String> {
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
    redactor(&secrets, &[]).map(|_| Secrets(secrets))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Config, RawConfig};
    use crate::environment::Environment;

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
        assert!(config.audit.key().is_some());
        assert_eq!(config.audit.retention, Some(Duration::from_secs(90 * 86_400)));
        assert!(!format!("{config:?}").contains("hunter2"), "a value is never shown");
        let config = load("", &[]).unwrap();
        assert!(config.redact.0.is_empty() && config.audit.key().is_none() && config.audit.retention.is_none());
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

#[cfg(test)]
mod search_tests {
    use super::super::{Config, RawConfig};
    use crate::environment::Environment;

    const DEFAULT_ENDPOINT: &str = "https://mcp.exa.ai/mcp";

    fn load(file: &str, vars: &[(&str, &str)]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "secret-of-the-file\n").unwrap();
        std::fs::write(folder.path().join("two"), "secret-1\nsecret-2\n").unwrap();
        let path = folder.path().join("toolgate.toml");
        std::fs::write(&path, file).unwrap();
        let vars = [("HOME", "/nowhere/u")].iter().chain(vars);
        let vars = vars.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(Some(&path), RawConfig::default(), &Environment::new(vars, "/nowhere/w"));
        config.map_err(|error| error.to_string())
    }

    fn key_of(file: &str, vars: &[(&str, &str)]) -> Option<String> {
        let config = load(file, vars).unwrap();
        assert!(!format!("{config:?}").contains("secret"), "{config:?}");
        config.search_key.map(|key| key.reveal().to_owned())
    }

    #[test]
    fn the_key_comes_from_a_file_or_the_environment() {
        let variable = [("EXA_API_KEY", " secret-of-the-environment\n")];
        assert_eq!(key_of("", &[]), None);
        assert_eq!(key_of("", &variable).as_deref(), Some("secret-of-the-environment"));
        assert_eq!(
            key_of("[search]\nkey_file = \"key\"", &variable).as_deref(),
            Some("secret-of-the-file")
        );
        assert_eq!(key_of("", &[("EXA_API_KEY", "secret \u{1}")]), None);
        let warnings = load("", &[("EXA_API_KEY", "secret \u{1}")]).unwrap().warnings;
        assert!(
            warnings
                .iter()
                .any(|text| text.contains("EXA_API_KEY") && !text.contains("secret")),
            "{warnings:?}"
        );
    }

    #[test]
    fn the_endpoint_is_an_address() {
        assert_eq!(load("", &[]).unwrap().search.endpoint.as_str(), DEFAULT_ENDPOINT);
        let config = load("[search]\nendpoint = \"http://localhost:7/x?token=secret\"", &[]).unwrap();
        assert_eq!(config.search.endpoint.as_str(), "http://localhost:7/x?token=secret");
        let setting = config
            .explain()
            .iter()
            .find(|setting| setting.key == "search.endpoint")
            .unwrap();
        assert_eq!(setting.value, "http://localhost:7/x");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (file, expected) in [
            ("endpoint = \"mcp.exa.ai/mcp\"", "search.endpoint"),
            ("endpoint = \"ftp://a/secret\"", "search.endpoint"),
            ("endpoint = \"https://u:secret@a/\"", "search.endpoint"),
            ("key_file = \"two\"", "search.key_file"),
            ("key_file = \"missing\"", "missing"),
            ("key = \"x\"", "unknown field `key`"),
        ] {
            let error = load(&format!("[search]\n{file}"), &[]).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("secret"),
                "{expected:?} is not in {error:?}"
            );
        }
    }
}
