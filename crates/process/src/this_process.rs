//! What the process of the service itself is made to be: the parent of orphans, and closed to others.
//!
//! *Invariant:* called by the program that starts the service, never by a library on its own.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::sys;

/// Makes this process the parent of every orphan among its descendants, so that none is out of reach. Affects the
/// whole process: to be called once, by the program that starts the service.
///
/// # Errors
/// The kernel refuses it.
pub fn adopt_orphans() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(io::Error::from)
}

/// Says whether a file is the program that runs here, by whatever path.
pub fn is_own_program(program: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    identity(program).is_some_and(|found| Some(found) == identity(Path::new("/proc/self/exe")))
}

/// Keeps what this process knows from the programs that it starts: none of the same user can trace it, read its memory or
/// take its descriptors, and `/proc/PID/environ` shows nothing. And lets it hear all signals, whatever whoever started it
/// had blocked. To be called first by the program, while it has one thread.
pub fn shield() {
    sys::shield();
    sys::hear_signals();
}

/// Lets other processes of the same user look into this one again, as [`shield`] forbids it: a service that traces a
/// connection can see whose it is then. For a program that holds no secret.
///
/// # Errors
/// The kernel refuses it.
pub fn unshield() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(io::Error::from)
}
