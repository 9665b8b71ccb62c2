//! Every gRPC error that the service gives, with its `google.rpc` details.
//!
//! *Invariant:* statuses are made here only. Each carries an `ErrorInfo` of domain `toolgate` whose reason is stable;
//! what the operator must know goes to the log, not to the caller.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use toolgate_contract::{self as proto, ErrorReason};
use toolgate_engine::{AdmitError, Held, InputError, NotRunning, ProgramError, WatchError};
use toolgate_extensions::hosted::HostError;
use toolgate_fs::FileError;
use toolgate_fs::roots::BelowError;
use toolgate_store::StoreError;
use toolgate_tools::ports::{ConnectError, MAX_CONNECTIONS};

use super::workspaces::{CloseError, CreatedError, OpenError};

const DOMAIN: &str = "toolgate";

/// After how long to look again for room that a call, a stream or a prompt may leave at any moment.
pub const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The text for whoever answers a prompt of a call in its own name.
pub(crate) const SELF_APPROVAL: &str =
    "this call is made in your own name, so somebody else has to answer (permission.self_approval)";

/// Returns the word of a reason, as `ErrorInfo` has it.
fn word(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix("ERROR_REASON_").unwrap_or(name)
}

fn details(reason: ErrorReason) -> ErrorDetails {
    details_with(reason, [])
}

fn details_with<const N: usize>(reason: ErrorReason, metadata: [(&str, String); N]) -> ErrorDetails {
    let metadata = metadata.map(|(name, value)| (name.to_owned(), value));
    ErrorDetails::with_error_info(word(reason), DOMAIN, HashMap::from(metadata))
}

/// A field of the request is wrong. `field` is its name in the proto.
pub fn bad_field(field: &str, problem: impl Into<String>) -> Status {
    let problem = problem.into();
    let mut details = details(ErrorReason::InvalidField);
    details.add_bad_request_violation(field, problem.clone());
    Status::with_error_details(Code::InvalidArgument, format!("{field}: {problem}"), details)
}

/// Something that the request names does not exist.
pub fn not_found(kind: &str, name: &str) -> Status {
    let mut details = details(ErrorReason::NotFound);
    let why = match kind {
        "workspace" | "agent" | "host" | "MCP server" | "MCP resource" | "MCP prompt" => "it does not exist",
        _ => "it does not exist, or its retention has ended",
    };
    details.set_resource_info(kind, name, "", why);
    Status::with_error_details(Code::NotFound, format!("there is no {kind} {name}"), details)
}

/// Something that the request names is missing, or is somebody else's; `kind` says what it is.
fn resource((code, reason): (Code, ErrorReason), kind: &str, name: &str, problem: String) -> Status {
    let mut details = details(reason);
    details.set_resource_info(kind, name, "", problem.clone());
    Status::with_error_details(code, problem, details)
}

/// The state of something does not allow the request.
pub fn precondition(reason: ErrorReason, subject: &str, problem: impl Into<String>) -> Status {
    let problem = problem.into();
    let mut details = details(reason);
    details.add_precondition_failure_violation(word(reason), subject, problem.clone());
    Status::with_error_details(Code::FailedPrecondition, problem, details)
}

/// Details of a refusal for a limit; `key` is its name in the configuration.
fn quota(reason: ErrorReason, key: &str, limit: u64, problem: &str) -> ErrorDetails {
    let mut details = details_with(reason, [("limit", key.to_owned()), ("value", limit.to_string())]);
    details.add_quota_failure_violation(key, problem);
    details
}

/// A limit is reached that has room again after some time.
pub fn exhausted(reason: ErrorReason, key: &str, limit: u64, retry: Duration, problem: impl Into<String>) -> Status {
    let problem = problem.into();
    let mut details = quota(reason, key, limit, &problem);
    details.set_retry_info(Some(retry));
    Status::with_error_details(Code::ResourceExhausted, problem, details)
}

/// The service is stopping.
pub fn draining() -> Status {
    let text = "the service is stopping; try again when it is back";
    let mut details = details(ErrorReason::Draining);
    details.set_retry_info(Some(Duration::from_secs(1)));
    Status::with_error_details(Code::Unavailable, text, details)
}

/// A gateway does not reach a worker that it needs; `what` says which, or what for.
pub fn worker_gone(what: &str) -> Status {
    let text = format!("{what}; what runs there may go on: try again");
    let mut details = details(ErrorReason::WorkerGone);
    details.set_retry_info(Some(RETRY_DELAY));
    Status::with_error_details(Code::Unavailable, text, details)
}

