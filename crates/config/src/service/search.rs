//! The part `search` of the configuration: the service that the search tools ask, and the key for it.
//!
//! *Invariant:* where a key comes from is shown, never the key.

use std::fmt;
use std::path::{Path, PathBuf};

use toolgate_web::Url;

use super::resolve::{Pick, folder};
use super::secrets;
use crate::environment::Environment;
use crate::error::ConfigError;

const ENDPOINT: &str = "https://mcp.exa.ai/mcp";

/// Where OpenCode looks for the key.
const VARIABLE: &str = "EXA_API_KEY";

/// Bytes of the longest key.
const MOST_BYTES: usize = 1024;

/// The service that the search tools ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchConfig {
    /// Its address.
    pub endpoint: Url,
    /// What tells it who asks.
    pub key: Option<ApiKey>,
}

/// A key that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Returns the key, to be sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn new(text: &str) -> Result<Self, String> {
        let key = text.trim();
        let is_plain = |c: char| c.is_ascii_graphic();
        if key.is_empty() || key.len() > MOST_BYTES || !key.chars().all(is_plain) {
            return Err(format!("expected a key of 1 to {MOST_BYTES} letters, digits and signs"));
        }
        Ok(Self(key.to_owned()))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey")
    }
}

impl Pick<'_> {
    pub(super) fn search(&mut self) -> Result<SearchConfig, ConfigError> {
        let env = self.env;
        let endpoint = self.value(
            "search.endpoint",
            |raw| &raw.search.endpoint,
            |text, _| endpoint(text),
            || ENDPOINT.parse().expect("it is an address"),
            shown,
        )?;
        let of_file = self.value(
            "search.key_file",
            |raw| &raw.search.key_file,
            |text, base| key(env, text, base),
            || None,
            |key| {
                key.as_ref()
                    .map_or_else(|| "none".to_owned(), |(path, _)| path.display().to_string())
            },
        )?;
        self.private_files.extend(of_file.iter().map(|(path, _)| path.clone()));
        let key = match (of_file, env.get(VARIABLE).map(ApiKey::new)) {
            (Some((_, key)), _) => Some(key),
            (None, Some(Ok(key))) => Some(key),
            (None, Some(Err(why))) => {
                self.warn(format!("the variable {VARIABLE} has no effect: {why}"));
                None
            }
            (None, None) => None,
        };
        Ok(SearchConfig { endpoint, key })
    }
}

fn endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| {
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
        is_web && url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
    });
    // Not repeated: it may hold a secret.
    url.ok_or_else(|| "expected an address such as \"https://search.example/mcp\", without a user name".to_owned())
}

/// Returns an address without what may be a secret in it.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.into()
}

fn key(env: &Environment, text: &str, base: &Path) -> Result<Option<(PathBuf, ApiKey)>, String> {
    if text == "none" {
        return Ok(None);
    }
    let path = folder(env, text, base)?;
    let content =
        String::from_utf8(secrets::content(&path)?).map_err(|_| format!("{}: it is not UTF-8", path.display()))?;
    let key = ApiKey::new(&content).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(Some((path, key)))
}

#[cfg(test)]
mod tests {
    use super::super::{Config, RawConfig};
    use super::*;

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
        config.search.key.map(|key| key.reveal().to_owned())
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
        assert_eq!(load("", &[]).unwrap().search.endpoint.as_str(), ENDPOINT);
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
