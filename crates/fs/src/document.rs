//! The text of a file for those who work on whole files: what language servers are told of it.
//!
//! *Invariant:* regular files of bounded size; nothing here waits for a file.

use std::io::Read as _;
use std::path::Path;

use super::error::FileError;
use super::text::BOM;
use super::{ResolvedPath, Workspace, open};

/// Returns the text of a file, without its byte order mark and with U+FFFD for what is no text, or `None` if there is no
/// file. Blocking.
///
/// # Errors
/// It has more than `limit` bytes, or is no regular file, or cannot be read.
pub fn text_of(path: &ResolvedPath, limit: u64) -> Result<Option<String>, FileError> {
    let shown = path.display_path();
    let Some(opened) = open::open(path)? else {
        return Ok(None);
    };
    if opened.is_folder {
        return Err(FileError::IsFolder { path: shown.into() });
    }
    let mut bytes = Vec::new();
    opened
        .file
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|source| FileError::io("read", shown, source))?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLarge {
            attempt: "analyse",
            path: shown.into(),
            size: opened.metadata.len().max(bytes.len() as u64),
            limit,
        });
    }
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    if text.starts_with(BOM) {
        text.drain(..BOM.len_utf8());
    }
    Ok(Some(text))
}

/// Returns the text of a small file that belongs to a project, if there is one that can be read. Blocking.
pub fn text_at(workspace: &Workspace, path: &Path, limit: u64) -> Option<String> {
    text_of(&workspace.resolve(path), limit).ok()?
}

/// Says whether one of the first `most` entries of a folder has a name that ends as told. Blocking.
pub fn has_entry_ending(folder: &Path, ending: &str, most: usize) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    let mut names = entries.take(most).flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_str().is_some_and(|name| name.ends_with(ending)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_small_and_regular() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = Workspace::open("w", &root, None).unwrap();
        let text = |name: &str| text_of(&workspace.resolve(name), 8);
        std::fs::write(root.join("bom"), "\u{feff}a\r\n").unwrap();
        std::fs::write(root.join("raw"), b"a\xffb").unwrap();
        std::fs::write(root.join("long"), "123456789").unwrap();
        std::fs::write(root.join("App.sln"), "").unwrap();
        assert_eq!(text("bom").unwrap().as_deref(), Some("a\r\n"));
        assert_eq!(text("raw").unwrap().as_deref(), Some("a\u{fffd}b"));
        assert_eq!(text("none").unwrap(), None);
        let error = text("long").unwrap_err().to_string();
        assert!(error.ends_with("it has 9 bytes, the limit is 8."), "{error}");
        assert!(matches!(text("."), Err(FileError::IsFolder { .. })));
        assert!(text("/dev/zero").is_err());
        assert!(has_entry_ending(&root, ".sln", 100) && !has_entry_ending(&root, ".csproj", 100));
        assert!(!has_entry_ending(&root.join("none"), "", 100));
    }
}
