//! What is wrong with a configuration, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Something in it means nothing.
    #[error("Configuration is invalid {place}{}", list(problems))]
    Invalid {
        /// Where: `at FILE`, `in the environment`, `on the command line`.
        place: String,
        /// What is wrong, at least one thing.
        problems: Vec<Problem>,
    },
    /// A file is there and cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that was named does not exist.
    #[error("the configuration file {} does not exist", path.display())]
    Missing {
        /// Which file.
        path: PathBuf,
    },
}

impl ConfigError {
    /// Something is wrong at a place that has a name, such as a file.
    pub(super) fn invalid(place: impl fmt::Display, problem: Problem) -> Self {
        Self::invalid_in(format!("at {place}"), problem)
    }

    pub(super) fn invalid_in(place: impl Into<String>, problem: Problem) -> Self {
        Self::Invalid {
            place: place.into(),
            problems: vec![problem],
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the text, if it has a place there.
    pub position: Option<Position>,
    /// The key, its segments joined by dots; empty for the whole.
    pub key: String,
    /// What was expected.
    pub message: String,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Counts from 1.
    pub line: usize,
    /// Counts characters from 1.
    pub column: usize,
}

impl Position {
    /// Returns the place of a byte offset; past the end, or inside a character, the nearest place before it.
    pub(super) fn at(text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl Problem {
    pub(super) fn new(position: Option<Position>, key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            position,
            key: key.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
            write!(f, "line {line}, column {column}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
