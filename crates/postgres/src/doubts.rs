//! What nobody knows the outcome of: changes that the database was asked for and gave no answer about.
//!
//! *Invariant:* a doubt lasts until the same is done. Who says it again may find
//! that it is there and go on; what nobody doubts and is there already is somebody else's.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::Mutex;
use toolgate_model::{CallId, PromptId};
use toolgate_store::StoreError;

use crate::error::is_unanswered;

/// What a writer may have changed without having been told.
#[derive(Default)]
pub(crate) struct Unsure {
    /// Calls whose last append has no answer: also one that its caller does not wait for any more.
    pub(crate) appends: Doubts<CallId>,
    /// Prompts of which it is not known whether they are open.
    pub(crate) prompts: Doubts<PromptId>,
    /// The days and numbers of calls that were taken over, perhaps, and were not returned yet.
    pub(crate) adopted: tokio::sync::Mutex<Vec<(i64, i64)>>,
}

/// Things of one kind, by their ids.
pub(crate) struct Doubts<T>(Mutex<HashSet<T>>);

impl<T> Default for Doubts<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Eq + Hash + Clone> Doubts<T> {
    /// Says that something is asked for, and whether that is doubtful from before. It is now, also if the caller goes away.
    pub(crate) fn begin(&self, id: &T) -> bool {
        !self.0.lock().insert(id.clone())
    }

    /// Says what came of it.
    pub(crate) fn end<R>(&self, id: &T, was_doubtful: bool, outcome: &Result<R, StoreError>) {
        let is_doubtful = match outcome {
            Ok(_) => false,
            Err(error) => was_doubtful || is_unanswered(error),
        };
        if !is_doubtful {
            self.0.lock().remove(id);
        }
    }
}
