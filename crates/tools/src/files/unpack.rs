//! Writing the files of an archive into a folder.
//!
//! *Invariant:* all of them are written, or none; none of them outside the folder, wherever links in it lead.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use toolgate_fs::archive::{self, ArchiveError, Contents};
use toolgate_fs::changes::{Replacement, Version};
use toolgate_fs::entries;
use toolgate_fs::files::locate;
use toolgate_model::{Ask, FileResult, json_map};
use toolgate_tool::{ToolContext, ToolError, change_of, edit_of};

use super::{Done, Files, Input, Problem, Stop, add_all, became, expect, refuse_outside};

impl Files {
    /// Writes the files of an archive, all or none.
    pub(super) async fn unpack(&self, input: Input, ctx: &ToolContext) -> Result<Done, Stop> {
        let folder = locate(&ctx.workspace, input.path.clone()).await?.path;
        refuse_outside(&folder, ctx)?;
        let content = self.content(&input, ctx).await?;
        let read = move || archive::read(&content, entries::MAX_ENTRIES, entries::MAX_BYTES);
        let read = tokio::task::spawn_blocking(read).await;
        let contents = read.map_err(|error| ToolError::Internal(Box::new(error)))?;
        let Contents { files, folders } = contents.map_err(|error| {
            let problem = match &error {
                ArchiveError::Refused { .. } | ArchiveError::Malformed(_) => Problem::BadArchive,
                ArchiveError::TooMany { .. } | ArchiveError::TooLarge { .. } => Problem::TooLarge,
            };
            Stop::Told(problem, error.to_string())
        })?;
        let at = |path: &Path| folder.display_path().join(path).to_string_lossy().into_owned();
        let mut paths = Vec::with_capacity(files.len());
        for file in &files {
            paths.push(locate(&ctx.workspace, at(&file.path)).await?.path);
        }
        let mut made = Vec::with_capacity(folders.len());
        for path in &folders {
            made.push(locate(&ctx.workspace, at(path)).await?.path);
        }
        // A link in the folder must not lead the files to another one.
        if let Some(path) = paths
            .iter()
            .chain(&made)
            .find(|path| !path.real().starts_with(folder.real()))
        {
            let text = format!("A link on the way to {} leads out of the folder.", path.relative());
            return Err(Stop::Told(Problem::Outside, text));
        }
        let mut ask = Ask {
            title: format!("Write {} files of an archive to {}", files.len(), folder.relative()),
            metadata: json_map([
                ("filepath", json!(folder.display_path().to_string_lossy())),
                ("sha256", json!(input.sha256)),
                (
                    "files",
                    json!(files.iter().map(|file| file.path.to_string_lossy()).collect::<Vec<_>>()),
                ),
            ]),
            ..edit_of(&folder)
        };
        ask.parts.clear();
        add_all(&mut ask, paths.iter().chain(&made).chain([&folder]));
        let mut members = BTreeMap::new();
        for (file, path) in files.into_iter().zip(&paths) {
            if members.insert(path.real().to_path_buf(), file).is_some() {
                let text = format!("A link makes two files of the archive one: {}.", path.relative());
                return Err(Stop::Told(Problem::BadArchive, text));
            }
        }
        let locked = tokio::select! {
            locked = self.files.lock_all(paths) => locked,
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled.into()),
        };
        let mut replacements = Vec::with_capacity(locked.len());
        for file in locked {
            let Some(member) = members.remove(file.path().real()) else {
                continue;
            };
            let old = file.load().await?;
            expect(&file, &old, &input)?;
            replacements.push(Replacement {
                new: Some(Version {
                    bytes: member.bytes,
                    mode: Some(member.mode),
                }),
                old,
                file,
            });
        }
        ctx.permission.ask(ask).await?;
        let results = replacements.iter();
        let results = results.map(|one| became(one.file.path(), change_of(one.old.exists())));
        let results: Vec<FileResult> = results.collect();
        // First: what cannot be a folder is known then, before any file is another one.
        for folder in &made {
            entries::make_folder(folder).await?;
        }
        self.change(replacements, ctx).await?;
        Ok(Done {
            text: format!("Wrote {} files to {}.", results.len(), folder.relative()),
            files: results,
            path: folder,
        })
    }
}
