//! A worker that registers at its gateways, and is registered again when a gateway was lost.
//!
//! *Invariant:* a gateway may call by its secret while it is registered there, and [`GRACE`] longer, so that what is under way
//! outlives a short break; never before. One gateway that is away keeps back no other. One that is gone is left in order: it may only be
//! out of sight, and is not to take this run for dead. When the worker stops it says so before it leaves: nobody is to miss it.

#![allow(clippy::disallowed_methods)] // reads the name of the machine

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::codegen::http::HeaderValue;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status, Streaming};
use toolgate_config::service::ClusterConfig;
use toolgate_contract::cluster::cluster_service_client::ClusterServiceClient;
use toolgate_contract::cluster::register_request::Message as Said;
use toolgate_contract::cluster::register_response::Message as Told;
use toolgate_contract::cluster::{
    BoundTo, GatewayHeartbeat, RefusedWorkspaces, RegisterRequest, RegisterResponse, WorkerHeartbeat, WorkerHello,
    WorkspaceNames,
};
use toolgate_engine::Engine;
use toolgate_ledger::chance::{share_of, with_chance};
use toolgate_ledger::{Line, Ways};
use toolgate_store::Store;

use super::ledger::shown;
use super::outgoing;
use super::workspaces::AtRunTime;
use crate::grpc::ServeError;
use crate::grpc::auth::{Authenticator, LetIn, Registered};

/// The lowest and the highest version of what gateways and workers say to each other that this program speaks.
pub const PROTOCOLS: (u32, u32) = (1, 1);

/// How often each side says something, and how long a silence is that ends a registration.
pub const CLUSTER_HEARTBEAT: Duration = Duration::from_secs(5);
/// See [`CLUSTER_HEARTBEAT`].
pub const CLUSTER_SILENCE: Duration = Duration::from_secs(15);

/// How long a gateway may still call when its registration was lost.
pub const GRACE: Duration = Duration::from_secs(30);

/// How often it is looked whether there is something to say.
const TICK: Duration = Duration::from_millis(500);

/// How long a gateway may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long it may take to take leave while the service stops, which waits for that.
const LEAVING: Duration = Duration::from_secs(1);

/// How long to wait before registering again: at first, and at most. Some of it is chance, so that not all workers come at once.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// How long it takes at most, beyond a pause, until all workers of a gateway have come back one after the other.
const LONGEST_SPREAD: Duration = Duration::from_secs(10);

/// Where the kernel says how the machine is called.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The longest name of a worker.
const MAX_NAME_BYTES: usize = 63;

/// Messages to a gateway that wait.
const WAITING_MESSAGES: usize = 8;

/// What is said of the worker at each gateway.
struct Worker {
    config: ClusterConfig,
    name: String,
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
    authenticator: Arc<Authenticator>,
    /// Opens the workspace of a worker that came without one.
    workspaces: AtRunTime,
    /// Whether it came without one.
    is_unbound: bool,
}

/// The longest pause where the gateway does not let the worker in, which is for somebody to put right, as when a token was exchanged; and
/// where it does not answer in time. Of thousands that come at once it may answer none in time: fewer of them at once are what it needs.
const LONG_PAUSE: Duration = Duration::from_secs(30);

const GONE: &str = "the gateway is gone";

/// Why a registration is over.
struct Ended {
    why: String,
    /// Whether the gateway does not let the worker in.
    is_refused: bool,
    /// Whether it does not answer in time.
    is_late: bool,
    /// Whether nothing came of the gateway any more, which may be the connection's fault.
    is_silent: bool,
    /// What still lets the gateway in, if it was registered.
    let_in: Option<LetIn>,
    /// How long all its workers need to come back one after the other, as the gateway said last.
    spread: Duration,
}

impl From<Status> for Ended {
    fn from(status: Status) -> Self {
        let cause = std::error::Error::source(&status).and_then(outgoing::cause);
        let said = cause.unwrap_or_else(|| status.message().to_owned());
        Self {
            is_refused: [Code::Unauthenticated, Code::PermissionDenied].contains(&status.code()),
            ..Self::because(said)
        }
    }
}

impl Ended {
    fn because(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            is_refused: false,
            is_late: false,
            is_silent: false,
            let_in: None,
            spread: Duration::ZERO,
        }
    }
}

/// Why a worker may leave a gateway.
struct Leaving {
    /// That gateway is gone, or the worker stops.
    gone: CancellationToken,
    /// The worker stops.
    stop: CancellationToken,
}

