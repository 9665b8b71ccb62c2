//! Connections to a server: which one, how, and what to say when nothing answers.
//!
//! *Invariant:* a service started for one command and a remote server are used through the same clients.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolgate_client::{Client, DEFAULT_TARGET};
use toolgate_model::workspace_name_problem;
use toolgate_server::app::unshield;

use super::credentials::CredentialArgs;
use super::exit::{Exit, Failure};
use super::folder;
use super::globals::Globals;
use super::instances::Instance;
use super::service::{self, PrivateService};
use super::terminal::Terminal;
use super::words;

/// How often a lost connection is tried again.
pub(super) const MAX_ATTEMPTS: u32 = 8;

/// What a filter names to mean all workspaces that the caller may see.
pub(super) const ALL_WORKSPACES: &str = "-";

/// Why a command can do something only with a server that is there to stay.
pub(super) const NEEDS_SERVER: &str = "--keep and --wait need a server that outlives this command: name one with --server, or start one for \
                                       this folder with `toolgate serve`";

/// Longer than that many attempts take.
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);

/// How long it is tried again whether a gateway has its database back: whoever waits at a terminal is told soon.
const STORE_TIMEOUT: Duration = Duration::from_secs(4);

/// Connects to the server that is named. Else, where several services of this user run until they are stopped, to the one that was
/// started for the folder that is meant, this one unless a workspace names another; then to the configured socket, to the only
/// service, or to the default address. Which of several is asked is told.
pub(super) async fn connect(
    globals: &Globals,
    workspace: Option<&str>,
    terminal: &Terminal,
) -> Result<Client, Failure> {
    if let Some(url) = &globals.server {
        return connect_to(url, &globals.credentials).await;
    }
    let mut running = service::running();
    running.retain(|one| one.stays);
    let configured = configured_url(globals);
    let is_listed = |url: &String| running.iter().any(|one| one.url == *url);
    let is_one = running.len() + usize::from(configured.as_ref().is_some_and(|url| !is_listed(url))) < 2;
    let here = if is_one { None } else { started_for(globals, workspace) };
    let url = match here.or(configured) {
        Some(url) => url,
        None => the_one(running)?,
    };
    if !is_one {
        terminal.inform(&format!(
            "several services run here: {url} is asked; --server names another"
        ));
    }
    connect_to(&url, &globals.credentials).await
}

/// Returns the address of the service that was started for the folder that is meant. Nothing is asked: one that hangs holds up nobody.
fn started_for(globals: &Globals, workspace: Option<&str>) -> Option<String> {
    let folder = workspace.and_then(directory).or_else(|| directory("."))?;
    let mut found = service::that_may_have(Some(&folder), globals.config.clone()).into_iter();
    let has_folder = |one: &Instance| one.workspaces.iter().any(|(_, path)| *path == folder);
    found.find(has_folder).map(|one| one.url)
}

/// Returns the address of the only service that was found, or the default one where none was.
fn the_one(found: Vec<Instance>) -> Result<String, Failure> {
    match found.as_slice() {
        [] => Ok(DEFAULT_TARGET.to_owned()),
        [one] => Ok(one.url.clone()),
        several => {
            let listed = several.iter().map(|one| {
                let folders = one.workspaces.iter().map(|(_, path)| folder::shown(path));
                format!("\n  {}  {}", one.url, folders.collect::<Vec<_>>().join(", "))
                    .trim_end()
                    .to_owned()
            });
            let listed: String = listed.collect();
            let text = format!("several services run here; name one of them with --server:{listed}");
            Err(Failure::Usage(text))
        }
    }
}

/// Returns the configured socket, if there is one.
fn configured_url(globals: &Globals) -> Option<String> {
    let socket = service::configured_socket(globals.config.clone())?;
    socket.exists().then(|| socket_url(&socket))
}

