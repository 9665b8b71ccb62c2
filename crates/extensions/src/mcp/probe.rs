//! Trying a server out: whether it can be connected to, and whether it wants a login.
//!
//! *Invariant:* no tool is called. Nothing of it is left when this returns.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_model::InstanceId;
use toolgate_web::{Network, Url};

use super::dispatcher::{About, Disconnect, Dispatcher};
use super::login::Credentials;
use super::remote;
use super::settings::Remote;

/// How long taking leave may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// What became of trying a server out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// It works, and has so many tools.
    Works(usize),
    /// It wants a login; with what it said when it refused.
    NeedsLogin(String),
    /// It does not work; the text says why.
    Failed(String),
}

/// Connects to a server and lists its tools. It is logged in at if the settings have where logins are kept.
pub async fn probe(name: &str, remote: &Remote, limit: Duration, network: &Network, instance: &InstanceId) -> Probed {
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let url = match remote.url.parse::<Url>() {
        Ok(url) => url,
        Err(error) => return Probed::Failed(error.to_string()),
    };
    let credentials = remote.logins.as_ref();
    let credentials = credentials.map(|logins| Arc::new(Credentials::new(url, Arc::clone(logins), tasks.clone())));
    let about = About {
        server: name.to_owned(),
        root: String::new(),
        instance: instance.clone(),
        is_started: false,
        connect_limit: limit,
    };
    let make = || Dispatcher::new(about.clone(), tasks.clone(), stop.clone());
    let probed = match remote::connect(remote, credentials, network, make).await {
        Err(loss) => probed(loss, name),
        Ok((link, offers)) => {
            let listed = match offers.tools {
                true => link.list(limit).await.map(|tools| tools.len()),
                false => Ok(0),
            };
            let probed = match (listed, link.dispatcher.loss()) {
                (Ok(tools), _) => Probed::Works(tools),
                (Err(_), Some(loss @ (Disconnect::NeedsAuth { .. } | Disconnect::NeedsRegistration))) => {
                    probed(loss, name)
                }
                (Err(problem), _) => Probed::Failed(problem),
            };
            let _ = tokio::time::timeout(CLOSE_LIMIT, link.outlet.close()).await;
            probed
        }
    };
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    probed
}

fn probed(loss: Disconnect, name: &str) -> Probed {
    match loss {
        Disconnect::NeedsAuth { challenge } => Probed::NeedsLogin(challenge),
        // Whether that is so is found out once more on the way.
        Disconnect::NeedsRegistration => Probed::NeedsLogin(String::new()),
        Disconnect::Failed(_) | Disconnect::Itself(_) => Probed::Failed(loss.text(name)),
    }
}
