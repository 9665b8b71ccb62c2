//! Workers that are tasks of this process: each speaks what workers and gateways say to each other, as a real one does in which no command
//! runs, and may have a call that waits for a person.
//!
//! *Invariant:* each has its own run, secret and workspace, and does in its own time what it would do as a process: it registers at each
//! gateway and again when that breaks, takes its workspace once, and follows its prompts at the gateway that it prefers while a call in it
//! waits for a person. What is not simulated is what stays in a worker: commands, files, rules. Several may share a connection, which real
//! ones never do: how many is said.

#![allow(dead_code)] // a test and a benchmark share this, and each has its own part of it

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use toolgate_contract::cluster::cluster_service_client::ClusterServiceClient;
use toolgate_contract::cluster::follow_response::Message as Followed;
use toolgate_contract::cluster::ledger_service_client::LedgerServiceClient;
use toolgate_contract::cluster::register_request::Message as Said;
use toolgate_contract::cluster::register_response::Message as Told;
use toolgate_contract::cluster::*;
use toolgate_contract::info_service_server::{InfoService, InfoServiceServer};
use toolgate_contract::workspace_service_server::{WorkspaceService, WorkspaceServiceServer};
use toolgate_contract::*;

/// What a worker does of itself, as real ones do: how often it says something, how long it waits for an answer, and before it registers again.
const HEARTBEAT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(15);
const ANSWER: Duration = Duration::from_secs(10);
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// How long one attempt may take, and how long is waited before the next.
const ATTEMPT: Duration = Duration::from_secs(4);
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Why an attempt failed that a gateway did not answer in time.
const NO_ANSWER: &str = "no answer";

/// What is made.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) workers: usize,
    /// URLs.
    pub(crate) gateways: Vec<String>,
    /// What its program says to be.
    pub(crate) version: String,
    /// So many share a connection to each gateway. Real ones have one each.
    pub(crate) on_a_line: usize,
    /// The token of a worker, by its number.
    pub(crate) token: fn(usize) -> String,
    /// Its workspace.
    pub(crate) workspace: fn(usize) -> String,
}

/// What became of all, counted.
#[derive(Default)]
pub(crate) struct Facts {
    /// Streams of registration that are open.
    pub(crate) registered: AtomicUsize,
    /// Attempts to register, and those that failed.
    pub(crate) attempts: AtomicUsize,
    pub(crate) failures: AtomicUsize,
    pub(crate) bound: AtomicUsize,
    pub(crate) follows: AtomicUsize,
    /// Questions of gateways that were answered.
    pub(crate) asked: AtomicUsize,
    /// When workers registered: the most in a tenth of a second are the height of the rush.
    pub(crate) arrivals: Mutex<Vec<Instant>>,
    /// Why attempts failed, and how often.
    pub(crate) why: Mutex<BTreeMap<String, usize>>,
}

impl Facts {
    fn failed(&self, why: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self
            .why
            .lock()
            .unwrap()
            .entry(why.chars().take(120).collect())
            .or_default() += 1;
    }

    /// Returns the most that registered within a tenth of a second.
    pub(crate) fn rush(&self) -> usize {
        let mut arrivals = self.arrivals.lock().unwrap().clone();
        arrivals.sort_unstable();
        let tenth = Duration::from_millis(100);
        let within = |first: usize| {
            arrivals[first..]
                .iter()
                .take_while(|one| **one - arrivals[first] < tenth)
                .count()
        };
        (0..arrivals.len()).map(within).max().unwrap_or_default()
    }
}

/// One worker.
pub(crate) struct Worker {
    pub(crate) number: usize,
    name: String,
    pub(crate) workspace: String,
    pub(crate) run: String,
    secret: String,
    token: String,
    version: String,
    pub(crate) holding: Mutex<Option<Holding>>,
    /// How often its prompts may have changed.
    pub(crate) changes: AtomicUsize,
    /// A call goes on in it, until the end of the test.
    is_at_work: AtomicBool,
    stirred: Notify,
    /// It hears of changes.
    follows: AtomicBool,
}

