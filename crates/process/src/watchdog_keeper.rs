//! Keeping a watchdog: one is started with the service, and replaced when it was killed.
//!
//! *Invariant:* a service that cannot have a watchdog goes on without one, and says so.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::cgroup::Groups;
use super::reaper::Reaper;
use super::watchdog::Watchdog;

/// How often a watchdog that was killed is replaced.
const MAX_WATCHDOG_RESTARTS: u32 = 3;

/// Looks after the watchdog.
pub(super) struct WatchdogKeeper {
    program: Option<PathBuf>,
    reaper: Arc<Reaper>,
    pub(super) watchdog: Arc<Mutex<Option<Watchdog>>>,
    restarts_left: u32,
}

impl WatchdogKeeper {
    pub(super) fn start(program: Option<PathBuf>, reaper: Arc<Reaper>) -> io::Result<Self> {
        let mut keeper = Self {
            program,
            reaper,
            watchdog: Arc::default(),
            restarts_left: MAX_WATCHDOG_RESTARTS,
        };
        let first = keeper.spawn()?;
        keeper.watchdog = Arc::new(Mutex::new(first));
        Ok(keeper)
    }

    fn spawn(&self) -> io::Result<Option<Watchdog>> {
        let groups = self.reaper.groups().map(Groups::folder);
        let start = |program: &PathBuf| {
            let start = || Watchdog::start(program, self.reaper.namespace(), groups);
            self.reaper.keep(start, Watchdog::id)
        };
        self.program.as_ref().map(start).transpose()
    }

    /// Replaces a watchdog that was killed.
    pub(super) fn replace_ended(&mut self) {
        let mut watchdog = self.watchdog.lock();
        if self.restarts_left == 0 || !watchdog.as_mut().is_some_and(Watchdog::has_ended) {
            return;
        }
        self.restarts_left -= 1;
        tracing::warn!("the watchdog of the programs was killed; another takes its place");
        match self.spawn() {
            Ok(next) => *watchdog = next,
            Err(error) => tracing::warn!(%error, "no watchdog can be started"),
        }
    }
}
