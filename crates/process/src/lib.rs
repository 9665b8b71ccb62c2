//! Programs: the only place that starts one, reads what it prints, and ends it with all that it started.
//!
//! A started program leads a session and a process group of its own, reads nothing or what a pipe brings it, prints into
//! a pipe (two pipes, if it speaks a protocol) and is killed by the kernel when the service dies. Everything that descends from it is found again by a mark
//! that it cannot shed by leaving the group, forgetting its parents or emptying its environment (see `sys::mark_of`), and
//! by its control group where those can be written, so ending a call ends all of it. Requires Linux 5.4; the service
//! should adopt orphans ([`adopt_orphans`]).
//!
//! A background job outlives its call, since starting a development server is a fair thing to ask for, but not the
//! service: [`Programs::shutdown`] ends it, and when the service is killed outright its watchdog does ([`guard`]).
//!
//! *Invariant:* a leaf. It knows neither tools nor permissions.

#![allow(clippy::disallowed_methods)] // starts the programs, and reads `/proc` to find what they started

mod cgroup;
mod environment;
mod input;
mod kin;
mod notify;
mod output;
mod reaper;
pub mod sandbox;
mod spawn;
pub mod stderr_log;
mod stdio_child;
mod sys;
mod temporary;
mod terminal;
#[cfg(test)]
mod tests;
mod tree;
mod watchdog;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use cgroup::Groups;
pub use environment::Filter;
pub use input::Input;
pub use kin::{Kin, OtherEnd};
use output::Discards;
pub use output::Output;
use reaper::{Entry, Mark, Reaper};
use sandbox::Confinement;
use spawn::{Child, Launcher, Order};
pub use stdio_child::StdioChild;
pub use temporary::{Temporary, sweep_temporary};
pub use terminal::{Terminal, ignores_hangup};
use watchdog::Watchdog;
pub use watchdog::guard;

/// Names and values of environment variables.
pub type Environment = BTreeMap<OsString, OsString>;

/// How long a program may take to go after the polite signal.
const GRACE: Duration = Duration::from_millis(200);

/// How long deaths of orphans are collected before one look at all of them.
const SWEEP_DELAY: Duration = Duration::from_millis(50);

/// How long a program that seems to have ended, and has not, is left alone.
const RECHECK: Duration = Duration::from_millis(1);

/// How often a watchdog that was killed is replaced.
const GUARDIANS: u32 = 3;

/// How long a watchdog may take to go.
const DISMISSAL: Duration = Duration::from_millis(500);

/// How many processes that a call left are told of, and how much of each command line.
const MAX_LEFT: usize = 64;
const MAX_LEFT_BYTES: usize = 512;

/// Makes this process the parent of every orphan among its descendants, so that none is out of reach. Affects the
/// whole process: to be called once, by the program that starts the service.
///
/// # Errors
/// The kernel refuses it.
pub fn adopt_orphans() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(io::Error::from)
}

/// Says whether a file is the program that runs here, by whatever path.
pub fn is_own_program(program: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    identity(program).is_some_and(|found| Some(found) == identity(Path::new("/proc/self/exe")))
}

/// Keeps what this process knows from the programs that it starts: none of the same user can trace it, read its memory or
/// take its descriptors, and `/proc/PID/environ` shows nothing. And lets it hear all signals, whatever whoever started it
/// had blocked. To be called first by the program, while it has one thread.
pub fn shield() {
    sys::shield();
    sys::hear_signals();
}

/// Lets other processes of the same user look into this one again, as [`shield`] forbids it: a service that traces a
/// connection can see whose it is then. For a program that holds no secret.
///
/// # Errors
/// The kernel refuses it.
pub fn unshield() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(io::Error::from)
}

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
    /// What [`Running::take_input`] is given.
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
    /// This program's own file, if its `main` calls [`guard`]: then a watchdog is started from it.
    pub watchdog: Option<PathBuf>,
}

/// Starts programs and ends them. Cheap to clone; dropping the last clone kills what is left.
#[derive(Clone)]
pub struct Programs(Arc<Inner>);

struct Inner {
    shell: PathBuf,
    /// The folders in which programs are looked for.
    path: Option<OsString>,
    launcher: Launcher,
    reaper: Arc<Reaper>,
    watchdog: Arc<Mutex<Option<Watchdog>>>,
    tasks: TaskTracker,
    closed: CancellationToken,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closed.cancel();
        self.reaper.close();
    }
}

