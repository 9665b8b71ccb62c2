//! `toolgate files`: the files of a workspace, shown, watched and changed.
//!
//! *Invariant:* what is shown needs no question; a change is a call, whose prompts are answered here as those of `toolgate call`.

mod transfer;

use clap::{Args, Subcommand};
use toolgate_client::{Client, FileEvent, Files};
use toolgate_contract::watch_files_response::News;
use toolgate_contract::{
    ByteRange, FileInfo, FileKind, FilesMissed, ListFilesRequest, ReadFileResponse, WatchFilesResponse,
};

use super::answers::PromptArgs;
use super::arguments::Range;
use super::connection::Connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::terminal::{Terminal, on_one_line};
use super::words;

/// As deep as the service lists.
const MAX_DEPTH: i32 = 64;

/// What to do with files, and in whose name.
#[derive(Debug, Args)]
#[command(after_help = "\
A path is relative to the workspace's folder, or absolute and inside it.

Examples:
  toolgate files ls -R src
  toolgate files cat notes/today.md
  toolgate files put report.pdf out/report.pdf --if-absent
  toolgate files get src ./copy
  toolgate files get src - | tar -t

Exit codes: 0 done, 1 it could not be done, 2 invalid, 3 denied, rejected or outside of the workspace, 4 cancelled,
5 no server, 8 nothing is there, 9 the server refused, 130 interrupted.")]
pub(super) struct FilesArgs {
    /// The agent whose permissions count; `build` if none is named.
    #[arg(
        long,
        global = true,
        display_order = 100,
        env = "TOOLGATE_AGENT",
        hide_env_values = true
    )]
    agent: Option<String>,
    /// The workspace: its name, or a folder (`.`, or anything with a slash).
    #[arg(
        long,
        global = true,
        display_order = 101,
        value_name = "NAME|DIR",
        env = "TOOLGATE_WORKSPACE",
        hide_env_values = true
    )]
    workspace: Option<String>,
    /// The session; standing approvals may hold for one session alone.
    #[arg(
        long,
        global = true,
        display_order = 102,
        env = "TOOLGATE_SESSION",
        hide_env_values = true
    )]
    session: Option<String>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List a folder, without ignored files.
    Ls {
        /// The folder; without one the workspace's. Paths are shown relative to the workspace.
        path: Option<String>,
        /// List what lies below as well.
        #[arg(short = 'R', long)]
        recursive: bool,
        /// Include ignored files and `.git`.
        #[arg(short, long)]
        all: bool,
        /// Show kind, permissions, size and time as well.
        #[arg(short)]
        long: bool,
    },
    /// Show what is at a path.
    Stat {
        /// The path; without one the workspace's folder.
        path: Option<String>,
        /// Show the SHA-256 of the file as well.
        #[arg(long)]
        sha256: bool,
    },
    /// Print files, one after the other.
    Cat {
        /// The files.
        #[arg(value_name = "FILE", required = true)]
        paths: Vec<String>,
        /// Only these bytes of each: OFFSET:LENGTH, OFFSET: or :LENGTH; the first byte is 0.
        #[arg(long, value_name = "OFFSET:LENGTH")]
        bytes: Option<Range>,
    },
    /// Copy a file or a folder of the workspace to this machine. Links in a folder are kept as links.
    Get(transfer::Get),
    /// Copy a file or a folder of this machine to the workspace. A file has at most 64 MiB, and so has a folder as an
    /// archive. Links are followed: what they lead to is copied.
    Put(transfer::Put),
    /// Make a folder and its parents; an existing one is left as it is.
    Mkdir {
        /// The folder.
        path: String,
        #[command(flatten)]
        prompts: PromptArgs,
    },
    /// Move a file, a link or a folder to a path that does not exist yet.
    Mv {
        /// What to move.
        path: String,
        /// Its new path, or the folder to move it into.
        new_path: String,
        #[command(flatten)]
        prompts: PromptArgs,
    },
    /// Delete files, links or folders.
    Rm {
        /// What to delete.
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<String>,
        /// Delete folders as well, with all that is in them.
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        prompts: PromptArgs,
    },
    /// Report changes below a folder, until interrupted.
    Watch {
        /// The folder; without one the workspace's.
        path: Option<String>,
    },
}

/// The files, and who changes them.
struct Place<'a> {
    client: &'a Client,
    files: Files,
    terminal: &'a Terminal,
}

