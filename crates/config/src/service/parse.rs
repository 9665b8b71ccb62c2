//! What the texts of single keys mean: addresses, origins, filters, names.
//!
//! *Invariant:* pure. An address that may hold a secret is not repeated in an error.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Component, PathBuf};

use toolgate_model::{WorkspaceSet, workspace_name_problem};
use toolgate_web::{Proxy, Url};

use super::kinds::{Context, Kind, Shape, joined, list, pairs, path, table, text};
use super::values::{CertificateConfig, RawRoot, RawWorkspace};

/// Bytes of the longest path that a socket address holds.
pub(super) const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Texts that are checked where they are used.
pub(super) fn texts() -> Kind<Vec<String>, Vec<String>> {
    list(text(|text| Ok(text.to_owned())))
}

/// An address and a port, or `none`.
pub(super) fn address(example: &'static str) -> Kind<String, Option<SocketAddr>> {
    let parse = move |text: &str| {
        let port = text.strip_prefix("localhost:");
        let numeric = port.map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
        let wrong = |_| format!("expected an address and port such as {example:?}, or \"none\", found {text:?}");
        numeric.parse::<SocketAddr>().map_err(wrong)
    };
    text(parse).or_none()
}

pub(super) fn socket() -> Kind<String, PathBuf> {
    let found = |path: &PathBuf| {
        let path = path.display();
        format!("expected a path of at most {MAX_SOCKET_PATH_BYTES} bytes, found {path}")
    };
    path().that(|path| path.as_os_str().len() <= MAX_SOCKET_PATH_BYTES, found)
}

/// Reads the origin of a web page, as browsers send it: scheme, host, and a port that is not the scheme's own.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_origin = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@', '*', ' ']);
    if host.is_some_and(is_origin) {
        return Ok(text);
    }
    Err(format!(
        "expected an origin such as \"http://localhost:3000\", found {text:?}"
    ))
}

/// Takes a name as it is, and a relative path from the folder of the file that says it.
pub(super) fn runtime() -> Kind<String, Option<String>> {
    let parse = |text: String, context: &Context<'_>| match text.as_str() {
        "auto" => Ok(None),
        path if path.contains('/') => Ok(Some(context.base.join(path).to_string_lossy().into_owned())),
        _ => Ok(Some(text)),
    };
    Kind::new(Shape::Text, parse, |runtime: &Option<String>| {
        runtime.clone().unwrap_or_else(|| "auto".to_owned())
    })
}

pub(super) fn log_filter(text: &str) -> Result<String, String> {
    tracing_subscriber::EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| format!("expected a filter such as \"info,toolgate=debug\", found {text:?}: {error}"))
}

/// Names of variables, in which `*` stands for any characters.
pub(super) fn variables() -> Kind<Vec<String>, Vec<String>> {
    let fits = |name: &String| !name.is_empty() && !name.contains(['=', ',', '\0']) && name.trim() == name;
    let found = |name: &String| format!("expected names of variables such as \"LC_*\", found {name:?}");
    list(text(|text| Ok(text.to_owned())).that(fits, found))
}

/// A name, or the last part of a path.
pub(super) fn ending() -> Kind<String, PathBuf> {
    let parse = |text: String, _: &Context<'_>| Ok(PathBuf::from(text));
    let is_plain = |path: &PathBuf| {
        let mut parts = path.components();
        !path.as_os_str().is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
    };
    Kind::new(Shape::Text, parse, |path| path.display().to_string()).that(is_plain, |path| {
        format!("expected a name or the last part of a path, such as \".git/hooks\", found {path:?}")
    })
}

pub(super) fn proxy() -> Kind<String, Proxy> {
    let parse = |word: String, context: &Context<'_>| match word.as_str() {
        "none" => Ok(Proxy::default()),
        "environment" => {
            // As curl does: `HTTP_PROXY` in capitals may come from a request where the service is started by a web server.
            let env = context.env;
            let either = |small: &str, capital: &str| env.get(small).or_else(|| env.get(capital));
            let https = either("https_proxy", "HTTPS_PROXY");
            let (all, except) = (either("all_proxy", "ALL_PROXY"), either("no_proxy", "NO_PROXY"));
            Proxy::new(env.get("http_proxy"), https, all, except)
                .map_err(|error| format!("{error} in the variables http_proxy, https_proxy and all_proxy"))
        }
        // Not repeated if it is wrong: it may hold a password.
        address => {
            Proxy::new(None, None, Some(address), None).map_err(|error| format!("{error}, \"environment\" or \"none\""))
        }
    };
    Kind::new(Shape::Text, parse, Proxy::to_string)
}

