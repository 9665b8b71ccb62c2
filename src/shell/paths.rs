//! Which of a command's words are paths, and what happens to them.
//!
//! Outside directories are asked for by the commands of the specification, by output redirections and by words that clearly
//! are what another command writes. What is only read by other commands (`ls /usr`, `head /etc/hosts`) is told and not asked.
//!
//! *Invariant:* text only; where a path leads is for the caller to find out.

use super::outputs::{glued_target, operands, written};
use super::parse::Redirect;
use super::words::Word;

/// A path as a command line has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathUse {
    /// The path without quotes, cut where a wildcard begins; a leading `~` stands for the home folder.
    pub path: String,
    /// Folders that an earlier `cd` may have led to, relative to the working directory; the path is meant from there too.
    pub from: Vec<String>,
    /// Whether the directory is asked for if it is outside.
    pub is_asked: bool,
    /// Whether the path is written.
    pub is_written: bool,
    /// Where in the line it stands, in bytes; what stands in a quoted script counts as where the command begins.
    pub at: Option<usize>,
}

/// Commands whose further words are paths (`spec/bash.md` §3.4).
const PATH_COMMANDS: &str = "cd rm cp mv mkdir touch chmod chown cat pushd popd chdir";

/// Commands that only read their operands.
const READERS: &str = "ls head tail more wc file stat du find grep rg diff cut nl od strings md5sum sha256sum readlink \
    realpath source . bash sh python python3 node ps kubectl";

/// Says whether programs of the system lie in a folder.
pub(super) fn is_of_programs(folder: &str) -> bool {
    let path = folder.trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or_default();
    matches!(last, "bin" | "sbin" | "git-core")
        || ["/usr", "/bin", "/sbin", "/lib"]
            .iter()
            .any(|start| path.starts_with(start))
}

/// Says whether a command only changes the directory.
pub(super) fn is_directory_change(name: &str) -> bool {
    matches!(name, "cd" | "pushd" | "popd" | "chdir")
}

/// Returns a word as a path, if it is one that can be known.
fn path(word: &Word) -> Option<String> {
    let value = word.value.as_deref().filter(|_| !word.brace)?;
    let path = &value[..word.glob.unwrap_or(value.len())];
    // A quoted or escaped tilde is a name.
    let path = if path.starts_with('~') && !word.tilde {
        format!("./{path}")
    } else {
        path.to_owned()
    };
    (!path.is_empty()).then_some(path)
}

/// Returns the paths of a command.
pub(super) fn of_command(name: &str, words: &[Word], from: &[String]) -> Vec<PathUse> {
    let is_listed = |list: &str| list.split_whitespace().any(|listed| listed == name);
    let mut found = Vec::new();
    let mut add = |word: &Word, is_asked: bool, is_written: bool| {
        for word in expand(word) {
            if let Some(path) = path(&word).filter(|path| !is_idle_device(path)) {
                found.push(PathUse {
                    path,
                    from: from.to_vec(),
                    is_asked,
                    is_written,
                    at: word.at,
                });
            }
        }
    };
    if is_listed(PATH_COMMANDS) {
        let is_flag = |word: &Word| {
            let is_mode = name == "chmod" && word.source.starts_with('+');
            is_mode || word.source.starts_with('-') || is_number(word)
        };
        let is_read = matches!(name, "cat") || is_directory_change(name);
        for word in &words[1..] {
            if let Some(target) = glued_target(word) {
                add(&target, true, true);
            } else if !is_flag(word) {
                add(word, true, !is_read);
            }
        }
        if name == "cd" && words.len() == 1 {
            add(&Word::new("~"), true, false);
        }
    } else {
        if is_listed(READERS) {
            operands(words).into_iter().for_each(|word| add(word, false, false));
        }
        written(name, words).iter().for_each(|word| add(word, true, true));
    }
    found
}

