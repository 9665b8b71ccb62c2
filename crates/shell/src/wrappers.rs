//! Commands that run other commands: what runs inside.
//!
//! *Invariant:* the data is `wrappers.txt`; one reading of options. What is not understood is said to be opaque, never guessed.

mod marks;
mod remote;

use super::words::Word;
use marks::{changes_folder, is_assignment, is_gnu_name, is_split_option, starts_shell};

const TABLE: &str = include_str!("wrappers.txt");

/// A program whose arguments, after its own options, are a command.
struct Wrapper {
    /// Its name, and its subcommand behind a space.
    name: &'static str,
    /// Short options that take a value.
    short: &'static str,
    /// Long options that take a value.
    long: &'static str,
    /// Words between the options and the command.
    skip: usize,
}

const fn wrapper(name: &'static str, short: &'static str, long: &'static str, skip: usize) -> Wrapper {
    Wrapper {
        name,
        short,
        long,
        skip,
    }
}

/// Returns the programs of the table.
fn wrappers() -> impl Iterator<Item = Wrapper> {
    let lines = TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '*']));
    lines.map(|line| {
        let mut fields = line.splitn(4, " :").map(str::trim_start);
        let mut field = || fields.next().unwrap_or_default();
        wrapper(field(), field(), field(), field().parse().unwrap_or_default())
    })
}

/// Says whether it is a long option without a value, of any of the programs.
fn is_flag(long: &str) -> bool {
    let mut lines = TABLE.lines().filter_map(|line| line.strip_prefix("* : "));
    lines.any(|names| names.split(' ').any(|name| name == long))
}

/// What a command runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// Another command, whose words stand in this one.
    Words(Vec<Word>),
    /// A command that gets more words while it runs, from input or from a search.
    Template(Vec<Word>),
    /// A text that a shell parses.
    Script(String),
    /// A text that a shell on another machine parses.
    Remote(String),
    /// A command that is judged but not offered.
    Implied(Vec<Word>),
    /// Nobody can say.
    Opaque(&'static str),
}

/// Returns what a command runs besides itself; `words` begin with the name `name`.
pub(super) fn inner(name: &str, words: &[Word]) -> Vec<Inner> {
    let is_loader = name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so";
    match name {
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "mksh" | "ash" | "rbash" | "fish" | "hush" => shell(words),
        "eval" => {
            let mut found: Vec<Inner> = joined(&words[1..]).map(Inner::Script).into_iter().collect();
            found.push(Inner::Opaque("it evaluates a text"));
            found
        }
        "trap" => trap(words),
        "su" | "sg" | "script" => command_option(words),
        "newgrp" => vec![Inner::Opaque("it starts a shell that reads its input")],
        "runuser" | "capsh" if words.iter().any(|word| word.is("-c") || word.is("--command")) => command_option(words),
        "nodemon" => script_option(words, &["-x", "--exec"]),
        "cargo" if words.iter().any(|word| word.is("-s") || word.is("--shell")) => {
            script_option(words, &["-s", "--shell"])
        }
        "nix" | "guix"
            if words
                .iter()
                .any(|word| word.is("-c") || word.is("--command") || word.is("--")) =>
        {
            after_word(words, &["-c", "--command", "--"])
        }
        "python" | "python3"
            if words.get(1).is_some_and(|word| word.is("-m")) && words.get(2).is_some_and(|word| word.is("pip")) =>
        {
            vec![Inner::Words(words[2..].to_vec())]
        }
        "find" | "gfind" => find(words),
        "fd" | "fdfind" => searched(words, &["-x", "-X", "--exec", "--exec-batch"]),
        "xargs" | "gxargs" => xargs(words),
        "parallel" => parallel(words),
        "watch" => watch(words),
        "npx" | "npm" | "pnpm" | "yarn" => {
            let mut found = script_option(words, &["-c", "--call", "--shell-mode"]);
            found.extend(listed(name, words));
            found
        }
        "setarch" => set_architecture(words),
        "hyperfine" | "concurrently" => hyperfine(words),
        "ssh" => remote::ssh(words),
        "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "docker-compose" => remote::container(name, words),
        "bwrap" | "screen" | "xterm" | "run-parts" => vec![Inner::Opaque("it runs other programs")],
        "nix-shell" => script_option(words, &["--run", "--command"]),
        "git" => git(words),
        "env" if words.iter().any(is_split_option) => split_string(words),
        "flock" if words.iter().any(|word| word.is("-c") || word.is("--command")) => command_option(words),
        _ if is_gnu_name(name) => {
            let own = std::iter::once(Word::new(&name[1..]));
            vec![Inner::Implied(own.chain(words[1..].iter().cloned()).collect())]
        }
        _ if name.strip_prefix("git-").is_some_and(|sub| !sub.is_empty()) => {
            let sub = name.strip_prefix("git-").unwrap_or_default();
            let own = [Word::new("git"), Word::new(sub)].into_iter();
            vec![Inner::Implied(own.chain(words[1..].iter().cloned()).collect())]
        }
        _ if is_loader => wrapped(&wrapper("", "", "library-path preload audit argv0", 0), words),
        _ => listed(name, words),
    }
}

