//! The servers of tools that the configuration names, wired to the workspaces' catalogs and to the stored logins.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use toolgate_config::logins::LoginFile;
use toolgate_config::mcp::{McpKind, McpServerConfig};
use toolgate_engine::WorkspaceRuntime;
pub(super) use toolgate_extensions::mcp::Servers;
use toolgate_extensions::mcp::{CALL_LIMIT, CONNECT_LIMIT, Kind, Local, Logins, Remote, ServerSettings};
use toolgate_model::{Login, OAuthClient, Source, SourceState};

const UNTRUSTED: &str = "The server is named by the project, and this workspace is not trusted. If you trust it, set \
                         `trust = true` for the workspace in toolgate.toml, or start the service with `--trust` or \
                         TOOLGATE_TRUST=1.";

/// Begins to connect to the servers that the configuration of a workspace names; waits for none.
pub(super) fn start(
    servers: &Servers,
    place: &WorkspaceRuntime,
    (named, call_limit): (Vec<McpServerConfig>, Option<Duration>),
    logins: Option<&Arc<LoginFile>>,
) {
    let names = named.iter().map(|server| server.name.clone()).collect();
    start_more(servers, place, names, (named, call_limit), logins);
}

/// As [`start`], beside those that were started; `names` are all of them, weak to strong.
pub(super) fn start_more(
    servers: &Servers,
    place: &WorkspaceRuntime,
    names: Vec<String>,
    (new, call_limit): (Vec<McpServerConfig>, Option<Duration>),
    logins: Option<&Arc<LoginFile>>,
) {
    let catalog = &place.tools;
    catalog.arrange(Source::Mcp, names);
    for server in new {
        let kind = match server.kind {
            McpKind::Disabled => {
                catalog.report(Source::Mcp, &server.name, SourceState::Disabled, "");
                continue;
            }
            McpKind::Untrusted => {
                catalog.report(Source::Mcp, &server.name, SourceState::Untrusted, UNTRUSTED);
                continue;
            }
            McpKind::Invalid(problem) => {
                catalog.report(Source::Mcp, &server.name, SourceState::Failed, problem);
                continue;
            }
            McpKind::Local {
                command,
                environment,
                directory,
            } => Kind::Local(Local {
                command,
                environment,
                directory,
            }),
            McpKind::Remote {
                url,
                headers,
                uses_login,
                client,
            } => {
                let login = logins.filter(|_| uses_login).map(|file| OfFile {
                    file: Arc::clone(file),
                    name: server.name.clone(),
                    url: url.clone(),
                    client,
                });
                let logins = login.map(|login| Arc::new(login) as Arc<dyn Logins>);
                Kind::Remote(Remote { url, headers, logins })
            }
        };
        let settings = ServerSettings {
            name: server.name,
            kind,
            connect: server.timeout.unwrap_or(CONNECT_LIMIT),
            call: server.timeout.or(call_limit).unwrap_or(CALL_LIMIT),
        };
        let workspace = &place.workspace;
        let whose = (workspace.name(), workspace.directory().to_path_buf());
        servers.start(whose, settings, catalog.clone());
    }
}

/// The login at one server, in the file where OpenCode has them.
struct OfFile {
    file: Arc<LoginFile>,
    name: String,
    url: String,
    client: Option<OAuthClient>,
}

impl Logins for OfFile {
    fn load(&self) -> Option<Login> {
        self.file.login(&self.name, &self.url)
    }

    fn keep(&self, old: &Login, new: &Login) -> io::Result<()> {
        self.file.renew(&self.name, &self.url, old, new)
    }

    fn client(&self) -> Option<OAuthClient> {
        self.client.clone()
    }
}
