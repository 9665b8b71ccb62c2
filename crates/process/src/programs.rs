//! Starting programs, keeping them together by call, and ending them.
//!
//! *Invariant:* once closed, nothing is started any more.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cgroup::Groups;
use super::environment::Environment;
use super::input::Input;
use super::launch::{Launch, Process, Settings, StartError, Stdin};
use super::output::{Discards, Output};
use super::pty::{Pty, PtySize};
use super::reaper::{Entry, ProcessTag, Reaper};
use super::running::Running;
use super::spawn::{self, Launcher, Order};
use super::sys;
use super::watchdog::Watchdog;
use super::watchdog_keeper::WatchdogKeeper;

/// How long a program may take to go after the polite signal.
pub(super) const TERM_GRACE: Duration = Duration::from_millis(200);

/// How long deaths of orphans are collected before one look at all of them.
const SWEEP_DELAY: Duration = Duration::from_millis(50);

/// How long a watchdog may take to go.
const WATCHDOG_STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// How many processes of a call are told of, and how much of each command line.
pub(super) const MAX_SHOWN: usize = 64;
pub(super) const MAX_SHOWN_BYTES: usize = 512;

/// Starts programs and ends them. Cheap to clone; dropping the last clone kills what is left.
#[derive(Clone)]
pub struct Programs(pub(super) Arc<Inner>);

pub(super) struct Inner {
    shell: PathBuf,
    /// The folders in which programs are looked for.
    path: Option<OsString>,
    pub(super) launcher: Launcher,
    pub(super) reaper: Arc<Reaper>,
    watchdog: Arc<Mutex<Option<Watchdog>>>,
    tasks: TaskTracker,
    pub(super) closed: CancellationToken,
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
        let keeper = WatchdogKeeper::start(settings.watchdog, Arc::clone(&reaper))?;
        let watchdog = Arc::clone(&keeper.watchdog);
        let (sweeper, mut keeper) = (Arc::clone(&reaper), keeper);
        // Weak in effect: it holds the reaper and not the launcher, and the token ends it.
        tasks.spawn(closed.clone().run_until_cancelled_owned(async move {
            while deaths.recv().await.is_some() {
                tokio::time::sleep(SWEEP_DELAY).await;
                sweeper.sweep();
                keeper.replace_ended();
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
        let (ended, was_ended) = oneshot::channel();
        let wires = match launch.stdin {
            Stdin::Null | Stdin::Pipe => {
                Wires::pipes(launch.stdin == Stdin::Pipe, was_ended, self.discards()).map_err(streams)?
            }
            Stdin::Terminal(size) => {
                Wires::terminal(size, was_ended, self.discards()).map_err(|source| StartError::Terminal { source })?
            }
        };
        let Wires {
            ours: (input, output, terminal),
            theirs: (program_stdin, program_stdout, program_stderr),
        } = wires;
        let order = Order::new(launch, program_stdin, program_stdout, program_stderr)?;
        let child = self.0.launcher.launch(order).await?;
        if self.0.closed.is_cancelled() {
            // The shutdown came in between and has not seen it; its guard ends it here.
            return Err(StartError::Closed);
        }
        Ok(Running {
            exit: sys::watch(child.pidfd()).map_err(streams)?,
            control: Some(child.control(terminal)),
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
        self.stop_all(self.0.reaper.tags_of(|entry| entry.call == call)).await
    }

    /// Returns what an ended program of a call left running, at most 64 processes.
    pub async fn left_by(&self, call: &str) -> Vec<Process> {
        let reaper = Arc::clone(&self.0.reaper);
        let call = call.to_owned();
        let has_left = |entry: &Entry| entry.left && !entry.held && entry.call == call;
        if reaper.tags_of(has_left).is_empty() {
            return Vec::new();
        }
        let look = move || reaper.left_by(|entry| entry.call == call, MAX_SHOWN, MAX_SHOWN_BYTES);
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
        let mut survivors = self.stop_all(self.0.reaper.tags_of(|_| true)).await;
        let reaper = Arc::clone(&self.0.reaper);
        let strays = tokio::task::spawn_blocking(move || reaper.end_all_strays(WATCHDOG_STOP_TIMEOUT));
        survivors += strays.await.unwrap_or_default();
        let watchdog = self.0.watchdog.lock().take();
        // With survivors it is not told to stop, and tries once more when this process is gone.
        if survivors == 0 {
            let reaper = Arc::clone(&self.0.reaper);
            let part = move || {
                reaper.groups().inspect(|groups| groups.close());
                watchdog.map(Watchdog::stop)
            };
            let _ = tokio::time::timeout(WATCHDOG_STOP_TIMEOUT, tokio::task::spawn_blocking(part)).await;
        }
        survivors
    }

    async fn stop_all(&self, marks: Vec<ProcessTag>) -> usize {
        let stops: Vec<_> = marks
            .into_iter()
            .map(|mark| self.0.reaper.stop(mark, TERM_GRACE))
            .collect();
        let mut survivors = 0;
        for stop in stops {
            survivors += stop.await.unwrap_or(0);
        }
        survivors
    }
}

/// The standard streams of one program, both ends of each.
struct Wires {
    /// What is written to it, what it prints, and its terminal.
    ours: (Option<Input>, Output, Option<OwnedFd>),
    /// Its standard input, `/dev/null` if none, its output and its errors.
    theirs: (Option<OwnedFd>, OwnedFd, OwnedFd),
}

impl Wires {
    fn pipes(has_input: bool, ended: oneshot::Receiver<()>, discards: Discards) -> io::Result<Self> {
        // One pipe for both: of two nobody could tell in which order they were written to.
        let (output, stdout) = io::pipe()?;
        let stderr = stdout.try_clone()?;
        let (stdin, input) = if has_input {
            let (stdin, input) = io::pipe()?;
            (Some(stdin.into()), Some(Input::new(input.into())?))
        } else {
            (None, None)
        };
        Ok(Self {
            ours: (input, Output::new(output.into(), ended, discards)?, None),
            theirs: (stdin, stdout.into(), stderr.into()),
        })
    }

    fn terminal(size: PtySize, ended: oneshot::Receiver<()>, discards: Discards) -> io::Result<Self> {
        let Pty { ours, theirs } = Pty::open(size)?;
        let input = Input::of_terminal(ours.try_clone()?)?;
        let output = Output::of_terminal(ours.try_clone()?, ended, discards)?;
        Ok(Self {
            ours: (Some(input), output, Some(ours)),
            theirs: (Some(theirs.try_clone()?), theirs.try_clone()?, theirs),
        })
    }
}
