//! Why authentication cannot be set up.

use std::io;
use std::path::PathBuf;

/// Why authentication cannot be set up, or a changed file not be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be used.
    #[error("{} cannot be used: {problem}", .path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// Why; never its text.
        problem: String,
    },
    /// A rule for certificates cannot be used.
    #[error("the rule for certificates of {name:?} cannot be used: {problem}")]
    Rule {
        /// The principal.
        name: String,
        /// Why.
        problem: String,
    },
    /// The settings for signed tokens cannot be used.
    #[error("auth.jwt.algorithms: {0}")]
    Algorithms(String),
    /// The program was built without the feature `jwt`.
    #[error("auth.jwt: this build of Toolgate accepts no signed tokens (it lacks the Cargo feature \"jwt\")")]
    NotBuilt,
    /// The scopes of the group of the Unix socket cannot be used.
    #[error("auth.unix.scopes: {0}")]
    Group(String),
    /// The descriptors that the build wrote cannot be read.
    #[error("cannot read the service's own descriptors")]
    Descriptors(#[from] prost::DecodeError),
}
