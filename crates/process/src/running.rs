//! A program that runs, until its end.
//!
//! *Invariant:* dropped, it takes the program and everything that descends from it along.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::input::Input;
use super::launch::{Cause, Ending, Exit};
use super::output::Output;
use super::programs::{Programs, TERM_GRACE};
use super::pty::Control;
use super::spawn::Child;

/// How long a program that seems to have ended, and has not, is left alone.
const EXIT_RECHECK_DELAY: Duration = Duration::from_millis(1);

/// A program that runs. Dropping it kills the program and everything that descends from it.
pub struct Running {
    pub(super) child: Child,
    pub(super) exit: AsyncFd<Arc<OwnedFd>>,
    pub(super) input: Option<Input>,
    pub(super) output: Option<Output>,
    pub(super) control: Option<Control>,
    pub(super) ended: Option<oneshot::Sender<()>>,
    /// Keeps the starting thread alive, on which the program's life depends.
    pub(super) programs: Programs,
}

impl Running {
    /// Returns the program's process id, which is that of its group too.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Returns the program's standard input, once, if it was started with a pipe or a terminal. Until a pipe is
    /// dropped, the program waits for more.
    pub fn take_input(&mut self) -> Option<Input> {
        self.input.take()
    }

    /// Returns what reaches the program from outside, once.
    pub fn take_control(&mut self) -> Option<Control> {
        self.control.take()
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
        let cause = match (cause, self.child.exit()) {
            // Whoever cancels may end the programs as well, and be faster than this task.
            (Cause::Ended, Some(Exit::Signal(_))) if cancelled.is_cancelled() => Cause::Cancelled,
            (cause, _) => cause,
        };
        let survivors = match cause {
            Cause::Ended => 0,
            Cause::TimedOut | Cause::Cancelled => {
                let stopped = self.programs.0.reaper.stop(self.child.mark(), TERM_GRACE);
                stopped.await.unwrap_or(0)
            }
        };
        let exit = self.child.exit();
        let usage = exit.and_then(|_| self.child.release());
        // The reader has waited for this, and may find itself alone already.
        let _ = self.ended.take().map(|ended| ended.send(()));
        Ending {
            cause,
            exit,
            survivors,
            usage,
        }
    }

    async fn wait(&self) {
        wait_for(&self.child, &self.exit).await;
    }
}

/// Waits until a program has ended.
pub(super) async fn wait_for(child: &Child, exit: &AsyncFd<Arc<OwnedFd>>) {
    while !child.has_ended() {
        match exit.readable().await {
            Ok(mut ready) => {
                if child.has_ended() {
                    return;
                }
                ready.clear_ready();
                // Should the descriptor ever stay readable before its time, others still have their turn.
                tokio::time::sleep(EXIT_RECHECK_DELAY).await;
            }
            // A runtime that shuts down, and then this future is dropped next.
            Err(_) => return,
        }
    }
}
