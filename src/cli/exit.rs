//! How a command ends: exit codes, and failures told as sentences.
//!
//! *Invariant:* a status is never shown as a debug dump, and each failure has one exit code.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use toolgate_client::Error;
use toolgate_contract::FailureReason;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked.
    Completed,
    /// The call failed.
    Failed,
    /// The command line, the configuration or the arguments of a tool are wrong.
    Usage,
    /// A rule or a person refused, or nobody was there to allow it.
    Denied,
    /// The call was cancelled or ran too long.
    Cancelled,
    /// The server cannot be reached or started.
    Unreachable,
    /// A person would be asked.
    Asked,
    /// A worker had to stop: another run may have its workspaces.
    Replaced,
    /// There is nothing of the name: no such tool, call, session, output, or file where a command is about files.
    NotFound,
    /// The server refused the request, or failed at it.
    Refused,
    /// The user interrupted.
    Interrupted,
    /// The exit code of the command that a call ran.
    Command(u8),
}

impl Exit {
    /// Returns the code that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Denied => 3,
            Self::Cancelled => 4,
            Self::Unreachable => 5,
            Self::Asked => 6,
            Self::Replaced => 7,
            Self::NotFound => 8,
            Self::Refused => 9,
            Self::Interrupted => 130,
            Self::Command(code) => code,
        }
    }

    /// Returns how a call that failed for this reason ends the program.
    pub(super) fn of_failure(reason: FailureReason) -> Self {
        match reason {
            FailureReason::Denied
            | FailureReason::Rejected
            | FailureReason::PromptExpired
            | FailureReason::DoomLoop => Self::Denied,
            FailureReason::Cancelled | FailureReason::TimedOut | FailureReason::Drained => Self::Cancelled,
            FailureReason::InvalidArguments => Self::Usage,
            FailureReason::Unspecified
            | FailureReason::ToolError
            | FailureReason::Quota
            | FailureReason::Lost
            | FailureReason::Internal => Self::Failed,
        }
    }

    /// Returns how an RPC that failed ends the program.
    fn of_status(status: &Status) -> Self {
        let is_told = status.get_details_error_info().is_some();
        match (status.code(), is_told) {
            (Code::InvalidArgument, _) => Self::Usage,
            (Code::NotFound, _) => Self::NotFound,
            // Or the connection was lost, if the service does not say why.
            (Code::Unavailable, _) | (Code::Cancelled | Code::DeadlineExceeded | Code::Unknown, false) => {
                Self::Unreachable
            }
            _ => Self::Refused,
        }
    }

    /// Returns how a file that cannot be shown or changed, or a port that cannot be opened, ends the program.
    fn of_refusal(status: &Status) -> Self {
        let reason = status.get_details_error_info().map(|info| info.reason);
        match (status.code(), reason.as_deref()) {
            (Code::PermissionDenied, Some("SCOPE_MISSING" | "WORKSPACES_LIMITED" | "FOREIGN_HOST")) => Self::Refused,
            (Code::PermissionDenied, Some(_)) => Self::Denied,
            (Code::Cancelled | Code::DeadlineExceeded, Some(_)) => Self::Cancelled,
            (Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted, Some(_)) => Self::Failed,
            _ => Self::of_status(status),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The command line asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// There is nothing of the name.
    #[error("{0}")]
    NotFound(String),
    /// The configuration is invalid.
    #[error("{0}")]
    Configuration(String),
    /// The service could not be started here.
    #[error("cannot start the service: {0}")]
    Start(String),
    /// The database of the gateways cannot be used.
    #[error("cannot use the database {0}")]
    Database(String),
    /// The gateway could not be started.
    #[error("cannot start the gateway: {0}")]
    StartGateway(String),
    /// Another run may have what this worker had.
    #[error(
        "the worker has killed its programs and ends: another run has taken its workspaces over, or no gateway was reached for a whole \
         lease. Start it again; the log says which of the two it was"
    )]
    Replaced,
    /// The library could not do it: an RPC failed, nothing answers, a stream was lost.
    #[error(transparent)]
    Client(Error),
    /// A file cannot be shown or changed, or a port cannot be opened.
    #[error(transparent)]
    Refused(Error),
    /// Whoever made a call may not answer what it asks.
    #[error("the call is cancelled, because its prompt cannot be answered from here: {0}")]
    MayNotReply(String),
    /// The server sent something for which JSON has no form.
    #[error("what the server sent cannot be written as JSON")]
    Json(#[source] serde_json::Error),
    /// A file could not be read.
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file could not be written.
    #[error("cannot write {}", .path.display())]
    WriteFile { path: PathBuf, source: io::Error },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen { address: String, source: io::Error },
    /// Nobody is logged in at a server of tools.
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "such a build has no such servers"))]
    #[error("{0}")]
    Login(String),
    /// The terminal or its signals are not to be had.
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    /// Whoever read the standard output has gone.
    #[error("standard output was closed")]
    BrokenPipe,
    /// Standard output cannot be written.
    #[error("cannot write to standard output")]
    Write(#[source] io::Error),
}

