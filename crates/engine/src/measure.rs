//! What telemetry is told of calls.
//!
//! *Invariant:* words and numbers only; nothing here decides, waits or fails.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use toolgate_model::{CallRecord, CallState, EndReason, Ending, INVALID, Outcome, Source};
use toolgate_permission::Refusal;
use toolgate_telemetry::{CallFacts, CallTrace, Metrics, Phases, Span};

use super::live::LiveCall;
use super::{AdmitError, Engine};

impl Engine {
    /// Returns how many calls have started and not ended, and how many are admitted and have not started.
    pub fn load(&self) -> (usize, usize) {
        let calls = self.live_calls();
        let open = calls
            .iter()
            .map(|call| call.record().state)
            .filter(|state| !state.is_terminal());
        let (queued, running): (Vec<_>, Vec<_>) = open.partition(|state| *state == CallState::Pending);
        (running.len(), queued.len())
    }

    /// Begins the trace of a call.
    pub(super) fn trace(&self, record: &CallRecord, source: Source) -> CallTrace {
        let Some(traces) = &self.telemetry.traces else {
            return CallTrace::default();
        };
        traces.call(&CallFacts {
            tool: &record.tool,
            source: source_name(source),
            call: record.id.as_str(),
            session: record.origin.session.as_str(),
            agent: &record.origin.agent,
            admitted: admitted(record),
        })
    }

    /// Counts a call that was admitted.
    pub(super) fn count_start(&self, record: &CallRecord, source: Source) {
        self.telemetry.metrics.call_started(&record.tool, source_name(source));
    }

    /// Counts what a limit refused before there was a call.
    pub(super) fn count_refusal(&self, error: &AdmitError) {
        let limit = match error {
            AdmitError::InputTooLarge { .. } => "limits.max_input_bytes",
            AdmitError::TooManyCalls { key, .. } => key,
            AdmitError::Draining
            | AdmitError::UnknownWorkspace { .. }
            | AdmitError::BrokenWorkspace { .. }
            | AdmitError::UnknownAgent { .. }
            | AdmitError::UnknownParent(_)
            | AdmitError::TaskEnded(_)
            | AdmitError::IdTaken(_)
            | AdmitError::Store(_) => return,
        };
        self.telemetry.metrics.refused(limit);
    }
}

/// Counts a prompt that was too many.
pub(super) fn count_prompt(engine: &Engine, refusal: Option<&Refusal>) {
    if let Some(Refusal::TooManyPrompts { key, .. }) = refusal {
        engine.telemetry.metrics.refused(key);
    }
}

/// Begins the part of a call's trace in which it waits for its turn.
pub(super) fn waits_for_turn(call: &LiveCall, record: &CallRecord) -> Option<Span> {
    let trace = call.trace.get()?;
    Some(trace.part_since("queue", admitted(record)))
}

fn admitted(record: &CallRecord) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(record.created.millis()).unwrap_or_default())
}

/// Counts a call that has ended.
pub(super) fn count_end(metrics: &Metrics, tool: &str, ending: &Ending) {
    let timing = ending.timing;
    let phases = Phases {
        queued: timing.queued,
        waited: timing.waited,
        ran: timing.ran,
    };
    metrics.call_finished(tool, failure(tool, ending).unwrap_or("completed"), phases);
}

/// Returns the word for why a call failed; none if it did not. A call that the service had to answer itself brought
/// nobody a result, though its record says what the model is to read.
pub(super) fn failure(tool: &str, ending: &Ending) -> Option<&'static str> {
    match &ending.outcome {
        Outcome::Completed { .. } if tool == INVALID => Some(EndReason::InvalidArguments.as_str()),
        Outcome::Completed { .. } => None,
        Outcome::Failed { reason, .. } => Some(reason.as_str()),
    }
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Builtin => "builtin",
        Source::Custom => "custom",
        Source::Plugin => "plugin",
        Source::Hosted => "hosted",
        Source::Mcp => "mcp",
    }
}

/// A call that waits for a decision, until this is dropped.
pub(super) struct Waiting {
    metrics: Arc<Metrics>,
    from: Instant,
    _part: Option<Span>,
}

impl Waiting {
    pub(super) fn new(engine: &Engine, call: &LiveCall) -> Self {
        Self {
            metrics: engine.telemetry.metrics.clone(),
            from: Instant::now(),
            _part: call.part("wait"),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.metrics.prompt_waited(self.from.elapsed());
    }
}
