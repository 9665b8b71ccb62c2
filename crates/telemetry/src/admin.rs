//! The port for operators: `/metrics`, `/healthz`, `/readyz` and `/readyz/store`, over plain HTTP.
//!
//! *Invariant:* says nothing that a call was given or gave back, so it needs no authentication; answers from before the
//! service is built until after it is drained, and whatever is asked here never waits for a call.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Metrics, Snapshot};

/// How long a look at the service may take, before it counts as not ready.
const READINESS_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an open connection may take when the service ends.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Looks at the service when somebody asks.
#[async_trait]
pub trait Watched: Send + Sync + 'static {
    /// Returns what is counted on request.
    async fn snapshot(&self) -> Snapshot;

    /// Says why no calls should be sent here, in words for an operator.
    ///
    /// # Errors
    /// The service is not ready.
    async fn ready(&self) -> Result<(), String>;

    /// Says why the store cannot be used, which does not keep requests from here by itself.
    ///
    /// # Errors
    /// It is away.
    async fn store(&self) -> Result<(), String> {
        self.ready().await
    }
}

struct Shown {
    metrics: Arc<Metrics>,
    /// Nothing while the service starts.
    watched: OnceLock<Arc<dyn Watched>>,
}

/// The port while it is open.
pub struct Admin {
    address: SocketAddr,
    shown: Arc<Shown>,
    /// One task; dropping it ends the port.
    task: JoinSet<io::Result<()>>,
    stop: CancellationToken,
}

impl Admin {
    /// Opens the port of a service that starts.
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn open(address: SocketAddr, metrics: Arc<Metrics>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let shown = Arc::new(Shown {
            metrics,
            watched: OnceLock::new(),
        });
        let stop = CancellationToken::new();
        let address = listener.local_addr()?;
        let routes = Router::new()
            .route("/metrics", get(metrics_text))
            .route("/healthz", get(async || "alive\n"))
            .route("/readyz", get(readiness))
            .route("/readyz/store", get(readiness_of_store))
            .with_state(shown.clone());
        let mut task = JoinSet::new();
        let serving = axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
        task.spawn(async move { serving.await });
        Ok(Self {
            address,
            shown,
            task,
            stop,
        })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells it that the service has started; the first one counts.
    pub fn watch(&self, watched: Arc<dyn Watched>) {
        let _ = self.shown.watched.set(watched);
    }

    /// Closes the port.
    pub async fn close(mut self) {
        self.stop.cancel();
        let ended = async { while self.task.join_next().await.is_some() {} };
        // Whoever keeps a connection open does not keep the service up.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, ended).await;
    }
}

async fn metrics_text(State(shown): State<Arc<Shown>>) -> Response {
    let now = match shown.watched.get() {
        Some(watched) => tokio::time::timeout(READINESS_TIMEOUT, watched.snapshot())
            .await
            .unwrap_or_default(),
        None => Snapshot::default(),
    };
    shown.metrics.observe(now);
    match shown.metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn readiness(State(shown): State<Arc<Shown>>) -> Response {
    answer(match shown.watched.get() {
        None => Err("starting".to_owned()),
        Some(watched) => in_time(watched.ready()).await,
    })
}

async fn readiness_of_store(State(shown): State<Arc<Shown>>) -> Response {
    answer(match shown.watched.get() {
        None => Err("starting".to_owned()),
        Some(watched) => in_time(watched.store()).await,
    })
}

async fn in_time(look: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let looked = tokio::time::timeout(READINESS_TIMEOUT, look).await;
    looked.unwrap_or_else(|_| Err("the store does not answer".to_owned()))
}

fn answer(ready: Result<(), String>) -> Response {
    let (status, text) = match ready {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    (status, [(CACHE_CONTROL, "no-store")], text).into_response()
}
