//! The programs of calls, as far as the engine has to do with them: what they listen on is shown with their call, and so is what
//! an ended call left running, which ends with its call's cancellation and with its session.
//!
//! *Invariant:* knows neither programs nor tools; whoever starts programs answers.

use std::time::Duration;

use async_trait::async_trait;
use toolgate_model::{BackgroundProcess, CallId, ListeningPort};

/// What programs use at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramUsage {
    /// Their processes.
    pub processes: usize,
    /// Bytes of memory of these. Of what several processes share, each counts its part.
    pub memory_bytes: u64,
    /// Time of processors that these, and those of theirs that have ended, spent in programs.
    pub user: Duration,
    /// Time of processors spent in the kernel for them.
    pub system: Duration,
}

/// Who knows the programs of calls, and can end what an ended call left running; by default there are none.
#[async_trait]
pub trait CallPrograms: Send + Sync + 'static {
    /// Returns what a call left running, bounded.
    async fn left_by(&self, _call: &CallId) -> Vec<BackgroundProcess> {
        Vec::new()
    }

    /// Returns what the programs of a call listen on at this moment, bounded.
    async fn listening(&self, _call: &CallId) -> Vec<ListeningPort> {
        Vec::new()
    }

    /// Returns what the programs of these calls use, those included that they left running.
    async fn usage(&self, _calls: Vec<CallId>) -> ProgramUsage {
        ProgramUsage::default()
    }

    /// Returns the calls that left something running.
    fn calls_with_left(&self) -> Vec<CallId> {
        Vec::new()
    }

    /// Ends what a call left running, and returns when it is gone.
    async fn end(&self, _call: &CallId) {}
}

/// Nobody starts programs.
pub(crate) struct NoPrograms;

impl CallPrograms for NoPrograms {}
