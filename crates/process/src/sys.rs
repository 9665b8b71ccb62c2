//! What needs `unsafe`: making a child process and confining it, reading the tag that it bears, and watching for its end.
//!
//! *Invariant:* with `notify`, the only unsafe code of the program.
//!
//! The child is made by `clone(CLONE_VM | CLONE_VFORK)` and not by `fork`: std takes `fork` as soon as there is a
//! `pre_exec`, and `fork` copies the page tables of the service, which costs more than the shell itself once the service
//! holds some hundred megabytes. The price is that the child borrows our memory until it executes, so it may do
//! nothing but bare system calls on data that was prepared for it.
#![allow(
    unsafe_code,
    reason = "clone, prctl, prlimit of another process, confining, signals and registering a descriptor have no safe \
              form"
)]

mod hold;
pub(super) mod reap;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use super::notify::LISTENER_FLAGS;
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Room for the child's few frames until it executes; no signal handler ever runs on it.
const STACK_BYTES: usize = 64 * 1024;

/// The limits that carry a tag (see [`tag_of`]). The kernel has ignored the first one, the number of file locks, for
/// twenty years; the second bounds the processor time of real-time threads, and our values mean more than thirty
/// thousand years.
const MARKED_LIMITS: [libc::c_long; 2] = [libc::RLIMIT_LOCKS as libc::c_long, libc::RLIMIT_RTTIME as libc::c_long];

/// A resource limit as the kernel has it: the soft one and the hard one.
type Rlimit = [u64; 2];

/// No tag is smaller: a limit that somebody chose is never taken for one.
pub(super) const LEAST_MARK: u64 = 1 << 40;

/// The half of a tag that counts the calls of a service.
const COUNT: u64 = u32::MAX as u64;

/// What the limits of a process tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagReading {
    /// It bears the tag of a call of some service.
    Whole(u64),
    /// Its limits are those of this process: nobody has changed them.
    None,
    /// They are neither: if it descends from us, it has tried to lose its tag. The first limit is what is left of it.
    Torn(u64),
}

impl TagReading {
    /// Returns the tag that it was given, as far as that can be told: the first limit, even if the second one is changed.
    pub(super) fn remains(self) -> Option<u64> {
        match self {
            Self::Whole(mark) | Self::Torn(mark) => Some(mark),
            Self::None => None,
        }
    }
}

/// What a child is to become. All of it is made before the child, which must not allocate.
pub(super) struct Plan<'a> {
    /// Absolute path of the program.
    pub(super) program: &'a CStr,
    /// Its arguments, the name first.
    pub(super) arguments: &'a [CString],
    /// Its environment, `NAME=value` each.
    pub(super) environment: &'a [&'a CStr],
    /// Where it starts.
    pub(super) directory: &'a CStr,
    /// Standard input, output and error; none of them is itself 0, 1 or 2.
    pub(super) stdio: [BorrowedFd<'a>; 3],
    /// The tag that it and all its descendants bear.
    pub(super) mark: u64,
    /// What it is confined to.
    pub(super) restriction: Option<Restriction<'a>>,
    /// The folder of the control group that it is born in.
    pub(super) group: Option<BorrowedFd<'a>>,
}

/// What confines a child and all its descendants.
pub(super) struct Restriction<'a> {
    /// The Landlock ruleset.
    pub(super) ruleset: Option<BorrowedFd<'a>>,
    /// The filters of system calls, the first to be installed first.
    pub(super) filters: &'a [Box<[libc::sock_filter]>],
    /// The filter that hands calls to the service, and the socket to send its listener on.
    pub(super) gate: Option<(&'a [libc::sock_filter], BorrowedFd<'a>)>,
}

/// A child that has become its program.
pub(super) struct Spawned {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    /// Whether it was born in the control group of its plan.
    pub(super) is_in_group: bool,
}

