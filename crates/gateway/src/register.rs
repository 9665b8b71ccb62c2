//! Workers that register themselves, and the list of all workers.
//!
//! *Invariant:* only the principals that `auth.workers` names register, each with the workspaces that it may see, and the gateway calls
//! them back only where `cluster.reach` or the address that they come from permits it. A worker has a seat while its stream is open,
//! and no name has two.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};
use toolgate_config::Config;
use toolgate_config::service::{ClusterConfig, WorkerConfig, worker_name};
use toolgate_contract::ErrorReason;
use toolgate_contract::cluster::cluster_service_server::ClusterService;
use toolgate_contract::cluster::register_request::Message as Said;
use toolgate_contract::cluster::register_response::Message as Told;
use toolgate_contract::cluster::{
    GatewayHeartbeat, ListWorkersRequest, ListWorkersResponse, RefusedWorkspace, RefusedWorkspaces, RegisterRequest,
    RegisterResponse, Registered, Worker as Listed, WorkerHello, WorkerKind, WorkerState, WorkspaceNames,
};
use toolgate_model::workspace_name_problem;
use toolgate_server::app::outgoing;
use toolgate_server::app::registration::{CLUSTER_HEARTBEAT, CLUSTER_SILENCE, PROTOCOLS};
use toolgate_server::grpc::arrival::peer;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;

use crate::ledger::LedgerDoor;
use crate::registry::{MAX_WORKSPACES, Registry};
use crate::versions;
use crate::worker::{Registration, Worker};

/// How long a worker may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// How often it is looked whether there is something to say.
const TICK: Duration = Duration::from_millis(250);

/// Messages that wait for one worker.
const BUFFER: usize = 8;

/// Workers that have registered themselves, those that are away included.
const MAX_WORKERS: usize = 12_000;

/// Those of one principal: some are left to the others.
const MAX_WORKERS_OF_ONE: usize = 10_000;

/// How long a run whose connection broke has to come back before it is doubted, and how often it is looked whether it has.
const RETURN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(50));

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
    config: ClusterConfig,
    /// Who may register.
    may_register: Vec<String>,
    /// Bytes of the largest message that is read of a worker.
    limit: usize,
    seats: AtomicU64,
    /// Held while a worker takes a seat.
    admitting: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    closing: CancellationToken,
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
            tracing::warn!(worker = self.worker.name, "the registration of a worker has ended");
        }
    }
}

