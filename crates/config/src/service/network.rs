//! The part `network` of the configuration: what tools may reach beside the public internet, and by way of what.

use toolgate_web::{Allowed, Proxy, Settings};

use super::layered::{Layered, or_none};
use super::raw::RawConfig;
use crate::environment::Environment;
use crate::error::ConfigError;

impl Layered<'_> {
    pub(super) fn network(&mut self) -> Result<Settings, ConfigError> {
        let allow = self.value(
            "network.allow",
            |raw: &RawConfig| &raw.network.allow,
            |list, _| list.iter().map(|text| text.parse()).collect(),
            Vec::new,
            |list: &Vec<Allowed>| or_none(list.iter().map(Allowed::to_string).collect()),
        )?;
        let env: &Environment = self.env;
        let proxy = self.value(
            "network.proxy",
            |raw| &raw.network.proxy,
            |word, _| proxy(word, env),
            Proxy::default,
            Proxy::to_string,
        )?;
        Ok(Settings { allow, proxy })
    }
}

fn proxy(word: &str, env: &Environment) -> Result<Proxy, String> {
    match word {
        "none" => Ok(Proxy::default()),
        "environment" => {
            // As curl does: `HTTP_PROXY` in capitals may come from a request where the service is started by a web server.
            let either = |small: &str, capital: &str| env.get(small).or_else(|| env.get(capital)).map(str::to_owned);
            let (http, https) = (
                env.get("http_proxy").map(str::to_owned),
                either("https_proxy", "HTTPS_PROXY"),
            );
            let (all, except) = (either("all_proxy", "ALL_PROXY"), either("no_proxy", "NO_PROXY"));
            Proxy::new(http.as_deref(), https.as_deref(), all.as_deref(), except.as_deref())
                .map_err(|error| format!("{error} in the variables http_proxy, https_proxy and all_proxy"))
        }
        // Not repeated if it is wrong: it may hold a password.
        address => {
            Proxy::new(None, None, Some(address), None).map_err(|error| format!("{error}, \"environment\" or \"none\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Config;
    use super::*;

    fn load(file: &str, vars: &[(&str, &str)]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolgate.toml");
        std::fs::write(&path, file).unwrap();
        let vars = [("HOME", "/nowhere/u")].iter().chain(vars);
        let vars = vars.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(
            Some(Path::new(&path)),
            RawConfig::default(),
            &Environment::new(vars, "/nowhere/w"),
        );
        config.map_err(|error| error.to_string())
    }

    fn explained<'a>(config: &'a Config, key: &str) -> &'a str {
        let setting = config.explain().iter().find(|setting| setting.key == key);
        &setting.unwrap().value
    }

    #[test]
    fn nothing_is_allowed_by_itself() {
        // What the environment says of proxies does not count until somebody says that it does.
        let config = load("", &[("https_proxy", "http://p:1")]).unwrap();
        assert_eq!(config.network, Settings::default());
        assert_eq!(
            (explained(&config, "network.allow"), explained(&config, "network.proxy")),
            ("none", "none")
        );
    }

    #[test]
    fn files_and_variables() {
        let file =
            "[network]\nallow = [\"Wiki.example:8080\", \"10.0.0.0/8\", \"::1\"]\nproxy = \"http://u:secret@p:3128\"";
        let config = load(file, &[]).unwrap();
        assert_eq!(explained(&config, "network.allow"), "wiki.example:8080,10.0.0.0/8,::1");
        assert_eq!(explained(&config, "network.proxy"), "http://p:3128/");
        assert!(!format!("{config:?}").contains("secret"));
        let vars = [
            ("TOOLGATE_NETWORK_ALLOW", "localhost, 127.0.0.1"),
            ("TOOLGATE_NETWORK_PROXY", "environment"),
            ("http_proxy", "http://a:1"),
            ("HTTPS_PROXY", "http://b:2"),
            ("NO_PROXY", "c"),
        ];
        let config = load(file, &vars).unwrap();
        assert_eq!(explained(&config, "network.allow"), "localhost,127.0.0.1");
        assert_eq!(
            explained(&config, "network.proxy"),
            "http=http://a:1/,https=http://b:2/"
        );
        let capital = [("TOOLGATE_NETWORK_PROXY", "environment"), ("HTTP_PROXY", "http://a:1")];
        assert_eq!(explained(&load("", &capital).unwrap(), "network.proxy"), "none");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let check = |file: &str, vars: &[(&str, &str)], expected: &str| {
            let error = load(file, vars).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("secret"),
                "{expected:?} is not in {error:?}"
            );
        };
        check("[network]\nallow = [\"http://a\"]", &[], "network.allow");
        check("[network]\nallow = [\"*\"]", &[], "found \"*\"");
        check("[network]\nproxy = \"socks5://u:secret@p\"", &[], "network.proxy");
        check("[network]\nproxies = \"none\"", &[], "unknown field `proxies`");
        let vars = [
            ("TOOLGATE_NETWORK_PROXY", "environment"),
            ("all_proxy", "socks5://u:secret@p"),
        ];
        check("", &vars, "all_proxy");
    }
}