/// At which step a child could not become its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Making the process.
    Clone,
    /// Entering the directory.
    Directory,
    /// Wiring its standard streams.
    Streams,
    /// Confining it.
    Confine,
    /// Executing the program.
    Execute,
}

/// Memory that children run in until they execute.
pub(super) struct Stack(Vec<u128>);

impl Stack {
    pub(super) fn new() -> Self {
        Self(vec![0; STACK_BYTES / size_of::<u128>()])
    }
}

/// The part of a plan in the form that system calls take, and the child's answer.
struct Order {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    directory: *const c_char,
    stdio: [c_int; 3],
    marks: [Rlimit; 2],
    is_confined: bool,
    /// The descriptor of the ruleset, or -1.
    ruleset: c_int,
    filters: *const libc::sock_fprog,
    filter_count: usize,
    gate: libc::sock_fprog,
    /// The socket for its listener, or -1.
    gate_socket: c_int,
    service: libc::pid_t,
    failed: AtomicI32,
    errno: AtomicI32,
}

/// Starts a program in a session and process group of its own, to be killed when the calling **thread** ends.
///
/// Returns when the child has executed the program, or the step at which it failed.
pub(super) fn spawn(plan: &Plan<'_>, stack: &mut Stack) -> Result<Spawned, (Step, io::Error)> {
    let pointers = |texts: &mut dyn Iterator<Item = &CStr>| -> Vec<*const c_char> {
        texts.map(CStr::as_ptr).chain([ptr::null()]).collect()
    };
    let arguments = pointers(&mut plan.arguments.iter().map(CString::as_c_str));
    let environment = pointers(&mut plan.environment.iter().copied());
    let filters = plan
        .restriction
        .as_ref()
        .map_or(&[][..], |restriction| restriction.filters);
    let filters: Vec<libc::sock_fprog> = filters
        .iter()
        .map(|program| libc::sock_fprog {
            len: u16::try_from(program.len()).unwrap_or(u16::MAX),
            filter: program.as_ptr().cast_mut(),
        })
        .collect();
    let ruleset = plan.restriction.as_ref().and_then(|restriction| restriction.ruleset);
    let gate = plan.restriction.as_ref().and_then(|restriction| restriction.gate);
    let order = Order {
        program: plan.program.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        directory: plan.directory.as_ptr(),
        stdio: plan.stdio.map(|stream| stream.as_raw_fd()),
        marks: limits_for(plan.mark).map(|limit| [limit, limit]),
        is_confined: plan.restriction.is_some(),
        ruleset: ruleset.map_or(-1, |ruleset| ruleset.as_raw_fd()),
        filters: filters.as_ptr(),
        filter_count: filters.len(),
        gate: libc::sock_fprog {
            len: gate.map_or(0, |(program, _)| u16::try_from(program.len()).unwrap_or(u16::MAX)),
            filter: gate.map_or(ptr::null_mut(), |(program, _)| program.as_ptr().cast_mut()),
        },
        gate_socket: gate.map_or(-1, |(_, socket)| socket.as_raw_fd()),
        service: rustix::process::getpid().as_raw_nonzero().get(),
        failed: AtomicI32::new(0),
        errno: AtomicI32::new(0),
    };
    let spawned = clone_child(&order, plan.group, stack).map_err(|error| (Step::Clone, error))?;
    let step = match order.failed.load(Ordering::Relaxed) {
        0 => return Ok(spawned),
        1 => Step::Directory,
        2 => Step::Streams,
        4 => Step::Confine,
        _ => Step::Execute,
    };
    // It has ended already, and nobody else knows of it.
    let _ = rustix::process::waitid(
        rustix::process::WaitId::Pid(spawned.pid),
        rustix::process::WaitIdOptions::EXITED,
    );
    Err((step, io::Error::from_raw_os_error(order.errno.load(Ordering::Relaxed))))
}