/// Connects to the server that is named, else to every service of this user that runs here, else to the one that is
/// likely to.
pub(super) async fn connect_all(globals: &Globals) -> Result<Vec<(Instance, Client)>, Failure> {
    if let Some(url) = &globals.server {
        return Ok(vec![(unnamed(url), connect_to(url, &globals.credentials).await?)]);
    }
    let mut found = service::running();
    let configured = configured_url(globals);
    let configured = configured.filter(|url| !found.iter().any(|instance| instance.url == *url));
    found.extend(configured.as_deref().map(unnamed));
    if found.is_empty() {
        let client = connect_to(DEFAULT_TARGET, &globals.credentials).await?;
        return Ok(vec![(unnamed(DEFAULT_TARGET), client)]);
    }
    let mut clients = Vec::new();
    let mut problem = None;
    for instance in found {
        match connect_to(&instance.url, &globals.credentials).await {
            Ok(client) => clients.push((instance, client)),
            Err(failure) => problem = problem.or(Some(failure)),
        }
    }
    match problem {
        Some(failure) if clients.is_empty() => Err(failure),
        Some(_) | None => Ok(clients),
    }
}

/// Returns a service of which nothing is known but its address.
fn unnamed(url: &str) -> Instance {
    Instance {
        url: url.to_owned(),
        ..Instance::default()
    }
}

/// Connects as [`connect_all`], to the service that has a call; to the first if none has.
pub(super) async fn connect_for(globals: &Globals, call: &str) -> Result<Client, Failure> {
    connect_where(globals, async |client| client.get_call(call).await.is_ok()).await
}

/// Connects as [`connect_all`], to the first service that has something; to the first of all if none has.
pub(super) async fn connect_where(globals: &Globals, has: impl AsyncFn(&Client) -> bool) -> Result<Client, Failure> {
    Ok(find_where(globals, has).await?.1)
}

/// Connects as [`connect_where`], and says where that service is.
pub(super) async fn find_where(
    globals: &Globals,
    has: impl AsyncFn(&Client) -> bool,
) -> Result<(Instance, Client), Failure> {
    let mut clients = connect_all(globals).await?;
    let mut chosen = 0;
    if clients.len() > 1 {
        for (index, (_, client)) in clients.iter().enumerate() {
            if has(client).await {
                chosen = index;
                break;
            }
        }
    }
    Ok(clients.swap_remove(chosen))
}

/// Connects to a server by its address.
pub(super) async fn connect_to(url: &str, credentials: &CredentialArgs) -> Result<Client, Failure> {
    check_address(url)?;
    let credentials = credentials.to_credentials();
    if url.starts_with("http:") && credentials.bearer()?.is_empty() {
        // A service without authentication lets in by TCP only whom it can trace. Where this fails, the service says
        // what it could not see.
        let _ = unshield();
    }
    let client = Client::builder(url)
        .credentials(credentials)
        .max_attempts(MAX_ATTEMPTS)
        .retry_timeout(RETRY_TIMEOUT)
        .reconnect_timeout(RETRY_TIMEOUT)
        .store_timeout(STORE_TIMEOUT)
        .wait_when_busy(false);
    Ok(client.connect().await?)
}

/// Refuses an address that does not say how to reach the server.
fn check_address(url: &str) -> Result<(), Failure> {
    if ["unix:", "http://", "https://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
    {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "`{url}` is not a server address: write http://HOST:PORT, https://HOST:PORT or unix:/PATH"
    )))
}

/// Returns what to filter workspaces by: a name or `PREFIX/*`; all of them unless one is named.
pub(super) async fn workspace_filter(client: &Client, text: Option<&str>) -> Result<String, Failure> {
    match text {
        None => Ok(ALL_WORKSPACES.to_owned()),
        Some(prefix) if prefix.ends_with("/*") => Ok(prefix.to_owned()),
        some => workspace_name(client, some).await,
    }
}

