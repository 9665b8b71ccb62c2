//! Workers that register themselves, and the list of all workers.
//!
//! *Invariant:* only those register whom `auth.workers` or a rule names, each with the workspaces that it may see, and the gateway calls
//! them back only where `cluster.reach` or the address that they come from permits it. A worker has a seat while its stream is open,
//! and no name has two.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};
use toolgate_config::Config;
use toolgate_config::service::{ClusterConfig, WorkerConfig, worker_name};
use toolgate_contract::ErrorReason;
use toolgate_contract::cluster::cluster_service_server::ClusterService;
use toolgate_contract::cluster::register_request::Message as Said;
use toolgate_contract::cluster::register_response::Message as Told;
use toolgate_contract::cluster::{
    BoundTo, GatewayHeartbeat, ListWorkersRequest, ListWorkersResponse, RefusedWorkspaces, RegisterRequest,
    RegisterResponse, Registered, WorkerHello, WorkspaceNames,
};
use toolgate_model::{WorkspaceSet, workspace_name_problem};
use toolgate_server::app::outgoing;
use toolgate_server::app::registration::{CLUSTER_HEARTBEAT, CLUSTER_SILENCE, PROTOCOLS, fitting};
use toolgate_server::grpc::arrival::peer;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::{Closing, status};

use crate::bindings::Bindings;
use crate::ledger::LedgerDoor;
use crate::listed::{listed, refused};
use crate::registry::{MAX_WORKSPACES, Registry};
use crate::room::{must_have_room, spread_millis};
use crate::versions;
use crate::worker::{Pooled, Registration, Worker};

/// How long a worker may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages that wait for one worker.
const BUFFER: usize = 8;

/// How long a run whose connection broke has to come back before it is doubted, and how often it is looked whether it has.
const RETURN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(50));

/// After how long a worker is told again what it is bound to.
const TOLD_AGAIN: Duration = Duration::from_secs(2);

/// How often the store is told of a doubt, should it be away.
const DOUBTS: usize = 10;

/// Letters of a secret: fewer could be guessed, more are none.
const SECRET_LETTERS: std::ops::RangeInclusive<usize> = 32..=512;

/// Letters of the name of a run.
const MAX_RUN_LETTERS: usize = 128;

/// The service for workers, and for those who operate the gateway.
pub(crate) struct Cluster {
    registry: Arc<Registry>,
    /// None of a gateway without a store.
    ledger: Option<LedgerDoor>,
    /// Likewise.
    bindings: Option<Arc<Bindings>>,
    config: ClusterConfig,
    /// Bytes of the largest message that is read of a worker.
    limit: usize,
    seats: AtomicU64,
    /// Held while a worker takes a seat.
    admitting: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    closing: Closing,
}

/// Where a worker sits: while this is kept, nobody else has its name.
struct Seat {
    registry: Arc<Registry>,
    worker: Arc<Worker>,
    number: u64,
}

impl Seat {
    /// Changes what is known of the registration, unless another one has taken its place.
    fn change(&self, change: impl FnOnce(&mut Registration)) -> Result<(), Status> {
        let mut registration = self.worker.registration.write();
        match registration.as_mut().filter(|one| one.seat == Some(self.number)) {
            Some(one) => {
                change(one);
                Ok(())
            }
            None => Err(Status::aborted("the same run of the worker has registered again")),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let left = |one: &mut Registration| (one.seat, one.left) = (None, Some(Instant::now()));
        if self.change(left).is_ok() {
            self.worker.is_news();
            tracing::warn!(worker = self.worker.name, "the registration of a worker has ended");
        }
    }
}

impl Cluster {
    pub(crate) fn new(
        config: &Config,
        registry: Arc<Registry>,
        (ledger, bindings): (Option<LedgerDoor>, Option<Arc<Bindings>>),
        closing: Closing,
    ) -> Self {
        Self {
            registry,
            ledger,
            bindings,
            config: config.cluster.clone(),
            limit: usize::try_from(config.limits.max_message_bytes).unwrap_or(usize::MAX),
            seats: AtomicU64::new(0),
            admitting: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            closing,
        }
    }

