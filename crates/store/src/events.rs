//! What the journal has of calls and prompts, told from what is stored of them.
//!
//! *Invariant:* whatever store it is, an event is told with the change that it tells of, and only then.

use toolgate_model::{CallEvent, CallRecord, EventKind, Prompt, ServiceEvent, ServiceEventKind, SessionKey};

/// Returns what new events of a call, stored with its record, have to tell.
///
/// However many of them are changes of its state, the state is told once. Metadata is told when it comes after the end: until
/// then, who follows it watches the call.
pub fn of_call(record: &CallRecord, events: &[CallEvent]) -> Vec<ServiceEvent> {
    let state = events.iter().rposition(|event| enters_a_state(&event.kind));
    let ends = events.iter().any(|event| matches!(event.kind, EventKind::Ended(_)));
    let is_late = record.state.is_terminal() && !ends;
    let kinds = events
        .iter()
        .enumerate()
        .filter_map(|(index, event)| match &event.kind {
            _ if state == Some(index) => Some(state_of(record)),
            EventKind::Listening { ports } => Some(ServiceEventKind::Listening {
                call: record.id.clone(),
                ports: ports.clone(),
            }),
            EventKind::Metadata { patch, .. } if is_late => Some(ServiceEventKind::Metadata {
                call: record.id.clone(),
                tool: record.tool.clone(),
                sequence: event.sequence,
                patch: patch.clone(),
            }),
            EventKind::Metadata { .. }
            | EventKind::Output { .. }
            | EventKind::Child { .. }
            | EventKind::Warning { .. }
            | EventKind::Pending { .. }
            | EventKind::Running { .. }
            | EventKind::Waiting { .. }
            | EventKind::Resumed { .. }
            | EventKind::Ended(_) => None,
        });
    kinds
        .map(|kind| ServiceEvent::in_session(record.origin.session_key(), kind))
        .collect()
}

fn enters_a_state(kind: &EventKind) -> bool {
    match kind {
        EventKind::Pending { .. }
        | EventKind::Running { .. }
        | EventKind::Waiting { .. }
        | EventKind::Resumed { .. }
        | EventKind::Ended(_) => true,
        EventKind::Metadata { .. }
        | EventKind::Output { .. }
        | EventKind::Child { .. }
        | EventKind::Listening { .. }
        | EventKind::Warning { .. } => false,
    }
}

fn state_of(record: &CallRecord) -> ServiceEventKind {
    ServiceEventKind::Call {
        call: record.id.clone(),
        tool: record.tool.clone(),
        state: record.state,
        title: record.title.clone(),
        summary: record.summary.clone(),
        end: record.end(),
    }
}

/// Returns the event that a prompt was opened.
pub fn prompt_opened(prompt: &Prompt) -> ServiceEvent {
    let kind = ServiceEventKind::PromptAdded {
        prompt: prompt.id.clone(),
        call: prompt.call.clone(),
    };
    ServiceEvent::in_session(SessionKey::new(&prompt.workspace, &prompt.session), kind)
}

/// Returns the event that a prompt ended as it is now.
pub fn prompt_ended(prompt: &Prompt) -> ServiceEvent {
    let kind = ServiceEventKind::PromptResolved {
        prompt: prompt.id.clone(),
        call: prompt.call.clone(),
        state: prompt.state,
    };
    ServiceEvent::in_session(SessionKey::new(&prompt.workspace, &prompt.session), kind)
}
