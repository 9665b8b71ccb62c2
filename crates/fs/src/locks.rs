//! One lock per file, so that parallel changes of one file happen one after the other.
//!
//! *Invariant:* waiters get the lock in the order in which they came. The table keeps no path alive: it holds weak
//! references and is swept when it doubles, so it stays within twice the number of locks in use and a constant.
//! It binds this service only; other programs are noticed by comparing contents before a write.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The table is not swept below this size.
const SWEEP_FROM: usize = 64;

/// The locks of all files of the service, by real path.
#[derive(Debug, Default)]
pub struct FileLocks {
    /// Protects the table only, never a file; held for a look-up.
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    locks: HashMap<PathBuf, Weak<AsyncMutex<()>>>,
    sweep_at: usize,
}

/// The right to change one file, until it is dropped.
#[derive(Debug)]
pub struct FileGuard {
    _held: OwnedMutexGuard<()>,
}

impl FileLocks {
    /// Waits for the lock of the file at the real path `real`.
    pub async fn lock(&self, real: &Path) -> FileGuard {
        let lock = self.entry(real);
        FileGuard {
            _held: lock.lock_owned().await,
        }
    }

    fn entry(&self, real: &Path) -> Arc<AsyncMutex<()>> {
        let mut table = self.table.lock();
        if let Some(lock) = table.locks.get(real).and_then(Weak::upgrade) {
            return lock;
        }
        if table.locks.len() >= table.sweep_at.max(SWEEP_FROM) {
            table.locks.retain(|_, lock| lock.strong_count() > 0);
            table.sweep_at = table.locks.len() * 2;
        }
        let lock = Arc::new(AsyncMutex::new(()));
        table.locks.insert(real.to_path_buf(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    type Waiting<'a> = std::pin::Pin<Box<dyn Future<Output = FileGuard> + 'a>>;

    fn table_len(locks: &FileLocks) -> usize {
        locks.table.lock().locks.len()
    }

    #[tokio::test]
    async fn waiters_go_in_order() {
        let locks = FileLocks::default();
        let path = Path::new("/w/a");
        let first = locks.lock(path).await;
        let mut second: Waiting<'_> = Box::pin(locks.lock(path));
        let mut third: Waiting<'_> = Box::pin(locks.lock(path));
        let poll = |waiting: &mut Waiting<'_>| {
            waiting
                .as_mut()
                .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
        };
        assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
        drop(first);
        assert!(poll(&mut third).is_pending(), "the second came earlier");
        let Poll::Ready(guard) = poll(&mut second) else {
            panic!("the second is next")
        };
        assert!(poll(&mut third).is_pending());
        drop(guard);
        assert!(poll(&mut third).is_ready());
    }

    #[tokio::test]
    async fn other_files_do_not_wait() {
        let locks = FileLocks::default();
        let _a = locks.lock(Path::new("/w/a")).await;
        let _b = locks.lock(Path::new("/w/b")).await;
    }

    #[tokio::test]
    async fn the_table_cleans_itself() {
        let locks = FileLocks::default();
        let kept = locks.lock(Path::new("/w/kept")).await;
        for n in 0..5_000 {
            drop(locks.lock(Path::new(&format!("/w/{n}"))).await);
        }
        assert!(table_len(&locks) <= SWEEP_FROM, "{} entries", table_len(&locks));
        assert!(
            locks.entry(Path::new("/w/kept")).try_lock().is_err(),
            "a lock in use survives"
        );
        drop(kept);
    }
}
