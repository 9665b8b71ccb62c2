//! Connections to a server: which one, how, and what to say when nothing answers.
//!
//! *Invariant:* a service started for one command and a remote server are used through the same clients.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::health_client::HealthClient;
use toolgate_contract::audit_service_client::AuditServiceClient;
use toolgate_contract::info_service_client::InfoServiceClient;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::{GetCallRequest, GetServerInfoRequest, WorkspaceInfo};
use toolgate_server::app::unshield;

use super::Globals;
use super::credentials::{Bearer, Credentials};
use super::exit::Failure;
use super::instances::Instance;
use super::service::{self, PrivateService};

const DEFAULT_URL: &str = "http://127.0.0.1:50551";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// An event of output fits into one frame.
const FRAME: u32 = 1 << 17;
/// A result carries whole files; the server's own limit is below this.
const MAX_MESSAGE: usize = 64 << 20;

/// A connection that makes itself anew when it breaks.
#[derive(Clone, Debug)]
pub(super) struct Client {
    channel: Channel,
    bearer: Bearer,
}

macro_rules! clients {
    ($($(#[$doc:meta])* $function:ident: $client:ident;)*) => {
        $(
            $(#[$doc])*
            pub(super) fn $function(&self) -> $client<InterceptedService<Channel, Bearer>> {
                $client::with_interceptor(self.channel.clone(), self.bearer.clone())
                    .max_decoding_message_size(MAX_MESSAGE)
                    .max_encoding_message_size(MAX_MESSAGE)
            }
        )*
    };
}

impl Client {
    /// Connects to the server that is named, else to the one that is likely to run here.
    pub(super) async fn connect(globals: &Globals) -> Result<Self, Failure> {
        let credentials = &globals.credentials;
        if let Some(url) = &globals.server {
            return Self::connect_to(url, credentials).await;
        }
        match service::configured_socket(globals.config.clone()).filter(|socket| socket.exists()) {
            Some(socket) => Self::connect_to(&socket_url(&socket), credentials).await,
            None => Self::connect_to(DEFAULT_URL, credentials).await,
        }
    }

    /// Connects to the server that is named, else to every service of this user that runs here, else to the one that is
    /// likely to.
    pub(super) async fn connect_all(globals: &Globals) -> Result<Vec<(Instance, Self)>, Failure> {
        let unnamed = |url: &str| Instance {
            url: url.to_owned(),
            ..Instance::default()
        };
        if let Some(url) = &globals.server {
            return Ok(vec![(unnamed(url), Self::connect(globals).await?)]);
        }
        let mut found = service::running();
        let configured = service::configured_socket(globals.config.clone()).filter(|socket| socket.exists());
        let configured = configured.map(|socket| socket_url(&socket));
        let configured = configured.filter(|url| !found.iter().any(|instance| instance.url == *url));
        found.extend(configured.iter().map(|url| unnamed(url)));
        if found.is_empty() {
            return Ok(vec![(unnamed(DEFAULT_URL), Self::connect(globals).await?)]);
        }
        let mut clients = Vec::new();
        let mut problem = None;
        for instance in found {
            match Self::connect_to(&instance.url, &globals.credentials).await {
                Ok(client) => clients.push((instance, client)),
                Err(failure) => problem = problem.or(Some(failure)),
            }
        }
        match problem {
            Some(failure) if clients.is_empty() => Err(failure),
            Some(_) | None => Ok(clients),
        }
    }

    /// Connects as [`Self::connect_all`], to the service that has a call; to the first if none has.
    pub(super) async fn connect_for(globals: &Globals, call: &str) -> Result<Self, Failure> {
        let mut clients = Self::connect_all(globals).await?;
        let mut chosen = 0;
        if clients.len() > 1 {
            for (index, (_, client)) in clients.iter().enumerate() {
                let call_id = call.to_owned();
                if client.tools().get_call(GetCallRequest { call_id }).await.is_ok() {
                    chosen = index;
                    break;
                }
            }
        }
        Ok(clients.swap_remove(chosen).1)
    }

    /// Connects to a service that was found.
    pub(super) async fn connect_to(url: &str, credentials: &Credentials) -> Result<Self, Failure> {
        let mut endpoint = endpoint(url)?;
        if url.starts_with("https:") {
            endpoint = credentials.encrypt(endpoint)?;
        }
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME)
            .tcp_nodelay(true);
        let bearer = credentials.bearer()?;
        if url.starts_with("http:") && bearer.is_empty() {
            // A service without authentication lets in by TCP only whom it can trace. Where this fails, the service says
            // what it could not see.
            let _ = unshield();
        }
        let channel = endpoint.connect().await.map_err(|error| Failure::Unreachable {
            address: url.to_owned(),
            cause: innermost(&error),
        })?;
        Ok(Self { channel, bearer })
    }

    /// Returns a client that connects on first use.
    #[cfg(test)]
    pub(super) fn disconnected() -> Self {
        Self {
            channel: Endpoint::from_static(DEFAULT_URL).connect_lazy(),
            bearer: Bearer::default(),
        }
    }

    clients! {
        /// Returns the client for tools and calls.
        tools: ToolServiceClient;
        /// Returns the client for prompts and grants.
        permissions: PermissionServiceClient;
        /// Returns the client for stored outputs.
        outputs: OutputServiceClient;
        /// Returns the client for sessions and events.
        sessions: SessionServiceClient;
        /// Returns the client for the audit.
        audit: AuditServiceClient;
        /// Returns the client for the server's own facts.
        info: InfoServiceClient;
        /// Returns the client that asks whether calls are taken.
        health: HealthClient;
    }

    /// Returns the name of the workspace that is meant: a name, or one whose directory this is. Empty means the default.
    pub(super) async fn workspace(&self, text: Option<&str>) -> Result<String, Failure> {
        let Some(text) = text else { return Ok(String::new()) };
        let Some(directory) = directory(text) else {
            return Ok(text.to_owned());
        };
        let info = self.info().get_server_info(GetServerInfoRequest {}).await?.into_inner();
        let found = |one: &&WorkspaceInfo| Path::new(&one.directory) == directory || one.name == text;
        match info.workspaces.iter().find(found) {
            Some(workspace) => Ok(workspace.name.clone()),
            None => {
                let known = info
                    .workspaces
                    .iter()
                    .map(|one| format!("\n  {} = {}", one.name, one.directory));
                let known = known.collect::<String>();
                Err(Failure::Usage(format!(
                    "the server has no workspace at {}; it has{known}",
                    directory.display()
                )))
            }
        }
    }
}

/// A client, with the service behind it where that was started for the command.
pub(super) struct Connection {
    /// The client.
    pub(super) client: Client,
    /// The name of the workspace that is meant; empty for the default one.
    pub(super) workspace: String,
    /// Where the server is, as it would be named on the command line.
    pub(super) url: String,
    /// How to say to it who calls.
    pub(super) credentials: Credentials,
    service: Option<PrivateService>,
}

impl Connection {
    /// Connects to the server that is named, else to the service that runs here and has the folder, if there is one and it
    /// lets this user in; else starts a service in this process.
    pub(super) async fn attach(globals: &Globals, workspace: Option<&str>) -> Result<Self, Failure> {
        let folder = directory(workspace.unwrap_or("."));
        if globals.server.is_none()
            && let Some(folder) = folder
            && let Some(instance) = service::that_has(&folder, globals.config.clone())
            && let Ok(client) = Client::connect_to(&instance.url, &globals.credentials).await
            && let Ok(name) = client.workspace(Some(&folder.to_string_lossy())).await
        {
            return Ok(Self {
                client,
                workspace: name,
                url: instance.url,
                credentials: globals.credentials.clone(),
                service: None,
            });
        }
        Self::open(globals, workspace).await
    }

    /// Says whether there is a server that outlives the command: one that is named, or one that has the folder.
    pub(super) fn is_there(globals: &Globals, workspace: Option<&str>) -> bool {
        let folder = directory(workspace.unwrap_or("."));
        let found = || folder.and_then(|folder| service::that_has(&folder, globals.config.clone()));
        globals.server.is_some() || found().is_some()
    }

    /// Connects to the server that is named, or starts a service in this process when none is.
    pub(super) async fn open(globals: &Globals, workspace: Option<&str>) -> Result<Self, Failure> {
        if let Some(url) = &globals.server {
            let client = Client::connect(globals).await?;
            let workspace = client.workspace(workspace).await?;
            return Ok(Self {
                client,
                workspace,
                url: url.clone(),
                credentials: globals.credentials.clone(),
                service: None,
            });
        }
        let (name, folder) = match workspace {
            Some(text) => match directory(text) {
                Some(directory) => (String::new(), Some(directory)),
                None => (text.to_owned(), None),
            },
            None => (String::new(), directory(".")),
        };
        let service = PrivateService::start(globals.config.clone(), folder).await?;
        // The owner of the socket; what is meant for another server is not shown.
        let (url, credentials) = (socket_url(service.socket()?), Credentials::default());
        let client = Client::connect_to(&url, &credentials).await?;
        Ok(Self {
            client,
            workspace: name,
            url,
            credentials,
            service: Some(service),
        })
    }

    /// Says whether the service ends with the command.
    pub(super) fn is_private(&self) -> bool {
        self.service.is_some()
    }

    /// Ends the service in order, if it is ours.
    pub(super) async fn close(self) {
        if let Some(service) = self.service {
            service.drain().await;
        }
    }

    /// Ends the service at once, if it is ours: what it started is killed with it.
    pub(super) fn abandon(self) {
        drop(self.service);
    }
}

fn socket_url(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

fn endpoint(url: &str) -> Result<Endpoint, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("`{url}` is no server address: {why}"));
    if let Some(path) = url.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err(wrong("the path is missing in unix:/PATH"));
        }
    } else if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(wrong("write http://HOST:PORT, https://HOST:PORT or unix:/PATH"));
    }
    Endpoint::from_shared(url.to_owned()).map_err(|error| wrong(&innermost(&error)))
}

