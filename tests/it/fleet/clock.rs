//! Clocks of machines that are off by an hour: of a process, while all others keep the right time.
//!
//! *Invariant:* only what the clock on the wall says is wrong; the time that passes is not. What the process starts has the right time
//! again. The library leaves nothing behind when its process is killed, and needs nothing but the compiler that Rust links with.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What a process believes of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Right,
    Ahead,
    Behind,
}

/// The C library answers these without the kernel's help; all that reads the time in a program of Rust asks one of them.
const SOURCE: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

__attribute__((constructor)) static void alone(void) { unsetenv("LD_PRELOAD"); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += OFFSET;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *kept) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
    if (kept) *kept = precise.tv_sec;
    return precise.tv_sec;
}
"#;

impl Clock {
    /// Returns by how many seconds it is off.
    pub(super) fn offset(self) -> i64 {
        match self {
            Self::Right => 0,
            Self::Ahead => 3_600,
            Self::Behind => -3_600,
        }
    }

    /// Returns what a process is to load to have this clock, made in a folder unless it is there; none for the right one.
    pub(super) fn library(self, folder: &Path) -> Option<PathBuf> {
        if self == Self::Right {
            return None;
        }
        let (source, library) = (folder.join("clock.c"), folder.join(format!("{self:?}.so")));
        if !library.exists() {
            std::fs::write(&source, SOURCE).unwrap();
            let made = Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror"])
                .arg(format!("-DOFFSET={}", self.offset()))
                .arg("-o")
                .args([&library, &source])
                .output()
                .expect("a C compiler is there, as Rust links with it");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        Some(library)
    }
}
