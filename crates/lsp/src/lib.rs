//! Language servers: programs that know a language, one for each project that they are used in.
//!
//! A server is started when a file of its kind is first looked at, shared by all who need it, and ended when nobody has for
//! a while, when it uses too much memory, and with the service. One that fails is started again with a later use, after a
//! pause that grows with each failure; one that crashed while it worked, at once for the first time.
//!
//! No server is ever installed: what is on the machine is used, and [`Unavailable`] says how to get what is not.
//!
//! *Invariant:* who does not ask for an answer never waits for a server. A server harms nobody else: each has its own task, its
//! own limits of time and memory, and ends with everything that it started. It knows files and programs, and neither tools
//! nor permissions; of the model only the shape of metadata, in which it reports what it finds in changed files.
//!
//! The files, in reading order:
//!
//! - `table`, `roots`, `server`: the servers that are known, where a project begins, and how a server is started for one.
//! - `limits`: what servers may take.
//! - `uri`, `position`, `language`, `wire`: the protocol's names for files, places and languages, and its messages.
//! - `diagnostic`, `reports`: one finding, and what a server has reported of every file.
//! - `answers`, `client`, `documents`: what a server is told and answered, requests to it, and the files open at it.
//! - `lifecycle`: a server from its start to its end.
//! - `pool`, `refresh`: the servers of all workspaces, and what they make of a file that changed.
//! - `diagnostics`: findings as text for a model and as JSON for a user interface.
//! - `wait_policy`, `edit_diagnostics`: what an edit reports of the files that it changed, and whether it waits for that.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

mod answers;
mod client;
mod diagnostic;
mod diagnostics;
mod documents;
mod edit_diagnostics;
mod language;
mod lifecycle;
mod limits;
mod pool;
mod position;
mod refresh;
mod reports;
mod roots;
mod server;
mod table;
mod uri;
mod wait_policy;
mod wire;

pub use client::{Client, RequestError};
pub use diagnostic::{Diagnostic, Severity};
pub use diagnostics::Diagnostics;
pub use documents::{Document, MAX_BYTES, MAX_WAIT};
pub use edit_diagnostics::EditDiagnostics;
pub use limits::Limits;
pub use pool::{Fitting, LanguageServers, ServerPool, Settings, Surveyed, Unavailable};
pub use refresh::Refresh;
pub use reports::Published;
pub use server::{Command, Server};
pub use table::known_programs;
