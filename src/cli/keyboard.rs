//! Keys and lines from the controlling terminal, whatever standard input is.
//!
//! *Invariant:* the terminal is in its old mode whenever nobody waits for a key; dropping the future that waits ends
//! the wait. One wait begins when the one before it has put the terminal back, so that neither undoes the other's mode.
//! What was typed before the question is thrown away, so that it cannot answer it. For that, this file reads the bytes itself:
//! crossterm has one reader for the whole process, which keeps what was typed ahead.

#![allow(clippy::disallowed_methods)] // opens the terminal

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, PipeReader, Read as _, Write as _};
use std::sync::Arc;

use ratatui::text::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::Mutex;

use super::terminal::visible;

/// The byte of Escape, with which other keys begin as well.
const ESCAPE: u8 = 0x1b;

/// How long the rest of such a key may take.
const REST_OF_KEY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// What is longer is no key.
const LONGEST_KEY: usize = 32;

/// The terminal's keyboard.
#[derive(Clone, Debug)]
pub(super) struct Keyboard {
    tty: Arc<File>,
    /// Held by the thread that waits, which may outlive the future that it waits for.
    turn: Arc<Mutex<()>>,
}

impl Keyboard {
    /// Opens the keyboard, if there is a person who sees what is asked.
    pub(super) fn open() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self {
            tty: Arc::new(tty),
            turn: Arc::default(),
        })
    }

    /// Waits for one key; keys that are not one printable ASCII letter come as NUL.
    pub(super) async fn key(&self) -> io::Result<char> {
        self.read(read_key).await
    }

    /// Waits for one line; none if Escape is pressed.
    pub(super) async fn line(&self) -> io::Result<Option<String>> {
        self.read(read_line).await
    }

    async fn read<T: Send + 'static>(&self, read: fn(&File, &PipeReader) -> io::Result<T>) -> io::Result<T> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // The writing end lives in this future: when it is dropped, the thread below sees the end and leaves.
        let (stop, _alive) = io::pipe()?;
        let tty = Arc::clone(&self.tty);
        let wait = move || {
            let _turn = turn;
            let _mode = Mode::set(&tty)?;
            read(&tty, &stop)
        };
        tokio::task::spawn_blocking(wait).await.map_err(io::Error::other)?
    }
}

fn read_key(tty: &File, stop: &PipeReader) -> io::Result<char> {
    let bytes = next_bytes(tty, stop, None)?;
    Ok(match bytes.as_slice() {
        [byte] if byte.is_ascii_graphic() => char::from(*byte),
        _ => '\0',
    })
}

fn read_line(tty: &File, stop: &PipeReader) -> io::Result<Option<String>> {
    let mut line = Line::default();
    let end = line.read(tty, stop);
    // What is told next begins on a line of its own.
    (&*tty).write_all(b"\n")?;
    Ok((end? == End::Written).then(|| line.text.trim().to_owned()))
}

