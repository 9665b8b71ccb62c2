//! SIGHUP, which means two things: read your files again, and: your terminal is gone.
//!
//! *Invariant:* from [`Hangups::listen`] on the signal ends nobody. It means the terminal only if that hung up about then;
//! the shell may pass it on a moment before. A service whose starter ignored it (`nohup`) outlives its terminal.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use toolgate_process::{Terminal, ignores_hangup};

/// A signal and the end of the terminal belong together if no more than this lies between them.
const HANGUP_WINDOW: Duration = Duration::from_secs(2);

/// What a hangup asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hangup {
    /// Files that changed are to be read again. Whoever reads some listens to the signal too.
    Reload,
    /// The terminal is gone, and with it whoever started the service.
    Leave,
}

/// Listens to the signal, for a program that ends with its terminal and reads nothing again; none if it is to outlive it.
///
/// # Errors
/// The signal cannot be listened to.
pub fn unless_ignored() -> io::Result<Option<Signal>> {
    if ignores_hangup() {
        return Ok(None);
    }
    signal(SignalKind::hangup()).map(Some)
}

/// Listens to hangups.
pub struct Hangups {
    signal: Signal,
    /// None also when its end no longer matters.
    terminal: Option<Terminal>,
    signalled: Option<Instant>,
}

impl Hangups {
    /// Begins to listen. To be called inside a runtime, before anything else listens to the signal.
    ///
    /// # Errors
    /// The signal cannot be listened to.
    pub fn listen() -> io::Result<Self> {
        let terminal = if ignores_hangup() {
            None
        } else {
            Terminal::controlling()
        };
        Ok(Self {
            signal: signal(SignalKind::hangup())?,
            terminal,
            signalled: None,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Hangup {
        loop {
            let hung_up = async {
                match &self.terminal {
                    Some(terminal) => terminal.hung_up().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.signal.recv() => {
                    self.signalled = Some(Instant::now());
                    let is_gone = self.terminal.as_ref().is_some_and(Terminal::has_hung_up);
                    return if is_gone { Hangup::Leave } else { Hangup::Reload };
                }
                () = hung_up => {
                    if self.signalled.is_some_and(|at| at.elapsed() < HANGUP_WINDOW) {
                        return Hangup::Leave;
                    }
                    // The signal may be on its way. Should none come, whoever started the service has let it go.
                    let told = tokio::time::timeout(HANGUP_WINDOW, self.signal.recv()).await;
                    self.terminal = None;
                    if told.is_ok() {
                        return Hangup::Leave;
                    }
                }
            }
        }
    }
}
