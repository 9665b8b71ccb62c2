//! Which processes there are: our children and their descendants, from `/proc`.
//!
//! *Invariant:* reads only. A list is a snapshot that may miss what is just being born or adopted; callers look again.

use std::fs;

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

/// Returns the parent of a process, if that still exists.
pub(super) fn parent_of(pid: Pid) -> Option<Pid> {
    stat_field(pid, 1)
}

/// Returns the session of a process, if it still has one.
///
/// Not by `getsid`: for a process that is being reaped at that moment, or whose session began outside our container,
/// the kernel answers 0, which rustix takes for impossible.
pub(super) fn session_of(pid: Pid) -> Option<Pid> {
    stat_field(pid, 3)
}

/// Reads a process number from `/proc/PID/stat`, counting the fields after the name from 0; 0 stands for none.
fn stat_field(pid: Pid, field: usize) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name in parentheses may hold anything, blanks and parentheses included.
    let (_, rest) = stat.rsplit_once(')')?;
    let number: i32 = rest.split_ascii_whitespace().nth(field)?.parse().ok()?;
    (number > 0).then(|| Pid::from_raw(number)).flatten()
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
            session_of(pid) == Some(pid)
        });
        child.kill().expect("it runs");
        child.wait().expect("it was not waited for");
        assert!(has_session);
        assert_eq!((parent_of(pid), session_of(pid)), (None, None), "reaped");
    }
}
