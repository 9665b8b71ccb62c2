//! What a built-in tool knows of its result, for programs: an exit code, the files that it changed, the calls that it made.
//!
//! *Invariant:* plain data, kept in the record of the call beside its metadata. Paths and diffs may hold secrets, so every
//! text is reached by [`ToolResult::texts`].

use serde::{Deserialize, Serialize};

use super::ending::EndReason;
use super::ids::{CallId, SessionId};

/// The diffs of one result together have at most this many bytes; the ones that would not fit are left out.
const MAX_DIFFS: usize = 512 * 1024;

/// What a built-in tool knows of its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolResult {
    /// A command ran, or runs on.
    Command(CommandResult),
    /// Files were changed.
    Files(Vec<FileResult>),
    /// Something was looked for.
    Search(SearchResult),
    /// A file or a folder was read.
    Read(ReadResult),
    /// Something was fetched from the network.
    Fetch(FetchResult),
    /// Other calls were made.
    Children(ChildrenResult),
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    /// Its exit code; none if a signal ended it, or if it runs on.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its time was over.
    pub timed_out: bool,
    /// Programs that it left running.
    pub left: usize,
    /// The call in which it runs on.
    pub background: Option<CallId>,
}

/// What was done to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileResult {
    /// The absolute path, as people know it.
    pub path: String,
    /// What was done.
    pub change: FileAction,
    /// Where it is now, if it was moved.
    pub moved_to: Option<String>,
    /// Lines that it has now and had not before.
    pub added_lines: u64,
    /// Lines that it had before and has not now.
    pub removed_lines: u64,
    /// The change as a unified diff; none if it was left out.
    pub diff: Option<String>,
}

/// What may be done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// It was not there before.
    Added,
    /// It has another content.
    Modified,
    /// It is not there any more.
    Deleted,
    /// It has another path, and possibly another content.
    Moved,
}

/// What a search found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchResult {
    /// Matching lines that are shown; none if files were looked for.
    pub matches: Option<u64>,
    /// Files that are shown.
    pub files: u64,
    /// There are more.
    pub truncated: bool,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadResult {
    /// The absolute path, as people know it.
    pub path: String,
    /// What it is.
    pub kind: ReadKind,
    /// The first line or entry that is shown, from 1.
    pub first: u64,
    /// How many are shown.
    pub shown: u64,
    /// How many there are.
    pub total: u64,
    /// There are more after the last one.
    pub truncated: bool,
}

/// What may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadKind {
    /// A file of text, by lines.
    Text,
    /// A folder, by entries.
    Folder,
    /// A picture or a document, as an attachment.
    Media,
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchResult {
    /// The address that answered, after all redirects.
    pub url: String,
    /// The status of the answer.
    pub status: u16,
    /// The media type that the answer says.
    pub media_type: String,
    /// Bytes of the answer.
    pub bytes: u64,
}

/// The calls that were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildrenResult {
    /// The calls of a batch, in its order.
    pub calls: Vec<ChildResult>,
    /// The session in which a subagent worked.
    pub session: Option<SessionId>,
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildResult {
    /// Its tool, as this call named it.
    pub tool: String,
    /// It; none if it could not be made.
    pub call: Option<CallId>,
    /// Whether it has a result.
    pub succeeded: bool,
}

/// What is to be said of a call that has a result, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing is wrong, as far as the service knows.
    Ok,
    /// The command ended with another code than 0, or by a signal.
    NonZero,
    /// The command was ended because its time was over.
    TimedOut,
    /// Calls that it made have failed.
    Partial,
    /// The call was not understood, and nothing ran.
    Invalid,
}

/// How a call ended, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// With a result.
    Completed {
        /// What is to be said of it.
        verdict: Verdict,
        /// The exit code of the command that it ran.
        exit_code: Option<i32>,
    },
    /// Without one.
    Failed(EndReason),
}