/// The client read too slowly and missed changes.
pub fn missed_changes() -> Status {
    let text = "this client read too slowly and missed changes; open again";
    let mut details = details(ErrorReason::MissedChanges);
    details.set_retry_info(Some(Duration::ZERO));
    Status::with_error_details(Code::Aborted, text, details)
}

/// Another stream has taken the place of this one.
pub(crate) fn replaced() -> Status {
    Status::with_error_details(
        Code::Aborted,
        HostError::Gone.to_string(),
        details(ErrorReason::Replaced),
    )
}

/// A host gets no seat, or has lost its own.
pub(crate) fn host(error: &HostError) -> Status {
    match error {
        HostError::TooMany { .. } => {
            let mut details = details(ErrorReason::TooManyHosts);
            details.set_retry_info(Some(Duration::from_secs(10)));
            details.add_quota_failure_violation("hosts", error.to_string());
            Status::with_error_details(Code::ResourceExhausted, error.to_string(), details)
        }
        HostError::Gone => replaced(),
        HostError::Fault(_) => internal("a host could not be taken in", error),
    }
}

/// The client's deadline is over; a call is treated as after a lost client.
pub(crate) fn deadline() -> Status {
    let text = "the deadline of the request is over";
    Status::with_error_details(Code::DeadlineExceeded, text, details(ErrorReason::Deadline))
}

/// The first message of a request did not come in time.
pub(crate) fn message_too_late(limit: Duration) -> Status {
    let text = format!(
        "the first message of the request did not come within {} s (listen.request_timeout)",
        limit.as_secs_f64()
    );
    Status::with_error_details(Code::DeadlineExceeded, text, details(ErrorReason::Deadline))
}

/// The client's deadline is over while a person is asked: what waited is told, since nothing was told before.
pub(crate) fn waited(call: &str, prompt: &str, what: &str) -> Status {
    let text = format!(
        "the deadline of the request is over, and the call {call} still waits for a person to answer: {what}, prompt \
         {prompt}; answer with `toolgate approve`, or with ReplyPrompt"
    );
    let metadata = [("call_id", call.to_owned()), ("prompt_id", prompt.to_owned())];
    let details = details_with(ErrorReason::WaitsForPerson, metadata);
    Status::with_error_details(Code::DeadlineExceeded, text, details)
}

/// Who calls is not known.
pub(crate) fn unauthenticated(reason: ErrorReason, problem: impl Into<String>) -> Status {
    Status::with_error_details(Code::Unauthenticated, problem, details(reason))
}

/// The caller's credentials were good once.
pub(crate) fn expired() -> Status {
    unauthenticated(ErrorReason::CredentialsExpired, "the token has expired: get a new one")
}

/// A request came to a service past the gate.
pub(crate) fn no_caller() -> Status {
    tracing::error!("a request came to a service past the gate");
    unauthenticated(ErrorReason::NoCredentials, "the caller is unknown")
}

/// The caller has none of the scopes of which an RPC needs one.
pub(crate) fn scope_missing(scopes: &str, problem: impl Into<String>) -> Status {
    let details = details_with(ErrorReason::ScopeMissing, [("scope", scopes.to_owned())]);
    Status::with_error_details(Code::PermissionDenied, problem, details)
}

/// A request was sent to a name that is not this machine's.
pub(crate) fn foreign_host() -> Status {
    let text = "this service answers only as localhost: use http://127.0.0.1 or http://localhost";
    Status::with_error_details(Code::PermissionDenied, text, details(ErrorReason::ForeignHost))
}

/// The process of a call asks for what no such process may do, or its call's maker may not.
pub(crate) fn of_a_call(names: &str) -> Status {
    let text = format!(
        "this needs the scope {}, which a process that was started for a call has not: do it from a terminal of your own",
        names.replace(' ', " or ")
    );
    scope_missing(names, text)
}

/// What is about all workspaces is not for a caller who may see only some.
pub fn limited(problem: &str) -> Status {
    let problem = format!("{problem}, and the caller is limited to some");
    Status::with_error_details(Code::PermissionDenied, problem, details(ErrorReason::WorkspacesLimited))
}

