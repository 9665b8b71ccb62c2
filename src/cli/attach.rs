//! `toolgate attach`: this terminal becomes that of a command that runs in the background.
//!
//! *Invariant:* the terminal is in its old mode however this ends, also by an error. The command goes on, and what was typed
//! reaches it once and in order.

#![allow(clippy::disallowed_methods)] // opens the terminal

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tonic::Code;
use toolgate_client::{CallInput, Client, Error, Follower};
use toolgate_contract::call_event::Event;
use toolgate_contract::{CallEvent, GetTerminalResponse, OutputMode};

use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::terminal::{Terminal, visible};
use super::words;

/// The key that leaves: Ctrl-].
const LEAVE: u8 = 0x1d;

/// What brings a terminal back to what programs expect of a new one, its text apart. The cursor is kept first: leaving the
/// other screen, where that is shown, puts it where it was.
const RESET: &str = "\x1b7\x1b[?1049l\x1b[!p\x1b[r\x1b[4l\x1b[20l\x1b[?1l\x1b[?6l\x1b[?7h\x1b[?9l\x1b[?1000l\x1b[?1001l\
                     \x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?2004l\x1b>\x1b(B\
                     \x0f\x1b[?25h\x1b[0m\x1b8";

/// The size of a terminal that does not know its own.
const USUAL: (u16, u16) = (80, 24);

/// What empties the screen.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Readings of the keyboard that wait to be sent.
const WAITING_KEYS: usize = 64;

/// How long the last of them may take when somebody leaves.
const LAST_KEYS: Duration = Duration::from_secs(2);

/// The largest size that the service takes.
const MOST: (u16, u16) = (500, 200);

/// Which call to attach to.
#[derive(Debug, Args)]
#[command(after_help = "\
The terminal of the call takes the size of this one. Every key goes to the command, except Ctrl-], which leaves it running.
A command gets a terminal if its call asks for one:

  toolgate call bash --input '{\"command\": \"bash\", \"description\": \"A shell\", \"background\": true,
    \"terminal\": {\"columns\": 80, \"rows\": 24}}'

Exit codes: 0 left or completed, 1 the call failed, 2 invalid, 4 cancelled or timed out, 5 no server,
8 no such call, 9 the call has no terminal or has ended, 130 interrupted.")]
pub(super) struct AttachArgs {
    /// The call's id; `toolgate calls --tool background --state running` lists them.
    call: String,
}

impl AttachArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let keyboard = Keyboard::open().map_err(|_| {
            let text =
                "attach needs a terminal; without one, `toolgate watch` shows a call and `toolgate send` types to it";
            Failure::Usage(text.to_owned())
        })?;
        let mut attached = Attached {
            client: connection::connect_for(globals, &self.call).await?,
            call: self.call,
            terminal,
            drawn: 0,
            is_noted: false,
        };
        // Before anything changes here: it may have no terminal.
        attached.resize().await?;
        let raw = keyboard.raw().map_err(Failure::Terminal)?;
        let left = attached.stay(&keyboard).await;
        let reset = terminal.bytes(format!("{RESET}\r\n").as_bytes());
        drop(raw);
        reset?;
        let (exit, how) = left?;
        terminal.inform(&format!("{how}: {}", attached.call));
        Ok(exit)
    }
}

/// A terminal that shows another one.
struct Attached<'a> {
    client: Client,
    call: String,
    terminal: &'a Terminal,
    /// Bytes of the call's output that are shown.
    drawn: i64,
    /// Whether something is shown that the command did not print.
    is_noted: bool,
}