/// All of them.
pub(crate) struct Crowd {
    pub(crate) workers: Vec<Arc<Worker>>,
    pub(crate) facts: Arc<Facts>,
    /// For each gateway the connections of all workers.
    lines: Vec<Vec<Channel>>,
    on_a_line: usize,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn share_of(time: Duration) -> Duration {
    time.mul_f64((chance() % 10_000) as f64 / 10_000.0)
}

fn with_chance(pause: Duration) -> Duration {
    pause / 2 + share_of(pause)
}

/// Makes a request of what a worker says.
pub(crate) fn shown<Q>(worker: &Worker, question: Q) -> Request<Q> {
    let mut request = Request::new(question);
    let token = format!("Bearer {}", worker.token).parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    request
}

impl Crowd {
    /// Starts all of them; they come when they come.
    pub(crate) async fn start(plan: &Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (facts, stop) = (Arc::new(Facts::default()), CancellationToken::new());
        let workers: Vec<Arc<Worker>> = (0..plan.workers)
            .map(|number| Arc::new(Worker::new(number, plan)))
            .collect();
        let by_secret = workers
            .iter()
            .map(|worker| (format!("Bearer {}", worker.secret), worker.clone()));
        let answers = Answers {
            by_secret: Arc::new(by_secret.collect()),
            facts: facts.clone(),
        };
        let mut tasks = JoinSet::new();
        let over = stop.clone();
        tasks.spawn(async move {
            let serving = Server::builder()
                .add_service(InfoServiceServer::new(answers.clone()))
                .add_service(WorkspaceServiceServer::new(answers))
                .serve_with_incoming(TcpListenerStream::new(listener));
            let _ = over.run_until_cancelled(serving).await;
        });
        let on_a_line = plan.on_a_line.max(1);
        let connect = |gateway: &String| -> Vec<Channel> {
            let endpoint = Endpoint::from_shared(gateway.clone()).unwrap().connect_timeout(ANSWER);
            let lines = plan.workers.div_ceil(on_a_line);
            (0..lines).map(|_| endpoint.connect_lazy()).collect()
        };
        let lines: Vec<Vec<Channel>> = plan.gateways.iter().map(connect).collect();
        for worker in &workers {
            let own: Vec<Channel> = lines
                .iter()
                .map(|lines| lines[worker.number / on_a_line].clone())
                .collect();
            for channel in own.clone() {
                let (worker, facts, address, over) = (worker.clone(), facts.clone(), address.clone(), stop.clone());
                tasks.spawn(async move {
                    over.run_until_cancelled(worker.stay_registered(channel, &address, &facts))
                        .await;
                });
            }
            let (worker, facts, over) = (worker.clone(), facts.clone(), stop.clone());
            tasks.spawn(async move {
                over.run_until_cancelled(worker.work(own, &facts)).await;
            });
        }
        Self {
            workers,
            facts,
            lines,
            on_a_line,
            stop,
            tasks,
        }
    }

    /// Returns the way of a worker to what a gateway stores.
    pub(crate) fn ledger(&self, worker: &Worker, gateway: usize) -> LedgerServiceClient<Channel> {
        let line = self.lines[gateway][worker.number / self.on_a_line].clone();
        LedgerServiceClient::new(line)
    }

    /// Has a worker take its workspace again: one in which nothing went on for a lease has it no more, and nobody else has it.
    pub(crate) async fn bind_again(&self, worker: &Worker, gateway: usize) -> Result<(), Status> {
        let asked = shown(worker, worker.binding());
        let bound = self.ledger(worker, gateway).bind(asked).await?.into_inner();
        *worker.holding.lock().unwrap() = bound.holdings.into_iter().next();
        Ok(())
    }

    /// Ends all of them.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Worker {
    fn new(number: usize, plan: &Plan) -> Self {
        Self {
            number,
            name: format!("simulated-{number}"),
            workspace: (plan.workspace)(number),
            run: format!("run-{number}-{:016x}", chance()),
            secret: format!("{:016x}{:016x}{:016x}", chance(), chance(), chance()),
            token: (plan.token)(number),
            version: plan.version.clone(),
            holding: Mutex::default(),
            changes: AtomicUsize::new(0),
            is_at_work: AtomicBool::new(false),
            stirred: Notify::new(),
            follows: AtomicBool::new(false),
        }
    }

    /// Takes note that one of its calls goes on from now on.
    pub(crate) fn works(&self) {
        self.is_at_work.store(true, Ordering::Release);
        self.stirred.notify_one();
    }

    /// Says whether one of its calls goes on.
    pub(crate) fn is_at_work(&self) -> bool {
        self.is_at_work.load(Ordering::Acquire)
    }

