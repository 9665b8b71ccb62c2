//! What a running service does now and then: deleting what is old, recording what was only counted, fetching skills.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolgate_config::service::RetentionConfig;
use toolgate_engine::{Engine, Recovered};
use toolgate_fs::atomic;
use toolgate_model::Timestamp;
use toolgate_store::{OutputRetention, Store, outage};
use toolgate_tools::skills::remote::{FirstFetch, fetch};
use toolgate_web::Network;

use crate::grpc::ServeError;

/// The first clean-up comes this long after the start, the next ones this far apart.
const FIRST_SWEEP_DELAY: Duration = Duration::from_secs(60);
const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How often refusals that were only counted are recorded.
const FLUSH_INTERVAL: Duration = Duration::from_secs(10);

/// How often dead runs are looked for.
const DEAD_RUNS_INTERVAL: Duration = Duration::from_secs(5);

/// What is kept, and for how long.
#[derive(Clone, Copy)]
pub(super) struct Sweep {
    pub(super) keep: RetentionConfig,
    pub(super) audit: Option<Duration>,
    pub(super) max_total_bytes: u64,
}

/// Deletes what the retention does not keep, now and then until `stop`.
pub(super) async fn sweep(store: Arc<dyn Store>, rules: Sweep, stop: CancellationToken) -> Result<(), ServeError> {
    let mut wait = FIRST_SWEEP_DELAY;
    while stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
        wait = SWEEP_INTERVAL;
        let before = |age: Duration| Timestamp(Timestamp::now().millis().saturating_sub(millis(age)));
        let keep = OutputRetention {
            before: before(rules.keep.outputs),
            max_total_bytes: rules.max_total_bytes,
        };
        let results = [
            ("outputs", store.sweep_outputs(keep).await),
            ("calls", store.sweep_calls(before(rules.keep.calls)).await),
            ("events", store.sweep_journal(before(rules.keep.journal)).await),
        ];
        if let Some(age) = rules.audit {
            sweep_audit(&*store, before(age)).await;
        }
        for (what, result) in results {
            match result {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "deleted {what} past their retention"),
                Err(error) => outage::tell(&error, &format!("{what} could not be swept")),
            }
        }
    }
    Ok(())
}

/// Removes old records of the audit, a part at a time.
async fn sweep_audit(store: &dyn Store, before: Timestamp) {
    let mut total = 0;
    loop {
        match store.sweep_audit(before).await {
            Ok(0) => break,
            Ok(count) => total += count,
            Err(error) => {
                outage::tell(&error, "the audit could not be swept");
                break;
            }
        }
    }
    if total > 0 {
        tracing::info!(total, "removed records of the audit past their retention");
    }
}

/// Looks after the calls of runs that are dead: what only waited for a person waits again, the rest ends as lost.
pub(super) async fn take_over(engine: &Engine) -> anyhow::Result<()> {
    let Recovered { lost, resumed, folders } = engine.recover().await?;
    if resumed > 0 {
        tracing::info!(resumed, "calls of a run that has ended wait for a person again");
    }
    if lost > 0 {
        tracing::warn!(lost, "a run ended without closing; its calls are lost");
        let swept =
            tokio::task::spawn_blocking(move || folders.iter().map(|folder| atomic::sweep_dead(folder)).sum::<usize>());
        let swept = swept.await?;
        tracing::debug!(swept, "temporary files of that run deleted");
    }
    Ok(())
}

/// Looks after what commands with a service of their own (`toolgate call`, `toolgate mcp`) leave in the data directory when
/// they are killed.
pub(super) async fn look_after_dead_runs(
    engine: Arc<Engine>,
    store: Arc<dyn Store>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let pause = || tokio::time::sleep(DEAD_RUNS_INTERVAL);
    while stop.run_until_cancelled(pause()).await.is_some() {
        let looked = store.clone();
        let dead = tokio::task::spawn_blocking(move || looked.has_dead_runs());
        if !matches!(dead.await, Ok(true)) && !engine.calls().has_adopted() {
            continue;
        }
        if let Err(error) = take_over(&engine).await {
            let error: &(dyn std::error::Error + 'static) = error.as_ref();
            tracing::error!(error, "what a dead run left could not be looked after");
            continue;
        }
        let tidied = store.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || tidied.forget_dead_runs()).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "locks of dead runs could not be removed"
            );
        }
    }
    Ok(())
}

/// Records now and then how many refusals were only counted.
pub(super) async fn flush_refusals(engine: Arc<Engine>, stop: CancellationToken) -> Result<(), ServeError> {
    while stop
        .run_until_cancelled(tokio::time::sleep(FLUSH_INTERVAL))
        .await
        .is_some()
    {
        engine.refusals().flush(false);
    }
    Ok(())
}

/// Fetches the skills that are not there yet, workspace by workspace. Whoever lists skills afterwards finds them.
pub(super) async fn fetch_skills(
    network: Network,
    fetches: Vec<FirstFetch>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    for first in fetches {
        for remote in &first.wanted {
            let url = &remote.url;
            match stop.run_until_cancelled(fetch(remote, &network)).await {
                None => return Ok(()),
                Some(Ok(true)) => tracing::info!(url, "skills fetched"),
                Some(Ok(false)) => {}
                Some(Err(error)) => tracing::warn!(url, "skills.urls: the skills are left out: {error}"),
            }
        }
    }
    Ok(())
}

/// Notes the head of the audit where whoever can write to the data directory may not be able to: in the log.
pub(super) async fn log_head(store: &dyn Store, what: &str) {
    match store.audit_end().await {
        Ok(end) => tracing::info!(sequence = end.head.sequence, hash = %end.head.hash, "{what}"),
        Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "the audit could not be read"),
    }
}

fn millis(age: Duration) -> i64 {
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}
