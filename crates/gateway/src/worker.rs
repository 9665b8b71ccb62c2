//! One worker: the connections to it, who the gateway is there, and what it said of itself last.
//!
//! *Invariant:* what a client sent about itself never reaches a worker but in the entry that the gateway writes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context as _;
use parking_lot::{Mutex, RwLock};
use prost::Message;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, AUTHORIZATION,
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, ORIGIN, PROXY_AUTHORIZATION, TRANSFER_ENCODING, UPGRADE, VARY,
};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;
use toolgate_config::service::WorkerConfig;
use toolgate_contract::ErrorReason;
use toolgate_model::WorkspaceSet;
use toolgate_server::app::outgoing::{self, Pems};
use toolgate_server::app::registration::GRACE;
use toolgate_server::grpc::auth::{ENTRY, OnBehalf};
use toolgate_server::grpc::status;
use toolgate_telemetry::WorkerFacts;
use tower::ServiceExt as _;

use crate::facts::Facts;
use crate::lines::{Lines, Open, windowed};
use crate::wire::{Passed, gone};

/// Bytes of the digest by which a path names a principal.
const PRINCIPAL_BYTES: usize = 8;

/// What is about one connection, or is said to the gateway only; and a length, which may change.
const NOT_SENT_ON: [HeaderName; 12] = [
    // Which pages may call is decided here.
    ORIGIN,
    AUTHORIZATION,
    PROXY_AUTHORIZATION,
    COOKIE,
    HOST,
    CONNECTION,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    ENTRY,
];

/// What a worker says to web pages, which the gateway says itself.
const NOT_HANDED_ON: [HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    VARY,
];

/// A worker that has registered itself.
#[derive(Clone)]
pub(crate) struct Registration {
    /// Who it is at the gateway.
    pub(crate) principal: String,
    /// The workspaces that it may have.
    pub(crate) may_have: WorkspaceSet,
    /// Its run.
    pub(crate) run: String,
    /// Those that it says to have.
    pub(crate) said: Arc<[String]>,
    /// Which registration this is; none when its stream has ended.
    pub(crate) seat: Option<u64>,
    /// When its stream ended.
    pub(crate) left: Option<Instant>,
    /// Whether it takes no more calls.
    pub(crate) draining: bool,
    /// What it may be bound to, if it has only what it is bound to.
    pub(crate) pool: Option<Pooled>,
}

/// A worker that has only what it is bound to.
#[derive(Clone)]
pub(crate) struct Pooled {
    /// Its name among the workers of its principal; empty if that stands for one machine.
    pub(crate) known_as: String,
    /// What it may be bound to.
    pub(crate) may_be: WorkspaceSet,
    /// Whether it waits for a workspace.
    pub(crate) waits: bool,
    /// What it is bound to.
    pub(crate) bound: Option<String>,
}

/// What starts a call, or something else that a worker which stops does not take.
const STARTING: [&str; 4] = [
    "/toolgate.v1.ToolService/ExecuteTool",
    "/toolgate.v1.ToolService/RunTool",
    "/toolgate.v1.WorkspaceService/CreateWorkspace",
    "/toolgate.v1.WorkspaceService/OpenWorkspace",
];

/// A worker.
pub(crate) struct Worker {
    pub(crate) name: String,
    /// As the configuration has it; where it is, for one that has registered.
    config: RwLock<WorkerConfig>,
    endpoint: RwLock<Endpoint>,
    pub(crate) lines: Lines,
    token: RwLock<Option<HeaderValue>>,
    /// None for one that the configuration lists.
    pub(crate) registration: RwLock<Option<Registration>>,
    pub(crate) facts: RwLock<Facts>,
    /// The workspaces that are not served of it, and why.
    pub(crate) not_served: RwLock<Arc<[(String, String)]>>,
    why_lost: Mutex<Option<String>>,
    /// There is something to tell it.
    pub(crate) news: Notify,
    /// What it was asked last is not all that it may have to say by now.
    pub(crate) has_news: AtomicBool,
    /// When it was asked last.
    asked: Mutex<Option<Instant>>,
    /// Requests to opened ports that it has not answered.
    waiting: Arc<AtomicUsize>,
    /// Bytes of the largest message that is read of it.
    limit: usize,
}

impl Worker {
    /// Reads the credentials for it. Blocking.
    pub(crate) fn new(config: WorkerConfig, limit: usize) -> anyhow::Result<Self> {
        let endpoint = endpoint(&config).with_context(|| format!("cluster.workers.{}", config.name))?;
        let worker = Self::at(config, endpoint, limit);
        worker
            .read_token()
            .with_context(|| format!("cluster.workers.{}.token_file", worker.name))?;
        Ok(worker)
    }

