//! Connections: a bounded pool of them, statements with a bounded time, transactions, and what is tried again.
//!
//! *Invariant:* nothing is kept in a connection from one transaction to the next, so that a pooler in transaction mode may stand
//! in between. Every statement is sent with the types of its values, unnamed: it takes one round trip and leaves nothing behind
//! (`query_typed`). Deadpool's cached statements are not used: a prepared statement belongs to one server connection, and the
//! next transaction may get another. What every call makes, and every piece of its output, is a function of the database instead: its
//! statements are planned once for a server connection (`migrations/0003.sql`, `migrations/0005.sql`).
//!
//! *Invariant:* nobody waits longer than the limit, whatever has become of the server. A connection of which an answer is
//! missing, or that was left within a transaction, is closed and not used again; the server is asked to give up what it still
//! does for it. A transaction is bounded by the server as well: a gateway that stands still in the middle of one, or whose
//! network is gone, must not hold locks that all the others wait for.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::{CancelToken, Config, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;
use toolgate_store::StoreError;
use toolgate_store::codec::failed;

use crate::error::{doing, gave_way, is_unanswered, too_late};
use crate::options::PostgresOptions;
use crate::values::Values;

/// How often a transaction is tried that gave way to others.
const ATTEMPTS: u32 = 8;

/// How long it waits at first before it is tried again; then twice as long each time.
const FIRST_DELAY: Duration = Duration::from_millis(5);

/// How long to leave a database alone that gave no answer, before the same is asked again.
const AGAIN_DELAY: Duration = Duration::from_millis(50);

/// The database, and how long it may take.
pub(crate) struct Database {
    pool: Pool,
    limit: Duration,
    tls: Option<MakeRustlsConnect>,
    /// What rarely changes and is waited for is told to the other processes.
    notifies: bool,
}

/// Reads where the database is and how it is reached.
pub(crate) fn config(options: &PostgresOptions) -> Result<Config, StoreError> {
    let what = "read the address of the database";
    // What is verified is for `rustls` to say, and it verifies all there is: so these two are one more way to ask for TLS.
    let mut address = options.address.clone();
    for verified in ["sslmode=verify-full", "sslmode=verify-ca"] {
        address = address.replace(verified, "sslmode=require");
    }
    let mut config = address.parse::<Config>().map_err(|error| failed(what, error))?;
    match (config.get_ssl_mode(), &options.tls) {
        (SslMode::Require, None) => return Err(failed(what, "it asks for TLS, and none is configured")),
        // Who has configured TLS must not get a plain connection because somebody on the way says that there is none.
        (SslMode::Prefer, Some(_)) => {
            config.ssl_mode(SslMode::Require);
        }
        _ => {}
    }
    Ok(config)
}

impl Database {
    /// Prepares connections; makes none.
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        Self::with(options, options.connections.max(2), options.time_limit)
    }

    /// As [`Self::new`], with another number of connections and another limit.
    pub(crate) fn with(options: &PostgresOptions, connections: usize, limit: Duration) -> Result<Self, StoreError> {
        let mut config = config(options)?;
        config.application_name("toolgate");
        config.connect_timeout(limit);
        config.tcp_user_timeout(limit);
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let tls = options.tls.clone().map(MakeRustlsConnect::new);
        let manager = match &tls {
            Some(tls) => Manager::from_config(config, tls.clone(), recycling),
            None => Manager::from_config(config, NoTls, recycling),
        };
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(limit))
            .create_timeout(Some(limit))
            .recycle_timeout(Some(limit))
            .build()
            .map_err(|error| failed("make a pool of connections", error))?;
        Ok(Self {
            pool,
            limit,
            tls,
            notifies: options.notifies,
        })
    }

    /// Has everything take longer, but for getting a connection.
    pub(crate) fn patient(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns a connection, for `what`. Its limit counts from now.
    pub(crate) async fn session(&self, what: &'static str) -> Result<Session, StoreError> {
        let deadline = Instant::now() + self.limit;
        let client = timeout_at(deadline, self.pool.get()).await;
        let client = client.map_err(|_| too_late(what, self.limit))?;
        let client = client.map_err(|error| self.not_reached(what, error))?;
        Ok(Session {
            client: Some(client),
            tls: self.tls.clone(),
            what,
            deadline,
            limit: self.limit,
            notifies: self.notifies,
            is_unfit: false,
            is_asked: false,
        })
    }

    /// Returns a connection with a transaction begun.
    pub(crate) async fn begin(&self, what: &'static str) -> Result<Session, StoreError> {
        let mut session = self.session(what).await?;
        session.is_unfit = true;
        // What else the database may have as its default would see what was there before a lock was waited for. The limits hold
        // for this transaction only, so that a pooler may have the connection afterwards.
        let limit = self.limit.as_millis().max(1);
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {limit};
             SET LOCAL idle_in_transaction_session_timeout = {limit}"
        );
        session.batch(&begin).await?;
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

    /// Fails unless there is a connection, in use or not.
    async fn is_reached(&self, what: &'static str) -> Result<(), StoreError> {
        let mut times = self.pool.timeouts();
        // Where all are in use the database answers others.
        times.wait = Some(Duration::ZERO);
        match timeout(self.limit, self.pool.timeout_get(&times)).await {
            Ok(Ok(_) | Err(PoolError::Timeout(TimeoutType::Wait))) => Ok(()),
            Ok(Err(error)) => Err(self.not_reached(what, error)),
            Err(_) => Err(too_late(what, self.limit)),
        }
    }

    fn not_reached(&self, what: &'static str, error: PoolError) -> StoreError {
        match error {
            PoolError::Backend(error) => doing(what, error),
            PoolError::Timeout(_) => too_late(what, self.limit),
            error @ (PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_)) => {
                failed(format!("{what} in PostgreSQL"), error)
            }
        }
    }

    /// Gives the connections up; what comes later fails.
    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

