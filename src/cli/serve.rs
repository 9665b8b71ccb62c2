//! `toolgate serve`: the service in the foreground, until a signal.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use toolgate_server::app::hangup::{Hangup, Hangups};

use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::log::Held;
use super::service::{Addresses, Flags, Service};
use super::terminal::{Look, Terminal};

/// Nobody waits longer than that for the first word of a service.
const USUAL_START: Duration = Duration::from_secs(2);

/// Where the service listens and works. What is not given here is taken from TOOLGATE_* variables, then from the
/// configuration file, then from the defaults; `toolgate config` shows the result.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Listen on this TCP address; one beyond loopback needs TLS (or --insecure) and authentication [env: TOOLGATE_LISTEN_TCP]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Listen on this Unix socket [env: TOOLGATE_LISTEN_UNIX]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Do not listen on TCP.
    #[arg(long, conflicts_with = "listen")]
    no_tcp: bool,
    /// Do not listen on a Unix socket.
    #[arg(long, conflicts_with = "socket")]
    no_socket: bool,
    /// Listen beyond loopback without TLS, because a proxy in front encrypts. Callers must still authenticate.
    #[arg(long)]
    insecure: bool,
    /// A folder in which tools work, under a name; the first is the default. May be given more than once.
    #[arg(long, value_name = "NAME=DIR", value_parser = workspace)]
    workspace: Vec<(String, PathBuf)>,
    /// Keep records, outputs and state in this folder [env: TOOLGATE_DATA_DIR]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// What commands may write: off (whatever you may), workspace-write or read-only [env: TOOLGATE_SANDBOX_MODE]
    #[arg(long, value_name = "MODE")]
    sandbox: Option<String>,
    /// Serve metrics and probes to operators on this address, unencrypted and to anybody [env: TOOLGATE_TELEMETRY_ADMIN]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    /// Run the code that the workspaces bring: custom tools, plugins and MCP servers of the project's configuration
    #[arg(long)]
    trust: bool,
    /// Serve a page for browsers that shows calls and answers prompts [env: TOOLGATE_CONSOLE]
    #[arg(long)]
    console: bool,
}

fn workspace(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, directory)) if !name.is_empty() && !directory.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(directory)))
        }
        Some(_) | None => Err("write NAME=DIR, for instance main=/home/me/project".to_owned()),
    }
}

impl ServeArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut interrupts = Interrupts::without_hangups()?;
        let mut hangups = Hangups::listen().map_err(Failure::Terminal)?;
        let flags = Flags {
            config: globals.config.clone(),
            listen: self.listen,
            socket: self.socket,
            no_tcp: self.no_tcp,
            no_socket: self.no_socket,
            insecure: self.insecure,
            workspaces: self.workspace,
            data_dir: self.data_dir,
            sandbox: self.sandbox,
            admin: self.admin,
            trust: self.trust,
            console: self.console,
            session: None,
        };
        let mut service = tokio::select! {
            started = start(&flags, terminal) => started?,
            // It may wait for its gateways.
            () = interrupts.next() => return Ok(Exit::Interrupted),
        };
        // A log that programs keep is where the head of the audit is out of reach of whoever can write here.
        if terminal.logs_messages {
            service.note_audit().await;
        }
        let (stopped, emergency) = (service.stopped(), service.emergency());
        let failure = tokio::select! {
            biased;
            () = stopped.cancelled() => {
                // Not in order: nothing of what its calls do may be written any more, and their files may be another run's.
                emergency.kill_programs().await;
                return Err(Failure::Replaced);
            }
            failure = until_told(&mut interrupts, &mut hangups, service.failed()) => failure,
        };
        terminal.inform("draining: no new calls; a second signal exits at once");
        tokio::select! {
            () = stopped.cancelled() => {
                emergency.kill_programs().await;
                Err(Failure::Replaced)
            }
            () = service.drain() => failure.map_or(Ok(Exit::Completed), Err),
            () = interrupts.next() => {
                emergency.kill_programs().await;
                Ok(Exit::Interrupted)
            }
        }
    }
}

/// Starts the service, and says what it is and where it listens. People are told of what was found wrong meanwhile after that, unless
/// the start takes long.
async fn start(flags: &Flags, terminal: &Terminal) -> Result<Service, Failure> {
    let mut held = (!terminal.logs_messages).then(Held::begin);
    let starting = Service::start(flags, true);
    tokio::pin!(starting);
    let started = tokio::time::timeout(USUAL_START, &mut starting).await;
    let service = match started {
        Ok(service) => service?,
        Err(_) => {
            held = None;
            starting.await?
        }
    };
    if let Some(greeting) = service.greeting() {
        greeting.show(terminal);
    }
    announce(&service.addresses(), held, terminal)?;
    Ok(service)
}

/// Waits until a signal, the end of the terminal or a failure says that it is time to end, and returns the failure.
pub(super) async fn until_told(
    interrupts: &mut Interrupts,
    hangups: &mut Hangups,
    failed: impl Future<Output = Failure>,
) -> Option<Failure> {
    tokio::pin!(failed);
    loop {
        tokio::select! {
            () = interrupts.next() => return None,
            hangup = hangups.next() => match hangup {
                Hangup::Reload => tracing::info!("SIGHUP: files that changed are read again"),
                Hangup::Leave => {
                    tracing::info!("the terminal is gone");
                    return None;
                }
            },
            failure = &mut failed => return Some(failure),
        }
    }
}

/// Says where is listened: for people on standard error, below which what was `held` back is told, and with `--json` for programs on
/// standard output.
pub(super) fn announce(at: &Addresses, held: Option<Held>, terminal: &Terminal) -> Result<(), Failure> {
    for address in at.tcp.iter().chain(&at.unix).chain(&at.admin) {
        terminal.inform(&format!("listening on {}", terminal.err.text(Look::Bold, address)));
    }
    if let Some(address) = &at.workers {
        terminal.inform(&format!(
            "listening for workers on {}",
            terminal.err.text(Look::Bold, address)
        ));
    }
    if let Some(address) = &at.console {
        terminal.inform(&format!("the console is at {}", terminal.err.text(Look::Bold, address)));
    }
    drop(held);
    if terminal.json {
        let mut listening = json!({ "tcp": at.tcp, "unix": at.unix, "console": at.console, "admin": at.admin });
        if let Some(address) = &at.workers {
            listening["workers"] = json!(address);
        }
        terminal.record(&json!({ "listening": listening }))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_have_a_name_and_a_directory() {
        assert_eq!(workspace("a=/b=c"), Ok(("a".to_owned(), PathBuf::from("/b=c"))));
        for wrong in ["a", "=b", "a=", ""] {
            assert!(workspace(wrong).is_err(), "{wrong}");
        }
    }
}