fn clone_child(order: &Order, group: Option<BorrowedFd<'_>>, stack: &mut Stack) -> io::Result<Spawned> {
    let mut all: libc::sigset_t = no_signals();
    let mut before: libc::sigset_t = no_signals();
    let mut pidfd: c_int = -1;
    // SAFETY: both sets are valid for the calls. Signals stay blocked until the child has executed, so no handler of
    // ours runs in the child on borrowed memory. `clone` gets the top of a stack that outlives the child's use of it:
    // CLONE_VFORK suspends this thread until the child has executed or ended. `order` and all that it points to live
    // in the callers' frames for that time, and `pidfd` takes what CLONE_PIDFD writes.
    let (pid, error, is_in_group) = unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let born_in_group = group.and_then(|group| clone_into(group, order, stack, &mut pidfd));
        let pid = born_in_group.unwrap_or_else(|| {
            libc::clone(
                become_program,
                stack.0.as_mut_ptr_range().end.cast::<c_void>(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD,
                ptr::from_ref(order).cast_mut().cast::<c_void>(),
                ptr::from_mut(&mut pidfd),
            )
        });
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        (pid, error, born_in_group.is_some())
    };
    let Some(pid) = (pid > 0).then(|| Pid::from_raw(pid)).flatten() else {
        return Err(error);
    };
    // SAFETY: the kernel has just made this descriptor for us, and nothing else knows its number.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Spawned {
        pid,
        pidfd,
        is_in_group,
    })
}

/// Makes the child inside a control group: `clone3`, which the C library does not offer. A child that enters the group
/// by itself would wait for a grace period of the whole kernel, more than ten milliseconds at worst. None if the kernel
/// or a filter of system calls refuses.
///
/// # Safety
/// As for `clone`: signals are blocked, and `order` is valid until the child has executed.
#[cfg(target_arch = "x86_64")]
unsafe fn clone_into(
    group: BorrowedFd<'_>,
    order: &Order,
    stack: &mut Stack,
    pidfd: &mut c_int,
) -> Option<libc::pid_t> {
    const CLONE_INTO_CGROUP: u64 = 1 << 33;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;
    let arguments: [u64; 11] = [
        CLONE_INTO_CGROUP | u64::from(flags.cast_unsigned()),
        ptr::from_mut(pidfd) as u64,
        0,
        0,
        u64::from(libc::SIGCHLD.cast_unsigned()),
        stack.0.as_mut_ptr() as u64,
        size_of_val(stack.0.as_slice()) as u64,
        0,
        0,
        0,
        u64::from(group.as_raw_fd().cast_unsigned()),
    ];
    let pid: i64;
    // SAFETY: the kernel reads `arguments` and returns twice. The parent goes on at the label with every register as it
    // was but the named ones. The child, on its own stack, calls the function with the order and never returns here.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "mov edi, eax",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_clone3 => pid,
            in("rdi") arguments.as_ptr(),
            in("rsi") size_of_val(&arguments),
            in("r12") ptr::from_ref(order),
            in("r13") become_program as extern "C" fn(*mut c_void) -> c_int,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    libc::pid_t::try_from(pid).ok().filter(|&pid| pid > 0)
}

/// Elsewhere the tags alone tell what belongs to a call.
///
/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn clone_into(_: BorrowedFd<'_>, _: &Order, _: &mut Stack, _: &mut c_int) -> Option<libc::pid_t> {
    None
}

