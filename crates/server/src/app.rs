//! The composition root: the only module that names concrete tools, stores and services together, and the order in
//! which they start and stop.
//!
//! *Invariant:* wiring only, top to bottom. [`App::build`] makes everything, [`App::start`] listens, [`Running::drain`]
//! stops: health NOT_SERVING, new calls refused, grace, cancel, terminal events for all, streams closed, programs gone,
//! store closed.

mod call_programs;
mod created;
mod created_later;
mod created_records;
mod discovery;
pub mod entrance;
#[cfg(feature = "javascript")]
mod extensions;
#[cfg(not(feature = "javascript"))]
#[path = "app/extensions_absent.rs"]
mod extensions;
pub mod hangup;
mod languages;
mod ledger;
#[cfg(feature = "mcp")]
mod loopback;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(not(feature = "mcp"))]
#[path = "app/mcp_absent.rs"]
mod mcp;
#[cfg(feature = "mcp")]
pub mod mcp_login;
pub mod outgoing;
mod peers;
mod places;
#[cfg(feature = "javascript")]
mod plugin_answers;
#[cfg(feature = "javascript")]
mod plugin_events;
#[cfg_attr(not(feature = "javascript"), allow(dead_code, reason = "there are no plugins then"))]
mod plugins;
pub mod registration;
mod rules;
mod sandbox;
mod settings;
mod socket;
mod store;
pub mod store_front;
mod store_watch;
mod telemetry;
mod upkeep;
mod workspaces;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_config::service::{ClusterConfig, ClusterRole};
use toolgate_config::{Config, Environment, Flags};
use toolgate_engine::prompts::broker::Broker;
use toolgate_engine::{Engine, EngineDeps};
use toolgate_extensions::hosted::Hosts;
use toolgate_ledger::Told;
use toolgate_lsp::{self as lsp, ServerPool};
use toolgate_model::{InstanceId, Timestamp};
use toolgate_process::sandbox::{Kernel, Sandbox};
use toolgate_process::{self as process, Programs};
use toolgate_store::Store;
use toolgate_telemetry::Admin;
use toolgate_tool::Tool;
use toolgate_tools::skills::remote::FirstFetch;
use toolgate_web::Network;

use self::call_programs::ProgramsOfCalls;
use self::created::Creating;
use self::discovery::Discovery;
use self::entrance::{Addresses, Entrance};
use self::extensions::Extensions;
pub use self::ledger::Unwelcome;
use self::mcp::Servers;
pub use self::places::UnusableFolder;
use self::places::{Common, Opened, Opener, Sources, uploads};
use self::rules::Rules;
use self::upkeep::{Sweep, fetch_skills, flush_refusals, log_head, look_after_dead_runs, sweep};
use self::workspaces::AtRunTime;
use crate::grpc::{self, Closing, ServeError, Services, Shared, Watches, Workspaces as _};
pub use toolgate_model::{ITSELF, STARTED_AS_SERVER, STARTS_ITSELF};
pub use toolgate_process::{Temporary, unshield};
pub use toolgate_store::local::{AuditFile, Claim, ClaimError, output_folder, workspace_folder};

/// How long an exit that waits for nothing waits for programs to be killed.
const EMERGENCY_TIMEOUT: Duration = Duration::from_secs(1);

/// How long streams may take to deliver what they have when everything else has ended.
const STREAMS_GRACE: Duration = Duration::from_secs(2);

/// A service that is ready to listen.
pub struct App {
    parts: Parts,
    retention: Sweep,
    remote_skills: Vec<FirstFetch>,
    rules: Arc<Rules>,
    environment: Environment,
    network: Network,
    claim: Option<Claim>,
}

/// A service that listens.
pub struct Running {
    /// Where it listens on TCP; the port is the real one.
    pub tcp: Option<SocketAddr>,
    /// Whether that is encrypted.
    pub tls: bool,
    /// Its Unix socket.
    pub unix: Option<PathBuf>,
    /// This run of the service.
    pub instance: String,
    /// Names and folders of its workspaces.
    pub workspaces: Vec<(String, PathBuf)>,
    /// The folders below which others may be opened, links followed.
    pub roots: Vec<PathBuf>,
    /// Whether it serves the console.
    pub console: bool,
    /// Where operators ask for it; the port is the real one.
    pub admin: Option<SocketAddr>,
    parts: Parts,
    servers: JoinSet<Result<(), ServeError>>,
    stop_servers: CancellationToken,
    /// Its right to the data directory, if it is there to stay.
    claim: Option<Claim>,
}

