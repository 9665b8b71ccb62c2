//! Starting: the threads that do it, and the guard that every started program belongs to.
//!
//! A thread is held up for as long as its child takes to become the program, and a folder on a server that does not
//! answer holds the child up for ever. So another thread takes over when one is stuck.
//!
//! *Invariant:* all programs are started on threads that live as long as the service, because the kernel sends the
//! parent-death signal when the starting *thread* ends.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, test_kill_process_group, waitid};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::cgroup::Groups;
use super::environment::{Environment, Filter};
use super::launch::{Exit, Launch, StartError, Usage};
use super::reaper::{Entry, ProcessTag, Reaper, owner_of};
use super::sys::{self, Plan, Spawned, Stack, Step};
use super::tree;

/// Starts that may wait for a thread; further callers wait to hand theirs in.
const QUEUE: usize = 64;

/// How long a start may take before its thread counts as stuck.
const SLOW_SPAWN_AFTER: Duration = Duration::from_secs(1);

/// How long a start is waited for in the end.
const SPAWN_TIMEOUT: Duration = Duration::from_secs(15);

/// The most threads that start programs: all but the last one stuck.
const MAX_THREADS: usize = 16;

/// Set for confined programs, which can write to no other folder for temporary files.
const TMPDIR: &[u8] = b"TMPDIR=";

/// A launch in the form that the kernel takes, with the program's ends of its pipes.
pub(super) struct Order {
    program: CString,
    arguments: Vec<CString>,
    directory: CString,
    own_environment: Vec<CString>,
    /// Which of the variables of all programs it gets; none for all.
    pub(super) inherits: Option<Filter>,
    /// None for `/dev/null`.
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    launch: Launch,
}

impl Order {
    /// Checks a launch.
    pub(super) fn new(
        launch: Launch,
        stdin: Option<OwnedFd>,
        stdout: OwnedFd,
        stderr: OwnedFd,
    ) -> Result<Self, StartError> {
        let program = c_string(launch.program.as_os_str().as_bytes(), "the program's path")?;
        let mut arguments = vec![program.clone()];
        for argument in &launch.arguments {
            arguments.push(c_string(argument.as_bytes(), "the command")?);
        }
        let directory = c_string(launch.directory.as_os_str().as_bytes(), "the directory's path")?;
        let shown = [b"PWD=", launch.shown_directory.as_os_str().as_bytes()].concat();
        let mut own_environment = vec![c_string(&shown, "the directory's path")?];
        for (name, value) in &launch.environment {
            let variable = [name.as_bytes(), b"=", value.as_bytes()].concat();
            own_environment.push(c_string(&variable, "a variable of the environment")?);
        }
        if let Some(sandbox) = &launch.sandbox {
            let temporary = [TMPDIR, sandbox.temporary().as_os_str().as_bytes()].concat();
            own_environment.push(c_string(&temporary, "the temporary folder's path")?);
        }
        Ok(Self {
            program,
            arguments,
            directory,
            own_environment,
            inherits: None,
            stdin: stdin.map(above_standard).transpose()?,
            stdout: above_standard(stdout)?,
            stderr: above_standard(stderr)?,
            launch,
        })
    }

    fn inherits(&self, variable: &CStr) -> bool {
        let name = variable
            .to_bytes()
            .split(|&byte| byte == b'=')
            .next()
            .unwrap_or_default();
        let passes = |filter: &Filter| filter.passes(OsStr::from_bytes(name));
        self.inherits.as_ref().is_none_or(passes)
    }
}

fn c_string(bytes: &[u8], what: &'static str) -> Result<CString, StartError> {
    CString::new(bytes).map_err(|_| StartError::NulByte { what })
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let above = |socket| above_standard(socket).map_err(io::Error::other);
    Ok((above(ours)?, above(theirs)?))
}

/// Moves a descriptor out of the way of the three standard ones, should the service have been started without them.
fn above_standard(descriptor: OwnedFd) -> Result<OwnedFd, StartError> {
    use std::os::fd::AsRawFd;
    if descriptor.as_raw_fd() > 2 {
        return Ok(descriptor);
    }
    rustix::io::fcntl_dupfd_cloexec(&descriptor, 3).map_err(|error| StartError::Streams { source: error.into() })
}