/// Registers at all gateways of the configuration until `stop`.
///
/// # Errors
/// A file of credentials cannot be used; the text names it.
pub(super) async fn start(
    (config, mut ways): (&ClusterConfig, Ways),
    (store, engine, authenticator): (&Arc<dyn Store>, &Arc<Engine>, &Arc<Authenticator>),
    (workspaces, is_unbound): (&AtRunTime, bool),
    servers: &mut JoinSet<Result<(), ServeError>>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    if let Some(path) = config.identity.clone() {
        let read = tokio::task::spawn_blocking(move || outgoing::token(&path)).await?;
        read.map_err(|error| anyhow::anyhow!("cluster.identity: {error}"))?;
    }
    let worker = Arc::new(Worker {
        name: config.name.clone().unwrap_or_else(name_of_machine),
        config: config.clone(),
        store: store.clone(),
        engine: engine.clone(),
        authenticator: authenticator.clone(),
        workspaces: workspaces.clone(),
        is_unbound,
    });
    let stop = stop.clone();
    servers.spawn(async move {
        worker.everywhere(&mut ways, &stop).await;
        Ok(())
    });
    Ok(())
}

/// Makes a name of a worker of the name of the machine.
fn name_of_machine() -> String {
    fitting(std::fs::read_to_string(HOST_NAME).unwrap_or_default().trim())
}

/// Makes a name of a worker of the name of a machine or a pod.
#[must_use]
pub fn fitting(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(plain).take(MAX_NAME_BYTES).collect();
    match name.is_empty() {
        true => "worker".to_owned(),
        false => name,
    }
}

impl Worker {
    /// Registers at each gateway that there is, and no longer at those that are gone; until `stop`, at which it takes leave of all.
    async fn everywhere(self: Arc<Self>, ways: &mut Ways, stop: &CancellationToken) {
        let (mut tasks, mut running) = (JoinSet::new(), BTreeMap::new());
        loop {
            let now = ways.borrow_and_update().clone();
            running.retain(|gateway: &String, gone: &mut CancellationToken| {
                let is_there = now.iter().any(|way| way.name == *gateway);
                if !is_there {
                    tracing::info!(gateway, "a gateway is gone");
                    gone.cancel();
                }
                is_there
            });
            for way in now
                .iter()
                .filter(|way| !running.contains_key(&way.name))
                .collect::<Vec<_>>()
            {
                let (worker, gateway, ways) = (self.clone(), way.name.clone(), ways.clone());
                let leaving = Leaving {
                    gone: stop.child_token(),
                    stop: stop.clone(),
                };
                running.insert(way.name.clone(), leaving.gone.clone());
                tasks.spawn(async move { worker.stay_registered(&gateway, &ways, &leaving).await });
            }
            let mut has_changed = false;
            while !has_changed {
                tokio::select! {
                    changed = ways.changed() => match changed {
                        Ok(()) => has_changed = true,
                        // They stay as they are.
                        Err(_) => {
                            while tasks.join_next().await.is_some() {}
                            return;
                        }
                    },
                    Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
                    () = stop.cancelled() => {
                        while tasks.join_next().await.is_some() {}
                        return;
                    }
                }
            }
        }
    }

