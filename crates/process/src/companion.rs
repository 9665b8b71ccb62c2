//! A program of the user's that a command of Toolgate stands before, and talks to through pipes.
//!
//! It is no program of a call: it has the environment and the rights of whoever gave the command, and what it starts is a
//! stranger to every service, as it would be without the command. So it bears no tag.
//!
//! *Invariant:* it leads a process group, which is killed when the value is dropped. Who leaves the group is the user's to end.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::launch::Exit;

/// A running program. Its standard error is that of this process.
pub struct Companion {
    child: Child,
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

    /// Ends the program: the polite signal to its group, then, after this time or when it has ended, the kill for what is left
    /// of the group. Returns how it ended.
    pub async fn stop(mut self, patience: Duration) -> Option<Exit> {
        self.signal(Signal::TERM);
        let ended = tokio::time::timeout(patience, self.child.wait()).await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(_) => {
                self.signal(Signal::KILL);
                self.child.wait().await
            }
        };
        // What is left of the group goes with `self`.
        ended.ok().map(exit_of)
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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

    #[tokio::test]
    async fn it_ends_with_all_of_its_group() {
        let mut deaf = shell("trap '' TERM; sleep 1000 & echo ready; wait; wait");
        let mut said = String::new();
        let mut output = tokio::io::BufReader::new(deaf.take_output().unwrap());
        tokio::io::AsyncBufReadExt::read_line(&mut output, &mut said)
            .await
            .unwrap();
        assert_eq!(said, "ready\n");
        assert_eq!(deaf.stop(Duration::from_millis(50)).await, Some(Exit::Signal(9)));
        // Its output is closed when the last one that holds it is gone.
        output.read_to_string(&mut said).await.unwrap();
    }
}
