//! The program of a call that runs, as clients reach it: its terminal, what that shows, and signals.
//!
//! *Invariant:* the size of the terminal, that of the screen and the one that the program is told are the same, in
//! whatever order the program, its output and clients come.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolgate_model::{CallId, Signal, TerminalSize};
use toolgate_tool::ProgramControl;

use crate::not_running::NotRunning;
use crate::screen::{Picture, Screen};

/// Why the program of a call was not reached.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The call does not run here.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// The call has no terminal.
    #[error("the call {call} has no terminal: its tool is {tool}, and its input names no size")]
    NoTerminal {
        /// The call.
        call: CallId,
        /// Its tool.
        tool: String,
    },
    /// No program of the call runs.
    #[error("no program of the call {0} runs that could be sent a signal: it was not started yet, or it has ended")]
    NoProgram(CallId),
    /// The kernel refused, or the service stops.
    #[error("the program of the call cannot be reached")]
    Failed(#[source] io::Error),
}

/// The program of one call.
#[derive(Default)]
pub(crate) struct Program {
    /// Never locked for long, and never while `screen` is waited for.
    reached: Mutex<Reached>,
    /// None without a terminal. Drawing holds it for long, so that no task waits for it.
    screen: Mutex<Option<Arc<Mutex<Screen>>>>,
}

#[derive(Default)]
struct Reached {
    program: Option<Arc<dyn ProgramControl>>,
    /// The size of its terminal, if it has one.
    size: Option<TerminalSize>,
}

impl Program {
    pub(crate) fn open_terminal(&self, size: TerminalSize) {
        *self.screen.lock() = Some(Arc::new(Mutex::new(Screen::new(size))));
        self.reached.lock().size = Some(size);
    }

    /// Keeps what reaches the program, and tells it the size, which may be another one than it was started with.
    pub(crate) fn attach(&self, program: Arc<dyn ProgramControl>) {
        let mut reached = self.reached.lock();
        if let Some(size) = reached.size
            && let Err(error) = program.resize(size)
        {
            tracing::warn!(%error, "a terminal was not given its size");
        }
        reached.program = Some(program);
    }

    /// Returns the size of the terminal; none if there is none.
    pub(crate) fn terminal_size(&self) -> Option<TerminalSize> {
        self.reached.lock().size
    }

    fn screen(&self) -> Option<Arc<Mutex<Screen>>> {
        self.screen.lock().clone()
    }

    /// Draws output that ends at `end`, if the call has a terminal.
    pub(crate) async fn draw(&self, output: &Bytes, end: u64, stopping: &CancellationToken) {
        let Some(screen) = self.screen() else { return };
        let (output, stopping) = (output.clone(), stopping.clone());
        let drawing = {
            let screen = Arc::clone(&screen);
            move || screen.lock().draw(&output, end, &stopping)
        };
        if let Err(error) = tokio::task::spawn_blocking(drawing).await
            && error.is_panic()
        {
            tracing::error!("a screen could not be drawn; it begins anew");
            let mut screen = screen.lock();
            *screen = Screen::new(screen.size());
        }
    }

    /// Changes the size of the terminal; false if there is none. Blocking.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<bool> {
        let Some(screen) = self.screen() else { return Ok(false) };
        {
            let mut reached = self.reached.lock();
            if let Some(program) = &reached.program {
                program.resize(size)?;
            }
            reached.size = Some(size);
        }
        let mut screen = screen.lock();
        // Of two that came at once, the program has the later one.
        let now = self.reached.lock().size;
        screen.resize(now.unwrap_or(size));
        Ok(true)
    }

    /// Sends the program a signal; false if it does not run. Blocking.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let program = self.reached.lock().program.clone();
        program.is_some_and(|program| program.signal(signal))
    }

    /// Returns what the terminal shows; none if there is none. Blocking.
    pub(crate) fn picture(&self) -> Option<Picture> {
        self.screen().map(|screen| screen.lock().picture())
    }
}