    /// Stays registered at a gateway until it is gone, and lets it in a little longer.
    async fn stay_registered(&self, gateway: &str, ways: &Ways, leaving: &Leaving) {
        let secret = Registered::make_secret();
        let mut fading: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        let (mut pause, mut spread, mut told) = (Duration::ZERO, Duration::ZERO, None);
        loop {
            let began = Instant::now();
            let wait = with_chance(pause) + share_of(std::mem::take(&mut spread));
            let attempt = async {
                leaving.gone.run_until_cancelled(sleep(wait)).await;
                // As it is reached now: certificates may have been exchanged.
                let way = ways.borrow().iter().find(|way| way.name == gateway).cloned();
                match way {
                    Some(_) if leaving.gone.is_cancelled() => Ended::because(GONE),
                    Some(way) => self.register(gateway, &way.line, &secret, leaving).await,
                    None => Ended::because(GONE),
                }
            };
            tokio::pin!(attempt);
            let Ended {
                why,
                is_refused,
                is_late,
                is_silent: _,
                let_in,
                spread: of_all,
            } = loop {
                tokio::select! {
                    ended = &mut attempt => break ended,
                    Some(()) = fading.next(), if !fading.is_empty() => {}
                }
            };
            if leaving.stop.is_cancelled() {
                // The service takes no more calls, so it does not matter who may make some.
                return;
            }
            let was_registered = let_in.is_some();
            if was_registered {
                // The gateway may take this run for dead.
                self.store.show_life();
            }
            if leaving.gone.is_cancelled() {
                // That was told.
            } else if is_refused && told.as_ref() != Some(&why) {
                tracing::error!(
                    gateway,
                    why,
                    worker = self.name,
                    "the gateway does not let this worker in; it is tried again now and then. {}",
                    shown(&self.config)
                );
            } else if was_registered || told.as_ref() != Some(&why) {
                tracing::warn!(
                    gateway,
                    why,
                    worker = self.name,
                    "not registered at a gateway; it is tried again"
                );
            }
            (told, spread) = (Some(why), of_all);
            if let Some(let_in) = let_in {
                fading.push(Box::pin(async move {
                    sleep(GRACE).await;
                    let_in.revoke();
                }));
            }
            if leaving.gone.is_cancelled() {
                let faded = async { while fading.next().await.is_some() {} };
                leaving.stop.run_until_cancelled(faded).await;
                return;
            }
            let most = if is_refused || is_late { LONG_PAUSE } else { PAUSES.1 };
            let held = was_registered && began.elapsed() > CLUSTER_SILENCE;
            pause = match held {
                true => PAUSES.0,
                false => (pause * 2).clamp(PAUSES.0, most),
            };
        }
    }

    /// Registers once, and stays so for as long as both sides are there.
    async fn register(&self, gateway: &str, line: &Line, secret: &str, leaving: &Leaving) -> Ended {
        let (sender, receiver) = mpsc::channel(WAITING_MESSAGES);
        let mut workspaces = self.workspaces();
        let hello = Said::Hello(WorkerHello {
            name: self.name.clone(),
            address: self.config.advertise.clone().unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            lowest_protocol: PROTOCOLS.0,
            highest_protocol: PROTOCOLS.1,
            workspaces: workspaces.clone(),
            secret: secret.to_owned(),
            run: self.engine.calls().instance().to_string(),
            unbound: self.is_unbound && workspaces.is_empty(),
        });
        let mut request = Request::new(ReceiverStream::new(receiver));
        match self.credentials().await {
            Ok(Some(token)) => {
                let mut headers = tonic::codegen::http::HeaderMap::new();
                headers.insert(AUTHORIZATION, token);
                *request.metadata_mut() = MetadataMap::from_headers(headers);
            }
            Ok(None) => {}
            Err(error) => return Ended::because(format!("cluster.identity: {error}")),
        }
        // The buffer has room for the first one.
        let _ = sender.try_send(RegisterRequest { message: Some(hello) });
        let Some(let_in) = self.authenticator.let_in(gateway, secret) else {
            return Ended::because("the service lets no gateway in");
        };
        let mut client = ClusterServiceClient::new(line.channel());
        let registering = async {
            let mut answers = client.register(request).await?.into_inner();
            let first = answers.message().await?;
            Ok::<_, Status>((answers, first))
        };
        let registering = leaving.stop.run_until_cancelled(timeout(ANSWER_TIMEOUT, registering));
        let (mut answers, first) = match registering.await {
            Some(Ok(Ok(answer))) => answer,
            Some(Ok(Err(status))) => return status.into(),
            Some(Err(_)) => {
                line.give_up();
                return Ended {
                    is_late: true,
                    ..Ended::because("the gateway does not answer")
                };
            }
            None => return Ended::because(GONE),
        };
        match first {
            Some(RegisterResponse {
                message: Some(Told::Registered(registered)),
            }) => tracing::info!(
                gateway,
                version = registered.version,
                worker = self.name,
                "registered at a gateway"
            ),
            Some(_) | None => {
                return Ended::because("the gateway has answered with something that is not understood");
            }
        }
        let mut spread = Duration::ZERO;
        let said = (&sender, &mut answers, &mut spread);
        let why = self.keep(gateway, &mut workspaces, said, &leaving.gone).await;
        if why.is_silent {
            line.give_up();
        }
        if leaving.gone.is_cancelled() {
            // Half-closed, so that nothing broke as the gateway sees it; then it ends its half.
            drop(sender);
            self.store.show_life();
            let ended = async { while let Ok(Some(_)) = answers.message().await {} };
            let patience = match leaving.stop.is_cancelled() {
                true => LEAVING,
                false => ANSWER_TIMEOUT,
            };
            let _ = timeout(patience, ended).await;
        }
        Ended {
            let_in: Some(let_in),
            spread: spread.min(LONGEST_SPREAD),
            ..why
        }
    }

