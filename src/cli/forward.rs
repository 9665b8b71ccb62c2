//! `toolgate forward`: a port of this machine that leads to one that a program of a call listens on.
//!
//! *Invariant:* each connection is one of its own, and ends when both sides have; when this command ends, the port is closed.

use std::io;
use std::net::SocketAddr;

use clap::Args;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tonic::Code;
use toolgate_client::{Client, Follower, OpenedPort};
use toolgate_contract::OutputMode;
use toolgate_contract::call_event::Event;

use super::answers::PromptArgs;
use super::arguments;
use super::connection;
use super::exit::{Exit, Failure, with_causes};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::terminal::{Terminal, visible};
use super::words;

/// What to forward to, and from where.
#[derive(Debug, Args)]
#[command(after_help = "\
The port is opened by a call of its own, which asks for the permission `port`. It is cancelled when this command ends.

Exit codes: 0 the port was closed, 1 the program does not listen, 2 invalid, 3 denied or rejected, 4 cancelled, 5 no server,
8 no such call, 9 the server refused, 130 interrupted.")]
pub(super) struct ForwardArgs {
    /// The call whose program listens; `toolgate ports` lists them.
    call: String,
    /// The port that it listens on.
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// The address to listen on here; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0", value_parser = arguments::address)]
    listen: String,
    /// The agent whose permissions count; `build` if none is named.
    #[arg(long, env = "TOOLGATE_AGENT", hide_env_values = true)]
    agent: Option<String>,
    #[command(flatten)]
    prompts: PromptArgs,
}

impl ForwardArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut interrupts = Interrupts::listen()?;
        let has = async |client: &Client| client.get_call(&self.call).await.is_ok();
        let (instance, client) = connection::find_where(globals, has).await?;
        let unheard = |source| Failure::Listen {
            address: self.listen.clone(),
            source,
        };
        // First, since nobody should be asked for what comes to nothing.
        let listener = TcpListener::bind(&self.listen).await.map_err(unheard)?;
        let address = listener.local_addr().map_err(unheard)?;
        let id = uuid::Uuid::now_v7().to_string();
        let request = client.open_port(&self.call, self.port);
        let request = request
            .call_id(&id)
            .agent(self.agent.clone().unwrap_or_default())
            .client_kind("cli")
            .client_name(concat!("toolgate/", env!("CARGO_PKG_VERSION")));
        let opening = self.prompts.run((&client, terminal), request, |request| request.run());
        let forwarded = async {
            let port = opening.await.map_err(Failure::into_refusal)?;
            announce(&port, address, &instance.url, terminal)?;
            tokio::select! {
                error = serve(&listener, &port, terminal) => Err(unheard(error)),
                closed = closed(&client, &port, terminal) => closed,
            }
        };
        let ended = tokio::select! {
            ended = forwarded => ended,
            () = interrupts.next() => Ok(Exit::Interrupted),
        };
        tokio::select! {
            closed = client.cancel_call(id) => {
                // Of one that was not opened, or has ended, there is nothing to say.
                let is_refused = closed.is_err_and(|error| error.code() == Code::PermissionDenied);
                if is_refused && ended.is_ok() {
                    terminal.inform("the port stays open as long as its program runs, because you are not allowed to cancel calls");
                }
            }
            () = interrupts.next() => {}
        }
        ended
    }
}

/// Says where the port is reached.
fn announce(port: &OpenedPort, address: SocketAddr, server: &str, terminal: &Terminal) -> Result<(), Failure> {
    let path = port.http_path();
    // Browsers do not reach a Unix socket.
    let http =
        (!path.is_empty() && server.starts_with("http")).then(|| format!("{}{path}", server.trim_end_matches('/')));
    if terminal.json {
        return terminal.record(&json!({
            "callId": port.call_id(),
            "listening": address.to_string(),
            "httpPath": path,
            "url": http,
        }));
    }
    terminal.line(&format!("listening on {address}"))?;
    terminal.line(&format!("HTTP: http://{address}/"))?;
    match http {
        Some(url) => terminal.line(&format!("HTTP through the service: {}", visible(&url))),
        None if path.is_empty() => Ok(()),
        None => terminal.line(&format!(
            "HTTP through the service: {} at its TCP address",
            visible(path)
        )),
    }
}

/// Takes connections, and connects each to the port. Returns why it cannot any more.
async fn serve(listener: &TcpListener, port: &OpenedPort, terminal: &Terminal) -> io::Error {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(carry(stream, port.clone()));
                }
                Err(error) => return error,
            },
            Some(ended) = connections.join_next() => {
                if let Ok(Err(error)) = ended {
                    terminal.inform(&format!("a connection broke: {}", visible(&with_causes(&error))));
                }
            }
        }
    }
}

/// Carries what both sides send until both have ended.
async fn carry(mut stream: TcpStream, port: OpenedPort) -> io::Result<()> {
    let mut program = port.connect().await.map_err(io::Error::other)?;
    copy_bidirectional(&mut stream, &mut program).await?;
    Ok(())
}

/// Waits until the call that keeps the port open ends.
async fn closed(client: &Client, port: &OpenedPort, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut follower = Follower::watch(client.clone(), port.call_id(), 0, OutputMode::None);
    loop {
        let event = match follower.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(Exit::Completed),
            // Whoever may open a port need not be one who may see calls; connections fail when it is closed.
            Err(error) if error.code() == Code::PermissionDenied => std::future::pending().await,
            Err(error) => return Err(error.into()),
        };
        match event.event {
            Some(Event::Completed(_)) => {
                terminal.inform("the port was closed");
                return Ok(Exit::Completed);
            }
            Some(Event::Failed(failed)) => {
                let why = words::failure_reason(failed.reason);
                terminal.inform(&format!("the port was closed ({why}): {}", visible(&failed.error)));
                return Ok(Exit::of_failure(failed.reason()));
            }
            Some(_) | None => {}
        }
    }
}
