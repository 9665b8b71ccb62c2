//! What the programs of calls use at one moment, as the kernel counts it.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::process::Pid;

use super::programs::Programs;
use super::tree;

/// What programs use at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageNow {
    /// Their processes.
    pub processes: usize,
    /// Bytes of memory of these. Of what several processes share, each counts its part.
    pub memory_bytes: u64,
    /// Time of processors that these, and those of theirs that have ended, spent in programs.
    pub user: Duration,
    /// Time of processors spent in the kernel for them.
    pub system: Duration,
}

impl Programs {
    /// Returns what the programs of these calls use, and what those have left running. Blocking, for a look at each process.
    pub fn usage_of(&self, calls: &[String]) -> UsageNow {
        let processes = self.0.reaper.processes_of(|entry| calls.contains(&entry.call));
        let mut usage = UsageNow::default();
        for pid in processes {
            // What has ended meanwhile uses nothing.
            let Some([user, system]) = tree::ticks_of(pid).filter(|_| tree::is_alive(pid)) else {
                continue;
            };
            usage.processes += 1;
            usage.user += duration(user);
            usage.system += duration(system);
            usage.memory_bytes += memory_of(pid);
        }
        usage
    }
}

fn duration(ticks: u64) -> Duration {
    let per_second = clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

/// Returns the bytes of memory of a process; 0 if it may not be looked at.
fn memory_of(pid: Pid) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero());
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix("kB"));
    let kilobytes: Option<u64> = kilobytes.and_then(|number| number.trim().parse().ok());
    kilobytes.unwrap_or_default() * 1024
}
