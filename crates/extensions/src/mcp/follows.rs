//! Resources of a server that clients follow.
//!
//! The server is asked once, however many follow a resource, and told when the last of them has gone. When it is back after a loss
//! it is asked again, since it knows nothing of the connection before; and as nobody knows what happened meanwhile, all that is
//! followed counts as changed. A server without a handshake takes no such requests: it is asked by one that stays open, and that is
//! made anew whenever something else is followed.
//!
//! *Invariant:* counted for one server of one workspace, and bounded. What clients follow outlives the connection, and a change of
//! the server's configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::client::{LISTEN, LISTEN_PAUSE, Link, MAX_CALL, RequestError};

/// Resources of one server that are followed.
const MAX_FOLLOWED: usize = 1024;

/// How long a server may take to answer, and how long whoever wants to follow something waits for the turn.
const LIMIT: Duration = Duration::from_secs(10);

/// How many requests are under way when a server is back.
const AT_ONCE: usize = 8;

const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";

/// What is followed at one server.
#[derive(Default)]
pub(super) struct Follows {
    /// Never held across an await.
    state: Mutex<State>,
    /// Whoever asks the server for something that is followed: one after the other, so that what it was told last is true.
    turn: tokio::sync::Mutex<()>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// How many follow each.
    counts: BTreeMap<String, usize>,
    /// What nobody follows any more, and the server does not know that yet.
    left: BTreeSet<String>,
}

/// A resource is followed until this is dropped.
pub struct Follow {
    follows: Arc<Follows>,
    uri: String,
}

impl Drop for Follow {
    fn drop(&mut self) {
        let mut state = self.follows.state.lock();
        let Some(count) = state.counts.get_mut(&self.uri) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            state.counts.remove(&self.uri);
            state.left.insert(std::mem::take(&mut self.uri));
            self.follows.changed.notify_one();
        }
    }
}

impl Follows {
    /// Says whether nobody follows anything.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().counts.is_empty()
    }

    /// Follows a resource, over the connection of the moment.
    ///
    /// # Errors
    /// The server does not agree, or too many are followed; the text says why.
    pub(super) async fn follow(self: &Arc<Self>, link: &Link, uri: &str) -> Result<Follow, String> {
        let turn = tokio::time::timeout(LIMIT, self.turn.lock()).await;
        let _turn = turn.map_err(|_| "the server does not answer")?;
        let is_first = {
            let mut state = self.state.lock();
            let is_first = !state.counts.contains_key(uri);
            if is_first && state.counts.len() >= MAX_FOLLOWED {
                return Err(format!("more than {MAX_FOLLOWED} resources of the server are followed"));
            }
            *state.counts.entry(uri.to_owned()).or_default() += 1;
            is_first
        };
        let follow = Follow {
            follows: Arc::clone(self),
            uri: uri.to_owned(),
        };
        match (is_first, has_handshake(link)) {
            (false, _) => {}
            (true, false) => self.changed.notify_one(),
            (true, true) => {
                let asked = link.request(SUBSCRIBE, json!({ "uri": uri }), LIMIT).await;
                asked.map_err(|error| error.to_string())?;
            }
        }
        Ok(follow)
    }

    /// Has a server tell of what is followed, as long as there is a connection; never completes. `announce` hears what may have
    /// changed unseen.
    pub(super) async fn keep(&self, link: &Link, announce: impl Fn(String)) {
        match has_handshake(link) {
            true => self.ask(link, announce).await,
            false => self.listen(link, announce).await,
        }
    }

    async fn ask(&self, link: &Link, announce: impl Fn(String)) {
        {
            let _turn = self.turn.lock().await;
            // This connection knows of nothing.
            self.state.lock().left.clear();
            let asked = stream::iter(self.followed()).map(|uri| async {
                let asked = link.request(SUBSCRIBE, json!({ "uri": uri }), LIMIT).await;
                (uri, asked)
            });
            let mut asked = asked.buffer_unordered(AT_ONCE);
            while let Some((uri, asked)) = asked.next().await {
                if let Err(error) = asked {
                    tracing::warn!(uri, %error, "the server does not tell of a resource any more");
                }
                announce(uri);
            }
        }
        loop {
            self.changed.notified().await;
            let _turn = self.turn.lock().await;
            let left = std::mem::take(&mut self.state.lock().left);
            for uri in left {
                if self.state.lock().counts.contains_key(&uri) {
                    continue;
                }
                if let Err(error) = link.request(UNSUBSCRIBE, json!({ "uri": uri }), LIMIT).await {
                    tracing::debug!(%error, "the server goes on telling of a resource");
                }
            }
        }
    }

    async fn listen(&self, link: &Link, announce: impl Fn(String)) {
        loop {
            self.state.lock().left.clear();
            let uris = self.followed();
            if uris.is_empty() {
                self.changed.notified().await;
                continue;
            }
            let params = json!({"notifications": {"resourceSubscriptions": uris}});
            let other = CancellationToken::new();
            let listened = link.request_until(LISTEN, params, MAX_CALL, &other);
            tokio::pin!(listened);
            let listened = tokio::select! {
                listened = &mut listened => listened,
                () = self.changed.notified() => {
                    other.cancel();
                    listened.await
                }
            };
            if !other.is_cancelled() {
                if let Err(RequestError::Server(problem)) = listened {
                    tracing::debug!(problem = problem.message, "the server tells of no resources");
                    self.changed.notified().await;
                }
                tokio::time::sleep(LISTEN_PAUSE).await;
            }
            // Between two requests nobody listens.
            uris.into_iter().for_each(&announce);
        }
    }

    fn followed(&self) -> Vec<String> {
        self.state.lock().counts.keys().cloned().collect()
    }
}

fn has_handshake(link: &Link) -> bool {
    link.dispatcher.introduction().is_none()
}
