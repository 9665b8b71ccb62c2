//! The way to one server, for all that leads there: its tools, its prompts and resources, what it asks in the midst of a call.
//!
//! *Invariant:* who waits for a server waits here, for a bounded time. A list that it did not give is not asked for again at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::{Link, Offers, RequestError};
use super::follows::Follows;
use super::relay::Relays;

/// How long a server is not asked for a list that it did not give.
const LIST_PAUSE: Duration = Duration::from_secs(60);

/// What a server can list beside tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// Prompts.
    Prompts,
    /// Resources.
    Resources,
    /// Templates of the addresses of resources.
    Templates,
}

impl List {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// Returns the key of an answer that has the list.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    pub(super) fn is_among(self, offers: Offers) -> bool {
        match self {
            Self::Prompts => offers.prompts,
            Self::Resources | Self::Templates => offers.resources,
        }
    }
}

/// Why a server lists nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// There is no connection to it.
    NotConnected,
    /// It does not give its list, for this reason.
    Failed(String),
}

/// The way to a server at the moment.
#[derive(Clone)]
pub(super) enum Way {
    Open(Link, Offers),
    /// It is lost, and the first attempt to connect again is under way. With the reason, if one is known.
    Returning(Option<String>),
    Closed(Option<String>),
}

/// What the tools of a server have in common: the way to it.
pub(super) struct Shared {
    name: String,
    /// The workspace's folder, as a URL.
    root: String,
    relays: Arc<Relays>,
    follows: Arc<Follows>,
    way: watch::Sender<Way>,
    /// Its prompts and resources, as they were listed last. Never held across an await.
    lists: Mutex<HashMap<List, Known>>,
}

/// What is known of a list.
struct Known {
    listed: Result<Arc<Vec<Value>>, String>,
    /// Until when it is not asked for again; none if it was read.
    until: Option<Instant>,
}

impl Known {
    fn is_fresh(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

impl Shared {
    pub(super) fn new(name: &str, root: &str, relays: &Arc<Relays>, follows: &Arc<Follows>) -> Self {
        Self {
            name: name.to_owned(),
            root: root.to_owned(),
            relays: Arc::clone(relays),
            follows: Arc::clone(follows),
            way: watch::Sender::new(Way::Closed(None)),
            lists: Mutex::default(),
        }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    pub(super) fn relays(&self) -> &Relays {
        &self.relays
    }

    /// Returns what clients follow there.
    pub(super) fn follows(&self) -> &Arc<Follows> {
        &self.follows
    }

    /// Returns the connection, if there is one, and what is offered there.
    pub(super) fn open(&self) -> Option<(Link, Offers)> {
        match &*self.way.borrow() {
            Way::Open(link, offers) => Some((link.clone(), *offers)),
            Way::Returning(_) | Way::Closed(_) => None,
        }
    }

    /// Returns what the server lists; nothing if it has no such list or cannot be asked.
    pub(super) async fn listed(&self, list: List, limit: Duration) -> Arc<Vec<Value>> {
        self.list(list, limit).await.unwrap_or_default()
    }

    /// Returns what the server lists; nothing if it has no such list.
    ///
    /// # Errors
    /// It cannot be asked, or does not answer with a list.
    pub(super) async fn list(&self, list: List, limit: Duration) -> Result<Arc<Vec<Value>>, Unlisted> {
        let (link, offers) = self.open().ok_or(Unlisted::NotConnected)?;
        if !list.is_among(offers) {
            return Ok(Arc::default());
        }
        if let Some(known) = self.lists.lock().get(&list).filter(|known| known.is_fresh()) {
            return known.listed.clone().map_err(Unlisted::Failed);
        }
        let known = match link.list_all(list.method(), list.key(), limit).await {
            Ok(listed) => Known {
                listed: Ok(Arc::new(listed)),
                until: None,
            },
            Err(problem) => {
                tracing::warn!(
                    server = self.name,
                    list = list.method(),
                    problem,
                    "a list cannot be had"
                );
                Known {
                    listed: Err(problem),
                    until: Some(Instant::now() + LIST_PAUSE),
                }
            }
        };
        let listed = known.listed.clone();
        self.lists.lock().insert(list, known);
        listed.map_err(Unlisted::Failed)
    }

    /// Has the lists read again.
    pub(super) fn forget_lists(&self) {
        self.lists.lock().clear();
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the connection, waiting for one that is about to come back.
    ///
    /// # Errors
    /// There is none, or it did not come back within the limit.
    pub(super) async fn link(&self, limit: Duration, cancelled: &CancellationToken) -> Result<Link, RequestError> {
        let mut ways = self.way.subscribe();
        let settled = async {
            let settled = ways.wait_for(|way| !matches!(way, Way::Returning(_))).await;
            settled.map(|way| way.clone())
        };
        let settled = tokio::select! {
            settled = tokio::time::timeout(limit, settled) => settled,
            () = cancelled.cancelled() => return Err(RequestError::Cancelled),
        };
        let way = settled.ok().and_then(Result::ok);
        match way.unwrap_or_else(|| self.way.borrow().clone()) {
            Way::Open(link, _) => Ok(link),
            Way::Returning(problem) | Way::Closed(problem) => Err(RequestError::closed(problem)),
        }
    }

    /// Changes the way.
    pub(super) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Has nobody wait any more: the server does not come back. Why it cannot be used stays known, if it was.
    pub(super) fn end(&self) {
        self.way.send_if_modified(|way| match way {
            Way::Closed(Some(_)) => false,
            Way::Open(..) | Way::Returning(_) | Way::Closed(None) => {
                *way = Way::Closed(Some("The server is stopped".to_owned()));
                true
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_server_that_has_ended() {
        let shared = Arc::new(Shared::new("s", "file:///", &Arc::default(), &Arc::default()));
        let problem = |found: Result<Link, RequestError>| match found {
            Err(RequestError::Closed(problem)) => problem,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("there is a way"),
        };
        let limit = Duration::from_secs(60);
        shared.set(Way::Returning(Some("lost".to_owned())));
        let (began, never) = (Instant::now(), CancellationToken::new());
        let ended = async { shared.end() };
        let (found, ()) = tokio::join!(shared.link(limit, &never), ended);
        assert_eq!(problem(found), "The server is stopped");
        assert_eq!(began.elapsed(), Duration::ZERO);
        // The reason is worth more.
        shared.set(Way::Closed(Some("it calls itself".to_owned())));
        shared.end();
        assert_eq!(problem(shared.link(limit, &never).await), "it calls itself");
    }
}
