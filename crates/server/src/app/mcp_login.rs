//! Logging in at a server of tools that the configuration names, and out again. It is a person who does that, by a command:
//! no service has to run.
//!
//! *Invariant:* what the project alone says of servers is not heard unless the workspace is trusted: a login is for a server that
//! somebody meant. A login is stored when it works, and nowhere but in the file for that; no token is in what is returned.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use toolgate_config::logins::LoginFiles;
use toolgate_config::mcp::{Callback, McpKind, McpServerConfig, OAuthConfig};
use toolgate_config::{Config, Environment, ToolsConfig};
use toolgate_extensions::mcp::{Authorization, CONNECT_LIMIT, Logins, Probed, Remote, Wish, probe};
use toolgate_fs::Workspace;
use toolgate_model::InstanceId;
use toolgate_web::Network;

use super::loopback::Loopback;
use super::mcp::{OfFiles, UNTRUSTED};

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How long it may take to find out where a person has to log in: a server may name many addresses.
const SEARCH_LIMIT: Duration = Duration::from_secs(2 * 60);

/// A server at which one can log in.
pub struct LoginPlace {
    name: String,
    url: String,
    headers: std::collections::BTreeMap<String, String>,
    oauth: Box<OAuthConfig>,
    limit: Duration,
    files: Arc<LoginFiles>,
    network: Network,
}

/// No workspace names the server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotNamed(String);

/// What a server wants before it works.
pub enum Wanted {
    /// Nothing: it works, and has so many tools.
    Nothing(usize),
    /// A person has to visit a page.
    Visit(Box<Visit>),
}

/// A page that a person has to visit.
pub struct Visit {
    authorization: Authorization,
    loopback: Loopback,
}

impl LoginPlace {
    /// Finds a server by its name, in the workspaces of the configuration.
    ///
    /// # Errors
    /// There is none at which one can log in; the text says why.
    pub fn find(config: &Config, environment: &Environment, name: &str) -> anyhow::Result<Self> {
        let mut known = Vec::new();
        for workspace in &config.workspaces {
            let servers = servers(&workspace.name, &workspace.directory, workspace.trust, environment)?;
            let found = servers.iter().find(|server| server.name == name);
            if let Some(server) = found {
                return Self::at(server, config, environment);
            }
            known.extend(servers.into_iter().map(|server| server.name));
        }
        let text = match known.is_empty() {
            true => {
                "there are no MCP servers: run this in the folder of a workspace, or name one by --workspace".to_owned()
            }
            false => format!("there is no MCP server {name:?}; there are: {}", known.join(", ")),
        };
        Err(NotNamed(text).into())
    }

    fn at(server: &McpServerConfig, config: &Config, environment: &Environment) -> anyhow::Result<Self> {
        let name = &server.name;
        let (url, headers, oauth) = match &server.kind {
            McpKind::Remote { url, headers, oauth } => (url, headers, oauth),
            McpKind::Local { .. } => bail!("{name} is a program, and needs no login"),
            McpKind::Disabled => bail!("{name} is switched off (`enabled` in its entry of the configuration)"),
            McpKind::Untrusted => bail!("{UNTRUSTED}"),
            McpKind::Invalid(problem) => bail!("the entry of {name} cannot be used: {problem}"),
        };
        let oauth = oauth.clone();
        let oauth =
            oauth.with_context(|| format!("the entry of {name} says that no login is used (`oauth`: false)"))?;
        if oauth.issuer.is_some() {
            bail!("{name} is logged in at by its client itself (`grantType` client_credentials): nobody else has to");
        }
        if headers.keys().any(|key| key.eq_ignore_ascii_case("authorization")) {
            bail!("the entry of {name} has `headers.Authorization`, which counts in the place of a login");
        }
        let files = LoginFiles::locate(environment);
        let files = files.context("there is no place for logins: set HOME or XDG_DATA_HOME")?;
        let prepared = files.prepare();
        prepared.with_context(|| format!("cannot prepare the place for logins, {}", files.own().display()))?;
        Ok(Self {
            name: name.clone(),
            url: url.clone(),
            headers: headers.clone(),
            oauth,
            limit: server.timeout.unwrap_or(CONNECT_LIMIT),
            files: Arc::new(files),
            network: Network::new(config.network.clone()),
        })
    }

    /// Returns the server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the file that holds the logins.
    pub fn file(&self) -> &Path {
        self.files.own()
    }

