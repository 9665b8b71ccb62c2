//! Programs: the only place that starts one, reads what it prints, and ends it with all that it started.
//!
//! A started program leads a session and a process group of its own, reads nothing or what a pipe brings it, prints into
//! a pipe (two pipes, if it speaks a protocol), or has a terminal for both, and is killed by the kernel when the service dies. Everything that descends
//! from it is found again by a tag that it cannot shed by leaving the group, forgetting its parents or emptying its
//! environment (see `sys::tag_of`), and by its control group where those can be written, so ending a call ends all of it.
//! Requires Linux 5.4; the service should adopt orphans ([`adopt_orphans`]).
//!
//! A background job outlives its call, since starting a development server is a fair thing to ask for, but not the
//! service: [`Programs::shutdown`] ends it, and when the service is killed outright its watchdog does ([`guard`]).
//!
//! *Invariant:* a leaf. It knows neither tools nor permissions.
//!
//! The files, in reading order:
//!
//! - `launch`, `environment`: what to start, with which variables, and how it ended.
//! - `programs`, `running`: starting and ending programs by call; one program that runs.
//! - `pty`: terminals that they run in, and reaching them from outside.
//! - `input`, `output`, `stdio_child`, [`stderr_log`]: their pipes; programs that speak a protocol, and their complaints.
//! - `companion`: a program of the user's that a command stands before, and no program of a call.
//! - `spawn`, `sys`, `notify`: the threads that start programs, and all unsafe code.
//! - `reaper`, `tree`, `cgroup`: ending what a call started, found by tag, by parents and by control group.
//! - `usage`: what programs use at one moment.
//! - `watchdog`, `watchdog_keeper`: the process that ends the programs when the service is killed.
//! - [`sandbox`]: confining programs.
//! - `sockets`, `peer`, `listening`: whose process is behind a connection, and what the programs of a call listen on.
//! - `temporary`, `terminal`, `this_process`: temporary folders, the terminal, and what the service does to itself.

#![allow(clippy::disallowed_methods)] // starts the programs, and reads `/proc` to find what they started

mod cgroup;
mod companion;
mod environment;
mod input;
mod launch;
mod listening;
mod notify;
mod output;
mod peer;
mod programs;
mod pty;
mod reaper;
mod running;
pub mod sandbox;
mod sockets;
mod spawn;
pub mod stderr_log;
mod stdio_child;
mod sys;
mod temporary;
mod terminal;
#[cfg(test)]
mod tests;
mod this_process;
mod tree;
mod usage;
mod watchdog;
mod watchdog_keeper;

pub use companion::Companion;
pub use environment::{Environment, Filter};
pub use input::Input;
pub use launch::{Cause, Ending, Exit, Launch, Process, Settings, StartError, Stdin, Usage};
pub use listening::{CallPort, Listeners, Listening};
pub use output::Output;
pub use peer::{Peer, PeerOrigin};
pub use programs::Programs;
pub use pty::{Control, ProgramSignal, PtySize};
pub use running::Running;
pub use stdio_child::StdioChild;
pub use temporary::{Temporary, sweep_temporary};
pub use terminal::{Terminal, ignores_hangup};
pub use this_process::{adopt_orphans, is_own_program, shield, unshield};
pub use usage::UsageNow;
pub use watchdog::guard;
