//! Loopback proxies that cut connections: one after a number of bytes, many at random moments.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::random::Random;

/// Carries one connection; ends with it.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Listens for one connection to `server`, which is cut once the server has sent `budget` bytes.
    pub(crate) async fn cutting_after(server: &str, budget: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = server.to_owned();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(server).await.unwrap();
            carry(client, server, budget).await;
        });
        Self { address, _task: task }
    }
}

/// Carries any number of connections, each for a random time and number of bytes.
pub(crate) struct Shaky {
    pub(crate) address: SocketAddr,
    cuts: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Shaky {
    /// Listens for connections to `server`.
    pub(crate) async fn before(server: &str, mut random: Random) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (server, cuts) = (server.to_owned(), Arc::<AtomicUsize>::default());
        let counted = Arc::clone(&cuts);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut carried = JoinSet::new();
            for connection in 0_u32.. {
                let (client, _) = listener.accept().await.unwrap();
                // Later ones live longer: on a busy machine, one answer may take longer than the first ones live.
                let lifetime = Duration::from_millis(30 + random.below(400)) * (1 + connection / 8);
                let budget = usize::try_from(2_000 + random.below(200_000)).unwrap();
                let (server, cuts) = (server.clone(), Arc::clone(&counted));
                carried.spawn(async move {
                    // The server may be between two runs.
                    if let Ok(server) = TcpStream::connect(server).await {
                        let _ = timeout(lifetime, carry(client, server, budget)).await;
                        cuts.fetch_add(1, Ordering::Relaxed);
                    }
                });
                while carried.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            cuts,
            _task: task,
        }
    }

    /// How many connections have ended.
    pub(crate) fn cuts(&self) -> usize {
        self.cuts.load(Ordering::Relaxed)
    }
}

async fn carry(client: TcpStream, server: TcpStream, budget: usize) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::io::copy(&mut from_client, &mut to_server);
    let down = async {
        let mut left = budget;
        let mut buffer = vec![0; 16 * 1024];
        while left > 0 {
            let size = left.min(buffer.len());
            match from_server.read(&mut buffer[..size]).await {
                Ok(0) | Err(_) => break,
                Ok(read) => {
                    left -= read;
                    if to_client.write_all(&buffer[..read]).await.is_err() {
                        break;
                    }
                }
            }
        }
    };
    // Whichever ends first takes both connections with it; unread bytes make the kernel send a reset.
    tokio::select! {
        _ = up => {}
        () = down => {}
    }
}
