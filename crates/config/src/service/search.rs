//! The part `search` of the configuration: the service that the search tools ask, and the key for it.
//!
//! *Invariant:* where a key comes from is shown, never the key.

use std::path::{Path, PathBuf};

use toolgate_web::Url;

use super::layered::{Layered, folder};
use super::secrets;
use super::values::{ApiKey, SearchConfig};
use crate::environment::Environment;
use crate::error::ConfigError;

const DEFAULT_ENDPOINT: &str = "https://mcp.exa.ai/mcp";

/// Where OpenCode looks for the key.
const KEY_VARIABLE: &str = "EXA_API_KEY";

impl Layered<'_> {
    pub(super) fn search(&mut self) -> Result<SearchConfig, ConfigError> {
        let env = self.env;
        let endpoint = self.value(
            "search.endpoint",
            |raw| &raw.search.endpoint,
            |text, _| endpoint(text),
            || DEFAULT_ENDPOINT.parse().expect("it is an address"),
            without_query,
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
        let key = match (of_file, env.get(KEY_VARIABLE).map(ApiKey::parse)) {
            (Some((_, key)), _) => Some(key),
            (None, Some(Ok(key))) => Some(key),
            (None, Some(Err(why))) => {
                self.warn(format!("the variable {KEY_VARIABLE} has no effect: {why}"));
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
fn without_query(url: &Url) -> String {
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
    let key = ApiKey::parse(&content).map_err(|why| format!("{}: {why}", path.display()))?;
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