    /// Gives a worker a seat, or says why it gets none.
    async fn admit(
        &self,
        caller: &OnBehalf,
        from: Option<std::net::IpAddr>,
        hello: WorkerHello,
    ) -> Result<(Seat, u32), Status> {
        let principal = caller.id();
        let name = worker_name(&hello.name).map_err(|problem| status::bad_field("hello.name", problem))?;
        let protocol = protocol(&hello)?;
        if let Some(problem) = versions::problem(versions::OWN, &hello.version) {
            return Err(status::precondition(ErrorReason::WorkerGone, "version", problem));
        }
        self.config
            .permits(&hello.address, from, caller.hosts())
            .map_err(|problem| status::refused(ErrorReason::ScopeMissing, problem))?;
        let names = checked(hello.workspaces)?;
        if hello.run.is_empty() || hello.run.len() > MAX_RUN_LETTERS {
            return Err(status::bad_field("hello.run", "expected the name of a run"));
        }
        let token = Some(&hello.secret).filter(|secret| SECRET_LETTERS.contains(&secret.len()));
        let token = token.and_then(|secret| outgoing::bearer(secret));
        let token = token.ok_or_else(|| status::bad_field("hello.secret", "expected 32 to 512 letters"))?;
        let pool = self.pooled(caller, &name, hello.unbound).await?;
        let bound = pool.as_ref().and_then(|pool| pool.bound.clone());
        let _admitting = self.admitting.lock().await;
        let known = self.registry.named(&name);
        match &known {
            None => must_have_room(&self.registry, &principal)?,
            Some(known) => may_take(known, &principal, &hello.run)?,
        }
        let number = self.seats.fetch_add(1, Ordering::Relaxed);
        let registration = Registration {
            principal,
            may_have: match &pool {
                Some(_) => WorkspaceSet::of_names(bound),
                None => caller.workspaces().clone(),
            },
            run: hello.run,
            said: names.into(),
            seat: Some(number),
            left: None,
            draining: false,
            pool,
        };
        let config = WorkerConfig {
            name,
            address: hello.address,
            token_file: None,
            certificate: self.config.certificate.clone(),
            key: self.config.key.clone(),
            ca: self.config.ca.clone(),
        };
        let limit = self.limit;
        let made = tokio::task::spawn_blocking(move || Worker::registered(config, token, registration, limit)).await;
        let made = made.map_err(anyhow::Error::from).and_then(|made| made);
        let made = made.map_err(|error| status::internal("a worker cannot be called back", error.as_ref()))?;
        let worker = match known {
            Some(known) => {
                known.renew(made);
                self.registry.renewed();
                // It may have been forgotten meanwhile.
                if self.registry.named(&known.name).is_none() {
                    self.registry.add(known.clone());
                }
                known
            }
            None => {
                let worker = Arc::new(made);
                self.registry.add(worker.clone());
                worker
            }
        };
        let registry = self.registry.clone();
        Ok((
            Seat {
                registry,
                worker,
                number,
            },
            protocol,
        ))
    }
}

impl Cluster {
    /// Returns what is known of the bindings of a worker that has only what it is bound to.
    async fn pooled(&self, caller: &OnBehalf, name: &str, waits: bool) -> Result<Option<Pooled>, Status> {
        let Some(may_be) = caller.may_be_bound_to().cloned() else {
            if waits {
                let problem = format!(
                    "this worker waits for a workspace, and {} is none of a pool: name it in auth.workers_file of the gateway by a rule \
                     with `pool = true`",
                    caller.id()
                );
                return Err(status::refused(ErrorReason::WorkspacesLimited, problem));
            }
            return Ok(None);
        };
        let Some(bindings) = &self.bindings else {
            let problem = "a pool of workers needs gateways with a database, where it is kept what each is bound to: set cluster.store";
            return Err(status::refused(ErrorReason::WorkspacesLimited, problem));
        };
        if let Some(pod) = caller.pod().map(fitting).filter(|pod| pod != name) {
            let problem =
                format!("by its token this worker is called {pod:?}: set its cluster.name to that, or leave it out");
            return Err(status::refused(ErrorReason::WorkspacesLimited, problem));
        }
        // Under any other name it would be the same machine.
        let known_as = match caller.is_one_machine() {
            true => String::new(),
            false => name.to_owned(),
        };
        let bound = bindings.of(&caller.id(), &known_as).await.map_err(status::store)?;
        Ok(Some(Pooled {
            known_as,
            may_be,
            waits: waits && bound.is_none(),
            bound,
        }))
    }
}

/// Says whether a worker may take the name of one that is known.
fn may_take(known: &Worker, principal: &str, run: &str) -> Result<(), Status> {
    let taken = |why: &str| {
        let problem = format!(
            "the name {} is that of {why}: set cluster.name of this worker to another one",
            known.name
        );
        Err(Status::already_exists(problem))
    };
    match &*known.registration.read() {
        None => taken("a worker in the configuration of the gateway"),
        Some(one) if one.principal != principal => taken("a worker of another principal"),
        Some(one) if one.seat.is_some() && one.run != run => taken("another worker, which is there"),
        Some(_) => Ok(()),
    }
}

/// Returns the version of the protocol that both sides speak.
fn protocol(hello: &WorkerHello) -> Result<u32, Status> {
    let (lowest, highest) = PROTOCOLS;
    let common = highest.min(hello.highest_protocol);
    if common >= lowest.max(hello.lowest_protocol) {
        return Ok(common);
    }
    let problem = format!(
        "the gateway (version {}) speaks the versions {lowest} to {highest} of the cluster protocol, and the worker the versions {} \
         to {}: install versions of Toolgate that are closer to each other, the gateway's first",
        versions::OWN,
        hello.lowest_protocol,
        hello.highest_protocol
    );
    Err(status::precondition(ErrorReason::WorkerGone, "protocol", problem))
}

/// Checks the names of workspaces.
fn checked(names: Vec<String>) -> Result<Vec<String>, Status> {
    if names.len() > MAX_WORKSPACES {
        let problem = format!("expected at most {MAX_WORKSPACES} names");
        return Err(status::bad_field("workspaces", problem));
    }
    match names.iter().find_map(|name| workspace_name_problem(name)) {
        Some(problem) => Err(status::bad_field("workspaces", problem)),
        None => Ok(names),
    }
}

fn told(message: Told) -> Result<RegisterResponse, Status> {
    Ok(RegisterResponse { message: Some(message) })
}

/// Why a registration is over; none if the worker is not there to be told.
type Over = Option<Status>;

/// Of whatever a worker cannot be told.
fn gone<E>(_: E) -> Over {
    None
}

/// A run whose connection broke.
struct Doubt {
    ledger: LedgerDoor,
    run: String,
    principal: String,
    worker: Arc<Worker>,
    heard: Instant,
}

impl Doubt {
    /// Tells the store, unless the run is back a moment later: it may be this gateway that stood still.
    async fn settle(self) {
        for _ in 0..DOUBTS {
            let begun = Instant::now();
            while begun.elapsed() < RETURN.0 {
                sleep(RETURN.1).await;
                if self.is_back() {
                    return;
                }
            }
            if self
                .ledger
                .doubt(&self.run, &self.principal, self.heard.elapsed())
                .await
            {
                return;
            }
        }
    }