/// Returns the name of the workspace that is meant: a name, or one whose directory this is. Empty means the default.
pub(super) async fn workspace_name(client: &Client, text: Option<&str>) -> Result<String, Failure> {
    let Some(text) = text else { return Ok(String::new()) };
    let Some(directory) = directory(text) else {
        return Ok(text.to_owned());
    };
    let workspaces = client.server_info().await?.workspaces;
    let (mut folders, mut names) = (workspaces.iter(), workspaces.iter());
    let found = folders.find(|one| Path::new(&one.directory) == directory);
    match found.or_else(|| names.find(|one| one.name == text)) {
        Some(workspace) => Ok(workspace.name.clone()),
        None => {
            let listed = workspaces.iter();
            let listed: String = listed
                .map(|one| format!("\n  {} = {}", one.name, one.directory))
                .collect();
            Err(Failure::Usage(format!(
                "the server has no workspace at {}; it has:{listed}",
                directory.display()
            )))
        }
    }
}

/// A running service that a command may use, because it has the folder.
enum Found {
    /// One that judges calls as a service of this command would, and what is wrong with the folder's configuration.
    Fits(Box<Connection>, Option<String>),
    /// Only one that was started with other settings: where it is, and the names of these.
    Differs(String, Vec<String>),
    None,
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
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only MCP goes beside the client"))]
    pub(super) credentials: CredentialArgs,
    service: Option<PrivateService>,
}

impl Connection {
    /// Connects to the server that is named, else to the service that runs here and has the folder, if there is one, it lets this user
    /// in, and it judges calls as one of this command would; else starts a service in this process.
    pub(super) async fn attach(
        globals: &Globals,
        workspace: Option<&str>,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        match Self::find(globals, workspace).await {
            Found::Fits(found, notice) => {
                if let Some(notice) = notice {
                    terminal.warning(&notice);
                }
                Ok(*found)
            }
            Found::Differs(url, settings) => {
                terminal.inform(&format!(
                    "{url} has this folder, but was started with another {}: a separate service does this",
                    settings.join(", ")
                ));
                Self::open(globals, workspace).await
            }
            Found::None => Self::open(globals, workspace).await,
        }
    }

    /// Looks for the service that runs here and has the folder, or a workspace of the name, unless a server is named.
    async fn find(globals: &Globals, workspace: Option<&str>) -> Found {
        let folder = directory(workspace.unwrap_or("."));
        let wanted = folder.as_ref().map(|folder| folder.to_string_lossy());
        let wanted = wanted.as_deref().or(workspace);
        let (None, Some(wanted)) = (&globals.server, wanted) else {
            return Found::None;
        };
        let mut differs = Found::None;
        for instance in service::that_may_have(folder.as_deref(), globals.config.clone()) {
            if let Ok(client) = connect_to(&instance.url, &globals.credentials).await
                && let Ok(info) = client.server_info().await
                // What listens there is what has told of itself.
                && info.instance_id == instance.id
                && let Some(found) = info
                    .workspaces
                    .into_iter()
                    .find(|one| one.directory == wanted || Some(one.name.as_str()) == workspace)
            {
                let settings = service::differences(&instance);
                if settings.is_empty() {
                    // Why all its calls are refused, each of them says.
                    let notice = words::workspace_notice(&found).filter(|_| found.problem.is_empty());
                    let connection = Self::running(client, found.name, instance.url, globals);
                    return Found::Fits(Box::new(connection), notice);
                }
                differs = Found::Differs(instance.url, settings);
            }
        }
        differs
    }

    fn running(client: Client, workspace: String, url: String, globals: &Globals) -> Self {
        Self {
            client,
            workspace,
            url,
            credentials: globals.credentials.clone(),
            service: None,
        }
    }

    /// Checks that there is a server that outlives the command: one that is named, or one that has the folder.
    ///
    /// # Errors
    /// There is none, or one that judges calls otherwise; the text says what to do.
    pub(super) async fn must_outlive(globals: &Globals, workspace: Option<&str>) -> Result<(), Failure> {
        if globals.server.is_some() {
            return Ok(());
        }
        match Self::find(globals, workspace).await {
            Found::Fits(..) => Ok(()),
            Found::Differs(url, settings) => Err(Failure::Usage(format!(
                "{NEEDS_SERVER}. {url} has this folder, but was started with another {}: --server {url} uses it as it is",
                settings.join(", ")
            ))),
            Found::None => Err(Failure::Usage(NEEDS_SERVER.to_owned())),
        }
    }

