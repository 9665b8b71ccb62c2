//! Values of the contract as people read them: enums and times.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use chrono::{DateTime, Datelike as _, Local};
use prost_types::Timestamp;
use toolgate_contract::call_completed::Result as Typed;
use toolgate_contract::{
    CallCompleted, CallOutcome, CallState, FailureReason, FileKind, ListeningPort, PromptState, ReplyResult,
    ToolEffect, ToolSource, ToolSourceState, WorkspaceChange, WorkspaceInfo, WorkspaceState,
};

use super::terminal::{Terminal, on_one_line};

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

/// Returns, on one line, the first of what a person should know of a workspace, and how to see the rest; none if all is well.
pub(super) fn workspace_notice(workspace: &WorkspaceInfo) -> Option<String> {
    let problem = Some(&workspace.problem).filter(|problem| !problem.is_empty());
    let mut told = problem.into_iter().chain(&workspace.warnings);
    let first = on_one_line(told.next()?);
    Some(match told.count() {
        0 => first,
        more => format!("{first} (and {more} more: toolgate workspaces show {})", workspace.name),
    })
}

/// What a service says of files whose rules from before count. The contract has no field for it.
const OLD_RULES: &str = "stay in force";

/// Returns, on one line, why the rules of a workspace are not those that its files have; none if they are.
pub(super) fn broken_rules(workspace: &WorkspaceInfo) -> Option<String> {
    let problem = Some(&workspace.problem).filter(|problem| !problem.is_empty());
    let mut told = problem
        .into_iter()
        .chain(workspace.warnings.iter().filter(|text| text.contains(OLD_RULES)));
    Some(on_one_line(&format!("{}: {}", workspace.name, told.next()?)))
}

/// Returns the name of an enum's value without that of the enum.
fn without(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix)
        .unwrap_or(name)
        .to_lowercase()
        .replace('_', " ")
}

/// Whether times are shown in UTC. It is the process's, as its time zone is.
static IN_UTC: OnceLock<bool> = OnceLock::new();

/// Says once how times are shown: in UTC, or in the time zone of this machine.
pub(super) fn show_times_in_utc(is_wanted: bool) {
    let _ = IN_UTC.set(is_wanted);
}

fn is_utc() -> bool {
    *IN_UTC.get().unwrap_or(&true)
}

/// Returns a time to the second: as the clock on the wall shows it, or as RFC 3339 in UTC.
pub(super) fn time(time: Timestamp) -> String {
    let in_utc = || Timestamp { nanos: 0, ..time }.to_string();
    if is_utc() {
        return in_utc();
    }
    match DateTime::from_timestamp(time.seconds, 0) {
        Some(moment) => moment.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string(),
        None => in_utc(),
    }
}

/// Returns a time as short as it can be told from others that are near: for lists at a terminal.
fn short_time(time: Timestamp) -> String {
    let moment = DateTime::from_timestamp(time.seconds, 0).map(|moment| moment.with_timezone(&Local));
    let Some(moment) = moment.filter(|_| !is_utc()) else {
        return self::time(time);
    };
    let now = Local::now();
    let format = match (moment.date_naive() == now.date_naive(), moment.year() == now.year()) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%m-%d %H:%M",
        (false, false) => "%Y-%m-%d",
    };
    moment.format(format).to_string()
}

/// Returns how a list tells times: briefly where a person looks at it.
pub(super) fn time_in_list(terminal: &Terminal) -> fn(Timestamp) -> String {
    if terminal.width.is_some() { short_time } else { time }
}

/// Returns how long something took, in its largest units: `0.3 s`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Returns the time between two moments; none if the second is the earlier one.
pub(super) fn between(start: Timestamp, end: Timestamp) -> Option<Duration> {
    let nanos = |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let passed = u64::try_from(nanos(end) - nanos(start)).ok()?;
    Some(Duration::from_nanos(passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_workspace_is_told_on_one_line() {
        let check = |problem: &str, warnings: &[&str], expected: Option<&str>| {
            let workspace = WorkspaceInfo {
                name: "web".to_owned(),
                problem: problem.to_owned(),
                warnings: warnings.iter().map(|text| (*text).to_owned()).collect(),
                ..WorkspaceInfo::default()
            };
            assert_eq!(workspace_notice(&workspace).as_deref(), expected);
        };
        check("", &[], None);
        check("", &["a\nb"], Some("a⏎b"));
        let more = "gone (and 1 more: toolgate workspaces show web)";
        check("gone", &["a"], Some(more));
    }

    #[test]
    fn times_are_told_to_the_second() {
        let moment = Timestamp {
            seconds: 3600,
            nanos: 5,
        };
        assert_eq!(time(moment), "1970-01-01T01:00:00Z");
    }

    #[test]
    fn durations_are_told_in_their_largest_units() {
        fn check(millis: u64, expected: &str) {
            assert_eq!(duration(Duration::from_millis(millis)), expected);
        }
        check(40, "0.0 s");
        check(1_260, "1.3 s");
        check(59_900, "59 s");
        check(200_000, "3 min 20 s");
        check(7_500_000, "2 h 5 min");
        let at = |seconds| Timestamp { seconds, nanos: 0 };
        assert_eq!(between(at(1), at(3)), Some(Duration::from_secs(2)));
        assert_eq!(between(at(3), at(1)), None);
    }
}