/// What a starting thread is to do, on memory for a child.
type Job = Box<dyn FnOnce(&mut Stack) + Send>;

/// The queue to the threads that start programs.
pub(super) struct Launcher {
    jobs: mpsc::Sender<Job>,
    waiting: Arc<Mutex<mpsc::Receiver<Job>>>,
    threads: AtomicUsize,
    idle: Arc<AtomicUsize>,
    null: Arc<OwnedFd>,
    environment: Arc<[CString]>,
    reaper: Arc<Reaper>,
}

impl Launcher {
    /// Starts a thread. It ends when the launcher is dropped, and its children with it.
    pub(super) fn start(environment: Vec<CString>, reaper: Arc<Reaper>) -> io::Result<Self> {
        let null = File::options().read(true).open("/dev/null")?.into();
        let null = above_standard(null).map_err(io::Error::other)?;
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let launcher = Self {
            jobs,
            waiting: Arc::new(Mutex::new(waiting)),
            threads: AtomicUsize::new(0),
            idle: Arc::default(),
            null: Arc::new(null),
            environment: environment.into(),
            reaper,
        };
        launcher.add_thread()?;
        Ok(launcher)
    }

    fn add_thread(&self) -> io::Result<()> {
        let (waiting, idle) = (Arc::clone(&self.waiting), Arc::clone(&self.idle));
        thread::Builder::new().name("process-start".to_owned()).spawn(move || {
            let mut stack = Stack::new();
            loop {
                idle.fetch_add(1, Ordering::AcqRel);
                // One waits for the next job, and the others for that one.
                let job = waiting.lock().blocking_recv();
                idle.fetch_sub(1, Ordering::AcqRel);
                match job {
                    Some(job) => job(&mut stack),
                    None => return,
                }
            }
        })?;
        self.threads.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Starts a program.
    pub(super) async fn launch(&self, order: Order) -> Result<Child, StartError> {
        let (reply, mut answer) = oneshot::channel();
        let (null, environment) = (Arc::clone(&self.null), Arc::clone(&self.environment));
        let reaper = Arc::clone(&self.reaper);
        let job: Job = Box::new(move |stack| {
            if !reply.is_closed() {
                // Nobody waits any more when the call was dropped; then the guard in the answer kills the program.
                drop(reply.send(launch(order, &null, &environment, &reaper, stack)));
            }
        });
        let timed_out = || {
            let source = io::Error::new(io::ErrorKind::TimedOut, "the folder or the program does not answer");
            StartError::Process { source }
        };
        match timeout(SLOW_SPAWN_AFTER, self.jobs.reserve()).await {
            Ok(room) => room.map_err(|_| StartError::Closed)?.send(job),
            Err(_) => {
                self.replace_stuck();
                let room = timeout(SPAWN_TIMEOUT, self.jobs.reserve())
                    .await
                    .map_err(|_| timed_out())?;
                room.map_err(|_| StartError::Closed)?.send(job);
            }
        }
        if let Ok(answer) = timeout(SLOW_SPAWN_AFTER, &mut answer).await {
            return answer.unwrap_or(Err(StartError::Closed));
        }
        self.replace_stuck();
        let answer = timeout(SPAWN_TIMEOUT, answer).await.map_err(|_| timed_out())?;
        answer.unwrap_or(Err(StartError::Closed))
    }

    /// Adds a thread if none is waiting for something to do. A stuck one stays: its earlier children live by it.
    fn replace_stuck(&self) {
        let count = self.threads.load(Ordering::Acquire);
        if self.idle.load(Ordering::Acquire) > 0 || count >= MAX_THREADS {
            return;
        }
        tracing::warn!(
            count,
            "a program takes long to start; another thread starts the next ones"
        );
        if let Err(error) = self.add_thread() {
            tracing::warn!(%error, "no further thread can be had to start programs");
        }
    }

    /// Keeps one starting thread busy until the other end is dropped.
    #[cfg(test)]
    pub(super) async fn occupy(&self, until: std::sync::mpsc::Receiver<()>) {
        let job: Job = Box::new(move |_| {
            // Ends when the other end is dropped.
            let _ = until.recv();
        });
        assert!(self.jobs.send(job).await.is_ok());
    }
}

fn launch(
    order: Order,
    null: &OwnedFd,
    environment: &[CString],
    reaper: &Arc<Reaper>,
    stack: &mut Stack,
) -> Result<Child, StartError> {
    // Of two variables of the same name programs may see either.
    let name_of = |text: &CString| text.as_bytes().split(|&byte| byte == b'=').next().map(<[u8]>::to_vec);
    let own: Vec<_> = order.own_environment.iter().map(name_of).collect();
    let is_replaced = |text: &&CString| own.contains(&name_of(text));
    let environment: Vec<&CStr> = environment
        .iter()
        .filter(|text| !is_replaced(text) && order.inherits(text))
        .chain(&order.own_environment)
        .map(CString::as_c_str)
        .collect();
    let mark = reaper.new_tag();
    let group = reaper.groups().and_then(Groups::take);
    // Known before it exists, so that a walk that meets it in between leaves it alone.
    let entry = Entry {
        call: order.launch.call.clone(),
        root: None,
        held: true,
        sandbox: order.launch.sandbox.clone(),
        group: group.clone(),
        left: false,
    };
    reaper.calls().insert(mark, entry);
    // The kernel makes the gate's listener in the child, which sends it here before it becomes its program.
    let sockets = match order.launch.sandbox.as_ref().filter(|sandbox| sandbox.has_gate()) {
        Some(_) => Some(socket_pair().map_err(|source| {
            reaper.forget(&mut reaper.calls(), mark);
            StartError::Streams { source }
        })?),
        None => None,
    };
    let (ours, theirs) = sockets.unzip();
    let plan = Plan {
        program: &order.program,
        arguments: &order.arguments,
        environment: &environment,
        directory: &order.directory,
        stdio: [
            order.stdin.as_ref().unwrap_or(null).as_fd(),
            order.stdout.as_fd(),
            order.stderr.as_fd(),
        ],
        mark: mark.0,
        restriction: order
            .launch
            .sandbox
            .as_ref()
            .map(|sandbox| sandbox.restriction(theirs.as_ref().map(AsFd::as_fd))),
        group: group.as_ref().map(|group| group.folder()),
    };
    match sys::spawn(&plan, stack) {
        Ok(Spawned {
            pid,
            pidfd,
            is_in_group,
        }) => {
            if let Some(groups) = reaper.groups().filter(|_| group.is_some() && !is_in_group) {
                groups.refuse(&"the kernel makes no process in one");
            }
            if let Some(entry) = reaper.calls().get_mut(&mark) {
                entry.root = Some(pid);
                entry.group = group.filter(|_| is_in_group);
            }
            let child = Child {
                pid,
                pidfd: Arc::new(pidfd),
                mark,
                reaper: Arc::clone(reaper),
                released: false,
            };
            if let Some((sandbox, ours)) = order.launch.sandbox.as_ref().zip(ours) {
                // Without anybody who serves the gate all that it decides fails; the guard ends the program then.
                let listener = super::notify::receive(ours).ok_or(io::ErrorKind::BrokenPipe);
                let served = listener
                    .map_err(io::Error::from)
                    .and_then(|listener| sandbox.serve(listener));
                served.map_err(|source| StartError::Confine { source })?;
            }
            Ok(child)
        }
        Err((step, source)) => {
            reaper.forget(&mut reaper.calls(), mark);
            Err(match step {
                Step::Clone => StartError::Process { source },
                Step::Streams => StartError::Streams { source },
                Step::Confine => StartError::Confine { source },
                Step::Directory => StartError::Directory {
                    path: order.launch.shown_directory,
                    source,
                },
                Step::Execute => StartError::Program {
                    path: order.launch.program,
                    source,
                },
            })
        }
    }
}

/// The guard of a started program: dropped before its release, it kills everything that the call started.
pub(super) struct Child {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    mark: ProcessTag,
    reaper: Arc<Reaper>,
    released: bool,
}

impl Child {
    /// Returns the program's process id.
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Returns the descriptor that becomes readable when the program ends.
    pub(super) fn pidfd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.pidfd)
    }

    /// Returns the call's tag.
    pub(super) fn mark(&self) -> ProcessTag {
        self.mark
    }

    /// Returns how the program ended, none while it runs. It stays unreaped, so that its group's number stays ours.
    pub(super) fn exit(&self) -> Option<Exit> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::PidFd(self.pidfd.as_fd()), options).ok()??;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        })
    }

    /// Says whether there is nothing to wait for any more: the program has ended, or is not ours to wait for.
    pub(super) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
            Ok(status) => status.is_some(),
            Err(error) => {
                tracing::error!(%error, pid = %self.pid, "a program cannot be waited for; its exit code is lost");
                true
            }
        }
    }

    /// Lets go of a program that has ended, and returns what it used. What it left running stays known to the reaper.
    ///
    /// With a control group that is certain at once. Without, one look may miss a process that is being adopted at that
    /// moment, so the call stays known for a moment, until it has been looked at again.
    pub(super) fn release(mut self) -> Option<Usage> {
        self.released = true;
        let mut calls = self.reaper.calls();
        // Under the lock: no group signal can be under way to a number that is given back here.
        let usage = sys::reap::reap(self.pid);
        let group = calls.get(&self.mark).and_then(|entry| entry.group.clone());
        let is_populated = group.as_ref().is_some_and(|group| group.is_populated());
        let adopted = tree::adopted();
        let left_something = is_populated
            || test_kill_process_group(self.pid) != Err(rustix::io::Errno::SRCH)
            || adopted.iter().any(|&child| owner_of(child, &calls) == Some(self.mark));
        if group.is_some() && !left_something && !self.reaper.has_strays(&adopted, &calls) {
            self.reaper.forget(&mut calls, self.mark);
            return usage;
        }
        if let Some(entry) = calls.get_mut(&self.mark) {
            entry.held = false;
            entry.left = left_something;
        }
        drop(calls);
        if left_something {
            self.reaper.sweep();
        } else {
            self.reaper.look_later();
        }
        usage
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.reaper.signal_group(self.mark, &[Signal::KILL]);
        if let Some(entry) = self.reaper.calls().get_mut(&self.mark) {
            entry.held = false;
        }
        self.reaper.kill(self.mark);
    }
}

