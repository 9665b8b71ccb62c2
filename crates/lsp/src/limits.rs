//! What language servers may take of the machine, and for how long they are waited for.
//!
//! *Invariant:* plain data.

use std::time::Duration;

/// What servers of a service may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Servers that run at once.
    pub servers: usize,
    /// Bytes of memory of one server with all that it starts.
    pub memory: u64,
    /// How long a server that nobody uses is kept.
    pub idle: Duration,
    /// How long a server may take to begin.
    pub initialize: Duration,
    /// How long a server may take to answer a request.
    pub request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            servers: 12,
            memory: 4 << 30,
            idle: Duration::from_secs(15 * 60),
            initialize: Duration::from_secs(45),
            request: Duration::from_secs(10),
        }
    }
}