/// What the child does: no allocation, no lock, no panic, only system calls.
extern "C" fn become_program(order: *mut c_void) -> c_int {
    // SAFETY: `clone_child` passes a pointer to an `Order` that stays valid until this function has executed the
    // program or ended the child. Every pointer in it is a terminated string or a list that ends with null.
    unsafe {
        let order = &*order.cast::<Order>();
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0);
        if libc::getppid() != order.service {
            libc::_exit(127); // The service died before the line above took effect.
        }
        for (limit, mark) in MARKED_LIMITS.iter().zip(&order.marks) {
            // Refused only by a kernel that does not know the limit; then the session identifies the call.
            libc::syscall(libc::SYS_prlimit64, 0, *limit, mark, ptr::null_mut::<Rlimit>());
        }
        if libc::chdir(order.directory) != 0 {
            return fail(order, 1);
        }
        for (number, &stream) in (0..).zip(&order.stdio) {
            if libc::dup2(stream, number) < 0 {
                return fail(order, 2);
            }
        }
        // Ours are closed on exec anyway; this is for what the service inherited. Unknown before Linux 5.11.
        libc::syscall(libc::SYS_close_range, 3, c_int::MAX, libc::CLOSE_RANGE_CLOEXEC);
        // In the kernel's own form all zero is the default action. The C library's function takes locks in places and
        // refuses the signals that it keeps to itself, which may have been left ignored by whoever started us.
        let default = [0_u64; 4];
        for signal in 1..=64_i32 {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &default,
                ptr::null_mut::<u64>(),
                size_of::<u64>(),
            );
        }
        let none = no_signals();
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        if order.is_confined && !confine(order) {
            return fail(order, 4);
        }
        // Refused where we may not filter a program that may gain rights; it cannot raise its limits then either.
        hold_marks();
        libc::execve(order.program, order.arguments, order.environment);
        fail(order, 3)
    }
}

/// The capabilities that a confined program of a root service keeps: over files and users, and low ports. The rest leads
/// out of any confinement. CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE.
const KEPT_CAPABILITIES: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10;

/// Confines the calling process for good; false leaves the reason in `errno`. Runs in the child, as [`become_program`].
///
/// # Safety
/// `order` is as `become_program` has it.
unsafe fn confine(order: &Order) -> bool {
    const CAPABILITY_VERSION: u32 = 0x2008_0522;
    // SAFETY: the structures are in the kernel's form and outlive the calls; the filters were prepared by the parent.
    unsafe {
        // What follows needs it, and it keeps dropped capabilities from coming back with the next program.
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return false;
        }
        let header = [CAPABILITY_VERSION, 0];
        // Effective, permitted and inheritable, first the lower halves of all three.
        let mut capabilities = [0_u32; 6];
        if libc::syscall(libc::SYS_capget, &header, &mut capabilities) != 0 {
            return false;
        }
        let kept = capabilities[1] & KEPT_CAPABILITIES;
        capabilities = [kept & capabilities[0], kept, 0, 0, 0, 0];
        if libc::syscall(libc::SYS_capset, &header, &capabilities) != 0 {
            return false;
        }
        if order.ruleset >= 0 && libc::syscall(libc::SYS_landlock_restrict_self, order.ruleset, 0) != 0 {
            return false;
        }
        for index in 0..order.filter_count {
            let program = order.filters.add(index);
            if libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, program) != 0 {
                return false;
            }
        }
        order.gate_socket < 0 || pass_gate(order)
    }
}

/// Puts the calling process under its gate and sends the listener to the service. Runs in the child, as
/// [`become_program`].
///
/// # Safety
/// `order` is as `become_program` has it.
unsafe fn pass_gate(order: &Order) -> bool {
    // SAFETY: the filter was prepared by the parent; the message and all that it points to are on this stack.
    unsafe {
        let listener = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            LISTENER_FLAGS,
            &order.gate,
        );
        if listener < 0 {
            return false;
        }
        // A control message of one descriptor: its length, two words of what it is, the number; filled up to a word.
        #[repr(C)]
        struct Control {
            length: usize,
            level: c_int,
            kind: c_int,
            descriptor: c_int,
        }
        let mut control = Control {
            length: size_of::<usize>() + 3 * size_of::<c_int>(),
            level: libc::SOL_SOCKET,
            kind: libc::SCM_RIGHTS,
            descriptor: listener as c_int,
        };
        let mut byte = 0_u8;
        let mut part = libc::iovec {
            iov_base: ptr::from_mut(&mut byte).cast(),
            iov_len: 1,
        };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = ptr::from_mut(&mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        libc::sendmsg(order.gate_socket, &message, 0) == 1
    }
}