/// What runs from the start to the end, and is stopped in order.
struct Parts {
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
    workspaces: AtRunTime,
    extensions: Arc<Extensions>,
    programs: Programs,
    mcp: Arc<Servers>,
    languages: Arc<ServerPool>,
    sandbox: Arc<Sandbox>,
    shared: Arc<Shared>,
    services: Services,
    entrance: Entrance,
    cluster: ClusterConfig,
    /// Whether it came without a workspace, and waits for one.
    is_unbound: bool,
    /// Where it registers.
    gateways: Option<Discovery>,
    /// What looks where they are.
    looking: TaskTracker,
    /// Ends when this run must stop at once: its calls may be another one's.
    stopped: CancellationToken,
    /// What a worker has changed, whose audit and journal the gateways keep; none where they are kept here.
    told: Option<Arc<Told>>,
    drain_grace: Duration,
}

impl App {
    /// Opens the store and makes the tools. `watchdog` is this program's own file, if its `main` begins with
    /// [`process::guard`]: then no program outlives a service that is killed.
    ///
    /// # Errors
    /// The data directory, a workspace or its configuration cannot be used; the text names it.
    pub async fn build(config: &Config, environment: &Environment, watchdog: Option<PathBuf>) -> anyhow::Result<Self> {
        let entrance = Entrance::open(config).await?;
        let (telemetry, authenticator) = (entrance.telemetry.clone(), entrance.authenticator.clone());
        process::adopt_orphans().context("cannot look after orphaned processes")?;
        let instance = InstanceId::generate();
        let looking = TaskTracker::new();
        let gateways = match config.cluster.gateways.is_empty() {
            true => None,
            false => Some(Discovery::start(&config.cluster, &looking).await?),
        };
        let opened = store::open(config, instance.clone(), gateways.as_ref(), &telemetry.metrics).await?;
        let store = opened.store;

        let variables: BTreeMap<OsString, OsString> = environment
            .vars()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let settings = process::Settings {
            filter: process::Filter {
                allow: config.shell.allow.clone(),
                deny: config.shell.deny.clone(),
            },
            watchdog,
            ..process::Settings::default()
        };
        let programs = Programs::new(&variables, settings).context("cannot prepare to start programs")?;
        let flags = Flags::from_environment(environment);
        // The store names its files by the real path, and so must the rules that let every agent read them.
        let data_dir = config
            .data_dir
            .canonicalize()
            .context("cannot find the data directory")?;
        let kernel = Kernel::probe();
        let (of_sandbox, variables, folder) = (config.clone(), environment.clone(), data_dir.clone());
        let sandbox =
            tokio::task::spawn_blocking(move || sandbox::prepare(&of_sandbox, &variables, &folder, kernel)).await??;
        let network = Network::new(config.network.clone());
        let common = Common::new(config, &programs, &network, flags.clone(), &data_dir, &sandbox);
        let ports = common.ports.clone();
        let uploads = uploads(&data_dir, config.limits.min_free_bytes);
        let hosts = Arc::new(Hosts::default());
        let is_nested = environment.get(STARTED_AS_SERVER).is_some();
        let mcp = Arc::new(Servers::new(
            programs.clone(),
            network.clone(),
            instance.clone(),
            is_nested,
        ));
        let languages = Arc::new(ServerPool::new(programs.clone(), lsp::Limits::default()));
        let extensions = Arc::new(Extensions::default());
        let rules = Arc::new(Rules::default());
        let opener = Opener {
            config: config.clone(),
            data_dir,
            environment: environment.clone(),
            store: store.clone(),
            common,
            sources: Sources {
                hosts: hosts.clone(),
                mcp: mcp.clone(),
                languages: languages.clone(),
                extensions: extensions.clone(),
                programs: programs.clone(),
            },
            sandbox: sandbox.clone(),
            news: rules.news.clone(),
        };
        let (mut places, mut remote_skills) = (Vec::new(), Vec::new());
        for opened in opener.open_configured()? {
            let Opened {
                place, fetch, watched, ..
            } = opened;
            places.push(place);
            remote_skills.push(fetch);
            watched.into_iter().for_each(|watched| rules.add(watched));
        }
        // Nobody waits for nothing.
        remote_skills.retain(|fetch: &FirstFetch| !fetch.wanted.is_empty());

        let (policy, approvals) = (settings::prompts(config), settings::approvals(config));
        let broker = Broker::open(store.clone(), instance.clone(), policy, approvals).await;
        let broker = broker.context("cannot read the standing approvals")?;
        let beside = EngineDeps {
            programs: Some(Arc::new(ProgramsOfCalls(programs.clone()))),
            elsewhere: None,
            redactor: config.redact.0.clone(),
            telemetry: telemetry.clone(),
        };
        let limits = settings::limits(config);
        let engine = Engine::new(store.clone(), broker, instance, places, limits, beside);
        let created = Creating::open(config, environment, (&programs, &network, &sandbox)).await?;
        let workspaces = AtRunTime::new(
            opener,
            engine.clone(),
            store.clone(),
            rules.clone(),
            network.clone(),
            created,
        );
        let shared = Arc::new(Shared {
            engine: engine.clone(),
            workspaces: Arc::new(workspaces.clone()),
            outputs: store.clone(),
            uploads,
            ports,
            tunnels: TaskTracker::new(),
            watches: Watches::default(),
            journal: store.clone(),
            audit: store.clone(),
            #[cfg(feature = "mcp")]
            servers: Some(mcp.clone()),
            hosts,
            heartbeat: grpc::HEARTBEAT,
            max_message_bytes: settings::bytes(config.limits.max_message_bytes),
            traffic: entrance.traffic.clone(),
            origins: config.listen.origins.clone().into(),
            console: config.console,
            agent_sandbox: config.listen.agent_sandbox,
            authenticator,
            output_retention: config.retention.outputs,
            call_retention: config.retention.calls,
            takes_replies: config.cluster.role != ClusterRole::Worker,
            started: Timestamp::now(),
            caller_variables: config.shell.callers.clone(),
            warnings: config.warnings.clone(),
            sandbox: sandbox::facts(&config.sandbox, kernel),
            languages: Arc::new(languages::Known(languages.clone())),
            closing: Closing::default(),
            telemetry: telemetry.clone(),
        });
        let services = Services::new(shared.clone()).await.tracing(Arc::new(peers::Peers {
            programs: programs.clone(),
            engine: engine.clone(),
            local_users: config.listen.local_users,
        }));
        let parts = Parts {
            store,
            engine,
            workspaces,
            extensions,
            programs,
            mcp,
            languages,
            sandbox,
            shared,
            services,
            entrance,
            cluster: config.cluster.clone(),
            is_unbound: config.unbound.is_some(),
            gateways,
            looking,
            stopped: opened.stopped,
            told: opened.told,
            drain_grace: config.drain_grace,
        };
        Ok(Self {
            parts,
            retention: settings::retention(config),
            remote_skills,
            rules,
            environment: environment.clone(),
            network,
            claim: None,
        })
    }

