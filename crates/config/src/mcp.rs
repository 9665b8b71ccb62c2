//! The part `mcp` of the tools' configuration: which servers of tools there are (`docs/spec/extensions.md` §3.1).
//!
//! *Invariant:* pure. An entry that cannot be used takes no other one with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toolgate_model::OAuthClient;
use toolgate_web::{Url, is_loopback};

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
        /// How to log in there; none if no login is used.
        oauth: Option<Box<OAuthConfig>>,
    },
    /// It is switched off.
    Disabled,
    /// Only the project names it, and the workspace is not trusted.
    Untrusted,
    /// The entry cannot be used; the text says why.
    Invalid(String),
}

/// How to log in at a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthConfig {
    /// The client that is registered there.
    pub client: Option<OAuthClient>,
    /// The address of a document that describes the client, for servers that take that in the place of a registration.
    pub document: Option<String>,
    /// What the login is to be good for; none for what the server says.
    pub scopes: Vec<String>,
    /// Who gives the client tokens by its secret; none if a person logs in.
    pub issuer: Option<Url>,
    /// Where a browser comes back to, if not at any port of this machine.
    pub callback: Option<Callback>,
}

/// Where a browser comes back to after a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// A name or an address of this machine: `localhost`, `127.0.0.1`.
    pub host: String,
    /// Its port; 0 for any.
    pub port: u16,
    /// The path there.
    pub path: String,
}

impl Default for Callback {
    /// The path is OpenCode's, so that a client that was registered for OpenCode can be used.
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            path: "/mcp/oauth/callback".to_owned(),
        }
    }
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
            oauth: match oauth(&entry.oauth, &entry.url) {
                Ok(oauth) => oauth.map(Box::new),
                Err(why) => return invalid(why),
            },
            url: entry.url,
            headers: entry.headers,
        },
        _ => invalid("`type` must be \"local\" or \"remote\""),
    }
}

fn oauth(entry: &Value, server: &str) -> Result<Option<OAuthConfig>, &'static str> {
    if *entry == false {
        return Ok(None);
    }
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let client = logins::client(entry);
    // An id that is an address is that of a document (a Client ID Metadata Document).
    let is_document = client.as_ref().is_some_and(|client| client.id.starts_with("https://"));
    let mut callback = None;
    if !text("redirectUri").is_empty() {
        callback = Some(
            local(text("redirectUri"))
                .ok_or("`oauth.redirectUri` must begin with http://127.0.0.1 or http://localhost")?,
        );
    }
    if let Some(port) = entry.get("callbackPort") {
        let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
        callback.get_or_insert_default().port = port.ok_or("`oauth.callbackPort` must be a port")?;
    }
    let issuer = match text("grantType") {
        "client_credentials" => Some(issuer(text("issuer"), server)?),
        "" | "authorization_code" if text("issuer").is_empty() => None,
        "" | "authorization_code" => {
            return Err("`oauth.issuer` has a meaning only with `grantType` client_credentials");
        }
        _ => return Err("`oauth.grantType` must be \"authorization_code\" or \"client_credentials\""),
    };
    let has_secret = client.as_ref().is_some_and(|client| client.secret.is_some());
    if issuer.is_some() && (is_document || !has_secret) {
        return Err(
            "with `grantType` client_credentials, `oauth.clientId` and `oauth.clientSecret` are those of a client that is registered",
        );
    }
    Ok(Some(OAuthConfig {
        issuer,
        document: client.as_ref().filter(|_| is_document).map(|client| client.id.clone()),
        client: client.filter(|_| !is_document),
        scopes: text("scope").split_whitespace().map(str::to_owned).collect(),
        callback,
    }))
}

/// Reads who gives out tokens. A secret goes there: over TLS, or to where the server itself is, or nowhere.
fn issuer(written: &str, server: &str) -> Result<Url, &'static str> {
    let url = Url::parse(written).map_err(
        |_| "`oauth.issuer` must be the address of who gives out tokens, with `grantType` client_credentials",
    )?;
    let is_at_server = || Url::parse(server).is_ok_and(|server| server.origin() == url.origin());
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) || is_at_server() => Ok(url),
        _ => Err("`oauth.issuer` must begin with https://"),
    }
}

