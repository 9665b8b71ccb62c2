//! What a terminal shows: the output of its program, drawn into memory by an emulator.
//!
//! The emulator keeps what it draws. What it does not keep is how the keyboard and the mouse are to be reported, and the
//! title: these are read from the output here.
//!
//! *Invariant:* of bounded size, whatever is drawn: no lines above the screen are kept.

use avt::Terminal;
use tokio_util::sync::CancellationToken;
use toolgate_model::TerminalSize;

/// Bytes that are drawn between two looks at whether to go on: a few bytes can ask for much work.
const PIECE: usize = 1024;

/// Bytes that draw a screen, so that a message of them is one that every client takes. More than that takes a screen full
/// of colours, each letter another one; its text is left then.
const MAX_CONTENTS: usize = 3 * 1024 * 1024;

/// What the terminal of a call shows at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its size.
    pub size: TerminalSize,
    /// What draws it in a terminal of this size that was just reset.
    pub contents: Vec<u8>,
    /// Column and row of the cursor, from 0.
    pub cursor: (usize, usize),
    /// Whether the cursor is shown.
    pub is_cursor_visible: bool,
    /// The title that the program gave it.
    pub title: String,
    /// Bytes of the output that were drawn.
    pub drawn: u64,
}

/// The screen of one terminal.
pub(crate) struct Screen {
    size: TerminalSize,
    emulator: Terminal,
    modes: Modes,
    /// The beginning of a character whose end is still to come.
    unfinished: Vec<u8>,
    /// The end of the output that was drawn last.
    drawn: u64,
}

impl Screen {
    pub(crate) fn new(size: TerminalSize) -> Self {
        let emulator = Terminal::new(size.columns().into(), size.rows().into());
        Self {
            size,
            emulator: emulator.expect("a size is never 0"),
            modes: Modes::default(),
            unfinished: Vec::new(),
            drawn: 0,
        }
    }

    pub(crate) fn size(&self) -> TerminalSize {
        self.size
    }

    pub(crate) fn resize(&mut self, size: TerminalSize) {
        self.size = size;
        self.emulator.resize(size.columns().into(), size.rows().into());
    }