    /// Says whether it hears of changes.
    pub(crate) fn follows(&self) -> bool {
        self.follows.load(Ordering::Acquire)
    }

    /// Returns the workspace as this run has it.
    pub(crate) fn holding(&self) -> Option<Holding> {
        self.holding.lock().unwrap().clone()
    }

    fn binding(&self) -> BindRequest {
        BindRequest {
            run: self.run.clone(),
            address: String::new(),
            workspaces: vec![self.workspace.clone()],
            noted: 0,
        }
    }

    async fn stay_registered(&self, channel: Channel, address: &str, facts: &Facts) {
        let (mut pause, mut spread) = (Duration::ZERO, Duration::ZERO);
        loop {
            sleep(with_chance(pause) + share_of(std::mem::take(&mut spread))).await;
            let begun = Instant::now();
            let (is_held, most) = match self.register(channel.clone(), address, facts, &mut spread).await {
                Ok(()) => (begun.elapsed() > SILENCE, PAUSES.1),
                Err(why) => {
                    facts.failed(&why);
                    let most = if why == NO_ANSWER { LONG_PAUSE } else { PAUSES.1 };
                    (false, most)
                }
            };
            pause = match is_held {
                true => PAUSES.0,
                false => (pause * 2).clamp(PAUSES.0, most),
            };
        }
    }