impl Failure {
    /// Says of a status of a service that it is about a file or a port, which has exit codes of its own.
    pub(super) fn into_refusal(self) -> Self {
        if let Self::Client(error @ Error::Status(_)) = self {
            Self::Refused(error)
        } else {
            self
        }
    }

    /// Returns how the program ends for it.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Configuration(_) | Self::Read { .. } => Exit::Usage,
            Self::Refused(Error::Status(status)) => Exit::of_refusal(status),
            Self::Client(Error::Save { .. } | Error::Write(_)) => Exit::Failed,
            Self::Client(Error::Status(status)) => Exit::of_status(status),
            Self::NotFound(_) => Exit::NotFound,
            Self::Client(Error::Unreachable { .. } | Error::Lost { .. } | Error::Protocol(_))
            | Self::Start(_)
            | Self::StartGateway(_)
            | Self::Database(_)
            | Self::Json(_) => Exit::Unreachable,
            Self::Client(_) | Self::Refused(_) => Exit::Usage,
            Self::MayNotReply(_) => Exit::Denied,
            Self::Replaced => Exit::Replaced,
            Self::WriteFile { .. } | Self::Listen { .. } | Self::Login(_) | Self::Terminal(_) | Self::Write(_) => {
                Exit::Failed
            }
            Self::BrokenPipe => Exit::Completed,
        }
    }

    /// Returns the failure, its causes and what to do about it.
    pub(super) fn describe(&self, verbose: bool) -> String {
        let mut text = with_causes(self);
        match self {
            Self::Client(Error::Unreachable { address, cause }) if cause.contains("InvalidContentType") => {
                text = format!("{address}: the server does not speak TLS; try http://");
            }
            Self::Client(Error::Unreachable { .. }) => {
                text.push_str("\nStart a server with `toolgate serve`, or name a running one with --server URL.");
            }
            Self::Client(Error::Status(status)) | Self::Refused(Error::Status(status)) => {
                let more = details(&status.get_error_details(), status.message(), verbose);
                text.push_str(&more);
                if status.code() == Code::Unauthenticated {
                    text.push_str("\nCheck the token in TOOLGATE_TOKEN, or in the file that --token-file names.");
                }
            }
            Self::Client(Error::Lost { call_id, .. }) => {
                let _ = write!(text, "\nThe call may still run: `toolgate watch {call_id}` shows it.");
            }
            Self::Client(Error::NoAuthorities) => {
                "name the authority of the server with --tls-ca FILE".clone_into(&mut text);
            }
            Self::MayNotReply(_) => {
                text.push_str("\nWith --wait the call waits for an approver elsewhere (`toolgate approve`).");
            }
            Self::Client(_)
            | Self::Refused(_)
            | Self::Usage(_)
            | Self::NotFound(_)
            | Self::Configuration(_)
            | Self::Start(_)
            | Self::StartGateway(_)
            | Self::Database(_)
            | Self::Replaced
            | Self::Json(_)
            | Self::Read { .. }
            | Self::WriteFile { .. }
            | Self::Listen { .. }
            | Self::Login(_)
            | Self::Terminal(_)
            | Self::BrokenPipe
            | Self::Write(_) => {}
        }
        text
    }
}

/// Returns an error with its causes.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Client(status.into())
    }
}

