//! Which processes there are: our children and their descendants, from `/proc`.
//!
//! *Invariant:* reads only. A list is a snapshot that may miss what is just being born or adopted; callers look again.

use std::fs;
use std::io::Read as _;

use rustix::process::Pid;

/// Bounds one walk against a fork bomb; the next walk sees the rest.
const MAX_DESCENDANTS: usize = 16 * 1024;

/// Returns the children of this process: what it started, and the orphans that it adopted as their sub-reaper.
pub(super) fn own_children() -> Vec<Pid> {
    children_of("self")
}

/// Returns the children of the main thread, to which the kernel hands orphans. One small read.
pub(super) fn adopted() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero();
    let mut children = Vec::new();
    append_children(&format!("/proc/self/task/{own}/children"), &mut children);
    children
}

/// Returns all descendants of a process, each with its parent, the process itself not included.
pub(super) fn descendants(root: Pid) -> Vec<(Pid, Pid)> {
    let mut found: Vec<(Pid, Pid)> = Vec::new();
    let mut next = Some(root);
    let mut position = 0;
    while let Some(parent) = next {
        let room = MAX_DESCENDANTS - found.len();
        if room == 0 {
            break;
        }
        let children = children_of(&parent.as_raw_nonzero().to_string());
        found.extend(children.into_iter().take(room).map(|child| (child, parent)));
        next = found.get(position).map(|&(child, _)| child);
        position += 1;
    }
    found
}

/// Returns every process there is. Blocking.
pub(super) fn all() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Returns the parent of a process, if that still exists.
pub(super) fn parent_of(pid: Pid) -> Option<Pid> {
    stat_field(pid, 1)
}

/// Returns the parent of a process, none for the first of all, and when it began, in ticks since the machine started.
pub(super) fn birth_of(pid: Pid) -> Option<(Option<Pid>, u64)> {
    let stat = stat_of(pid)?;
    let mut fields = stat.split_ascii_whitespace();
    let parent: i32 = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    Some((Pid::from_raw(parent), start))
}

/// Returns the process group of a process, if it still has one.
pub(super) fn group_of(pid: Pid) -> Option<Pid> {
    stat_field(pid, 2)
}

/// Returns when a process began, in ticks since the machine started.
pub(super) fn start_of(pid: Pid) -> Option<u64> {
    birth_of(pid).map(|(_, start)| start)
}

/// Says whether a process lives: it is there, and has not ended without being reaped.
pub(super) fn is_alive(pid: Pid) -> bool {
    stat_text(pid, 0).is_some_and(|state| !matches!(state.as_str(), "Z" | "X" | "x"))
}

/// Returns the command line of a process on one line, `most` bytes at most; none if it does not live.
pub(super) fn command_of(pid: Pid, most: usize) -> Option<String> {
    if !is_alive(pid) {
        return None;
    }
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let mut line = Vec::new();
    let file = fs::File::open(format!("{folder}/cmdline")).ok()?;
    file.take(most as u64).read_to_end(&mut line).ok()?;
    let line = String::from_utf8_lossy(&line);
    let shown: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let shown = shown.trim();
    if !shown.is_empty() {
        return Some(shown.to_owned());
    }
    // One that ends has lost its memory before it counts as dead.
    let memory = fs::read_to_string(format!("{folder}/statm")).ok()?;
    if memory.starts_with("0 ") {
        return None;
    }
    // One that has emptied its arguments still has a name.
    let name = fs::read_to_string(format!("{folder}/comm")).ok()?;
    Some(format!("[{}]", name.trim()))
}

/// Returns the session of a process, if it still has one.
///
/// Not by `getsid`: for a process that is being reaped at that moment, or whose session began outside our container,
/// the kernel answers 0, which rustix takes for impossible.
pub(super) fn session_of(pid: Pid) -> Option<Pid> {
    stat_field(pid, 3)
}

/// Returns the ticks of processors that a process, and those of its children that were waited for, spent in programs and in
/// the kernel.
pub(super) fn ticks_of(pid: Pid) -> Option<[u64; 2]> {
    let stat = stat_of(pid)?;
    let fields: Vec<u64> = stat
        .split_ascii_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse().ok())
        .collect();
    let [user, system, of_children, in_kernel] = *fields.as_slice() else {
        return None;
    };
    Some([user + of_children, system + in_kernel])
}

/// Reads a process number from `/proc/PID/stat`, counting the fields after the name from 0; 0 stands for none.
fn stat_field(pid: Pid, field: usize) -> Option<Pid> {
    let number: i32 = stat_text(pid, field)?.parse().ok()?;
    (number > 0).then(|| Pid::from_raw(number)).flatten()
}

fn stat_text(pid: Pid, field: usize) -> Option<String> {
    stat_of(pid)?.split_ascii_whitespace().nth(field).map(str::to_owned)
}

/// Returns the fields of `/proc/PID/stat` after the name.
fn stat_of(pid: Pid) -> Option<String> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name in parentheses may hold anything, blanks and parentheses included.
    stat.rsplit_once(')').map(|(_, rest)| rest.to_owned())
}

fn children_of(process: &str) -> Vec<Pid> {
    let mut children = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return children;
    };
    for thread in threads.flatten() {
        append_children(&format!("{}/children", thread.path().display()), &mut children);
    }
    children
}

fn append_children(path: &str, children: &mut Vec<Pid>) {
    if let Ok(list) = fs::read_to_string(path) {
        children.extend(
            list.split_ascii_whitespace()
                .filter_map(|pid| Pid::from_raw(pid.parse().ok()?)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_parent_and_session() {
        let own = rustix::process::getpid();
        assert_eq!(parent_of(own), rustix::process::getppid());
        let child = std::process::Command::new("setsid").args(["sleep", "60"]).spawn();
        let mut child = child.expect("setsid is there");
        let pid = Pid::from_child(&child);
        let has_session = (0..2_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            session_of(pid) == Some(pid) && command_of(pid, 100).as_deref() == Some("sleep 60")
        });
        assert_eq!(group_of(pid), Some(pid));
        assert_eq!(command_of(pid, 4).as_deref(), Some("slee"));
        assert!(all().contains(&pid));
        child.kill().expect("it runs");
        child.wait().expect("it was not waited for");
        assert!(has_session);
        assert_eq!((parent_of(pid), session_of(pid)), (None, None), "reaped");
        assert!(!is_alive(pid));
        assert_eq!(command_of(pid, 100), None);
    }
}
