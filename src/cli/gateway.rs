//! `toolgate gateway`: many workspaces behind one address, in the foreground, until a signal.

use std::path::PathBuf;

use clap::Args;
use toolgate_gateway::Gateway;
use toolgate_server::app::hangup::Hangups;

use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::serve::{announce, until_told};
use super::service::{Addresses, Flags, gateway};
use super::terminal::Terminal;

/// Where the gateway listens. Its workers are in the configuration file: see docs/operate/gateway.md.
#[derive(Debug, Args)]
pub(super) struct GatewayArgs {
    /// Listen on this TCP address; one beyond loopback needs TLS (or --insecure) [env: TOOLGATE_LISTEN_TCP]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Listen on this Unix socket as well [env: TOOLGATE_LISTEN_UNIX]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Do not listen on TCP.
    #[arg(long, conflicts_with = "listen")]
    no_tcp: bool,
    /// Listen beyond loopback without TLS, because a proxy in front encrypts.
    #[arg(long)]
    insecure: bool,
    /// Serve metrics and probes to operators on this address, unencrypted and to anybody [env: TOOLGATE_TELEMETRY_ADMIN]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    /// Serve a page for browsers that shows calls and answers prompts [env: TOOLGATE_CONSOLE]
    #[arg(long)]
    console: bool,
}

impl GatewayArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut interrupts = Interrupts::without_hangups()?;
        let mut hangups = Hangups::listen().map_err(Failure::Terminal)?;
        let flags = Flags {
            config: globals.config.clone(),
            listen: self.listen,
            socket: self.socket,
            no_tcp: self.no_tcp,
            insecure: self.insecure,
            admin: self.admin,
            console: self.console,
            ..Flags::default()
        };
        let mut gateway: Gateway = tokio::select! {
            started = gateway(&flags) => started?,
            // It may wait for its database.
            () = interrupts.next() => return Ok(Exit::Interrupted),
        };
        announce(&Addresses::of_gateway(&gateway), None, terminal)?;
        let failed = async { Failure::StartGateway(format!("{:#}", gateway.failed().await)) };
        let failure = until_told(&mut interrupts, &mut hangups, failed).await;
        terminal.inform("draining: a second signal exits at once");
        tokio::select! {
            () = gateway.drain() => failure.map_or(Ok(Exit::Completed), Err),
            () = interrupts.next() => Ok(Exit::Interrupted),
        }
    }
}
