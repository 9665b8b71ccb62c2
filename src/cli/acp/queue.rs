//! What one side has said and the other has not read yet.
//!
//! *Invariant:* what waits is bounded by its size. A side that reads slowly holds up what is said to it; one that reads nothing for
//! a long time while there is no room is reported, and holds up nobody for ever.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

/// Bytes that may wait.
const ROOM: u32 = 16 * 1024 * 1024;

/// What a piece takes beside its bytes.
const EACH: u32 = 64;

/// How long a side may read nothing while others wait for room.
const LONG: Duration = Duration::from_secs(60);

/// Why nothing more can be said to a side.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It has read nothing for a long time, and there is no more room.
    Stuck,
    /// Nobody writes to it any more.
    Closed,
}

/// A line, or a part of one.
pub(super) struct Piece {
    bytes: Vec<u8>,
    is_end: bool,
    _room: OwnedSemaphorePermit,
}

/// Where lines are put.
pub(super) struct Sender {
    pieces: mpsc::UnboundedSender<Piece>,
    room: Arc<Semaphore>,
    /// When something was read last.
    progress: Arc<Mutex<Instant>>,
    patience: Duration,
}

/// Where they are taken from.
pub(super) struct Receiver {
    pieces: mpsc::UnboundedReceiver<Piece>,
    progress: Arc<Mutex<Instant>>,
}

/// Makes a queue.
pub(super) fn queue() -> (Sender, Receiver) {
    with_patience(LONG)
}

fn with_patience(patience: Duration) -> (Sender, Receiver) {
    // The room bounds it.
    let (sender, pieces) = mpsc::unbounded_channel();
    let progress = Arc::new(Mutex::new(Instant::now()));
    let room = Arc::new(Semaphore::new(ROOM as usize));
    let sender = Sender {
        pieces: sender,
        room,
        progress: progress.clone(),
        patience,
    };
    (sender, Receiver { pieces, progress })
}

impl Sender {
    /// Puts a line, or a part of one, at the end, when there is room. A line that is larger than all of it waits until nothing else does.
    ///
    /// # Errors
    /// The other side does not take it.
    pub(super) async fn send(&self, bytes: Vec<u8>, is_end: bool) -> Result<(), Refused> {
        let size = u32::try_from(bytes.len())
            .unwrap_or(ROOM)
            .saturating_add(EACH)
            .min(ROOM);
        let room = tokio::select! {
            room = self.room.clone().acquire_many_owned(size) => room.map_err(|_: AcquireError| Refused::Closed)?,
            () = self.stuck() => return Err(Refused::Stuck),
        };
        let piece = Piece {
            bytes,
            is_end,
            _room: room,
        };
        self.pieces.send(piece).map_err(|_| Refused::Closed)
    }

    /// Waits until the other side has read nothing for too long, from now on.
    async fn stuck(&self) {
        let begun = Instant::now();
        loop {
            let until = read(&self.progress).max(begun) + self.patience;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

fn read(progress: &Mutex<Instant>) -> Instant {
    *progress.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver {
    /// Takes what waits, as if it had been written, until nothing more comes.
    pub(super) async fn discard(&mut self) {
        while self.pieces.recv().await.is_some() {}
    }
}

/// Writes what waits, and between its lines what is told beside it, until nothing more comes.
///
/// # Errors
/// The other side reads no more.
pub(super) async fn write(
    mut to: impl AsyncWrite + Unpin,
    said: &mut Receiver,
    told: &mut mpsc::Receiver<Value>,
) -> io::Result<()> {
    let mut is_within = false;
    loop {
        let piece = tokio::select! {
            piece = said.pieces.recv() => piece,
            Some(message) = told.recv(), if !is_within => {
                put(&mut to, format!("{message}\n").as_bytes(), &said.progress).await?;
                continue;
            }
        };
        let Some(Piece {
            mut bytes,
            is_end,
            _room,
        }) = piece
        else {
            return Ok(());
        };
        if is_end {
            bytes.push(b'\n');
        }
        put(&mut to, &bytes, &said.progress).await?;
        is_within = !is_end;
    }
}

async fn put(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8], progress: &Mutex<Instant>) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = to.write(rest).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        *progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        rest = &rest[written..];
    }
    to.flush().await
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn what_is_told_beside_does_not_come_into_the_midst_of_a_line() {
        let (sender, mut said) = queue();
        let (beside, mut told) = mpsc::channel(8);
        sender.send(b"one".to_vec(), true).await.unwrap();
        for (part, is_end) in [("be", false), ("gun", false), ("", true)] {
            sender.send(part.as_bytes().to_vec(), is_end).await.unwrap();
            beside.send(json!({"own": part})).await.unwrap();
        }
        drop(sender);
        let mut written = Vec::new();
        write(&mut written, &mut said, &mut told).await.unwrap();
        let text = String::from_utf8(written).unwrap();
        assert!(text.contains("one\n") && text.contains("begun\n"), "{text}");
    }

    #[tokio::test]
    async fn a_side_that_reads_nothing_is_reported() {
        let (sender, mut said) = with_patience(Duration::from_millis(50));
        let (_beside, mut told) = mpsc::channel(1);
        let (_reader, writer) = duplex(1024);
        let sending = async {
            loop {
                if let Err(refused) = sender.send(vec![b'x'; ROOM as usize / 2], true).await {
                    return refused;
                }
            }
        };
        let refused = tokio::select! {
            refused = sending => refused,
            written = write(writer, &mut said, &mut told) => panic!("{written:?}"),
        };
        assert_eq!(refused, Refused::Stuck);
        drop(said);
        assert_eq!(sender.send(Vec::new(), true).await, Err(Refused::Closed));
    }

    #[tokio::test]
    async fn what_has_no_room_waits_for_it() {
        let (sender, mut said) = queue();
        let (_beside, mut told) = mpsc::channel(1);
        let (mut reader, writer) = duplex(64 * 1024);
        let line = vec![b'x'; ROOM as usize + 1];
        let sending = async {
            for _ in 0..3 {
                sender.send(line.clone(), true).await.unwrap();
            }
            drop(sender);
        };
        let mut read = Vec::new();
        let (written, all, ()) = tokio::join!(
            write(writer, &mut said, &mut told),
            reader.read_to_end(&mut read),
            sending
        );
        written.unwrap();
        assert_eq!(all.unwrap(), 3 * (line.len() + 1));
    }
}