    /// Draws output that ends at `end`. Blocking; given up when `stopping`, since nobody looks at the screen any more then.
    pub(crate) fn draw(&mut self, output: &[u8], end: u64, stopping: &CancellationToken) {
        self.modes.read(output);
        let mut bytes = std::mem::take(&mut self.unfinished);
        bytes.extend_from_slice(output);
        let begun = bytes.utf8_chunks().last().map_or(&[][..], |last| last.invalid());
        if std::str::from_utf8(begun).is_err_and(|error| error.error_len().is_none()) {
            self.unfinished = bytes.split_off(bytes.len() - begun.len());
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut rest = &*text;
        while !rest.is_empty() && !stopping.is_cancelled() {
            let (piece, more) = rest.split_at(rest.floor_char_boundary(PIECE));
            self.emulator.feed(piece);
            rest = more;
        }
        self.drawn = end - self.unfinished.len() as u64;
    }

    pub(crate) fn picture(&self) -> Picture {
        let cursor = self.emulator.cursor();
        // Behind the last column it waits for a character to go to the next line.
        let column = cursor.col.min(usize::from(self.size.columns()) - 1);
        let mut drawing = self.emulator.dump();
        if drawing.len() > MAX_CONTENTS {
            let rows: Vec<String> = self
                .emulator
                .screen()
                .visible_lines()
                .map(|line| line.text().trim_end().to_owned())
                .collect();
            drawing = format!("{}\x1b[{};{}H", rows.join("\r\n"), cursor.row + 1, column + 1);
        }
        let mut contents = self.modes.sequences();
        for letter in drawing.chars() {
            match u8::try_from(u32::from(letter)) {
                // Most terminals know these controls in their longer form only.
                Ok(control @ 0x80..=0x9f) => contents.extend([0x1b, control - 0x40]),
                Ok(_) | Err(_) => contents.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Picture {
            size: self.size,
            contents,
            cursor: (column, cursor.row),
            is_cursor_visible: cursor.visible,
            title: self.modes.title.clone(),
            drawn: self.drawn,
        }
    }
}

/// Private modes that say what the keyboard and the mouse send: mouse buttons and movements, focus, pasting.
const KEPT: [u16; 11] = [9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004];

/// Bytes of a sequence that are looked at; a longer one is none of those wanted here.
const MAX_SEQUENCE: usize = 1024;

/// What the output says of the keyboard, the mouse and the title.
#[derive(Default)]
struct Modes {
    state: State,
    sequence: Vec<u8>,
    /// Those of [`KEPT`] that are on, in the order in which they were switched on.
    on: Vec<u16>,
    application_keypad: bool,
    title: String,
}

/// What the reader is in the middle of.
#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Text,
    Escape,
    /// A control sequence: `ESC [`.
    Control,
    /// A command for the system: `ESC ]`.
    System,
    /// One that may end here: `ESC ] … ESC`.
    SystemEscape,
}

impl Modes {
    fn read(&mut self, output: &[u8]) {
        for &byte in output {
            self.state = self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) -> State {
        match (self.state, byte) {
            (State::Text, 0x1b) => State::Escape,
            (State::Text, _) => State::Text,
            (State::Escape, _) => self.escape(byte),
            (State::System, 0x1b) => State::SystemEscape,
            (State::Control, 0x1b) => State::Escape,
            // Cancelled.
            (State::Control | State::System | State::SystemEscape, 0x18 | 0x1a) => State::Text,
            (State::Control, 0x40..=0x7e) => {
                self.control(byte);
                State::Text
            }
            (State::System, 0x07) | (State::SystemEscape, b'\\') => {
                self.system();
                State::Text
            }
            (State::SystemEscape, _) => self.escape(byte),
            (State::Control | State::System, _) => {
                if self.sequence.len() < MAX_SEQUENCE {
                    self.sequence.push(byte);
                }
                self.state
            }
        }
    }

    fn escape(&mut self, byte: u8) -> State {
        self.sequence.clear();
        match byte {
            0x1b => return State::Escape,
            b'[' => return State::Control,
            b']' => return State::System,
            b'=' => self.application_keypad = true,
            b'>' => self.application_keypad = false,
            // A full reset.
            b'c' => {
                *self = Self {
                    title: std::mem::take(&mut self.title),
                    ..Self::default()
                }
            }
            _ => {}
        }
        State::Text
    }

    fn control(&mut self, end: u8) {
        let is_set = match (end, self.sequence.split_first()) {
            (b'h', Some((b'?', _))) => true,
            (b'l', Some((b'?', _))) => false,
            // A soft reset.
            (b'p', Some((b'!', []))) => return self.application_keypad = false,
            _ => return,
        };
        let modes = String::from_utf8_lossy(&self.sequence[1..]).into_owned();
        for mode in modes.split(';').filter_map(|mode| mode.parse().ok()) {
            if KEPT.contains(&mode) {
                self.on.retain(|on| *on != mode);
                self.on.extend(is_set.then_some(mode));
            } else if mode == 66 {
                self.application_keypad = is_set;
            }
        }
    }

    fn system(&mut self) {
        let text = String::from_utf8_lossy(&self.sequence);
        if let Some(title) = text.strip_prefix("0;").or_else(|| text.strip_prefix("2;")) {
            self.title = title.chars().filter(|letter| !letter.is_control()).collect();
        }
    }

    /// Returns what brings a terminal that was just reset to these.
    fn sequences(&self) -> Vec<u8> {
        let mut sequences = String::new();
        if !self.title.is_empty() {
            sequences.push_str(&format!("\x1b]2;{}\x1b\\", self.title));
        }
        if self.application_keypad {
            sequences.push_str("\x1b=");
        }
        for mode in &self.on {
            sequences.push_str(&format!("\x1b[?{mode}h"));
        }
        sequences.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(columns: u16, rows: u16) -> TerminalSize {
        TerminalSize::new(columns, rows).expect("a size")
    }

    fn drawn(size: TerminalSize, output: &[u8]) -> Screen {
        let mut screen = Screen::new(size);
        // In two pieces, wherever that cuts.
        let half = output.len() / 2;
        let stopping = CancellationToken::new();
        screen.draw(&output[..half], half as u64, &stopping);
        screen.draw(&output[half..], output.len() as u64, &stopping);
        screen
    }

    fn rows(screen: &Screen) -> Vec<String> {
        screen
            .emulator
            .screen()
            .visible_lines()
            .map(|line| line.text())
            .collect()
    }

    #[test]
    fn a_picture_draws_the_same_again() {
        for output in [
            "plain\r\nlines\r\n$ ",
            "\x1b[2;3Hat\x1b[1;31mred\x1b[48;5;200mback\x1b[0m\x1b[5;1H\x1b[K\x1b[?25l",
            "before\x1b[?1049h\x1b[2J\x1b[3;4Hinside\x1b[2;4r\x1b[?1h",
            "wide \u{65e5}\u{672c} \u{e9}\x1b(0lqk\x1b(B",
            "a line that is longer than the screen is wide, and so it wraps around, more than once",
            "\x1b[?2004h\x1b[?1000;1006h\x1b=\x1b]0;A title\x07$ ",
            "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8",
            "\x1b[31",
        ] {
            let first = drawn(size(20, 6), output.as_bytes());
            let picture = first.picture();
            let second = drawn(size(20, 6), &picture.contents);
            let again = second.picture();
            assert_eq!(rows(&first), rows(&second), "{output:?}");
            assert_eq!(
                (again.cursor, again.is_cursor_visible, &again.title, &again.contents),
                (
                    picture.cursor,
                    picture.is_cursor_visible,
                    &picture.title,
                    &picture.contents
                ),
                "{output:?}"
            );
            assert_eq!(picture.drawn, output.len() as u64);
        }
    }

    #[test]
    fn what_the_keyboard_sends_is_kept() {
        let check = |output: &str, expected: &str| {
            let sequences = drawn(size(9, 3), output.as_bytes()).modes.sequences();
            assert_eq!(String::from_utf8(sequences).expect("text"), expected, "{output:?}");
        };
        check("\x1b[?1000h\x1b[?1002h\x1b[?1000l", "\x1b[?1002h");
        check("\x1b[?1002h\x1b[?1000;1006h", "\x1b[?1002h\x1b[?1000h\x1b[?1006h");
        check("\x1b[?2004;25h\x1b[?2004l", "");
        check("\x1b]2;one\x1b\\\x1b]0;two\x07\x1b]1;icon\x07", "\x1b]2;two\x1b\\");
        check("\x1b]0;a\u{9b}b\nc\x07", "\x1b]2;abc\x1b\\");
        check("\x1b=\x1b[?1006h\x1bc", "");
        check("\x1b=\x1b>\x1b[?66h", "\x1b=");
        check("\x1b=\x1b[!p", "");
        check("\x1b[?2004\x18h\x1b[?1004h", "\x1b[?1004h");
        check("\x1b[?20\x1b[?1004h", "\x1b[?1004h");
        let long = format!("\x1b]2;{}\x07", "x".repeat(5000));
        check(&long, &format!("\x1b]2;{}\x1b\\", "x".repeat(MAX_SEQUENCE - 2)));
    }

    #[test]
    fn a_new_size_shows_what_fits() {
        let mut screen = drawn(size(20, 6), b"\x1b[6;20Hx");
        screen.resize(size(5, 2));
        let picture = screen.picture();
        assert_eq!(picture.size, size(5, 2));
        assert!(picture.cursor.0 < 5 && picture.cursor.1 < 2, "{:?}", picture.cursor);
    }

    #[test]
    fn a_picture_is_bounded() {
        let large = size(TerminalSize::MAX_COLUMNS, TerminalSize::MAX_ROWS);
        let mut output = String::new();
        for cell in 0..100_000_u32 {
            let [_, red, green, blue] = cell.to_be_bytes();
            output.push_str(&format!(
                "\x1b[38;2;{green};{blue};{red}m\x1b[48;2;{blue};{green};255mx"
            ));
        }
        let picture = drawn(large, output.as_bytes()).picture();
        assert!(picture.contents.len() <= MAX_CONTENTS, "{}", picture.contents.len());
        let again = drawn(large, &picture.contents);
        assert_eq!(rows(&again), vec!["x".repeat(500); 200]);
        assert_eq!(again.picture().cursor, picture.cursor);
    }

    #[test]
    fn what_is_stopped_is_not_drawn() {
        let stopping = CancellationToken::new();
        stopping.cancel();
        let mut screen = Screen::new(size(9, 3));
        screen.draw(b"text", 4, &stopping);
        assert_eq!(rows(&screen)[0].trim(), "");
    }
}
