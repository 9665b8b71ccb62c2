//! What a model asks for, and why it cannot be done.
//!
//! *Invariant:* plain data.

use std::path::PathBuf;

use crate::FileError;
use crate::snapshot::MAX_LOADED;

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
        MAX_LOADED
    )]
    ResultTooLarge,
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}
