//! What the kernel tells of processes: their times, their children, their command lines.
//!
//! *Invariant:* a process that ends while it is looked at counts as ended, not as an error.

#![allow(dead_code)] // two benchmarks share this, and each has its own part of it

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The kernel counts processor time in hundredths of a second, whatever its own clock is.
const TICK: Duration = Duration::from_millis(10);

/// Processor time that was taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Processors {
    /// By the process itself, with all its threads.
    pub(crate) own: Duration,
    /// By the processes below it that live.
    pub(crate) below: Duration,
}

struct Process {
    parent: u32,
    time: Duration,
}

impl Processors {
    /// Asks for a process and those below it.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let all: HashMap<u32, Process> = processes()?
            .filter_map(|(pid, folder)| Some((pid, process(&fs::read_to_string(folder.join("stat")).ok()?)?)))
            .collect();
        let own = all.get(&pid).context("the process has ended")?.time;
        let is_below = |start: u32| {
            // A parent may end meanwhile, and its number be given again; no chain is as long as this.
            let mut above = start;
            for _ in 0..64 {
                match all.get(&above) {
                    Some(process) if process.parent == pid => return true,
                    Some(process) => above = process.parent,
                    None => return false,
                }
            }
            false
        };
        let below = all
            .iter()
            .filter(|(one, _)| is_below(**one))
            .filter_map(|(pid, _)| fine_time(*pid));
        Ok(Self {
            own,
            below: below.sum(),
        })
    }
}

/// Returns the processor time that a process has taken itself, with all its threads, in user mode and in the kernel.
pub(crate) fn own_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process has ended")?;
    Ok(process(&stat).context("the kernel tells of processes otherwise")?.time)
}

/// Counts the files that a process has open.
pub(crate) fn open_files(pid: u32) -> Result<usize> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).context("counting open files")?;
    Ok(files.count())
}

/// Returns the time of a process with one thread, as finely as the kernel knows it: what many processes that do next to
/// nothing take would be lost in the rounding of the other figure.
fn fine_time(pid: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Reads `/proc/PID/stat`. The name of the program, in brackets, may hold anything.
fn process(stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let field = |index: usize| fields.split(' ').nth(index)?.parse::<u32>().ok();
    Some(Process {
        parent: field(1)?,
        time: TICK * (field(11)? + field(12)?),
    })
}

fn processes() -> Result<impl Iterator<Item = (u32, PathBuf)>> {
    let entries = fs::read_dir("/proc").context("listing processes")?;
    Ok(entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        Some((pid, path))
    }))
}

/// Counts the processes of the machine whose command line has this in it, but for this one.
pub(crate) fn marked(mark: &str) -> Result<usize> {
    let is_marked = |(pid, path): &(u32, PathBuf)| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        *pid != std::process::id() && String::from_utf8_lossy(&line).contains(mark)
    };
    Ok(processes()?.filter(is_marked).count())
}