/// Returns the version of Landlock's interface, 0 without it.
pub(super) fn landlock_version() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel takes no attributes and makes nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0_usize, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// Says whether the kernel can refuse system calls by a filter.
pub(super) fn has_seccomp() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one word, which is there.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 }
}

fn fail(order: &Order, step: i32) -> c_int {
    // SAFETY: the location of errno is valid in any thread; the parent, whose errno this is, is suspended.
    order
        .errno
        .store(unsafe { *libc::__errno_location() }, Ordering::Relaxed);
    order.failed.store(step, Ordering::Relaxed);
    127
}

fn no_signals() -> libc::sigset_t {
    // SAFETY: a signal set is plain words, and all zero is the empty set on Linux.
    unsafe { std::mem::zeroed() }
}

/// Returns the two limits that carry a tag. Hard limits can only be lowered without privileges, and one of the two would
/// have to be raised to turn a tag into another.
fn limits_for(mark: u64) -> [u64; 2] {
    [mark, (mark & !COUNT) | (COUNT - (mark & COUNT))]
}

/// Returns the hard limits of a process that carry the tag.
fn marked_limits(pid: libc::pid_t) -> Option<[u64; 2]> {
    let mut found = [0; 2];
    for (kind, value) in MARKED_LIMITS.iter().zip(&mut found) {
        let mut limit: Rlimit = [0; 2];
        // SAFETY: no new limit is given, and `limit` is valid for the answer.
        let answer = unsafe { libc::syscall(libc::SYS_prlimit64, pid, *kind, ptr::null::<Rlimit>(), &mut limit) };
        if answer != 0 {
            return None;
        }
        *value = limit[1];
    }
    Some(found)
}

/// Returns the hard limits of this process: no tag that it gives may be above them.
pub(super) fn own_limits() -> [u64; 2] {
    marked_limits(0).unwrap_or([u64::MAX; 2])
}

/// Returns what the limits of a living process, or one that was not reaped yet, tell; none if they cannot be read.
///
/// Limits pass to children through `fork`, `exec`, `setsid` and an emptied environment, which is what makes them the
/// tag: a daemon that left the session, forgot its parents and cleaned its environment still bears it.
pub(super) fn tag_of(pid: Pid) -> Option<TagReading> {
    let limits = marked_limits(pid.as_raw_nonzero().get())?;
    Some(tag(limits, own_limits()))
}

fn tag(limits: [u64; 2], own: [u64; 2]) -> TagReading {
    // First, since this service may run inside a call of another one and bear a tag itself.
    if limits == own {
        TagReading::None
    } else if limits[0] != u64::MAX && limits[0] >= LEAST_MARK && limits_for(limits[0]) == limits {
        TagReading::Whole(limits[0])
    } else {
        TagReading::Torn(limits[0])
    }
}

/// Returns the tag that a process bears whole; none too if it cannot be told.
pub(super) fn mark_of(pid: Pid) -> Option<u64> {
    match tag_of(pid)? {
        TagReading::Whole(mark) => Some(mark),
        TagReading::None | TagReading::Torn(_) => None,
    }
}

/// Refuses the calling process and its descendants, for good, to change the limits that carry the tag, root included.
/// Runs in the child, as [`become_program`]: no allocation, no lock.
///
/// # Safety
/// None is needed: the program of the filter is constant.
unsafe fn hold_marks() {
    const FLAGS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let program = libc::sock_fprog {
        len: hold::FILTER.len() as libc::c_ushort,
        filter: hold::FILTER.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, which is constant.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, FLAGS, &program) };
}

/// Returns the process that has connected to a Unix socket, 0 if it has no number here, and its user.
pub(super) fn peer_of(connection: BorrowedFd<'_>) -> io::Result<(libc::pid_t, u32)> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    option_of(connection, libc::SO_PEERCRED, &mut peer)?;
    Ok((peer.pid, peer.uid))
}

