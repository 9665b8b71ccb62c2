//! Hears of a gateway when prompts or grants may have changed.
//!
//! *Invariant:* it is a help only: whoever waits for a change looks now and then all the same.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use toolgate_contract::cluster::follow_response::Message;

use crate::holds::Holds;
use crate::wire::HEARTBEAT;

/// How long to wait before a stream is opened again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often it is looked whether there are other workspaces.
const LOOK: Duration = Duration::from_secs(1);

/// Notifies of changes for as long as it is polled.
pub(crate) async fn changes(holds: &Holds, changed: &Notify) {
    let mut pause = PAUSES.0;
    loop {
        let workspaces = holds.names();
        if workspaces.is_empty() {
            sleep(LOOK).await;
            continue;
        }
        match holds.gateways.follow(workspaces.clone()).await {
            Ok(mut stream) => {
                // There may have been changes while nobody listened.
                changed.notify_one();
                loop {
                    match timeout(HEARTBEAT * 3, stream.message()).await {
                        Ok(Ok(Some(said))) => {
                            pause = PAUSES.0;
                            if matches!(said.message, Some(Message::Changed(_))) {
                                changed.notify_one();
                            }
                        }
                        Ok(Ok(None) | Err(_)) | Err(_) => break,
                    }
                    if holds.names() != workspaces {
                        break;
                    }
                }
                holds.hurry();
            }
            Err(why) => tracing::debug!(why, "no gateway says when prompts change"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}
