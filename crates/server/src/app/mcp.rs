//! The servers of tools that the configuration names, wired to the workspaces' catalogs and to the stored logins.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use toolgate_config::logins::LoginFiles;
use toolgate_config::mcp::{McpKind, McpServerConfig, OAuthConfig};
use toolgate_engine::WorkspaceRuntime;
pub(super) use toolgate_extensions::mcp::Servers;
use toolgate_extensions::mcp::{CALL_LIMIT, CONNECT_LIMIT, Kind, Local, Logins, Remote, ServerSettings};
use toolgate_model::{Login, OAuthClient, Source, SourceState};

pub(super) const UNTRUSTED: &str = "The server is named by the project, and this workspace is not trusted. If you trust it, set \
                         `trust = true` for the workspace in toolgate.toml, or start the service with `--trust` or \
                         TOOLGATE_TRUST=1.";

/// Begins to connect to the servers that the configuration of a workspace names; waits for none.
pub(super) fn start(
    servers: &Servers,
    place: &WorkspaceRuntime,
    (named, call_limit): (Vec<McpServerConfig>, Option<Duration>),
    logins: Option<&Arc<LoginFiles>>,
) {
    let catalog = &place.tools;
    let names = named.iter().map(|server| server.name.clone());
    catalog.arrange(Source::Mcp, names);
    for server in named {
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
            McpKind::Remote { url, headers, oauth } => {
                let login = logins.zip(oauth).map(|(files, oauth)| OfFiles {
                    files: Arc::clone(files),
                    name: server.name.clone(),
                    url: url.clone(),
                    oauth,
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

/// The login at one server, in the files where Toolgate and OpenCode have them.
pub(super) struct OfFiles {
    pub(super) files: Arc<LoginFiles>,
    pub(super) name: String,
    pub(super) url: String,
    pub(super) oauth: OAuthConfig,
}

impl Logins for OfFiles {
    fn load(&self) -> Option<Login> {
        self.files.login(&self.name, &self.url)
    }

    fn keep(&self, old: &Login, new: &Login) -> io::Result<()> {
        self.files.renew(&self.name, &self.url, old, new)
    }

    fn client(&self) -> Option<OAuthClient> {
        self.oauth.client.clone()
    }

    fn has_document(&self) -> bool {
        self.oauth.document.is_some()
    }

    fn lacks(&self, scopes: &[String]) -> io::Result<()> {
        self.files.lacks(&self.name, &self.url, scopes)
    }
}
