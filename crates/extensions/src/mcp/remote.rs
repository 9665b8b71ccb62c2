//! Connecting to a server that is reached by HTTP.
//!
//! *Invariant:* the present kind of HTTP is tried first, then the first one, each within the time limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::RunningService;
use toolgate_web::{Network, Url};

use super::client::{self, About, Handler};
use super::http::{self, Endpoint};
use super::login::Credentials;
use super::oauth;
use super::signals::{Disconnect, ServerSignals, chain};
use super::sse::Sse;

/// A server that is reached by HTTP, and the login there.
pub(super) struct Place<'s> {
    pub(super) url: &'s str,
    pub(super) headers: &'s BTreeMap<String, String>,
    pub(super) credentials: Option<Arc<Credentials>>,
    pub(super) about: About,
}

/// A connection, and what the server says over it.
pub(super) type Connected = (RunningService<RoleClient, Handler>, Arc<ServerSignals>);

/// Connects to a server.
pub(super) async fn connect(place: Place<'_>, limit: Duration, network: &Network) -> Result<Connected, Disconnect> {
    let headers = http::headers(place.headers).map_err(Disconnect::Failed)?;
    let endpoint = Endpoint {
        client: client(network, place.url).await.map_err(Disconnect::Failed)?,
        network: network.clone(),
        url: place.url.into(),
        credentials: place.credentials.filter(|_| !http::logs_in(&headers)),
        headers,
        signals: Arc::default(),
    };
    let handler = |endpoint: &Endpoint| Handler::new(Arc::clone(&endpoint.signals), place.about.clone());
    let first = match client::connect(endpoint.streamable(), handler(&endpoint), limit).await {
        Ok(running) => return Ok((running, endpoint.signals)),
        Err(Disconnect::Failed(problem)) => problem,
        Err(loss) => return Err(explained(loss, &endpoint, limit).await),
    };
    let endpoint = Endpoint {
        signals: Arc::default(),
        ..endpoint
    };
    let failed = |second: String| Disconnect::Failed(format!("streamable HTTP: {first}; SSE: {second}"));
    let opened = tokio::time::timeout(limit, Sse::open(endpoint.clone())).await;
    let opened = opened.unwrap_or_else(|_| Err(client::timed_out(limit)));
    let connected = match opened {
        Ok(transport) => client::connect(transport, handler(&endpoint), limit).await,
        Err(problem) => Err(endpoint.signals.loss().unwrap_or(Disconnect::Failed(problem))),
    };
    match connected {
        Ok(running) => Ok((running, endpoint.signals)),
        Err(Disconnect::Failed(second)) => Err(failed(second)),
        Err(loss) => Err(explained(loss, &endpoint, limit).await),
    }
}

async fn client(network: &Network, url: &str) -> Result<reqwest::Client, String> {
    let url = Url::parse(url).map_err(|error| chain(&error))?;
    network.client_to(&url).await.map_err(|error| chain(&error))
}

/// Finds out whether anybody can log in at a server that wants it: not before this client is registered, if the server
/// lets no client register by itself.
async fn explained(loss: Disconnect, endpoint: &Endpoint, limit: Duration) -> Disconnect {
    let needs_client = endpoint
        .credentials
        .as_ref()
        .is_some_and(|credentials| !credentials.has_client());
    let refuses = match &loss {
        Disconnect::NeedsAuth { challenge } if needs_client => {
            let refuses = oauth::refuses_registration(&endpoint.url, challenge, &endpoint.network);
            tokio::time::timeout(limit, refuses).await.unwrap_or(false)
        }
        Disconnect::NeedsAuth { .. }
        | Disconnect::NeedsRegistration
        | Disconnect::Failed(_)
        | Disconnect::Itself(_) => false,
    };
    if refuses { Disconnect::NeedsRegistration } else { loss }
}