    /// Says what changes until something ends the registration.
    async fn keep(
        &self,
        gateway: &str,
        workspaces: &mut Vec<String>,
        (sender, answers, spread): (
            &mpsc::Sender<RegisterRequest>,
            &mut Streaming<RegisterResponse>,
            &mut Duration,
        ),
        gone: &CancellationToken,
    ) -> Ended {
        let (mut heard, mut said, mut was_draining) = (Instant::now(), Instant::now(), false);
        let mut ticks = tokio::time::interval(TICK);
        let mut binding: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => {
                        heard = Instant::now();
                        match answer.message {
                            Some(Told::Refused(refused)) => report(gateway, &refused),
                            // Said again until it is done.
                            Some(Told::Bound(BoundTo { workspace })) if binding.is_empty() => {
                                binding.push(Box::pin(self.bind(gateway, workspace)));
                            }
                            Some(Told::Heartbeat(GatewayHeartbeat { spread_millis })) => {
                                *spread = Duration::from_millis(spread_millis.into());
                            }
                            Some(Told::Bound(_) | Told::Registered(_)) | None => {}
                        }
                    }
                    Ok(None) => return Ended::because("the gateway has ended the registration"),
                    Err(status) => return status.into(),
                },
                Some(()) = binding.next(), if !binding.is_empty() => {}
                () = gone.cancelled() => {
                    // If the worker stops, this is the last that is heard of it: what ran has ended before, perhaps a moment ago.
                    if !was_draining && self.engine.calls().is_draining() {
                        let message = Some(Said::Heartbeat(WorkerHeartbeat { draining: true }));
                        let _ = sender.try_send(RegisterRequest { message });
                    }
                    return Ended::because(GONE);
                }
                _ = ticks.tick() => {}
            }
            if heard.elapsed() > CLUSTER_SILENCE {
                return Ended {
                    is_silent: true,
                    ..Ended::because("nothing is heard of the gateway")
                };
            }
            let (now, draining) = (self.workspaces(), self.engine.calls().is_draining());
            let message = if now != *workspaces {
                workspaces.clone_from(&now);
                Said::Workspaces(WorkspaceNames { names: now })
            } else if draining != was_draining || said.elapsed() > CLUSTER_HEARTBEAT {
                was_draining = draining;
                Said::Heartbeat(WorkerHeartbeat { draining })
            } else {
                continue;
            };
            said = Instant::now();
            let message = RegisterRequest { message: Some(message) };
            if sender.try_send(message).is_err() {
                return Ended {
                    is_silent: true,
                    ..Ended::because("the gateway does not listen")
                };
            }
        }
    }

    /// Takes the workspace that a gateway says is this worker's.
    async fn bind(&self, gateway: &str, workspace: String) {
        if let Err(error) = self.workspaces.bind(&workspace).await {
            let error = format!("{error:#}");
            tracing::error!(
                gateway,
                workspace,
                error,
                "this worker cannot have the workspace that it is bound to"
            );
        }
    }

    fn workspaces(&self) -> Vec<String> {
        let places = self.engine.catalogs().all();
        let names = places.iter().map(|place| place.workspace.name().to_owned());
        names.collect()
    }

    /// Reads what says who the worker is, which may have been exchanged.
    async fn credentials(&self) -> std::io::Result<Option<HeaderValue>> {
        let Some(path) = self.config.identity.clone() else {
            return Ok(None);
        };
        let read = tokio::task::spawn_blocking(move || outgoing::token(Path::new(&path)));
        read.await.map_err(std::io::Error::other)?.map(Some)
    }
}

fn report(gateway: &str, refused: &RefusedWorkspaces) {
    if refused.workspaces.is_empty() {
        tracing::info!(gateway, "all workspaces are served by the gateway");
    }
    for one in &refused.workspaces {
        tracing::error!(
            gateway,
            workspace = one.workspace,
            reason = one.reason,
            "the gateway does not serve a workspace of this worker"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_machine_is_made_to_fit() {
        for (machine, name) in [("Web-7.example", "web-7-example"), ("", "worker"), ("ä", "-")] {
            assert_eq!(fitting(machine), name);
        }
        assert_eq!(fitting(&"a".repeat(100)).len(), MAX_NAME_BYTES);
    }
}
