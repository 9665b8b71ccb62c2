//! Replacing text in a file that a model remembers almost: nine strategies, from exact to loose, and which of them
//! decides (`docs/spec/file-tools.md` §4).
//!
//! | strategy | where | finds |
//! |---|---|---|
//! | 1 exact, 9 multi-occurrence | `exact` | the bytes of oldString |
//! | 2 line-trimmed, 5 indentation-flexible | `trimmed` | the same lines, but for white space at their ends |
//! | 3 block-anchor | `blocks` | the same first and last line, similar ones between |
//! | 4 whitespace-normalised | `spaces` | the same words |
//! | 6 escape-normalised | `escapes` | the same text, escaped once more or less |
//! | 7 trimmed-boundary | `trimmed` | the same text but for white space around it |
//! | 8 context-aware | `blocks` | the same first and last line, half of those between |
//!
//! *Invariant:* the first strategy that finds any place decides, and more than one place is refused unless all are to be
//! replaced. What is not replaced keeps every byte. A file that is not UTF-8 is only edited exactly. A search is linear
//! in the file but for the comparison of similar lines, which has a limit.

mod blocks;
mod change;
mod distance;
mod effort;
mod escapes;
mod exact;
mod lines;
#[cfg(test)]
mod oracle;
mod search;
mod spaces;
mod splice;
mod trimmed;

use std::borrow::Cow;
use std::path::PathBuf;

use memchr::memmem;
use tokio_util::sync::CancellationToken;

pub use change::{Change, compute, open};

use self::effort::{Effort, Halt};
use self::search::{Matcher, Place, Search};
use super::FileError;

/// Files above this are only edited exactly: the tables of the loose strategies would be too large. 100,000 usual lines are
/// below it.
const MAX_LOOSE: usize = 8 << 20;

/// The strategies after the exact one, in order.
const LOOSE: [Matcher; 6] = [
    trimmed::line_trimmed,
    blocks::block_anchor,
    spaces::whitespace_normalised,
    escapes::escape_normalised,
    trimmed::trimmed_boundary,
    blocks::context_aware,
];

/// One replacement, as a model asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The text to replace; empty to create the file.
    pub old: String,
    /// What to put in its place, literally.
    pub new: String,
    /// Whether to replace every place instead of the only one.
    pub replace_all: bool,
}

/// Why an edit was not made. The texts are sentences for the model.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// It would replace a text by itself.
    #[error("No changes to apply: oldString and newString are identical.")]
    Identical,
    /// It would create a file that exists.
    #[error(
        "oldString cannot be empty when editing an existing file. Provide the exact text to replace, or use write for \
         an intentional full-file replacement."
    )]
    EmptyOld,
    /// There is no such file.
    #[error("File {} not found", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The text is nowhere.
    #[error(
        "Could not find oldString in the file. It must match exactly, including whitespace, indentation, and line \
         endings."
    )]
    NotFound,
    /// The text is nowhere, and the file is not text that could be searched less strictly.
    #[error(
        "Could not find oldString in the file. The file is not valid UTF-8, so every byte of oldString must match; \
         choose a passage of plain ASCII text, or change the file with a shell command."
    )]
    NotUtf8,
    /// The text is in several places.
    #[error("Found multiple matches for oldString. Provide more surrounding context to make the match unique.")]
    Ambiguous,
    /// What was found is too large to be what was meant.
    #[error(
        "Refusing replacement because the matched span is much larger than oldString. Re-read the file and provide the \
         full exact oldString for the intended replacement."
    )]
    FarLarger,
    /// The file would become too large.
    #[error(
        "The file would become larger than {} bytes, which is the limit. Use a shorter newString, or replace fewer \
         places.",
        super::files::MAX_LOADED
    )]
    ResultTooLarge,
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Makes one edit in the content of a file, without its byte order mark.
///
/// # Errors
/// The text to replace is nowhere, in several places, or nowhere but in one that is too large to be what was meant.
pub fn replace(content: &[u8], edit: &Edit, cancelled: &CancellationToken) -> Result<Vec<u8>, EditError> {
    let is_crlf = memmem::find(content, b"\r\n").is_some();
    let old = with_endings(&edit.old, is_crlf);
    let new = with_endings(&edit.new, is_crlf);
    if old == new {
        return Err(EditError::Identical);
    }
    if old.is_empty() {
        return Err(EditError::EmptyOld);
    }
    if let Some(replaced) = exact::replace(content, old.as_bytes(), new.as_bytes(), edit.replace_all)? {
        return Ok(replaced);
    }
    let text = std::str::from_utf8(content).map_err(|_| EditError::NotUtf8)?;
    let places = find_loosely(text, &old, &new, &mut Effort::new(cancelled));
    let places = places.map_err(|halt| match halt {
        Halt::Exhausted => EditError::NotFound,
        Halt::Cancelled => EditError::File(FileError::Stopped),
    })?;
    if places.is_empty() {
        return Err(EditError::NotFound);
    }
    splice::replace(text, places, &old, &new, edit.replace_all)
}

/// Returns the text with all its line endings CRLF, or all LF.
fn with_endings(text: &str, is_crlf: bool) -> Cow<'_, str> {
    if is_crlf {
        Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else if text.contains("\r\n") {
        Cow::Owned(text.replace("\r\n", "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the places of the first strategy that finds any.
fn find_loosely(text: &str, old: &str, new: &str, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    if text.len() > MAX_LOOSE || old.len() > MAX_LOOSE {
        return Ok(Vec::new());
    }
    let search = Search::new(text, old, new, effort)?;
    for strategy in LOOSE {
        let places = strategy(&search, effort)?;
        if !places.is_empty() {
            return Ok(places);
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests;