/// Calls of several workspaces have the id.
pub fn ambiguous_call(id: &str) -> Status {
    let problem = format!("calls of several workspaces have the id {id}; write {id}~ and the name of the workspace");
    precondition(ErrorReason::AmbiguousCallId, id, problem)
}

/// Something is not permitted for a reason that is about it, not about the caller's scopes.
pub fn refused(reason: ErrorReason, problem: impl Into<String>) -> Status {
    Status::with_error_details(Code::PermissionDenied, problem, details(reason))
}

/// The store did not say what it has to; the cause is in the log.
pub(crate) fn unavailable(problem: &str) -> Status {
    Status::with_error_details(Code::Internal, problem, details(ErrorReason::Internal))
}

/// What was looked at has changed meanwhile: look again.
pub(crate) fn changed(reason: ErrorReason, problem: impl Into<String>) -> Status {
    Status::with_error_details(Code::Aborted, problem, details(reason))
}

/// A file could not be read or listed; `path` is what the request says.
pub(crate) fn file(error: &FileError, path: &str) -> Status {
    let text = error.to_string();
    match error {
        FileError::PathTooLong { .. } => bad_field("path", text),
        FileError::NotFound { .. } => not_found("file", path),
        FileError::IsFolder { .. } => precondition(ErrorReason::IsFolder, path, text),
        FileError::ParentIsFile { .. } => precondition(ErrorReason::NotAFolder, path, text),
        FileError::Special { .. } => precondition(ErrorReason::NotAFile, path, text),
        FileError::Swapped { .. } => changed(ErrorReason::PathChanged, text),
        FileError::Modified { .. } => changed(ErrorReason::FileChanged, text),
        FileError::TooLarge { .. } => precondition(ErrorReason::FileTooLarge, path, text),
        FileError::Stopped => Status::with_error_details(Code::Cancelled, text, details(ErrorReason::Cancelled)),
        FileError::Io { source, .. } if source.kind() == ErrorKind::InvalidFilename => bad_field("path", text),
        FileError::Io { source, .. } if source.kind() == ErrorKind::NotFound => not_found("file", path),
        FileError::Io { source, .. } if source.kind() == ErrorKind::NotADirectory => {
            precondition(ErrorReason::NotAFolder, path, text)
        }
        FileError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            refused(ErrorReason::RefusedBySystem, text)
        }
        FileError::Io { source, .. } if source.kind() == ErrorKind::StorageFull => storage_full(text.clone(), text),
        FileError::Io { .. }
        | FileError::TooManyEntries { .. }
        | FileError::TooManyFolders { .. }
        | FileError::OffsetOutOfRange { .. }
        | FileError::Unread { .. }
        | FileError::Binary { .. }
        | FileError::HalfDone { .. }
        | FileError::Interrupted(_) => internal("a file could not be read", error),
    }
}

/// There is no room to store what the request needs.
fn storage_full(text: String, problem: String) -> Status {
    let mut details = details(ErrorReason::StorageFull);
    details.add_quota_failure_violation("storage", problem);
    Status::with_error_details(Code::ResourceExhausted, text, details)
}

/// What happened since a cursor, or a sequence, is not known; `instead` says what to do.
pub fn cursor_too_old(instead: &str) -> Status {
    let text = format!("what happened since then is not known any more: {instead}");
    Status::with_error_details(Code::OutOfRange, text, details(ErrorReason::CursorTooOld))
}

