//! A program at a terminal of its own, as a person uses it.
//!
//! *Invariant:* the program ends with its [`Pty`]. A key is pressed only when the program waits for one: what is typed
//! earlier is thrown away by it on purpose.

#![allow(unsafe_code)] // a terminal is made, and becomes a child's own, by calls that no crate here wraps

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{PROGRAM, eventually};

/// The program and its terminal.
pub(crate) struct Pty {
    child: Child,
    keyboard: File,
    /// Everything that was shown so far.
    screen: Arc<Mutex<Vec<u8>>>,
    /// How much of it was waited for.
    read: usize,
}

impl Pty {
    /// Starts `toolgate` with these arguments.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(args).env_clear().env("HOME", "/nowhere");
        Self::of(command)
    }

    /// Starts a command at a terminal that does not say how large it is.
    pub(crate) fn of(command: Command) -> Self {
        Self::sized(command, 0, 0)
    }

    /// Starts a command at a terminal of this size.
    pub(crate) fn sized(mut command: Command, columns: u16, rows: u16) -> Self {
        let (keyboard, terminal) = open();
        resize(&keyboard, columns, rows);
        command
            .env("TERM", "xterm")
            .stdin(Stdio::from(terminal.try_clone().unwrap()))
            .stdout(Stdio::from(terminal.try_clone().unwrap()))
            .stderr(Stdio::from(terminal));
        // SAFETY: the three calls are safe between fork and exec, and touch no memory of this process.
        unsafe {
            command.pre_exec(|| {
                // Who runs the tests may ignore it, as `nohup` does; a terminal's programs do not.
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // This process must not keep the terminal open, or its end would never be seen.
        drop(command);
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let (mut shown, copy) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the program is an error here, not an end.
            while let Ok(size @ 1..) = shown.read(&mut bytes) {
                copy.lock().unwrap().extend_from_slice(&bytes[..size]);
            }
        });
        Self {
            child,
            keyboard,
            screen,
            read: 0,
        }
    }

    /// Changes the size of the terminal, of which the program is told.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        resize(&self.keyboard, columns, rows);
    }

    /// Waits for the end of the program and returns its exit code.
    pub(crate) async fn ended(&mut self) -> i32 {
        let mut code = None;
        eventually("the program has ended", async || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        })
        .await;
        code.unwrap().code().unwrap()
    }

    /// Everything that was shown, without the carriage returns of a terminal.
    pub(crate) fn screen(&self) -> String {
        self.raw().replace('\r', "")
    }

    /// Everything that was written, as it was.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// What a terminal of this size shows now.
    pub(crate) fn emulated(&self, columns: u16, rows: u16) -> avt::Terminal {
        let mut emulator = avt::Terminal::new(columns.into(), rows.into()).unwrap();
        emulator.feed(&*self.raw());
        emulator
    }

    /// Waits until a text is shown after what was last waited for.
    pub(crate) async fn shows(&mut self, text: &str) {
        let mut screen = String::new();
        let what = format!("{text:?} on the screen");
        let found = async {
            eventually(&what, async || {
                screen = self.screen();
                screen[self.read..].contains(text)
            })
            .await;
        };
        found.await;
        let at = screen[self.read..].find(text).unwrap();
        self.read += at + text.len();
    }

    /// Presses a key when the program waits for one.
    pub(crate) async fn press(&mut self, key: char) {
        self.mode(false).await;
        self.press_now(key);
    }

    /// Presses a key, whatever the program does.
    pub(crate) fn press_now(&mut self, key: char) {
        write!(self.keyboard, "{key}").unwrap();
    }

    /// Types a text, whatever the program does.
    pub(crate) fn press_now_all(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Says whether the program waits for a key.
    pub(crate) fn waits_for_key(&self) -> bool {
        !tcgetattr(&self.keyboard)
            .unwrap()
            .local_modes
            .contains(LocalModes::ICANON)
    }

    /// Writes a text when the program reads it key by key.
    pub(crate) async fn writes(&mut self, text: &str) {
        self.mode(false).await;
        self.press_now_all(text);
    }

    /// Types a line when the program waits for one.
    pub(crate) async fn line(&mut self, text: &str) {
        self.mode(true).await;
        // Between two questions the terminal reads lines as well, and what is typed then is thrown away: nothing tells the two apart.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        writeln!(self.keyboard, "{text}").unwrap();
    }

    /// Waits for the mode of the terminal in which whole lines are read, or single keys.
    async fn mode(&self, lines: bool) {
        eventually("the program reads the keyboard", async || self.waits_for_key() != lines).await;
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("on the terminal:\n{}", self.screen());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize {
        ws_col: columns,
        ws_row: rows,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

/// Makes a terminal: the side of the person, and that of the program.
fn open() -> (File, OwnedFd) {
    let (mut person, mut program) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: the two numbers are written to, the rest may be null; the descriptors are nobody else's.
    let (person, program) = unsafe {
        let failed = libc::openpty(&mut person, &mut program, none, none.cast(), none.cast());
        assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
        (File::from_raw_fd(person), OwnedFd::from_raw_fd(program))
    };
    for side in [person.as_fd(), program.as_fd()] {
        fcntl_setfd(side, FdFlags::CLOEXEC).unwrap();
    }
    (person, program)
}
