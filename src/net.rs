//! The only HTTP client: what every request of the service has in common.
//!
//! *Invariant:* a leaf. No proxy of the environment is used, no connection is kept for later, a redirect never leaves the
//! server it began at, and connecting takes bounded time. How long an answer may take and how large it may be is for
//! whoever asks: a stream of events has no end.

use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::{Attempt, Policy};

/// How long a connection may take to come about.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How often a silent connection is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

const MAX_REDIRECTS: usize = 5;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up HTTP")]
pub struct ClientError(#[source] reqwest::Error);

/// Makes a client for servers that the operator has named: any address is good, loopback included.
///
/// # Errors
/// The machine's root certificates cannot be used.
pub fn client() -> Result<Client, ClientError> {
    // An error says that there is a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("toolgate/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .connect_timeout(CONNECT_LIMIT)
        .tcp_keepalive(KEEPALIVE)
        // A connection taken up again costs a stall of 40 ms with servers that delay their acknowledgements.
        .pool_max_idle_per_host(0)
        .referer(false)
        .redirect(Policy::custom(follow))
        .build()
        .map_err(ClientError)
}

/// Headers of a configuration hold secrets under any name, so they must not follow to another server.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let same = attempt.previous().first().map(reqwest::Url::origin) == Some(attempt.url().origin());
    if same && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}
