//! What is known of a line while its commands are looked at one after the other.
//!
//! *Invariant:* text only; nothing is looked up.

use std::time::Instant;

use crate::created_files::CreatedFiles;
use crate::paths::{PathUse, is_directory_change};
use crate::variables::Variables;
use crate::words::Word;

/// The most folders that changes of directory are followed into, and the longest path of one.
const MAX_FOLDERS: usize = 16;
const LONGEST_PATH: usize = 4096;

/// How deep commands may be wrapped in each other.
pub(super) const MAX_DEPTH: usize = 8;

/// What is the same for all commands of a line.
pub(super) struct Context {
    pub(super) deadline: Instant,
    pub(super) functions: Vec<String>,
    /// What the line makes of its variables.
    pub(super) variables: Variables,
    /// Where a `cd` before may have led to.
    pub(super) from: Vec<String>,
    /// Whether a `cd` before led to where only the shell knows.
    pub(super) is_lost: bool,
    /// The files that commands before have made.
    pub(super) made: CreatedFiles,
    /// Whether the line is one chain of commands that each need the one before to succeed.
    pub(super) is_chained: bool,
    /// Whether a command before made a file whose name begins with a dash.
    pub(super) has_dashes: bool,
    /// Whether a command before may have made a folder, or a repository in one.
    pub(super) makes_folders: bool,
    /// Whether the command before prints names of files that lie where it searches.
    pub(super) is_fed: bool,
    /// What links lead to that commands before have made.
    pub(super) links: Vec<PathUse>,
}

impl Context {
    /// Follows a command if it changes the folder.
    pub(super) fn follow_changes(&mut self, words: &[Word]) {
        for words in self.variables.resolve(words) {
            if let Some((name, words)) = run_by_shell(&words).split_first()
                && name.fixed().is_some_and(is_directory_change)
            {
                self.follow(name.shown(), words);
            }
        }
    }

    /// Follows a static `cd`, so that what comes behind it is looked at from there too.
    fn follow(&mut self, name: &str, words: &[Word]) {
        let target = words.iter().find(|word| !word.source.starts_with('-'));
        // A folder of the working directory is known well enough by its wildcard.
        let place = |word: &Word| {
            let value = word.value.clone().filter(|_| !word.brace)?;
            let is_below = !value.starts_with(['/', '~']) && !value.split('/').any(|step| step == "..");
            (word.glob.is_none() || is_below).then_some(value)
        };
        self.is_lost |= target.is_some_and(|word| place(word).is_none());
        let Some(target) = target.and_then(place).filter(|_| name != "popd") else {
            return;
        };
        let next = if target.starts_with(['/', '~']) {
            target
        } else {
            let base = self.from.last().map(String::as_str);
            base.map_or_else(|| target.clone(), |base| format!("{base}/{target}"))
        };
        if next.len() <= LONGEST_PATH && self.from.len() < MAX_FOLDERS && !self.from.contains(&next) {
            self.from.push(next);
        }
    }
}

/// Returns the words that the shell itself runs: to it `time` is a mark in front of a pipeline, and `command` and `builtin`
/// start no program for what it has built in.
pub(super) fn run_by_shell(words: &[Word]) -> &[Word] {
    let is_mark =
        |word: &&Word| matches!(&*word.source, "time" | "-p" | "--") || word.is("command") || word.is("builtin");
    &words[words.iter().take_while(is_mark).count()..]
}

/// Says whether a function of the text may run, also behind such a mark.
pub(super) fn calls_function(words: &[Word], context: &Context) -> bool {
    let behind = run_by_shell(words).first();
    [words.first(), behind]
        .into_iter()
        .flatten()
        .any(|word| context.functions.contains(&word.source))
}

/// Says whether a path clearly leads out of the folder that it is meant from.
pub(super) fn leads_out(used: &PathUse) -> bool {
    used.path.starts_with(['/', '~']) || used.path.split('/').any(|step| step == "..")
}

pub(super) fn is_chained(text: &str) -> bool {
    let rest = text.replace("&&", "").replace("2>&1", "");
    !rest.contains([';', '\n', '|', '&', '(', '{', '`'])
}

/// Says whether a path with steps up stays below the working directory when it is meant from a folder in it.
pub(super) fn stays_inside(folder: &str, path: &str) -> bool {
    let mut depth = 0_i32;
    let is_plain = |step: &&str| !matches!(*step, "" | ".");
    !folder.starts_with(['/', '~'])
        && folder.split('/').chain(path.split('/')).filter(is_plain).all(|step| {
            depth += if step == ".." { -1 } else { 1 };
            depth >= 0
        })
}

/// Says whether a search goes through links.
pub(super) fn follows_links(words: &[Word]) -> bool {
    words
        .iter()
        .any(|word| matches!(word.fixed(), Some("-L" | "-follow" | "--follow" | "-R")))
}