impl Programs {
    /// Chooses the shell and the environment of children from the environment of the service. Variables named
    /// `TOOLGATE_*` are the service's own, secrets included, and are not passed on. To be called inside a runtime.
    ///
    /// # Errors
    /// A thread, a descriptor, the signal handler or the watchdog cannot be had.
    pub fn new(environment: &Environment, settings: Settings) -> io::Result<Self> {
        let groups = if settings.without_groups { None } else { Groups::find() };
        // A program that has a watchdog is the service alone, whose only children are of its calls.
        let reaper = Reaper::start(groups, settings.watchdog.is_some())?;
        let tasks = TaskTracker::new();
        let closed = CancellationToken::new();
        let mut deaths = signal(SignalKind::child())?;
        let keeper = Keeper::start(settings.watchdog, Arc::clone(&reaper))?;
        let watchdog = Arc::clone(&keeper.watchdog);
        let (sweeper, mut keeper) = (Arc::clone(&reaper), keeper);
        // Weak in effect: it holds the reaper and not the launcher, and the token ends it.
        tasks.spawn(closed.clone().run_until_cancelled_owned(async move {
            while deaths.recv().await.is_some() {
                tokio::time::sleep(SWEEP_DELAY).await;
                sweeper.sweep();
                keeper.look();
            }
        }));
        let shell = spawn::choose_shell(environment);
        if !spawn::is_program(&shell) {
            tracing::warn!(
                "there is no shell: neither `bash` in PATH nor {}; no command can be run",
                shell.display()
            );
        }
        Ok(Self(Arc::new(Inner {
            shell,
            path: environment.get(OsStr::new("PATH")).cloned(),
            launcher: Launcher::start(settings.filter.apply(environment), Arc::clone(&reaper))?,
            reaper,
            watchdog,
            tasks,
            closed,
        })))
    }

    /// Returns the shell that runs command lines; none where there is none, as in an image that holds the service alone.
    pub fn shell(&self) -> Option<&Path> {
        Some(self.0.shell.as_path()).filter(|shell| spawn::is_program(shell))
    }

    /// Finds a program: by its path, relative ones from `directory`, or by its name in the service's `PATH`.
    pub fn find(&self, name: &OsStr, directory: &Path) -> Option<PathBuf> {
        if Path::new(name).components().count() > 1 {
            let path = directory.join(name);
            return spawn::is_program(&path).then_some(path);
        }
        spawn::find_program(Path::new(name), self.0.path.as_deref()?)
    }

    /// Starts a program.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub async fn start(&self, launch: Launch) -> Result<Running, StartError> {
        if self.0.closed.is_cancelled() {
            return Err(StartError::Closed);
        }
        let streams = |source: io::Error| StartError::Streams { source };
        // One pipe for both: of two nobody could tell in which order they were written to.
        let (output, program_stdout) = io::pipe().map_err(streams)?;
        let program_stderr = program_stdout.try_clone().map_err(streams)?;
        let (ended, was_ended) = oneshot::channel();
        let output = Output::new(output.into(), was_ended, self.discards()).map_err(streams)?;
        let (program_stdin, input) = match launch.stdin {
            Stdin::Null => (None, None),
            Stdin::Pipe => {
                let (program_stdin, input) = io::pipe().map_err(streams)?;
                let input = Input::new(input.into()).map_err(streams)?;
                (Some(program_stdin.into()), Some(input))
            }
        };
        let order = Order::new(launch, program_stdin, program_stdout.into(), program_stderr.into())?;
        let child = self.0.launcher.launch(order).await?;
        if self.0.closed.is_cancelled() {
            // The shutdown came in between and has not seen it; its guard ends it here.
            return Err(StartError::Closed);
        }
        Ok(Running {
            exit: sys::watch(child.pidfd()).map_err(streams)?,
            child,
            input,
            output: Some(output),
            ended: Some(ended),
            programs: self.clone(),
        })
    }

    fn discards(&self) -> Discards {
        Discards {
            tasks: self.0.tasks.clone(),
            closed: self.0.closed.clone(),
        }
    }

    /// Ends everything that a call started and that still runs: the polite signal, a grace, the kill. Returns the
    /// number of survivors.
    pub async fn end_call(&self, call: &str) -> usize {
        self.stop_all(self.0.reaper.marks_of(|entry| entry.call == call)).await
    }

    /// Returns what an ended program of a call left running, at most 64 processes.
    pub async fn left_by(&self, call: &str) -> Vec<Process> {
        let reaper = Arc::clone(&self.0.reaper);
        let call = call.to_owned();
        let has_left = |entry: &Entry| entry.left && !entry.held && entry.call == call;
        if reaper.marks_of(has_left).is_empty() {
            return Vec::new();
        }
        let look = move || reaper.left_by(|entry| entry.call == call, MAX_LEFT, MAX_LEFT_BYTES);
        // Fails only when the runtime shuts down.
        let found = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        let process = |(pid, command): (rustix::process::Pid, String)| Process {
            pid: pid.as_raw_nonzero().get().cast_unsigned(),
            command,
        };
        found.into_iter().map(process).collect()
    }

    /// Returns the calls whose ended programs left something running.
    pub fn calls_with_left(&self) -> Vec<String> {
        let calls = self.0.reaper.calls();
        let left = calls.values().filter(|entry| entry.left && !entry.held);
        left.map(|entry| entry.call.clone()).collect()
    }

    /// Starts no more programs and ends all that run, background jobs of earlier calls included. Returns the number of
    /// survivors.
    pub async fn shutdown(&self) -> usize {
        self.0.closed.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        let mut survivors = self.stop_all(self.0.reaper.marks_of(|_| true)).await;
        let reaper = Arc::clone(&self.0.reaper);
        let strays = tokio::task::spawn_blocking(move || reaper.end_all_strays(DISMISSAL));
        survivors += strays.await.unwrap_or_default();
        let watchdog = self.0.watchdog.lock().unwrap_or_else(PoisonError::into_inner).take();
        // With survivors it is not told goodbye, and tries once more when we are gone.
        if survivors == 0 {
            let reaper = Arc::clone(&self.0.reaper);
            let part = move || {
                reaper.groups().inspect(|groups| groups.close());
                watchdog.map(Watchdog::dismiss)
            };
            let _ = tokio::time::timeout(DISMISSAL, tokio::task::spawn_blocking(part)).await;
        }
        survivors
    }

    async fn stop_all(&self, marks: Vec<Mark>) -> usize {
        let stops: Vec<_> = marks.into_iter().map(|mark| self.0.reaper.stop(mark, GRACE)).collect();
        let mut survivors = 0;
        for stop in stops {
            survivors += stop.await.unwrap_or(0);
        }
        survivors
    }
}

