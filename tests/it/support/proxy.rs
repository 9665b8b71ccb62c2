//! A loopback proxy that cuts a connection after a number of bytes.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

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
