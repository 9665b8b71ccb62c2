//! A gateway: many workspaces behind one address. It runs no call itself; it knows who calls, finds the worker of what a request
//! names, and passes the request on, on behalf of its caller. One without a database keeps nothing; one with it answers what is kept.
//!
//! *Invariant:* no workspace, no data folder, no program. What passes is not decoded beyond the first message of a request, and is
//! never changed but where that message names no workspace. A slow client costs a bounded buffer, and nobody else anything.
//!
//! In reading order:
//!
//! - `table`: how each RPC of the contract finds its worker;
//! - `front`: the service, which follows the table;
//! - `parts`: what all answers share;
//! - `wire`: messages and their frames;
//! - `facts`, `lines`, `worker`, `learn`, `owners`, `registry`, `directory`: what a worker said last; the connections to it; one worker; what it
//!   says when it is asked; whose a workspace is; all workers; whose an id is;
//! - `register`, `listed`, `room`, `versions`, `beside`: workers that register themselves; workers as messages have them; how many may register;
//!   which versions go together; the service for them;
//! - `bindings`, `pool`: workers that came without a workspace: what each was bound to, and when one is;
//! - `ledger`, `ledger_access`, `ledger_messages`, `ledger_limit`, `ledger_load`, `ledger_rate`, `ledger_tasks`, `followers`: what workers store and
//!   read through a gateway with a store, which of them may, how that is read and answered, how long it takes at most, how much of each is
//!   under way, and how much it may store over time, what is done for it beside requests, and who hears of changed prompts;
//! - `lists`, `pages`: lists of all workers as one, and where each was left off;
//! - `counts`, `tenants`: how many things of a name are under way; limits of groups of workspaces;
//! - `own`: what the gateway answers itself;
//! - `follow`: a stream of each worker, opened again when it breaks; `streams`, `events`: the prompts and the events of all workers as one
//!   stream;
//! - `trusted`: a server that is asked by authorities of its own;
//! - [`agent_sandbox`]: pods for workspaces in a Kubernetes cluster;
//! - [`store`], `stored`: the database of a gateway that has one, and what is answered from it;
//! - `shared`, `reattach`: calls that several clients watch; streams of calls that go on after a connection broke;
//! - `created`, with its parts in `created/`, `webhook`: workspaces that clients create, and a server of the operator's that makes their
//!   places;
//! - `doors`: MCP clients and opened ports, which do not speak gRPC.

pub mod agent_sandbox;
mod beside;
mod bindings;
mod counts;
mod created;
mod directory;
mod doors;
mod events;
mod facts;
mod follow;
mod followers;
mod front;
mod learn;
mod ledger;
mod ledger_access;
mod ledger_limit;
mod ledger_load;
mod ledger_messages;
mod ledger_rate;
mod ledger_tasks;
mod lines;
mod listed;
mod lists;
mod own;
mod owners;
mod pages;
mod parts;
mod pool;
mod reattach;
mod register;
mod registry;
mod room;
mod shared;
pub mod store;
mod stored;
mod streams;
mod table;
mod tenants;
mod trusted;
mod versions;
mod webhook;
mod wire;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_config::Config;
use toolgate_config::service::ProvisionerKind;
use toolgate_contract::cluster::cluster_service_server::ClusterServiceServer;
use toolgate_model::InstanceId;
use toolgate_server::app::entrance::{self, Addresses, Entrance};
use toolgate_server::app::store_front::StoreFront;
use toolgate_server::grpc::{Closing, ServeError, Services};
use toolgate_server::provision::Provisioner;
use toolgate_store::created::CreatedWorkspaces;
use toolgate_store::ledger::Ledger;
use toolgate_telemetry::{Snapshot, Watched};
use toolgate_web::{Network, Url};

