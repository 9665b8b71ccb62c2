//! The part `mcp` of the tools' configuration: which servers of tools there are (`docs/spec/extensions.md` §3.1).
//!
//! *Invariant:* pure. An entry that cannot be used takes no other one with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::logins::StoredClient;
use super::opencode::ToolsConfig;

/// A configured server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerConfig {
    /// Its name, as the configuration has it.
    pub name: String,
    /// What it is.
    pub kind: McpKind,
    /// How long connecting, listing and each call may take; none for the default of each.
    pub timeout: Option<Duration>,
}

/// What a configured server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpKind {
    /// A program that the service starts.
    Local {
        /// The program and its arguments, at least the program.
        command: Vec<String>,
        /// Variables that it gets.
        environment: BTreeMap<String, String>,
        /// Where it starts, relative to the workspace; none for the workspace itself.
        directory: Option<PathBuf>,
    },
    /// A server that is reached by HTTP.
    Remote {
        /// Its address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
        /// Whether a login that OpenCode has stored is used.
        uses_login: bool,
        /// The client that is registered at the server.
        client: Option<StoredClient>,
    },
    /// It is switched off.
    Disabled,
    /// Only the project names it, and the workspace is not trusted.
    Untrusted,
    /// The entry cannot be used; the text says why.
    Invalid(String),
}

impl ToolsConfig {
    /// Returns the servers of tools, in the order in which they are written. What a project that is not trusted says is
    /// not heard; servers that only it names are there as [`McpKind::Untrusted`].
    pub fn mcp_servers(&self, trusted: bool) -> Vec<McpServerConfig> {
        let code = self.code("mcp", trusted);
        let allowed = code.as_ref().and_then(Value::as_object);
        let all = self.part("mcp").and_then(Value::as_object);
        let names = all.into_iter().flat_map(|part| part.iter());
        names
            .filter_map(|(name, entry)| match allowed.and_then(|part| part.get(name)) {
                Some(entry) => server(name, entry),
                None => server(name, entry).map(|known| McpServerConfig {
                    kind: McpKind::Untrusted,
                    ..known
                }),
            })
            .collect()
    }
}

/// An entry that only switches is one for a server that a weaker layer names; alone it means nothing.
fn server(name: &str, entry: &Value) -> Option<McpServerConfig> {
    let entry = entry.as_object()?;
    if entry.keys().all(|key| key == "enabled") {
        return None;
    }
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let kind = match text("type") {
        _ if entry.get("enabled") == Some(&Value::Bool(false)) => McpKind::Disabled,
        Some("local") => local(entry.get("command"), entry.get("environment"), text("cwd")),
        Some("remote") => remote(text("url"), entry.get("headers"), entry.get("oauth")),
        Some(_) | None => McpKind::Invalid("`type` must be \"local\" or \"remote\"".to_owned()),
    };
    let timeout = entry.get("timeout").and_then(Value::as_u64);
    Some(McpServerConfig {
        name: name.to_owned(),
        kind,
        timeout: timeout.filter(|&timeout| timeout > 0).map(Duration::from_millis),
    })
}

fn local(command: Option<&Value>, environment: Option<&Value>, directory: Option<&str>) -> McpKind {
    let words = command.and_then(Value::as_array).into_iter().flatten();
    let command: Vec<String> = words.filter_map(Value::as_str).map(str::to_owned).collect();
    if command.first().is_none_or(String::is_empty) {
        return McpKind::Invalid("`command` must be a list that begins with a program".to_owned());
    }
    McpKind::Local {
        command,
        environment: texts(environment),
        directory: directory.map(PathBuf::from),
    }
}

fn remote(url: Option<&str>, headers: Option<&Value>, oauth: Option<&Value>) -> McpKind {
    let Some(url) = url.filter(|url| url.starts_with("http://") || url.starts_with("https://")) else {
        return McpKind::Invalid("`url` must be an address that begins with http:// or https://".to_owned());
    };
    McpKind::Remote {
        url: url.to_owned(),
        headers: texts(headers),
        uses_login: oauth != Some(&Value::Bool(false)),
        client: oauth.and_then(StoredClient::read),
    }
}

fn texts(map: Option<&Value>) -> BTreeMap<String, String> {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    pairs
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_a_server() {
        let check = |entry: Value, expected: Option<McpKind>| {
            let found = server("s", &entry).map(|server| server.kind);
            assert_eq!(found, expected, "{entry}");
        };
        let program = |environment: &[(&str, &str)], directory: Option<&str>| McpKind::Local {
            command: vec!["a".to_owned(), "b".to_owned()],
            environment: environment.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
            directory: directory.map(PathBuf::from),
        };
        check(
            json!({"type": "local", "command": ["a", "b"]}),
            Some(program(&[], None)),
        );
        check(
            json!({"type": "local", "command": ["a", "b"], "environment": {"K": "v"}, "cwd": "x", "enabled": true}),
            Some(program(&[("K", "v")], Some("x"))),
        );
        check(
            json!({"type": "local", "command": ["a"], "enabled": false}),
            Some(McpKind::Disabled),
        );
        check(json!({"enabled": false}), None);
        check(json!({"enabled": true}), None);
        for url in ["http://127.0.0.1:1/mcp", "https://example.org"] {
            check(
                json!({"type": "remote", "url": url, "oauth": false, "headers": {"A": "b"}}),
                Some(McpKind::Remote {
                    url: url.to_owned(),
                    headers: [("A".to_owned(), "b".to_owned())].into(),
                    uses_login: false,
                    client: None,
                }),
            );
            check(
                json!({"type": "remote", "url": url, "oauth": {"clientId": "me", "clientSecret": "s", "scope": "a"}}),
                Some(McpKind::Remote {
                    url: url.to_owned(),
                    headers: BTreeMap::new(),
                    uses_login: true,
                    client: Some(StoredClient {
                        id: "me".to_owned(),
                        secret: Some("s".to_owned()),
                    }),
                }),
            );
        }
        for entry in [
            json!({"type": "local", "command": []}),
            json!({"type": "local", "command": [""]}),
            json!({"type": "local"}),
            json!({"type": "remote", "url": "file:///x"}),
            json!({"type": "remote"}),
            json!({"command": ["a"]}),
        ] {
            let found = server("s", &entry).map(|server| server.kind);
            assert!(matches!(found, Some(McpKind::Invalid(_))), "{entry}: {found:?}");
        }
    }
}
