//! Whether the store of a gateway is there: looked at all the time, and told where operators look.
//!
//! *Invariant:* one line in the log when the store goes, one a minute while it is away, and one when it is back. Nothing here takes
//! the gateway out of service: it is the only one who can say to clients that the store is away, and where one gateway has lost it all
//! the others mostly have, too.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolgate_store::outage::Outage;
use toolgate_store::{Store, StoreError};
use toolgate_telemetry::Metrics;

use crate::grpc::{ServeError, StoreHealth};

/// How often it is looked.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long the store may take to say that it is there.
pub(super) const CHECK_TIMEOUT: Duration = Duration::from_secs(3);

/// How long whoever would be refused waits for the store to say otherwise.
const GLANCE: Duration = Duration::from_millis(500);

/// So many looks in a row find nothing before the store counts as away: one may meet a connection that has just broken.
const LOOKS: u32 = 2;

/// For how long the store is away.
#[derive(Clone, Default)]
pub(super) struct StoreWatch(Arc<Outage>);

impl StoreWatch {
    /// Says that the store is away, if it is. Why is for the log: whoever asks may not be known.
    pub(super) fn problem(&self) -> Option<String> {
        let seconds = self.0.lasts()?.as_secs();
        Some(format!(
            "the database has been away for {seconds} s: the log of the gateway says why"
        ))
    }

    /// As [`Self::problem`], for who would be refused: the store may be back since it was looked at, and whoever has just read from it
    /// is to be able to change something.
    pub(super) async fn problem_now(&self, store: &dyn Store) -> Option<String> {
        let problem = self.problem()?;
        match timeout(GLANCE, store.check()).await {
            Ok(Ok(())) => None,
            Ok(Err(_)) | Err(_) => Some(problem),
        }
    }

    /// Looks at the store until `stop`.
    pub(super) async fn work(
        self,
        store: Arc<dyn Store>,
        (health, metrics): (StoreHealth, Arc<Metrics>),
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        let watched = self.clone();
        metrics.watch_store(move || watched.0.lasts().is_none());
        let mut failed = 0;
        while let Some(found) = stop.run_until_cancelled(look(&*store)).await {
            failed = match &found {
                Ok(()) => 0,
                Err(_) => failed + 1,
            };
            self.note(found.err().filter(|_| failed >= LOOKS), failed == 0, &health)
                .await;
            if stop.run_until_cancelled(sleep(INTERVAL)).await.is_none() {
                break;
            }
        }
        Ok(())
    }

    async fn note(&self, problem: Option<String>, is_there: bool, health: &StoreHealth) {
        if let Some(problem) = problem {
            match self.0.fails() {
                Some(Duration::ZERO) => {
                    health.report(false).await;
                    tracing::error!(
                        problem,
                        "the database is away: commands that run go on, the rest is refused as STORE_UNAVAILABLE until it is back"
                    );
                }
                Some(time) => tracing::error!(problem, seconds = time.as_secs(), "the database is still away"),
                None => {}
            }
        } else if is_there && let Some(time) = self.0.is_over() {
            health.report(true).await;
            tracing::info!(seconds = time.as_secs(), "the database is back");
        }
    }
}

async fn look(store: &dyn Store) -> Result<(), String> {
    match timeout(CHECK_TIMEOUT, store.check()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(StoreError::Full(what))) => Err(format!("full: {what}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}
