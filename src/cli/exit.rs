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
    /// The command line or the configuration is wrong.
    Usage,
    /// A rule or a person refused, or nobody was there to allow it.
    Denied,
    /// The call was cancelled or ran too long.
    Cancelled,
    /// The server cannot be reached or started, or an RPC failed.
    Unreachable,
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
            FailureReason::Unspecified
            | FailureReason::InvalidArguments
            | FailureReason::ToolError
            | FailureReason::Quota
            | FailureReason::Lost
            | FailureReason::Internal => Self::Failed,
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
    /// The configuration is invalid.
    #[error("{0}")]
    Configuration(String),
    /// Nothing answers at the address.
    #[error("nothing answers at {address}: {cause}")]
    Unreachable { address: String, cause: String },
    /// The service could not be started here.
    #[error("cannot start the service: {0}")]
    Start(String),
    /// An RPC failed.
    #[error("{}", sentence(.0))]
    Status(Box<Status>),
    /// Whoever made a call may not answer what it asks.
    #[error("the call is cancelled, because its prompt cannot be answered from here: {0}")]
    MayNotReply(String),
    /// The stream broke and could not be taken up again.
    #[error("lost the connection while watching call {call}, and {attempts} attempts to take it up again failed")]
    Lost { call: String, attempts: u32 },
    /// The server sent something that the contract does not have.
    #[error("the server sent no {0}; is it a newer or older Toolgate?")]
    Protocol(&'static str),
    /// The server sent something for which JSON has no form.
    #[error("what the server sent cannot be written as JSON")]
    Json(#[source] serde_json::Error),
    /// A file could not be read.
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The program could not be copied.
    #[error("cannot write {}", .path.display())]
    Install { path: PathBuf, source: io::Error },
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
    /// Returns how the program ends for it.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Configuration(_) | Self::Read { .. } => Exit::Usage,
            Self::Unreachable { .. }
            | Self::Start(_)
            | Self::Status(_)
            | Self::Lost { .. }
            | Self::Protocol(_)
            | Self::Json(_) => Exit::Unreachable,
            Self::MayNotReply(_) => Exit::Denied,
            Self::Install { .. } | Self::Terminal(_) | Self::Write(_) => Exit::Failed,
            Self::BrokenPipe => Exit::Completed,
        }
    }

    /// Returns the failure, its causes and what to do about it.
    pub(super) fn describe(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        match self {
            Self::Unreachable { .. } => {
                text.push_str("\nStart a server with `toolgate serve`, or name a running one with --server URL.");
            }
            Self::Status(status) => text.push_str(&details(&status.get_error_details())),
            Self::MayNotReply(_) => {
                text.push_str("\nWith --wait the call waits for an approver elsewhere (`toolgate approve`).");
            }
            Self::Lost { call, .. } => {
                let _ = write!(text, "\nThe call may still run: `toolgate watch {call}` shows it.");
            }
            Self::Usage(_)
            | Self::Configuration(_)
            | Self::Start(_)
            | Self::Protocol(_)
            | Self::Json(_)
            | Self::Read { .. }
            | Self::Install { .. }
            | Self::Terminal(_)
            | Self::BrokenPipe
            | Self::Write(_) => {}
        }
        text
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Status(status) => Self::Status(status),
            Error::Unreachable { address, cause } => Self::Unreachable { address, cause },
            Error::Lost { call_id, attempts, .. } => Self::Lost {
                call: call_id,
                attempts,
            },
            Error::Read { path, source } => Self::Read { path, source },
            Error::Protocol(what) => Self::Protocol(what),
            Error::NoAuthorities => Self::Usage("name the authority of the server with --tls-ca FILE".to_owned()),
            // The rest comes from other parts of the library.
            Error::Address { .. }
            | Error::Token(_)
            | Error::Certificates(_)
            | Error::Save { .. }
            | Error::Digest { .. }
            | Error::Json(_)
            | Error::Refused(_)
            | Error::Denied(_)
            | Error::InvocationEnded
            | Error::Closed
            | _ => Self::Usage(text),
        }
    }
}

impl From<Box<Status>> for Failure {
    fn from(status: Box<Status>) -> Self {
        Self::Status(status)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// Returns the message of a status with its code in words.
fn sentence(status: &Status) -> String {
    let code = code_words(status.code());
    match status.message().trim() {
        "" => code,
        message => format!("{message} ({code})"),
    }
}

fn code_words(code: Code) -> String {
    let mut words = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// Returns what `google.rpc` details add, one indented line each.
fn details(details: &ErrorDetails) -> String {
    let mut lines = Vec::new();
    for violation in details
        .bad_request()
        .iter()
        .flat_map(|request| &request.field_violations)
    {
        lines.push(format!("{}: {}", violation.field, violation.description));
    }
    for violation in details
        .precondition_failure()
        .iter()
        .flat_map(|failure| &failure.violations)
    {
        lines.push(format!("{}: {}", violation.subject, violation.description));
    }
    for violation in details.quota_failure().iter().flat_map(|failure| &failure.violations) {
        lines.push(format!("{}: {}", violation.subject, violation.description));
    }
    if let Some(resource) = details.resource_info() {
        let what = format!("{} {}", resource.resource_type, resource.resource_name);
        lines.push(if resource.description.is_empty() {
            what
        } else {
            format!("{what}: {}", resource.description)
        });
    }
    if let Some(info) = details.error_info() {
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
        check(FailureReason::InvalidArguments, 1);
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
        check(&Failure::from(Status::not_found("x")), 5);
        check(&Failure::BrokenPipe, 0);
    }

    #[test]
    fn a_status_is_told_as_a_sentence_with_its_details() {
        let mut about = ErrorDetails::new();
        about
            .add_bad_request_violation("context.agent", "there is no agent `bild`")
            .set_error_info("UNKNOWN_AGENT", "toolgate", [("agent".to_owned(), "bild".to_owned())]);
        let status = Status::with_error_details(Code::InvalidArgument, "unknown agent", about);
        assert_eq!(
            Failure::from(status).describe(),
            "unknown agent (invalid argument)\n  context.agent: there is no agent `bild`\n  reason: UNKNOWN_AGENT \
             agent=bild"
        );
        assert_eq!(Failure::from(Status::new(Code::DataLoss, "")).describe(), "data loss");
    }
}
