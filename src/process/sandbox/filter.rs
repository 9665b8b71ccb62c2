//! The filters of system calls: what Landlock does not guard, and what would lead out of a confinement.
//!
//! Two programs: a small one for what must look as if the kernel did not know it, and one that refuses with EPERM.
//! Programs for a foreign architecture (32-bit ones on x86_64) are killed at their first call, because the numbers mean
//! other calls there.

use std::collections::BTreeMap;
use std::sync::Arc;

use libc::{BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long, sock_filter};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::Mode;

/// Programs in the kernel's form, to be installed one after the other.
pub(super) type Filters = Arc<[Box<[sock_filter]>]>;

#[cfg(target_arch = "x86_64")]
const MACHINE: Option<TargetArch> = Some(TargetArch::x86_64);
#[cfg(target_arch = "aarch64")]
const MACHINE: Option<TargetArch> = Some(TargetArch::aarch64);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: Option<TargetArch> = None;

/// Says whether the tables below are for this machine.
pub(super) fn is_for_this_machine() -> bool {
    MACHINE.is_some()
}

/// Calls that no confined program may make, whatever their arguments.
const REFUSED: &[c_long] = &[
    // Other processes' memory and descriptors.
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    // Around paths, and so around Landlock; io_uring is also around this filter.
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    // Keys, and parts of the kernel with a history of holes.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    // The machine itself.
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Calls that change mode, owner, times and extended attributes, which no Landlock right covers.
const ATTRIBUTES: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

// The library lacks it for musl on aarch64, whose numbers are those of most architectures.
#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: c_long = libc::SYS_kexec_file_load;
#[cfg(not(target_arch = "x86_64"))]
const KEXEC_FILE_LOAD: c_long = 294;

// Newer than the library; the same on both architectures.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const OPEN_TREE_ATTR: c_long = 467;
const FILE_SETATTR: c_long = 469;

/// `CLONE_NEWTIME` is for `unshare` only: in `clone` that bit belongs to the signal.
const CLONE_NEWTIME: c_long = 0x80;
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// By number, since libraries of C do not agree on their type.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// The bit that marks calls of the x32 interface on x86_64, which has numbers of its own. No other numbers are so large.
const X32: u32 = 0x4000_0000;

/// Makes the filters.
pub(super) fn filters(mode: Mode, network: bool, has_landlock: bool) -> Result<Filters, BackendError> {
    let Some(machine) = MACHINE else {
        return Ok(Filters::default());
    };
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    if mode == Mode::ReadOnly {
        calls.extend(ATTRIBUTES.iter().map(|&call| (call, Vec::new())));
    }
    if !has_landlock {
        // Landlock refuses it for everything outside the confinement, and leaves debuggers their own children.
        calls.insert(libc::SYS_ptrace, Vec::new());
    }
    let new_namespace = || NAMESPACES.iter().map(|&flag| has_bit(0, flag.cast_unsigned().into()));
    calls.insert(libc::SYS_clone, new_namespace().collect::<Result<_, _>>()?);
    let with_time = new_namespace().chain([has_bit(0, CLONE_NEWTIME.cast_unsigned())]);
    calls.insert(libc::SYS_unshare, with_time.collect::<Result<_, _>>()?);
    // Typing into the terminal of somebody else.
    let typing = [TIOCSTI, TIOCLINUX].map(|request| rule([(1, SeccompCmpOp::Eq, request)]));
    calls.insert(libc::SYS_ioctl, typing.into_iter().collect::<Result<_, _>>()?);
    if !network {
        // By what is allowed: each kernel brings new families, and TCP is not all that leads out of TCP's (fast open,
        // multipath).
        let local =
            [libc::AF_UNIX, libc::AF_NETLINK].map(|family| (0, SeccompCmpOp::Ne, family.cast_unsigned().into()));
        calls.insert(libc::SYS_socket, vec![rule(local)?]);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let program: BpfProgram = SeccompFilter::new(calls, SeccompAction::Allow, refuse, machine)?.try_into()?;
    let program = program.into_iter().map(|step| sock_filter {
        code: step.code,
        jt: step.jt,
        jf: step.jf,
        k: step.k,
    });
    Ok(Arc::from([unknown_calls(), program.collect()]))
}

/// `clone3` hides its flags in memory, where no filter sees them; programs fall back to `clone`. The other program
/// checks the architecture.
fn unknown_calls() -> Box<[sock_filter]> {
    let answer = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let step = |code: u32, k: u32, jt: u8, jf: u8| sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    Box::new([
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0), // The call's number is the first word.
        step(BPF_JMP | BPF_JGE | BPF_K, X32, 2, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, CLONE3, 1, 0),
        step(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(BPF_RET | BPF_K, answer, 0, 0),
    ])
}

/// The same on all architectures.
const CLONE3: u32 = 435;

fn has_bit(argument: u8, bit: u64) -> Result<SeccompRule, BackendError> {
    rule([(argument, SeccompCmpOp::MaskedEq(bit), bit)])
}

/// Makes a rule of conditions on the lower halves of arguments, which is what the kernel looks at in these calls.
fn rule<const N: usize>(conditions: [(u8, SeccompCmpOp, u64); N]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions
        .into_iter()
        .map(|(argument, operator, value)| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}