/// Waits for bytes; there are none if they do not come in time.
fn next_bytes(tty: &File, stop: &PipeReader, patience: Option<Timespec>) -> io::Result<Vec<u8>> {
    loop {
        let mut both = [PollFd::new(tty, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut both, patience.as_ref()) {
            Ok(0) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !both[1].revents().is_empty() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if !both[0].revents().is_empty() {
            break;
        }
    }
    let mut bytes = vec![0; 4096];
    let length = (&*tty).read(&mut bytes)?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// A line as far as it is written.
#[derive(Default)]
struct Line {
    text: String,
    /// The beginning of a key or a letter, of which the rest has still to come.
    bytes: Vec<u8>,
    /// What is to be written to the terminal.
    echo: String,
}

/// How the writing of a line ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Written,
    Left,
}

impl Line {
    fn read(&mut self, tty: &File, stop: &PipeReader) -> io::Result<End> {
        loop {
            let patience = self.bytes.starts_with(&[ESCAPE]).then_some(REST_OF_KEY);
            let bytes = next_bytes(tty, stop, patience)?;
            // Nothing more has come, so it was Escape.
            let end = if bytes.is_empty() {
                Some(End::Left)
            } else {
                self.take(&bytes)
            };
            (&*tty).write_all(std::mem::take(&mut self.echo).as_bytes())?;
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Takes what was typed. What follows the end of the line is thrown away: it was typed before the next question.
    fn take(&mut self, bytes: &[u8]) -> Option<End> {
        self.bytes.extend_from_slice(bytes);
        while let Some(&first) = self.bytes.first() {
            let used = match first {
                b'\r' | b'\n' => return Some(End::Written),
                ESCAPE => match key_length(&self.bytes)? {
                    1 => return Some(End::Left),
                    length => length,
                },
                // Ctrl-D, which says that there is no more.
                0x04 if self.text.is_empty() => return Some(End::Left),
                0x08 | 0x7f => self.erase(self.text.chars().next_back().map_or(0, char::len_utf8)),
                // Ctrl-U and Ctrl-W.
                0x15 => self.erase(self.text.len()),
                0x17 => {
                    let is_of_word = |letter: char| !letter.is_whitespace();
                    let kept = self.text.trim_end().trim_end_matches(is_of_word).len();
                    self.erase(self.text.len() - kept)
                }
                b'\t' => self.write(' ', 1),
                0..0x20 => 1,
                _ => match std::str::from_utf8(&self.bytes) {
                    Err(error) if error.valid_up_to() == 0 => error.error_len()?,
                    read => {
                        let valid = read.map_or_else(|error| error.valid_up_to(), str::len);
                        let letter = String::from_utf8_lossy(&self.bytes[..valid]).chars().next()?;
                        self.write(letter, letter.len_utf8())
                    }
                },
            };
            self.bytes.drain(..used);
        }
        None
    }

    fn write(&mut self, letter: char, used: usize) -> usize {
        self.text.push(letter);
        self.echo += &visible(letter.encode_utf8(&mut [0; 4]));
        used
    }

    /// Takes so many bytes off the end of the text, for one key.
    fn erase(&mut self, length: usize) -> usize {
        let erased = self.text.split_off(self.text.len() - length);
        let columns = Span::raw(visible(&erased)).width();
        self.echo += &"\u{8} \u{8}".repeat(columns);
        1
    }
}

/// Returns the length of the key at the beginning, which begins as Escape does; none if its rest has still to come.
fn key_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => {
            let last = bytes.iter().skip(2).position(|byte| (0x40..=0x7e).contains(byte));
            last.map(|last| last + 3)
                .or_else(|| (bytes.len() > LONGEST_KEY).then_some(bytes.len()))
        }
        b'O' => (bytes.len() > 2).then_some(3),
        _ => Some(1),
    }
}

/// The terminal's mode for one question; put back when it is dropped.
struct Mode<'a> {
    tty: &'a File,
    before: Termios,
}

impl<'a> Mode<'a> {
    fn set(tty: &'a File) -> io::Result<Self> {
        let before = tcgetattr(tty)?;
        let mut during = before.clone();
        during.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(tty, OptionalActions::Flush, &during)?;
        Ok(Self { tty, before })
    }
}

impl Drop for Mode<'_> {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.tty, OptionalActions::Now, &self.before) {
            tracing::warn!(%error, "cannot put the terminal back into its mode");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_key_by_key() {
        fn check(pieces: &[&[u8]], text: &str, end: Option<End>, echo: &str) {
            let mut line = Line::default();
            let ends: Vec<_> = pieces.iter().map(|piece| line.take(piece)).collect();
            let found = ends.into_iter().find(Option::is_some).flatten();
            assert_eq!((line.text.as_str(), found, line.echo.as_str()), (text, end, echo));
        }
        check(&[b"use four\n"], "use four", Some(End::Written), "use four");
        check(&[b"one\rtwo"], "one", Some(End::Written), "one");
        check(&[b"ab\x7f", b"c"], "ac", None, "ab\u{8} \u{8}c");
        check(&[b"\x7f"], "", None, "");
        check(&[b"a \x15b"], "b", None, "a \u{8} \u{8}\u{8} \u{8}b");
        check(
            &[b"a bc \x17"],
            "a ",
            None,
            &format!("a bc {}", "\u{8} \u{8}".repeat(3)),
        );
        // A letter of several bytes may come in pieces, and takes its columns away with it.
        check(
            &[b"\xe6\x97", b"\xa5\x7f"],
            "",
            None,
            &format!("日{}", "\u{8} \u{8}".repeat(2)),
        );
        check(&[b"\xffa"], "a", None, "a");
        check(&["\u{9b}2J".as_bytes()], "\u{9b}2J", None, "\\u{9b}2J");
        // Keys that only move something, whole and in pieces.
        check(&[b"a\x1b[Ab\x1b", b"OPc\x1b[1;", b"5Dd"], "abcd", None, "abcd");
        check(&[b"a\x1b"], "a", None, "a");
        check(&[b"a\x1b", b"\x1b"], "a", Some(End::Left), "a");
        check(&[b"\x04"], "", Some(End::Left), "");
        check(&[b"a\x04\n"], "a", Some(End::Written), "a");
    }
}
