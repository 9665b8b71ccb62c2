//! That another process has changed prompts or grants, heard at once.
//!
//! *Invariant:* it is a help only. What is not heard, because the connection was lost or a pooler stands in between, is found by who
//! looks now and then. Only what is rare and waited for is notified: each commit with a notification waits for the one before.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::sync::CancellationToken;
use toolgate_store::{StoreError, outage};

use crate::connection::config;
use crate::error::doing;
use crate::options::PostgresOptions;

/// Adds what is told to the outbox, and says so to all who listen.
pub(crate) const NOTIFYING: &str =
    "INSERT INTO outbox (entries) VALUES ($1) RETURNING pg_notify('toolgate_prompts', '')";

const LISTEN: &str = "LISTEN toolgate_prompts; LISTEN toolgate_created";

/// Where it is said that created workspaces have changed, which prompts do not.
const CREATED: &str = "toolgate_created";

/// How long to leave a database alone that has ended the connection.
const PAUSE: Duration = Duration::from_secs(1);

/// After how long of silence a connection is tried: a network may lose one without a word.
const TRIED_AFTER: Duration = Duration::from_secs(30);

/// The connection that listens, and whom it tells.
pub(crate) struct Listener {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    changed: Arc<Notify>,
    created: Arc<Notify>,
}

impl Listener {
    /// Prepares the connection; makes none.
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let mut config = config(options)?;
        config.application_name("toolgate");
        config.connect_timeout(options.time_limit);
        config.tcp_user_timeout(options.time_limit);
        config.keepalives_idle(TRIED_AFTER);
        Ok(Self {
            config,
            tls: options.tls.clone().map(MakeRustlsConnect::new),
            changed: Arc::default(),
            created: Arc::default(),
        })
    }

    /// Returns what is notified.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// Returns what is notified of created workspaces, and of prompts: some of them wait for a reply.
    pub(crate) fn created(&self) -> Arc<Notify> {
        Arc::clone(&self.created)
    }

    /// Listens until it is to stop, with a new connection whenever one is lost.
    pub(crate) async fn listen(self, stop: &CancellationToken) {
        let mut has_failed = false;
        let listens = async {
            loop {
                if let Err(error) = self.once(&mut has_failed).await
                    && !std::mem::replace(&mut has_failed, true)
                {
                    outage::tell(&error, "what other processes change is not heard at once");
                }
                sleep(PAUSE).await;
            }
        };
        stop.run_until_cancelled(listens).await;
    }

    async fn once(&self, has_failed: &mut bool) -> Result<(), StoreError> {
        match &self.tls {
            Some(tls) => self.with(tls.clone(), has_failed).await,
            None => self.with(NoTls, has_failed).await,
        }
    }

    async fn with<T: MakeTlsConnect<Socket>>(&self, tls: T, has_failed: &mut bool) -> Result<(), StoreError> {
        let what = "listen for changes";
        let connected = self.config.connect(tls).await;
        let (client, mut connection) = connected.map_err(|error| doing(what, error))?;
        let begin = async {
            client.batch_execute(LISTEN).await.map_err(|error| doing(what, error))?;
            *has_failed = false;
            // Something may have changed while nobody listened.
            self.tell(None);
            // The connection ends with its client.
            std::future::pending::<Result<(), StoreError>>().await
        };
        tokio::select! {
            outcome = begin => outcome,
            outcome = self.messages(&mut connection) => outcome.map_err(|error| doing(what, error)),
        }
    }

    async fn messages<S, T>(&self, connection: &mut Connection<S, T>) -> Result<(), tokio_postgres::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        T: AsyncRead + AsyncWrite + Unpin,
    {
        while let Some(message) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(told) = message? {
                self.tell(Some(told.channel()));
            }
        }
        Ok(())
    }

    /// Wakes all who wait for what was told, and if there is none, the next one.
    fn tell(&self, channel: Option<&str>) {
        let of_prompts = Some(&self.changed).filter(|_| channel != Some(CREATED));
        for told in of_prompts.into_iter().chain([&self.created]) {
            told.notify_one();
            told.notify_waiters();
        }
    }
}