/// The call by which an RPC does its work failed.
pub(crate) fn failed_call(call: &str, failed: &proto::CallFailed) -> Status {
    use proto::FailureReason as Reason;
    let problem = failed
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.fields.get("problem"));
    let problem = problem.and_then(|problem| {
        let Some(prost_types::value::Kind::StringValue(word)) = &problem.kind else {
            return None;
        };
        ErrorReason::from_str_name(&format!("ERROR_REASON_{word}"))
    });
    let (code, reason) = match (problem, failed.reason()) {
        (Some(ErrorReason::NotFound), _) => (Code::NotFound, ErrorReason::NotFound),
        (Some(reason @ ErrorReason::AlreadyThere), _) => (Code::AlreadyExists, reason),
        (Some(reason @ ErrorReason::OutsideWorkspace), _) => (Code::PermissionDenied, reason),
        (Some(reason @ ErrorReason::PathChanged), _) => (Code::Aborted, reason),
        (Some(reason), _) => (Code::FailedPrecondition, reason),
        (None, Reason::Denied) => (Code::PermissionDenied, ErrorReason::DeniedByRule),
        (None, Reason::Rejected | Reason::DoomLoop) => (Code::PermissionDenied, ErrorReason::Rejected),
        (None, Reason::PromptExpired) => (Code::PermissionDenied, ErrorReason::PermissionNeeded),
        (None, Reason::InvalidArguments) => (Code::InvalidArgument, ErrorReason::InvalidField),
        (None, Reason::Cancelled) => (Code::Cancelled, ErrorReason::Cancelled),
        (None, Reason::TimedOut) => (Code::DeadlineExceeded, ErrorReason::Deadline),
        (None, Reason::Quota) => (Code::ResourceExhausted, ErrorReason::Quota),
        (None, Reason::Drained) => (Code::Unavailable, ErrorReason::Draining),
        (None, Reason::Lost) => (Code::Aborted, ErrorReason::CallLost),
        (None, Reason::Internal | Reason::Unspecified) => (Code::Internal, ErrorReason::Internal),
        (None, Reason::ToolError) => (Code::FailedPrecondition, ErrorReason::NotDone),
    };
    failed_with(code, reason, call, failed.error.clone())
}

/// What an RPC is for was not done by its call.
pub(crate) fn failed_with(code: Code, reason: ErrorReason, call: &str, problem: impl Into<String>) -> Status {
    let details = details_with(reason, [("call_id", call.to_owned())]);
    Status::with_error_details(code, problem, details)
}

/// Arguments are missing that a prompt of an MCP server requires.
#[cfg(feature = "mcp")]
pub(crate) fn mcp_argument_missing(names: &[String]) -> Status {
    let first = names.first().cloned().unwrap_or_default();
    let mut details = details_with(ErrorReason::McpArgumentMissing, [("argument", first)]);
    for name in names {
        details.add_bad_request_violation(format!("arguments.{name}"), "the prompt requires it");
    }
    let problem = format!(
        "the prompt requires what is missing of its arguments: {}",
        names.join(", ")
    );
    Status::with_error_details(Code::InvalidArgument, problem, details)
}

/// No connection was made to an opened port.
pub(crate) fn connect(error: ConnectError, call: &str) -> Status {
    let text = error.to_string();
    match error {
        ConnectError::Closed => precondition(ErrorReason::PortClosed, call, text),
        ConnectError::NotListening => precondition(ErrorReason::NotListening, call, text),
        ConnectError::TooMany => exhausted(
            ErrorReason::TooManyConnections,
            "connections",
            MAX_CONNECTIONS.into(),
            RETRY_DELAY,
            text,
        ),
    }
}

/// The program has broken a connection.
pub(crate) fn connection_lost(cause: &std::io::Error) -> Status {
    let text = format!("the program has broken the connection: {cause}");
    Status::with_error_details(Code::Aborted, text, details(ErrorReason::ConnectionLost))
}

/// The id of a call belongs to another request.
pub(crate) fn id_taken(id: &str, problem: String) -> Status {
    resource((Code::AlreadyExists, ErrorReason::CallIdTaken), "call", id, problem)
}

/// A sequence number that does not exist yet.
pub(crate) fn out_of_range(field: &str, problem: impl Into<String>) -> Status {
    let problem = problem.into();
    let mut details = details(ErrorReason::SequenceOutOfRange);
    details.add_bad_request_violation(field, problem.clone());
    Status::with_error_details(Code::OutOfRange, format!("{field}: {problem}"), details)
}

