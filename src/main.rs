//! The program `toolgate`: parse, log to standard error, run, exit.
//!
//! *Invariant:* no logic; what the program does is in `cli`.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

mod cli;

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::time::Duration;

use cli::{Cli, Exit};
use toolgate_config::service::LogFormat;
use tracing_subscriber::EnvFilter;

/// That of musl has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long threads that still wait for a key or a line may take to put the terminal back in order.
const LEAVE: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    // First, since it costs a watchdog its size, and nothing may be open.
    if let Some(code) = toolgate_process::guard(std::env::args_os()) {
        return code;
    }
    toolgate_process::shield();
    let cli = Cli::read();
    if let Err(error) = log_to_stderr(&cli) {
        eprintln!("error: TOOLGATE_LOG: {error}");
        return Exit::Usage.into();
    }
    // An error says that there is a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the runtime: {error}");
            return Exit::Unreachable.into();
        }
    };
    let exit = runtime.block_on(cli.run());
    runtime.shutdown_timeout(LEAVE);
    exit.into()
}

/// Sends the log to standard error: what `TOOLGATE_LOG` lets through, else what the command and the settings call for.
fn log_to_stderr(cli: &Cli) -> anyhow::Result<()> {
    let (format, default) = cli.log();
    // Every message of an MCP server is worth a line to that library, and every connection to a database that breaks to those; what
    // matters of it is logged elsewhere.
    let directives = format!(
        "rmcp=off,deadpool=off,tokio_postgres=warn,{}",
        std::env::var("TOOLGATE_LOG").unwrap_or(default)
    );
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(directives)?)
        .with_writer(cli.log_writer())
        // It would tell of a terminal that is gone on that terminal, and panic.
        .log_internal_errors(false)
        .with_ansi(cli.colour().applies_to(stderr().is_terminal()));
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}
