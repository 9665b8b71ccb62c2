//! Full parts of outputs, put straight where the gateways keep outputs, so that their bytes pass no gateway.
//!
//! *Invariant:* where to put a part is for the gateway to say, of each part anew, and nothing else is reached: neither a redirect nor what
//! tools may reach changes that. A part that cannot be put is none: whoever sends the output appends it. However many outputs grow, no
//! more than [`PARALLEL`] parts are in memory.

use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use toolgate_contract::cluster::{Holding, PartUpload, PresignPartRequest, RecordPartRequest};
use toolgate_model::OutputId;
use toolgate_store::StoreError;
use toolgate_store::codec::failed;
use toolgate_store::ledger::{FIRST_PART, PART_BYTES};
use toolgate_web::header::{HeaderMap, HeaderName, HeaderValue};
use toolgate_web::{Network, Request, Url};

use crate::holds::Holds;

/// Parts that are put at once.
const PARALLEL: usize = 2;

/// How long it may take to put one.
const LIMIT: Duration = Duration::from_secs(20);

/// How long nothing is put after it went wrong: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Says where the part begins that is to be put next, if it is full: of an output of so many bytes, so many of which are sent. What has
/// been sent of it for the most part is better appended to its end: the gateways move that themselves.
pub(crate) fn due(sent: u64, bytes: u64) -> Option<u64> {
    let start = start_of(sent)?;
    (bytes >= start + PART_BYTES && sent - start <= PART_BYTES / 2).then_some(start)
}

/// Says how many bytes may be appended at once to an output that ends here: a part that was put and of which no answer came is met by
/// pieces that lie within it.
pub(crate) fn room(sent: u64, most: usize) -> usize {
    let left = start_of(sent).map_or(u64::MAX, |start| start + PART_BYTES - sent);
    usize::try_from(left).unwrap_or(usize::MAX).min(most)
}

fn start_of(place: u64) -> Option<u64> {
    let behind = place.checked_sub(FIRST_PART)?;
    Some(place - behind % PART_BYTES)
}

/// Puts the parts of all outputs.
pub(crate) struct Parts {
    network: Network,
    /// As many as may be put at once.
    turns: Semaphore,
    /// Until when nothing is put, and for how long that was.
    rest: Mutex<Option<(Instant, Duration)>>,
}

impl Parts {
    pub(crate) fn new(network: Network) -> Self {
        Self {
            network,
            turns: Semaphore::new(PARALLEL),
            rest: Mutex::default(),
        }
    }

    /// Says whether it is not worth while to try, because it has just gone wrong.
    pub(crate) fn rest(&self) -> bool {
        self.rest.lock().is_some_and(|(until, _)| Instant::now() < until)
    }