    fn is_back(&self) -> bool {
        let registration = self.worker.registration.read();
        registration
            .as_ref()
            .is_some_and(|one| one.seat.is_some() && one.run == self.run)
    }
}

/// What a registration needs while it lasts.
struct Kept {
    seat: Seat,
    incoming: Streaming<RegisterRequest>,
    answers: mpsc::Sender<Result<RegisterResponse, Status>>,
    ledger: Option<LedgerDoor>,
    bindings: Option<Arc<Bindings>>,
    /// Whether the worker has not ended it in order.
    broke: bool,
    /// When the worker was last heard, or its connection broke.
    heard: Instant,
    closing: Closing,
}

impl Kept {
    /// Keeps a registration until one side ends it.
    async fn until_the_end(mut self, registered: Registered) {
        let Err(over) = self.go_on(registered).await;
        if let Some(status) = over {
            let _ = self.answers.try_send(Err(status));
        }
        let doubt = self
            .ledger
            .clone()
            .zip(self.doubted())
            .map(|(ledger, (run, principal))| Doubt {
                ledger,
                run,
                principal,
                worker: self.seat.worker.clone(),
                heard: self.heard,
            });
        let (registry, closing) = (self.seat.registry.clone(), self.closing.clone());
        drop(self);
        let doubting = async {
            if let Some(doubt) = doubt {
                closing.at_once().run_until_cancelled(doubt.settle()).await;
            }
        };
        tokio::join!(registry.refresh(), doubting);
    }

