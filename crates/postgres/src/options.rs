//! How a database is used.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rustls::ClientConfig;
use toolgate_store::audit::Recorder;

use crate::bucket::Bucket;

/// How many connections a process has to its database, at most, if nothing else is said.
pub const CONNECTIONS: usize = 16;

/// How a database is used.
pub struct PostgresOptions {
    /// Where it is and who connects, as `postgres://USER:PASSWORD@HOST:PORT/DATABASE` or as pairs `host=… user=…`. Of `sslmode`
    /// there are `disable`, `prefer`, `require`, `verify-ca` and `verify-full`. With [`Self::tls`] all but the first are the same:
    /// nobody logs in without TLS, and the server is verified as that says.
    pub address: String,
    /// TLS, by a provider of the caller's choice; none connects without.
    pub tls: Option<ClientConfig>,
    /// Connections at once, at most; at least 2.
    pub connections: usize,
    /// How long a change or a question may take, with waiting for a connection, before it fails. A call or a prompt that was to
    /// be stored and had no answer is asked for again, for as long once more.
    pub time_limit: Duration,
    /// How long a run of the service counts as alive that is not heard of.
    pub lease: Duration,
    /// What all who have the database should have the same, by the keys of their configuration. Who starts and finds others with something
    /// else says so in the log: while a fleet is changed one after another they do not agree, and must start all the same.
    pub agreed: BTreeMap<String, String>,
    /// Whether processes tell each other at once when prompts and grants change, by LISTEN and NOTIFY. That takes one connection
    /// more, straight to the server: through a pooler in transaction mode nothing is heard, and then what others have changed is
    /// found by looking, half a second later at most.
    pub notifies: bool,
    /// How far from this machine's clock the moment may be at which a call of a run without a database was created: each day that
    /// calls are of costs every listing something.
    pub clock_difference: Duration,
    /// What keeps the audit.
    pub recorder: Recorder,
    /// Where parts of large outputs are kept; without, all of them are in the database. Once there was one, what is in it can be read
    /// and deleted only with it.
    pub bucket: Option<Bucket>,
}

impl PostgresOptions {
    /// Returns what is usual, for an address: no TLS, [`CONNECTIONS`], 10 s, a lease of 30 s, notifications, clocks that
    /// differ by a day at most, an audit without a key, no bucket.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            tls: None,
            connections: CONNECTIONS,
            time_limit: Duration::from_secs(10),
            lease: Duration::from_secs(30),
            agreed: BTreeMap::new(),
            notifies: true,
            clock_difference: Duration::from_secs(86_400),
            recorder: Recorder::default(),
            bucket: None,
        }
    }
}

/// Without the address, which may have a password in it.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address: _,
            tls,
            connections,
            time_limit,
            lease,
            agreed,
            notifies,
            clock_difference,
            recorder: _,
            bucket,
        } = self;
        f.debug_struct("PostgresOptions")
            .field("tls", &tls.is_some())
            .field("connections", connections)
            .field("time_limit", time_limit)
            .field("lease", lease)
            .field("agreed", agreed)
            .field("notifies", notifies)
            .field("clock_difference", clock_difference)
            .field("bucket", bucket)
            .finish_non_exhaustive()
    }
}
