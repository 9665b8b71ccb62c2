//! What an engine is made of, for those who need more than one part of it.
//!
//! *Invariant:* the parts know nothing of each other, and nothing here connects them.

use std::sync::Arc;

use toolgate_model::redact::Redactor;
use toolgate_store::Store;
use toolgate_telemetry::Telemetry;

use crate::audit::Refusals;
use crate::call_programs::CallPrograms;
use crate::calls::Calls;
use crate::catalogs::Catalogs;
use crate::doom_loop::LoopGuard;
use crate::elsewhere::Elsewhere;
use crate::log::CallLog;
use crate::prompts::asking::Asking;
use crate::prompts::inbox::Inbox;
use crate::scheduler::RunLimits;

/// What one service allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls that run, and that wait for their turn.
    pub running: RunLimits,
    /// Bytes of one call's input.
    pub max_input_bytes: usize,
    /// Bytes of one call's output.
    pub max_output_bytes: u64,
    /// Bytes of one call's files, before and after, that are kept so that it can be reverted.
    pub max_undo_bytes: u64,
}

/// The parts of one engine.
pub(crate) struct Parts {
    /// The calls that run or wait for their turn.
    pub(crate) calls: Calls,
    /// Their logs.
    pub(crate) log: Arc<CallLog>,
    /// What asks people for the calls.
    pub(crate) prompts: Arc<Asking>,
    /// What takes their replies.
    pub(crate) inbox: Arc<Inbox>,
    /// The workspaces with their tools and agents.
    pub(crate) catalogs: Catalogs,
    /// Notices identical calls in a row.
    pub(crate) loop_guard: LoopGuard,
    /// Keeps the record of refusals small.
    pub(crate) refusals: Refusals,
    /// What ended calls left running.
    pub(crate) programs: Arc<dyn CallPrograms>,
    /// Other processes.
    pub(crate) elsewhere: Arc<dyn Elsewhere>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) redactor: Redactor,
    pub(crate) telemetry: Telemetry,
    pub(crate) limits: Limits,
}
