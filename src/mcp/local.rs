//! Starting a server that is a program, and what becomes of what it complains of.
//!
//! *Invariant:* a program gets no more of the service's variables than [`INHERITED`] and what its entry says; what it
//! complains of is logged, a bounded part of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::Surroundings;
use super::inbox::{Inbox, cut};
use super::stdio::Stdio;
use crate::process::{Exit, Filter, Launch, Peer, Stdin};

/// The variables of the service that servers get: where things are, how to talk to people, how to reach the network.
const INHERITED: &[&str] = &[
    "ALL_PROXY",
    "BUN_INSTALL",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "NVM_DIR",
    "PATH",
    "PNPM_HOME",
    "PYENV_ROOT",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VOLTA_HOME",
    "XDG_*",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Bytes of a line of complaints that are logged, and lines in each stretch of time.
const MAX_LINE: usize = 1000;
const MAX_LINES: u32 = 50;
const STRETCH: Duration = Duration::from_secs(10);

/// How long the end of a program whose streams have ended is waited for.
const EXIT_WAIT: Duration = Duration::from_millis(100);

/// A server that is a program.
#[derive(Clone, Debug)]
pub struct Local {
    /// The program and its arguments, at least the program.
    pub command: Vec<String>,
    /// Variables that it gets.
    pub environment: BTreeMap<String, String>,
    /// Where it starts, relative to the workspace's folder; none for that folder.
    pub directory: Option<PathBuf>,
}

/// Starts a server's program.
///
/// # Errors
/// It cannot be started; the text says why.
pub(super) async fn start(
    name: &str,
    local: &Local,
    around: &Surroundings,
    inbox: &Arc<Inbox>,
) -> Result<(Peer, Stdio), String> {
    let directory = match &local.directory {
        Some(directory) => around.directory.join(directory),
        None => around.directory.clone(),
    };
    let Some((program, arguments)) = local.command.split_first() else {
        return Err("there is no program".to_owned());
    };
    let found = around.programs.find(OsStr::new(program), &directory);
    let program = found.ok_or_else(|| format!("the program {program:?} is not found"))?;
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
            .collect(),
        stdin: Stdin::Pipe,
        sandbox: None,
    };
    let inherits = Filter {
        allow: INHERITED.iter().map(ToString::to_string).collect(),
        deny: Vec::new(),
    };
    let started = around.programs.converse_with(launch, Some(inherits)).await;
    let mut process = started.map_err(|error| error.to_string())?;
    let (Some(input), Some(output), Some(errors)) =
        (process.take_input(), process.take_output(), process.take_errors())
    else {
        return Err("the program has no streams".to_owned());
    };
    around.tasks.spawn(log(errors).in_current_span());
    Ok((process, Stdio::new(input, output, Arc::clone(inbox))))
}

/// Returns how a program has ended, if it has.
pub(super) async fn exit_of(process: &mut Peer) -> Option<Exit> {
    tokio::time::timeout(EXIT_WAIT, process.ended()).await.ok().flatten()
}

/// Logs what a program complains of, until nobody is left who could.
async fn log(errors: Receiver) {
    let mut errors = BufReader::new(errors);
    let (mut line, mut complaints) = (Vec::new(), Complaints::default());
    while let Ok(chunk) = errors.fill_buf().await {
        if chunk.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', chunk);
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let room = MAX_LINE - line.len().min(MAX_LINE);
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        errors.consume(used);
        if end.is_some() {
            complaints.log(&line);
            line.clear();
        }
    }
    if !line.is_empty() {
        complaints.log(&line);
    }
}

/// How much a program has complained.
#[derive(Default)]
struct Complaints {
    since: Option<Instant>,
    lines: u32,
}

impl Complaints {
    fn log(&mut self, line: &[u8]) {
        if self.since.is_none_or(|since| since.elapsed() > STRETCH) {
            (self.since, self.lines) = (Some(Instant::now()), 0);
        }
        self.lines = self.lines.saturating_add(1);
        match self.lines.cmp(&MAX_LINES) {
            std::cmp::Ordering::Less => tracing::info!(stderr = %cut(&String::from_utf8_lossy(line))),
            std::cmp::Ordering::Equal => tracing::warn!("the server prints too many lines; some are not logged"),
            std::cmp::Ordering::Greater => {}
        }
    }
}