impl CallEnd {
    /// Makes the end of a call that has a result; `invalid` says that it was not understood.
    pub fn completed(result: Option<&ToolResult>, invalid: bool) -> Self {
        let verdict = match result {
            _ if invalid => Verdict::Invalid,
            Some(result) => result.verdict(),
            None => Verdict::Ok,
        };
        let exit_code = match result {
            Some(ToolResult::Command(command)) => command.exit_code,
            _ => None,
        };
        Self::Completed { verdict, exit_code }
    }
}

impl ToolResult {
    /// Makes the result of changed files. Diffs for which there is no room are left out.
    pub fn files(mut files: Vec<FileResult>) -> Self {
        let mut room = MAX_DIFFS;
        for file in &mut files {
            let length = file.diff.as_ref().map_or(0, String::len);
            if length > room {
                file.diff = None;
            } else {
                room -= length;
            }
        }
        Self::Files(files)
    }

    /// Returns what is to be said of the result.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Command(command) if command.timed_out => Verdict::TimedOut,
            Self::Command(command) if command.signal.is_some() || command.exit_code.unwrap_or(0) != 0 => {
                Verdict::NonZero
            }
            Self::Children(children) if children.calls.iter().any(|child| !child.succeeded) => Verdict::Partial,
            Self::Command(_)
            | Self::Files(_)
            | Self::Search(_)
            | Self::Read(_)
            | Self::Fetch(_)
            | Self::Children(_) => Verdict::Ok,
        }
    }

    /// Lets go of the texts that are too long for a list.
    pub fn shorten(&mut self) {
        if let Self::Files(files) = self {
            files.iter_mut().for_each(|file| file.diff = None);
        }
    }

    /// Hands every text to `change`.
    pub fn texts(&mut self, mut change: impl FnMut(&mut String)) {
        match self {
            Self::Files(files) => {
                for file in files {
                    change(&mut file.path);
                    file.moved_to.iter_mut().for_each(&mut change);
                    file.diff.iter_mut().for_each(&mut change);
                }
            }
            Self::Read(read) => change(&mut read.path),
            Self::Fetch(fetch) => {
                change(&mut fetch.url);
                change(&mut fetch.media_type);
            }
            Self::Children(children) => children.calls.iter_mut().for_each(|child| change(&mut child.tool)),
            Self::Command(_) | Self::Search(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_judged_by_its_facts() {
        let check =
            |result: CommandResult, expected: Verdict| assert_eq!(ToolResult::Command(result).verdict(), expected);
        let exit = |code: i32| CommandResult {
            exit_code: Some(code),
            ..CommandResult::default()
        };
        check(exit(0), Verdict::Ok);
        check(exit(7), Verdict::NonZero);
        check(CommandResult::default(), Verdict::Ok);
        let signal = Some(9);
        check(
            CommandResult {
                signal,
                ..CommandResult::default()
            },
            Verdict::NonZero,
        );
        check(
            CommandResult {
                timed_out: true,
                signal,
                ..CommandResult::default()
            },
            Verdict::TimedOut,
        );
        let child = |succeeded: bool| ChildResult {
            tool: "read".to_owned(),
            call: None,
            succeeded,
        };
        let batch = |calls: Vec<ChildResult>| ToolResult::Children(ChildrenResult { calls, session: None });
        assert_eq!(batch(vec![child(true)]).verdict(), Verdict::Ok);
        assert_eq!(batch(vec![child(true), child(false)]).verdict(), Verdict::Partial);
    }

    #[test]
    fn diffs_are_bounded_together() {
        let file = |bytes: usize| FileResult {
            path: "/a".to_owned(),
            change: FileAction::Modified,
            moved_to: None,
            added_lines: 1,
            removed_lines: 1,
            diff: Some("x".repeat(bytes)),
        };
        let ToolResult::Files(files) = ToolResult::files(vec![file(MAX_DIFFS - 1), file(2), file(1)]) else {
            unreachable!()
        };
        let kept: Vec<bool> = files.iter().map(|file| file.diff.is_some()).collect();
        assert_eq!(kept, [true, false, true]);
    }
}