/// A fault of the service. The cause goes to the log.
pub fn internal(what: &str, cause: &(dyn std::error::Error + 'static)) -> Status {
    tracing::error!(error = cause, "{what}");
    Status::with_error_details(
        Code::Internal,
        format!("internal error: {what}"),
        details(ErrorReason::Internal),
    )
}

/// The store could not do what a request needs.
pub fn store(error: StoreError) -> Status {
    match error {
        StoreError::BadPage(problem) => bad_field("page_token", problem),
        StoreError::NotFound(name) => not_found("resource", &name),
        StoreError::Conflict(problem) => precondition(ErrorReason::Conflict, "resource", problem),
        StoreError::Full(problem) => storage_full(format!("no space left: {problem}"), problem),
        StoreError::Unavailable(_) | StoreError::Fenced(_) => {
            let mut details = details(ErrorReason::StoreUnavailable);
            details.set_retry_info(Some(RETRY_DELAY));
            Status::with_error_details(Code::Unavailable, error.to_string(), details)
        }
        StoreError::Failed { .. } => internal("the store failed", &error),
    }
}

/// A call was not admitted.
pub(crate) fn admit(error: AdmitError) -> Status {
    let message = error.to_string();
    match error {
        AdmitError::Draining => draining(),
        AdmitError::UnknownWorkspace { name, .. } | AdmitError::ClosedWorkspace(name) => {
            resource((Code::NotFound, ErrorReason::NotFound), "workspace", &name, message)
        }
        AdmitError::HeldWorkspace { name, held } => held_workspace(&name, &held, message),
        AdmitError::BrokenWorkspace { name, .. } => precondition(ErrorReason::WorkspaceBroken, &name, message),
        AdmitError::BadDirectory(_) => bad_field("context.directory", message),
        AdmitError::UnknownAgent { .. } => bad_field("context.agent", message),
        AdmitError::UnknownParent(id) => not_found("call", id.as_str()),
        AdmitError::TaskEnded(id) => precondition(ErrorReason::TaskEnded, id.as_str(), message),
        AdmitError::IdTaken(id) => id_taken(id.as_str(), message),
        AdmitError::InputTooLarge { limit, .. } => {
            let mut details = quota(
                ErrorReason::InputTooLarge,
                "limits.max_input_bytes",
                limit as u64,
                &message,
            );
            details.add_bad_request_violation("input_json", message.clone());
            Status::with_error_details(Code::ResourceExhausted, message, details)
        }
        AdmitError::TooManyCalls { key, limit, .. } => {
            exhausted(ErrorReason::TooManyCalls, key, limit as u64, RETRY_DELAY, message)
        }
        AdmitError::Store(error) => store(error),
    }
}

/// A call does not run here.
fn not_running(error: NotRunning) -> Status {
    let message = error.to_string();
    match error {
        NotRunning::NotFound(id) => not_found("call", id.as_str()),
        NotRunning::Ended(call) => precondition(ErrorReason::CallEnded, call.as_str(), message),
        NotRunning::Elsewhere { call, .. } => precondition(ErrorReason::OtherInstance, call.as_str(), message),
        NotRunning::Store(error) => store(error),
    }
}

/// The program of a call was not reached.
pub(crate) fn program(error: ProgramError) -> Status {
    let message = error.to_string();
    match error {
        ProgramError::NotRunning(error) => not_running(error),
        ProgramError::NoTerminal { call, .. } => precondition(ErrorReason::NoTerminal, call.as_str(), message),
        ProgramError::NoProgram(call) => precondition(ErrorReason::NoProgram, call.as_str(), message),
        ProgramError::Failed(error) => internal("the program of a call could not be reached", &error),
    }
}

/// A workspace was not opened.
pub(crate) fn open_workspace(error: OpenError) -> Status {
    let message = error.to_string();
    match error {
        OpenError::Fixed => precondition(ErrorReason::WorkspacesFixed, "workspace_roots", message),
        OpenError::BadName(problem) => bad_field("workspace", problem),
        OpenError::Folder(BelowError::Outside) => refused(ErrorReason::OutsideRoots, format!("directory: {message}")),
        OpenError::Folder(problem) => bad_field("directory", problem.to_string()),
        OpenError::Missing(folder) => resource(
            (Code::NotFound, ErrorReason::FolderMissing),
            "folder",
            &folder.to_string_lossy(),
            message,
        ),
        OpenError::Reserved(_) => refused(ErrorReason::FolderReserved, message),
        OpenError::Overlaps(folder) => precondition(ErrorReason::WorkspacesOverlap, &folder.to_string_lossy(), message),
        OpenError::NameTaken { name, .. } => resource(
            (Code::AlreadyExists, ErrorReason::WorkspaceNameTaken),
            "workspace",
            &name,
            message,
        ),
        OpenError::TooMany(limit) => exhausted(
            ErrorReason::TooManyWorkspaces,
            "limits.max_workspaces",
            limit as u64,
            RETRY_DELAY,
            message,
        ),
        OpenError::Draining => draining(),
        OpenError::Store(error) => store(error),
        OpenError::Internal(error) => internal("a workspace could not be opened", &*error),
    }
}

/// Nothing can be done in a workspace at the moment, or that cannot.
fn held_workspace(name: &str, held: &Held, message: String) -> Status {
    match held {
        Held::Suspended { by_calls: false } => precondition(ErrorReason::WorkspaceSuspended, name, message),
        Held::Failed(_) => precondition(ErrorReason::WorkspaceBroken, name, message),
        Held::Creating | Held::Suspended { by_calls: true } | Held::Deleting => not_ready(message),
    }
}

fn not_ready(message: String) -> Status {
    let mut details = details(ErrorReason::WorkspaceNotReady);
    details.set_retry_info(Some(RETRY_DELAY));
    Status::with_error_details(Code::Unavailable, message, details)
}

/// A workspace was not created, suspended, resumed or deleted.
pub fn created_workspace(error: CreatedError) -> Status {
    let message = error.to_string();
    match error {
        CreatedError::Fixed => precondition(ErrorReason::WorkspacesFixed, "created_workspaces.directory", message),
        CreatedError::BadName(problem) => bad_field("workspace", problem),
        CreatedError::BadSource { field, problem } => bad_field(field, problem),
        CreatedError::NoTemplate { name, .. } => resource(
            (Code::NotFound, ErrorReason::TemplateMissing),
            "template",
            &name,
            message,
        ),
        CreatedError::NameTaken { name, .. } => resource(
            (Code::AlreadyExists, ErrorReason::WorkspaceNameTaken),
            "workspace",
            &name,
            message,
        ),
        CreatedError::Folder(error) => open_workspace(*error),
        CreatedError::TooMany(limit) => exhausted(
            ErrorReason::TooManyWorkspaces,
            "limits.max_workspaces",
            limit as u64,
            RETRY_DELAY,
            message,
        ),
        CreatedError::Unknown(name) => not_found("workspace", &name),
        CreatedError::NotCreated(name) => precondition(ErrorReason::WorkspaceNotCreated, &name, message),
        CreatedError::Held { name, held } => held_workspace(&name, &held, message),
        CreatedError::NotYet { .. } => not_ready(message),
        CreatedError::Draining => draining(),
        CreatedError::Store(error) => store(error),
        CreatedError::Internal(error) => internal("what was to be done with a workspace was not", &*error),
    }
}

/// A workspace was not closed.
pub(crate) fn close_workspace(error: CloseError) -> Status {
    let message = error.to_string();
    match error {
        CloseError::Unknown(name) => not_found("workspace", &name),
        CloseError::Created(name) => precondition(ErrorReason::WorkspaceCreated, &name, message),
        CloseError::Configured(name) => precondition(ErrorReason::WorkspaceConfigured, &name, message),
        CloseError::Store(error) => store(error),
        CloseError::Internal(error) => internal("a workspace could not be closed", &*error),
    }
}

/// Input for a call was not accepted.
pub(crate) fn input(error: InputError) -> Status {
    let message = error.to_string();
    match error {
        InputError::NotRunning(error) => not_running(error),
        InputError::NotTaken { call, .. } => precondition(ErrorReason::NoInput, call.as_str(), message),
        InputError::Closed { .. } => precondition(ErrorReason::InputClosed, "input", message),
        InputError::Ahead { next_offset } => {
            let mut details = details_with(ErrorReason::InputOffset, [("next_offset", next_offset.to_string())]);
            details.add_bad_request_violation("offset", message.clone());
            Status::with_error_details(Code::OutOfRange, format!("offset: {message}"), details)
        }
        InputError::Full { .. } => {
            let mut details = details(ErrorReason::InputNotRead);
            details.set_retry_info(Some(Duration::from_secs(1)));
            details.add_quota_failure_violation("input", message.clone());
            Status::with_error_details(Code::ResourceExhausted, message, details)
        }
    }
}

/// A call cannot be watched.
pub(crate) fn watch(error: WatchError) -> Status {
    match error {
        WatchError::NotFound(id) => not_found("call", id.as_str()),
        WatchError::OutOfRange { .. } => out_of_range("after_sequence", error.to_string()),
        WatchError::Store(error) => store(error),
        WatchError::Draining => draining(),
        WatchError::Suspended => {
            let mut details = details(ErrorReason::WorkspaceNotReady);
            details.set_retry_info(Some(RETRY_DELAY));
            Status::with_error_details(Code::Unavailable, error.to_string(), details)
        }
        WatchError::Abandoned => internal("the log of the call ends without a terminal event", &error),
    }
}
