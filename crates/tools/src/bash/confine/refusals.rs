//! Finds what the kernel refused in what a command printed.
//!
//! *Invariant:* a folder is only returned if the sandbox, and nothing else, keeps the command from writing there: it exists,
//! lies outside of what may be written, is not hidden, and the service itself could write there.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use toolgate_fs::path::{follow, normalize};
use toolgate_process::sandbox::{Confinement, Demand, Mode};

/// Most folders of one question.
const MAX_FOLDERS: usize = 4;

/// Most paths that are looked at, and the longest line: output is whatever the command likes.
const MAX_PATHS: usize = 64;
const MAX_LINE: usize = 4096;

/// How far above the words a path may stand.
const LINES_ABOVE: usize = 3;

/// How programs tell of what Landlock refuses, in lower case: EACCES, and EXDEV for a link or a rename between folders.
const REFUSALS: [&str; 4] = [
    "permission denied",
    "eacces",
    "read-only file system",
    "cross-device link",
];

/// How programs tell of what seccomp refuses: EPERM. Approving a folder changes nothing about that.
const FORBIDDEN: [&str; 2] = ["operation not permitted", "eperm"];

/// What a line about a refused socket, or one shortly above, speaks of.
const SOCKETS: [&str; 3] = ["socket", "connect", "bind"];

/// How programs tell that they have no network, in lower case.
const OFFLINE: [&str; 14] = [
    "could not resolve",
    "couldn't resolve",
    "failed to resolve",
    "name resolution",
    "name or service not known",
    "nodename nor servname",
    "network is unreachable",
    "failed to connect",
    "couldn't connect",
    "could not connect",
    "unable to connect",
    "getaddrinfo",
    "eai_again",
    "enotfound",
];

/// Folders that are no places for files.
const NO_PLACES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What the kernel refused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// The folders that could be approved.
    pub(super) folders: Vec<PathBuf>,
    /// The paths that led there.
    pub(super) paths: Vec<PathBuf>,
    /// What could be approved to be read.
    pub(super) read: Vec<PathBuf>,
    /// Whether it looks as if the network was missed.
    pub(super) network: bool,
}

/// Looks for refusals in what a run printed. Blocking.
pub(super) fn find(printed: &str, directory: &Path, demand: &Demand, confinement: &Confinement) -> Refused {
    let mut refused = Refused {
        network: !demand.network && misses_network(printed),
        ..Refused::default()
    };
    for mentioned in mentioned(printed) {
        if refused.folders.len() >= MAX_FOLDERS {
            break;
        }
        let named = mentioned
            .paths
            .iter()
            .map(|path| follow(&normalize(&directory.join(path))));
        let unread = named.into_iter().find(|path| is_unread(path, confinement));
        if let Some(path) = unread.filter(|_| !mentioned.removes && refused.read.len() < MAX_FOLDERS) {
            if !refused.read.contains(&path) {
                refused.read.push(path);
            }
            continue;
        }
        // The nearest path that fits is what the line is about.
        let found = mentioned.paths.iter().find_map(|path| {
            let path = follow(&normalize(&directory.join(path)));
            let folder = refused_folder(&path, mentioned.removes, demand, confinement)?;
            Some((path, folder))
        });
        if let Some((path, folder)) = found
            && !refused.folders.contains(&folder)
        {
            refused.folders.push(folder);
            refused.paths.push(path);
        }
    }
    refused
}

/// Says whether only the sandbox is in the way of reading a path.
fn is_unread(path: &Path, confinement: &Confinement) -> bool {
    let is_place = !NO_PLACES.iter().any(|place| path.starts_with(place)) && path.parent().is_some();
    is_place
        && !confinement.may_read(path)
        && !confinement.touches_hidden(path)
        && access(path, Access::READ_OK).is_ok()
}

/// Returns the folder that must be writable for a path, if only the sandbox is in the way.
fn refused_folder(path: &Path, removes: bool, demand: &Demand, confinement: &Confinement) -> Option<PathBuf> {
    if NO_PLACES.iter().any(|place| path.starts_with(place)) || confinement.may_write(path) {
        return None;
    }
    let folder = if path.is_dir() && !removes {
        path
    } else {
        path.parent()?
    };
    let workspace = demand.workspace.canonicalize().ok()?;
    let opens_workspace =
        demand.mode == Mode::ReadOnly && (workspace.starts_with(folder) || folder.starts_with(&workspace));
    if folder.parent().is_none() || !folder.is_dir() || opens_workspace || confinement.touches_hidden(folder) {
        return None;
    }
    let would_be_allowed = access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        && (removes || !path.is_file() || access(path, Access::WRITE_OK).is_ok());
    would_be_allowed.then(|| folder.to_path_buf())
}

/// The paths that one line about a refusal mentions, the likeliest first.
#[derive(Debug, PartialEq, Eq)]
struct Mentioned {
    paths: Vec<String>,
    /// Whether something was to be removed or moved away, for which the folder around it counts.
    removes: bool,
}