    fn at(config: WorkerConfig, endpoint: Endpoint, limit: usize) -> Self {
        Self {
            name: config.name.clone(),
            config: RwLock::new(config),
            endpoint: RwLock::new(endpoint),
            lines: Lines::default(),
            token: RwLock::default(),
            registration: RwLock::default(),
            facts: RwLock::default(),
            not_served: RwLock::default(),
            why_lost: Mutex::default(),
            news: Notify::new(),
            has_news: AtomicBool::new(true),
            asked: Mutex::default(),
            waiting: Arc::default(),
            limit,
        }
    }

    /// Makes one that has registered itself. Blocking.
    pub(crate) fn registered(
        config: WorkerConfig,
        token: HeaderValue,
        registration: Registration,
        limit: usize,
    ) -> anyhow::Result<Self> {
        let worker = Self::at(config.clone(), endpoint(&config)?, limit);
        *worker.token.write() = Some(token);
        *worker.registration.write() = Some(registration);
        Ok(worker)
    }

    /// Goes on with a worker that has registered again, perhaps elsewhere.
    pub(crate) fn renew(&self, other: Self) {
        *self.config.write() = other.config.into_inner();
        *self.endpoint.write() = other.endpoint.into_inner();
        *self.token.write() = other.token.into_inner();
        *self.registration.write() = other.registration.into_inner();
        // Now new ones lead to where it is.
        self.lines.leave();
        self.facts.write().was_told = false;
        self.is_news();
    }

    /// Takes note that it is to be asked in the next round.
    pub(crate) fn is_news(&self) {
        self.has_news.store(true, Ordering::Release);
    }

    /// Takes note that it is asked now.
    pub(crate) fn is_asked(&self) {
        *self.asked.lock() = Some(Instant::now());
    }

    /// Returns when it was asked last.
    pub(crate) fn asked(&self) -> Option<Instant> {
        *self.asked.lock()
    }

    /// Takes note of the workspaces that are not served of it, and has it told if they are others than before.
    pub(crate) fn are_not_served(&self, now: Vec<(String, String)>) {
        let mut known = self.not_served.write();
        if **known != *now {
            *known = now.into();
            self.news.notify_one();
        }
    }

    /// Says whether it is registered now: then it says itself what it has, and that it goes.
    pub(crate) fn is_registered(&self) -> bool {
        self.registration.read().as_ref().is_some_and(|one| one.seat.is_some())
    }

    /// Says whether the configuration lists it.
    pub(crate) fn is_listed(&self) -> bool {
        self.registration.read().is_none()
    }

    /// Says whether a workspace may be one of it.
    pub(crate) fn may_have(&self, workspace: &str) -> bool {
        let registration = self.registration.read();
        registration.as_ref().is_none_or(|one| one.may_have.contains(workspace))
    }

    /// Says whether a workspace which a caller sees may be one of it.
    pub(crate) fn may_serve(&self, caller: &OnBehalf) -> bool {
        let registration = self.registration.read();
        let may_have = registration.as_ref().map(|one| &one.may_have);
        may_have.is_none_or(|may_have| !may_have.and(caller.workspaces()).is_empty())
    }

    /// Returns by which principal and name it is known what it is bound to, if it has only that.
    pub(crate) fn bound_as(&self) -> Option<(String, String)> {
        let registration = self.registration.read();
        let one = registration.as_ref()?;
        Some((one.principal.clone(), one.pool.as_ref()?.known_as.clone()))
    }

    /// Says whether it waits for a workspace, and can be told.
    pub(crate) fn waits(&self) -> bool {
        let registration = self.registration.read();
        let is_there = registration.as_ref().filter(|one| one.seat.is_some() && !one.draining);
        let waits = is_there
            .and_then(|one| one.pool.as_ref())
            .is_some_and(|pool| pool.waits);
        let facts = self.facts.read();
        waits && facts.is_there && facts.refused.is_none()
    }

    /// Says whether a workspace is one that a rule lets it be bound to.
    pub(crate) fn may_be_bound_to(&self, workspace: &str) -> bool {
        let registration = self.registration.read();
        let pool = registration.as_ref().and_then(|one| one.pool.as_ref());
        pool.is_some_and(|pool| pool.may_be.contains(workspace))
    }

    /// Says whether it has only what it is bound to, and was bound to nothing.
    pub(crate) fn was_never_bound(&self) -> bool {
        let registration = self.registration.read();
        let pool = registration.as_ref().and_then(|one| one.pool.as_ref());
        pool.is_some_and(|pool| pool.bound.is_none())
    }

