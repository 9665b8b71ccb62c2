//! The embedded store: SQLite in WAL mode and spool files in the data directory.
//!
//! ```text
//! toolgate.db           calls, events, what sessions sum up to, prompts, grants, facts, journal, rows of outputs, changes, the audit
//! blobs/<aa>/<sha256>   contents of files before and after a change, named by their digest
//! workspaces/<workspace>/tool-output/    one file for each output, readable by the owner only
//! instances/<id>.lock   locked while that run of the service lives
//! ```
//!
//! *Invariant:* several processes may share one data directory. What two of them may both want to change is decided in
//! one transaction of the database; who lives is decided by the kernel's file locks, never by time.
//!
//! All writing goes through one thread (`writer`), reading through a few connections on blocking threads
//! (`readers`). A commit does not wait for the disk: it outlives the process, not the machine's power.

#![allow(clippy::disallowed_methods)] // the data directory is the store's own

mod audit;
mod blobs;
mod call_list;
mod calls;
mod changes;
mod checkpoint;
mod claim;
mod error;
pub mod export;
mod facts;
mod folders;
mod follower;
mod instances;
mod journal;
mod open;
mod output_file;
mod output_recovery;
mod output_rows;
mod outputs;
mod packed;
mod prompts;
mod query;
mod queue;
mod quota;
mod readers;
mod schema;
mod sequencer;
mod sessions;
mod space;
mod spool;
mod store;
mod sweep;
mod volume;
mod workspaces;
mod writer;

pub use self::audit::AuditFile;
pub use self::claim::{Claim, ClaimError};
pub use self::folders::{output_folder, workspace_folder};
pub use self::open::StoreOptions;
pub use self::quota::QuotaLimits;
pub use self::store::LocalStore;
pub use self::volume::{OutputFile, Volume};