    /// Opens the workspaces again that clients had opened, and looks after the calls that a dead run of the service left
    /// unfinished: what only waited for a person waits again,
    /// the rest ends as lost. To be called before [`Self::start`], by a service that is there to stay; it keeps its claim
    /// to the data directory until it has ended.
    ///
    /// # Errors
    /// The store failed.
    pub async fn recover(&mut self, claim: Claim) -> anyhow::Result<()> {
        self.claim = Some(claim);
        let restored = self.parts.workspaces.restore().await;
        restored.context("cannot open the workspaces again that were open before")?;
        let recovered = upkeep::take_over(&self.parts.engine).await;
        recovered.context("cannot look after the calls of an earlier run")?;
        self.parts.workspaces.delete_left();
        Ok(())
    }

    /// Returns the tools of the first workspace as they are now.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let place = self.parts.engine.catalogs().find("");
        let registry = place.map(|place| place.tools.current());
        registry.iter().flat_map(|registry| registry.tools().cloned()).collect()
    }

    /// Binds the listeners and serves.
    ///
    /// # Errors
    /// An address or a socket cannot be had; the text names it.
    pub async fn start(self) -> anyhow::Result<Running> {
        let parts = self.parts;
        let stop_servers = CancellationToken::new();
        let mut servers = JoinSet::new();
        let listened = parts
            .entrance
            .listen(&parts.services, &mut servers, &stop_servers)
            .await?;
        let Addresses { tcp, tls, unix } = listened;
        let console = parts.shared.console;
        let may_call = (&parts.store, &parts.engine, &parts.shared.authenticator);
        let taking = (&parts.workspaces, parts.is_unbound);
        if let Some(gateways) = &parts.gateways {
            let ways = gateways.ways.clone();
            registration::start((&parts.cluster, ways), may_call, taking, &mut servers, &stop_servers).await?;
        }
        servers.spawn(sweep(parts.store.clone(), self.retention, stop_servers.clone()));
        servers.spawn(flush_refusals(parts.engine.clone(), stop_servers.clone()));
        if let Some(claim) = &self.claim {
            let tcp = tcp.map(|address| format!("{}://{address}", if tls { "https" } else { "http" }));
            let unix = unix.as_ref().map(|path| format!("unix:{}", path.display()));
            claim.announce(unix.iter().chain(&tcp).map(String::as_str))?;
            let (engine, store) = (parts.engine.clone(), parts.store.clone());
            servers.spawn(look_after_dead_runs(engine, store, stop_servers.clone()));
        }
        servers.spawn(rules::watch(
            parts.engine.clone(),
            self.environment,
            self.rules,
            self.network.clone(),
            stop_servers.clone(),
        ));
        #[cfg(feature = "javascript")]
        servers.spawn(plugin_events::tell(
            (parts.store.clone(), parts.told.clone()),
            parts.extensions.clone(),
            stop_servers.clone(),
        ));
        servers.spawn(fetch_skills(self.network, self.remote_skills, stop_servers.clone()));
        let watch = Arc::new(telemetry::Watch {
            engine: parts.engine.clone(),
            store: parts.store.clone(),
        });
        servers.spawn(telemetry::observe(
            parts.entrance.telemetry.metrics.clone(),
            watch.clone(),
            stop_servers.clone(),
        ));
        if let Some(admin) = &parts.entrance.admin {
            admin.watch(watch);
        }
        let admin = parts.entrance.admin.as_ref().map(Admin::address);
        let instance = parts.engine.calls().instance().to_string();
        let places = parts.engine.catalogs().all();
        let workspaces = places.iter().map(|place| &place.workspace);
        let workspaces = workspaces.map(|one| (one.name().to_owned(), one.directory().to_path_buf()));
        let workspaces = workspaces.collect();
        let roots = parts.workspaces.roots().into_iter().map(PathBuf::from);
        // One that is not there yet may be made.
        let roots = roots.map(|root| root.canonicalize().unwrap_or(root)).collect();
        Ok(Running {
            tcp,
            tls,
            console,
            unix,
            instance,
            workspaces,
            roots,
            admin,
            parts,
            servers,
            stop_servers,
            claim: self.claim,
        })
    }
}

