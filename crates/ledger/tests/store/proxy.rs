//! A line between a worker and a gateway that loses answers, or breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of what goes through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It goes through.
    Open,
    /// What is asked goes through, and no answer does.
    Deaf,
    /// Nothing does, and there is no connection.
    Cut,
}

/// A line to one address.
pub(crate) struct Line {
    address: String,
    mode: watch::Sender<(Mode, u64)>,
    asked: Arc<AtomicU64>,
}

impl Line {
    /// Makes one to an `http://` address.
    pub(crate) async fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = format!("http://{}", listener.local_addr().unwrap());
        let (mode, modes) = watch::channel((Mode::Open, 0));
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        let target = address.trim_start_matches("http://").to_owned();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if modes.borrow().0 != Mode::Cut {
                    tokio::spawn(forward(client, target.clone(), modes.clone(), Arc::clone(&count)));
                }
            }
        });
        Self {
            address: own,
            mode,
            asked,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// Returns how many bytes of requests have gone through.
    pub(crate) fn bytes_asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Lets no answer through any more.
    pub(crate) fn lose_answers(&self) {
        self.mode.send_modify(|(mode, _)| *mode = Mode::Deaf);
    }

    /// Closes all connections; new ones go through.
    pub(crate) fn reset(&self) {
        self.mode
            .send_modify(|(mode, resets)| (*mode, *resets) = (Mode::Open, *resets + 1));
    }

    /// Closes all connections; there are no new ones.
    pub(crate) fn cut(&self) {
        self.mode
            .send_modify(|(mode, resets)| (*mode, *resets) = (Mode::Cut, *resets + 1));
    }
}

async fn forward(
    mut client: TcpStream,
    target: String,
    mut modes: watch::Receiver<(Mode, u64)>,
    count: Arc<AtomicU64>,
) {
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    let resets = modes.borrow().1;
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            Ok(length @ 1..) = client.read(&mut asked) => {
                count.fetch_add(length as u64, Ordering::Relaxed);
                if server.write_all(&asked[..length]).await.is_err() {
                    return;
                }
            }
            Ok(length @ 1..) = server.read(&mut answered) => {
                let is_lost = modes.borrow().0 == Mode::Deaf;
                if !is_lost && client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
            Ok(()) = modes.changed() => {
                if modes.borrow().1 != resets {
                    return;
                }
            }
            else => return,
        }
    }
}
