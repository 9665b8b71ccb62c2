//! `toolgate files get` and `put`: files and folders between a workspace and this machine; folders go as tar archives.
//!
//! *Invariant:* what arrives of a file has its name only when all of it is there; a folder is unpacked when its archive is whole.

#![allow(clippy::disallowed_methods)] // the user's own files, with the rights of whoever typed the command

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::io::AsyncWriteExt as _;
use toolgate_contract::{ArchiveEnd, FileKind};

use super::{Place, name_of, unusable};
use crate::cli::answers::PromptArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::terminal::on_one_line;

/// What stands for standard input or output.
const STANDARD: &str = "-";

/// What to copy from the workspace.
#[derive(Debug, Args)]
pub(super) struct Get {
    /// The file or the folder.
    path: String,
    /// Where to: a path, a folder to copy it into, or - for standard output (a folder is written as a tar archive). Without it,
    /// the current folder.
    local: Option<PathBuf>,
    /// Of a folder: include ignored files and `.git`.
    #[arg(short, long)]
    all: bool,
}

/// What to copy to the workspace.
#[derive(Debug, Args)]
pub(super) struct Put {
    /// The file or the folder on this machine, or - for standard input.
    local: PathBuf,
    /// Where to: a path, or a folder of the workspace to copy it into. Without it, the workspace's folder.
    path: Option<String>,
    /// Standard input is a tar archive: unpack it into the folder.
    #[arg(long)]
    archive: bool,
    /// The permission bits of the file, such as 755. Without it, an existing file keeps its mode and a new one gets the system's
    /// default.
    #[arg(long, value_name = "OCTAL", value_parser = permission_bits, conflicts_with = "archive")]
    mode: Option<u32>,
    /// Replace only a file with this SHA-256.
    #[arg(long, value_name = "SHA256", conflicts_with = "archive")]
    if_sha256: Option<String>,
    /// Fail if the file exists, or if any file of the folder or archive does.
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    pub(super) prompts: PromptArgs,
}

/// Reads permission bits.
fn permission_bits(text: &str) -> Result<u32, String> {
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
    bits.ok_or_else(|| format!("`{text}` is not a mode; write three octal digits, such as 644"))
}

impl Get {
    pub(super) async fn run(self, place: &Place<'_>) -> Result<Exit, Failure> {
        let found = place.files.stat(&self.path).await?;
        if found.kind() == FileKind::Folder {
            return self.folder(place).await;
        }
        let mut reader = place.files.read(&self.path);
        match &self.local {
            Some(local) if local.as_os_str() == STANDARD => {
                while let Some(piece) = reader.next().await? {
                    place.terminal.bytes(&piece)?;
                }
            }
            local => {
                let local = destination(local.as_deref(), name_of(&self.path));
                reader.save(&local).await?;
                place.report(&found)?;
            }
        }
        Ok(Exit::Completed)
    }

    async fn folder(self, place: &Place<'_>) -> Result<Exit, Failure> {
        let mut reader = place.files.download_archive(&self.path);
        if self.all {
            reader = reader.include_ignored();
        }
        let is_printed = self.local.as_ref().is_some_and(|local| local.as_os_str() == STANDARD);
        let end = if is_printed {
            while let Some(piece) = reader.next().await? {
                place.terminal.bytes(&piece)?;
            }
            reader.end().cloned().unwrap_or_default()
        } else {
            let name = name_of(&self.path);
            if name.is_none() && self.local.is_none() {
                return Err(unusable("say where to copy the folder to"));
            }
            let local = destination(self.local.as_deref(), name);
            let failed = |source: io::Error| Failure::WriteFile {
                path: local.clone(),
                source,
            };
            let file = tempfile::tempfile().map_err(failed)?;
            let mut archive = tokio::fs::File::from_std(file);
            let end = reader.write_to(&mut archive).await?;
            archive.flush().await.map_err(failed)?;
            let (archive, folder) = (archive.into_std().await, local.clone());
            let unpacked = tokio::task::spawn_blocking(move || unpack(archive, &folder)).await;
            unpacked
                .map_err(io::Error::other)
                .and_then(|unpacked| unpacked)
                .map_err(failed)?;
            place.report(&end)?;
            end
        };
        let ArchiveEnd { omitted_paths, .. } = end;
        for path in &omitted_paths {
            place.terminal.inform(&format!("left out: {}", on_one_line(path)));
        }
        Ok(if omitted_paths.is_empty() {
            Exit::Completed
        } else {
            Exit::Failed
        })
    }
}