    /// Registers once, and stays so until one side ends it.
    async fn register(
        &self,
        channel: Channel,
        address: &str,
        facts: &Facts,
        spread: &mut Duration,
    ) -> Result<(), String> {
        facts.attempts.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel(8);
        let hello = Said::Hello(WorkerHello {
            name: self.name.clone(),
            address: address.to_owned(),
            version: self.version.clone(),
            lowest_protocol: 1,
            highest_protocol: 1,
            workspaces: vec![self.workspace.clone()],
            secret: self.secret.clone(),
            run: self.run.clone(),
            unbound: false,
        });
        let _ = sender.try_send(RegisterRequest { message: Some(hello) });
        let mut client = ClusterServiceClient::new(channel);
        let asked = shown(self, ReceiverStream::new(receiver));
        let answers = timeout(ANSWER, client.register(asked)).await.map_err(|_| NO_ANSWER)?;
        let mut answers = answers.map_err(|status| status.message().to_owned())?.into_inner();
        let first = timeout(ANSWER, answers.message()).await.map_err(|_| NO_ANSWER)?;
        match first
            .map_err(|status| status.message().to_owned())?
            .and_then(|first| first.message)
        {
            Some(Told::Registered(_)) => {}
            other => return Err(format!("{other:?}")),
        }
        facts.arrivals.lock().unwrap().push(Instant::now());
        facts.registered.fetch_add(1, Ordering::Relaxed);
        let mut heard = Instant::now();
        let mut ticks = tokio::time::interval(HEARTBEAT);
        while heard.elapsed() < SILENCE {
            tokio::select! {
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => {
                        heard = Instant::now();
                        if let Some(Told::Heartbeat(GatewayHeartbeat { spread_millis })) = answer.message {
                            *spread = Duration::from_millis(spread_millis.into());
                        }
                    }
                    Ok(None) | Err(_) => break,
                },
                _ = ticks.tick() => {
                    let message = Said::Heartbeat(WorkerHeartbeat { draining: false });
                    if sender.try_send(RegisterRequest { message: Some(message) }).is_err() {
                        break;
                    }
                }
            }
        }
        facts.registered.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes its workspace, and follows it once a call waits there.
    async fn work(&self, gateways: Vec<Channel>, facts: &Facts) {
        let (mut preferred, mut pause) = (0, AGAIN.0);
        loop {
            let mut ledger = LedgerServiceClient::new(gateways[preferred % gateways.len()].clone());
            if let Ok(Ok(answer)) = timeout(ATTEMPT, ledger.bind(shown(self, self.binding()))).await
                && let Some(holding) = answer.into_inner().holdings.pop()
            {
                *self.holding.lock().unwrap() = Some(holding);
                break;
            }
            preferred += 1;
            sleep(with_chance(pause)).await;
            pause = (pause * 2).min(AGAIN.1);
        }
        facts.bound.fetch_add(1, Ordering::Relaxed);
        while !self.is_at_work() {
            self.stirred.notified().await;
        }
        pause = PAUSES.0;
        loop {
            let mut ledger = LedgerServiceClient::new(gateways[preferred % gateways.len()].clone());
            let asked = FollowRequest {
                workspaces: vec![self.workspace.clone()],
            };
            match timeout(ATTEMPT, ledger.follow(shown(self, asked))).await {
                Ok(Ok(stream)) => {
                    facts.follows.fetch_add(1, Ordering::Relaxed);
                    self.follows.store(true, Ordering::Release);
                    pause = PAUSES.0;
                    self.listen(stream.into_inner()).await;
                    self.follows.store(false, Ordering::Release);
                    facts.follows.fetch_sub(1, Ordering::Relaxed);
                }
                Ok(Err(_)) | Err(_) => preferred += 1,
            }
            sleep(with_chance(pause)).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Counts changes until the stream ends.
    async fn listen(&self, mut stream: Streaming<FollowResponse>) {
        while let Ok(Ok(Some(said))) = timeout(SILENCE, stream.message()).await {
            if matches!(said.message, Some(Followed::Changed(_))) {
                self.changes.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// What the workers answer to their gateways.
#[derive(Clone)]
struct Answers {
    by_secret: Arc<HashMap<String, Arc<Worker>>>,
    facts: Arc<Facts>,
}

impl Answers {
    fn asked<Q>(&self, request: &Request<Q>) -> Result<Arc<Worker>, Status> {
        self.facts.asked.fetch_add(1, Ordering::Relaxed);
        let shown = request
            .metadata()
            .get("authorization")
            .and_then(|shown| shown.to_str().ok());
        let worker = shown.and_then(|shown| self.by_secret.get(shown));
        worker
            .cloned()
            .ok_or_else(|| Status::unauthenticated("no secret of a worker"))
    }
}

fn nothing<A>() -> Result<Response<A>, Status> {
    Err(Status::unimplemented("a simulated worker does nothing"))
}

#[tonic::async_trait]
impl InfoService for Answers {
    async fn get_server_info(
        &self,
        request: Request<GetServerInfoRequest>,
    ) -> Result<Response<GetServerInfoResponse>, Status> {
        let worker = self.asked(&request)?;
        Ok(Response::new(GetServerInfoResponse {
            version: worker.version.clone(),
            ..GetServerInfoResponse::default()
        }))
    }
}

#[tonic::async_trait]
impl WorkspaceService for Answers {
    async fn list_workspaces(
        &self,
        request: Request<ListWorkspacesRequest>,
    ) -> Result<Response<ListWorkspacesResponse>, Status> {
        let worker = self.asked(&request)?;
        let workspace = WorkspaceInfo {
            name: worker.workspace.clone(),
            directory: "/workspace".to_owned(),
            ..WorkspaceInfo::default()
        };
        Ok(Response::new(ListWorkspacesResponse {
            workspaces: vec![workspace],
            ..ListWorkspacesResponse::default()
        }))
    }

    async fn get_workspace(&self, _: Request<GetWorkspaceRequest>) -> Result<Response<GetWorkspaceResponse>, Status> {
        nothing()
    }

    async fn open_workspace(
        &self,
        _: Request<OpenWorkspaceRequest>,
    ) -> Result<Response<OpenWorkspaceResponse>, Status> {
        nothing()
    }

    async fn close_workspace(
        &self,
        _: Request<CloseWorkspaceRequest>,
    ) -> Result<Response<CloseWorkspaceResponse>, Status> {
        nothing()
    }

    async fn create_workspace(
        &self,
        _: Request<CreateWorkspaceRequest>,
    ) -> Result<Response<CreateWorkspaceResponse>, Status> {
        nothing()
    }

    async fn suspend_workspace(
        &self,
        _: Request<SuspendWorkspaceRequest>,
    ) -> Result<Response<SuspendWorkspaceResponse>, Status> {
        nothing()
    }

    async fn resume_workspace(
        &self,
        _: Request<ResumeWorkspaceRequest>,
    ) -> Result<Response<ResumeWorkspaceResponse>, Status> {
        nothing()
    }

    async fn delete_workspace(
        &self,
        _: Request<DeleteWorkspaceRequest>,
    ) -> Result<Response<DeleteWorkspaceResponse>, Status> {
        nothing()
    }
}
