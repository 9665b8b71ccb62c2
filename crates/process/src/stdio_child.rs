//! Programs that the service talks to for as long as they live: servers of tools and of languages, hosts of scripts.
//!
//! *Invariant:* nothing here speaks a protocol. A program that neither reads nor prints holds up its own pipes only.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::Pid;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::environment::Filter;
use super::launch::{Exit, Launch, StartError};
use super::programs::{Programs, TERM_GRACE};
use super::running::wait_for;
use super::spawn::{Child, Order};
use super::{sys, tree};

/// A running program with its three pipes. Dropping it kills the program and everything that descends from it.
pub struct StdioChild {
    child: Child,
    exit: AsyncFd<Arc<OwnedFd>>,
    input: Option<Sender>,
    output: Option<Receiver>,
    errors: Option<Receiver>,
    /// Keeps the starting thread alive, on which the program's life depends.
    programs: Programs,
}

impl Programs {
    /// Starts a program that the service talks to. Its standard input is a pipe, whatever the launch says.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub async fn spawn_piped(&self, launch: Launch) -> Result<StdioChild, StartError> {
        self.spawn_piped_with(launch, None).await
    }

    /// Starts a program that the service talks to, like [`Self::spawn_piped`], that gets only those of the variables of all
    /// programs that `inherits` lets through.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub async fn spawn_piped_with(&self, launch: Launch, inherits: Option<Filter>) -> Result<StdioChild, StartError> {
        if self.0.closed.is_cancelled() {
            return Err(StartError::Closed);
        }
        let streams = |source: io::Error| StartError::Streams { source };
        let (program_stdin, input) = io::pipe().map_err(streams)?;
        let (output, program_stdout) = io::pipe().map_err(streams)?;
        let (errors, program_stderr) = io::pipe().map_err(streams)?;
        let input = Sender::from_owned_fd(input.into()).map_err(streams)?;
        let output = Receiver::from_owned_fd(output.into()).map_err(streams)?;
        let errors = Receiver::from_owned_fd(errors.into()).map_err(streams)?;
        let pipes = (Some(program_stdin.into()), program_stdout.into(), program_stderr.into());
        let mut order = Order::new(launch, pipes.0, pipes.1, pipes.2)?;
        order.inherits = inherits;
        let child = self.0.launcher.launch(order).await?;
        if self.0.closed.is_cancelled() {
            // The shutdown came in between and has not seen it; its guard ends it here.
            return Err(StartError::Closed);
        }
        Ok(StdioChild {
            exit: sys::watch(child.pidfd()).map_err(streams)?,
            child,
            input: Some(input),
            output: Some(output),
            errors: Some(errors),
            programs: self.clone(),
        })
    }
}

impl StdioChild {
    /// Returns the program's process id.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Returns where to write what the program reads, once. Dropping it is the end of its input.
    pub fn take_input(&mut self) -> Option<Sender> {
        self.input.take()
    }

    /// Returns what the program prints, once. Somebody must read it, or the program blocks.
    pub fn take_output(&mut self) -> Option<Receiver> {
        self.output.take()
    }

    /// Returns what the program complains of, once. Somebody must read it, or the program blocks.
    pub fn take_errors(&mut self) -> Option<Receiver> {
        self.errors.take()
    }

    /// Returns how much memory the program itself uses at the moment, in bytes; none once it has ended.
    pub fn resident_bytes(&self) -> Option<u64> {
        resident_bytes(self.pid())
    }

    /// Returns how much memory the program and its descendants use at the moment, in bytes; what they share counts for each.
    pub fn resident_bytes_of_all(&self) -> u64 {
        let Some(root) = Pid::from_raw(self.pid()) else {
            return 0;
        };
        let descendants = tree::descendants(root).into_iter().map(|(process, _)| process);
        let all = std::iter::once(root).chain(descendants);
        all.filter_map(|process| resident_bytes(process.as_raw_nonzero().get()))
            .sum()
    }

    /// Waits until the program has ended by itself.
    pub async fn ended(&self) -> Option<Exit> {
        wait_for(&self.child, &self.exit).await;
        self.child.exit()
    }

    /// Ends the program and everything that it started: the polite signal, 200 ms, the kill. Returns the number of
    /// survivors.
    pub async fn stop(self) -> usize {
        let stopped = self.programs.0.reaper.stop(self.child.mark(), TERM_GRACE);
        let survivors = stopped.await.unwrap_or(0);
        if self.child.exit().is_some() {
            self.child.release();
        }
        survivors
    }
}

fn resident_bytes(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = kibibytes.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024)
}
