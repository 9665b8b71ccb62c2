//! A program of the user's that a command of Toolgate stands before, and talks to through pipes.
//!
//! It is no program of a call: it has the environment and the rights of whoever gave the command, and what it starts is a
//! stranger to every service, as it would be without the command. So it bears no tag.
//!
//! *Invariant:* it leads a process group, which is killed when the value is dropped, unless it is empty. Who leaves the group is the
//! user's to end.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::launch::Exit;

/// How often it is looked whether anybody of the group is left.
const LOOK: Duration = Duration::from_millis(20);

/// A running program. Its standard error is that of this process.
pub struct Companion {
    child: Child,
    /// None once nobody is in it, or all were killed: its number may be that of another one then.
    group: Option<Pid>,
}

impl Companion {
    /// Starts a program: by its path, or by its name in `PATH`.
    ///
    /// # Errors
    /// It cannot be executed; nothing runs then.
    pub fn start(program: &OsStr, arguments: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(Self { child, group })
    }

    /// Returns where to write what the program reads, once. Dropping it is the end of its input.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Returns what the program prints, once.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    /// The kernel does not say how.
    pub async fn ended(&mut self) -> io::Result<Exit> {
        self.child.wait().await.map(exit_of)
    }

    /// Waits until the program has ended, and with it all of its group.
    pub async fn emptied(&mut self) {
        // However it has ended, the kernel knows who is left.
        let _ = self.child.wait().await;
        while let Some(group) = self.group {
            if test_kill_process_group(group) == Err(Errno::SRCH) {
                self.group = None;
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends the program and its group: the polite signal and, after this time, the kill for who is left. Returns how the program
    /// ended, also if it had before; none if the kernel does not say.
    pub async fn stop(&mut self, patience: Duration) -> Option<Exit> {
        self.signal(Signal::TERM);
        if tokio::time::timeout(patience, self.emptied()).await.is_err() {
            self.signal(Signal::KILL);
            // Nobody outlives that, and the number may be that of another group soon.
            self.group = None;
        }
        self.ended().await.ok()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Nobody is left in it, or all of them have just ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(0),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn shell(script: &str) -> Companion {
        Companion::start(OsStr::new("sh"), &["-c".into(), script.into()]).unwrap()
    }

    #[tokio::test]
    async fn it_is_talked_to_and_its_end_is_told() {
        let mut cat = shell("cat; exit 7");
        let (mut input, mut output) = (cat.take_input().unwrap(), cat.take_output().unwrap());
        input.write_all(b"hello\n").await.unwrap();
        drop(input);
        let mut said = String::new();
        output.read_to_string(&mut said).await.unwrap();
        assert_eq!((said.as_str(), cat.ended().await.unwrap()), ("hello\n", Exit::Code(7)));
        assert!(Companion::start(OsStr::new("/no/such/program"), &[]).is_err());
    }

    async fn ready(companion: &mut Companion) -> tokio::io::BufReader<ChildStdout> {
        let mut said = String::new();
        let mut output = tokio::io::BufReader::new(companion.take_output().unwrap());
        output.read_line(&mut said).await.unwrap();
        assert_eq!(said, "ready\n");
        output
    }

    #[tokio::test]
    async fn it_ends_with_all_of_its_group() {
        let mut deaf = shell("trap '' TERM; sleep 1000 & echo ready; wait; wait");
        let mut output = ready(&mut deaf).await;
        assert_eq!(deaf.stop(Duration::from_millis(50)).await, Some(Exit::Signal(9)));
        // Its output is closed when the last one that holds it is gone.
        output.read_to_string(&mut String::new()).await.unwrap();
    }

    #[tokio::test]
    async fn what_it_has_started_is_given_time_to_end() {
        // It ends at once, and what it leaves puts things in order first.
        let left = "trap 'sleep 0.3; echo done; exit' TERM; echo ready; while :; do sleep 0.05; done";
        let mut hasty = shell(&format!("trap 'exit 3' TERM; sh -c \"{left}\" & wait"));
        let mut output = ready(&mut hasty).await;
        assert_eq!(hasty.stop(Duration::from_secs(60)).await, Some(Exit::Code(3)));
        let mut said = String::new();
        output.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "done\n");
        // Nobody is left to be killed.
        assert!(hasty.group.is_none());
        assert_eq!(hasty.stop(Duration::ZERO).await, Some(Exit::Code(3)));
    }
}
