//! The part `mcp` of the tools' configuration: which servers of tools there are (`docs/spec/extensions.md` §3.1).
//!
//! *Invariant:* pure. An entry that cannot be used takes no other one with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toolgate_model::OAuthClient;

use super::logins;
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
        client: Option<OAuthClient>,
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

impl ToolsConfig {
    /// Returns the servers of tools that are named here and were not before.
    pub fn added_mcp_servers(&self, before: &Self) -> Vec<McpServerConfig> {
        let known = before.part("mcp").and_then(Value::as_object);
        let all = self.part("mcp").and_then(Value::as_object).into_iter().flatten();
        let added = all.filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
        added.filter_map(|(name, entry)| server(name, entry)).collect()
    }
}

/// What an entry may say; its values were checked layer by layer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    enabled: Option<bool>,
    r#type: String,
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: String,
    headers: BTreeMap<String, String>,
    oauth: Value,
    timeout: u64,
}

/// An entry that only switches is one for a server that a weaker layer names; alone it means nothing.
fn server(name: &str, entry: &Value) -> Option<McpServerConfig> {
    if entry.as_object()?.keys().all(|key| key == "enabled") {
        return None;
    }
    let entry = Entry::deserialize(entry).ok()?;
    let timeout = Some(entry.timeout).filter(|&timeout| timeout > 0);
    Some(McpServerConfig {
        name: name.to_owned(),
        timeout: timeout.map(Duration::from_millis),
        kind: kind(entry),
    })
}

fn kind(entry: Entry) -> McpKind {
    let is_web = entry.url.starts_with("http://") || entry.url.starts_with("https://");
    let invalid = |why: &str| McpKind::Invalid(why.to_owned());
    match entry.r#type.as_str() {
        _ if entry.enabled == Some(false) => McpKind::Disabled,
        "local" if entry.command.first().is_none_or(String::is_empty) => {
            invalid("`command` must be a list that begins with a program")
        }
        "local" => McpKind::Local {
            command: entry.command,
            environment: entry.environment,
            directory: entry.cwd,
        },
        "remote" if !is_web => invalid("`url` must be an address that begins with http:// or https://"),
        "remote" => McpKind::Remote {
            url: entry.url,
            headers: entry.headers,
            uses_login: entry.oauth != false,
            client: logins::client(&entry.oauth),
        },
        _ => invalid("`type` must be \"local\" or \"remote\""),
    }
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
                    client: Some(OAuthClient {
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
