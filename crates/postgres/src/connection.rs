//! Connections: a bounded pool of them, statements with a bounded time, transactions, and what is tried again.
//!
//! *Invariant:* nothing is kept in a connection from one transaction to the next, so that a pooler in transaction mode may stand
//! in between. Every statement is sent with the types of its values, unnamed: it takes one round trip and leaves nothing behind
//! (`query_typed`). Deadpool's cached statements are not used: a prepared statement belongs to one server connection, and the
//! next transaction may get another. That statements are planned each time costs less than a partition that was not left out:
//! with the values known, all days but one are.
//!
//! *Invariant:* nobody waits longer than the limit, whatever has become of the server. A connection of which an answer is
//! missing, or that was left within a transaction, is closed and not used again.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;
use toolgate_store::StoreError;
use toolgate_store::codec::failed;

use crate::error::{doing, gave_way, too_late};
use crate::options::PostgresOptions;
use crate::values::Values;

/// How often a transaction is tried that gave way to others.
const ATTEMPTS: u32 = 8;

/// How long it waits at first before it is tried again; then twice as long each time.
const FIRST_DELAY: Duration = Duration::from_millis(5);

/// The database, and how long it may take.
pub(crate) struct Database {
    pool: Pool,
    limit: Duration,
}

impl Database {
    /// Prepares connections; makes none.
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let what = "read the address of the database";
        let mut config = options.address.parse::<Config>().map_err(|error| failed(what, error))?;
        config.application_name("toolgate");
        config.connect_timeout(options.time_limit);
        config.tcp_user_timeout(options.time_limit);
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = match &options.tls {
            Some(tls) => Manager::from_config(config, MakeRustlsConnect::new(tls.clone()), recycling),
            None if config.get_ssl_mode() == SslMode::Require => {
                return Err(failed(what, "it asks for TLS, and none is configured"));
            }
            None => Manager::from_config(config, NoTls, recycling),
        };
        let pool = Pool::builder(manager)
            .max_size(options.connections.max(2))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(options.time_limit))
            .create_timeout(Some(options.time_limit))
            .recycle_timeout(Some(options.time_limit))
            .build()
            .map_err(|error| failed("make a pool of connections", error))?;
        Ok(Self {
            pool,
            limit: options.time_limit,
        })
    }

    /// Returns a connection, for `what`. Its limit counts from now.
    pub(crate) async fn session(&self, what: &'static str) -> Result<Session, StoreError> {
        let deadline = Instant::now() + self.limit;
        let client = match timeout_at(deadline, self.pool.get()).await {
            Err(_) => return Err(too_late(what, self.limit)),
            Ok(Err(deadpool_postgres::PoolError::Backend(error))) => return Err(doing(what, error)),
            Ok(Err(error)) => return Err(failed(format!("{what} in PostgreSQL"), error)),
            Ok(Ok(client)) => client,
        };
        Ok(Session {
            client: Some(client),
            what,
            deadline,
            limit: self.limit,
            is_unfit: false,
        })
    }

    /// Returns a connection with a transaction begun.
    pub(crate) async fn begin(&self, what: &'static str) -> Result<Session, StoreError> {
        let mut session = self.session(what).await?;
        session.is_unfit = true;
        session.batch("BEGIN").await?;
        Ok(session)
    }

    /// Runs one statement, a transaction of its own.
    pub(crate) async fn rows(&self, what: &'static str, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        retrying(|| async { self.session(what).await?.rows(sql, values).await }).await
    }

    /// As [`Self::rows`], for a statement with one row, or none.
    pub(crate) async fn row(
        &self,
        what: &'static str,
        sql: &str,
        values: Values<'_>,
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(what, sql, values).await?.into_iter().next())
    }

    /// Waits for its turn, no longer than for the database: behind many who wait for it in vain, each would wait for all before.
    pub(crate) async fn turn<'m, T>(&self, what: &str, mutex: &'m Mutex<T>) -> Result<MutexGuard<'m, T>, StoreError> {
        let turn = timeout(self.limit, mutex.lock()).await;
        turn.map_err(|_| too_late(what, self.limit))
    }

    /// Gives the connections up; what comes later fails.
    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

/// Tries a transaction again that gave way to another one: it has the same ids each time.
pub(crate) async fn retrying<T, W>(mut work: impl FnMut() -> W) -> Result<T, StoreError>
where
    W: Future<Output = Result<T, StoreError>>,
{
    let mut delay = FIRST_DELAY;
    for _ in 1..ATTEMPTS {
        match work().await {
            Err(error) if gave_way(&error) => tokio::time::sleep(delay).await,
            other => return other,
        }
        delay *= 2;
    }
    work().await
}

/// One connection, for one transaction or statement.
pub(crate) struct Session {
    /// None when it was given back.
    client: Option<Object>,
    what: &'static str,
    deadline: Instant,
    limit: Duration,
    /// An answer is missing, or a transaction is open.
    is_unfit: bool,
}

impl Session {
    fn client(&self) -> Result<&Object, StoreError> {
        self.client
            .as_ref()
            .ok_or_else(|| failed(self.what, "the connection was given back"))
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn rows(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        let answer = timeout_at(self.deadline, self.client()?.query_typed(sql, values)).await;
        match answer {
            Ok(answer) => answer.map_err(|error| doing(self.what, error)),
            Err(_) => Err(self.late()),
        }
    }

    /// As [`Self::rows`], for a statement with one row, or none.
    pub(crate) async fn row(&mut self, sql: &str, values: Values<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn run(&mut self, sql: &str, values: Values<'_>) -> Result<u64, StoreError> {
        let answer = timeout_at(self.deadline, self.client()?.execute_typed(sql, values)).await;
        match answer {
            Ok(answer) => answer.map_err(|error| doing(self.what, error)),
            Err(_) => Err(self.late()),
        }
    }

    /// Runs statements without values.
    pub(crate) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        let answer = timeout_at(self.deadline, self.client()?.batch_execute(sql)).await;
        match answer {
            Ok(answer) => answer.map_err(|error| doing(self.what, error)),
            Err(_) => Err(self.late()),
        }
    }

    /// Ends the transaction: what was done stays if it went well.
    pub(crate) async fn end<T>(mut self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        let ended = self.batch(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
        // One that failed leaves the connection as it was found: it is closed.
        self.is_unfit = ended.is_err();
        let outcome = outcome?;
        ended.map(|()| outcome)
    }

    fn late(&mut self) -> StoreError {
        self.is_unfit = true;
        too_late(self.what, self.limit)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.client.take()
            && self.is_unfit
        {
            // Closed at once; the server undoes what was not committed.
            drop(Object::take(client));
        }
    }
}