pub(super) fn default_endpoint() -> Url {
    "https://mcp.exa.ai/mcp".parse().expect("it is an address")
}

pub(super) fn endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| is_open(url) && url.fragment().is_none());
    // Not repeated: it may hold a secret.
    url.ok_or_else(|| "expected an address such as \"https://search.example/mcp\", without a user name".to_owned())
}

/// Returns an address without what may be a secret in it.
pub(super) fn without_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.into()
}

pub(super) fn collector(text: &str) -> Result<String, String> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| is_open(url) && url.query().is_none());
    // Not repeated: it may hold a secret.
    let expected = "expected the address of a collector, such as \"http://127.0.0.1:4317\", or \"none\"";
    url.map(String::from).ok_or_else(|| expected.to_owned())
}

/// Returns whether an address is one of the web, without a user name and a password.
fn is_open(url: &Url) -> bool {
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    is_web && url.username().is_empty() && url.password().is_none()
}

pub(super) fn roots() -> Kind<Vec<RawRoot>, Vec<RawRoot>> {
    let parse = |mut entries: Vec<RawRoot>, context: &Context<'_>| {
        for RawRoot { directory, .. } in &mut entries {
            *directory = context.path(&directory.to_string_lossy())?;
            if directory.parent().is_none() {
                return Err("expected a folder below /, found / itself".to_owned());
            }
        }
        Ok(entries)
    };
    let show = |entry: &RawRoot| entry.directory.display().to_string();
    let kind = Kind::new(Shape::Tables, parse, move |entries: &Vec<RawRoot>| {
        joined(entries, show)
    });
    kind.with_variable(|text| {
        let entry = |directory: &str| table([("directory", directory.trim())]);
        let entries = text.split(',').filter(|text| !text.trim().is_empty());
        Ok(toml::Value::from(entries.map(entry).collect::<Vec<_>>()))
    })
}

pub(super) fn workspaces() -> Kind<Vec<RawWorkspace>, Vec<RawWorkspace>> {
    let parse = |mut entries: Vec<RawWorkspace>, context: &Context<'_>| {
        let mut names = BTreeSet::new();
        for RawWorkspace { name, directory, .. } in &mut entries {
            // One without a name is that of a worker which waits for a workspace.
            if !name.is_empty()
                && let Some(problem) = workspace_name_problem(name)
            {
                return Err(problem);
            }
            if !names.insert(name.clone()) {
                return Err(format!("expected different names, found {name:?} twice"));
            }
            *directory = context.path(&directory.to_string_lossy())?;
        }
        Ok(entries)
    };
    let show = |entry: &RawWorkspace| format!("{}={}", entry.name, entry.directory.display());
    let kind = Kind::new(Shape::Tables, parse, move |entries: &Vec<RawWorkspace>| {
        joined(entries, show)
    });
    let kind = kind.with_variable(|text| {
        let entry = |name: &str, directory: &str| table([("name", name), ("directory", directory)]);
        pairs::<_, Vec<_>>(text, "name=folder", entry).map(toml::Value::from)
    });
    let expected = |_: &Vec<_>| "expected at least one workspace, or no such key".to_owned();
    kind.that(|entries| !entries.is_empty(), expected)
}

pub(super) fn certificates() -> Kind<Vec<CertificateConfig>, Vec<CertificateConfig>> {
    let parse = |entries: Vec<CertificateConfig>, _: &Context<'_>| {
        for entry in &entries {
            let name = &entry.name;
            if name.trim().is_empty() {
                return Err("expected a name of the principal, found an empty one".to_owned());
            }
            if entry.subject.is_none() && entry.san.is_none() {
                return Err(format!("expected `subject` or `san` for {name:?}, found neither"));
            }
            if entry.workspaces.as_ref().is_some_and(Vec::is_empty) {
                return Err(format!("expected at least one workspace for {name:?}, or no such key"));
            }
            let workspaces = entry.workspaces.iter().flatten().map(String::as_str);
            if entry.workspaces.is_some()
                && let Err(problem) = WorkspaceSet::parse(workspaces)
            {
                return Err(format!("{problem}, as a workspace of {name:?}"));
            }
        }
        Ok(entries)
    };
    Kind::new(Shape::Tables, parse, |entries: &Vec<CertificateConfig>| {
        joined(entries, |entry| entry.name.clone())
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use toolgate_web::Settings;

    use super::super::{Config, RawConfig};
    use crate::environment::Environment;

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
