//! The store of a worker, which has none: what happens is stored through the gateways.
//!
//! *Invariant:* nothing else here knows how that is done.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use toolgate_config::Config;
use toolgate_config::service::ClusterConfig;
use toolgate_ledger::chance::with_chance;
use toolgate_ledger::{Identity, LedgerOptions, LedgerStore, NotAccepted, Ways};
use toolgate_model::InstanceId;
use toolgate_store::StoreError;
use toolgate_store::local::QuotaLimits;
use toolgate_store::outage::Outage;
use toolgate_web::Network;

use super::outgoing;

/// How long a worker that starts waits for workspaces that another run has.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it waits for its gateways: thousands that start at once have their turns one after the other.
const PATIENCE_WITH_GATEWAYS: Duration = Duration::from_secs(300);

/// How long it waits before the next attempt: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Takes the workspaces of the configuration for one run, and returns its store.
pub(super) async fn open_ledger(config: &Config, instance: InstanceId, gateways: Ways) -> anyhow::Result<LedgerStore> {
    let cluster = &config.cluster;
    let identity = cluster.identity.clone().map(|path| -> Identity {
        // Read anew each time: it may have been exchanged.
        Arc::new(move || outgoing::token(&path))
    });
    let options = LedgerOptions {
        identity,
        address: cluster.advertise.clone().unwrap_or_default(),
        workspaces: config
            .workspaces
            .iter()
            .map(|workspace| workspace.name.clone())
            .collect(),
        limits: QuotaLimits {
            max_bytes: config.limits.max_total_output_bytes,
            min_free_bytes: config.limits.min_free_bytes,
            keep_outputs: config.retention.outputs,
        },
        patience: PATIENCE,
        network: Network::new(config.network.clone()),
        gateways,
        ..LedgerOptions::new(Vec::new(), instance, config.data_dir.clone())
    };
    let (begun, outage, mut pause) = (Instant::now(), Outage::default(), PAUSES.0);
    let store = loop {
        match LedgerStore::open(options.clone()).await {
            // They may be started at the same time, and wait for their database.
            Err(StoreError::Unavailable(why)) if begun.elapsed() < PATIENCE_WITH_GATEWAYS => {
                if outage.fails().is_some() {
                    let patience = PATIENCE_WITH_GATEWAYS.as_secs();
                    tracing::warn!(why, "waiting for a gateway, for up to {patience} s");
                }
                sleep(with_chance(pause)).await;
                pause = (pause * 2).min(PAUSES.1);
            }
            opened => break opened,
        }
    };
    store.map_err(|error| match not_accepted(&error) {
        Some(said) => anyhow::Error::new(Unwelcome(format!(
            "no gateway lets this worker in: {said}. {}",
            shown(cluster)
        ))),
        None => anyhow::Error::new(error).context(
            "cannot take the workspaces through the gateways (cluster.gateways): do they run, and have a database?",
        ),
    })
}

/// No gateway has accepted the worker, from the beginning: it is its configuration, or that of the gateways, which is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwelcome(String);

/// Returns what the gateways said if they do not accept who this worker is.
fn not_accepted(error: &StoreError) -> Option<String> {
    let StoreError::Failed { source, .. } = error else {
        return None;
    };
    source.is::<NotAccepted>().then(|| source.to_string())
}

/// Says what this worker shows of itself, and what to do about it.
pub(super) fn shown(cluster: &ClusterConfig) -> String {
    let (what, remedy) = match (&cluster.identity, &cluster.certificate) {
        (Some(path), _) => (
            format!("It shows the token in {} (cluster.identity)", path.display()),
            "put the token there that the gateways know, or tell them of this one (auth.tokens_file or auth.jwt, and auth.workers, of the \
             gateways)",
        ),
        (None, Some(path)) => (
            format!("It shows the certificate {} (cluster.certificate)", path.display()),
            "name it in auth.certificates and auth.workers of the gateways, which must know its authority",
        ),
        (None, None) => (
            "It shows nothing of itself".to_owned(),
            "set cluster.identity to a file with its token, or cluster.certificate",
        ),
    };
    format!("{what}: {remedy}")
}