/// Returns where links lead that `ln` makes.
pub(super) fn of_link(words: &[Word], from: &[String]) -> Vec<PathUse> {
    let mut operands = operands(words);
    let is_symbolic = |word: &Word| word.source.starts_with('-') && word.source.contains('s');
    let link = if operands.len() > 1 { operands.pop() } else { None };
    let folder = link
        .filter(|_| words.iter().any(is_symbolic))
        .and_then(Word::fixed)
        .and_then(|link| link.rsplit_once('/'))
        .map_or("", |(folder, _)| folder);
    let below = |target: String| match folder {
        "" => target,
        _ if target.starts_with(['/', '~']) => target,
        _ => format!("{folder}/{target}"),
    };
    let targets = operands
        .into_iter()
        .filter_map(|word| Some((below(path(word)?), word.at)));
    targets
        .map(|(path, at)| PathUse {
            path,
            from: from.to_vec(),
            is_asked: true,
            is_written: false,
            at,
        })
        .collect()
}

/// A bare number is a mode or an owner; the grammar has a type of its own for it.
fn is_number(word: &Word) -> bool {
    !word.counts && word.source.bytes().all(|byte| byte.is_ascii_digit())
}

/// Expands one brace list without anything nested; several of them stay as they are.
fn expand(word: &Word) -> Vec<Word> {
    const MOST: usize = 64;
    let source = &word.source;
    let single = || vec![word.clone()];
    if !word.brace || source.contains(['\'', '"', '\\', '$', '`']) {
        return single();
    }
    let Some((open, close)) = source.find('{').zip(source.rfind('}')) else {
        return single();
    };
    let Some(list) = source.get(open + 1..close).filter(|list| !list.contains(['{', '}'])) else {
        return single();
    };
    list.split(',')
        .take(MOST)
        .map(|item| Word {
            at: word.at,
            ..Word::new(format!("{}{item}{}", &source[..open], &source[close + 1..]))
        })
        .collect()
}

/// Returns the file of a redirection; none for devices that keep nothing.
pub(super) fn of_redirect(redirect: &Redirect, from: &[String]) -> Vec<PathUse> {
    let uses = expand(&redirect.target).into_iter().filter_map(|word| path(&word));
    uses.filter(|path| !is_idle_device(path))
        .map(|path| PathUse {
            path,
            from: from.to_vec(),
            is_asked: redirect.writes,
            is_written: redirect.writes,
            at: redirect.target.at,
        })
        .collect()
}

/// Says whether a file is a device that keeps nothing.
pub(super) fn is_idle_device(path: &str) -> bool {
    matches!(
        path,
        "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero" | "/dev/fd/1" | "/dev/fd/2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_paths() {
        let check = |line: &str, expected: &str| {
            let words: Vec<Word> = line.split(' ').map(Word::new).collect();
            let uses = of_command(&words[0].source, &words, &[]);
            let shown: Vec<String> = uses
                .iter()
                .map(|used| format!("{}{}", used.path, if used.is_asked { "" } else { "?" }))
                .collect();
            assert_eq!(shown.join(" "), expected, "{line}");
        };
        check("rm -rf /x 'y' $z", "/x y");
        check("rm /d/*.txt ~/a '~/b'", "/d/ ~/a ./~/b");
        check("rm {a,../b}", "a ../b");
        check("chmod -v +x u+x s", "u+x s");
        check("cp --target-directory=/x a", "/x a");
        check("cd", "~");
        check("ls /usr", "/usr?");
        check("tee -a /x", "/x");
        check("dd if=/a of=/b", "/b");
        check("ln -s /x link", "link");
        check("ln -s /x", "");
        check("rsync -a src/ host:/x", "");
        check("rsync -a src/ /x", "/x");
        check("sed -i s/a/b/ /x", "/x");
        check("sed s/a/b/ /x", "");
        check("tar xf a.tar -C /x", "/x");
        check("curl -o /x u", "/x");
        check("curl -o/x u", "/x");
        check("wget -P /x u", "/x");
        check("git clone u /x", "/x");
        check("find /etc -fprint /x", "/etc? /x? /x");
        check("make /x", "");
    }
}
