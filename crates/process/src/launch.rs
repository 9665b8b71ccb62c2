//! What to start, how it is kept together, and how it ended.
//!
//! *Invariant:* plain data.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::environment::{Environment, Filter};
use super::sandbox::Confinement;

/// What to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The id of the call that it belongs to.
    pub call: String,
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Its arguments, without its name.
    pub arguments: Vec<OsString>,
    /// The folder that it starts in.
    pub directory: PathBuf,
    /// The same folder as the user knows it, links and all: the program's `PWD`.
    pub shown_directory: PathBuf,
    /// Variables that it gets besides those of all programs, and in the place of those of the same name.
    pub environment: Environment,
    /// What it reads.
    pub stdin: Stdin,
    /// What it and all that it starts is confined to; none for the service's own rights.
    pub sandbox: Option<Arc<Confinement>>,
}

/// What a program has as its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: `/dev/null`.
    #[default]
    Null,
    /// What [`Running::take_input`](super::Running::take_input) is given.
    Pipe,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A text for the kernel contains its end mark.
    #[error("{what} contains a NUL byte")]
    NulByte {
        /// Which text.
        what: &'static str,
    },
    /// The folder cannot be entered.
    #[error("cannot enter the directory {}: {source}", path.display())]
    Directory {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program cannot be executed.
    #[error("cannot execute {}: {source}", path.display())]
    Program {
        /// The program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No process can be made.
    #[error("cannot make a process: {source}")]
    Process {
        /// Why.
        source: io::Error,
    },
    /// The standard streams cannot be wired.
    #[error("cannot wire the standard streams: {source}")]
    Streams {
        /// Why.
        source: io::Error,
    },
    /// It cannot be confined, so it was not run.
    #[error("cannot confine the program: {source}")]
    Confine {
        /// Why.
        source: io::Error,
    },
    /// The service is shutting down.
    #[error("the service is shutting down and starts no more programs")]
    Closed,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Why a program came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself.
    Ended,
    /// Its time was over.
    TimedOut,
    /// Its call was cancelled.
    Cancelled,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Why.
    pub cause: Cause,
    /// How. None only if it outlived even the kill signal, as a process stuck in the kernel does.
    pub exit: Option<Exit>,
    /// How many processes of the call outlived the kill signal.
    pub survivors: usize,
    /// What it used. None if it outlived even the kill signal.
    pub usage: Option<Usage>,
}

/// What a program used, and the programs that it started and waited for, as the kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time of processors spent in the programs.
    pub user: Duration,
    /// Time of processors spent in the kernel for them.
    pub system: Duration,
    /// The most memory that one of them had at a time.
    pub peak_memory_bytes: u64,
    /// Bytes read from disks; what was in memory already does not count.
    pub read_bytes: u64,
    /// Bytes written for disks.
    pub written_bytes: u64,
}

/// A process that a call left running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its command line on one line, possibly cut.
    pub command: String,
}

/// How programs are started and kept together.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which variables of the environment programs get.
    pub filter: Filter,
    /// Whether control groups are left alone, even where they can be used.
    pub without_groups: bool,
    /// This program's own file, if its `main` calls [`guard`](super::guard): then a watchdog is started from it.
    pub watchdog: Option<PathBuf>,
}