    /// Takes a turn. After a failure one is tried alone: should the bucket hang, it holds up one output, and not each.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let what = "put a part of an output";
        if self.rest.lock().is_none() {
            let turn = self.turns.acquire().await.map_err(|error| failed(what, error))?;
            // Another one may have failed meanwhile.
            match *self.rest.lock() {
                None => return Ok(turn),
                Some(_) => return Err(failed(what, "another one could not be put")),
            }
        }
        if self.rest() {
            return Err(failed(what, "another one could not be put"));
        }
        let alone = self.turns.try_acquire_many(PARALLEL as u32);
        alone.map_err(|_| failed(what, "another one is tried alone"))
    }

    /// Puts a part, which `read` reads. False if there is no place for parts.
    ///
    /// # Errors
    /// It is not known to be there. Nothing is put for a moment.
    pub(crate) async fn put(
        &self,
        holds: &Holds,
        (holding, output, start): (&Holding, &OutputId, u64),
        read: impl Future<Output = Result<Bytes, StoreError>>,
    ) -> Result<bool, StoreError> {
        let _turn = self.turn().await?;
        let put = self.try_to_put(holds, (holding, output, start), read).await;
        let mut rest = self.rest.lock();
        match &put {
            Ok(_) => {
                if rest.take().is_some() {
                    tracing::info!("parts of outputs are put into the bucket again");
                }
            }
            Err(error) => {
                let pause = rest.map_or(PAUSES.0, |(_, pause)| (pause * 2).min(PAUSES.1));
                if rest.is_none() {
                    let error = error as &dyn std::error::Error;
                    tracing::warn!(error, %output, "parts of outputs cannot be put into the bucket: they go through the gateways");
                }
                *rest = Some((Instant::now() + pause, pause));
            }
        }
        put
    }

    async fn try_to_put(
        &self,
        holds: &Holds,
        (holding, output, start): (&Holding, &OutputId, u64),
        read: impl Future<Output = Result<Bytes, StoreError>>,
    ) -> Result<bool, StoreError> {
        let bytes = read.await?;
        if bytes.len() as u64 != PART_BYTES {
            return Err(failed("put a part of an output", "its file is shorter than it was"));
        }
        let (bytes, sha256) = digest(bytes).await?;
        let question = PresignPartRequest {
            holding: Some(holding.clone()),
            id: output.to_string(),
            start,
            sha256: sha256.clone(),
        };
        let Some(upload) = holds.change(question).await?.upload else {
            return Ok(false);
        };
        let object = upload.object.clone();
        self.send(upload, bytes).await?;
        let question = RecordPartRequest {
            holding: Some(holding.clone()),
            id: output.to_string(),
            start,
            sha256,
            object,
        };
        holds.change(question).await?;
        Ok(true)
    }

    /// Sends bytes as a gateway has said.
    async fn send(&self, upload: PartUpload, bytes: Bytes) -> Result<(), StoreError> {
        let what = "put a part of an output into the bucket";
        // The address holds a permission: no error repeats it.
        let url = Url::parse(&upload.url).map_err(|error| failed(what, error))?;
        let mut headers = HeaderMap::new();
        for header in &upload.headers {
            let name = HeaderName::try_from(&header.name).map_err(|error| failed(what, error))?;
            let value = HeaderValue::try_from(&header.value).map_err(|error| failed(what, error))?;
            headers.insert(name, value);
        }
        let time = LIMIT.min(Duration::from_millis(upload.expires_in_millis));
        let request = Request {
            body: Some(bytes),
            ..Request::within(time, url, headers)
        };
        let reply = self.network.put_named(request).await;
        let reply = reply.map_err(|error| StoreError::Unavailable(format!("{what}: {error}")))?;
        match reply.is_success() {
            true => Ok(()),
            false => {
                // The gateway has signed it, with its keys and its time.
                let advice = match reply.status() {
                    403 => ": look at the gateway's clock, and at what its keys may do",
                    _ => "",
                };
                Err(failed(what, format!("its server answers {}{advice}", reply.status())))
            }
        }
    }
}

/// Returns bytes with their digest, which takes a moment.
async fn digest(bytes: Bytes) -> Result<(Bytes, String), StoreError> {
    crate::uploads::blocking(move || {
        let digest = hex::encode(Sha256::digest(&bytes));
        Ok((bytes, digest))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_put_when_it_is_full() {
        let end = FIRST_PART + PART_BYTES;
        let half = PART_BYTES / 2;
        for (sent, bytes, expected) in [
            (0, 3 * end, None),
            (FIRST_PART - 1, 3 * end, None),
            (FIRST_PART, end - 1, None),
            (FIRST_PART, end, Some(FIRST_PART)),
            (FIRST_PART + half, end, Some(FIRST_PART)),
            (FIRST_PART + half + 1, 3 * end, None),
            (end, end, None),
            (end + 1, end + PART_BYTES, Some(end)),
        ] {
            assert_eq!(due(sent, bytes), expected, "{sent} of {bytes}");
        }
    }

    #[test]
    fn pieces_lie_within_a_part() {
        assert_eq!(room(0, 100), 100);
        assert_eq!(room(FIRST_PART, 100), 100);
        assert_eq!(room(FIRST_PART + PART_BYTES - 3, 100), 3);
        assert_eq!(room(FIRST_PART + PART_BYTES, 100), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_one_is_tried_alone() {
        let parts = Parts::new(Network::new(toolgate_web::Settings::default()));
        let (first, second) = (parts.turn().await.unwrap(), parts.turn().await.unwrap());
        // Who waits for the turn of one that fails does not try it as well.
        let fails = async {
            *parts.rest.lock() = Some((Instant::now() + PAUSES.0, PAUSES.0));
            drop((first, second));
        };
        let (third, ()) = tokio::join!(parts.turn(), fails);
        assert!(third.is_err() && parts.turn().await.is_err());
        tokio::time::sleep(PAUSES.0).await;
        let alone = parts.turn().await.unwrap();
        assert!(parts.turn().await.is_err());
        drop(alone);
        assert!(parts.turn().await.is_ok());
    }
}
