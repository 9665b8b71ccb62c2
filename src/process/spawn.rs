//! Starting: the thread that does it, and the guard that every started program belongs to.
//!
//! *Invariant:* all programs are started on one thread that lives as long as the service, because the kernel sends the
//! parent-death signal when the starting *thread* ends.

use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, test_kill_process_group, waitid};
use tokio::sync::{mpsc, oneshot};

use super::sys::{self, Plan, Stack, Step};
use super::undertaker::{Entry, Mark, Undertaker, owner_of};
use super::{Exit, Launch, StartError, tree};

/// Starts that may wait for the thread; further callers wait to hand theirs in.
const QUEUE: usize = 64;

/// Set for confined programs, which can write to no other folder for temporary files.
const TMPDIR: &[u8] = b"TMPDIR=";

/// A launch in the form that the kernel takes, with the program's ends of its pipes.
pub(super) struct Order {
    program: CString,
    arguments: Vec<CString>,
    directory: CString,
    own_environment: Vec<CString>,
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
        if let Some(sandbox) = &launch.sandbox {
            let temporary = [TMPDIR, sandbox.temporary().as_os_str().as_bytes()].concat();
            own_environment.push(c_string(&temporary, "the temporary folder's path")?);
        }
        Ok(Self {
            program,
            arguments,
            directory,
            own_environment,
            stdin: stdin.map(above_standard).transpose()?,
            stdout: above_standard(stdout)?,
            stderr: above_standard(stderr)?,
            launch,
        })
    }
}

fn c_string(bytes: &[u8], what: &'static str) -> Result<CString, StartError> {
    CString::new(bytes).map_err(|_| StartError::NulByte { what })
}

/// Moves a descriptor out of the way of the three standard ones, should the service have been started without them.
fn above_standard(descriptor: OwnedFd) -> Result<OwnedFd, StartError> {
    use std::os::fd::AsRawFd;
    if descriptor.as_raw_fd() > 2 {
        return Ok(descriptor);
    }
    rustix::io::fcntl_dupfd_cloexec(&descriptor, 3).map_err(|error| StartError::Streams { source: error.into() })
}

type Reply = oneshot::Sender<Result<Child, StartError>>;

/// The queue to the thread that starts programs.
pub(super) struct Launcher(mpsc::Sender<(Order, Reply)>);

impl Launcher {
    /// Starts the thread. It ends when the launcher is dropped, and its children with it.
    pub(super) fn start(environment: Vec<CString>, undertaker: Arc<Undertaker>) -> io::Result<Self> {
        let null = File::options().read(true).open("/dev/null")?.into();
        let null = above_standard(null).map_err(io::Error::other)?;
        let (sender, mut orders) = mpsc::channel::<(Order, Reply)>(QUEUE);
        thread::Builder::new().name("process-start".to_owned()).spawn(move || {
            let mut stack = Stack::new();
            while let Some((order, reply)) = orders.blocking_recv() {
                let child = launch(order, &null, &environment, &undertaker, &mut stack);
                // Nobody waits any more when the call was dropped; then the guard in the answer kills the program.
                drop(reply.send(child));
            }
        })?;
        Ok(Self(sender))
    }

    /// Starts a program.
    pub(super) async fn launch(&self, order: Order) -> Result<Child, StartError> {
        let (reply, answer) = oneshot::channel();
        self.0.send((order, reply)).await.map_err(|_| StartError::Closed)?;
        answer.await.unwrap_or(Err(StartError::Closed))
    }
}

