//! Files that a line makes and then runs: what they hold is in nobody's sight, so running them is a question.
//!
//! *Invariant:* text only, and bounded: beyond the bound a file is forgotten, and the kernel's confinement is what is left.

use std::collections::HashSet;

/// The most files that are remembered.
const MAX_FILES: usize = 256;

/// Commands that make files of any content; compilers and archives of the project are not among them.
const MAKERS: &str = "cp mv ln install tee dd rsync scp curl wget sed";

/// Commands that make folders. What a build or a script makes is not in sight, and runs without a repository too.
const FOLDER_MAKERS: &str = "mkdir cp mv ln install rsync scp tar bsdtar unzip cpio 7z";

/// Subcommands of git that make repositories in folders, or names for them.
const REPOSITORY_MAKERS: &str = "init clone worktree submodule remote config";

/// Programs that run the file that they are given.
const RUNNERS: &str = "sh bash zsh dash ksh mksh ash fish source . python python3 node perl ruby php lua tclsh";

/// The files that were made so far.
#[derive(Clone, Debug, Default)]
pub(super) struct CreatedFiles(HashSet<String>);

impl CreatedFiles {
    pub(super) fn add(&mut self, path: &str) {
        if self.0.len() < MAX_FILES {
            self.0.insert(plain(path));
        }
    }

    pub(super) fn extend(&mut self, other: Self) {
        let room = MAX_FILES.saturating_sub(self.0.len());
        self.0.extend(other.0.into_iter().take(room));
    }

    /// Says whether a file, or the folder that it lies in, was made; `from` is where the line may be by now.
    pub(super) fn holds(&self, file: &str, from: &[String]) -> bool {
        if self.0.is_empty() || file.is_empty() {
            return false;
        }
        let is_known = |path: &str| {
            let path = plain(path);
            let mut ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
            self.0.contains(&path) || ends.any(|end| self.0.contains(&path[..end]))
        };
        is_known(file) || from.iter().any(|folder| is_known(&format!("{folder}/{file}")))
    }
}

impl CreatedFiles {
    /// Says whether a program that finds its file by more than its name gets one of these: a makefile in one word with its
    /// option, a module of Python, a folder that is a program.
    pub(super) fn is_run_by(&self, name: &str, word: &str) -> bool {
        let is_python = name.starts_with("python") || name.starts_with("pypy");
        let is_make = matches!(name, "make" | "gmake");
        let is_node = matches!(name, "node" | "nodejs" | "bun" | "deno" | "tsx" | "ts-node");
        if word.is_empty() || !(is_python || is_make || is_node || is_runner(name)) {
            return false;
        }
        // Modules are found by their names, beside the file that is run too.
        let ends: &[&str] = match () {
            () if is_python => &[".py", ".pyc", ".so", ".pth"],
            () if is_node => &["js", ".ts", ".node"],
            () => &[],
        };
        if self.0.iter().any(|file| ends.iter().any(|end| file.ends_with(end))) {
            return true;
        }
        let module = word.strip_prefix("-m").unwrap_or(word).replace('.', "/");
        self.0.iter().any(|file| {
            (is_make && word.ends_with(file.as_str()))
                || file.strip_prefix(word).is_some_and(|rest| rest.starts_with('/'))
                || (is_python && file.strip_prefix(&module).is_some_and(|rest| rest.starts_with('/')))
        })
    }
}

/// Takes out what names no other place.
fn plain(path: &str) -> String {
    let start = if path.starts_with('/') { "/" } else { "" };
    let steps: Vec<&str> = path.split('/').filter(|step| !matches!(*step, "" | ".")).collect();
    format!("{start}{}", steps.join("/"))
}

/// Says whether a command, as it would be written without quotes, makes folders of any content.
pub(super) fn makes_folders(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let name = words.next().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let is_listed = |list: &str, word: &str| list.split_whitespace().any(|listed| listed == word);
    is_listed(FOLDER_MAKERS, name) || name == "git" && words.any(|word| is_listed(REPOSITORY_MAKERS, word))
}

pub(super) fn is_maker(name: &str) -> bool {
    MAKERS.split_whitespace().any(|maker| maker == name)
}

pub(super) fn is_runner(name: &str) -> bool {
    RUNNERS.split_whitespace().any(|runner| runner == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_files_and_folders() {
        let mut made = CreatedFiles::default();
        ["./t", "b/c.sh", "/x//y"].iter().for_each(|path| made.add(path));
        let check = |file: &str, from: &[&str], expected: bool| {
            let from: Vec<String> = from.iter().map(|&folder| folder.to_owned()).collect();
            assert_eq!(made.holds(file, &from), expected, "{file}");
        };
        check("t", &[], true);
        check("././t", &[], true);
        check("t/rm", &[], true);
        check("t2", &[], false);
        check("c.sh", &[], false);
        check("./c.sh", &["b"], true);
        check("/x/y", &[], true);
        check("x/y", &[], false);
        check("", &[], false);
    }
}