/// Reads an address of this machine.
fn local(written: &str) -> Option<Callback> {
    let url = Url::parse(written).ok()?;
    let host = url
        .host_str()
        .filter(|host| ["127.0.0.1", "localhost", "[::1]"].contains(host))?;
    (url.scheme() == "http").then(|| Callback {
        host: host.to_owned(),
        port: url.port_or_known_default().unwrap_or_default(),
        path: url.path().to_owned(),
    })
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
                    oauth: None,
                }),
            );
            check(
                json!({"type": "remote", "url": url, "oauth": {"clientId": "me", "clientSecret": "s", "scope": "a"}}),
                Some(McpKind::Remote {
                    url: url.to_owned(),
                    headers: BTreeMap::new(),
                    oauth: Some(Box::new(OAuthConfig {
                        client: Some(OAuthClient {
                            id: "me".to_owned(),
                            secret: Some("s".to_owned()),
                        }),
                        scopes: vec!["a".to_owned()],
                        ..OAuthConfig::default()
                    })),
                }),
            );
        }
        for entry in [
            json!({"type": "local", "command": []}),
            json!({"type": "local", "command": [""]}),
            json!({"type": "local"}),
            json!({"type": "remote", "url": "file:///x"}),
            json!({"type": "remote"}),
            json!({"type": "remote", "url": "https://a", "oauth": {"redirectUri": "https://elsewhere.example/"}}),
            json!({"type": "remote", "url": "https://a", "oauth": {"callbackPort": 70000}}),
            json!({"type": "remote", "url": "https://a", "oauth": {"grantType": "password"}}),
            json!({"type": "remote", "url": "https://a", "oauth": {"issuer": "https://a"}}),
            json!({"command": ["a"]}),
        ] {
            let found = server("s", &entry).map(|server| server.kind);
            assert!(matches!(found, Some(McpKind::Invalid(_))), "{entry}: {found:?}");
        }
    }

    #[test]
    fn a_login_has_its_ways() {
        let check = |entry: Value, expected: OAuthConfig| {
            assert_eq!(oauth(&entry, "https://a"), Ok(Some(expected)), "{entry}");
        };
        let at = |host: &str, port: u16, path: &str| {
            Some(Callback {
                host: host.to_owned(),
                port,
                path: path.to_owned(),
            })
        };
        check(Value::Null, OAuthConfig::default());
        check(
            json!({"clientId": "https://me.example/client.json", "scope": " a  b "}),
            OAuthConfig {
                document: Some("https://me.example/client.json".to_owned()),
                scopes: vec!["a".to_owned(), "b".to_owned()],
                ..OAuthConfig::default()
            },
        );
        let back = |callback| OAuthConfig {
            callback,
            ..OAuthConfig::default()
        };
        check(
            json!({"callbackPort": 19876}),
            back(at("127.0.0.1", 19876, "/mcp/oauth/callback")),
        );
        check(
            json!({"redirectUri": "http://localhost:81/x"}),
            back(at("localhost", 81, "/x")),
        );
        check(
            json!({"redirectUri": "http://localhost/x", "callbackPort": 9}),
            back(at("localhost", 9, "/x")),
        );
    }

    #[test]
    fn a_client_logs_in_by_itself_where_the_configuration_says() {
        let found = |issuer: &str, client: Value, server: &str| {
            let mut entry = client;
            entry["grantType"] = json!("client_credentials");
            entry["issuer"] = json!(issuer);
            let found = oauth(&entry, server).ok().flatten()?;
            Some((found.issuer?.to_string(), found.client?.id))
        };
        let client = json!({"clientId": "me", "clientSecret": "s"});
        for (issuer, expected) in [
            ("https://login.example/realm", true),
            ("http://127.0.0.1:9000", true),
            ("http://tools.internal:8080/login", true),
            ("http://tools.internal:9000", false),
            ("http://login.example", false),
            ("login.example", false),
            ("", false),
        ] {
            let found = found(issuer, client.clone(), "http://tools.internal:8080/mcp");
            assert_eq!(found.is_some(), expected, "{issuer}: {found:?}");
        }
        for client in [
            json!({"clientId": "me"}),
            json!({"clientId": "https://me.example/client.json", "clientSecret": "s"}),
            json!({}),
        ] {
            assert_eq!(
                found("https://login.example", client.clone(), "https://a"),
                None,
                "{client}"
            );
        }
    }
}
