//! Ctrl-C, SIGTERM and the end of the terminal as something to wait for.

use tokio::signal::unix::{Signal, SignalKind, signal};
use toolgate_server::app::hangup;

use super::exit::Failure;

/// The signals that ask a command to stop. From its creation on they no longer kill the process.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// None where it means something else, or is to be outlived.
    hangup: Option<Signal>,
}

impl Interrupts {
    /// Begins to listen.
    pub(super) fn listen() -> Result<Self, Failure> {
        let mut listening = Self::without_hangups()?;
        listening.hangup = hangup::unless_ignored().map_err(Failure::Terminal)?;
        Ok(listening)
    }

    /// As [`Self::listen`], for who listens to SIGHUP otherwise.
    pub(super) fn without_hangups() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(Failure::Terminal)?,
            terminate: signal(SignalKind::terminate()).map_err(Failure::Terminal)?,
            hangup: None,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}
