//! The life of a call: admitted, run, ended; and the cursors that watch it.
//!
//! *Invariant:* uses `model`, `tool`, `permission`, `store`, `telemetry` and `fs`; never a concrete tool, nothing of the
//! wire. A call exists once its record is durable; from then on it has exactly one end, whatever happens to its tool, its
//! clients or the service.
//!
//! The files in reading order:
//!
//! - `engine`: the public verbs. `parts`: the parts that an engine owns.
//! - `admission`: from a request to a recorded call (`arguments`, `reserve`, `started`), or why not (`refusal`). `input`: from
//!   what a model wrote to the frozen input.
//! - `calls`: the calls that run here or wait. `live`: one of them, with its `clock`, `stdin`, `handover` and `program`, whose
//!   terminal shows a `screen`; `not_running`: why it is not there.
//! - `scheduler`: which calls run and which wait for their turn (`fair` is its pure part).
//! - `run`: one run of one call, to its end (`result`, `truncate`), and again with an edited input (`edited`); `run::context` is
//!   what a running tool can ask of the engine.
//! - `evaluate`: what a call would ask, without making it. `glance`: what clients look at without a call.
//! - `log`: writing a call's log (`writer`, `appends`, `batch`, `event`), keeping its recent part (`ring`), reading it (`cursor`), and
//!   what is added after the end (`late_metadata`).
//! - `prompts`: what calls ask people and what people reply. `exchange`: what goes to and fro; `broker`: the two halves.
//!   `asking`: judges, opens prompts and waits (`standing`, `attendance`, `presence`). `inbox`: takes replies, by what the store
//!   has (`asker`, `approvals`, `second_approver`), and works out what else they decide (`cascade`). `board`: what this process
//!   knows of open prompts and of `grants`, and whom it tells; `looking`: how it learns what other processes did.
//! - `catalogs`: the workspaces; `catalog`: how their changes are told; `in_force`: the configuration of one; `held`: those in
//!   which nothing can be done yet.
//! - `subagent`: calls that calls make (`child`), what they may do (`rights`), and the sessions of subagents.
//! - `restart`: what one run of the service leaves to the next; `stranded`: why that one cannot take a call up;
//!   `suspend`: what a suspended workspace keeps until it is resumed.
//! - `doom_loop`, `call_programs`, `audit`, `metrics`, `outcome`, `outputs`, `lookup`, `lossy` (bytes that are not UTF-8),
//!   `drain_notice`, `elsewhere` (other processes): one small theme each.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

mod admission;
mod audit;
mod call_programs;
mod calls;
mod catalog;
mod catalogs;
mod clock;
mod doom_loop;
mod drain_notice;
mod elsewhere;
mod engine;
mod evaluate;
mod glance;
mod handover;
mod held;
mod in_force;
mod input;
mod live;
mod log;
mod lookup;
mod lossy;
mod metrics;
mod not_running;
mod outcome;
pub mod outputs;
mod parts;
mod program;
pub mod prompts;
mod restart;
mod run;
mod scheduler;
mod screen;
mod stdin;
mod stranded;
mod subagent;
mod suspend;

pub use admission::refusal::AdmitError;
pub use admission::started::Started;
pub use audit::Refusals;
pub use call_programs::{CallPrograms, ProgramUsage};
pub use calls::Calls;
pub use catalog::record_tool_changes;
pub use catalogs::{Catalogs, Gate, OpenedBy, WorkspaceRuntime};
pub use drain_notice::DrainNotice;
pub use elsewhere::Elsewhere;
pub use engine::{Engine, EngineDeps};
pub use evaluate::{Evaluated, Evaluation};
pub use glance::{Glance, Unseen};
pub use held::{Held, Waker};
pub use in_force::{Current, InForce};
pub use input::digest_of;
pub use live::Attached;
pub use log::cursor::{Cursor, Item, OutputMode, WatchError};
pub use not_running::NotRunning;
pub use parts::Limits;
pub use program::ProgramError;
pub use restart::Recovered;
pub use run::truncate;
pub use scheduler::RunLimits;
pub use screen::Picture;
pub use stdin::{InputError, InputState, MAX_WAITING_INPUT};
pub use suspend::Rested;
