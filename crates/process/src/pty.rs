//! Terminals that programs run in: made before the program, resized while it runs.
//!
//! The program gets one end as its three standard streams and as the terminal that controls its session. The service keeps
//! the other: what the program prints is read there, and what clients type is written there. When no process has the first
//! end open any more, reading the other one fails, which is the end of the output.
//!
//! *Invariant:* the service never has the program's end open while the program runs: the kernel ends the terminal with the
//! last process that uses it, and with the first process of its session.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, PidfdFlags, Signal as Number, pidfd_open, pidfd_send_signal};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcgetpgrp, tcsetattr, tcsetwinsize};

use super::reaper::{Entry, ProcessTag, Reaper, owner_of};
use super::tree;

/// The kind of terminal that programs are told they run in, which every terminal of today understands.
pub(super) const TERM: (&str, &str) = ("TERM", "xterm-256color");

/// The size of a terminal in characters, neither of them 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtySize {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// A signal that a program can be sent from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramSignal {
    /// SIGINT.
    Int,
    /// SIGTERM.
    Term,
    /// SIGHUP.
    Hup,
    /// SIGQUIT.
    Quit,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
}

impl ProgramSignal {
    fn number(self) -> Number {
        match self {
            Self::Int => Number::INT,
            Self::Term => Number::TERM,
            Self::Hup => Number::HUP,
            Self::Quit => Number::QUIT,
            Self::Usr1 => Number::USR1,
            Self::Usr2 => Number::USR2,
        }
    }
}

/// A new terminal.
pub(super) struct Pty {
    /// The service's end; reading and writing it never blocks.
    pub(super) ours: OwnedFd,
    /// The program's end.
    pub(super) theirs: OwnedFd,
}

impl Pty {
    pub(super) fn open(size: PtySize) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        unlockpt(&ours)?;
        // Not by its name, which may be another terminal's where `/dev/pts` is another one.
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        let mut modes = tcgetattr(&theirs)?;
        // The terminal edits lines, and a character of several bytes is to go as one.
        modes.input_modes.insert(InputModes::IUTF8);
        tcsetattr(&theirs, OptionalActions::Now, &modes)?;
        set_size(&ours, size)?;
        ioctl_fionbio(&ours, true)?;
        Ok(Self { ours, theirs })
    }
}

fn set_size(terminal: impl AsFd, size: PtySize) -> io::Result<()> {
    let size = Winsize {
        ws_col: size.columns,
        ws_row: size.rows,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(terminal, size)?)
}

/// Reaches a program that was started, for as long as it runs; it keeps nothing alive.
pub struct Control {
    pub(super) mark: ProcessTag,
    pub(super) reaper: Arc<Reaper>,
    pub(super) terminal: Option<OwnedFd>,
}

impl Control {
    /// Changes the size of the program's terminal, of which the kernel tells the programs in it.
    ///
    /// # Errors
    /// It has none.
    pub fn resize(&self, size: PtySize) -> io::Result<()> {
        match &self.terminal {
            Some(terminal) => set_size(terminal, size),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends a signal to the process group of the program; with a terminal, to the one in its foreground, as a key would.
    /// Says whether there was anybody to get it. Blocking.
    pub fn signal(&self, signal: ProgramSignal) -> bool {
        let calls = self.reaper.calls().clone();
        let Some(entry) = calls.get(&self.mark).filter(|entry| entry.held) else {
            return false;
        };
        let foreground = self.terminal.as_ref().and_then(|terminal| tcgetpgrp(terminal).ok());
        let mut reached = false;
        if let Some(group) = foreground.filter(|group| entry.root != Some(*group)) {
            // Not by its number: nothing keeps that from going to others meanwhile.
            for process in members(group, self.mark, &calls) {
                let Ok(descriptor) = pidfd_open(process, PidfdFlags::empty()) else {
                    continue;
                };
                let is_meant = belongs(process, group, self.mark, &calls);
                reached |= is_meant && pidfd_send_signal(&descriptor, signal.number()).is_ok();
            }
        }
        // Nobody is left there when the shell is about to take its terminal back.
        reached || self.reaper.signal_group(self.mark, &[signal.number()]).is_some()
    }
}

/// Returns the processes of a call that are in a process group.
fn members(group: Pid, mark: ProcessTag, calls: &HashMap<ProcessTag, Entry>) -> Vec<Pid> {
    let children = tree::own_children().into_iter();
    let own = children.filter(|&child| owner_of(child, calls) == Some(mark));
    let all = own.flat_map(|child| {
        let below = tree::descendants(child).into_iter().map(|(process, _)| process);
        std::iter::once(child).chain(below)
    });
    all.filter(|&process| belongs(process, group, mark, calls)).collect()
}

fn belongs(process: Pid, group: Pid, mark: ProcessTag, calls: &HashMap<ProcessTag, Entry>) -> bool {
    tree::group_of(process) == Some(group) && owner_of(process, calls) == Some(mark)
}
