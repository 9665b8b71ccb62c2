//! Which of a command's words are paths, and what happens to them.
//!
//! Outside directories are asked for by the commands of the specification, by output redirections and by words that clearly
//! are what another command writes. What is only read by other commands (`ls /usr`, `head /etc/hosts`) is told and not asked.
//!
//! *Invariant:* text only; where a path leads is for the caller to find out.

use super::outputs::{glued_target, operands, written};
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
    /// Whether nothing is asked where it lies in a folder of the system that everybody reads.
    pub may_be_system: bool,
    /// Whether it is meant from those folders only, since the `cd` must have succeeded.
    pub only_from: bool,
    /// The whole path, where wildcards cut `path` short: it may match links.
    pub pattern: Option<String>,
    /// Where in the line it stands, in bytes; what stands in a quoted script counts as where the command begins.
    pub at: Option<usize>,
}

/// Commands whose further words are paths (`docs/spec/bash.md` §3.4).
const PATH_COMMANDS: &str = "cd rm cp mv mkdir touch chmod chown cat pushd popd chdir";

/// Commands that only read their operands.
const READERS: &str = "ls head tail more wc file stat du find grep rg diff cut nl od strings md5sum sha256sum readlink \
    realpath source . bash sh zsh dash ksh python python3 node ps kubectl";

/// Says whether the words of a command are looked at one by one.
pub(super) fn is_listed(name: &str) -> bool {
    [PATH_COMMANDS, READERS]
        .iter()
        .any(|list| list.split_whitespace().any(|listed| listed == name))
}

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
    (!path.is_empty() || word.glob.is_some()).then(|| if path.is_empty() { ".".to_owned() } else { path })
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
                    may_be_system: false,
                    only_from: false,
                    pattern: pattern(&word),
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
            // The text behind `-c` is no file.
            let is_text = |word: &Word| {
                word.source.starts_with('-') && !word.source.starts_with("--") && word.source.contains('c')
            };
            let is_shell = is_listed("bash sh zsh dash ksh");
            let runs = is_listed("source . find") || (is_shell && !words.iter().any(is_text));
            operands(words).into_iter().for_each(|word| add(word, runs, false));
        }
        written(name, words).iter().for_each(|word| add(word, true, true));
    }
    found
}

/// Says whether `ln` makes symbolic links.
pub(super) fn is_symbolic(words: &[Word]) -> bool {
    words
        .iter()
        .any(|word| word.source.starts_with('-') && word.source.contains('s'))
}

/// Returns where links lead that `ln` makes.
pub(super) fn of_link(words: &[Word], from: &[String]) -> Vec<PathUse> {
    let mut operands = operands(words);
    let link = if operands.len() > 1 { operands.pop() } else { None };
    let folder = link
        .filter(|_| is_symbolic(words))
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
            may_be_system: false,
            only_from: false,
            pattern: None,
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

/// Returns the file of a redirection, which the shell opens itself; none for devices that keep nothing.
pub(super) fn of_redirect(target: &Word, is_written: bool, from: &[String]) -> Vec<PathUse> {
    let mut uses = of_words(&expand(target), is_written, from);
    uses.iter_mut().for_each(|used| used.is_asked = true);
    uses
}

/// Returns words that are files; those that are only read are told and not asked for.
pub(super) fn of_words(words: &[Word], is_written: bool, from: &[String]) -> Vec<PathUse> {
    let named = words.iter().filter_map(|word| path(word).map(|path| (path, word)));
    named
        .filter(|(path, _)| !is_idle_device(path))
        .map(|(path, word)| PathUse {
            path,
            from: from.to_vec(),
            is_asked: is_written,
            is_written,
            may_be_system: !is_written,
            only_from: false,
            pattern: pattern(word),
            at: word.at,
        })
        .collect()
}

/// Returns the words of a program that is not understood which look like paths out of the folder that it runs in: what it
/// does with them is not known, so it may write them.
pub(super) fn of_any_words(words: &[Word], from: &[String]) -> Vec<PathUse> {
    let mut found = Vec::new();
    for word in words.iter().filter(|word| word.value.is_some()) {
        let value = word.value.as_deref().unwrap_or_default();
        let text = value.get(..word.glob.unwrap_or(value.len())).unwrap_or_default();
        // A path may stand behind the letter of an option, or behind a sign.
        let behind_letter = text.strip_prefix('-').and_then(|rest| rest.get(1..));
        let behind_sign = text.rsplit_once(['=', ',', '@']).map(|(_, rest)| rest);
        let seen = [Some(text), behind_letter, behind_sign].into_iter().flatten();
        let leads_out = |text: &&str| {
            let is_home = text.starts_with('~') && (word.tilde || *text != value);
            (text.starts_with('/') && !text.starts_with("//")) || is_home || text.split('/').any(|step| step == "..")
        };
        let outside: Vec<&str> = seen
            .filter(|text| leads_out(text) && !text.contains(' ') && !is_idle_device(text))
            .collect();
        if !outside.is_empty() {
            found.extend(outside.into_iter().map(|path| PathUse {
                path: path.to_owned(),
                from: from.to_vec(),
                is_asked: true,
                is_written: true,
                may_be_system: false,
                only_from: false,
                pattern: None,
                at: word.at,
            }));
        } else if word.glob.is_some() {
            found.extend(of_words(std::slice::from_ref(word), true, from));
        } else if !text.is_empty() && !text.starts_with('-') && !text.contains([' ', ':', '=']) {
            // A name of the folder itself may be a link.
            found.extend(of_words(std::slice::from_ref(word), false, from));
            found.last_mut().into_iter().for_each(|used| used.is_asked = true);
        }
    }
    found
}

/// Returns a path with its wildcards.
fn pattern(word: &Word) -> Option<String> {
    word.glob.and(word.value.clone()).filter(|_| !word.brace)
}

/// Says whether a file is a device that keeps nothing.
pub(super) fn is_idle_device(path: &str) -> bool {
    matches!(
        path,
        "/dev/null"
            | "/dev/stdin"
            | "/dev/random"
            | "/dev/urandom"
            | "/dev/fd/0"
            | "/dev/stdout"
            | "/dev/stderr"
            | "/dev/tty"
            | "/dev/zero"
            | "/dev/fd/1"
            | "/dev/fd/2"
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
        check("find /etc -fprint /x", "/etc /x /x");
        check("make /x", "");
    }
}
