//! The servers of tools that the configuration names, wired to the workspaces' catalogs.

use std::sync::Arc;
use std::time::Duration;

use crate::call::SourceState;
use crate::config::Environment;
use crate::config::mcp::{McpKind, McpLogin, McpServerConfig, login_file, stored_login};
use crate::engine::{Catalog, Contribution, Place, Rank};
use crate::mcp::{CALL_LIMIT, CONNECT_LIMIT, Kind, Local, Login, Remote, ServerSettings, Servers, Shelf};
use crate::tool::Tool;

const UNTRUSTED: &str = "The server is named by the project, and this workspace is not trusted. If you trust it, set \
                         `trust = true` for the workspace in toolgate.toml, or start the service with `--trust` or \
                         TOOLGATE_TRUST=1.";

/// What the configuration of one workspace says of servers.
pub(super) struct Named {
    pub(super) servers: Vec<McpServerConfig>,
    pub(super) call_limit: Option<Duration>,
}

/// The tools of one workspace.
struct OfCatalog(Arc<Catalog>);

impl Shelf for OfCatalog {
    fn offer(&self, server: &str, tools: Vec<Arc<dyn Tool>>) -> Vec<String> {
        let hooks = Vec::new();
        let problems = self.0.offer(Rank::Mcp, server, Contribution { tools, hooks });
        problems.iter().map(ToString::to_string).collect()
    }

    fn report(&self, server: &str, state: SourceState, problem: String) {
        self.0.report(Rank::Mcp, server, state, problem);
    }
}

/// Begins to connect to the servers of a workspace; waits for none.
pub(super) fn start(servers: &Servers, place: &Place, named: Named, environment: &Environment) {
    let shelf: Arc<dyn Shelf> = Arc::new(OfCatalog(place.tools.clone()));
    let names = named.servers.iter().map(|server| server.name.clone());
    place.tools.arrange(Rank::Mcp, names);
    for server in named.servers {
        let kind = match server.kind {
            McpKind::Disabled => {
                shelf.report(&server.name, SourceState::Disabled, String::new());
                continue;
            }
            McpKind::Untrusted => {
                shelf.report(&server.name, SourceState::Untrusted, UNTRUSTED.to_owned());
                continue;
            }
            McpKind::Invalid(problem) => {
                shelf.report(&server.name, SourceState::Failed, problem);
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
            } => {
                let file = login_file(environment).filter(|_| uses_login);
                let (name, at) = (server.name.clone(), url.clone());
                let login = file.map(|file| {
                    let look = move || stored_login(&file, &name, &at).map(login);
                    Arc::new(look) as Arc<dyn Fn() -> Option<Login> + Send + Sync>
                });
                Kind::Remote(Remote { url, headers, login })
            }
        };
        let settings = ServerSettings {
            name: server.name,
            kind,
            connect: server.timeout.unwrap_or(CONNECT_LIMIT),
            call: server.timeout.or(named.call_limit).unwrap_or(CALL_LIMIT),
        };
        servers.start(place.workspace.directory().to_path_buf(), settings, shelf.clone());
    }
}

fn login(stored: McpLogin) -> Login {
    match stored {
        McpLogin::Token(token) => Login::Token(token),
        McpLogin::Expired => Login::Expired,
    }
}
