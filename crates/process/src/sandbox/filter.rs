//! The filters of system calls: what Landlock does not guard, and what would lead out of a confinement.
//!
//! Three programs: one for what must look as if the kernel did not know it, one for what must look as if no file system
//! had it, and one that refuses with EPERM.
//! Programs for a foreign architecture (32-bit ones on x86_64) are killed at their first call, because the numbers mean
//! other calls there.

use std::collections::BTreeMap;
use std::sync::Arc;

use libc::{BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long, sock_filter};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::demand::Mode;

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

/// Calls that change extended attributes, access control lists among them, and flags of files. No Landlock right covers
/// them, so nothing confined may use them: it is as on a file system that does not have them, which programs cope with.
const EXTENDED: &[c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// Requests that change flags of files.
const FLAGS: [u64; 2] = [0x4008_6602, 0x401c_5820];

/// Calls that change mode, owner and times, which no Landlock right covers.
const ATTRIBUTES: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
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

/// The bit that tags calls of the x32 interface on x86_64, which has numbers of its own. No other numbers are so large.
const X32: u32 = 0x4000_0000;

/// What filters depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    pub(super) mode: Mode,
    pub(super) network: bool,
    pub(super) has_landlock: bool,
    /// Whether connections pass a gate.
    pub(super) has_gate: bool,
    /// Whether some Unix sockets may be connected to.
    pub(super) has_sockets: bool,
}

/// Makes the filters.
pub(super) fn filters(wanted: Wanted) -> Result<Filters, BackendError> {
    let Wanted {
        mode,
        network,
        has_landlock,
        has_gate,
        has_sockets,
    } = wanted;
    let Some(machine) = MACHINE else {
        return Ok(Filters::default());
    };
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    calls.extend(others()?);
    calls.extend(special_bits()?);
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
    let unix = (0, SeccompCmpOp::Eq, libc::AF_UNIX.cast_unsigned().into());
    if has_gate {
        // A datagram names its receiver where no filter sees it.
        let kind = SeccompCmpOp::MaskedEq(0xf);
        let datagrams = rule([unix, (1, kind, libc::SOCK_DGRAM.cast_unsigned().into())])?;
        calls.entry(libc::SYS_socket).or_default().push(datagrams);
    } else if !network && !has_sockets {
        // Connected pairs are another call.
        calls.entry(libc::SYS_socket).or_default().push(rule([unix])?);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let program = compile(calls, refuse, machine)?;
    let mut missing: BTreeMap<i64, Vec<SeccompRule>> = EXTENDED.iter().map(|&call| (call, Vec::new())).collect();
    let flags = FLAGS.map(|request| rule([(1, SeccompCmpOp::Eq, request)]));
    missing.insert(libc::SYS_ioctl, flags.into_iter().collect::<Result<_, _>>()?);
    let missing = compile(missing, SeccompAction::Errno(libc::EOPNOTSUPP.cast_unsigned()), machine)?;
    Ok(Arc::from([unknown_calls(), missing, program]))
}

fn compile(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    action: SeccompAction,
    machine: TargetArch,
) -> Result<Box<[sock_filter]>, BackendError> {
    let program: BpfProgram = SeccompFilter::new(calls, SeccompAction::Allow, action, machine)?.try_into()?;
    let program = program.into_iter().map(|step| sock_filter {
        code: step.code,
        jt: step.jt,
        jf: step.jf,
        k: step.k,
    });
    Ok(program.collect())
}

/// Returns the calls that reach other processes: how fast they run, where, and how long. What a program does to itself
/// has the number 0.
fn others() -> Result<Vec<(i64, Vec<SeccompRule>)>, BackendError> {
    let other = |argument: u8| (argument, SeccompCmpOp::Ne, 0);
    let is_given = |argument: u8| SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    let condition =
        |(argument, operator, value)| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
    // This limit carries the tag by which a call's processes are known.
    let marked = |argument: u8| (argument, SeccompCmpOp::Eq, libc::RLIMIT_RTTIME as u64);
    let limits = vec![
        SeccompRule::new(vec![condition(other(0))?, is_given(2)?])?,
        SeccompRule::new(vec![condition(marked(1))?, is_given(2)?])?,
    ];
    let of_user = (0, SeccompCmpOp::Eq, libc::PRIO_USER as u64);
    let mut found = vec![
        (libc::SYS_prlimit64, limits),
        (libc::SYS_setrlimit, vec![rule([marked(0)])?]),
        (libc::SYS_setpriority, vec![rule([other(1)])?, rule([of_user])?]),
        // Of a process: 1.
        (
            libc::SYS_ioprio_set,
            vec![rule([other(1)])?, rule([(0, SeccompCmpOp::Ne, 1)])?],
        ),
        (libc::SYS_process_madvise, Vec::new()),
        (libc::SYS_process_mrelease, Vec::new()),
        (libc::SYS_kcmp, Vec::new()),
    ];
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
    ] {
        found.push((call, vec![rule([other(0)])?]));
    }
    Ok(found)
}