    /// Says whether it is bound to a workspace.
    pub(crate) fn is_bound_to(&self, workspace: &str) -> bool {
        let registration = self.registration.read();
        let pool = registration.as_ref().and_then(|one| one.pool.as_ref());
        pool.is_some_and(|pool| pool.bound.as_deref() == Some(workspace))
    }

    /// Takes note of what it is bound to, if that is known: it waits no more.
    pub(crate) fn is_now_bound(&self, bound: Option<String>) {
        let mut registration = self.registration.write();
        if let Some(one) = registration.as_mut()
            && let Some(pool) = one.pool.as_mut()
        {
            pool.waits = false;
            if let Some(workspace) = bound {
                one.may_have = WorkspaceSet::one(&workspace);
                pool.bound = Some(workspace);
            }
        }
        drop(registration);
        self.news.notify_one();
    }

    /// Says whether it has said that it takes no more calls.
    pub(crate) fn is_draining(&self) -> bool {
        self.registration.read().as_ref().is_some_and(|one| one.draining)
    }

    /// Says whether it said that it stops, and has: nobody misses it.
    pub(crate) fn has_left_in_order(&self) -> bool {
        let registration = self.registration.read();
        registration
            .as_ref()
            .is_some_and(|one| one.draining && one.seat.is_none())
    }

    /// Says whether it had registered itself, and has not come back.
    pub(crate) fn has_left(&self) -> bool {
        let registration = self.registration.read();
        let left = registration.as_ref().and_then(|one| one.left);
        left.is_some_and(|left| left.elapsed() > GRACE)
    }

    /// Says so if it is there and is not to be used.
    fn usable(&self) -> Result<(), Status> {
        if self.has_left() {
            return Err(gone(&self.name));
        }
        match &self.facts.read().refused {
            None => Ok(()),
            Some(why) => Err(status::worker_gone(&format!(
                "the worker {} is not used: {why}",
                self.name
            ))),
        }
    }

    /// Reads the token again, which may have been exchanged. Blocking.
    pub(crate) fn read_token(&self) -> io::Result<()> {
        let Some(path) = self.config.read().token_file.clone() else {
            return Ok(());
        };
        let token = outgoing::token(&path)?;
        *self.token.write() = Some(token);
        Ok(())
    }

    /// Finds a connection with room for one more stream.
    fn line(&self) -> (Channel, Open) {
        self.lines.with_room(|| self.endpoint.read().connect_lazy())
    }

    /// Passes a request on, on behalf of the one that the entry names.
    pub(crate) async fn pass(&self, request: Request<Body>, entry: &HeaderValue) -> Result<Response<Body>, Status> {
        let (mut response, open) = self.send(request, Some(entry), None).await?;
        self.keep_to_itself(response.headers_mut());
        Ok(Passed::on(response, &self.name, open))
    }

