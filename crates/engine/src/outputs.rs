//! Stored outputs by lines: where a line begins, where the last lines begin, which lines match.
//!
//! *Invariant:* reads in pieces; memory is bounded whatever the size of an output or of one of its lines.

use regex::bytes::Regex;
use toolgate_model::OutputId;
use toolgate_store::{Outputs, StoreError};

/// Bytes that are read at a time.
pub const PIECE: usize = 64 * 1024;

/// Bytes of a line that are matched and kept; a longer line is searched as far as this.
const MAX_LINE: usize = 256 * 1024;

/// Characters of a line that are shown.
const SHOWN_CHARS: usize = 2000;

/// Returns the offset of the first byte of line `line`, from 1, or `None` if there are fewer lines.
///
/// # Errors
/// The store failed.
pub async fn line_start<S: Outputs + ?Sized>(store: &S, id: &OutputId, line: u64) -> Result<Option<u64>, StoreError> {
    let mut left = line.saturating_sub(1);
    let mut offset = 0;
    while left > 0 {
        let piece = store.read(id, offset, PIECE).await?;
        if piece.is_empty() {
            return Ok(None);
        }
        for (index, _) in piece.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            left -= 1;
            if left == 0 {
                let start = offset + index as u64 + 1;
                let exists = !store.read(id, start, 1).await?.is_empty();
                return Ok(exists.then_some(start));
            }
        }
        offset += piece.len() as u64;
    }
    Ok(Some(0))
}

/// Returns the offset at which the last `lines` lines begin. A final newline does not begin another line.
///
/// # Errors
/// The store failed, or there is no such output.
pub async fn tail_start<S: Outputs + ?Sized>(store: &S, id: &OutputId, lines: u64) -> Result<u64, StoreError> {
    let info = store
        .look(id)
        .await?
        .ok_or_else(|| StoreError::NotFound(id.to_string()))?;
    let mut feeds = 0;
    let mut end = info.bytes;
    while end > 0 && lines > 0 {
        let start = end.saturating_sub(PIECE as u64);
        let piece = store
            .read(id, start, usize::try_from(end - start).unwrap_or(PIECE))
            .await?;
        for (index, _) in piece.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let position = start + index as u64;
            if position + 1 == info.bytes {
                continue;
            }
            feeds += 1;
            if feeds == lines {
                return Ok(position + 1);
            }
        }
        end = start;
    }
    Ok(if lines == 0 { info.bytes } else { 0 })
}

/// What to search for.
#[derive(Clone, Debug)]
pub struct Search {
    /// Matched against each line.
    pub pattern: Regex,
    /// Lines to show before a match.
    pub before: usize,
    /// Lines to show after a match.
    pub after: usize,
    /// Matching lines at most.
    pub max_matches: usize,
}

/// A line of a search's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLine {
    /// From 1.
    pub number: u64,
    /// Of its first byte.
    pub offset: u64,
    /// Without the line ending, cut and repaired for showing.
    pub text: String,
    /// Whether it matches, or is context.
    pub is_match: bool,
}

/// A search's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Matching lines and their context, in order.
    pub lines: Vec<FoundLine>,
    /// Matching lines, up to the cap.
    pub matches: usize,
    /// There are more.
    pub truncated: bool,
}

/// Searches an output line by line.
///
/// # Errors
/// The store failed, or there is no such output.
pub async fn search<S: Outputs + ?Sized>(store: &S, id: &OutputId, search: &Search) -> Result<Found, StoreError> {
    let mut state = Searching {
        search,
        found: Found::default(),
        before: Vec::new(),
        after_left: 0,
        done: false,
    };
    let mut line: Vec<u8> = Vec::new();
    let (mut number, mut line_offset, mut offset) = (1, 0, 0);
    loop {
        let piece = store.read(id, offset, PIECE).await?;
        if piece.is_empty() {
            break;
        }
        let mut rest = &piece[..];
        while let Some(feed) = rest.iter().position(|&byte| byte == b'\n') {
            keep(&mut line, &rest[..feed]);
            state.line(number, line_offset, &line);
            if state.done {
                return Ok(state.found);
            }
            number += 1;
            line_offset = offset + (piece.len() - rest.len() + feed + 1) as u64;
            line.clear();
            rest = &rest[feed + 1..];
        }
        keep(&mut line, rest);
        offset += piece.len() as u64;
    }
    if !line.is_empty() {
        state.line(number, line_offset, &line);
    }
    Ok(state.found)
}

fn keep(line: &mut Vec<u8>, more: &[u8]) {
    let room = MAX_LINE.saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}

struct Searching<'a> {
    search: &'a Search,
    found: Found,
    /// The lines before this one that are not shown yet.
    before: Vec<FoundLine>,
    after_left: usize,
    done: bool,
}

impl Searching<'_> {
    fn line(&mut self, number: u64, offset: u64, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_match = self.search.pattern.is_match(line);
        if is_match && self.found.matches == self.search.max_matches {
            self.found.truncated = true;
            self.done = true;
            return;
        }
        let found = || FoundLine {
            number,
            offset,
            text: show(line),
            is_match,
        };
        if is_match {
            self.found.matches += 1;
            self.found.lines.append(&mut self.before);
            self.found.lines.push(found());
            self.after_left = self.search.after;
        } else if self.after_left > 0 {
            self.after_left -= 1;
            self.found.lines.push(found());
        } else if self.search.before > 0 {
            if self.before.len() == self.search.before {
                self.before.remove(0);
            }
            self.before.push(found());
        }
    }
}

fn show(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}
