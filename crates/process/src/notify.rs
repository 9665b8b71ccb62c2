//! System calls that the kernel hands to the service before it carries them out: reading them, and answering them.
//!
//! What a call names by address is copied from the caller's memory once, and whoever answers works with the copy: between
//! the two, another thread of the caller can change what stands there.
//!
//! *Invariant:* mechanism only; what is answered is decided in `sandbox::gate`.
#![allow(
    unsafe_code,
    reason = "the kernel's interface for this is ioctl and process_vm_readv, which have no safe form"
)]

use std::ffi::c_ulong;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

const RECEIVE: c_ulong = 0xC050_2100;
const SEND: c_ulong = 0xC018_2101;
const IS_VALID: c_ulong = 0x4008_2102;
const ADD_DESCRIPTOR: c_ulong = 0x4018_2103;
const SET_FLAGS: c_ulong = 0x4008_2104;
const SYNC_WAKE_UP: u64 = 1;
const CONTINUE: u32 = 1;

/// Longest path that the kernel takes, the end mark included.
const PATH_MAX: usize = 4096;
const PAGE: usize = 4096;

/// A system call that waits for an answer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notice {
    pub(super) id: u64,
    /// The thread that makes it.
    pub(super) thread: u32,
    flags: u32,
    /// Its number.
    pub(super) call: i32,
    architecture: u32,
    instruction: u64,
    /// Its arguments.
    pub(super) arguments: [u64; 6],
}

#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

#[repr(C)]
struct AddDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

/// What becomes of a system call.
#[derive(Debug)]
pub(super) enum Answer {
    /// The kernel carries it out as if nobody had looked.
    GoOn,
    /// It was carried out.
    Done,
    /// It failed.
    Error(Errno),
    /// It opened this file; closed on exec if so.
    Opened(OwnedFd, bool),
}

/// Where the calls of one program and all its descendants come in.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

impl Listener {
    pub(super) fn new(descriptor: OwnedFd) -> Self {
        let listener = Self(descriptor);
        // Both sides wait for each other, so one processor does for both. Unknown before Linux 6.6.
        // SAFETY: the request takes a number.
        unsafe { libc::ioctl(listener.0.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
        listener
    }

    /// Waits for the next call; none when no process is left that could make one.
    pub(super) fn next(&self) -> Option<Notice> {
        loop {
            let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return None,
            }
            let events = polled[0].revents();
            if events.contains(PollFlags::IN) {
                let mut notice = Notice::default();
                // SAFETY: the structure is in the kernel's form, zeroed, and outlives the request.
                let received = unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE as _, &mut notice) };
                if received == 0 {
                    return Some(notice);
                }
                // The caller was killed in between, or a signal came.
            } else if events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                return None;
            }
        }
    }

    /// Says whether a call still waits: if not, its thread's number may belong to another one.
    pub(super) fn waits(&self, id: u64) -> bool {
        // SAFETY: the number outlives the request.
        unsafe { libc::ioctl(self.0.as_raw_fd(), IS_VALID as _, &id) == 0 }
    }

    /// Answers a call. Whoever made it may be gone, and then nobody needs the answer.
    pub(super) fn answer(&self, id: u64, answer: Answer) {
        let (error, flags) = match answer {
            Answer::GoOn => (0, CONTINUE),
            Answer::Done => (0, 0),
            Answer::Error(error) => (-error.raw_os_error(), 0),
            Answer::Opened(file, close_on_exec) => {
                let add = AddDescriptor {
                    id,
                    flags: u32::try_from(libc::SECCOMP_ADDFD_FLAG_SEND).unwrap_or_default(),
                    source: file.as_raw_fd().cast_unsigned(),
                    target: 0,
                    target_flags: if close_on_exec {
                        libc::O_CLOEXEC.cast_unsigned()
                    } else {
                        0
                    },
                };
                // SAFETY: the structure is in the kernel's form and outlives the request.
                let added = unsafe { libc::ioctl(self.0.as_raw_fd(), ADD_DESCRIPTOR as _, &add) };
                if added >= 0 {
                    return;
                }
                let error = Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::MFILE);
                (-error.raw_os_error(), 0)
            }
        };
        let response = Response {
            id,
            value: 0,
            error,
            flags,
        };
        // SAFETY: as above.
        unsafe { libc::ioctl(self.0.as_raw_fd(), SEND as _, &response) };
    }
}

