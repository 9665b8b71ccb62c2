//! Connecting to a server that is reached by HTTP.
//!
//! *Invariant:* the present kind of HTTP is tried first, then the first one, each within the time limit.

use std::sync::Arc;

use toolgate_web::{Network, Url};

use super::client::{self, Link, Offers};
use super::dispatcher::{Disconnect, Dispatcher, Queue, with_causes};
use super::endpoint::{self, Endpoint};
use super::guards;
use super::http;
use super::login::Credentials;
use super::settings::Remote;
use super::sse;

/// Connects to a server. `dispatcher` makes the connection of each attempt.
pub(super) async fn connect(
    remote: &Remote,
    credentials: Option<Arc<Credentials>>,
    network: &Network,
    dispatcher: impl Fn() -> (Arc<Dispatcher>, Queue),
) -> Result<(Link, Offers), Disconnect> {
    let headers = endpoint::headers(&remote.headers).map_err(Disconnect::Failed)?;
    let url = Url::parse(&remote.url).map_err(|error| Disconnect::Failed(with_causes(&error)))?;
    let client = network.client_to(&url).await;
    let (first_dispatcher, queue) = dispatcher();
    let endpoint = Endpoint {
        client: client.map_err(|error| Disconnect::Failed(with_causes(&error)))?,
        network: network.clone(),
        url,
        credentials: credentials.filter(|_| !Endpoint::logs_in(&headers)),
        headers,
        dispatcher: first_dispatcher,
    };
    let link = http::open(endpoint.clone(), queue);
    let first = match link.connect().await {
        Ok(offers) => return Ok((link, offers)),
        Err(Disconnect::Failed(problem)) => problem,
        Err(loss) => return Err(explained(loss, &endpoint).await),
    };
    let (dispatcher, queue) = dispatcher();
    let endpoint = Endpoint { dispatcher, ..endpoint };
    match connect_by_sse(&endpoint, queue).await {
        Err(Disconnect::Failed(second)) if second == first => Err(Disconnect::Failed(first)),
        Err(Disconnect::Failed(second)) => Err(Disconnect::Failed(format!("streamable HTTP: {first}; SSE: {second}"))),
        Err(loss) => Err(explained(loss, &endpoint).await),
        Ok(connected) => Ok(connected),
    }
}

async fn connect_by_sse(endpoint: &Endpoint, queue: Queue) -> Result<(Link, Offers), Disconnect> {
    let limit = endpoint.dispatcher.about.connect_limit;
    let opened = tokio::time::timeout(limit, sse::open(endpoint.clone(), queue)).await;
    match opened.unwrap_or_else(|_| Err(client::timed_out(limit))) {
        Ok(link) => {
            let offers = link.connect().await?;
            Ok((link, offers))
        }
        Err(problem) => {
            endpoint.dispatcher.lose(Disconnect::Failed(problem));
            Err(endpoint.dispatcher.lost().await)
        }
    }
}

/// Finds out whether anybody can log in at a server that wants it: not before this client is registered, if the server
/// lets no client register by itself.
async fn explained(loss: Disconnect, endpoint: &Endpoint) -> Disconnect {
    let needs_client = endpoint
        .credentials
        .as_ref()
        .is_some_and(|credentials| !credentials.has_client());
    let refuses = match &loss {
        Disconnect::NeedsAuth { challenge } if needs_client => {
            let refuses = guards::refuses_registration(&endpoint.url, challenge, &endpoint.network);
            let limit = endpoint.dispatcher.about.connect_limit;
            tokio::time::timeout(limit, refuses).await.unwrap_or(false)
        }
        Disconnect::NeedsAuth { .. }
        | Disconnect::NeedsRegistration
        | Disconnect::Failed(_)
        | Disconnect::Itself(_) => false,
    };
    if refuses { Disconnect::NeedsRegistration } else { loss }
}
