//! The terminal that the service was started from, and its end.
//!
//! *Invariant:* nothing is read from it, and nothing written to it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use tokio::io::unix::AsyncFd;

use super::sys;

/// The terminal that controls this process.
pub struct Terminal(AsyncFd<Arc<OwnedFd>>);

impl Terminal {
    /// Returns it; none if there is none, as for a service that another one started. To be called inside a runtime.
    pub fn controlling() -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
        sys::watch(Arc::new(terminal)).ok().map(Self)
    }

    /// Says whether it was closed, or its line broke.
    pub fn has_hung_up(&self) -> bool {
        let mut ends = [PollFd::new(self.0.get_ref(), PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut ends, Some(&now)).is_ok_and(|count| count > 0) && ends[0].revents().contains(PollFlags::HUP)
    }

    /// Waits until it is closed, or its line breaks.
    pub async fn hung_up(&self) {
        while !self.has_hung_up() {
            match self.0.readable().await {
                // Somebody types.
                Ok(mut ready) if !self.has_hung_up() => ready.clear_ready(),
                Ok(_) => return,
                // A runtime that shuts down.
                Err(_) => return std::future::pending().await,
            }
        }
    }
}

/// Says whether whoever started this process wants it to outlive the terminal, as `nohup` does: it ignores SIGHUP. To be
/// asked before the signal is listened to.
pub fn ignores_hangup() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return false;
    };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first bit is signal 1.
    ignored.is_some_and(|mask| mask & 1 == 1)
}
