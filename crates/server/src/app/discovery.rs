//! Where the gateways are that a worker uses, and what it shows them: looked up again every few seconds.
//!
//! A name in `cluster.gateways` is one gateway, or with `cluster.resolve` as many as it has addresses. Each of those shows a certificate
//! for the name.
//!
//! *Invariant:* what cannot be looked up or read changes nothing: what was known stays in use. Only an answer that leaves an address out
//! says that its gateway is gone.

#![allow(clippy::disallowed_methods)] // reads its own credentials

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolgate_config::service::ClusterConfig;
use toolgate_ledger::{Way, Ways};
use toolgate_store::outage::Outage;
use toolgate_web::Url;

use super::outgoing::{self, Pems};

/// How often names are looked up, and files of certificates read.
const LOOK: Duration = Duration::from_secs(2);

/// How long a name may take to be looked up.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses that one name may have.
const MAX_ADDRESSES: usize = 64;

/// The gateways, for as long as this is kept.
pub(super) struct Discovery {
    pub(super) ways: Ways,
    _ending: DropGuard,
}

/// What a look has found.
#[derive(Clone, PartialEq, Eq)]
struct Found {
    /// The addresses of each entry that is looked up.
    addresses: BTreeMap<String, Vec<SocketAddr>>,
    /// The digest of all files of certificates.
    files: [u8; 32],
}

impl Discovery {
    /// Finds the gateways of a configuration, and goes on to look where they are.
    ///
    /// # Errors
    /// A file cannot be used; the text names it. That a name has no address yet is none.
    pub(super) async fn start(config: &ClusterConfig, tasks: &TaskTracker) -> anyhow::Result<Self> {
        let (config, outage) = (Arc::new(config.clone()), Outage::default());
        let mut found = Found {
            addresses: BTreeMap::new(),
            files: digest(&config).await?,
        };
        look_up(&config, &mut found, &outage).await;
        let (sender, ways) = watch::channel(made(&config, &found, 0).await?);
        let ending = CancellationToken::new();
        let stop = ending.clone();
        tasks.spawn(async move {
            let (refused, mut version) = (Outage::default(), 0);
            while stop.run_until_cancelled(sleep(LOOK)).await.is_some() {
                let mut now = found.clone();
                look_up(&config, &mut now, &outage).await;
                let files = digest(&config).await;
                let read = files.map(|files| now.files = files);
                if read.is_ok() && now == found {
                    continue;
                }
                if now.files != found.files {
                    version += 1;
                }
                let ways = match read {
                    Ok(()) => made(&config, &now, version).await,
                    Err(error) => Err(error),
                };
                match ways {
                    Ok(ways) => {
                        found = now;
                        let _ = refused.is_over();
                        sender.send_replace(ways);
                    }
                    Err(error) => {
                        if refused.fails().is_some() {
                            let error = format!("{error:#}");
                            tracing::error!(
                                error,
                                "changed files of certificates cannot be used; those before stay in use"
                            );
                        }
                    }
                }
            }
        });
        Ok(Self {
            ways,
            _ending: ending.drop_guard(),
        })
    }
}

/// Returns the files by which gateways and this worker know each other.
fn pems(config: &ClusterConfig) -> Pems<'_> {
    Pems {
        ca: config.ca.as_deref(),
        identity: config.certificate.as_deref().zip(config.key.as_deref()),
    }
}

/// Returns the digest of the files of certificates.
async fn digest(config: &Arc<ClusterConfig>) -> anyhow::Result<[u8; 32]> {
    let files: Vec<PathBuf> = [&config.ca, &config.certificate, &config.key]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let read = move || {
        let mut hash = Sha256::new();
        for file in files {
            let content = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            hash.update((content.len() as u64).to_le_bytes());
            hash.update(content);
        }
        Ok(hash.finalize().into())
    };
    tokio::task::spawn_blocking(read).await?
}

/// Looks up the addresses of all names that stand for several gateways.
async fn look_up(config: &ClusterConfig, found: &mut Found, outage: &Outage) {
    for (gateway, host, port) in config.gateways.iter().filter_map(|gateway| name_of(config, gateway)) {
        let looked = timeout(LOOKUP_TIMEOUT, lookup_host((host.as_str(), port))).await;
        let why = match looked {
            Ok(Ok(addresses)) => {
                let mut addresses: Vec<SocketAddr> = addresses.collect();
                addresses.sort();
                addresses.dedup();
                addresses.truncate(MAX_ADDRESSES);
                if addresses.is_empty() {
                    "it has no address".to_owned()
                } else {
                    let _ = outage.is_over();
                    found.addresses.insert(gateway.clone(), addresses);
                    continue;
                }
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "nobody answers".to_owned(),
        };
        if outage.fails().is_some() {
            tracing::warn!(
                gateway,
                why,
                "the addresses of gateways cannot be looked up; those before stay in use"
            );
        }
    }
}

/// Returns the host and the port of an entry, if it stands for as many gateways as its name has addresses.
fn name_of<'c>(config: &ClusterConfig, gateway: &'c String) -> Option<(&'c String, String, u16)> {
    let url = Url::parse(gateway).ok().filter(|_| config.resolve)?;
    let host = url.domain()?.to_owned();
    Some((gateway, host, url.port_or_known_default()?))
}

/// Makes the ways to all gateways.
async fn made(config: &Arc<ClusterConfig>, found: &Found, version: u64) -> anyhow::Result<Arc<[Way]>> {
    let (config, found) = (config.clone(), found.clone());
    let make = move || {
        let mut ways = Vec::new();
        for gateway in &config.gateways {
            let named = |error: anyhow::Error| error.context(format!("cluster.gateways: {gateway}"));
            let Some((_, host, _)) = name_of(&config, gateway) else {
                ways.push(Way {
                    name: gateway.clone(),
                    endpoint: outgoing::endpoint(gateway, pems(&config)).map_err(named)?,
                    version,
                });
                continue;
            };
            let scheme = if gateway.starts_with("https://") {
                "https"
            } else {
                "http"
            };
            for address in found.addresses.get(gateway).into_iter().flatten() {
                let endpoint = outgoing::endpoint_as(&format!("{scheme}://{address}"), Some(&host), pems(&config));
                ways.push(Way {
                    name: format!("{gateway} at {address}"),
                    endpoint: endpoint.map_err(named)?,
                    version,
                });
            }
        }
        Ok(ways.into())
    };
    tokio::task::spawn_blocking(make).await?
}