    /// Sends a request on as it is but for who makes it; `origin` is that of a page which the worker is to be told.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
        entry: Option<&HeaderValue>,
        origin: Option<HeaderValue>,
    ) -> Result<(Response<Body>, Open), Status> {
        self.usable()?;
        if self.is_draining() && STARTING.contains(&request.uri().path()) {
            return Err(status::draining());
        }
        self.sign(request.headers_mut(), entry);
        if let Some(origin) = origin {
            request.headers_mut().insert(ORIGIN, origin);
        }
        request.extensions_mut().clear();
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
        let (channel, open) = self.line();
        let answer = channel.oneshot(request).await;
        answer
            .map(|response| (response, open))
            .map_err(|error| self.lost(&error))
    }

    /// Takes out of an answer what the gateway says itself.
    pub(crate) fn keep_to_itself(&self, headers: &mut HeaderMap) {
        for name in NOT_HANDED_ON {
            headers.remove(name);
        }
    }

    fn lost(&self, error: &(dyn std::error::Error + 'static)) -> Status {
        tracing::debug!(error, worker = self.name, "a worker cannot be reached");
        *self.why_lost.lock() = outgoing::cause(error);
        // Where there are many, it may be long until it is asked by turns.
        if self.facts.read().is_there {
            self.is_news();
        }
        gone(&self.name)
    }

    /// Returns why it could not be reached since this was asked last, if it could not.
    pub(crate) fn why_lost(&self) -> Option<String> {
        self.why_lost.lock().take()
    }

    /// Returns what names it in the path of an opened port: its name, and for one that has registered itself also whose it is. So one of
    /// somebody else that takes the name later is sent no secret.
    pub(crate) fn name_in_paths(&self) -> String {
        match &*self.registration.read() {
            None => self.name.clone(),
            Some(one) => {
                let digest = Sha256::digest(&one.principal);
                format!("{}.{}", self.name, hex::encode(&digest[..PRINCIPAL_BYTES]))
            }
        }
    }

    /// Lets one more request wait for an answer of an opened port, unless `most` wait already. What is returned is to be kept until the answer
    /// is there.
    pub(crate) fn wait_for_port(&self, most: usize) -> Result<Open, Status> {
        let (open, waiting) = Open::one_more(&self.waiting);
        if waiting < most {
            return Ok(open);
        }
        let problem = format!(
            "{most} requests wait for the ports of the worker {}, which is as many as may; try again",
            self.name
        );
        Err(status::exhausted(
            ErrorReason::TooManyStreams,
            "limits.max_streams",
            most as u64,
            status::RETRY_DELAY,
            problem,
        ))
    }

    /// Returns where it is.
    pub(crate) fn address(&self) -> String {
        self.config.read().address.clone()
    }

    fn sign(&self, headers: &mut HeaderMap, entry: Option<&HeaderValue>) {
        for name in NOT_SENT_ON {
            headers.remove(name);
        }
        if let Some(token) = self.token.read().clone() {
            headers.insert(AUTHORIZATION, token);
        }
        if let Some(entry) = entry {
            headers.insert(ENTRY, entry.clone());
        }
        toolgate_telemetry::tell(headers);
    }

    /// Returns what operators see of it.
    pub(crate) fn told_to_operators(&self) -> WorkerFacts {
        WorkerFacts {
            name: self.name.clone(),
            is_there: self.facts.read().is_there,
            streams: self.lines.streams() as u64,
        }
    }

    /// Asks it something, by itself or on behalf of somebody.
    pub(crate) async fn ask<Q, A>(
        &self,
        path: &'static str,
        question: Q,
        entry: Option<&HeaderValue>,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.usable()?;
        self.ask_about_itself(path, question, entry).await
    }

    /// The same, also of one that is not used.
    pub(crate) async fn ask_about_itself<Q, A>(
        &self,
        path: &'static str,
        question: Q,
        entry: Option<&HeaderValue>,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (channel, _open) = self.line();
        let mut grpc = Grpc::new(channel).max_decoding_message_size(self.limit);
        let ready = grpc.ready().await;
        ready.map_err(|error| self.lost(&error))?;
        let request = self.question(question, entry);
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(request, PathAndQuery::from_static(path), codec).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| self.told(status))
    }

    /// Opens a stream at it.
    pub(crate) async fn follow<Q, A>(
        &self,
        path: &'static str,
        questions: impl futures_util::Stream<Item = Q> + Send + 'static,
        entry: &HeaderValue,
    ) -> Result<(Streaming<A>, Open), Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (answer, open) = self.open(path, questions, entry).await?;
        Ok((answer.into_inner(), open))
    }

    /// Opens a stream at it, and returns what is said before its first message, too.
    pub(crate) async fn open<Q, A>(
        &self,
        path: &'static str,
        questions: impl futures_util::Stream<Item = Q> + Send + 'static,
        entry: &HeaderValue,
    ) -> Result<(tonic::Response<Streaming<A>>, Open), Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.usable()?;
        let (channel, open) = self.line();
        let mut grpc = Grpc::new(channel).max_decoding_message_size(self.limit);
        let ready = grpc.ready().await;
        ready.map_err(|error| self.lost(&error))?;
        let request = self.question(questions, Some(entry));
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.streaming(request, PathAndQuery::from_static(path), codec).await;
        let answer = answer.map_err(|status| self.told(status))?;
        Ok((answer, open))
    }

    fn question<Q>(&self, question: Q, entry: Option<&HeaderValue>) -> tonic::Request<Q> {
        let mut headers = HeaderMap::new();
        self.sign(&mut headers, entry);
        tonic::Request::from_parts(
            MetadataMap::from_headers(headers),
            tonic::Extensions::default(),
            question,
        )
    }

    /// Tells a connection that broke from what the worker itself says: that has details.
    pub(crate) fn told(&self, status: Status) -> Status {
        if status.details().is_empty() && std::error::Error::source(&status).is_some() {
            return self.lost(&status);
        }
        status
    }
}

fn endpoint(config: &WorkerConfig) -> anyhow::Result<Endpoint> {
    let pems = Pems {
        ca: config.ca.as_deref(),
        identity: config.certificate.as_deref().zip(config.key.as_deref()),
    };
    Ok(windowed(outgoing::endpoint(&config.address, pems)?))
}
