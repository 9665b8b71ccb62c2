//! The grammar: from the text of a patch to its sections.
//!
//! *Invariant:* one pass over the lines, whatever the text; line numbers are those of the text as it was given.
//!
//! A heredoc around a patch needs no unwrapping: lines before and after the markers are no part of it.

use crate::text::is_js_whitespace;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";

/// More sections than this are refused; each is a file to be looked at, and part of a question to a person.
const MAX_SECTIONS: usize = 1000;

/// What a patch does to one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The line of its header, from 1.
    pub line: usize,
    /// The path, as written.
    pub path: String,
    /// What it does.
    pub change: Change,
}

/// What a section does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Gives the file this content.
    Add(String),
    /// Deletes the file.
    Delete,
    /// Applies chunks, moves the file, or both.
    Update {
        /// Where to, as written.
        move_to: Option<String>,
        /// In the order of the patch.
        chunks: Vec<Chunk>,
    },
}

/// One change in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The line of its `@@`, or else the first one with a sign, from 1.
    pub line: usize,
    /// The line below which it is searched.
    pub context: Option<String>,
    /// Its lines, without signs.
    pub lines: Vec<ChunkLine>,
    /// How many of the first lines are empty, without a sign or `@@` before them: context if the file has them there,
    /// separators if not.
    pub blank_head: usize,
    /// How many of the last lines are empty without a sign: context if the file has them there, separators if not.
    pub blank_tail: usize,
    /// Whether it belongs at the end of the file.
    pub at_end: bool,
}

/// One line of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkLine {
    /// In the file before and after.
    Context(String),
    /// Only before.
    Removed(String),
    /// Only after.
    Added(String),
}

/// Why a text is no patch. The texts are for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// There is no text.
    #[error("patchText is required")]
    NoText,
    /// There is nothing between the markers.
    #[error("patch rejected: empty patch (line {line})")]
    Empty {
        /// The line of the first marker.
        line: usize,
    },
    /// A marker is missing, or they are in the wrong order.
    #[error("apply_patch verification failed: Error: Invalid patch format: missing Begin/End markers ({detail})")]
    Markers {
        /// Which, and where.
        detail: String,
    },
    /// There is something between the markers, but no section.
    #[error(
        "apply_patch verification failed: no hunks found (lines {from} to {to} have no `{ADD}`, `{UPDATE}` or `{DELETE}` with a path)"
    )]
    NoSections {
        /// The first line between the markers.
        from: usize,
        /// The last one.
        to: usize,
    },
    /// A line says to move, but not which file.
    #[error(
        "apply_patch verification failed: Error: Invalid patch format: `{MOVE}` must be the line after `{UPDATE}` (line {line})"
    )]
    StrayMove {
        /// Its line.
        line: usize,
    },
    /// A section changes nothing, most likely because its lines lack their signs.
    #[error(
        "apply_patch verification failed: Error: Invalid patch format: no changes for {path}; its lines must begin with a space, `-` or `+` (line {line})"
    )]
    NoChanges {
        /// The path, as written.
        path: String,
        /// The line of its header.
        line: usize,
    },
    /// There are more sections than are taken.
    #[error("apply_patch verification failed: the patch has more than {MAX_SECTIONS} sections (line {line}); split it")]
    TooManySections {
        /// The line of the first one that is too many.
        line: usize,
    },
}

/// Splits a patch into its sections.
///
/// # Errors
/// The text is no patch; see [`ParseError`].
pub fn parse(text: &str) -> Result<Vec<Section>, ParseError> {
    if text.is_empty() {
        return Err(ParseError::NoText);
    }
    let lines = || {
        (1..)
            .zip(text.split('\n'))
            .map(|(number, line)| (number, strip_cr(line)))
    };
    let find = |marker: &str| lines().find(|(_, line)| trim(line) == marker).map(|(number, _)| number);
    let (begin, end) = match (find(BEGIN), find(END)) {
        (Some(begin), Some(end)) if begin < end => (begin, end),
        (begin, end) => return Err(missing_markers(begin, end)),
    };
    if end == begin + 1 {
        return Err(ParseError::Empty { line: begin });
    }
    let mut parser = Parser::default();
    for (number, line) in lines().skip(begin).take(end - begin - 1) {
        parser.line(number, line)?;
    }
    let sections = parser.finish()?;
    if sections.is_empty() {
        return Err(ParseError::NoSections {
            from: begin + 1,
            to: end - 1,
        });
    }
    Ok(sections)
}

fn missing_markers(begin: Option<usize>, end: Option<usize>) -> ParseError {
    let detail = match (begin, end) {
        (None, None) => format!("no line is `{BEGIN}`, none is `{END}`"),
        (None, Some(end)) => format!("`{END}` is line {end}, but no line is `{BEGIN}`"),
        (Some(begin), None) => format!("`{BEGIN}` is line {begin}, but no line is `{END}`"),
        (Some(begin), Some(end)) => format!("`{END}` is line {end}, before `{BEGIN}` in line {begin}"),
    };
    ParseError::Markers { detail }
}

fn trim(text: &str) -> &str {
    text.trim_matches(is_js_whitespace)
}

fn strip_cr(line: &str) -> &str {
    line.strip_suffix('\r').unwrap_or(line)
}

/// Where the next line belongs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// To no section: it is skipped.
    #[default]
    Nowhere,
    /// To the file that the last section adds.
    Added,
    /// Right after the header of an update.
    UpdateHeader,
    /// To an update, but to no chunk yet: the next line with a sign begins one.
    BetweenChunks,
    /// To the last chunk.
    Chunk,
}

