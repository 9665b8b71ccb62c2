//! `toolgate mcp`: the tools for an MCP client that starts a program and talks to it on its standard input and output.
//!
//! It hands the messages on to `/mcp` of the server that is named, or of a service that it starts for itself, so that
//! both ways of MCP are one.
//!
//! `login.rs` and `offers.rs` are about the servers of tools that the service itself uses.
//!
//! *Invariant:* nothing but messages of MCP goes to standard output. With the end of standard input, or a signal, the
//! session ends, and with it its calls and a service that was started for it.

mod login;
mod offers;

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use rmcp::{RoleClient, RoleServer};
use serde_json::json;
use toolgate_client::{Credentials, Error};
use toolgate_server::app::{ITSELF, STARTED_AS_SERVER, STARTS_ITSELF};

use super::connection::Connection;
use super::exit::{Exit, Failure, with_causes};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::terminal::Terminal;
use super::tools::Viewpoint;
use login::Action;

/// The largest message of a client.
const MAX_MESSAGE: usize = 32 * 1024 * 1024;

/// The largest message of the server: a result carries whole files.
const MAX_RESULT: usize = 64 * 1024 * 1024;

/// How long answers that are due may take after the end of input.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// How long the farewell to the server may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// What is encoded in a query: all but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// For whom tools are served.
#[derive(Debug, Args)]
#[command(after_help = "\
An MCP client is configured to start this program, for instance:
  {\"mcpServers\": {\"toolgate\": {\"command\": \"toolgate\", \"args\": [\"mcp\", \"--workspace\", \"/path/to/project\"]}}}

Prompts are shown by the client if it can (elicitation); otherwise they wait for `toolgate approve`.")]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct McpArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    viewpoint: Viewpoint,
    /// The session to work in; without it, one for all connections of the same client
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Leave all prompts to approvers, also where the client can show forms
    #[arg(long)]
    no_forms: bool,
}

impl McpArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        if let Some(action) = self.action {
            return action.run(globals, terminal).await;
        }
        if std::env::var_os(STARTED_AS_SERVER).is_some() {
            return refuse().await;
        }
        let mut interrupts = Interrupts::listen()?;
        let connection =
            Connection::open_for(globals, self.viewpoint.workspace.as_deref(), self.session.as_deref()).await?;
        if connection.is_private() {
            // An MCP client keeps this in its log.
            terminal.inform(&format!(
                "prompts that the client does not show can be answered with: toolgate approve --server {}",
                connection.url
            ));
        }
        let served = match self.transport(&connection) {
            Ok(server) => bridge(server, &mut interrupts).await,
            Err(failure) => Err(failure),
        };
        connection.close().await;
        served
    }

    fn transport(&self, connection: &Connection) -> Result<StreamableHttpClientTransport<reqwest::Client>, Failure> {
        let socket = connection.url.strip_prefix("unix:");
        let socket = socket.map(|path| Path::new(path.strip_prefix("//").unwrap_or(path)));
        let base = match socket {
            Some(_) => "http://localhost",
            None => connection.url.trim_end_matches('/'),
        };
        let credentials = connection.credentials.to_credentials();
        let client = http_client(&credentials, socket, base.starts_with("https:"))?;
        let config =
            StreamableHttpClientTransportConfig::with_uri(format!("{base}/mcp{}", self.query(&connection.workspace)))
                .max_sse_event_size(MAX_RESULT);
        Ok(StreamableHttpClientTransport::with_client(client, config))
    }

    fn query(&self, workspace: &str) -> String {
        let model = self.viewpoint.model.as_ref();
        let pairs = [
            ("workspace", workspace.to_owned()),
            ("agent", self.viewpoint.agent.clone().unwrap_or_default()),
            ("session", self.session.clone().unwrap_or_default()),
            (
                "forms",
                if self.no_forms {
                    "none".to_owned()
                } else {
                    String::new()
                },
            ),
            (
                "model",
                model
                    .map(|model| format!("{}/{}", model.provider_id, model.model_id))
                    .unwrap_or_default(),
            ),
        ];
        let set = pairs.iter().filter(|(_, value)| !value.is_empty());
        let set: Vec<String> = set
            .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, RESERVED)))
            .collect();
        if set.is_empty() {
            String::new()
        } else {
            format!("?{}", set.join("&"))
        }
    }
}

