//! Applying chunks to the text of a file.
//!
//! *Invariant:* lines that no chunk names keep every byte, line ending included; the byte order mark stays. A context
//! line takes the patch's text and keeps its ending; an added line gets the ending that most lines of the file have.

use tokio_util::sync::CancellationToken;

use super::parse::{Chunk, ChunkLine};
use super::seek::{Budget, Seeker};
use crate::text::{BOM, split_bom};

/// Files with more lines are not patched.
const MAX_LINES: usize = 2_000_000;

/// Why chunks do not fit a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The bytes are not UTF-8.
    NotText {
        /// The first byte that is wrong, from 0.
        at: usize,
    },
    /// The context line of a chunk is nowhere.
    Context {
        /// The context line.
        context: String,
        /// The line of the chunk in the patch.
        line: usize,
    },
    /// The old lines of a chunk are nowhere.
    Lines {
        /// The old lines, joined.
        lines: String,
        /// The line of the chunk in the patch.
        line: usize,
    },
    /// The file has more lines than are searched.
    TooManyLines,
    /// The search took too long.
    TooCostly,
    /// The call was cancelled.
    Stopped,
}

/// Returns what the chunks make of a file.
///
/// # Errors
/// A chunk has no place, or the file is not one that can be patched.
pub fn apply(file: &[u8], chunks: &[Chunk], cancelled: &CancellationToken) -> Result<String, ApplyError> {
    let text = std::str::from_utf8(file).map_err(|error| ApplyError::NotText {
        at: error.valid_up_to(),
    })?;
    apply_within(text, chunks, &mut Budget::new(cancelled))
}

pub(super) fn apply_within(text: &str, chunks: &[Chunk], budget: &mut Budget<'_>) -> Result<String, ApplyError> {
    let (has_bom, text) = split_bom(text);
    let lines = Line::split(text)?;
    let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
    let chunks: Vec<Prepared<'_>> = chunks.iter().map(Prepared::new).collect();
    let patterns = chunks
        .iter()
        .flat_map(|chunk| chunk.context.iter().chain(&chunk.old).copied())
        .collect();
    let mut seeker = Seeker::new(&texts, patterns);
    let mut edits = Vec::with_capacity(chunks.len());
    let mut cursor = 0;
    for chunk in &chunks {
        edits.push(chunk.place(&mut seeker, lines.len(), &mut cursor, budget)?);
    }
    let new = assemble(&lines, edits);
    Ok(if has_bom { format!("{BOM}{new}") } else { new })
}

/// A line of the file and what ends it: LF, CRLF, or nothing at the end of the file.
struct Line<'a> {
    text: &'a str,
    ending: &'a str,
}

impl<'a> Line<'a> {
    fn split(text: &'a str) -> Result<Vec<Self>, ApplyError> {
        let mut lines = Vec::new();
        for line in text.split_inclusive('\n') {
            if lines.len() == MAX_LINES {
                return Err(ApplyError::TooManyLines);
            }
            let content = match line.strip_suffix('\n') {
                Some(content) => content.strip_suffix('\r').unwrap_or(content),
                None => line,
            };
            lines.push(Line {
                text: content,
                ending: &line[content.len()..],
            });
        }
        Ok(lines)
    }
}

/// A chunk as it is searched for.
struct Prepared<'a> {
    line: usize,
    context: Option<&'a str>,
    old: Vec<&'a str>,
    /// Without the blank head, which stays as it is.
    new: Vec<NewLine<'a>>,
    blank_head: usize,
    blank_tail: usize,
    at_end: bool,
}

#[derive(Clone, Copy)]
struct NewLine<'a> {
    text: &'a str,
    /// The old line that it repeats, counted from the end of the blank head.
    repeats: Option<usize>,
}

/// Which lines of a chunk count.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reading {
    /// How many of the first old lines do not.
    skipped: usize,
    /// How many old lines there are, with those that are skipped.
    old: usize,
    /// How many new lines there are.
    new: usize,
}

/// Lines of the file and what takes their place.
struct Edit<'a> {
    start: usize,
    end: usize,
    new: Vec<NewLine<'a>>,
}

impl<'a> Prepared<'a> {
    fn new(chunk: &'a Chunk) -> Self {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        old.resize(chunk.blank_head, "");
        for line in &chunk.lines[chunk.blank_head..] {
            match line {
                ChunkLine::Context(text) => {
                    new.push(NewLine {
                        text,
                        repeats: Some(old.len() - chunk.blank_head),
                    });
                    old.push(text.as_str());
                }
                ChunkLine::Removed(text) => old.push(text.as_str()),
                ChunkLine::Added(text) => new.push(NewLine { text, repeats: None }),
            }
        }
        let mut blank_tail = chunk.blank_tail;
        if chunk.lines.len() == blank_tail {
            // Nothing but blank lines change nothing: they only separate.
            old.clear();
            new.clear();
            blank_tail = 0;
        }
        Self {
            line: chunk.line,
            context: chunk.context.as_deref(),
            old,
            new,
            blank_head: chunk.blank_head,
            blank_tail,
            at_end: chunk.at_end,
        }
    }