/// Returns a descriptor of the process that has connected to a Unix socket. Linux 6.5 and newer; `ENOPROTOOPT` before.
pub(super) fn peer_pidfd(connection: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const SO_PEERPIDFD: c_int = 77;
    let mut descriptor: c_int = -1;
    option_of(connection, SO_PEERPIDFD, &mut descriptor)?;
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: the kernel has just made this descriptor for us, and nothing else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn option_of<T: Copy>(connection: BorrowedFd<'_>, option: c_int, value: &mut T) -> io::Result<()> {
    let mut length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: `value` is plain data of `length` bytes, which the kernel may write.
    let answer = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            ptr::from_mut(value).cast::<c_void>(),
            &mut length,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Registers the descriptor of a process with the runtime; it becomes readable when the process ends.
pub(super) fn watch(pidfd: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: the descriptor is open, and the `AsyncFd` shares its ownership, so that it stays open and the same.
    unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }.map_err(io::Error::from)
}

unsafe extern "C" {
    /// The environment, as the C library and the standard library read it.
    static mut environ: *mut *mut c_char;
}

/// Keeps other processes of the same user from looking into this one, and wipes the environment out of the memory that
/// `/proc/PID/environ` shows. The variables can be read as before: they are kept elsewhere.
///
/// To be called first thing, while there is one thread only.
pub(super) fn shield() {
    // SAFETY: by contract nobody else reads the environment at this moment, and nobody holds a pointer into it. Every
    // string of it ends with NUL and lies in memory that the kernel gave us to write.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        if environ.is_null() {
            return;
        }
        let mut copies: Vec<*mut c_char> = Vec::new();
        let mut at = environ;
        while !(*at).is_null() {
            let text = CStr::from_ptr(*at);
            let length = text.to_bytes().len();
            copies.push(text.to_owned().into_raw());
            ptr::write_bytes(*at, 0, length);
            at = at.add(1);
        }
        copies.push(ptr::null_mut());
        environ = copies.leak().as_mut_ptr();
    }
}

/// Takes back what was inherited and would keep signals from this process: the mask, and that ends of children are not
/// told. What is ignored stays so until it is listened to.
///
/// To be called first thing, while there is one thread only.
pub(super) fn hear_signals() {
    let none = no_signals();
    // SAFETY: the set is valid for the call, and the default action installs no handler.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Lets a process that is to outlive a service stand apart: a session of its own, no terminal's signals, nothing that
/// was inherited but the standard streams.
///
/// To be called first thing, while nothing of ours is open.
pub(super) fn stand_apart() {
    // Fails only for the leader of a group, which is apart from its parent's already.
    let _ = rustix::process::setsid();
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: by contract nobody has a descriptor above the standard streams yet. Unknown before Linux 5.9.
    unsafe { libc::syscall(libc::SYS_close_range, 3, c_int::MAX, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_whole_or_torn() {
        let own = [u64::MAX; 2];
        let mark = (1 << 62) | (5 << 32) | 7;
        let given = limits_for(mark);
        assert!(given.iter().all(|&limit| limit < u64::MAX));
        assert_eq!(tag(given, own), TagReading::Whole(mark));
        assert_eq!(tag(own, own), TagReading::None);
        assert_eq!(tag(given, given), TagReading::None, "a service inside a call");
        // Only lowering is possible, and no lowering makes another tag of it.
        for count in (0..15).filter(|&count| count != 7) {
            let other = limits_for((1 << 62) | (5 << 32) | count);
            assert!(other[0] > given[0] || other[1] > given[1], "{count}");
        }
        for torn in [
            [5, given[1]],
            [given[0], 5],
            [5, 5],
            [given[0] - 1, given[1]],
            [given[0], given[1] - 1],
        ] {
            assert_eq!(tag(torn, own), TagReading::Torn(torn[0]));
        }
        assert_eq!(tag([5, u64::MAX], own), TagReading::Torn(5));
    }
}
