//! The servers of tools that the configuration names, wired to the workspaces' catalogs and to the stored logins. They are those
//! that the files name at the moment: whoever may write these may have programs started anyway, so that nobody needs a right of
//! his own for it, and no RPC starts a program.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use toolgate_config::Environment;
use toolgate_config::logins::LoginFiles;
use toolgate_config::mcp::{McpKind, McpServerConfig, OAuthConfig};
use toolgate_engine::WorkspaceRuntime;
use toolgate_extensions::mcp::{ByItself, CALL_LIMIT, CONNECT_LIMIT, Kind, Local, Logins, Remote, ServerSettings};
pub(super) use toolgate_extensions::mcp::{Servers, resource_tools};
use toolgate_fs::Workspace;
use toolgate_model::{Login, OAuthClient, Source, SourceState};
use toolgate_tool::Catalog;

pub(super) const UNTRUSTED: &str = "The server is named by the project, and this workspace is not trusted. If you trust it, set \
                         `trust = true` for the workspace in toolgate.toml, or start the service with `--trust` or \
                         TOOLGATE_TRUST=1.";

/// The servers of one workspace, as the configuration had them last.
pub(super) struct Configured {
    servers: Arc<Servers>,
    workspace: Arc<Workspace>,
    catalog: Arc<Catalog>,
    logins: Option<Arc<LoginFiles>>,
    named: Vec<McpServerConfig>,
    /// How long a call may take, where an entry does not say it.
    call_limit: Option<Duration>,
}

impl Configured {
    /// Begins to connect to the servers that the configuration of a workspace names; waits for none.
    pub(super) fn start(
        servers: &Arc<Servers>,
        place: &WorkspaceRuntime,
        named: (Vec<McpServerConfig>, Option<Duration>),
        environment: &Environment,
    ) -> Self {
        let mut configured = Self {
            servers: Arc::clone(servers),
            workspace: Arc::clone(&place.workspace),
            catalog: Arc::clone(&place.tools),
            logins: LoginFiles::locate(environment).map(Arc::new),
            named: Vec::new(),
            call_limit: None,
        };
        configured.apply(named);
        configured
    }

    /// Has the servers be those that the configuration names now: those that it names no more are ended, those that are new or
    /// not as before are started. Returns the names of all of these.
    pub(super) fn apply(&mut self, (named, call_limit): (Vec<McpServerConfig>, Option<Duration>)) -> Vec<String> {
        let has_other_limit = call_limit != self.call_limit;
        let is_as_before =
            |server: &&McpServerConfig| self.named.contains(server) && (!has_other_limit || server.timeout.is_some());
        let (_, changed): (Vec<_>, Vec<_>) = named.iter().partition(is_as_before);
        let is_named = |server: &&McpServerConfig| named.iter().any(|other| other.name == server.name);
        let (_, gone): (Vec<_>, Vec<_>) = self.named.iter().partition(is_named);
        let workspace = self.workspace.name();
        let touched = gone.iter().chain(&changed).map(|server| server.name.clone()).collect();
        for server in gone {
            self.servers.end_one(workspace, &server.name, &self.catalog);
        }
        if named
            .iter()
            .map(|server| &server.name)
            .ne(self.named.iter().map(|server| &server.name))
        {
            self.catalog
                .arrange(Source::Mcp, named.iter().map(|server| server.name.clone()));
        }
        for server in changed {
            self.begin(server, call_limit);
        }
        let names: Vec<String> = named.iter().map(|server| server.name.clone()).collect();
        self.servers.arrange(workspace, &names);
        (self.named, self.call_limit) = (named, call_limit);
        touched
    }

    fn begin(&self, server: &McpServerConfig, call_limit: Option<Duration>) {
        let left_out = |state: SourceState, problem: &str| {
            // It may have run until now.
            self.servers.end_one(self.workspace.name(), &server.name, &self.catalog);
            self.catalog.report(Source::Mcp, &server.name, state, problem);
        };
        let kind = match server.kind.clone() {
            McpKind::Disabled => return left_out(SourceState::Disabled, ""),
            McpKind::Untrusted => return left_out(SourceState::Untrusted, UNTRUSTED),
            McpKind::Invalid(problem) => return left_out(SourceState::Failed, &problem),
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
                let login = self.logins.clone().zip(oauth).map(|(files, oauth)| OfFiles {
                    files,
                    name: server.name.clone(),
                    url: url.clone(),
                    oauth,
                });
                let logins = login.map(|login| Arc::new(login) as Arc<dyn Logins>);
                Kind::Remote(Remote { url, headers, logins })
            }
        };
        let settings = ServerSettings {
            name: server.name.clone(),
            kind,
            connect: server.timeout.unwrap_or(CONNECT_LIMIT),
            call: server.timeout.or(call_limit).unwrap_or(CALL_LIMIT),
        };
        let whose = (self.workspace.name(), self.workspace.directory().to_path_buf());
        self.servers.start(whose, settings, self.catalog.clone());
    }
}

/// The login at one server, in the files where Toolgate and OpenCode have them.
pub(super) struct OfFiles {
    pub(super) files: Arc<LoginFiles>,
    pub(super) name: String,
    pub(super) url: String,
    pub(super) oauth: Box<OAuthConfig>,
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

    fn by_itself(&self) -> Option<ByItself> {
        Some(ByItself {
            issuer: self.oauth.issuer.clone()?,
            client: self.oauth.client.clone()?,
            scopes: self.oauth.scopes.clone(),
        })
    }

    fn has_document(&self) -> bool {
        self.oauth.document.is_some()
    }

    fn lacks(&self, scopes: &[String]) -> io::Result<()> {
        self.files.lacks(&self.name, &self.url, scopes)
    }
}
