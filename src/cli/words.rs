//! Values of the contract as people read them: enums and times.

use std::net::{IpAddr, SocketAddr};

use toolgate_contract::call_completed::Result as Typed;
use toolgate_contract::{
    CallCompleted, CallOutcome, CallState, FailureReason, FileKind, ListeningPort, PromptState, ReplyResult,
    ToolEffect, ToolSource, ToolSourceState, WorkspaceChange, WorkspaceState,
};

macro_rules! words {
    ($($function:ident: $enum:ident, $prefix:literal;)*) => {
        $(
            /// Returns the words for a value of the enum, or `unknown` for one that this program does not know.
            pub(super) fn $function(value: i32) -> String {
                $enum::try_from(value).map_or_else(|_| "unknown".to_owned(), |value| without(value.as_str_name(), $prefix))
            }
        )*
    };
}

words! {
    call_state: CallState, "CALL_STATE_";
    file_kind: FileKind, "FILE_KIND_";
    failure_reason: FailureReason, "FAILURE_REASON_";
    tool_source: ToolSource, "TOOL_SOURCE_";
    tool_source_state: ToolSourceState, "TOOL_SOURCE_STATE_";
    tool_effect: ToolEffect, "TOOL_EFFECT_";
    prompt_state: PromptState, "PROMPT_STATE_";
    reply_result: ReplyResult, "REPLY_RESULT_";
    workspace_change: WorkspaceChange, "WORKSPACE_CHANGE_";
    workspace_state: WorkspaceState, "WORKSPACE_STATE_";
}

/// Says how a call that has a result ended: `completed`, `exit 7`, `timed out`, ...
pub(super) fn outcome(end: &CallCompleted) -> String {
    match (end.outcome(), &end.result) {
        (CallOutcome::Unspecified | CallOutcome::Ok, _) => "completed".to_owned(),
        (CallOutcome::NonZero, Some(Typed::Command(command))) => match command.exit_code {
            Some(code) => format!("exit {code}"),
            None => format!("signal {}", command.signal),
        },
        (CallOutcome::Partial, Some(Typed::Children(children))) => {
            let failed = children.calls.iter().filter(|child| !child.succeeded).count();
            format!("{failed} of {} failed", children.calls.len())
        }
        (CallOutcome::NonZero, _) => "not zero".to_owned(),
        (CallOutcome::TimedOut, _) => "timed out".to_owned(),
        (CallOutcome::Partial, _) => "partly failed".to_owned(),
        (CallOutcome::Invalid, _) => "invalid".to_owned(),
    }
}

/// Says what a command listens on: `listens on 127.0.0.1:3000`.
pub(super) fn listening(ports: &[ListeningPort]) -> String {
    if ports.is_empty() {
        return "listens on no port any more".to_owned();
    }
    let addresses = ports.iter().map(|it| match it.address.parse::<IpAddr>() {
        Ok(address) => u16::try_from(it.port).map_or_else(
            |_| it.port.to_string(),
            |port| SocketAddr::new(address, port).to_string(),
        ),
        Err(_) => it.port.to_string(),
    });
    format!("listens on {}", addresses.collect::<Vec<_>>().join(", "))
}

/// Returns the name of an enum's value without that of the enum.
fn without(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix)
        .unwrap_or(name)
        .to_lowercase()
        .replace('_', " ")
}

/// Returns a time to the second.
pub(super) fn time(time: prost_types::Timestamp) -> String {
    prost_types::Timestamp { nanos: 0, ..time }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_to_the_second() {
        let moment = prost_types::Timestamp {
            seconds: 3600,
            nanos: 5,
        };
        assert_eq!(time(moment), "1970-01-01T01:00:00Z");
    }
}