/// Returns what `google.rpc` details add to the message, one indented line each; the reason, which is for programs, only to
/// whoever wants to know more.
fn details(details: &ErrorDetails, message: &str, verbose: bool) -> String {
    let fields = details.bad_request().into_iter().flat_map(|one| &one.field_violations);
    let fields = fields.map(|one| (&one.field, &one.description));
    let conditions = details.precondition_failure();
    let conditions = conditions.into_iter().flat_map(|one| &one.violations);
    let conditions = conditions.map(|one| (&one.subject, &one.description));
    let quotas = details.quota_failure().into_iter().flat_map(|one| &one.violations);
    let quotas = quotas.map(|one| (&one.subject, &one.description));
    let violations = fields.chain(conditions).chain(quotas);
    let said_more = violations.filter(|(_, problem)| !message.contains(problem.as_str()));
    let mut lines: Vec<String> = said_more.map(|(what, problem)| format!("{what}: {problem}")).collect();
    if let Some(resource) = details.resource_info() {
        let what = format!("{} {}", resource.resource_type, resource.resource_name);
        // What the message says as well is told once.
        match resource.description.as_str() {
            "" => lines.push(what),
            description if message.contains(description) && message.contains(&resource.resource_name) => {}
            description => lines.push(format!("{what}: {description}")),
        }
    }
    if let Some(info) = details.error_info().filter(|_| verbose) {
        let facts: Vec<_> = info
            .metadata
            .iter()
            .map(|(key, value)| format!(" {key}={value}"))
            .collect();
        lines.push(format!("reason: {}{}", info.reason, facts.concat()));
    }
    if let Some(delay) = details.retry_info().and_then(|info| info.retry_delay) {
        lines.push(format!("try again after {delay:?}"));
    }
    for link in details.help().iter().flat_map(|help| &help.links) {
        lines.push(format!("{}: {}", link.description, link.url));
    }
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_reasons_have_exit_codes() {
        fn check(reason: FailureReason, code: u8) {
            assert_eq!(Exit::of_failure(reason).code(), code, "{reason:?}");
        }
        check(FailureReason::ToolError, 1);
        check(FailureReason::InvalidArguments, 2);
        check(FailureReason::Lost, 1);
        check(FailureReason::Denied, 3);
        check(FailureReason::Rejected, 3);
        check(FailureReason::PromptExpired, 3);
        check(FailureReason::DoomLoop, 3);
        check(FailureReason::Cancelled, 4);
        check(FailureReason::TimedOut, 4);
        check(FailureReason::Drained, 4);
    }

    #[test]
    fn failures_have_exit_codes() {
        fn check(failure: &Failure, code: u8) {
            assert_eq!(failure.exit().code(), code, "{failure:?}");
        }
        check(&Failure::Usage(String::new()), 2);
        check(&Failure::Configuration(String::new()), 2);
        check(&Failure::Start(String::new()), 5);
        check(&Failure::NotFound(String::new()), 8);
        check(&Failure::from(Status::not_found("x")), 8);
        check(&Failure::from(Status::unavailable("x")), 5);
        check(&Failure::from(Status::permission_denied("x")), 9);
        check(&Failure::from(Status::internal("x")), 9);
        check(&Failure::from(Status::invalid_argument("x")), 2);
        check(&Failure::BrokenPipe, 0);
    }

    #[test]
    fn refusals_of_files_have_exit_codes() {
        fn check(code: Code, reason: Option<&str>, expected: u8) {
            let mut details = ErrorDetails::new();
            if let Some(reason) = reason {
                details.set_error_info(reason, "toolgate", std::collections::HashMap::new());
            }
            let failure = Failure::from(Status::with_error_details(code, "x", details));
            assert_eq!(failure.into_refusal().exit().code(), expected, "{code:?} {reason:?}");
        }
        check(Code::NotFound, Some("NOT_FOUND"), 8);
        check(Code::FailedPrecondition, Some("CONTENT_DIFFERS"), 1);
        check(Code::InvalidArgument, Some("INVALID_FIELD"), 2);
        check(Code::PermissionDenied, Some("DENIED_BY_RULE"), 3);
        check(Code::PermissionDenied, Some("OUTSIDE_WORKSPACE"), 3);
        check(Code::PermissionDenied, Some("SCOPE_MISSING"), 9);
        check(Code::Cancelled, Some("CANCELLED"), 4);
        check(Code::Cancelled, None, 5);
        check(Code::Unavailable, Some("DRAINING"), 5);
    }

    #[test]
    fn a_status_is_told_as_a_sentence_with_its_details() {
        let mut about = ErrorDetails::new();
        about
            .add_bad_request_violation("context.agent", "there is no agent `bild`")
            .set_error_info("UNKNOWN_AGENT", "toolgate", [("agent".to_owned(), "bild".to_owned())]);
        let status = Status::with_error_details(Code::InvalidArgument, "unknown agent", about);
        let failure = Failure::from(status);
        assert_eq!(
            failure.describe(false),
            "unknown agent (invalid argument)\n  context.agent: there is no agent `bild`"
        );
        assert_eq!(
            failure.describe(true),
            "unknown agent (invalid argument)\n  context.agent: there is no agent `bild`\n  reason: UNKNOWN_AGENT \
             agent=bild"
        );
        assert_eq!(
            Failure::from(Status::new(Code::DataLoss, "")).describe(false),
            "data loss"
        );
        let mut about = ErrorDetails::new();
        about.set_resource_info("template", "none", "", "there is no template \"none\"");
        let status = Status::with_error_details(Code::NotFound, "there is no template \"none\"", about);
        let told = "there is no template \"none\" (not found)";
        assert_eq!(Failure::from(status).describe(false), told);
    }
}