/// Chooses the shell (`SHELL`, unless it cannot run a command line; then `bash` from the path, then `/bin/sh`).
pub(super) fn choose_shell(environment: &Environment) -> PathBuf {
    // `nologin` and `false` are what service accounts have.
    let unfit = ["fish", "nu", "nologin", "false"];
    let named = environment.get(&OsString::from("SHELL")).map(PathBuf::from);
    let is_fit = |shell: &PathBuf| {
        let name = shell.file_name().unwrap_or_default();
        shell.is_absolute() && is_program(shell) && !unfit.iter().any(|unfit| name == *unfit)
    };
    named
        .filter(is_fit)
        .or_else(|| find_program(Path::new("bash"), environment.get(OsStr::new("PATH"))?))
        .unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// Looks a program up in folders as `PATH` lists them.
pub(super) fn find_program(name: &Path, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_program(candidate))
}

pub(super) fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_a_shell_that_can_run_a_line() {
        let check = |shell: Option<&str>, path: &str, expected: &str| {
            let mut environment = Environment::new();
            environment.insert("PATH".into(), path.into());
            if let Some(shell) = shell {
                environment.insert("SHELL".into(), shell.into());
            }
            assert_eq!(choose_shell(&environment), Path::new(expected), "{shell:?} {path}");
        };
        check(Some("/bin/sh"), "/bin", "/bin/sh");
        check(Some("/usr/bin/fish"), "/nowhere:/bin", "/bin/bash");
        check(Some("/opt/nu"), "/nowhere", "/bin/sh");
        check(Some("/usr/sbin/nologin"), "/nowhere", "/bin/sh");
        check(Some("/no/such/shell"), "/bin", "/bin/bash");
        check(Some("/etc/passwd"), "/bin", "/bin/bash");
        check(Some(""), "/bin", "/bin/bash");
        check(None, "", "/bin/sh");
    }
}