fn mentioned(printed: &str) -> Vec<Mentioned> {
    let lines: Vec<&str> = printed.lines().filter(|line| line.len() <= MAX_LINE).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let lower = line.to_ascii_lowercase();
        let Some(words) = REFUSALS.iter().filter_map(|words| lower.find(words)).min() else {
            continue;
        };
        let (before, after) = line.split_at(words);
        let mut paths = paths_of(before);
        paths.reverse();
        if paths.is_empty() {
            paths = paths_of(after);
        }
        // Some programs tell the path first and the reason lines below.
        let above = lines[at.saturating_sub(LINES_ABOVE)..at].iter().rev();
        let above = above.filter(|line| !is_frame(line));
        if paths.is_empty() {
            paths = above.flat_map(|line| paths_of(line)).collect();
        }
        if paths.is_empty() {
            continue;
        }
        let removes = ["remove", "rename", "move", "unlink", "rmdir"]
            .iter()
            .any(|verb| lower.contains(verb));
        found.push(Mentioned { paths, removes });
        if found.len() >= MAX_PATHS {
            break;
        }
    }
    found
}

/// Says whether a line is one of a stack trace: its path is that of a program.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("at ") || line.starts_with("File \"") || line.starts_with("from ")
}

/// Returns what looks like a path with a folder in it, in order.
fn paths_of(text: &str) -> Vec<String> {
    // The program that speaks is no path it speaks of: `/bin/bash: line 1: …`.
    let text = match text.split_once(": ") {
        Some((program, rest)) if !program.contains([' ', '\'', '"']) => rest,
        Some(_) | None => text,
    };
    let mut paths: Vec<String> = Vec::new();
    for (index, part) in text.split(['\'', '"', '`', '‘', '’', '“', '”']).enumerate() {
        if index % 2 == 1 {
            paths.extend(Some(part).filter(|text| is_path(text)).map(str::to_owned));
        } else {
            let words = part
                .split_whitespace()
                .map(|word| word.trim_matches([':', ',', ';', '(', ')', '[', ']', '<', '>']));
            paths.extend(words.filter(|text| is_path(text)).map(str::to_owned));
        }
    }
    paths.truncate(MAX_PATHS);
    paths
}

fn is_path(text: &str) -> bool {
    text.contains('/') && !text.contains("://") && !text.contains('\0')
}

fn mentions(line: &str, words: &[&str]) -> bool {
    words.iter().any(|words| line.contains(words))
}

fn misses_network(printed: &str) -> bool {
    let lines = printed.lines().filter(|line| line.len() <= MAX_LINE);
    let lines: Vec<String> = lines.map(str::to_ascii_lowercase).collect();
    lines.iter().enumerate().any(|(at, line)| {
        let near = &lines[at.saturating_sub(LINES_ABOVE)..=at];
        mentions(line, &OFFLINE) || mentions(line, &FORBIDDEN) && near.iter().any(|line| mentions(line, &SOCKETS))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_paths_beside_the_words() {
        let check = |printed: &str, expected: &[&str]| {
            let found: Vec<String> = mentioned(printed)
                .into_iter()
                .filter_map(|line| line.paths.into_iter().next())
                .collect();
            assert_eq!(found, expected, "{printed}");
        };
        check("/bin/bash: line 1: /o/x: Permission denied", &["/o/x"]);
        check("touch: cannot touch '/o/a b': Permission denied", &["/o/a b"]);
        check("mkdir: cannot create directory ‘/o/d’: Permission denied", &["/o/d"]);
        check("mv: cannot move 'a' to '/o/a': Permission denied", &["/o/a"]);
        check("PermissionError: [Errno 13] Permission denied: '/o/x'", &["/o/x"]);
        check("Error: EACCES: permission denied, open '/o/x'", &["/o/x"]);
        check("open /o/x: permission denied", &["/o/x"]);
        check(
            "ln: failed to create hard link 'f' => '/o/x': Invalid cross-device link",
            &["/o/x"],
        );
        check(
            "error: failed to open: /o/x\n\nCaused by:\n  Permission denied (os error 13)",
            &["/o/x"],
        );
        check("tee: ../o: Read-only file system", &["../o"]);
        check("Permission denied", &[]);
        check(
            "  File \"/usr/lib/x.py\", line 1, in f\nPermissionError: [Errno 13] Permission denied",
            &[],
        );
        check("chmod: changing permissions of '/o/x': Operation not permitted", &[]);
        check("ssh: Permission denied (publickey).", &[]);
        check("see https://x/y: permission denied", &[]);
        check("/o/x: No such file or directory", &[]);
    }

    #[test]
    fn knows_a_missing_network() {
        for (printed, expected) in [
            ("curl: (6) Could not resolve host: example.com", true),
            (
                "socket.socket: PermissionError: [Errno 1] Operation not permitted",
                true,
            ),
            ("npm error code EAI_AGAIN", true),
            ("the socket module", false),
            ("tests failed", false),
        ] {
            assert_eq!(misses_network(printed), expected, "{printed}");
        }
    }

    proptest! {
        #[test]
        fn takes_any_text(text in "(permission denied|/|'|‘|: |\\PC){0,60}") {
            let _ = (mentioned(&text), misses_network(&text));
        }
    }
}
