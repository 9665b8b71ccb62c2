//! What an admission comes to.
//!
//! *Invariant:* plain data.

use std::pin::Pin;

use toolgate_model::CallId;

use crate::live::Attached;

/// A call that was started, or found under its id.
pub struct Started {
    /// Its id.
    pub id: CallId,
    /// Keeps the call from being cancelled for a lost client; none if the call does not run in this process.
    pub attached: Option<Attached>,
}

/// Running a call to its end, for the task that admitted it.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A call that was admitted or found, and what is to be done for it: its admitter runs that.
pub(crate) struct Admitted {
    pub(crate) started: Started,
    pub(crate) work: Option<Work>,
}

impl From<Started> for Admitted {
    fn from(started: Started) -> Self {
        Self { started, work: None }
    }
}

/// Who makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    /// A client, in a model's name or its own.
    Client,
    /// Another call: it is not a step of the model's, so it does not count among identical calls in a row.
    Call,
    /// Another call that hands on what the model made.
    Bundle,
}
