//! What is counted and traced of calls.
//!
//! *Invariant:* words and numbers only; nothing here decides, waits or fails.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use toolgate_model::Source;
use toolgate_model::{CallRecord, EndReason, Ending, INVALID, Outcome};
use toolgate_permission::Refusal;
use toolgate_telemetry::{CallFacts, CallTrace, Metrics, Phases, Span, Telemetry};

use crate::admission::refusal::AdmitError;
use crate::live::LiveCall;

/// Begins the trace of a call.
pub(crate) fn trace(telemetry: &Telemetry, record: &CallRecord, source: Source) -> CallTrace {
    let Some(traces) = &telemetry.traces else {
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
pub(crate) fn count_start(metrics: &Metrics, tool: &str, source: Source) {
    metrics.call_started(tool, source_name(source));
}

/// Counts what a limit refused before there was a call.
pub(crate) fn count_refusal(metrics: &Metrics, error: &AdmitError) {
    let limit = match error {
        AdmitError::InputTooLarge { .. } => "limits.max_input_bytes",
        AdmitError::TooManyCalls { key, .. } => key,
        AdmitError::Draining
        | AdmitError::UnknownWorkspace { .. }
        | AdmitError::BadDirectory(_)
        | AdmitError::ClosedWorkspace(_)
        | AdmitError::HeldWorkspace { .. }
        | AdmitError::BrokenWorkspace { .. }
        | AdmitError::UnknownAgent { .. }
        | AdmitError::UnknownParent(_)
        | AdmitError::TaskEnded(_)
        | AdmitError::IdTaken(_)
        | AdmitError::Store(_) => return,
    };
    metrics.refused(limit);
}

/// Counts a prompt that was too many.
pub(crate) fn count_prompt(metrics: &Metrics, refusal: Option<&Refusal>) {
    if let Some(Refusal::TooManyPrompts { key, .. }) = refusal {
        metrics.refused(key);
    }
}

/// Begins the part of a call's trace in which it waits for its turn.
pub(crate) fn waits_for_turn(call: &LiveCall, record: &CallRecord) -> Option<Span> {
    let trace = call.trace.get()?;
    Some(trace.part_since("queue", admitted(record)))
}

fn admitted(record: &CallRecord) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(record.created.millis()).unwrap_or_default())
}

/// Counts a call that has ended.
pub(crate) fn count_end(metrics: &Metrics, tool: &str, ending: &Ending) {
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
pub(crate) fn failure(tool: &str, ending: &Ending) -> Option<&'static str> {
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
pub(crate) struct Waiting {
    metrics: Arc<Metrics>,
    from: Instant,
    _part: Option<Span>,
}

impl Waiting {
    pub(crate) fn new(metrics: &Arc<Metrics>, call: &LiveCall) -> Self {
        Self {
            metrics: metrics.clone(),
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
