//! Converts what built-in tools know of their results.
//!
//! *Invariant:* loses nothing; an absent number is absent in the contract, too.

use toolgate_contract as proto;
use toolgate_contract::call_completed::Result as Typed;
use toolgate_model::{self as model, CallEnd, ToolResult};

use super::{FromCore, int, int32};

/// Returns the word for a result; unspecified for a failure.
pub(super) fn outcome(end: &CallEnd) -> proto::CallOutcome {
    match end {
        CallEnd::Failed(_) => proto::CallOutcome::Unspecified,
        CallEnd::Completed { verdict, .. } => proto::CallOutcome::from_core(*verdict),
    }
}

/// Returns what an event that announces a state says of the end; nothing while the call runs.
pub(crate) fn ended(end: Option<CallEnd>) -> proto::CallStateChanged {
    let Some(end) = end else {
        return proto::CallStateChanged::default();
    };
    let (reason, exit_code) = match end {
        CallEnd::Failed(reason) => (proto::FailureReason::from_core(reason), None),
        CallEnd::Completed { exit_code, .. } => (proto::FailureReason::Unspecified, exit_code),
    };
    proto::CallStateChanged {
        outcome: outcome(&end).into(),
        reason: reason.into(),
        exit_code,
        ..Default::default()
    }
}

impl FromCore<ToolResult> for Typed {
    fn from_core(result: ToolResult) -> Self {
        match result {
            ToolResult::Command(command) => Self::Command(proto::CommandResult {
                exit_code: command.exit_code,
                signal: command.signal.unwrap_or_default(),
                timed_out: command.timed_out,
                processes_left: int32(command.left),
                background_call_id: command.background.map(|call| call.to_string()).unwrap_or_default(),
            }),
            ToolResult::Files(files) => Self::Files(proto::FilesResult {
                files: files.into_iter().map(file).collect(),
            }),
            ToolResult::Search(search) => Self::Search(proto::SearchResult {
                matches: search.matches.map(int),
                files: int(search.files),
                truncated: search.truncated,
            }),
            ToolResult::Read(read) => Self::Read(proto::ReadResult {
                path: read.path,
                kind: proto::ReadKind::from_core(read.kind).into(),
                first: int(read.first),
                shown: int(read.shown),
                total: int(read.total),
                truncated: read.truncated,
            }),
            ToolResult::Fetch(fetch) => Self::Fetch(proto::FetchResult {
                url: fetch.url,
                status: fetch.status.into(),
                media_type: fetch.media_type,
                size_bytes: int(fetch.bytes),
            }),
            ToolResult::Children(children) => Self::Children(proto::ChildrenResult {
                calls: children.calls.into_iter().map(child).collect(),
                session_id: children.session.map(|session| session.to_string()).unwrap_or_default(),
            }),
        }
    }
}

fn file(file: model::FileResult) -> proto::FileResult {
    proto::FileResult {
        path: file.path,
        action: proto::FileAction::from_core(file.change).into(),
        moved_to: file.moved_to.unwrap_or_default(),
        added_lines: int(file.added_lines),
        removed_lines: int(file.removed_lines),
        diff: file.diff,
    }
}

fn child(child: model::ChildResult) -> proto::ChildResult {
    proto::ChildResult {
        tool: child.tool,
        call_id: child.call.map(|call| call.to_string()).unwrap_or_default(),
        succeeded: child.succeeded,
    }
}
