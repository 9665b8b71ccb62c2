//! Where the gateways are that a worker uses, and what it shows them: looked up again every few seconds.
//!
//! A name in `cluster.gateways` is one gateway, or with `cluster.resolve` as many as it has addresses. Each of those shows a certificate
//! for the name. Where a name has addresses of IPv4 and of IPv6, a gateway mostly has one of each: those of one family are used.
//!
//! *Invariant:* what cannot be looked up or read changes nothing: what was known stays in use. Only answers that leave an address out,
//! several in a row, say that its gateway is gone.

#![allow(clippy::disallowed_methods)] // reads its own credentials, and looks which gateways answer

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::select_ok;
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpStream, lookup_host};
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

/// How long an address may take to answer when it is looked which ones do.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Addresses that one name may have.
const MAX_ADDRESSES: usize = 64;

/// After how many answers in a row that leave an address out it is gone: one may come from a server that has not heard of it yet.
const MISSED_ANSWERS: u32 = 3;

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

/// What answers have told of a name.
#[derive(Default)]
struct Name {
    /// Whether the addresses of IPv6 are the ones that are used; none while no gateway has answered at either kind.
    is_ipv6: Option<bool>,
    /// The addresses in use, each with how many answers in a row have left it out.
    missed: BTreeMap<SocketAddr, u32>,
    /// Whether it was told that there are too many.
    has_too_many: bool,
}

impl Name {
    /// Decides which addresses are used of an answer that has some: the first kind, unless only gateways of the other one answer.
    async fn is_ipv6(&mut self, answer: &[SocketAddr]) -> bool {
        let first = answer.first().is_some_and(SocketAddr::is_ipv6);
        let kind = |is_ipv6: bool| {
            answer
                .iter()
                .filter(move |address| address.is_ipv6() == is_ipv6)
                .copied()
        };
        let is_known = self.is_ipv6.is_some() || kind(!first).next().is_none();
        if !is_known {
            let (one, other) = tokio::join!(is_answered(kind(first)), is_answered(kind(!first)));
            self.is_ipv6 = (one || other).then_some(if one { first } else { !first });
            return self.is_ipv6.unwrap_or(first);
        }
        *self.is_ipv6.get_or_insert(first)
    }

    /// Takes an answer in, of which these addresses are used; returns how many are too many.
    fn hear(&mut self, answer: &[SocketAddr], is_ipv6: bool) -> usize {
        let told: BTreeSet<&SocketAddr> = answer.iter().filter(|address| address.is_ipv6() == is_ipv6).collect();
        for (address, missed) in &mut self.missed {
            *missed = if told.contains(address) { 0 } else { *missed + 1 };
        }
        if told.is_empty() {
            // The other kind is taken with the next answer.
            if self.missed.values().all(|missed| *missed >= MISSED_ANSWERS) {
                self.is_ipv6 = None;
            }
            return 0;
        }
        self.missed
            .retain(|address, missed| *missed < MISSED_ANSWERS && address.is_ipv6() == is_ipv6);
        let mut too_many = 0;
        for address in told {
            if self.missed.contains_key(address) {
                continue;
            }
            if self.missed.len() < MAX_ADDRESSES {
                self.missed.insert(*address, 0);
            } else {
                too_many += 1;
            }
        }
        too_many
    }
}

/// Says whether something answers at one of some addresses.
async fn is_answered(addresses: impl Iterator<Item = SocketAddr>) -> bool {
    let connecting = addresses
        .take(MAX_ADDRESSES)
        .map(|address| Box::pin(TcpStream::connect(address)));
    matches!(timeout(ANSWER_TIMEOUT, select_ok(connecting)).await, Ok(Ok(_)))
}

