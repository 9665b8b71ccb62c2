//! The filter of system calls that holds the tag of a process fast.

use super::MARKED_LIMITS;

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    jump(code, k, 0, 0)
}

const fn jump(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Where a filter finds the number of the system call, the architecture, and the lower half of an argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index + if cfg!(target_endian = "big") { 4 } else { 0 }
}

/// `AUDIT_ARCH_*` of programs that are native, and the numbers of `prlimit64` and `setrlimit` in the other two ways to call
/// the kernel that it may offer: 32-bit programs, and x32 as the second.
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "x86_64")]
const FOREIGN: [[u32; 2]; 2] = [[340, 75], [0x4000_0000 + 302, 0x4000_0000 + 160]];
#[cfg(not(target_arch = "x86_64"))]
const NATIVE: u32 = 0xc000_00b7;
#[cfg(not(target_arch = "x86_64"))]
const FOREIGN: [[u32; 2]; 2] = [[369, 75], [u32::MAX, u32::MAX]];

/// The filter: `prlimit64` with a new value, and `setrlimit`, of one of [`MARKED_LIMITS`] are refused.
pub(super) static FILTER: [libc::sock_filter; 21] = [
    // 0: which numbers count depends on the architecture.
    statement(LOAD, ARCHITECTURE),
    jump(IS, NATIVE, 0, 5),
    statement(LOAD, NUMBER),
    jump(IS, libc::SYS_prlimit64 as u32, 6, 0),
    jump(IS, FOREIGN[1][0], 5, 0),
    jump(IS, libc::SYS_setrlimit as u32, 10, 0),
    jump(IS, FOREIGN[1][1], 9, 13),
    // 7: a 32-bit program.
    statement(LOAD, NUMBER),
    jump(IS, FOREIGN[0][0], 1, 0),
    jump(IS, FOREIGN[0][1], 6, 10),
    // 10: `prlimit64` is harmless if it only reads.
    statement(LOAD, argument(2)),
    jump(IS, 0, 0, 2),
    statement(LOAD, argument(2) ^ 4),
    jump(IS, 0, 6, 0),
    statement(LOAD, argument(1)),
    statement(libc::BPF_JMP | libc::BPF_JA, 1),
    // 16: `setrlimit`.
    statement(LOAD, argument(0)),
    jump(IS, MARKED_LIMITS[0] as u32, 1, 0),
    jump(IS, MARKED_LIMITS[1] as u32, 0, 1),
    statement(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    statement(RETURN, libc::SECCOMP_RET_ALLOW),
];
