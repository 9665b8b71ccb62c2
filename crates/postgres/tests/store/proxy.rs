//! A proxy between a store and its server that knows what is asked, and loses answers: what was asked is done, and nobody is told.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::server::Server;

/// What is to be lost, and how.
struct Loss {
    /// A connection loses the answer to the last of these, once it has sent the others before.
    texts: Vec<&'static str>,
    then: Then,
}

/// What becomes of a connection of which an answer was lost.
#[derive(Clone, Copy)]
enum Then {
    /// It is closed.
    Closed,
    /// It stays open until its client gives up.
    Hangs,
    /// It stays open for ever: nobody tells the server that the client has given up.
    Stays,
}

/// A socket in a folder of its own, in front of a server's.
pub(crate) struct Proxy {
    folder: TempDir,
    next: Arc<Mutex<Option<Loss>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub(crate) fn start(server: &Server) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let (next, asked, socket) = (Arc::default(), Arc::default(), server.socket());
        let (lost, all) = (Arc::clone(&next), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, socket.clone(), Arc::clone(&lost), Arc::clone(&all)));
            }
        });
        Self { folder, next, asked }
    }

    pub(crate) fn address(&self, database: &str) -> String {
        let folder = self.folder.path().display();
        format!("host={folder} port=5432 user=toolgate dbname={database}")
    }

    /// Returns what was asked since it was last called, on all connections: as it came, a long question in portions.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Loses one answer: closes the connection that has sent these texts, one after the other, when the server answers the last.
    pub(crate) fn lose(&self, texts: &[&'static str]) {
        self.set(texts, Then::Closed);
    }

    /// As [`Self::lose`], and leaves the connection open.
    pub(crate) fn hang(&self, texts: &[&'static str]) {
        self.set(texts, Then::Hangs);
    }

    /// As [`Self::hang`], and does not tell the server when its client gives up: it may have been stopped.
    pub(crate) fn stop(&self, texts: &[&'static str]) {
        self.set(texts, Then::Stays);
    }

    fn set(&self, texts: &[&'static str], then: Then) {
        let texts = texts.to_vec();
        *self.next.lock().unwrap() = Some(Loss { texts, then });
    }

    /// Says whether the answer was lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn forward(
    mut client: UnixStream,
    socket: PathBuf,
    next: Arc<Mutex<Option<Loss>>>,
    all: Arc<Mutex<Vec<String>>>,
) {
    let Ok(mut server) = UnixStream::connect(socket).await else {
        return;
    };
    let (mut asked, mut answered) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut seen = 0;
    loop {
        tokio::select! {
            Ok(length @ 1..) = client.read(&mut asked) => {
                all.lock().unwrap().push(String::from_utf8_lossy(&asked[..length]).into_owned());
                let lost = {
                    let mut next = next.lock().unwrap();
                    if let Some(loss) = &*next
                        && contains(&asked[..length], loss.texts[seen.min(loss.texts.len() - 1)])
                    {
                        seen += 1;
                    }
                    next.take_if(|loss| seen == loss.texts.len())
                };
                if server.write_all(&asked[..length]).await.is_err() {
                    return;
                }
                if let Some(Loss { then, .. }) = lost {
                    let _ = server.read(&mut answered).await;
                    match then {
                        Then::Closed => {}
                        Then::Hangs => drop(client.read(&mut asked).await),
                        Then::Stays => std::future::pending().await,
                    }
                    return;
                }
            }
            Ok(length @ 1..) = server.read(&mut answered) => {
                if client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
            else => return,
        }
    }
}
