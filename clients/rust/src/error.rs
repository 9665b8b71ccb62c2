//! What can go wrong.
//!
//! *Invariant:* whatever the service refuses keeps its status: code, reason and text.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use toolgate_contract::HostRefused;

/// The error of a function that the program gives to the library: a handler of prompts, a tool, a hook.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the service cannot be understood.
    #[error("`{address}` is not a server address: {problem}")]
    Address {
        /// The address as it was given.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The token cannot be used.
    #[error("{0}")]
    Token(String),
    /// The certificates cannot be used.
    #[error("the certificates cannot be used: {0}")]
    Certificates(String),
    /// No file with trusted certificate authorities was named, and the system has none.
    #[error("no trusted certificate authorities were found: name a file with Credentials::authorities_file")]
    NoAuthorities,
    /// A file could not be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An output or a file could not be saved.
    #[error("cannot save to {}", .path.display())]
    Save {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was to be sent could not be read.
    #[error("cannot read the content to send")]
    Content(#[source] io::Error),
    /// What arrived could not be written.
    #[error("cannot write what arrived")]
    Write(#[source] io::Error),
    /// What arrived of an output does not have the digest that the service stored.
    #[error("the digest of output {output_id} is {found}, but the service stored {expected}")]
    Digest {
        /// The output.
        output_id: String,
        /// The digest of the bytes that arrived.
        found: String,
        /// The digest that the service has.
        expected: String,
    },
    /// The input of a call, or a value for the service, cannot be written as JSON.
    #[error("the value cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Nothing answers at the address.
    #[error("nothing answers at {address}: {cause}")]
    Unreachable {
        /// The address.
        address: String,
        /// What the transport says.
        cause: String,
    },
    /// An RPC failed.
    #[error("{}", sentence(.0))]
    Status(Box<Status>),
    /// The connection was lost while a call was being followed, and could not be made again.
    #[error("lost the connection while watching call {call_id}, and {attempts} attempts to take it up again failed")]
    Lost {
        /// The call, which may still run.
        call_id: String,
        /// How often the connection was tried.
        attempts: u32,
        /// How the last attempt failed.
        status: Box<Status>,
    },
    /// The service sent something that the contract does not have.
    #[error("the server sent no {0}; is it a newer or older Toolgate?")]
    Protocol(&'static str),
    /// The service does not accept all tools or hooks that this program lends.
    #[error("the service refuses {}", refusals(.0))]
    Refused(Vec<HostRefused>),
    /// A permission that a lent function asked for was denied. The text is meant for the model.
    #[error("{0}")]
    Denied(String),
    /// The call that a lent function works for has ended.
    #[error("the invocation has ended")]
    InvocationEnded,
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl Error {
    /// Returns the code of gRPC that fits best.
    pub fn code(&self) -> Code {
        match self {
            Self::Status(status) => status.code(),
            Self::Address { .. } | Self::Token(_) | Self::Certificates(_) | Self::NoAuthorities | Self::Json(_) => {
                Code::InvalidArgument
            }
            Self::Unreachable { .. } | Self::Lost { .. } => Code::Unavailable,
            Self::Closed | Self::InvocationEnded => Code::Cancelled,
            Self::Denied(_) => Code::PermissionDenied,
            Self::Refused(_) => Code::FailedPrecondition,
            Self::Digest { .. } => Code::DataLoss,
            Self::Read { .. } | Self::Save { .. } | Self::Content(_) | Self::Write(_) | Self::Protocol(_) => {
                Code::Unknown
            }
        }
    }

    /// Returns the code as the contract writes it, for example `NOT_FOUND`.
    pub fn code_name(&self) -> String {
        code_words(self.code()).replace(' ', "_").to_uppercase()
    }

    /// Returns the status of the RPC that failed, if one did.
    pub fn status(&self) -> Option<&Status> {
        if let Self::Status(status) | Self::Lost { status, .. } = self {
            Some(status)
        } else {
            None
        }
    }

    /// Returns the reason that the service names for programs, for example `UNKNOWN_CALL`.
    pub fn reason(&self) -> Option<String> {
        self.status().and_then(reason)
    }

    /// Returns what the service adds to the reason.
    pub fn metadata(&self) -> HashMap<String, String> {
        let info = self.status().and_then(|status| status.get_details_error_info());
        info.map(|info| info.metadata).unwrap_or_default()
    }

    /// Returns how long the service asks to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(retry_after)
    }

    /// Returns the text for people, without the code.
    pub fn message(&self) -> String {
        match self.status() {
            Some(status) => status.message().to_owned(),
            None => self.to_string(),
        }
    }

    /// Returns whether the same RPC may succeed later, or on another connection.
    pub fn is_transient(&self) -> bool {
        match self.status() {
            Some(status) => is_transient(status),
            None => matches!(self, Self::Unreachable { .. }),
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

pub(crate) fn reason(status: &Status) -> Option<String> {
    let info = status.get_details_error_info()?;
    Some(info.reason).filter(|reason| !reason.is_empty())
}

pub(crate) fn retry_after(status: &Status) -> Option<Duration> {
    status.get_details_retry_info()?.retry_delay
}

/// Returns whether the same RPC may succeed later, or on another connection.
pub(crate) fn is_transient(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Aborted | Code::DeadlineExceeded => true,
        Code::ResourceExhausted => retry_after(status).is_some(),
        // Proxies and transports break streams with these; the service itself always gives a reason.
        Code::Internal | Code::Unknown | Code::Cancelled => reason(status).is_none(),
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
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

fn refusals(refused: &[HostRefused]) -> String {
    let reasons: Vec<String> = refused
        .iter()
        .map(|one| format!("{}: {}", one.name, one.reason))
        .collect();
    reasons.join("; ")
}

/// Returns the last cause of an error: a transport error names nothing itself.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_status_is_a_sentence_with_its_code() {
        assert_eq!(
            Error::from(Status::not_found("no call x")).to_string(),
            "no call x (not found)"
        );
        assert_eq!(Error::from(Status::new(Code::DataLoss, "")).to_string(), "data loss");
    }

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        fn check(code: Code, reason: Option<&str>, delay: Option<u64>, expected: bool) {
            let mut details = ErrorDetails::new();
            if let Some(reason) = reason {
                details.set_error_info(reason, "toolgate", HashMap::new());
            }
            if let Some(seconds) = delay {
                details.set_retry_info(Some(Duration::from_secs(seconds)));
            }
            let error = Error::from(Status::with_error_details(code, "x", details));
            assert_eq!(error.is_transient(), expected, "{code:?} {reason:?} {delay:?}");
            assert_eq!(error.reason().as_deref(), reason);
            assert_eq!(error.retry_after(), delay.map(Duration::from_secs));
        }
        check(Code::Unavailable, None, None, true);
        check(Code::Unavailable, Some("DRAINING"), None, true);
        check(Code::ResourceExhausted, Some("RATE"), None, false);
        check(Code::ResourceExhausted, Some("RATE"), Some(2), true);
        check(Code::Internal, None, None, true);
        check(Code::Internal, Some("STORE"), None, false);
        check(Code::NotFound, Some("UNKNOWN_CALL"), None, false);
        check(Code::Unauthenticated, None, None, false);
    }
}
