//! The terminal while the screen has it: raw, on its other page, with pastes told from keys.
//!
//! *Invariant:* the terminal is as it was whenever the screen does not have it: after the end, whatever it was, also after a panic,
//! and while an editor runs. The log does not write over the screen; what it said meanwhile is written when the screen is gone.

use std::io::{self, Stdout, Write as _, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste, Event, EventStream};
use crossterm::style::force_color_output;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{execute, queue};
use futures_util::StreamExt as _;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};

use super::draw::draw;
use super::state::{Now, State};
use super::theme::Theme;
use crate::cli::log;

/// How long the kernel may take to stop a program that suspends itself.
const STOPS: Duration = Duration::from_millis(50);

/// Whether the screen has the terminal.
static HAS_TERMINAL: AtomicBool = AtomicBool::new(false);

/// The terminal, for as long as the screen has it.
pub(super) struct Tty {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// None while a program of the person has the keyboard.
    events: Option<EventStream>,
    theme: Theme,
    /// Whether the log goes to the same terminal.
    holds_log: bool,
}

/// Says whether the terminal can show a screen: one that says how large it is, and understands more than lines.
pub(in crate::cli::approve) fn can_show() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let winsize = rustix::termios::tcgetwinsize(stdout());
    !is_dumb && winsize.is_ok_and(|size| size.ws_col > 0 && size.ws_row > 0)
}

impl Tty {
    /// Takes the terminal.
    pub(super) fn take(has_colours: bool, holds_log: bool) -> io::Result<Self> {
        give_back_after_panic();
        // Whether there are colours has been decided, by the option too, which this library does not know.
        force_color_output(has_colours);
        let mut tty = Self {
            terminal: Terminal::new(CrosstermBackend::new(stdout()))?,
            events: None,
            theme: Theme::new(has_colours),
            holds_log,
        };
        tty.resume()?;
        Ok(tty)
    }

    /// Takes the terminal again, and draws all of it with the next picture.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        if self.holds_log {
            log::hold();
        }
        HAS_TERMINAL.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        self.clear()?;
        self.events = Some(EventStream::new());
        Ok(())
    }

    /// Gives the terminal back, for a program of the person or for good.
    pub(super) fn pause(&mut self) {
        // First, so that no key goes to the wrong program.
        self.events = None;
        give_back();
        if self.holds_log {
            log::release();
        }
    }

    /// Waits for a key, a paste or another size. It waits for ever while another program has the keyboard.
    pub(super) async fn event(&mut self) -> io::Result<Event> {
        let Some(events) = &mut self.events else {
            return std::future::pending().await;
        };
        events
            .next()
            .await
            .unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Draws the state, unless another program has the terminal. It returns when the terminal has taken all of it.
    pub(super) fn draw(&mut self, state: &mut State) -> io::Result<()> {
        if self.events.is_none() {
            return Ok(());
        }
        // A panic elsewhere has taken the screen away.
        if !HAS_TERMINAL.load(Ordering::SeqCst) {
            return Err(io::Error::other("a part of the program failed"));
        }
        let theme = self.theme;
        self.terminal.draw(|frame| draw(frame, state, theme, Now::read()))?;
        state.drawn_at(Now::read());
        Ok(())
    }

    /// Forgets what is on the screen, so that all of it is drawn.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        // As for another size. To clear it, the library would ask the terminal where the cursor is, and not all of them answer.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Stops this program until it is continued.
    pub(super) async fn suspend(&mut self) -> io::Result<()> {
        self.pause();
        kill_process(getpid(), Signal::TSTP)?;
        // It is stopped during this pause, or was not to be stopped.
        tokio::time::sleep(STOPS).await;
        self.resume()
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        self.pause();
    }
}

/// Says whether nobody is at the terminal any more. The keyboard's own library would not notice.
pub(super) fn is_gone() -> bool {
    let out = stdout();
    let mut descriptors = [PollFd::new(&out, PollFlags::empty())];
    let polled = poll(&mut descriptors, Some(&rustix::event::Timespec::default()));
    let lost = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    polled.is_ok() && descriptors[0].revents().intersects(lost)
}

/// Puts the terminal back as it was, if the screen has it.
fn give_back() {
    if !HAS_TERMINAL.swap(false, Ordering::SeqCst) {
        return;
    }
    // Nobody is left to be told that the terminal is gone.
    let _ = disable_raw_mode();
    let mut out = stdout();
    let _ = queue!(out, DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = out.flush();
}

/// Lets a panic tell its message on the terminal as it was.
fn give_back_after_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

    use super::*;

    /// Says to the test below that it is the program which panics.
    const PANICS: &str = "TOOLGATE_TEST_PANICS";

    #[test]
    fn a_panic_is_told_on_the_terminal_as_it_was() {
        if std::env::var_os(PANICS).is_some() {
            let _tty = Tty::take(true, false).unwrap();
            panic!("something is broken");
        }
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let size = Winsize {
            ws_col: 80,
            ws_row: 24,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&person, size).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
        let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let mode = |modes: LocalModes| modes & (LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        let before = mode(tcgetattr(&terminal).unwrap().local_modes);
        let mut program = Command::new(std::env::current_exe().unwrap());
        let test = concat!(module_path!(), "::a_panic_is_told_on_the_terminal_as_it_was");
        let (_, test) = test.split_once("::").unwrap();
        program.args([test, "--exact", "--nocapture"]).env(PANICS, "1");
        program.stdin(Stdio::from(terminal.try_clone().unwrap()));
        program.stdout(Stdio::from(terminal.try_clone().unwrap()));
        program.stderr(Stdio::from(terminal.try_clone().unwrap()));
        let mut program = program.spawn().unwrap();
        assert!(!program.wait().unwrap().success());
        assert_eq!(mode(tcgetattr(&terminal).unwrap().local_modes), before);
        // All of it has room in the terminal, which nobody has read so far.
        let mut bytes = vec![0; 64 * 1024];
        let length = std::fs::File::from(person).read(&mut bytes).unwrap();
        let shown = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let at = |text: &str| {
            shown
                .find(text)
                .unwrap_or_else(|| panic!("{text:?} is not in {shown:?}"))
        };
        let (taken, left, told) = (at("\x1b[?1049h"), at("\x1b[?1049l"), at("something is broken"));
        assert!(taken < left && left < told, "{shown:?}");
        assert!(at("\x1b[?25h") < told && at("\x1b[?2004l") < told, "{shown:?}");
    }
}
