//! The end of a child, with what the kernel has counted for it.
//!
//! *Invariant:* takes a child that has ended, by its number, while that is still the child's.

use std::ffi::c_int;
use std::fs;
use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::process::Pid;

use crate::launch::Usage;

/// By how much the kernel's count of memory may be off, in KiB: each processor counts for itself at first.
const INEXACT_KIB: u64 = 4096;

/// Reaps a child that has ended, and returns what it used; none if it has not, or is not ours.
pub(crate) fn reap(child: Pid) -> Option<Usage> {
    let mut status: c_int = 0;
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    let number = child.as_raw_nonzero().get();
    // SAFETY: both pointers are valid for the call, and a `rusage` of zeros is a valid one.
    let (reaped, used) = unsafe {
        let reaped = libc::wait4(number, &mut status, libc::WNOHANG, used.as_mut_ptr());
        (reaped, used.assume_init())
    };
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    let time =
        |time: libc::timeval| Duration::new(count(time.tv_sec), (count(time.tv_usec) as u32).saturating_mul(1000));
    (reaped == number).then(|| Usage {
        user: time(used.ru_utime),
        system: time(used.ru_stime),
        // In KiB, and in blocks of 512 bytes.
        peak_memory_bytes: own_peak()
            .and_then(|own| (count(used.ru_maxrss) > own + INEXACT_KIB).then(|| count(used.ru_maxrss) << 10)),
        read_bytes: count(used.ru_inblock) << 9,
        written_bytes: count(used.ru_oublock) << 9,
    })
}

/// Returns the most memory that this process has had since it was executed, in KiB. What `getrusage` says of it begins with
/// the memory of whoever started it.
fn own_peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