use self::agent_sandbox::AgentSandbox;
use self::beside::Beside;
use self::bindings::Bindings;
use self::created::{Created, Means};
use self::front::Front;
use self::ledger::LedgerDoor;
use self::ledger_rate::StoreRate;
use self::pool::Pool;
use self::register::Cluster;
use self::registry::Registry;
use self::trusted::Trusted;
use self::webhook::{Way, Webhook};
use self::worker::Worker;

/// How long streams may take to deliver what they have.
const STREAMS_GRACE: Duration = Duration::from_secs(2);

/// How long before the first stream ends all are told that they will.
const NOTICE: Duration = Duration::from_millis(100);

/// How long after a stream the next one ends when the gateway stops: its client comes to another gateway then.
const BETWEEN_ENDS: Duration = Duration::from_millis(2);

/// The database of a gateway that has one: what runs there, and the workspaces that were created.
type Stores = (Option<Arc<dyn Ledger>>, Option<Arc<dyn CreatedWorkspaces>>);

/// A gateway that listens.
pub struct Gateway {
    /// Where it listens on TCP; the port is the real one.
    pub tcp: Option<SocketAddr>,
    /// Whether that is encrypted.
    pub tls: bool,
    /// Its Unix socket.
    pub unix: Option<PathBuf>,
    /// Where workers come that have a listener of their own; the port is the real one.
    pub workers: Option<SocketAddr>,
    /// Where operators ask for it; the port is the real one.
    pub admin: Option<SocketAddr>,
    /// Whether it serves the console.
    pub console: bool,
    entrance: Entrance,
    store: Option<StoreFront>,
    services: Services,
    for_workers: Services,
    servers: JoinSet<Result<(), ServeError>>,
    stop: CancellationToken,
    closing: Closing,
    drain_grace: Duration,
}

/// A gateway is ready while it runs: workers come and go, and while its database is away nobody but it can say so.
struct Ready(Closing, Option<StoreFront>);

#[async_trait]
impl Watched for Ready {
    async fn snapshot(&self) -> Snapshot {
        let ((open, unseen), untold) = match &self.1 {
            Some(store) => (store.prompts().await, store.untold().await),
            None => ((0, 0), None),
        };
        Snapshot {
            running: 0,
            queued: 0,
            prompts_open: open as u64,
            prompts_unseen: unseen as u64,
            free_bytes: None,
            untold,
            configuration_problems: None,
            draining: self.0.at_once().is_cancelled(),
        }
    }

    async fn ready(&self) -> Result<(), String> {
        match self.0.at_once().is_cancelled() {
            true => Err("draining".to_owned()),
            false => Ok(()),
        }
    }

    async fn store(&self) -> Result<(), String> {
        self.1.as_ref().map_or(Ok(()), StoreFront::store)
    }
}

/// Returns who makes the places of workspaces that clients create, if anybody does.
async fn provisioner(config: &Config) -> anyhow::Result<Option<Arc<dyn Provisioner>>> {
    let settings = &config.provisioner;
    let Some(kind) = settings.kind else {
        return Ok(None);
    };
    Ok(Some(match kind {
        ProvisionerKind::Webhook => {
            let url = settings.url.as_deref().context("cluster.provisioner.url is not set")?;
            let url = Url::parse(url).context("cluster.provisioner.url")?;
            let token = settings.token_file.clone();
            let token = token.context("cluster.provisioner.token_file is not set")?;
            let way = match settings.ca_file.clone() {
                Some(ca_file) => {
                    let trusted = Trusted::new(url, Some(ca_file));
                    trusted.server().await.context("cluster.provisioner")?;
                    Way::Trusted(trusted)
                }
                None => Way::Network(Network::new(config.network.clone()), url),
            };
            Arc::new(Webhook::new(way, token))
        }
        ProvisionerKind::AgentSandbox => {
            let template = settings.template.clone();
            let token_file = settings.token_file.clone();
            let settings = agent_sandbox::Settings {
                api: settings.api.clone(),
                namespace: settings.namespace.clone(),
                template: template.context("cluster.provisioner.template is not set")?,
                ca_file: settings.ca_file.clone(),
                token_file: token_file.context("cluster.provisioner.token_file is not set")?,
            };
            Arc::new(AgentSandbox::open(settings).await?)
        }
    }))
}

