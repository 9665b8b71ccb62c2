//! A service in this process that asks who calls, and clients that say so.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tempfile::TempDir;
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};
use toolgate_config::{Config, Environment, RawConfig};
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::*;
use toolgate_server::app::{App, Claim, Running};

use crate::support;

const RULES: &str = r#"{"permission": {"bash": "ask", "edit": "ask"}}"#;

/// Tokens that most tests use: who may do everything, and who may see or answer only.
pub(super) const TOKENS: &str = "\
alice alice-alice-alice-alice *
bob bob-bob-bob-bob-bob-bob *
carol carol-carol-carol-carol *
anna anna-anna-anna-anna * a
ben ben-ben-ben-ben-ben * b
";

pub(super) const ALICE: &str = "alice-alice-alice-alice";
pub(super) const BOB: &str = "bob-bob-bob-bob-bob-bob";
pub(super) const CAROL: &str = "carol-carol-carol-carol";
pub(super) const ANNA: &str = "anna-anna-anna-anna";
pub(super) const BEN: &str = "ben-ben-ben-ben-ben";

/// Shows a token.
#[derive(Clone)]
pub(super) struct Bearer(pub(super) &'static str);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if !self.0.is_empty() {
            let value: MetadataValue<_> = format!("Bearer {}", self.0).parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

pub(super) type Authorized = InterceptedService<Channel, Bearer>;

pub(super) fn tools(channel: &Channel, token: &'static str) -> ToolServiceClient<Authorized> {
    ToolServiceClient::with_interceptor(channel.clone(), Bearer(token))
}

pub(super) fn prompts(channel: &Channel, token: &'static str) -> PermissionServiceClient<Authorized> {
    PermissionServiceClient::with_interceptor(channel.clone(), Bearer(token))
}

/// A folder for a service: configuration, credentials and the workspaces `a` and `b`.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        // The program does so first thing; here any test may come first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = Self(TempDir::new().unwrap());
        for name in ["a", "b", "home"] {
            fs::create_dir_all(folder.path(name)).unwrap();
            fs::write(folder.path(name).join("opencode.json"), RULES).unwrap();
        }
        folder
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// Writes a file that only its owner reads, in one step.
    pub(super) fn put(&self, name: &str, content: &str) {
        let draft = self.path("draft");
        fs::write(&draft, content).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&draft, self.path(name)).unwrap();
    }

    /// Starts a service on a free port and on the socket `s`; `settings` comes before the rest of the file.
    pub(super) async fn start(&self, settings: &str) -> Result<Service, String> {
        let text = format!(
            "data_dir = \"data\"\n{settings}\n[[workspaces]]\nname = \"a\"\ndirectory = \"a\"\n[[workspaces]]\nname = \"b\"\n\
             directory = \"b\"\n"
        );
        self.put("toolgate.toml", &text);
        let home = self.path("home").display().to_string();
        let vars = [
            ("HOME".to_owned(), home),
            ("TOOLGATE_LISTEN_UNIX".to_owned(), self.path("s").display().to_string()),
        ];
        let environment = Environment::new(vars, self.path(""));
        let file = self.path("toolgate.toml");
        let config =
            Config::load(Some(&file), RawConfig::default(), &environment).map_err(|error| error.to_string())?;
        let claim = Claim::take(&config.data_dir).map_err(|error| error.to_string())?;
        let mut app = App::build(&config, &environment, None)
            .await
            .map_err(|error| format!("{error:#}"))?;
        app.recover(claim).await.unwrap();
        let running = app.start().await.map_err(|error| format!("{error:#}"))?;
        let address = running.tcp.unwrap();
        Ok(Service { running, address })
    }
}

pub(super) const ON_A_PORT: &str = "listen.tcp = \"127.0.0.1:0\"";

/// Settings with the tokens above.
pub(super) fn with_tokens(folder: &Folder) -> String {
    folder.put("tokens", TOKENS);
    format!("{ON_A_PORT}\nauth.tokens_file = \"tokens\"")
}

pub(super) struct Service {
    pub(super) running: Running,
    pub(super) address: SocketAddr,
}

impl Service {
    /// Connects without encryption.
    pub(super) async fn connect(&self) -> Channel {
        let url = format!("http://{}", self.address);
        Endpoint::from_shared(url).unwrap().connect().await.unwrap()
    }

    /// Connects with encryption.
    pub(super) async fn connect_tls(
        &self,
        authority: &str,
        identity: Option<(&str, &str)>,
    ) -> Result<Channel, tonic::transport::Error> {
        let mut config = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(authority))
            .domain_name("localhost");
        if let Some((certificate, key)) = identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        let url = format!("https://{}", self.address);
        Endpoint::from_shared(url)?.tls_config(config)?.connect().await
    }

    pub(super) async fn stop(self) {
        self.running.drain().await;
    }
}

/// Starts a command that is asked for and returns its prompt.
pub(super) async fn ask(channel: &Channel, token: &'static str, workspace: &str, id: &str, parent: &str) -> Prompt {
    ask_for(channel, token, workspace, id, parent, &format!("echo {id}")).await
}

/// As [`ask`], for a command of its own.
pub(super) async fn ask_for(
    channel: &Channel,
    token: &'static str,
    workspace: &str,
    id: &str,
    parent: &str,
    command: &str,
) -> Prompt {
    ask_with(channel, token, workspace, id, parent, support::bash(command)).await
}

/// As [`ask`], for any request.
pub(super) async fn ask_with(
    channel: &Channel,
    token: &'static str,
    workspace: &str,
    id: &str,
    parent: &str,
    request: ExecuteToolRequest,
) -> Prompt {
    let request = ExecuteToolRequest {
        context: Some(CallContext {
            workspace: workspace.to_owned(),
            session_id: format!("session-{id}"),
            parent_call_id: parent.to_owned(),
            ..CallContext::default()
        }),
        ..support::kept(id, request)
    };
    let mut stream = tools(channel, token).execute_tool(request).await.unwrap().into_inner();
    support::waiting(&mut stream).await
}

pub(super) async fn answer(
    channel: &Channel,
    token: &'static str,
    prompt: &Prompt,
    decision: PromptDecision,
) -> Result<PromptReplyResult, Status> {
    let request = ReplyPromptRequest {
        reply: Some(support::reply(prompt, decision)),
        name: "somebody".to_owned(),
    };
    let response = prompts(channel, token).reply_prompt(request).await?;
    Ok(response.into_inner().result.unwrap())
}

/// Whoever replied is among those who asked.
pub(super) fn not_allowed(result: Result<PromptReplyResult, Status>) {
    let result = result.unwrap();
    assert_eq!(result.result(), ReplyResult::NotAllowed);
    assert!(result.message.contains("in your own name"), "{result:?}");
}
