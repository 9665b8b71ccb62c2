//! Making one edit: the strategies in their order, and which of them decides.
//!
//! *Invariant:* the first strategy that finds any place decides.

use std::borrow::Cow;

use memchr::memmem;
use tokio_util::sync::CancellationToken;

use super::effort::{Effort, Halt};
use super::request::{Edit, EditError};
use super::search::{Matcher, Place, Search};
use super::{blocks, escapes, exact, splice, trimmed, whitespace};
use crate::FileError;

/// Files above this are only edited exactly: the tables of the loose strategies would be too large. 100,000 usual lines are
/// below it.
const MAX_LOOSE: usize = 8 << 20;

/// The strategies after the exact one, in order.
const LOOSE: [Matcher; 6] = [
    trimmed::line_trimmed,
    blocks::block_anchor,
    whitespace::whitespace_normalised,
    escapes::escape_normalised,
    trimmed::trimmed_boundary,
    blocks::context_aware,
];

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
pub(super) fn with_endings(text: &str, is_crlf: bool) -> Cow<'_, str> {
    if is_crlf {
        Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else if text.contains("\r\n") {
        Cow::Owned(text.replace("\r\n", "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the places of the first strategy that finds any.
pub(super) fn find_loosely(text: &str, old: &str, new: &str, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
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