/// Ends the programs of a service at once, for an exit that does not wait for anything else.
#[derive(Clone)]
pub struct Emergency {
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
    programs: Programs,
}

impl Emergency {
    /// Kills every program that the service started, and waits for that, but not for long. Then others may have what this run had.
    pub async fn kill_programs(&self) {
        // First, so that no call takes the end of its program for a result.
        self.engine.stop_running();
        match tokio::time::timeout(EMERGENCY_TIMEOUT, self.programs.shutdown()).await {
            Ok(0) => {
                // Behind them: the next run must not meet one.
                if let Err(error) = self.store.give_up().await {
                    tracing::warn!(%error, "others have to wait for the workspaces of this run until its lease is over");
                }
            }
            Ok(_) | Err(_) => tracing::warn!("some programs could not be ended in time"),
        }
    }
}

impl Running {
    /// Notes in the log where the audit goes on.
    pub async fn note_audit(&self) {
        if self.parts.told.is_none() {
            log_head(&*self.parts.store, "audit resumed").await;
        }
    }

    /// Returns what ends the programs while [`Self::drain`] is under way.
    pub fn emergency(&self) -> Emergency {
        Emergency {
            store: self.parts.store.clone(),
            engine: self.parts.engine.clone(),
            programs: self.parts.programs.clone(),
        }
    }

    /// Ends when this run must stop at once, because it may not write any more what its calls do: its programs must be killed then.
    pub fn stopped(&self) -> CancellationToken {
        self.parts.stopped.clone()
    }

    /// Returns when a listener has failed; the service should be stopped then.
    pub async fn failed(&mut self) -> anyhow::Error {
        entrance::failure(&mut self.servers).await
    }

    /// Stops in order. Every call has its terminal event, and every program is gone, when this returns.
    pub async fn drain(mut self) {
        let Parts {
            store,
            engine,
            workspaces,
            extensions,
            programs,
            mcp,
            languages,
            sandbox,
            shared,
            services,
            entrance,
            cluster: _,
            is_unbound: _,
            gateways,
            looking,
            stopped: _,
            told,
            drain_grace,
        } = self.parts;
        services.stop_serving().await;
        engine.drain(drain_grace).await;
        shared.closing.close();
        Addresses::remove_socket(self.unix.as_deref());
        self.stop_servers.cancel();
        let finished = async { while self.servers.join_next().await.is_some() {} };
        if tokio::time::timeout(STREAMS_GRACE, finished).await.is_err() {
            // A client that does not read, or that watches the health, must not keep the service up.
            self.servers.shutdown().await;
        }
        workspaces.finish().await;
        shared.hosts.close().await;
        extensions.close().await;
        tokio::join!(mcp.stop(), languages.stop());
        let survivors = programs.shutdown().await;
        if survivors > 0 {
            tracing::warn!(survivors, "some programs could not be ended");
        }
        let _ = tokio::task::spawn_blocking(move || sandbox.close()).await;
        if told.is_none() {
            log_head(&*store, "audit closed").await;
        }
        if let Err(error) = store.close().await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the store could not be closed"
            );
        }
        drop(gateways);
        looking.close();
        looking.wait().await;
        entrance.close().await;
        drop(self.claim);
    }
}
