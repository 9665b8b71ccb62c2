//! A line between two processes that can be cut: then nothing passes, and nobody is told, as when a network is partitioned.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A place on loopback in front of another one.
pub(super) struct Line {
    /// Where it listens, as `host:port`.
    pub(super) address: String,
    cut: watch::Sender<bool>,
    /// Connections that go over it.
    open: Arc<AtomicUsize>,
}

impl Line {
    /// Makes a line to an address, which need not be listened at yet.
    pub(super) async fn to(target: String) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (cut, is_cut) = watch::channel(false);
        let address = listener.local_addr().unwrap().to_string();
        let open = Arc::new(AtomicUsize::new(0));
        let counted = open.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (target, is_cut, counted) = (target.clone(), is_cut.clone(), counted.clone());
                tokio::spawn(async move {
                    counted.fetch_add(1, Ordering::Relaxed);
                    carry(near, target, is_cut).await;
                    counted.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Arc::new(Self { address, cut, open })
    }

    /// Returns how many connections go over it.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Cuts it, or mends it: connections from before it was cut are gone then.
    pub(super) fn set_cut(&self, is_cut: bool) {
        self.cut.send_replace(is_cut);
    }
}

async fn carry(near: TcpStream, target: String, mut is_cut: watch::Receiver<bool>) {
    if *is_cut.borrow_and_update() {
        // It is accepted by the kernel only, and never answered.
        let _ = is_cut.changed().await;
        return;
    }
    let Ok(far) = TcpStream::connect(target).await else {
        return;
    };
    let ((mut from_near, mut to_near), (mut from_far, mut to_far)) = (near.into_split(), far.into_split());
    let (mut out, mut back) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = from_near.read(&mut out) => match read {
                Ok(length @ 1..) if to_far.write_all(&out[..length]).await.is_ok() => {}
                _ => return,
            },
            read = from_far.read(&mut back) => match read {
                Ok(length @ 1..) if to_near.write_all(&back[..length]).await.is_ok() => {}
                _ => return,
            },
            changed = is_cut.changed() => {
                if changed.is_err() {
                    return;
                }
                // Both ends stay open until it is mended.
                let _ = is_cut.wait_for(|is_cut| !is_cut).await;
                return;
            }
        }
    }
}