impl Database {
    /// Does something that can be said twice, again if there was no answer and so nobody knows whether it is done; for the time
    /// limit once more. Where there is not even a connection it is not asked for, and that is said at once. `work` is told whether it is said again, and finds out by itself what became of it before: what is
    /// still on its way at the server is waited for by what has the same key.
    pub(crate) async fn certainly<T, W>(
        &self,
        what: &'static str,
        mut work: impl FnMut(bool) -> W,
    ) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, StoreError>>,
    {
        self.is_reached(what).await?;
        let mut outcome = work(false).await;
        if !outcome.as_ref().is_err_and(is_unanswered) {
            return outcome;
        }
        let until = Instant::now() + self.limit;
        let has_failed = |outcome: &Result<T, StoreError>| {
            matches!(outcome, Err(StoreError::Unavailable(_) | StoreError::Failed { .. }))
        };
        while has_failed(&outcome) && Instant::now() < until {
            tokio::time::sleep(AGAIN_DELAY).await;
            outcome = work(true).await;
        }
        outcome
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
    tls: Option<MakeRustlsConnect>,
    what: &'static str,
    deadline: Instant,
    limit: Duration,
    /// As [`Database`] has it.
    pub(crate) notifies: bool,
    /// An answer is missing, or a transaction is open.
    is_unfit: bool,
    /// The server has been asked and has not answered yet.
    is_asked: bool,
}

impl Session {
    fn client(&self) -> Result<&Object, StoreError> {
        self.client
            .as_ref()
            .ok_or_else(|| failed(self.what, "the connection was given back"))
    }

    /// Waits for the answer of the server; one that does not come within the limit, or that nobody waits for any more, makes
    /// the connection unfit.
    async fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        self.is_asked = true;
        let answer = timeout_at(self.deadline, question(self.client()?)).await;
        match answer {
            Ok(answer) => {
                self.is_asked = false;
                answer.map_err(|error| doing(self.what, error))
            }
            Err(_) => Err(too_late(self.what, self.limit)),
        }
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn rows(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        self.ask(async |client| client.query_typed(sql, values).await).await
    }

    /// As [`Self::rows`], for a statement with one row, or none.
    pub(crate) async fn row(&mut self, sql: &str, values: Values<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn run(&mut self, sql: &str, values: Values<'_>) -> Result<u64, StoreError> {
        self.ask(async |client| client.execute_typed(sql, values).await).await
    }

    /// Runs statements without values.
    pub(crate) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.ask(async |client| client.batch_execute(sql).await).await
    }

    /// Ends the transaction: what was done stays if it went well.
    pub(crate) async fn end<T>(mut self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        let ended = self.batch(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
        // One that failed leaves the connection as it was found: it is closed.
        self.is_unfit = ended.is_err();
        let outcome = outcome?;
        ended.map(|()| outcome)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        if !self.is_unfit && !self.is_asked {
            return;
        }
        // Closed at once; the server undoes what was not committed.
        let client = Object::take(client);
        if !self.is_asked {
            return;
        }
        // A server does not notice that nobody waits any more, and goes on waiting for a lock. The connection stays until it
        // was told, because a pooler knows what to give up by whose it is.
        let (token, tls, limit) = (client.cancel_token(), self.tls.take(), self.limit);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if timeout(limit, cancel(token, tls)).await.is_err() {
                    tracing::debug!("a statement could not be given up in time");
                }
                drop(client);
            });
        }
    }
}

async fn cancel(token: CancelToken, tls: Option<MakeRustlsConnect>) {
    let cancelled = match tls {
        Some(tls) => token.cancel_query(tls).await,
        None => token.cancel_query(NoTls).await,
    };
    if let Err(error) = cancelled {
        tracing::debug!(%error, "a statement could not be given up");
    }
}