fn launch(
    order: Order,
    null: &OwnedFd,
    environment: &[CString],
    undertaker: &Arc<Undertaker>,
    stack: &mut Stack,
) -> Result<Child, StartError> {
    let is_replaced = |text: &&CString| order.launch.sandbox.is_some() && text.as_bytes().starts_with(TMPDIR);
    let environment: Vec<&CStr> = environment
        .iter()
        .filter(|text| !is_replaced(text))
        .chain(&order.own_environment)
        .map(CString::as_c_str)
        .collect();
    let mark = undertaker.new_mark();
    // Known before it exists, so that a walk that meets it in between leaves it alone.
    let entry = Entry {
        call: order.launch.call.clone(),
        root: None,
        held: true,
        sandbox: order.launch.sandbox.clone(),
    };
    undertaker.calls().insert(mark, entry);
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
        restriction: order.launch.sandbox.as_ref().map(|sandbox| sandbox.restriction()),
    };
    match sys::spawn(&plan, stack) {
        Ok((pid, pidfd)) => {
            if let Some(entry) = undertaker.calls().get_mut(&mark) {
                entry.root = Some(pid);
            }
            Ok(Child {
                pid,
                pidfd: Arc::new(pidfd),
                mark,
                undertaker: Arc::clone(undertaker),
                released: false,
            })
        }
        Err((step, source)) => {
            undertaker.calls().remove(&mark);
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
    mark: Mark,
    undertaker: Arc<Undertaker>,
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

    /// Returns the call's mark.
    pub(super) fn mark(&self) -> Mark {
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

    /// Lets go of a program that has ended. What it left running stays known to the undertaker.
    pub(super) fn release(mut self) {
        self.released = true;
        let mut calls = self.undertaker.calls();
        // Under the lock: no group signal can be under way to a number that is given back here.
        let _ = waitid(
            WaitId::PidFd(self.pidfd.as_fd()),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        );
        let adopted = tree::adopted();
        let left_something = test_kill_process_group(self.pid) != Err(rustix::io::Errno::SRCH)
            || adopted.iter().any(|&child| owner_of(child, &calls) == Some(self.mark));
        if !left_something {
            calls.remove(&self.mark);
            return;
        }
        if let Some(entry) = calls.get_mut(&self.mark) {
            entry.held = false;
        }
        drop(calls);
        self.undertaker.sweep();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.undertaker.signal_group(self.mark, &[Signal::KILL]);
        if let Some(entry) = self.undertaker.calls().get_mut(&self.mark) {
            entry.held = false;
        }
        self.undertaker.kill(self.mark);
    }
}

/// Chooses the shell (`SHELL`, unless it cannot run a command line; then `bash` from the path, then `/bin/sh`).
pub(super) fn choose_shell(environment: &super::Environment) -> PathBuf {
    // `nologin` and `false` are what service accounts have.
    let unfit = ["fish", "nu", "nologin", "false"];
    let named = environment.get(&OsString::from("SHELL")).map(PathBuf::from);
    let is_fit = |shell: &PathBuf| {
        let name = shell.file_name().unwrap_or_default();
        shell.is_absolute() && is_program(shell) && !unfit.iter().any(|unfit| name == *unfit)
    };
    named
        .filter(is_fit)
        .or_else(|| find_program("bash", environment))
        .unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// Looks a program up in the `PATH` of an environment.
pub(super) fn find_program(name: &str, environment: &super::Environment) -> Option<PathBuf> {
    let path = environment.get(&OsString::from("PATH"))?;
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Returns the environment of children: the service's own without its settings, and without what each start sets.
pub(super) fn child_environment(environment: &super::Environment) -> Vec<CString> {
    environment
        .iter()
        .filter(|(name, _)| !name.as_bytes().starts_with(b"TOOLGATE_") && *name != "PWD")
        .filter_map(|(name, value)| {
            let mut text = name.clone();
            text.push("=");
            text.push(value);
            CString::new(text.into_vec()).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_a_shell_that_can_run_a_line() {
        let check = |shell: Option<&str>, path: &str, expected: &str| {
            let mut environment = super::super::Environment::new();
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

    #[test]
    fn the_services_own_settings_stay_with_it() {
        let environment = [("A", "1"), ("TOOLGATE_TOKEN", "x"), ("PWD", "/x"), ("TOOLGATE", "kept")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let texts: Vec<String> = child_environment(&environment)
            .into_iter()
            .map(|text| text.into_string().unwrap())
            .collect();
        assert_eq!(texts, ["A=1", "TOOLGATE=kept"]);
    }
}