    /// Returns the run that may be dead, and whose it is: the stream broke, no other one has taken its place, and the worker has not said that it leaves.
    fn doubted(&self) -> Option<(String, String)> {
        let registration = self.seat.worker.registration.read();
        let own = registration.as_ref().filter(|one| one.seat == Some(self.seat.number));
        own.filter(|one| self.broke && !one.draining)
            .map(|one| (one.run.clone(), one.principal.clone()))
    }

    async fn go_on(&mut self, registered: Registered) -> Result<Infallible, Over> {
        self.answers
            .send(told(Told::Registered(registered)))
            .await
            .map_err(gone)?;
        self.seat.registry.refresh().await;
        let (mut said, mut known, mut bound) = (Instant::now(), Vec::new(), None);
        self.heard = Instant::now();
        let over = self.closing.turn();
        loop {
            // Not now and then: of thousands, each would cost something where nothing happens.
            let due = self.due(said, bound);
            tokio::select! {
                message = self.incoming.message() => {
                    self.heard = Instant::now();
                    // However the stream ends, the worker is not there any more.
                    self.broke = message.is_err();
                    let message = message.map_err(gone)?.ok_or(Over::None)?;
                    self.hear(message).await.map_err(Some)?;
                }
                () = sleep_until(due) => {}
                () = self.seat.worker.news.notified() => {}
                () = self.answers.closed() => {
                    (self.broke, self.heard) = (true, Instant::now());
                    return Err(None);
                }
                () = over.cancelled() => return Err(Some(status::draining())),
            }
            if self.heard.elapsed() >= CLUSTER_SILENCE {
                self.broke = true;
                return Err(Some(Status::unavailable("nothing is heard of the worker")));
            }
            // Another stream may have the seat.
            self.seat.change(|_| ()).map_err(Some)?;
            let now = refused(&self.seat.worker, |_| true);
            let message = if let Some(workspace) = self.to_be_told(bound) {
                bound = Some(Instant::now());
                Told::Bound(BoundTo { workspace })
            } else if now != known {
                known.clone_from(&now);
                Told::Refused(RefusedWorkspaces { workspaces: now })
            } else if said.elapsed() >= CLUSTER_HEARTBEAT {
                Told::Heartbeat(GatewayHeartbeat {
                    spread_millis: spread_millis(&self.seat.registry),
                })
            } else {
                continue;
            };
            said = Instant::now();
            // One that does not read is as good as gone.
            self.answers.try_send(told(message)).map_err(gone)?;
        }
    }

    /// Returns when there is something to do if nothing is heard before.
    fn due(&self, said: Instant, told: Option<Instant>) -> Instant {
        let due = (said + CLUSTER_HEARTBEAT).min(self.heard + CLUSTER_SILENCE);
        match self.to_be_told(None) {
            // At once, if it was not told yet.
            Some(_) => told.map_or_else(Instant::now, |told| due.min(told + TOLD_AGAIN)),
            None => due,
        }
    }

    /// Returns what the worker is bound to, if it does not have it and was not told a moment ago.
    fn to_be_told(&self, told: Option<Instant>) -> Option<String> {
        if told.is_some_and(|told| told.elapsed() < TOLD_AGAIN) {
            return None;
        }
        let registration = self.seat.worker.registration.read();
        let one = registration.as_ref()?;
        let bound = one.pool.as_ref()?.bound.as_ref();
        bound.filter(|bound| !one.said.contains(*bound)).cloned()
    }

