//! Starting a server that is a program.
//!
//! *Invariant:* the service never starts itself, neither as its own program nor below a server that it started. A program
//! gets no more of the service's variables than all servers do ([`Filter::of_servers`]) and what its
//! entry says; what it complains of is logged, a bounded part of it.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use toolgate_model::{STARTED_AS_SERVER, STARTS_ITSELF};
use toolgate_process::stderr_log::{self, LastLine};
use toolgate_process::{self as process, Exit, Filter, Launch, Stdin, StdioChild};
use tracing::Instrument as _;

use super::client::Link;
use super::dispatcher::{Disconnect, Dispatcher, Queue};
use super::settings::{Env, Local};
use super::stdio;

/// How long the end of a program whose streams have ended is waited for.
const EXIT_WAIT: Duration = Duration::from_millis(100);

/// Starts a server's program, to be talked to over its standard streams.
///
/// # Errors
/// It cannot be started, or is not to be.
pub(super) async fn start(
    name: &str,
    local: &Local,
    env: &Env,
    connection: (Arc<Dispatcher>, Queue),
) -> Result<(StdioChild, Link), Disconnect> {
    let directory = match &local.directory {
        Some(directory) => env.directory.join(directory),
        None => env.directory.clone(),
    };
    let Some((program, arguments)) = local.command.split_first() else {
        return Err(failed("there is no program"));
    };
    let found = env.programs.find(OsStr::new(program), &directory);
    let program = found.ok_or_else(|| failed(format!("the program {program:?} is not found")))?;
    if env.nested || process::is_own_program(&program) {
        return Err(Disconnect::Itself(STARTS_ITSELF));
    }
    let launch = Launch {
        call: format!("mcp:{name}"),
        program,
        arguments: arguments.iter().map(Into::into).collect(),
        shown_directory: directory.clone(),
        directory,
        environment: local
            .environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .chain([(STARTED_AS_SERVER.into(), "1".into())])
            .collect(),
        stdin: Stdin::Pipe,
        sandbox: None,
    };
    let inherits = Filter::of_servers(&[]);
    let started = env.programs.spawn_piped_with(launch, Some(inherits)).await;
    let mut process = started.map_err(|error| failed(error.to_string()))?;
    let (Some(input), Some(output), Some(errors)) =
        (process.take_input(), process.take_output(), process.take_errors())
    else {
        return Err(failed("the program has no streams"));
    };
    env.tasks
        .spawn(stderr_log::log(errors, LastLine::default()).in_current_span());
    let (dispatcher, queue) = connection;
    Ok((process, stdio::open(input, output, dispatcher, queue)))
}

fn failed(problem: impl Into<String>) -> Disconnect {
    Disconnect::Failed(problem.into())
}

/// Returns how a program has ended, if it has.
pub(super) async fn exit_of(process: &mut StdioChild) -> Option<Exit> {
    tokio::time::timeout(EXIT_WAIT, process.ended()).await.ok().flatten()
}