/// Returns the directory that a text names; a plain word is the name of a workspace.
fn directory(text: &str) -> Option<PathBuf> {
    let looks_like_path = text == "." || text == ".." || text.contains('/');
    if !looks_like_path {
        return None;
    }
    // A directory that is not there is reported by the service, under the name that was given.
    Some(std::fs::canonicalize(text).unwrap_or_else(|_| PathBuf::from(text)))
}

/// Returns the last cause of an error: a transport error names nothing itself.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        fn check(url: &str, problem: Option<&str>) {
            match (endpoint(url), problem) {
                (Ok(_), None) => {}
                (Err(failure), Some(part)) => assert!(failure.describe().contains(part), "{url}: {failure}"),
                (result, _) => panic!("{url}: {:?}", result.map(|_| ())),
            }
        }
        check("http://127.0.0.1:50551", None);
        check("http://[::1]:1", None);
        check("unix:/run/toolgate.sock", None);
        check("unix:///run/toolgate.sock", None);
        check("unix:", Some("path is missing"));
        check("https://example.com", None);
        check("127.0.0.1:50551", Some("write http://HOST:PORT"));
        check("http://", Some("no server address"));
    }

    #[test]
    fn names_are_no_directories() {
        assert_eq!(directory("main"), None);
        assert_eq!(directory("/"), Some(PathBuf::from("/")));
        assert_eq!(directory("./missing"), Some(PathBuf::from("./missing")));
    }
}
