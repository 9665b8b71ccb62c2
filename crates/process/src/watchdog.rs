//! The watchdog: a small process beside the service that ends the service's programs when it is killed.
//!
//! The kernel tells only direct children of the service's death. What those had started is found here by what all tags
//! of one service have in common, and by its control groups. The watchdog is this same program under a hidden name; it
//! waits at a pipe that closes when the service dies, however that happens. A service that ended its programs itself
//! tells it to stop first.
//!
//! *Invariant:* runs before anything else of the program: no runtime, no settings, one thread.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::reaper::is_in_namespace;
use super::{cgroup, sys, tree};

/// The name under which the program becomes a watchdog.
const NAME: &str = "__guardian";

/// What a service that has ended its programs writes.
const STOP_MESSAGE: u8 = b'.';

/// Walks in a row that must find nothing.
const CLEAN_WALKS: u8 = 2;

/// The time between two walks.
const WALK_INTERVAL: Duration = Duration::from_millis(5);

/// How long processes that do not go are tried.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The service's end of the pipe, and the process at the other.
pub(super) struct Watchdog {
    process: Child,
    pipe: PipeWriter,
}

impl Watchdog {
    /// Starts a watchdog for the programs of a service: `program` is this program's file.
    pub(super) fn start(program: &Path, namespace: u64, groups: Option<&Path>) -> io::Result<Self> {
        let (listening, pipe) = io::pipe()?;
        let mut command = Command::new(program);
        command
            .arg0("toolgate")
            .arg(NAME)
            .arg(namespace.to_string())
            .args(groups)
            .env_clear()
            .current_dir("/")
            .stdin(listening)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of reach of the terminal's signals before it has come to ignore them.
            .process_group(0);
        Ok(Self {
            process: command.spawn()?,
            pipe,
        })
    }

    /// Returns its process id.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Says whether it has ended, as only a killed one does.
    pub(super) fn has_ended(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Tells it that nothing is left to do, and waits for its end. Blocking.
    pub(super) fn stop(mut self) {
        // Fails when it has been killed; then nothing is left to stop.
        let _ = self.pipe.write_all(&[STOP_MESSAGE]);
        drop(self.pipe);
        let _ = self.process.wait();
    }
}

/// Becomes a watchdog and returns its exit code when it is done, if the arguments (the program's name first) say so.
/// To be called before anything is opened or started.
pub fn guard(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1)? != NAME {
        return None;
    }
    sys::shield();
    sys::stand_apart();
    let Some(namespace) = arguments.next().and_then(|text| text.to_str()?.parse().ok()) else {
        return Some(ExitCode::FAILURE);
    };
    let groups = arguments.next().map(PathBuf::from);
    if !was_told_to_stop() {
        end_all(namespace, groups.as_deref());
    }
    Some(ExitCode::SUCCESS)
}

/// Waits for the end of the service. Returns whether it went in order.
fn was_told_to_stop() -> bool {
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte) {
            Ok(0) => return false,
            Ok(_) => return byte == [STOP_MESSAGE],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// Kills whatever bears a tag of the service, until nothing does.
fn end_all(namespace: u64, groups: Option<&Path>) {
    let until = Instant::now() + KILL_TIMEOUT;
    let mut clean = 0;
    while clean < CLEAN_WALKS && Instant::now() < until {
        if let Some(groups) = groups {
            cgroup::kill(groups);
        }
        let is_empty = kill_marked(namespace) == 0 && !groups.is_some_and(cgroup::is_populated);
        clean = if is_empty { clean + 1 } else { 0 };
        thread::sleep(WALK_INTERVAL);
    }
    if let Some(groups) = groups {
        cgroup::end(groups);
    }
}

/// Kills the processes that bear a tag of the service, or have torn one. Returns how many live.
fn kill_marked(namespace: u64) -> usize {
    let began = tree::start_of(rustix::process::getpid());
    let own = sys::own_limits()[0];
    let is_marked = |pid| {
        sys::tag_of(pid).and_then(sys::TagReading::remains).is_some_and(|mark| {
            // Nobody sets this limit but to lose a tag, and it cannot be raised again.
            let is_torn = || mark < sys::LEAST_MARK && mark < own && tree::start_of(pid) >= began;
            is_in_namespace(mark, namespace) || is_torn()
        })
    };
    let mut alive = 0;
    for pid in tree::all().into_iter().filter(|&pid| is_marked(pid)) {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        // Looked at again, now that the descriptor holds on to the one that was meant.
        if is_marked(pid) && tree::is_alive(pid) {
            alive += 1;
            // Fails when it has ended.
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
    alive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_name_makes_a_watchdog() {
        let check = |arguments: &[&str]| {
            assert!(guard(arguments.iter().map(OsString::from)).is_none(), "{arguments:?}");
        };
        check(&[]);
        check(&["toolgate"]);
        check(&["__guardian"]);
        check(&["toolgate", "serve", "__guardian"]);
    }
}
