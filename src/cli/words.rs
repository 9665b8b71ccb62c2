//! Values of the contract as people read them: enums and times.

use toolgate_contract::{
    CallState, FailureReason, PromptState, ReplyResult, ToolEffect, ToolSource, ToolSourceState, WorkspaceChange,
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
    failure_reason: FailureReason, "FAILURE_REASON_";
    tool_source: ToolSource, "TOOL_SOURCE_";
    tool_source_state: ToolSourceState, "TOOL_SOURCE_STATE_";
    tool_effect: ToolEffect, "TOOL_EFFECT_";
    prompt_state: PromptState, "PROMPT_STATE_";
    reply_result: ReplyResult, "REPLY_RESULT_";
    workspace_change: WorkspaceChange, "WORKSPACE_CHANGE_";
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