impl Put {
    pub(super) async fn run(self, place: &Place<'_>) -> Result<(), Failure> {
        let is_standard = self.local.as_os_str() == STANDARD;
        if self.archive && !is_standard {
            return Err(unusable(
                "--archive is for standard input; a folder is packed by this command",
            ));
        }
        let unread = |source: io::Error| Failure::Read {
            path: self.local.clone(),
            source,
        };
        let is_folder = !is_standard && std::fs::metadata(&self.local).map_err(unread)?.is_dir();
        if is_folder && (self.mode.is_some() || self.if_sha256.is_some()) {
            return Err(unusable("--mode and --if-sha256 are for files"));
        }
        let name = self.local.file_name().and_then(|name| name.to_str());
        let name = name.filter(|_| !is_standard);
        let path = match (&self.path, name) {
            (Some(path), _) if self.archive => path.clone(),
            (Some(path), _) => place.destination(path.clone(), name).await,
            (None, Some(name)) => name.to_owned(),
            (None, None) if self.archive => String::new(),
            (None, None) => return Err(unusable("say where to copy it to in the workspace")),
        };
        if self.archive {
            return self.unpack(place, path, tokio::io::stdin()).await;
        }
        if is_folder {
            let folder = self.local.clone();
            let packed = tokio::task::spawn_blocking(move || pack(&folder)).await;
            let packed = packed
                .map_err(io::Error::other)
                .and_then(|packed| packed)
                .map_err(unread)?;
            return self.unpack(place, path, tokio::fs::File::from_std(packed)).await;
        }
        let mut request = if is_standard {
            place.files.upload(path, tokio::io::stdin())
        } else {
            place.files.upload_file(path, &self.local).await?
        };
        if let Some(mode) = self.mode {
            request = request.mode(mode);
        }
        if let Some(digest) = &self.if_sha256 {
            request = request.if_sha256(digest);
        }
        if self.if_absent {
            request = request.if_absent();
        }
        let written = self.prompts.run(place.who(), request, |request| request.run()).await?;
        place.report(&written)
    }

    /// Writes what is in an archive into a folder of the workspace.
    async fn unpack(
        &self,
        place: &Place<'_>,
        path: String,
        archive: impl tokio::io::AsyncRead + Send + Unpin + 'static,
    ) -> Result<(), Failure> {
        let mut request = place.files.upload_archive(path, archive);
        if self.if_absent {
            request = request.if_absent();
        }
        let written = self.prompts.run(place.who(), request, |request| request.run()).await?;
        place.report(&written)
    }
}

/// Returns the path on this machine that something of this name comes to.
fn destination(local: Option<&Path>, name: Option<&str>) -> PathBuf {
    let local = local.unwrap_or(Path::new("."));
    match name {
        Some(name) if local.is_dir() => local.join(name),
        Some(_) | None => local.to_path_buf(),
    }
}

/// Writes what is in an archive into a folder of this machine; nothing of it comes elsewhere.
fn unpack(mut archive: File, folder: &Path) -> io::Result<()> {
    archive.rewind()?;
    tar::Archive::new(archive).unpack(folder)
}

/// Makes an archive of a folder, with what links lead to in their place, in a file without a name.
fn pack(folder: &Path) -> io::Result<File> {
    let mut archive = tar::Builder::new(tempfile::tempfile()?);
    archive.append_dir_all("", folder)?;
    let mut file = archive.into_inner()?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        assert_eq!(permission_bits("644"), Ok(0o644));
        for text in ["", "8", "1777", "rw"] {
            assert!(permission_bits(text).is_err(), "{text}");
        }
    }
}