impl FilesArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let leaves = self.action.prompts().is_some_and(PromptArgs::leaves);
        let workspace = self.workspace.as_deref();
        if leaves {
            Connection::must_outlive(globals, workspace).await?;
        }
        let mut interrupts = Interrupts::listen()?;
        let connection = Connection::attach(globals, workspace, terminal).await?;
        let files = connection.client.files();
        let place = Place {
            client: &connection.client,
            files: files
                .workspace(&connection.workspace)
                .agent(self.agent.unwrap_or_default())
                .session(self.session.unwrap_or_default())
                .client_kind("cli")
                .client_name(concat!("toolgate/", env!("CARGO_PKG_VERSION"))),
            terminal,
        };
        let done = tokio::select! {
            done = self.action.run(&place) => done.map_err(Failure::into_refusal),
            () = interrupts.next() => Ok(Exit::Interrupted),
        };
        connection.end(done).await
    }
}

impl Action {
    /// Returns who answers what a change asks.
    fn prompts(&self) -> Option<&PromptArgs> {
        match self {
            Self::Put(put) => Some(&put.prompts),
            Self::Mkdir { prompts, .. } | Self::Mv { prompts, .. } | Self::Rm { prompts, .. } => Some(prompts),
            Self::Ls { .. } | Self::Stat { .. } | Self::Cat { .. } | Self::Get(_) | Self::Watch { .. } => None,
        }
    }

    async fn run(self, place: &Place<'_>) -> Result<Exit, Failure> {
        match self {
            Self::Ls {
                path,
                recursive,
                all,
                long,
            } => {
                let request = ListFilesRequest {
                    path: path.unwrap_or_default(),
                    depth: if recursive { MAX_DEPTH } else { 1 },
                    include_ignored: all,
                    ..ListFilesRequest::default()
                };
                place.list(request, long).await?;
            }
            Self::Stat { path, sha256 } => place.stat(path.unwrap_or_default(), sha256).await?,
            Self::Cat { paths, bytes } => {
                for path in paths {
                    place.print(path, bytes).await?;
                }
            }
            Self::Get(get) => return get.run(place).await,
            Self::Put(put) => put.run(place).await?,
            Self::Mkdir { path, prompts } => {
                let request = place.files.create_folder(path);
                let made = prompts.run(place.who(), request, |request| request.run()).await?;
                place.report(&made)?;
            }
            Self::Mv {
                path,
                new_path,
                prompts,
            } => {
                let new_path = place.destination(new_path, name_of(&path)).await;
                let request = place.files.move_to(path, new_path);
                let moved = prompts.run(place.who(), request, |request| request.run()).await?;
                place.report(&moved)?;
            }
            Self::Rm {
                paths,
                recursive,
                prompts,
            } => {
                for path in paths {
                    let request = place.files.delete(path);
                    let request = if recursive { request.recursive() } else { request };
                    let deleted = prompts.run(place.who(), request, |request| request.run()).await?;
                    place.report(&deleted)?;
                }
            }
            Self::Watch { path } => place.watch(path.unwrap_or_default()).await?,
        }
        Ok(Exit::Completed)
    }
}