impl Attached<'_> {
    /// Stays until the call ends, or somebody leaves. Returns how, in words too.
    async fn stay(&mut self, keyboard: &Keyboard) -> Result<(Exit, String), Failure> {
        let mut interrupts = Interrupts::listen()?;
        let mut sizes = signal(SignalKind::window_change()).map_err(Failure::Terminal)?;
        let (typed, waiting) = mpsc::channel(WAITING_KEYS);
        let mut sending = pin!(forward(waiting, self.client.input(&self.call)));
        let mut follower = self.draw().await?;
        loop {
            let keys = async {
                // What the command does not read is no reason not to show what it prints.
                let room = typed.reserve().await;
                keyboard.read().await.map(|keys| (keys, room))
            };
            tokio::select! {
                event = follower.next() => match event? {
                    Some(CallEvent { event: Some(Event::Gap(_)), .. }) => follower = self.draw().await?,
                    Some(event) => {
                        if let Some(end) = self.show(event)? {
                            return Ok(end);
                        }
                    }
                    None => return Ok((Exit::Completed, "the call has ended".to_owned())),
                },
                keys = keys => {
                    let (mut keys, room) = keys.map_err(Failure::Terminal)?;
                    let leaves = keys.iter().position(|key| *key == LEAVE);
                    keys.truncate(leaves.unwrap_or(keys.len()));
                    // Without room the other end is gone, which the select tells of.
                    let _ = room.map(|room| room.send(keys));
                    if leaves.is_some() {
                        break;
                    }
                }
                sent = &mut sending => {
                    sent?;
                }
                _ = sizes.recv() => self.resize().await?,
                () = interrupts.next() => return Ok((Exit::Interrupted, "interrupted; the command keeps running".to_owned())),
            }
        }
        // What was typed before is still to arrive.
        drop(typed);
        if let Ok(sent) = tokio::time::timeout(LAST_KEYS, sending).await {
            sent?;
        }
        Ok((Exit::Completed, "detached; the command keeps running".to_owned()))
    }

    /// Gives the call's terminal the size of this one.
    async fn resize(&self) -> Result<(), Failure> {
        let size = tcgetwinsize(io::stdout()).map_err(|error| Failure::Terminal(error.into()))?;
        let columns = known(size.ws_col, USUAL.0).min(MOST.0).into();
        let rows = known(size.ws_row, USUAL.1).min(MOST.1).into();
        Ok(self.client.resize_terminal(&self.call, columns, rows).await?)
    }

    /// Shows what the call's terminal shows, and returns what comes after.
    async fn draw(&mut self) -> Result<Follower, Failure> {
        let GetTerminalResponse {
            contents,
            output_offset,
            last_sequence,
            ..
        } = self.client.get_terminal(&self.call).await?;
        let call = self.client.get_call(&self.call).await?;
        let mut screen = [RESET.as_bytes(), CLEAR.as_bytes(), &contents].concat();
        self.is_noted = !call.waiting_for.is_empty();
        if self.is_noted {
            let note = format!("The command waits: {}", visible(&call.waiting_for));
            screen.extend_from_slice(note.as_bytes());
        }
        self.terminal.bytes(&screen)?;
        self.drawn = output_offset;
        Ok(Follower::watch(
            self.client.clone(),
            self.call.clone(),
            last_sequence,
            OutputMode::Full,
        ))
    }

    /// Shows an event; returns how the call has ended if it has.
    fn show(&mut self, event: CallEvent) -> Result<Option<(Exit, String)>, Failure> {
        match event.event {
            Some(Event::Output(output)) => {
                let known = usize::try_from(self.drawn - output.offset).unwrap_or(0);
                let new = output.data.get(known..).unwrap_or_default();
                if std::mem::take(&mut self.is_noted) {
                    self.terminal.bytes(CLEAR.as_bytes())?;
                }
                self.terminal.bytes(new)?;
                let end = output.offset + i64::try_from(output.data.len()).unwrap_or(0);
                self.drawn = self.drawn.max(end);
                Ok(None)
            }
            Some(Event::Completed(_)) => Ok(Some((Exit::Completed, "the command has ended".to_owned()))),
            Some(Event::Failed(failed)) => {
                let how = format!("the call failed ({})", words::failure_reason(failed.reason));
                Ok(Some((Exit::of_failure(failed.reason()), how)))
            }
            Some(_) | None => Ok(None),
        }
    }
}

fn known(size: u16, usual: u16) -> u16 {
    if size == 0 { usual } else { size }
}

/// Sends what is typed, until nothing more is.
async fn forward(mut typed: mpsc::Receiver<Vec<u8>>, mut input: CallInput) -> Result<(), Failure> {
    let mut is_read = true;
    while let Some(keys) = typed.recv().await {
        if keys.is_empty() || !is_read {
            continue;
        }
        match send(&mut input, keys).await {
            // The command has ended, or is about to: the call's events say so.
            Err(Failure::Client(Error::Status(status))) if status.code() == Code::FailedPrecondition => is_read = false,
            sent => sent?,
        }
    }
    Ok(())
}

async fn send(input: &mut CallInput, keys: Vec<u8>) -> Result<(), Failure> {
    // Others may type too: where the input goes on is asked for each time.
    input.catch_up().await?;
    input.send(keys).await?;
    Ok(())
}

/// The keyboard of this terminal, every key by itself.
struct Keyboard(Receiver);

impl Keyboard {
    /// Opens it, if a person sees what is written to standard output.
    fn open() -> io::Result<Self> {
        if !io::stdout().is_terminal() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // Opened anew: whether reading waits is a property of what was opened, which the shell shares with us.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let tty = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open("/dev/tty")?;
        Ok(Self(Receiver::from_file_unchecked(tty)?))
    }

    /// Hands on every key from now on, until what is returned is dropped.
    fn raw(&self) -> io::Result<Raw<'_>> {
        let tty = &self.0;
        let before = tcgetattr(tty)?;
        let mut during = before.clone();
        during.make_raw();
        tcsetattr(tty, OptionalActions::Now, &during)?;
        Ok(Raw { tty, before })
    }

    /// Waits for keys. None is lost if this is dropped.
    async fn read(&self) -> io::Result<Vec<u8>> {
        let mut keys = vec![0; 4096];
        loop {
            self.0.readable().await?;
            match self.0.try_read(&mut keys) {
                // The terminal is gone.
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    keys.truncate(count);
                    return Ok(keys);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The mode in which every key is handed on; the old one is put back when it is dropped.
struct Raw<'a> {
    tty: &'a Receiver,
    before: Termios,
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.tty, OptionalActions::Drain, &self.before) {
            tracing::warn!(%error, "cannot put the terminal back into its mode");
        }
    }
}