impl Cluster {
    pub(crate) fn new(
        config: &Config,
        registry: Arc<Registry>,
        ledger: Option<LedgerDoor>,
        closing: CancellationToken,
    ) -> Self {
        Self {
            registry,
            ledger,
            config: config.cluster.clone(),
            may_register: config.auth.workers.clone(),
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
            .permits(&hello.address, from)
            .map_err(|problem| status::refused(ErrorReason::ScopeMissing, problem))?;
        let names = checked(hello.workspaces)?;
        if hello.run.is_empty() || hello.run.len() > MAX_RUN_LETTERS {
            return Err(status::bad_field("hello.run", "expected the name of a run"));
        }
        let token = Some(&hello.secret).filter(|secret| SECRET_LETTERS.contains(&secret.len()));
        let token = token.and_then(|secret| outgoing::bearer(secret));
        let token = token.ok_or_else(|| status::bad_field("hello.secret", "expected 32 to 512 letters"))?;
        let _admitting = self.admitting.lock().await;
        let known = self.registry.named(&name);
        match &known {
            None => must_have_room(&self.registry, &principal)?,
            Some(known) => may_take(known, &principal, &hello.run)?,
        }
        let number = self.seats.fetch_add(1, Ordering::Relaxed);
        let registration = Registration {
            principal,
            may_have: caller.workspaces().clone(),
            run: hello.run,
            said: names.into(),
            seat: Some(number),
            left: None,
            draining: false,
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

/// Refuses one more worker where there are too many.
fn must_have_room(registry: &Registry, principal: &str) -> Result<(), Status> {
    let problem = if registry.workers().len() >= MAX_WORKERS {
        "too many workers have registered".to_owned()
    } else if registry.registered_by(principal) >= MAX_WORKERS_OF_ONE {
        format!("{principal} has registered {MAX_WORKERS_OF_ONE} workers: give workers identities of their own")
    } else {
        return Ok(());
    };
    Err(Status::resource_exhausted(problem))
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

/// What is not served of a worker, as messages have it.
fn refused(worker: &Worker, sees: impl Fn(&str) -> bool) -> Vec<RefusedWorkspace> {
    let all = worker.not_served.read().clone();
    let seen = all.iter().filter(|(workspace, _)| sees(workspace));
    seen.map(|(workspace, reason)| RefusedWorkspace {
        workspace: workspace.clone(),
        reason: reason.clone(),
    })
    .collect()
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
    /// Whether the worker has not ended it in order.
    broke: bool,
    /// When the worker was last heard, or its connection broke.
    heard: Instant,
    closing: CancellationToken,
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
                closing.run_until_cancelled(doubt.settle()).await;
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
        let (mut said, mut known) = (Instant::now(), Vec::new());
        self.heard = Instant::now();
        let mut ticks = interval(TICK);
        loop {
            tokio::select! {
                message = self.incoming.message() => {
                    self.heard = Instant::now();
                    // However the stream ends, the worker is not there any more.
                    self.broke = message.is_err();
                    let message = message.map_err(gone)?.ok_or(Over::None)?;
                    self.hear(message).await.map_err(Some)?;
                }
                _ = ticks.tick() => {}
                () = self.answers.closed() => {
                    (self.broke, self.heard) = (true, Instant::now());
                    return Err(None);
                }
                () = self.closing.cancelled() => return Err(Some(status::draining())),
            }
            if self.heard.elapsed() > CLUSTER_SILENCE {
                self.broke = true;
                return Err(Some(Status::unavailable("nothing is heard of the worker")));
            }
            // Another stream may have the seat.
            self.seat.change(|_| ()).map_err(Some)?;
            let now = refused(&self.seat.worker, |_| true);
            let message = if now != known {
                known.clone_from(&now);
                Told::Refused(RefusedWorkspaces { workspaces: now })
            } else if said.elapsed() > CLUSTER_HEARTBEAT {
                Told::Heartbeat(GatewayHeartbeat {})
            } else {
                continue;
            };
            said = Instant::now();
            // One that does not read is as good as gone.
            self.answers.try_send(told(message)).map_err(gone)?;
        }
    }

    /// Takes note of what the worker says.
    async fn hear(&self, message: RegisterRequest) -> Result<(), Status> {
        match message.message {
            Some(Said::Workspaces(WorkspaceNames { names })) => {
                let names = checked(names)?;
                self.seat.change(|one| one.said = names.into())?;
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
        if !self.may_register.contains(&caller.id()) {
            let problem = format!(
                "{} may not register as a worker: name it in auth.workers of the gateway's configuration",
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

fn listed(registry: &Registry, caller: &OnBehalf, worker: &Worker) -> Listed {
    let facts = worker.facts.read().clone();
    let served = facts.workspaces.iter().map(|one| &one.name);
    let served = served.filter(|name| registry.has(worker, name) && caller.sees(name));
    let (state, problem) = match (&facts.refused, &facts.away) {
        _ if !facts.is_there => {
            let why = facts.away.as_ref().map(|(why, _)| why.to_string());
            (
                WorkerState::Away,
                why.unwrap_or_else(|| "it was not asked yet".to_owned()),
            )
        }
        (Some(why), _) => (WorkerState::Refused, why.to_string()),
        (None, _) if worker.is_draining() => (WorkerState::Draining, String::new()),
        (None, _) => (WorkerState::Ready, String::new()),
    };
    Listed {
        name: worker.name.clone(),
        kind: match worker.is_listed() {
            true => WorkerKind::Listed,
            false => WorkerKind::Registered,
        }
        .into(),
        address: worker.address(),
        version: facts.version.to_string(),
        state: state.into(),
        problem,
        away_since: facts.away.map(|(_, since)| since.into()),
        workspaces: served.cloned().collect(),
        refused_workspaces: refused(worker, |workspace| caller.sees(workspace)),
        running_calls: facts.calls.0,
        queued_calls: facts.calls.1,
    }
}

#[cfg(test)]
mod tests {
    use toolgate_model::WorkspaceSet;

    use super::*;

    fn worker(name: String, principal: &str) -> Worker {
        let config = WorkerConfig {
            name,
            address: "http://127.0.0.1:1".to_owned(),
            token_file: None,
            certificate: None,
            key: None,
            ca: None,
        };
        let registration = Registration {
            principal: principal.to_owned(),
            may_have: WorkspaceSet::ALL,
            run: "run".to_owned(),
            said: Arc::new([]),
            // One that is away counts until it is forgotten.
            seat: None,
            left: None,
            draining: false,
        };
        Worker::registered(config, "Bearer secret".parse().unwrap(), registration, 1 << 20).unwrap()
    }

    #[tokio::test]
    async fn so_many_workers_register() {
        let refused = |registry: &Registry, principal: &str| {
            let room = must_have_room(registry, principal);
            room.map_or_else(|status| status.message().to_owned(), |()| String::new())
        };
        let many = (1..MAX_WORKERS_OF_ONE).map(|number| worker(format!("a{number:05}"), "token:a"));
        let registry = Registry::new(many.collect(), None);
        assert_eq!(refused(&registry, "token:a"), "");
        registry.add(Arc::new(worker("a".to_owned(), "token:a")));
        assert!(refused(&registry, "token:a").contains("token:a has registered 10000 workers"));
        assert_eq!(refused(&registry, "token:b"), "", "there is room for others");

        let some = (0..MAX_WORKERS - 1).map(|number| worker(format!("{number:05}"), &format!("token:{}", number % 2)));
        let registry = Registry::new(some.collect(), None);
        assert_eq!(refused(&registry, "token:c"), "");
        registry.add(Arc::new(worker("c".to_owned(), "token:c")));
        assert!(refused(&registry, "token:c").contains("too many workers"));
    }
}