/// Returns what a program of the table runs.
fn listed(name: &str, words: &[Word]) -> Vec<Inner> {
    wrappers()
        .find_map(|entry| {
            let mut names = entry.name.split(' ');
            let own = names.next() == Some(name);
            let rest: Vec<&str> = names.collect();
            let fits = own
                && rest
                    .iter()
                    .enumerate()
                    .all(|(at, sub)| words.get(at + 1).is_some_and(|word| word.is(sub)));
            fits.then(|| wrapped(&entry, &words[rest.len()..]))
        })
        .unwrap_or_default()
}

/// Says whether a program runs the words behind it.
pub(super) fn is_wrapper(name: &str) -> bool {
    matches!(name, "xargs" | "parallel" | "watch") || wrappers().any(|entry| entry.name == name)
}

/// Skips the options of `words`, and returns where the rest begins; none if an option is not known.
fn after_options(entry: &Wrapper, words: &[Word]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(text) = word.fixed() else { return Some(at) };
        if text == "--" {
            let rest = words.get(at + 1..).unwrap_or_default();
            let assigns = |word: &&Word| entry.name == "env" && word.fixed().is_some_and(is_assignment);
            return Some(at + 1 + rest.iter().take_while(assigns).count());
        }
        if text == "-" && entry.name == "env" {
            at += 1;
            continue;
        }
        if let Some(long) = text.strip_prefix("--") {
            let takes = |list: &str| list.split_whitespace().any(|name| name == long);
            at += match (long.contains('='), takes(entry.long), is_flag(long)) {
                (true, _, _) | (false, false, true) => 1,
                (false, true, _) => 2,
                (false, false, false) => return None,
            };
        } else if text.len() > 1 && text.starts_with('-') {
            let value = text[1..].find(|c: char| entry.short.contains(c));
            at += if value.is_some_and(|place| place + 2 == text.len()) {
                2
            } else {
                1
            };
        } else if is_assignment(text) {
            at += 1;
        } else {
            return Some(at);
        }
    }
    Some(words.len())
}

fn wrapped(entry: &Wrapper, words: &[Word]) -> Vec<Inner> {
    let only_asks = entry.name == "command" && words.get(1).is_some_and(|word| word.is("-v") || word.is("-V"));
    if only_asks {
        return Vec::new();
    }
    if entry.name == "coproc" && words.get(2).is_some_and(|word| matches!(&*word.source, "{" | "(")) {
        return vec![Inner::Opaque("the shell's grammar does not fit it")];
    }
    match after_options(entry, words) {
        Some(at) => match words.get(at + entry.skip..).map(without_end) {
            Some(rest) if !rest.is_empty() => {
                let mut found = vec![Inner::Words(rest.to_vec())];
                let is_relative = rest[0]
                    .fixed()
                    .is_some_and(|name| name.contains('/') && !name.starts_with('/'));
                if is_relative && words[1..at].iter().any(changes_folder) {
                    found.push(Inner::Opaque("it runs a program of another folder"));
                }
                found
            }
            _ if matches!(entry.name, "sudo" | "doas") && words[1..].iter().any(starts_shell) => {
                vec![Inner::Opaque("it starts a shell that reads its input")]
            }
            Some(_) | None => Vec::new(),
        },
        None => vec![Inner::Opaque(
            "it has an option that is not known, so what it runs is not known",
        )],
    }
}

/// A second mark of the options' end stands behind what is skipped.
fn without_end(words: &[Word]) -> &[Word] {
    match words.split_first() {
        Some((first, rest)) if first.is("--") => rest,
        Some(_) | None => words,
    }
}

fn after_word(words: &[Word], marks: &[&str]) -> Vec<Inner> {
    let place = words.iter().position(|word| marks.iter().any(|mark| word.is(mark)));
    let rest = place.and_then(|place| words.get(place + 1..)).unwrap_or_default();
    if rest.is_empty() {
        Vec::new()
    } else {
        vec![Inner::Words(rest.to_vec())]
    }
}

