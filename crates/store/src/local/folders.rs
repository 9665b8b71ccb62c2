//! Where the files of each workspace are: its outputs, and its plans if it is no git checkout.
//!
//! *Invariant:* two workspaces never share a folder, and the name of none leads out of the data directory.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::error::io;
use crate::StoreError;

/// The folder of the workspaces' folders.
pub(super) const WORKSPACES: &str = "workspaces";

/// What a model sees as the folder of its outputs (`docs/spec/framework.md` §5.3); it held those of all workspaces
/// once.
const OUTPUT_FOLDER: &str = "tool-output";

/// Longer names are replaced by their digest: a file name has at most 255 bytes.
const MAX_NAME_BYTES: usize = 200;

/// Returns the folder below the data directory that belongs to a workspace.
pub fn workspace_folder(data_dir: &Path, workspace: &str) -> PathBuf {
    data_dir.join(WORKSPACES).join(file_name(workspace))
}

/// Returns where the outputs of a workspace are.
pub fn output_folder(data_dir: &Path, workspace: &str) -> PathBuf {
    workspace_folder(data_dir, workspace).join(OUTPUT_FOLDER)
}

/// Returns a name for a folder: letters, digits, `-` and `_` stand for themselves, other bytes are written as `%` and
/// two hexadecimal digits, so that no two workspaces have the same.
fn file_name(workspace: &str) -> String {
    let stands_for_itself = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let name: String = workspace
        .bytes()
        .map(|byte| match stands_for_itself(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02x}"),
        })
        .collect();
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        // Two signs: no name is written so, and one that begins with what the digest begins with has another folder.
        return format!("%%{}", hex::encode(Sha256::digest(workspace)));
    }
    name
}

/// Makes a folder for the owner only, unless it is there.
pub(super) fn create_folder(path: PathBuf) -> Result<PathBuf, StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    made.map_err(|error| io("create the folder", &path, error))?;
    Ok(path)
}

/// The folders of all workspaces.
pub(super) struct Folders {
    data_dir: PathBuf,
}

impl Folders {
    pub(super) fn new(data_dir: PathBuf) -> Self {
        Self { data_dir }
    }

    pub(super) fn outputs_of(&self, workspace: &str) -> PathBuf {
        output_folder(&self.data_dir, workspace)
    }

    pub(super) fn make(&self, workspace: &str) -> Result<PathBuf, StoreError> {
        create_folder(self.outputs_of(workspace))
    }

    /// Returns those that there are.
    pub(super) fn all(&self) -> Result<Vec<PathBuf>, StoreError> {
        let parent = self.data_dir.join(WORKSPACES);
        let entries = fs::read_dir(&parent).map_err(|error| io("list the folders in", &parent, error))?;
        let folders = entries.flatten().map(|entry| entry.path().join(OUTPUT_FOLDER));
        Ok(folders.filter(|folder| folder.is_dir()).collect())
    }

    /// Returns the one folder of an earlier version, if it is there.
    pub(super) fn shared(data_dir: &Path) -> Option<PathBuf> {
        Some(data_dir.join(OUTPUT_FOLDER)).filter(|folder| folder.is_dir())
    }

    /// Removes it if it is empty.
    pub(super) fn drop_shared(folder: &Path) {
        if let Err(error) = fs::remove_dir(folder) {
            tracing::info!(path = %folder.display(), %error, "the folder of an earlier version's outputs stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_workspace_has_a_folder_of_its_own() {
        let long = "x".repeat(278);
        // Its digest begins as an encoded `/` does.
        let digest = hex::encode(Sha256::digest(&long));
        let byte = u8::from_str_radix(&digest[..2], 16).expect("a byte");
        let of_digest = format!("{}{}", char::from(byte), &digest[2..]);
        let names = [
            "a",
            "A",
            "a/b",
            "a%2fb",
            "..",
            ".",
            "",
            " ",
            "é",
            "a\0",
            "default",
            &long,
            &long[1..],
            "acme/web-17",
            "acme/web/17",
            "acme",
            "acme/-",
            &of_digest,
        ];
        let folders: HashSet<PathBuf> = names.map(|name| output_folder(Path::new("/data"), name)).into();
        assert_eq!(folders.len(), names.len());
        for folder in folders {
            let parts: Vec<_> = folder
                .strip_prefix("/data/workspaces")
                .expect("it is below")
                .iter()
                .collect();
            assert_eq!((parts.len(), parts[1].to_str()), (2, Some(OUTPUT_FOLDER)), "{parts:?}");
            assert!(parts[0].len() < 255 && parts[0] != ".." && parts[0] != ".");
        }
    }
}