    /// Looks what a worker is bound to that says to have what is not known of it: another gateway may have bound it.
    async fn look_again(&self, names: &[String]) -> Result<(), Status> {
        let worker = &self.seat.worker;
        let asks = || {
            let registration = worker.registration.read();
            let one = registration.as_ref();
            one.is_some_and(|one| names.iter().any(|name| !one.may_have.contains(name)))
        };
        let known = asks().then(|| worker.bound_as()).flatten();
        let (Some(bindings), Some((principal, known_as))) = (&self.bindings, known) else {
            return Ok(());
        };
        if let Some(bound) = bindings.of(&principal, &known_as).await.map_err(status::store)? {
            worker.is_now_bound(Some(bound));
        }
        Ok(())
    }

    /// Takes note of what the worker says.
    async fn hear(&self, message: RegisterRequest) -> Result<(), Status> {
        match message.message {
            Some(Said::Workspaces(WorkspaceNames { names })) => {
                let names = checked(names)?;
                self.look_again(&names).await?;
                self.seat.change(|one| one.said = names.into())?;
                self.seat.worker.is_news();
                self.seat.registry.refresh().await;
                Ok(())
            }
            Some(Said::Heartbeat(heartbeat)) => self.seat.change(|one| one.draining = heartbeat.draining),
            Some(Said::Hello(_)) | None => Err(status::bad_field("message", "the worker has registered already")),
        }
    }
}

#[tonic::async_trait]
impl ClusterService for Cluster {
    type RegisterStream = Pin<Box<dyn Stream<Item = Result<RegisterResponse, Status>> + Send>>;

    async fn register(
        &self,
        request: Request<Streaming<RegisterRequest>>,
    ) -> Result<Response<Self::RegisterStream>, Status> {
        let caller = OnBehalf::of(request.extensions())?;
        let from = peer(request.extensions())?;
        let refuse = |status: Status, name: &str| {
            let (principal, why) = (caller.id(), status.message().to_owned());
            tracing::error!(principal, worker = name, ?from, why, "a worker is not registered");
            status
        };
        if !caller.is_worker() {
            let problem = format!(
                "{} may not register as a worker: name it in auth.workers of the gateway's configuration, or in auth.workers_file",
                caller.id()
            );
            return Err(refuse(status::refused(ErrorReason::ScopeMissing, problem), ""));
        }
        let mut incoming = request.into_inner();
        let first = timeout(HELLO_TIMEOUT, incoming.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the worker does not say who it is"))??;
        let Some(Said::Hello(hello)) = first.and_then(|first| first.message) else {
            return Err(status::bad_field("message", "the first message is `hello`"));
        };
        let name: String = hello.name.chars().filter(|c| !c.is_control()).take(64).collect();
        let (seat, protocol) = match self.admit(&caller, from, hello).await {
            Ok(admitted) => admitted,
            Err(status) => return Err(refuse(status, &name)),
        };
        let (principal, address) = (caller.id(), seat.worker.address());
        tracing::info!(principal, worker = name, address, "a worker has registered");
        let registered = Registered {
            version: versions::OWN.to_owned(),
            protocol,
        };
        let (sender, receiver) = mpsc::channel(BUFFER);
        let kept = Kept {
            seat,
            incoming,
            answers: sender,
            ledger: self.ledger.clone(),
            bindings: self.bindings.clone(),
            broke: false,
            heard: Instant::now(),
            closing: self.closing.clone(),
        };
        self.tasks.spawn(kept.until_the_end(registered));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn list_workers(
        &self,
        request: Request<ListWorkersRequest>,
    ) -> Result<Response<ListWorkersResponse>, Status> {
        let caller = OnBehalf::of(request.extensions())?;
        let sees_all = caller.workspaces().is_all();
        let workers = self.registry.workers();
        let listed = workers.iter().map(|worker| listed(&self.registry, &caller, worker));
        let seen = listed.filter(|one| sees_all || !one.workspaces.is_empty() || !one.refused_workspaces.is_empty());
        Ok(Response::new(ListWorkersResponse {
            workers: seen.collect(),
        }))
    }
}