fn joined(words: &[Word]) -> Option<String> {
    let values: Option<Vec<&str>> = words.iter().map(Word::fixed).collect();
    values.map(|values| values.join(" "))
}

fn script(word: Option<&Word>) -> Vec<Inner> {
    match word.map(Word::fixed) {
        Some(Some(text)) => vec![Inner::Script(text.to_owned())],
        Some(None) => vec![Inner::Opaque("it runs a text that is only known when it runs")],
        None => Vec::new(),
    }
}

/// Says whether a file name stands for what is piped in, or for what is only known when it runs.
pub(super) fn is_unknown_file(word: &Word) -> bool {
    word.fixed()
        .is_none_or(|file| file == "-" || file.is_empty() || file.starts_with("/dev/") || file.starts_with("/proc/"))
}

fn shell(words: &[Word]) -> Vec<Inner> {
    let mut is_text = false;
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(text) = word.fixed() else { break };
        if matches!(text, "--version" | "--help") {
            return Vec::new();
        }
        if matches!(text, "--rcfile" | "--init-file") {
            return vec![Inner::Opaque("it reads a start-up file")];
        }
        if text == "--" || text == "-" {
            at += 1;
            break;
        }
        if text.starts_with("--") {
            at += 1;
            continue;
        }
        let Some(letters) = text.strip_prefix(['-', '+']) else {
            break;
        };
        if letters.contains('s') {
            return vec![Inner::Opaque("it reads its commands from its input")];
        }
        is_text |= letters.contains('c');
        at += if letters.ends_with(['o', 'O']) { 2 } else { 1 };
    }
    match words.get(at) {
        None if is_text => vec![Inner::Opaque("it runs a text that is not in the line")],
        operand if is_text => script(operand),
        Some(file) if is_unknown_file(file) => vec![Inner::Opaque("what it reads its commands from is not known")],
        Some(_) => Vec::new(),
        None => vec![Inner::Opaque("it reads its commands from its input")],
    }
}

fn trap(words: &[Word]) -> Vec<Inner> {
    let operands = &words[1..];
    let operands = if operands.first().is_some_and(|word| word.is("--")) {
        &operands[1..]
    } else {
        operands
    };
    match operands.first() {
        Some(word)
            if word
                .fixed()
                .is_some_and(|text| text.starts_with('-') || text.is_empty()) =>
        {
            Vec::new()
        }
        Some(_) if operands.len() == 1 => Vec::new(),
        word => script(word),
    }
}

/// `su -c 'x'`, `script -c 'x'`, `flock file -c 'x'`: without the option they start a shell that reads its input.
fn command_option(words: &[Word]) -> Vec<Inner> {
    for (at, word) in words.iter().enumerate().skip(1) {
        let Some(text) = word.fixed() else { continue };
        let bundle = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        if text == "--command" || bundle.is_some_and(|letters| letters.ends_with('c')) {
            return script(words.get(at + 1));
        }
        let glued = text.strip_prefix("--command=").or_else(|| text.strip_prefix("-c"));
        if let Some(glued) = glued {
            return vec![Inner::Script(glued.to_owned())];
        }
    }
    vec![Inner::Opaque("it starts a shell that reads its input")]
}

fn script_option(words: &[Word], options: &[&str]) -> Vec<Inner> {
    for (at, word) in words.iter().enumerate().skip(1) {
        let Some(text) = word.fixed() else { continue };
        if text == "--" {
            break;
        }
        if options.contains(&text) {
            return script(words.get(at + 1));
        }
        let value = options
            .iter()
            .find_map(|option| text.strip_prefix(option)?.strip_prefix('='));
        if let Some(value) = value {
            return vec![Inner::Script(value.to_owned())];
        }
    }
    Vec::new()
}

fn find(words: &[Word]) -> Vec<Inner> {
    let mut found = Vec::new();
    let mut at = 1;
    while let Some(word) = words.get(at) {
        at += 1;
        match word.fixed() {
            Some("-exec" | "-execdir" | "-ok" | "-okdir") => {
                let rest = &words[at..];
                let end = rest
                    .iter()
                    .position(|word| word.is(";") || word.is("+"))
                    .unwrap_or(rest.len());
                found.push(Inner::Template(rest[..end].to_vec()));
                at += end;
            }
            Some("-delete") => {
                let starts = words[1..]
                    .iter()
                    .skip_while(|word| matches!(word.fixed(), Some("-H" | "-L" | "-P")))
                    .take_while(|word| !word.source.starts_with(['-', '(', '!', '\\']));
                let rm = [Word::new("rm")].into_iter().chain(starts.cloned());
                found.push(Inner::Implied(rm.collect()));
            }
            Some(_) => {}
            None => {
                if word.value.is_none() && word.counts && !word.source.starts_with(['"', '.', '/', '~']) {
                    found.push(Inner::Opaque("its expression is only known when it runs"));
                }
            }
        }
    }
    found
}

