//! Ctrl-C and SIGTERM as something to wait for.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Failure;

/// The signals that ask a command to stop. From its creation on they no longer kill the process.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Begins to listen.
    pub(super) fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(Failure::Terminal)?,
            terminate: signal(SignalKind::terminate()).map_err(Failure::Terminal)?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
