//! Telling the reader of a stream once that the service is stopping.

use std::future::{Future, pending};

use tokio_util::sync::CancellationToken;

/// Whether one reader knows that the service is stopping. A heartbeat says so.
#[derive(Clone, Debug)]
pub struct DrainNotice {
    draining: CancellationToken,
    is_informed: bool,
}

impl DrainNotice {
    pub(crate) fn new(draining: &CancellationToken) -> Self {
        Self {
            draining: draining.clone(),
            is_informed: false,
        }
    }

    /// Returns whether the service is stopping and the reader does not know.
    pub fn is_due(&self) -> bool {
        !self.is_informed && self.draining.is_cancelled()
    }

    /// Returns whether the service is stopping, whether the reader knows or not.
    pub(crate) fn is_stopping(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Returns when the service begins to stop; never if the reader knows.
    pub fn due(&self) -> impl Future<Output = ()> + Send + use<> {
        let draining = (!self.is_informed).then(|| self.draining.clone());
        async move {
            match draining {
                Some(draining) => draining.cancelled_owned().await,
                None => pending().await,
            }
        }
    }

    /// Returns whether the service is stopping; from now on the reader knows.
    pub fn tell(&mut self) -> bool {
        self.is_informed = self.draining.is_cancelled();
        self.is_informed
    }
}