fn searched(words: &[Word], options: &[&str]) -> Vec<Inner> {
    let place = words
        .iter()
        .position(|word| word.fixed().is_some_and(|text| options.contains(&text)));
    place
        .and_then(|place| words.get(place + 1..))
        .map(|rest| Inner::Template(rest.to_vec()))
        .into_iter()
        .collect()
}

fn xargs(words: &[Word]) -> Vec<Inner> {
    let entry = wrapper(
        "xargs",
        "EIJLPRSadns",
        "arg-file delimiter max-args max-chars max-procs",
        0,
    );
    match after_options(&entry, words) {
        Some(at) if at < words.len() => vec![Inner::Template(words[at..].to_vec())],
        Some(_) => Vec::new(),
        None => vec![Inner::Opaque(
            "it has an option that is not known, so what it runs is not known",
        )],
    }
}

fn parallel(words: &[Word]) -> Vec<Inner> {
    let entry = wrapper(
        "parallel",
        "CDEIJLNPSTUWadjns",
        "jobs max-procs arg-file colsep delay timeout tmpdir",
        0,
    );
    let Some(at) = after_options(&entry, words) else {
        return vec![Inner::Opaque(
            "it has an option that is not known, so what it runs is not known",
        )];
    };
    let rest = &words[at.min(words.len())..];
    let end = rest
        .iter()
        .position(|word| word.shown().starts_with(":::"))
        .unwrap_or(rest.len());
    match joined(&rest[..end]) {
        Some(text) if !text.is_empty() => {
            let words: Vec<Word> = text.split_whitespace().map(Word::new).collect();
            vec![Inner::Script(text), Inner::Template(words)]
        }
        Some(_) | None => vec![Inner::Opaque("it reads its commands from its input")],
    }
}

fn watch(words: &[Word]) -> Vec<Inner> {
    let entry = wrapper("watch", "nqs", "interval equexit shotsdir", 0);
    match after_options(&entry, words).and_then(|at| joined(words.get(at..)?)) {
        Some(text) => vec![Inner::Script(text)],
        None => vec![Inner::Opaque("it runs a text that is only known when it runs")],
    }
}

fn set_architecture(words: &[Word]) -> Vec<Inner> {
    let entry = wrapper("setarch", "", "", 0);
    let Some(at) = after_options(&entry, words) else {
        return vec![Inner::Opaque(
            "it has an option that is not known, so what it runs is not known",
        )];
    };
    let names = [
        "x86", "i386", "i486", "i586", "i686", "linux", "arm", "aarch64", "ppc", "s390", "riscv", "mips", "uname26",
    ];
    let rest = &words[at..];
    let is_name = |word: &Word| names.iter().any(|name| word.shown().starts_with(name));
    let rest = if rest.first().is_some_and(is_name) {
        &rest[1..]
    } else {
        rest
    };
    if rest.is_empty() {
        return vec![Inner::Opaque("it starts a shell that reads its input")];
    }
    wrapped(&entry, &[&words[..1], rest].concat())
}

/// Each operand is a command line, and so are the values of some options.
fn hyperfine(words: &[Word]) -> Vec<Inner> {
    words
        .iter()
        .skip(1)
        .filter(|word| word.shown().contains([' ', '/']) || !word.source.starts_with('-'))
        .flat_map(|word| script(Some(word)))
        .collect()
}

fn split_string(words: &[Word]) -> Vec<Inner> {
    let Some(place) = words.iter().position(is_split_option) else {
        return Vec::new();
    };
    let text = words[place].fixed().unwrap_or_default();
    let glued = match text.strip_prefix("--split-string") {
        Some(rest) => rest.strip_prefix('=').unwrap_or(rest),
        None => text.split_once('S').map_or("", |(_, rest)| rest),
    };
    // What they mean to it they do not mean to a shell.
    let is_plain = |rest: &String| {
        ![glued, rest]
            .iter()
            .any(|text| text.contains('\\') || text.contains("${"))
    };
    match joined(&words[place + 1..]).filter(is_plain) {
        Some(rest) => vec![Inner::Script(format!("{glued} {rest}").trim().to_owned())],
        None => vec![Inner::Opaque("it runs a text that is only known when it runs")],
    }
}