/// Returns the calls that make a file run as its owner or its group, whoever starts it.
fn special_bits() -> Result<Vec<(i64, Vec<SeccompRule>)>, BackendError> {
    const BITS: [u64; 2] = [0o4000, 0o2000];
    let always = |argument: u8| {
        BITS.iter()
            .map(move |&bit| has_bit(argument, bit))
            .collect::<Result<Vec<_>, _>>()
    };
    // Without one of these the mode is whatever the register held.
    let making = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(|flag| u64::from(flag.cast_unsigned()));
    let opening = |flags: u8, mode: u8| {
        let each = BITS.iter().flat_map(|&bit| making.map(|flag| (flag, bit)));
        let rules = each.map(|(flag, bit)| {
            rule([
                (flags, SeccompCmpOp::MaskedEq(flag), flag),
                (mode, SeccompCmpOp::MaskedEq(bit), bit),
            ])
        });
        rules.collect::<Result<Vec<_>, _>>()
    };
    Ok(vec![
        (libc::SYS_fchmod, always(1)?),
        (libc::SYS_fchmodat, always(2)?),
        (FCHMODAT2, always(2)?),
        (libc::SYS_mknodat, always(2)?),
        (libc::SYS_openat, opening(2, 3)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, always(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, always(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, always(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, opening(1, 2)?),
    ])
}

/// Makes the program that hands calls to the gate: connections and, where files pass it, whatever changes a folder or
/// opens a file to be written. None where there is no table for the machine.
pub(super) fn gate(files: bool) -> Result<Option<Box<[sock_filter]>>, BackendError> {
    let Some(machine) = MACHINE else { return Ok(None) };
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = [(libc::SYS_connect, Vec::new())].into();
    if files {
        let flags = [
            libc::O_WRONLY,
            libc::O_RDWR,
            libc::O_CREAT,
            libc::O_TRUNC,
            libc::O_TMPFILE & !libc::O_DIRECTORY,
        ];
        let opening = |argument: u8| {
            let flags = flags
                .iter()
                .map(|flag| has_bit(argument, u64::from(flag.cast_unsigned())));
            flags.collect::<Result<Vec<_>, _>>()
        };
        calls.insert(libc::SYS_openat, opening(2)?);
        #[cfg(target_arch = "x86_64")]
        calls.insert(libc::SYS_open, opening(1)?);
        calls.extend(CHANGES.iter().map(|&call| (call, Vec::new())));
    }
    let mut program = compile(calls, SeccompAction::Trace(0), machine)?;
    // The library has no word for it.
    for step in &mut program {
        if u32::from(step.code) == BPF_RET | BPF_K && step.k == libc::SECCOMP_RET_TRACE {
            step.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
    Ok(Some(program))
}

/// Elsewhere the library lacks it: it is not in every architecture.
#[cfg(target_arch = "x86_64")]
pub(super) const RENAMEAT: c_long = libc::SYS_renameat;
#[cfg(not(target_arch = "x86_64"))]
pub(super) const RENAMEAT: c_long = 38;

/// Calls that change what a folder holds, or a file by its path.
const CHANGES: &[c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    RENAMEAT,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
];

/// `clone3` and `openat2` hide their flags in memory, where no filter sees them; programs fall back to `clone` and `openat`.
/// The other program checks the architecture.
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
        step(BPF_JMP | BPF_JGE | BPF_K, X32, 3, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, CLONE3, 2, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, OPENAT2, 1, 0),
        step(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(BPF_RET | BPF_K, answer, 0, 0),
    ])
}

/// The same on all architectures.
const CLONE3: u32 = 435;
const OPENAT2: u32 = 437;

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
