//! A text that is written in place: an answer, a message, a command.

// Of all keys a few mean something.
#![allow(clippy::wildcard_enum_match_arm)]

use std::collections::BTreeSet;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::rows::{TAB, symbols};
use crate::cli::terminal::visible;

/// The text and the place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    letters: Vec<char>,
    at: usize,
    /// Whether it may have several lines.
    has_lines: bool,
}

/// Rows of a field, and the column and the row where the next letter goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) rows: Vec<String>,
    /// Which of them go on with the row above.
    pub(super) goes_on: BTreeSet<usize>,
    pub(super) cursor: (u16, u16),
}

impl Field {
    /// Makes an empty field of one line.
    pub(super) fn line() -> Self {
        Self::default()
    }

    /// Makes a field of any number of lines.
    pub(super) fn lines(text: &str) -> Self {
        let letters: Vec<char> = text.chars().collect();
        Self {
            at: letters.len(),
            letters,
            has_lines: true,
        }
    }

    pub(super) fn text(&self) -> String {
        self.letters.iter().collect()
    }

    /// Takes a text as if it were typed.
    pub(super) fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        for letter in text.chars() {
            let letter = if letter == '\n' && !self.has_lines { ' ' } else { letter };
            self.letters.insert(self.at, letter);
            self.at += 1;
        }
    }

    /// Takes a key; the keys that end the writing are for others.
    pub(super) fn key(&mut self, key: KeyEvent) {
        let with = |modifier| key.modifiers.contains(modifier);
        let (control, alt) = (with(KeyModifiers::CONTROL), with(KeyModifiers::ALT));
        match key.code {
            KeyCode::Enter if alt => self.insert("\n"),
            KeyCode::Char('j') if control => self.insert("\n"),
            KeyCode::Char('a') if control => self.at = self.begin_of_line(),
            KeyCode::Char('e') if control => self.at = self.end_of_line(),
            KeyCode::Char('b') if alt => self.at = self.word_before(),
            KeyCode::Char('f') if alt => self.at = self.word_after(),
            KeyCode::Char('u') if control => self.remove(self.begin_of_line(), self.at),
            KeyCode::Char('k') if control => self.remove(self.at, self.end_of_line()),
            KeyCode::Char('w') if control => self.remove(self.word_before(), self.at),
            KeyCode::Char(letter) if !control && !alt => self.insert(letter.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => self.remove(self.at.saturating_sub(1), self.at),
            KeyCode::Delete => self.remove(self.at, (self.at + 1).min(self.letters.len())),
            KeyCode::Left if control || alt => self.at = self.word_before(),
            KeyCode::Right if control || alt => self.at = self.word_after(),
            KeyCode::Left => self.at = self.at.saturating_sub(1),
            KeyCode::Right => self.at = (self.at + 1).min(self.letters.len()),
            KeyCode::Home => self.at = self.begin_of_line(),
            KeyCode::End => self.at = self.end_of_line(),
            KeyCode::Up => self.at = self.begin_of_line().saturating_sub(1),
            KeyCode::Down => self.at = (self.end_of_line() + 1).min(self.letters.len()),
            _ => {}
        }
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.letters.drain(from..to);
        self.at = from;
    }

    fn begin_of_line(&self) -> usize {
        let before = &self.letters[..self.at];
        before.iter().rposition(|&letter| letter == '\n').map_or(0, |at| at + 1)
    }

    fn end_of_line(&self) -> usize {
        let after = &self.letters[self.at..];
        let length = after.iter().position(|&letter| letter == '\n').unwrap_or(after.len());
        self.at + length
    }

    fn word_before(&self) -> usize {
        let is_blank = |at: usize| self.letters[at].is_whitespace();
        let mut at = self.at;
        while at > 0 && is_blank(at - 1) {
            at -= 1;
        }
        while at > 0 && !is_blank(at - 1) {
            at -= 1;
        }
        at
    }

    fn word_after(&self) -> usize {
        let is_blank = |at: usize| self.letters[at].is_whitespace();
        let mut at = self.at;
        while at < self.letters.len() && is_blank(at) {
            at += 1;
        }
        while at < self.letters.len() && !is_blank(at) {
            at += 1;
        }
        at
    }

    /// Returns the text in rows of a width.
    pub(super) fn show(&self, width: u16) -> Shown {
        let width = usize::from(width).max(4);
        let mut rows = vec![String::new()];
        let mut goes_on = BTreeSet::new();
        let (mut column, mut cursor) = (0, (0, 0));
        for place in 0..=self.letters.len() {
            if place == self.at {
                // The next letter has no room in a full row.
                let is_full = column >= width;
                cursor = if is_full {
                    (0, rows.len())
                } else {
                    (column, rows.len() - 1)
                };
            }
            match self.letters.get(place) {
                None => {}
                Some('\n') => {
                    rows.push(String::new());
                    column = 0;
                }
                Some(letter) => {
                    for (symbol, size) in symbols(&visible(&letter.to_string()).replace('\t', TAB)) {
                        if column + size > width {
                            goes_on.insert(rows.len());
                            rows.push(String::new());
                            column = 0;
                        }
                        if let Some(row) = rows.last_mut() {
                            row.push_str(&symbol);
                        }
                        column += size;
                    }
                }
            }
        }
        if cursor.1 >= rows.len() {
            goes_on.insert(rows.len());
            rows.push(String::new());
        }
        let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        Shown {
            rows,
            goes_on,
            cursor: (small(cursor.0), small(cursor.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(field: &mut Field, code: KeyCode, modifiers: KeyModifiers) {
        field.key(KeyEvent::new(code, modifiers));
    }

    #[test]
    fn text_is_written_where_the_cursor_is() {
        let mut field = Field::lines("git push\norigin");
        press(&mut field, KeyCode::Char('u'), KeyModifiers::CONTROL);
        field.insert("up");
        press(&mut field, KeyCode::Up, KeyModifiers::NONE);
        press(&mut field, KeyCode::Char('w'), KeyModifiers::CONTROL);
        field.insert("pull");
        press(&mut field, KeyCode::Home, KeyModifiers::NONE);
        press(&mut field, KeyCode::Delete, KeyModifiers::NONE);
        press(&mut field, KeyCode::Char('g'), KeyModifiers::NONE);
        press(&mut field, KeyCode::End, KeyModifiers::NONE);
        press(&mut field, KeyCode::Enter, KeyModifiers::ALT);
        press(&mut field, KeyCode::Backspace, KeyModifiers::NONE);
        assert_eq!(field.text(), "git pull\nup");
        let mut line = Field::line();
        line.insert("a\r\nb");
        press(&mut line, KeyCode::Char('x'), KeyModifiers::CONTROL);
        assert_eq!(line.text(), "a b");
    }

    #[test]
    fn rows_hold_all_of_it_and_the_cursor() {
        fn check(text: &str, width: u16, rows: &[&str], goes_on: &[usize], cursor: (u16, u16)) {
            let shown = Shown {
                rows: rows.iter().map(|&row| row.to_owned()).collect(),
                goes_on: goes_on.iter().copied().collect(),
                cursor,
            };
            assert_eq!(Field::lines(text).show(width), shown, "{text:?}");
        }
        check("", 10, &[""], &[], (0, 0));
        check("abc", 10, &["abc"], &[], (3, 0));
        check("abcdef", 4, &["abcd", "ef"], &[1], (2, 1));
        check("abcd", 4, &["abcd", ""], &[1], (0, 1));
        check("a\nb", 10, &["a", "b"], &[], (1, 1));
        check("日本", 4, &["日本", ""], &[1], (0, 1));
        check("\x1b[2K", 20, &["\\u{1b}[2K"], &[], (9, 0));
    }
}
