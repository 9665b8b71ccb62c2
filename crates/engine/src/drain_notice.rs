//! Telling the reader of a stream once that the service is stopping.

use std::future::{Future, pending};

use tokio_util::sync::CancellationToken;

/// What one reader knows of the service's stopping. It is told with a heartbeat.
#[derive(Clone, Debug)]
pub struct DrainNotice {
    draining: CancellationToken,
    is_told: bool,
}

impl DrainNotice {
    pub(crate) fn new(draining: &CancellationToken) -> Self {
        Self {
            draining: draining.clone(),
            is_told: false,
        }
    }

    /// Says whether the service is stopping and the reader does not know.
    pub fn is_due(&self) -> bool {
        !self.is_told && self.draining.is_cancelled()
    }

    /// Returns when the service begins to stop; never if the reader knows.
    pub fn due(&self) -> impl Future<Output = ()> + Send + use<> {
        let draining = (!self.is_told).then(|| self.draining.clone());
        async move {
            match draining {
                Some(draining) => draining.cancelled_owned().await,
                None => pending().await,
            }
        }
    }

    /// Returns what the reader is told now: whether the service is stopping.
    pub fn tell(&mut self) -> bool {
        self.is_told = self.draining.is_cancelled();
        self.is_told
    }
}