    fn place(
        &self,
        seeker: &mut Seeker<'_>,
        file_len: usize,
        cursor: &mut usize,
        budget: &mut Budget<'_>,
    ) -> Result<Edit<'a>, ApplyError> {
        if let Some(context) = self.context {
            let place = seeker.seek(&[context], *cursor, budget)?;
            let place = place.ok_or_else(|| ApplyError::Context {
                context: context.to_owned(),
                line: self.line,
            })?;
            *cursor = place + 1;
        }
        for Reading { skipped, old, new } in self.readings() {
            let Some(found) = self.seek(&self.old[skipped..old], seeker, file_len, *cursor, budget)? else {
                continue;
            };
            // The blank head and tail helped to find the place; whether the tail belongs to the next chunk is not known.
            let tail = (self.blank_tail + old).saturating_sub(self.old.len());
            let start = found + self.blank_head - skipped;
            let end = found + (old - skipped) - tail;
            *cursor = end;
            let new = &self.new[..new - tail];
            return Ok(Edit {
                start,
                end,
                new: new.to_vec(),
            });
        }
        if self.has_only_blanks() {
            return Ok(Edit {
                start: file_len,
                end: file_len,
                new: self.new[..self.new.len() - self.blank_tail].to_vec(),
            });
        }
        Err(ApplyError::Lines {
            lines: self.old.join("\n"),
            line: self.line,
        })
    }

    /// Says whether no old line has a sign, so that there may be none.
    fn has_only_blanks(&self) -> bool {
        self.old.len() == self.blank_head + self.blank_tail
    }

    /// Returns what to go by, in the order in which to try: all lines, then fewer and fewer of the empty ones at the end,
    /// which models write for the newline that ends a file or to separate chunks, then the same without the blank head.
    fn readings(&self) -> Vec<Reading> {
        let (head, tail) = (self.blank_head, self.blank_tail);
        let mut readings = Vec::new();
        for skipped in [0, head] {
            for dropped in [0, 1, tail, tail + 1] {
                let old = self.old.len().saturating_sub(dropped);
                if old < head || old <= skipped || self.old[old..].iter().any(|line| !line.is_empty()) {
                    continue;
                }
                let mut new = self.new.len() - dropped.min(tail);
                if dropped > tail && new > 0 && self.new[new - 1].text.is_empty() {
                    new -= 1;
                }
                let reading = Reading { skipped, old, new };
                if !readings.contains(&reading) {
                    readings.push(reading);
                }
            }
        }
        readings
    }

    fn seek(
        &self,
        old: &[&str],
        seeker: &mut Seeker<'_>,
        file_len: usize,
        cursor: usize,
        budget: &mut Budget<'_>,
    ) -> Result<Option<usize>, ApplyError> {
        if self.at_end
            && let Some(place) = file_len.checked_sub(old.len()).filter(|&place| place >= cursor)
            && seeker.stands_at(old, place, budget)?
        {
            return Ok(Some(place));
        }
        if self.at_end && self.has_only_blanks() {
            // A blank line somewhere else is not what was meant.
            return Ok(None);
        }
        seeker.seek(old, cursor, budget)
    }
}

/// Puts the new text together; edits do not overlap, and those at one place stay in order.
fn assemble(lines: &[Line<'_>], mut edits: Vec<Edit<'_>>) -> String {
    let crlf = lines.iter().filter(|line| line.ending == "\r\n").count();
    let lf = lines.iter().filter(|line| line.ending == "\n").count();
    let usual = if crlf > lf { "\r\n" } else { "\n" };
    let mut text = String::new();
    let mut push = |content: &str, ending: &str| {
        text.push_str(content);
        text.push_str(if ending.is_empty() { usual } else { ending });
    };
    // Lines added at the end of the file come before a later chunk's in the list, but not in the file.
    edits.sort_by_key(|edit| edit.start);
    let mut at = 0;
    for edit in &edits {
        for line in &lines[at..edit.start] {
            push(line.text, line.ending);
        }
        for line in &edit.new {
            let repeated = line.repeats.filter(|repeated| edit.start + repeated < edit.end);
            push(
                line.text,
                repeated.map_or("", |repeated| lines[edit.start + repeated].ending),
            );
        }
        at = edit.end;
    }
    for line in &lines[at..] {
        push(line.text, line.ending);
    }
    text
}
