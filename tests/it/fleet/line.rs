//! A line between two processes that can be cut: then nothing passes, and nobody is told, as when a network is partitioned.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A place on loopback in front of another one.
pub(super) struct Line {
    /// Where it listens, as `host:port`.
    pub(super) address: String,
    cut: watch::Sender<bool>,
}

impl Line {
    /// Makes a line to an address, which need not be listened at yet.
    pub(super) async fn to(target: String) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (cut, is_cut) = watch::channel(false);
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, target.clone(), is_cut.clone()));
            }
        });
        Arc::new(Self { address, cut })
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