impl Discovery {
    /// Finds the gateways of a configuration, and goes on to look where they are.
    ///
    /// # Errors
    /// A file cannot be used; the text names it. That a name has no address yet is none.
    pub(super) async fn start(config: &ClusterConfig, tasks: &TaskTracker) -> anyhow::Result<Self> {
        let (config, outage, mut names) = (Arc::new(config.clone()), Outage::default(), BTreeMap::new());
        let mut found = Found {
            addresses: BTreeMap::new(),
            files: digest(&config).await?,
        };
        look_up(&config, &mut found, &mut names, &outage).await;
        let (sender, ways) = watch::channel(made(&config, &found, 0).await?);
        let ending = CancellationToken::new();
        let stop = ending.clone();
        tasks.spawn(async move {
            let (refused, mut version) = (Outage::default(), 0);
            while stop.run_until_cancelled(sleep(LOOK)).await.is_some() {
                let mut now = found.clone();
                look_up(&config, &mut now, &mut names, &outage).await;
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
                        sender.send_modify(|known| *known = kept(known, &ways));
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
async fn look_up(config: &ClusterConfig, found: &mut Found, names: &mut BTreeMap<String, Name>, outage: &Outage) {
    for (gateway, host, port) in config.gateways.iter().filter_map(|gateway| name_of(config, gateway)) {
        let looked = timeout(LOOKUP_TIMEOUT, lookup_host((host.as_str(), port))).await;
        let why = match looked {
            Ok(Ok(addresses)) => {
                let addresses: Vec<SocketAddr> = addresses.collect();
                if addresses.is_empty() {
                    "it has no address".to_owned()
                } else {
                    let _ = outage.is_over();
                    let name = names.entry(gateway.clone()).or_default();
                    let is_ipv6 = name.is_ipv6(&addresses).await;
                    let too_many = name.hear(&addresses, is_ipv6);
                    if too_many > 0 && !name.has_too_many {
                        tracing::warn!(
                            gateway,
                            too_many,
                            "the name has more than {MAX_ADDRESSES} addresses: the gateways at the others are not used"
                        );
                    }
                    name.has_too_many = too_many > 0;
                    let addresses = name.missed.keys().copied().collect();
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

/// Returns some ways, each with the connection that it has already.
fn kept(known: &[Way], ways: &[Way]) -> Arc<[Way]> {
    let same = |way: &Way| {
        known
            .iter()
            .find(|one| one.name == way.name && one.version == way.version)
    };
    ways.iter().map(|way| same(way).unwrap_or(way).clone()).collect()
}

/// Makes the ways to all gateways.
async fn made(config: &Arc<ClusterConfig>, found: &Found, version: u64) -> anyhow::Result<Arc<[Way]>> {
    let (config, found) = (config.clone(), found.clone());
    let make = move || {
        let mut ways = Vec::new();
        for gateway in &config.gateways {
            let named = |error: anyhow::Error| error.context(format!("cluster.gateways: {gateway}"));
            let Some((_, host, _)) = name_of(&config, gateway) else {
                let endpoint = outgoing::endpoint(gateway, pems(&config)).map_err(named)?;
                ways.push(Way::new(gateway.clone(), endpoint, version));
                continue;
            };
            let scheme = if gateway.starts_with("https://") {
                "https"
            } else {
                "http"
            };
            for address in found.addresses.get(gateway).into_iter().flatten() {
                let endpoint = outgoing::endpoint_as(&format!("{scheme}://{address}"), Some(&host), pems(&config));
                let name = format!("{gateway} at {address}");
                ways.push(Way::new(name, endpoint.map_err(named)?, version));
            }
        }
        Ok(ways.into())
    };
    tokio::task::spawn_blocking(make).await?
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn in_use(name: &Name) -> Vec<String> {
        name.missed.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn an_address_is_gone_when_several_answers_leave_it_out() {
        let (one, both) = (addresses(&["10.0.0.1:1"]), addresses(&["10.0.0.2:1", "10.0.0.1:1"]));
        let mut name = Name::default();
        for answer in [&both, &one, &one, &both, &one, &one] {
            assert_eq!(name.hear(answer, false), 0);
            assert_eq!(in_use(&name), ["10.0.0.1:1", "10.0.0.2:1"]);
        }
        name.hear(&one, false);
        assert_eq!(in_use(&name), ["10.0.0.1:1"]);
    }

    #[test]
    fn so_many_addresses_are_used() {
        let many: Vec<SocketAddr> = (1..=MAX_ADDRESSES + 3)
            .map(|number| SocketAddr::from(([10, 0, 0, number as u8], 1)))
            .collect();
        let mut name = Name::default();
        assert_eq!(name.hear(&many, false), 3);
        let before = in_use(&name);
        // Those that are there stay, in whatever order they come.
        assert_eq!(name.hear(&many.into_iter().rev().collect::<Vec<_>>(), false), 3);
        assert_eq!(in_use(&name), before);
    }

    #[tokio::test]
    async fn of_two_families_the_one_is_used_that_answers() {
        let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let v4 = gateway.local_addr().unwrap();
        // Nobody is there.
        let v6 = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, v4.port()));
        let mut name = Name::default();
        for answer in [[v6, v4], [v4, v6]] {
            assert!(!name.is_ipv6(&answer).await);
            name.hear(&answer, false);
            assert_eq!(in_use(&name), [v4.to_string()]);
        }
        // It stays so until that family is gone for sure.
        for _ in 0..MISSED_ANSWERS {
            assert!(!name.is_ipv6(&[v6]).await);
            name.hear(&[v6], false);
            assert_eq!(in_use(&name), [v4.to_string()]);
        }
        assert!(name.is_ipv6(&[v6]).await);
        name.hear(&[v6], true);
        assert_eq!(in_use(&name), [v6.to_string()]);
        // Where none answers, the first is taken for the time being.
        drop(gateway);
        let mut name = Name::default();
        assert!(name.is_ipv6(&[v6, v4]).await && name.is_ipv6.is_none());
    }
}
