//! What becomes of a call when its client, or the gateway of its client, is gone.
//!
//! *Invariant:* decides nothing about the call but when its client counts as gone: what follows from that, the call's policy says.

use std::sync::{Arc, Weak};
use std::time::Duration;

use toolgate_engine::Attached;

use super::Shared;

/// How long it takes to find out that the connection to a gateway is gone, and not only a stream on it.
const GATEWAY_NOTICE: Duration = Duration::from_secs(1);

/// How long a client whose gateway is gone has to come back through another one.
const GATEWAY_GRACE: Duration = Duration::from_secs(30);

/// The hold that a client has on its call, and for how long it lasts when that is gone.
pub(super) struct Hold {
    pub(super) shared: Arc<Shared>,
    pub(super) attached: Option<Attached>,
    pub(super) linger: Duration,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(attached) = self.attached.take().filter(|_| !self.linger.is_zero()) {
            let (closing, linger) = (self.shared.closing.at_once().clone(), self.linger);
            self.shared.tunnels.spawn(async move {
                closing.run_until_cancelled(tokio::time::sleep(linger)).await;
                drop(attached);
            });
        }
    }
}

/// The hold of a client that follows its call. When the stream ends because a gateway is gone, its client may still be there, and goes
/// on at another one.
pub(super) struct HeldForClient {
    pub(super) shared: Arc<Shared>,
    pub(super) attached: Option<Attached>,
    /// That of the gateway, if there is one.
    pub(super) connection: Option<Weak<()>>,
}

impl Drop for HeldForClient {
    fn drop(&mut self) {
        let attached = self.attached.take().filter(|attached| !attached.is_over());
        let (Some(attached), Some(connection)) = (attached, self.connection.take()) else {
            return;
        };
        let closing = self.shared.closing.at_once().clone();
        self.shared.tunnels.spawn(async move {
            let left_or_lost = async {
                // A gateway that stops may end its streams first.
                tokio::time::sleep(GATEWAY_NOTICE).await;
                if connection.strong_count() == 0 {
                    attached.linger(GATEWAY_GRACE).await;
                }
            };
            closing.run_until_cancelled(left_or_lost).await;
        });
    }
}