/// Looks after the watchdog.
struct Keeper {
    program: Option<PathBuf>,
    reaper: Arc<Reaper>,
    watchdog: Arc<Mutex<Option<Watchdog>>>,
    left: u32,
}

impl Keeper {
    fn start(program: Option<PathBuf>, reaper: Arc<Reaper>) -> io::Result<Self> {
        let mut keeper = Self {
            program,
            reaper,
            watchdog: Arc::default(),
            left: GUARDIANS,
        };
        let first = keeper.hire()?;
        keeper.watchdog = Arc::new(Mutex::new(first));
        Ok(keeper)
    }

    fn hire(&self) -> io::Result<Option<Watchdog>> {
        let groups = self.reaper.groups().map(Groups::folder);
        let start = |program: &PathBuf| {
            let start = || Watchdog::start(program, self.reaper.family(), groups);
            self.reaper.keep(start, Watchdog::id)
        };
        self.program.as_ref().map(start).transpose()
    }

    /// Replaces a watchdog that was killed.
    fn look(&mut self) {
        let mut watchdog = self.watchdog.lock().unwrap_or_else(PoisonError::into_inner);
        if self.left == 0 || !watchdog.as_mut().is_some_and(Watchdog::has_ended) {
            return;
        }
        self.left -= 1;
        tracing::warn!("the watchdog of the programs was killed; another takes its place");
        match self.hire() {
            Ok(next) => *watchdog = next,
            Err(error) => tracing::warn!(%error, "no watchdog can be started"),
        }
    }
}

/// A program that runs. Dropping it kills the program and everything that descends from it.
pub struct Running {
    child: Child,
    exit: AsyncFd<Arc<OwnedFd>>,
    input: Option<Input>,
    output: Option<Output>,
    ended: Option<oneshot::Sender<()>>,
    /// Keeps the starting thread alive, on which the program's life depends.
    programs: Programs,
}

impl Running {
    /// Returns the program's process id, which is that of its group too.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Returns the program's standard input, once, if it was started with a pipe. Until it is dropped, the program waits
    /// for more.
    pub fn take_input(&mut self) -> Option<Input> {
        self.input.take()
    }

    /// Returns what the program prints, once. Somebody must read it, or the program blocks.
    pub fn take_output(&mut self) -> Option<Output> {
        self.output.take()
    }

    /// Waits for the end of the program, and brings it about when `limit` is over or `cancelled` says so: the polite
    /// signal to its group, 200 ms, then the kill signal to everything that the call started.
    ///
    /// After an end by itself, what it left in the background keeps running until [`Programs::end_call`] or
    /// [`Programs::shutdown`].
    pub async fn supervise(mut self, limit: Duration, cancelled: &CancellationToken) -> Ending {
        let cause = tokio::select! {
            biased;
            () = self.wait() => Cause::Ended,
            () = cancelled.cancelled() => Cause::Cancelled,
            () = tokio::time::sleep(limit) => Cause::TimedOut,
        };
        let survivors = match cause {
            Cause::Ended => 0,
            Cause::TimedOut | Cause::Cancelled => {
                let stopped = self.programs.0.reaper.stop(self.child.mark(), GRACE);
                stopped.await.unwrap_or(0)
            }
        };
        let exit = self.child.exit();
        if exit.is_some() {
            self.child.release();
        }
        // The reader has waited for this, and may find itself alone already.
        let _ = self.ended.take().map(|ended| ended.send(()));
        Ending { cause, exit, survivors }
    }

    async fn wait(&self) {
        wait_for(&self.child, &self.exit).await;
    }
}

/// Waits until a program has ended.
async fn wait_for(child: &Child, exit: &AsyncFd<Arc<OwnedFd>>) {
    while !child.has_ended() {
        match exit.readable().await {
            Ok(mut ready) => {
                if child.has_ended() {
                    return;
                }
                ready.clear_ready();
                // Should the descriptor ever stay readable before its time, others still have their turn.
                tokio::time::sleep(RECHECK).await;
            }
            // A runtime that shuts down, and then this future is dropped next.
            Err(_) => return,
        }
    }
}