/// Makes a client of plain HTTP with the credentials of the command. With a socket, that is where it connects whatever the
/// address says.
fn http_client(
    credentials: &Credentials,
    socket: Option<&Path>,
    is_encrypted: bool,
) -> Result<reqwest::Client, Failure> {
    let mut headers = HeaderMap::new();
    let wrong_token = || Failure::Usage("the token cannot be sent".to_owned());
    if let Some(token) = credentials.bearer()?.token().map_err(|_| wrong_token())? {
        let mut value = HeaderValue::from_bytes(token.authorization()).map_err(|_| wrong_token())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    // A redirect would take the token elsewhere, and a proxy has no business between a client and its own machine.
    let mut builder = reqwest::Client::builder()
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(0);
    if let Some(socket) = socket {
        builder = builder.unix_socket(socket);
    }
    if is_encrypted {
        let authorities = credentials.trusted_authorities()?;
        let authorities = reqwest::Certificate::from_pem_bundle(&authorities).map_err(wrong_certificates)?;
        builder = builder.tls_certs_only(authorities);
        if let Some((cert, key)) = credentials.client_identity()? {
            let both = [key, b"\n".to_vec(), cert].concat();
            builder = builder.identity(reqwest::Identity::from_pem(&both).map_err(wrong_certificates)?);
        }
    }
    builder.build().map_err(wrong_certificates)
}

fn wrong_certificates(error: reqwest::Error) -> Failure {
    Error::Certificates(with_causes(&error)).into()
}

/// Refuses to serve a Toolgate that has started this one, in an answer that it can show and on standard error.
async fn refuse() -> Result<Exit, Failure> {
    let (stdin, stdout) = rmcp::transport::io::stdio();
    let mut client = AsyncRwTransport::<RoleServer, _, _>::new_server(stdin, stdout).with_max_line_length(MAX_MESSAGE);
    let first = tokio::time::timeout(FAREWELL, Transport::<RoleServer>::receive(&mut client)).await;
    if let Some(id) = first.ok().flatten().as_ref().and_then(id_of) {
        let refusal = ErrorData::invalid_request(STARTS_ITSELF, Some(json!({ITSELF: "started by itself"})));
        // Whoever does not listen finds it on standard error.
        let _ = client.send(ServerJsonRpcMessage::error(refusal, Some(id))).await;
    }
    Err(Failure::Start(STARTS_ITSELF.to_owned()))
}

/// Hands messages on in both directions until one side ends.
async fn bridge(
    mut server: StreamableHttpClientTransport<reqwest::Client>,
    interrupts: &mut Interrupts,
) -> Result<Exit, Failure> {
    let (stdin, stdout) = rmcp::transport::io::stdio();
    let mut client = AsyncRwTransport::<RoleServer, _, _>::new_server(stdin, stdout).with_max_line_length(MAX_MESSAGE);
    let mut sending = FuturesUnordered::new();
    let mut due = HashSet::new();
    let mut is_open = true;
    let mut last = Box::pin(std::future::pending::<()>()) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
    let exit = loop {
        if !is_open && due.is_empty() {
            break Ok(Exit::Completed);
        }
        tokio::select! {
            message = Transport::<RoleServer>::receive(&mut client), if is_open => match message {
                Some(message) => {
                    let id = id_of(&message);
                    due.extend(id.clone());
                    let sent = Transport::<RoleClient>::send(&mut server, message);
                    sending.push(async move { (id, sent.await) });
                }
                None => {
                    is_open = false;
                    last = Box::pin(tokio::time::sleep(LAST_ANSWERS));
                }
            },
            Some((id, sent)) = sending.next(), if !sending.is_empty() => {
                let (Some(id), Err(error)) = (id, sent) else { continue };
                if due.remove(&id) {
                    let text = format!("the server did not take the request: {error}");
                    let answer = ServerJsonRpcMessage::error(ErrorData::internal_error(text, None), Some(id));
                    if client.send(answer).await.is_err() {
                        break Err(Failure::BrokenPipe);
                    }
                }
            }
            message = Transport::<RoleClient>::receive(&mut server) => match message {
                Some(message) => {
                    answered(&mut due, &message);
                    if client.send(message).await.is_err() {
                        break Err(Failure::BrokenPipe);
                    }
                }
                None => {
                    let (address, cause) = ("the MCP server".to_owned(), "the connection has ended".to_owned());
                    break Err(Error::Unreachable { address, cause }.into());
                }
            },
            () = interrupts.next() => break Ok(Exit::Completed),
            () = &mut last => break Ok(Exit::Completed),
        }
    };
    // The session is ended with it, and what runs in it.
    let _ = tokio::time::timeout(FAREWELL, Transport::<RoleClient>::close(&mut server)).await;
    exit
}

/// Returns the id of a request.
fn id_of(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        ClientJsonRpcMessage::Notification(_) | ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {
            None
        }
    }
}

fn answered(due: &mut HashSet<RequestId>, message: &ServerJsonRpcMessage) {
    match message {
        ServerJsonRpcMessage::Response(response) => {
            due.remove(&response.id);
        }
        ServerJsonRpcMessage::Error(error) => {
            if let Some(id) = &error.id {
                due.remove(id);
            }
        }
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => {}
    }
}