    /// Finds out what a person has to do to log in. `port` is the one that the browser comes back to, if not any.
    ///
    /// # Errors
    /// The server does not work, or nobody can log in there.
    pub async fn begin(&self, port: Option<u16>) -> anyhow::Result<Wanted> {
        let lacking = self.files.lacking(&self.name, &self.url);
        let challenge = match self.probe(None).await {
            Probed::Works(tools) if lacking.is_empty() => return Ok(Wanted::Nothing(tools)),
            Probed::Works(_) => String::new(),
            Probed::NeedsLogin(challenge) => challenge,
            Probed::Failed(problem) => bail!("{}: {problem}", self.name),
        };
        let mut callback = self.oauth.callback.clone().unwrap_or_default();
        callback.port = port.unwrap_or(callback.port);
        let loopback = Loopback::listen(&callback).await?;
        let wish = Wish {
            url: self.url.clone(),
            challenge,
            client: self.oauth.client.clone(),
            document: self.oauth.document.clone(),
            scopes: self.scopes(lacking),
            callback: address(&callback, loopback.port()),
        };
        let begun = tokio::time::timeout(SEARCH_LIMIT, Authorization::begin(wish, &self.network)).await;
        let authorization = begun.context("it takes too long to find out where to log in")??;
        Ok(Wanted::Visit(Box::new(Visit {
            authorization,
            loopback,
        })))
    }

    /// Returns what the login is to be good for: what the configuration says, and what one lacked that was there before,
    /// beside what that was good for. None for what the server says.
    fn scopes(&self, lacking: Vec<String>) -> Vec<String> {
        let mut scopes = self.oauth.scopes.clone();
        if !lacking.is_empty() {
            let login = self.files.login(&self.name, &self.url);
            let before = login.map(|login| login.scopes).unwrap_or_default();
            for scope in before.into_iter().chain(lacking) {
                if !scopes.contains(&scope) {
                    scopes.push(scope);
                }
            }
        }
        scopes
    }

    /// Waits until the person is back, stores the login and tries it out. Returns how many tools the server has.
    ///
    /// # Errors
    /// Nobody comes back, there is no login, or the server does not work with it.
    pub async fn complete(&self, visit: &Visit) -> anyhow::Result<usize> {
        let arrived = tokio::time::timeout(PATIENCE, visit.loopback.arrived(visit.authorization.state())).await;
        let arrived = arrived.context("nobody came back from the page within ten minutes")??;
        let login = visit.authorization.complete(&arrived).await?;
        let stored = self.files.store(&self.name, &self.url, &login);
        stored.with_context(|| format!("the login cannot be stored in {}", self.file().display()))?;
        let logins: Arc<dyn Logins> = Arc::new(OfFiles {
            files: Arc::clone(&self.files),
            name: self.name.clone(),
            url: self.url.clone(),
            oauth: self.oauth.clone(),
        });
        match self.probe(Some(logins)).await {
            Probed::Works(tools) => Ok(tools),
            Probed::NeedsLogin(_) => bail!("the login was stored, but the server refuses it: log in once more"),
            Probed::Failed(problem) => bail!("the login was stored, but the server does not work: {problem}"),
        }
    }

    /// Forgets the login, and says whether there was one. That of OpenCode stays.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn forget(&self) -> anyhow::Result<bool> {
        let removed = self.files.remove(&self.name, &self.url);
        removed.with_context(|| format!("cannot change {}", self.file().display()))
    }

    /// Says whether OpenCode has a login there, which is used where Toolgate has none.
    pub fn is_known_to_opencode(&self) -> bool {
        self.files.own_login(&self.name, &self.url).is_none() && self.files.login(&self.name, &self.url).is_some()
    }

    async fn probe(&self, logins: Option<Arc<dyn Logins>>) -> Probed {
        let remote = Remote {
            url: self.url.clone(),
            headers: self.headers.clone(),
            logins,
        };
        let instance = InstanceId::generate();
        probe(&self.name, &remote, self.limit, &self.network, &instance).await
    }
}

impl Visit {
    /// Returns the page.
    pub fn address(&self) -> &str {
        self.authorization.address()
    }

    /// Returns what the login is asked for; nothing if that is left to who gives it.
    pub fn scopes(&self) -> &[String] {
        self.authorization.scopes()
    }

    /// Returns where the browser comes back to.
    pub fn listens(&self) -> SocketAddr {
        self.loopback.address()
    }
}

fn address(callback: &Callback, port: u16) -> String {
    format!("http://{}:{port}{}", callback.host, callback.path)
}

fn servers(
    name: &str,
    directory: &Path,
    is_trusted: bool,
    environment: &Environment,
) -> anyhow::Result<Vec<McpServerConfig>> {
    let home = environment.home().map(Path::to_path_buf);
    let workspace = Workspace::open(name, directory, home);
    let workspace = workspace.with_context(|| format!("cannot open the workspace {}", directory.display()))?;
    let tools = ToolsConfig::load(workspace.directory(), workspace.worktree(), environment)?;
    Ok(tools.mcp_servers(is_trusted))
}