    /// Connects to the server that is named, or starts a service in this process when none is.
    pub(super) async fn open(globals: &Globals, workspace: Option<&str>) -> Result<Self, Failure> {
        Self::open_for(globals, workspace, None).await
    }

    /// As [`Self::open`]; a service that is started is found by the name of the session that it is for.
    pub(super) async fn open_for(
        globals: &Globals,
        workspace: Option<&str>,
        session: Option<&str>,
    ) -> Result<Self, Failure> {
        if let Some(url) = &globals.server {
            let client = connect_to(url, &globals.credentials).await?;
            let workspace = workspace_name(&client, workspace).await?;
            return Ok(Self::running(client, workspace, url.clone(), globals));
        }
        let (name, folder) = match workspace {
            Some(text) => match directory(text) {
                Some(directory) => (String::new(), Some(directory)),
                None => (text.to_owned(), None),
            },
            None => (String::new(), directory(".")),
        };
        let service = PrivateService::start(globals.config.clone(), folder, session.map(str::to_owned)).await?;
        // The owner of the socket; what is meant for another server is not shown.
        let (url, credentials) = (socket_url(service.socket()?), CredentialArgs::default());
        let client = connect_to(&url, &credentials).await?;
        Ok(Self {
            client,
            workspace: name,
            url,
            credentials,
            service: Some(service),
        })
    }

    /// Returns whether the service ends with the command.
    pub(super) fn is_private(&self) -> bool {
        self.service.is_some()
    }

    /// Ends the service in order, if it is ours.
    pub(super) async fn close(self) {
        if let Some(service) = self.service {
            service.drain().await;
        }
    }

    /// Ends the service after what a command did, if it is ours: in order, or at once if the command was interrupted, and what
    /// it started is killed with it.
    pub(super) async fn end(self, ended: Result<Exit, Failure>) -> Result<Exit, Failure> {
        if !matches!(ended, Ok(Exit::Interrupted)) {
            self.close().await;
        }
        ended
    }
}

fn socket_url(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

/// Returns the directory that a text names. A plain word is the name of a workspace, and so is `acme/web-17` if there is
/// nothing of that path.
pub(super) fn directory(text: &str) -> Option<PathBuf> {
    // With a `*` it is meant for names, and where one is needed that is said.
    let looks_like_path = text == "." || text == ".." || (text.contains('/') && !text.contains('*'));
    if !looks_like_path {
        return None;
    }
    match std::fs::canonicalize(text) {
        Ok(directory) => Some(directory),
        Err(_) if workspace_name_problem(text).is_none() => None,
        // A directory that is not there is reported by the service, under the name that was given.
        Err(_) => Some(PathBuf::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_how_to_reach_the_server() {
        for url in [
            "http://127.0.0.1:50551",
            "unix:/run/toolgate.sock",
            "https://example.com",
        ] {
            assert!(check_address(url).is_ok(), "{url}");
        }
        let refused = check_address("127.0.0.1:50551").unwrap_err().describe(false);
        assert!(refused.contains("write http://HOST:PORT"), "{refused}");
    }

    #[test]
    fn one_service_is_found_and_several_are_listed() {
        let found = |urls: &[&str]| the_one(urls.iter().map(|url| unnamed(url)).collect());
        assert_eq!(found(&[]).unwrap(), DEFAULT_TARGET);
        assert_eq!(found(&["unix:/a"]).unwrap(), "unix:/a");
        let several = found(&["unix:/a", "unix:/b"]).unwrap_err().describe(false);
        assert!(several.contains("unix:/a") && several.contains("unix:/b"), "{several}");
    }

    #[test]
    fn names_are_no_directories() {
        assert_eq!(directory("main"), None);
        assert_eq!(directory("acme/web-17"), None);
        assert_eq!(directory("src/cli"), std::fs::canonicalize("src/cli").ok());
        assert_eq!(directory("/"), Some(PathBuf::from("/")));
        assert_eq!(directory("./missing"), Some(PathBuf::from("./missing")));
    }
}