/// Copies memory of another thread; shorter if it ends.
pub(super) fn read_memory(thread: u32, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0_u8; length];
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: length,
    };
    let remote = libc::iovec {
        iov_base: usize::try_from(address).map_err(|_| Errno::FAULT)? as *mut _,
        iov_len: length,
    };
    // SAFETY: the local vector is ours and large enough; the kernel checks the remote one.
    let read = unsafe { libc::process_vm_readv(thread.cast_signed(), &local, 1, &remote, 1, 0) };
    let read = usize::try_from(read).map_err(|_| last_error(Errno::FAULT))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Copies a path from another thread's memory.
pub(super) fn read_path(thread: u32, address: u64) -> Result<Vec<u8>, Errno> {
    let mut path = Vec::new();
    let mut address = address;
    while path.len() < PATH_MAX {
        // A page is there as a whole or not at all.
        let room = PAGE - usize::try_from(address % PAGE as u64).unwrap_or(0);
        let piece = read_memory(thread, address, room.min(PATH_MAX - path.len()))?;
        if piece.is_empty() {
            return Err(Errno::FAULT);
        }
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            path.extend_from_slice(&piece[..end]);
            return Ok(path);
        }
        address += piece.len() as u64;
        path.extend(piece);
    }
    Err(Errno::NAMETOOLONG)
}

/// Gives the calling thread a mask for new files of its own, which is none: masks are otherwise the whole process's.
pub(super) fn own_mask() -> io::Result<()> {
    // SAFETY: unsharing changes nothing but whom this thread shares its mask and folder with.
    if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::process::umask(rustix::fs::Mode::empty());
    Ok(())
}

/// Connects a socket to a socket's address in the kernel's form.
pub(super) fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the address is ours and as long as is said; the kernel checks what is in it.
    let connected = unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) };
    if connected == 0 {
        Ok(())
    } else {
        Err(last_error(Errno::INVAL))
    }
}

/// Says whether a program can be put under such a listener: tried on a thread that ends at once.
pub(super) fn is_possible() -> bool {
    let tried = std::thread::Builder::new().name("sandbox-probe".to_owned()).spawn(|| {
        let mut allow = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K).try_into().unwrap_or_default(),
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        };
        let program = libc::sock_fprog {
            len: 1,
            filter: &mut allow,
        };
        // SAFETY: the program is complete and outlives the call. Both calls are for this thread alone.
        let listener = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                LISTENER_FLAGS,
                &program,
            )
        };
        let Ok(listener) = i32::try_from(listener) else {
            return false;
        };
        if listener < 0 {
            return false;
        }
        // SAFETY: the kernel has just made this descriptor, and nothing else knows its number.
        drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(listener) });
        true
    });
    // Without the right to look into other processes, which an administrator may have kept back, no path can be read.
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let may_look =
        matches!(scope.trim(), "" | "0" | "1") || scope.trim() == "2" && rustix::process::geteuid().is_root();
    tried.is_ok_and(|tried| tried.join().unwrap_or(false)) && may_look
}

/// With which the last filter of a program is installed: a listener, and no signal but a deadly one between a call and its
/// answer.
pub(super) const LISTENER_FLAGS: c_ulong =
    libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// Takes the listener that a child has sent; none if it ended before.
pub(super) fn receive(socket: impl AsFd) -> Option<Listener> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8];
    let mut into = [io::IoSliceMut::new(&mut byte)];
    recvmsg(
        socket,
        &mut into,
        &mut control,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )
    .ok()?;
    let descriptor = control.drain().find_map(|message| {
        let RecvAncillaryMessage::ScmRights(mut descriptors) = message else {
            return None;
        };
        descriptors.next()
    });
    descriptor.map(Listener::new)
}

fn last_error(otherwise: Errno) -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(otherwise)
}