impl Gateway {
    /// Reads the credentials, asks the workers once, and listens.
    ///
    /// # Errors
    /// A file, an address or a socket cannot be used; the text names it.
    pub async fn start(config: &Config) -> anyhow::Result<Self> {
        let instance = InstanceId::generate();
        let store = store::open(config, &instance).await?;
        let created = store.clone().map(|store| store as Arc<dyn CreatedWorkspaces>);
        let ledger = store.map(|store| store as Arc<dyn Ledger>);
        Self::start_as(config, instance, (ledger, created)).await
    }

    /// As [`Self::start`], with a store that is open already, whatever the configuration says of one.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with(config: &Config, ledger: Option<Arc<dyn Ledger>>) -> anyhow::Result<Self> {
        Self::start_as(config, InstanceId::generate(), (ledger, None)).await
    }

    async fn start_as(config: &Config, instance: InstanceId, (ledger, created): Stores) -> anyhow::Result<Self> {
        let entrance = Entrance::open(config).await?;
        let limit = usize::try_from(config.limits.max_message_bytes).unwrap_or(usize::MAX);
        let workers = config.cluster.workers.clone();
        let workers = tokio::task::spawn_blocking(move || {
            let workers = workers.into_iter().map(|worker| Worker::new(worker, limit));
            workers.collect::<anyhow::Result<Vec<_>>>()
        });
        let registry = Arc::new(Registry::new(workers.await??, ledger.clone()));
        registry.refresh().await;
        let (stop, closing) = (CancellationToken::new(), Closing::default());
        let tunnels = TaskTracker::new();
        let store = match ledger.clone() {
            Some(store) => {
                let around = (&entrance, tunnels.clone());
                let opened = StoreFront::open(
                    config,
                    (store, instance.clone()),
                    registry.clone(),
                    around,
                    closing.clone(),
                );
                Some(opened.await?)
            }
            None => None,
        };
        let metrics = entrance.telemetry.metrics.clone();
        let watched = registry.clone();
        metrics.watch_workers(move || {
            watched
                .workers()
                .iter()
                .filter(|worker| watched.tells_of(worker))
                .map(|worker| worker.told_to_operators())
                .collect()
        });
        let carries = (entrance.traffic.clone(), tunnels.clone(), metrics);
        let bindings = ledger.clone().map(|ledger| Arc::new(Bindings::new(ledger)));
        let uses = config.cluster.pool;
        let pool = bindings.clone().map(|bindings| {
            Arc::new(Pool::new(
                registry.clone(),
                bindings,
                entrance.authenticator.clone(),
                uses,
            ))
        });
        let created = match (created, &ledger, &store, &pool) {
            (Some(created), Some(ledger), Some(front), Some(pool)) => provisioner(config).await?.map(|provisioner| {
                let means = Means {
                    store: created,
                    ledger: ledger.clone(),
                    provisioner,
                    registry: registry.clone(),
                    front: front.clone(),
                    pool: pool.clone(),
                };
                Created::new(means, &config.provisioner, closing.at_once().clone())
            }),
            _ => None,
        };
        if let Some(created) = created.clone() {
            entrance.telemetry.metrics.watch_created(move || created.counts());
        }
        let ledger = ledger
            .zip(bindings.clone())
            .map(|(ledger, bindings)| LedgerDoor::new(ledger, bindings, closing.clone()));
        let rate = StoreRate {
            records: config.limits.max_worker_records_per_second,
            bytes: config.limits.max_worker_bytes_per_second,
        };
        let served = Beside {
            takes_workers: !entrance.is_apart_for_workers(),
            front: Some(Front::new(
                config,
                registry.clone(),
                carries,
                &instance,
                (store.clone(), closing.clone()),
                (pool, created.clone()),
            )),
            cluster: ClusterServiceServer::new(Cluster::new(
                config,
                registry.clone(),
                (ledger.clone(), bindings),
                closing.clone(),
            )),
            ledger: ledger
                .as_ref()
                .map(|ledger| ledger.service(rate, &entrance.telemetry.metrics)),
        };
        if let Some(ledger) = ledger.clone() {
            let watched = registry.clone();
            let waits = move || watched.workers().iter().filter(|worker| worker.waits()).count();
            entrance.telemetry.metrics.watch_fleet(move || ledger.facts(waits()));
        }
        let for_workers = Beside {
            front: None,
            takes_workers: true,
            ..served.clone()
        };
        let door = (entrance.authenticator.clone(), entrance.traffic.clone(), tunnels);
        let services = Services::passing_on(config, door.clone(), &entrance.telemetry, served).await;
        let no_pages = config.for_workers_alone();
        let for_workers = Services::passing_on(&no_pages, door, &entrance.telemetry, for_workers).await;
        let mut servers = JoinSet::new();
        let Addresses { tcp, tls, unix } = entrance.listen(&services, &mut servers, &stop).await?;
        let workers = entrance.listen_for_workers(&for_workers, &mut servers, &stop).await?;
        if let Some(store) = &store {
            store.keep(config, services.store_health().await, &mut servers, &stop);
        }
        if let Some(ledger) = ledger {
            let working = ledger.work(stop.clone());
            servers.spawn(async move {
                working.await;
                Ok(())
            });
        }
        if let Some(created) = created {
            let until = stop.clone();
            servers.spawn(async move {
                created.work(until).await;
                Ok(())
            });
        }
        let watched = stop.clone();
        servers.spawn(async move {
            registry.watch(watched).await;
            Ok(())
        });
        if let Some(admin) = &entrance.admin {
            admin.watch(Arc::new(Ready(closing.clone(), store.clone())));
        }
        Ok(Self {
            tcp,
            tls,
            unix,
            workers,
            for_workers,
            admin: entrance.admin.as_ref().map(toolgate_telemetry::Admin::address),
            console: config.console,
            entrance,
            store,
            services,
            servers,
            stop,
            closing,
            drain_grace: config.drain_grace,
        })
    }

    /// Returns when a listener has failed; the gateway should be stopped then.
    pub async fn failed(&mut self) -> anyhow::Error {
        entrance::failure(&mut self.servers).await
    }

    /// Stops in order: health NOT_SERVING, no new connections, the end of streams that have none of their own, time for what is under way, the
    /// end of the streams of calls that go on; then the rest is cut off. Many streams end one after the other.
    pub async fn drain(mut self) {
        self.services.stop_serving().await;
        self.for_workers.stop_serving().await;
        if let Some(store) = &self.store {
            store.drain().await;
        }
        self.closing.begin();
        Addresses::remove_socket(self.unix.as_deref());
        self.stop.cancel();
        let time = self.drain_grace.saturating_sub(STREAMS_GRACE);
        let streams = u32::try_from(self.entrance.traffic.open_streams()).unwrap_or(u32::MAX);
        let spread = BETWEEN_ENDS.saturating_mul(streams).min(time / 2);
        let notice = if streams > 0 { NOTICE.min(time) } else { Duration::ZERO };
        let has_finished = {
            let finished = async { while self.servers.join_next().await.is_some() {} };
            let ends = async {
                sleep(notice).await;
                self.closing.end_first(spread).await;
                sleep(time.saturating_sub(notice + 2 * spread)).await;
                self.closing.end_last(spread).await;
                sleep(STREAMS_GRACE).await;
            };
            tokio::select! {
                () = finished => true,
                () = ends => false,
            }
        };
        if !has_finished {
            self.servers.shutdown().await;
        }
        self.closing.forget();
        if let Some(store) = self.store {
            store.close().await;
        }
        self.entrance.close().await;
    }
}
