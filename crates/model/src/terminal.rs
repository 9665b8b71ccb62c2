//! Terminals and signals: how large a terminal is, and what a program can be sent.
//!
//! *Invariant:* a size that was made here is one that a terminal can have.

/// The size of a terminal in characters: from 1 to the most of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    columns: u16,
    rows: u16,
}

impl TerminalSize {
    /// The most columns.
    pub const MAX_COLUMNS: u16 = 500;

    /// The most rows.
    pub const MAX_ROWS: u16 = 200;

    /// Makes a size; none if it is out of range.
    pub fn new(columns: u16, rows: u16) -> Option<Self> {
        let fits = (1..=Self::MAX_COLUMNS).contains(&columns) && (1..=Self::MAX_ROWS).contains(&rows);
        fits.then_some(Self { columns, rows })
    }

    /// Returns the number of columns.
    pub fn columns(self) -> u16 {
        self.columns
    }

    /// Returns the number of rows.
    pub fn rows(self) -> u16 {
        self.rows
    }
}

/// A signal that clients may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// What Ctrl-C is: SIGINT.
    Int,
    /// The polite request to end: SIGTERM.
    Term,
    /// What a lost terminal is: SIGHUP.
    Hup,
    /// What Ctrl-\ is: SIGQUIT.
    Quit,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
}