impl Place<'_> {
    /// Returns who changes files, and where that person is asked.
    fn who(&self) -> (&Client, &Terminal) {
        (self.client, self.terminal)
    }

    /// Says that a change was made, to a program: a person expects nothing.
    fn report(&self, response: &impl prost::Name) -> Result<(), Failure> {
        if self.terminal.json {
            self.terminal.message(response)?;
        }
        Ok(())
    }

    /// Returns the path that something of this name comes to: below a folder that is there, or exactly there.
    async fn destination(&self, path: String, name: Option<&str>) -> String {
        let Some(name) = name else { return path };
        let is_folder = async || {
            let found = self.files.stat(&path).await;
            found.is_ok_and(|found| found.kind() == FileKind::Folder)
        };
        if path.ends_with('/') || is_folder().await {
            format!("{}/{name}", path.trim_end_matches('/'))
        } else {
            path
        }
    }

    async fn list(&self, request: ListFilesRequest, long: bool) -> Result<(), Failure> {
        let path = request.path.clone();
        let found = match self.files.list_request(request).await {
            Err(error) if error.reason().as_deref() == Some("NOT_A_FOLDER") => vec![self.files.stat(path).await?],
            found => found?,
        };
        if self.terminal.json {
            return found.iter().try_for_each(|file| self.terminal.message(file));
        }
        if !long {
            return found
                .iter()
                .try_for_each(|file| self.terminal.line(&on_one_line(&file.path)));
        }
        let rows: Vec<_> = found.iter().map(row).collect();
        self.terminal.whole_table(&["MODE", "BYTES", "MODIFIED", "PATH"], &rows)
    }

    async fn stat(&self, path: String, with_sha256: bool) -> Result<(), Failure> {
        let file = if with_sha256 {
            self.files.stat_with_sha256(path).await?
        } else {
            self.files.stat(path).await?
        };
        if self.terminal.json {
            return self.terminal.message(&file);
        }
        let facts = [
            ("path", on_one_line(&file.path)),
            ("kind", words::file_kind(file.kind)),
            ("bytes", file.size_bytes.to_string()),
            ("mode", format!("{:04o}", file.mode)),
            ("modified", file.modify_time.map(words::time).unwrap_or_default()),
            ("links to", on_one_line(&file.link_target)),
            ("sha256", file.sha256),
        ];
        let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
        let rows: Vec<_> = known.map(|(name, value)| vec![name.to_owned(), value]).collect();
        self.terminal.whole_table(&[], &rows)
    }

    async fn print(&self, path: String, bytes: Option<Range>) -> Result<(), Failure> {
        let range = bytes.map_or_else(ByteRange::default, |range| ByteRange {
            offset: range.start.unwrap_or(0),
            limit: range.count,
        });
        let mut reader = self.files.read_range(path, range.offset, range.limit);
        let mut offset = range.offset;
        if self.terminal.json {
            let file = Some(reader.info().await?);
            self.terminal.message(&ReadFileResponse {
                file,
                offset,
                ..ReadFileResponse::default()
            })?;
        }
        while let Some(data) = reader.next().await? {
            let size = i64::try_from(data.len()).unwrap_or(i64::MAX);
            if self.terminal.json {
                let file = None;
                self.terminal.message(&ReadFileResponse { file, offset, data })?;
            } else {
                self.terminal.bytes(&data)?;
            }
            offset = offset.saturating_add(size);
        }
        Ok(())
    }

    async fn watch(&self, path: String) -> Result<(), Failure> {
        let mut watcher = self.files.watch(path);
        loop {
            let event = watcher.next().await?;
            if self.terminal.json {
                let news = Some(match event {
                    FileEvent::Watched(watched) => News::Watched(watched),
                    FileEvent::Changed(changed) => News::Changed(changed),
                    FileEvent::Missed(missed) => News::Missed(missed),
                    // What follows from it is the same.
                    FileEvent::CursorTooOld => News::Missed(FilesMissed::default()),
                });
                let cursor = watcher.cursor().to_owned();
                self.terminal.message(&WatchFilesResponse { cursor, news })?;
                continue;
            }
            let is_partial = match event {
                FileEvent::Changed(changed) => {
                    for file in &changed.files {
                        self.terminal.line(&format!("changed {}", on_one_line(&file.path)))?;
                    }
                    for path in &changed.gone_paths {
                        self.terminal.line(&format!("gone    {}", on_one_line(path)))?;
                    }
                    false
                }
                FileEvent::Watched(watched) => {
                    self.terminal.inform("watching");
                    watched.partial
                }
                FileEvent::Missed(missed) => {
                    self.terminal.inform("changes may have been missed");
                    missed.partial
                }
                FileEvent::CursorTooOld => {
                    self.terminal.inform("changes were missed");
                    false
                }
            };
            if is_partial {
                self.terminal
                    .inform("there are too many folders: changes in some of them are not shown");
            }
        }
    }
}

/// Returns a file as a line of a table.
fn row(file: &FileInfo) -> Vec<String> {
    let path = on_one_line(&file.path);
    vec![
        mode(file),
        file.size_bytes.to_string(),
        file.modify_time.map(words::time).unwrap_or_default(),
        match file.link_target.as_str() {
            "" => path,
            target => format!("{path} -> {}", on_one_line(target)),
        },
    ]
}

/// Returns kind and permissions as `ls -l` writes them.
fn mode(file: &FileInfo) -> String {
    let kind = match file.kind() {
        FileKind::Folder => 'd',
        FileKind::Link => 'l',
        FileKind::File => '-',
        FileKind::Other | FileKind::Unspecified => '?',
    };
    let bit = |at: u32| {
        if file.mode & (1 << (8 - at)) == 0 {
            '-'
        } else {
            ['r', 'w', 'x'][at as usize % 3]
        }
    };
    std::iter::once(kind).chain((0..9).map(bit)).collect()
}

/// Returns the last name of a path; `None` for a path that ends with none, such as `..`.
fn name_of(path: &str) -> Option<&str> {
    std::path::Path::new(path).file_name()?.to_str()
}

/// The command line asks for something impossible.
fn unusable(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_as_ls_does() {
        fn check(kind: FileKind, bits: u32, expected: &str) {
            let file = FileInfo {
                kind: kind.into(),
                mode: bits,
                ..FileInfo::default()
            };
            assert_eq!(mode(&file), expected);
        }
        check(FileKind::File, 0o644, "-rw-r--r--");
        check(FileKind::Folder, 0o751, "drwxr-x--x");
        check(FileKind::Link, 0o777, "lrwxrwxrwx");
    }

    #[test]
    fn names_are_the_last_ones() {
        assert_eq!(name_of("a/b.txt"), Some("b.txt"));
        assert_eq!(name_of("a/b/"), Some("b"));
        for path in ["", ".", "..", "a/.."] {
            assert_eq!(name_of(path), None, "{path}");
        }
    }
}