fn git(words: &[Word]) -> Vec<Inner> {
    let place = |name: &str| words.iter().position(|word| word.is(name));
    if let Some(at) = place("foreach").filter(|_| place("submodule").is_some()) {
        let rest = words[at + 1..].iter().position(|word| !word.source.starts_with('-'));
        return match rest.and_then(|rest| joined(&words[at + 1 + rest..])) {
            Some(text) => vec![Inner::Script(text)],
            None => vec![Inner::Opaque("it runs a text that is only known when it runs")],
        };
    }
    if let Some(at) = place("run").filter(|at| place("bisect") == at.checked_sub(1)) {
        return vec![Inner::Words(words[at + 1..].to_vec())];
    }
    if place("rebase").is_some() {
        return script_option(words, &["-x", "--exec"]);
    }
    if place("filter-branch").is_some() {
        return vec![Inner::Opaque("it runs filters")];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<Word> {
        shell_words(line).into_iter().map(Word::new).collect()
    }

    /// Splits at blanks outside single quotes.
    fn shell_words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for c in line.chars() {
            is_quoted ^= c == '\'';
            match (c, words.last_mut()) {
                (' ', _) if !is_quoted => words.push(String::new()),
                (c, Some(word)) => word.push(c),
                (_, None) => {}
            }
        }
        words
    }

    #[test]
    fn finds_what_runs_inside() {
        let check = |line: &str, expected: &str| {
            let words = split(line);
            let shown: Vec<String> = inner(&words[0].source, &words)
                .into_iter()
                .map(|inner| match inner {
                    Inner::Words(words) => sources(&words),
                    Inner::Template(words) => format!("{} …", sources(&words)),
                    Inner::Implied(words) => format!("({})", sources(&words)),
                    Inner::Script(text) => format!("[{text}]"),
                    Inner::Remote(text) => format!("<{text}>"),
                    Inner::Opaque(_) => "?".to_owned(),
                })
                .collect();
            assert_eq!(shown.join(" & "), expected, "{line}");
        };
        check("git status", "");
        check("sudo git push", "git push");
        check("sudo -u root -- git push", "git push");
        check("sudo -uroot A=1 git push", "git push");
        check("sudo --user root git push", "git push");
        check("sudo --odd git push", "?");
        check("env -i A=1 git push", "git push");
        check("env -S 'git push'", "[git push]");
        check("env -iS 'git push' x", "[git push x]");
        check("timeout -k 5 10s git push", "git push");
        check("nice -n 5 git push", "git push");
        check("command -v git", "");
        check("exec -a x git push", "git push");
        check("bash -c 'git push'", "[git push]");
        check("bash -lc 'git push' x y", "[git push]");
        check("bash -c -e 'git push'", "[git push]");
        check("bash -eo pipefail -c 'git push'", "[git push]");
        check("bash script.sh", "");
        check("bash --version", "");
        check("bash", "?");
        check("bash -s x", "?");
        check("bash /dev/stdin", "?");
        check("bash $x", "?");
        check("bash -c $x", "?");
        check("su root -c 'git push'", "[git push]");
        check("su", "?");
        check("script -qc 'git push' /dev/null", "[git push]");
        check("find . -name x -exec rm -rf {} ;", "rm -rf {} …");
        check("find a b -delete", "(rm a b)");
        check("xargs -0 -n 1 git push", "git push …");
        check("xargs", "");
        check("parallel git push ::: a b", "[git push] & git push …");
        check("parallel", "?");
        check("watch -n 1 'git push'", "[git push]");
        check("trap 'git push' EXIT", "[git push]");
        check("trap - EXIT", "");
        check("eval 'git push'", "[git push] & ?");
        check("ld-linux-x86-64.so.2 /usr/bin/git push", "/usr/bin/git push");
        check("git submodule foreach --recursive 'git push'", "[git push]");
        check("git bisect run git push", "git push");
        check("git rebase -x 'git push' main", "[git push]");
        check("poetry run pytest x", "pytest x");
        check("flock /x -c 'git push'", "[git push]");
        check("flock -n /x git push", "git push");
        check("busybox rm x", "rm x");
    }

    fn sources(words: &[Word]) -> String {
        words
            .iter()
            .map(|word| word.source.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }
}