#[derive(Default)]
struct Parser {
    sections: Vec<Section>,
    place: Place,
    /// How many empty lines stand between the header of the last update and its first chunk.
    blank_head: usize,
}

impl Parser {
    fn line(&mut self, number: usize, line: &str) -> Result<(), ParseError> {
        if line.starts_with("***") {
            return self.header(number, line);
        }
        match self.place {
            Place::Nowhere => {}
            Place::Added => self.added(line),
            Place::UpdateHeader | Place::BetweenChunks | Place::Chunk => self.updated(number, line),
        }
        Ok(())
    }

    fn header(&mut self, number: usize, line: &str) -> Result<(), ParseError> {
        let path_after = |header: &str| line.strip_prefix(header).map(|path| trim(path).to_owned());
        if let Some(path) = path_after(MOVE) {
            return self.move_to(number, path);
        }
        if line.trim_end_matches(is_js_whitespace) == END_OF_FILE && self.is_in_update() {
            if self.place == Place::Chunk
                && let Some(chunk) = self.chunk()
            {
                chunk.at_end = true;
            }
            self.place = Place::BetweenChunks;
            return Ok(());
        }
        let (path, change, place) = if let Some(path) = path_after(ADD) {
            (path, Change::Add(String::new()), Place::Added)
        } else if let Some(path) = path_after(DELETE) {
            (path, Change::Delete, Place::Nowhere)
        } else if let Some(path) = path_after(UPDATE) {
            let change = Change::Update {
                move_to: None,
                chunks: Vec::new(),
            };
            (path, change, Place::UpdateHeader)
        } else {
            self.place = Place::Nowhere;
            return Ok(());
        };
        if path.is_empty() {
            self.place = Place::Nowhere;
            return Ok(());
        }
        if self.sections.len() == MAX_SECTIONS {
            return Err(ParseError::TooManySections { line: number });
        }
        self.place = place;
        self.blank_head = 0;
        self.sections.push(Section {
            line: number,
            path,
            change,
        });
        Ok(())
    }

    fn move_to(&mut self, number: usize, path: String) -> Result<(), ParseError> {
        let stray = ParseError::StrayMove { line: number };
        if self.place != Place::UpdateHeader {
            return Err(stray);
        }
        let Some(Change::Update { move_to, .. }) = self.sections.last_mut().map(|section| &mut section.change) else {
            return Err(stray);
        };
        *move_to = Some(path).filter(|path| !path.is_empty());
        self.place = Place::BetweenChunks;
        Ok(())
    }

    fn added(&mut self, line: &str) {
        if let (Some(line), Some(Change::Add(content))) = (
            line.strip_prefix('+'),
            self.sections.last_mut().map(|section| &mut section.change),
        ) {
            content.push_str(line);
            content.push('\n');
        }
    }

    fn updated(&mut self, number: usize, line: &str) {
        if let Some(context) = line.strip_prefix("@@") {
            let context = Some(trim(context).to_owned()).filter(|context| !context.is_empty());
            self.begin_chunk(number, context);
            return;
        }
        let is_blank = line.is_empty();
        let line = match line.chars().next() {
            None => ChunkLine::Context(String::new()),
            Some(' ') => ChunkLine::Context(line[1..].to_owned()),
            Some('-') => ChunkLine::Removed(line[1..].to_owned()),
            Some('+') => ChunkLine::Added(line[1..].to_owned()),
            Some(_) => {
                if self.place == Place::UpdateHeader {
                    self.place = Place::BetweenChunks;
                }
                return;
            }
        };
        if self.place != Place::Chunk {
            if is_blank {
                self.blank_head += 1;
                self.place = Place::BetweenChunks;
                return;
            }
            self.begin_unmarked_chunk(number);
        }
        if let Some(chunk) = self.chunk() {
            chunk.blank_tail = if is_blank { chunk.blank_tail + 1 } else { 0 };
            chunk.lines.push(line);
        }
    }

    fn begin_chunk(&mut self, line: usize, context: Option<String>) {
        if let Some(Change::Update { chunks, .. }) = self.sections.last_mut().map(|section| &mut section.change) {
            chunks.push(Chunk {
                line,
                context,
                ..Chunk::default()
            });
            self.place = Place::Chunk;
        }
    }

    /// Begins a chunk that lacks `@@`: the first one also has the empty lines below the header.
    fn begin_unmarked_chunk(&mut self, line: usize) {
        let is_first = self.chunk().is_none();
        self.begin_chunk(line, None);
        let blank_head = if is_first { self.blank_head } else { 0 };
        if let Some(chunk) = self.chunk() {
            chunk.blank_head = blank_head;
            chunk.lines = vec![ChunkLine::Context(String::new()); blank_head];
        }
    }

    fn is_in_update(&self) -> bool {
        match self.place {
            Place::Nowhere | Place::Added => false,
            Place::UpdateHeader | Place::BetweenChunks | Place::Chunk => true,
        }
    }

    /// Returns the chunk that is being read.
    fn chunk(&mut self) -> Option<&mut Chunk> {
        match self.sections.last_mut().map(|section| &mut section.change) {
            Some(Change::Update { chunks, .. }) => chunks.last_mut(),
            Some(Change::Add(_) | Change::Delete) | None => None,
        }
    }

    fn finish(self) -> Result<Vec<Section>, ParseError> {
        for section in &self.sections {
            if let Change::Update { move_to: None, chunks } = &section.change
                && chunks.iter().all(|chunk| chunk.lines.len() == chunk.blank_tail)
            {
                return Err(ParseError::NoChanges {
                    path: section.path.clone(),
                    line: section.line,
                });
            }
        }
        Ok(self.sections)
    }
}
