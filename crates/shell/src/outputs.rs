//! Which words of a command name what it writes.
//!
//! *Invariant:* only words that clearly are outputs; a word that may be a pattern, a name or a flag is none.

use super::words::Word;

/// Commands that change each of their operands.
const CHANGERS: &str = "tee truncate rmdir unlink shred mkfifo mknod chgrp setfacl chattr patch";

/// Commands that put another file in the place of each of their operands.
const COMPRESSORS: &str = "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd compress uncompress";

/// Commands whose last operand is what they write.
const COPIERS: &str = "ln install rsync scp";

/// Commands to which `-o` means something else than an output.
const OTHER_O: &str = "ls ps kubectl grep egrep fgrep rg find fd ssh scp sftp mount umount set bash sh dash zsh ksh docker podman \
    lsof useradd usermod groupadd apt apt-get dpkg pytest xargs stty shopt pgrep install free mysql psql column od ip cp mv";

/// Long options that name an output, with `=` or without.
const OUTPUTS: [&str; 11] = [
    "--output",
    "--output-file",
    "--output-dir",
    "--output-directory",
    "--out",
    "--out-dir",
    "--out-file",
    "--outfile",
    "--outdir",
    "--log-file",
    "--logfile",
];

/// Returns the words that a command clearly writes to.
pub(super) fn written(name: &str, words: &[Word]) -> Vec<Word> {
    let mut found = of_program(name, words);
    found.extend(values(words, &OUTPUTS));
    if !OTHER_O.split_whitespace().any(|listed| listed == name) {
        found.extend(values(words, &["-o"]));
    }
    found
}

fn of_program(name: &str, words: &[Word]) -> Vec<Word> {
    let is_listed = |list: &str| list.split_whitespace().any(|listed| listed == name);
    let operands: Vec<Word> = operands(words).into_iter().cloned().collect();
    if is_listed(CHANGERS) {
        return operands;
    }
    if is_listed(COMPRESSORS) {
        let keeps = |word: &Word| matches!(word.shown(), "--stdout" | "--list" | "--test") || has_letter(word, "clt");
        return if words.iter().any(keeps) { Vec::new() } else { operands };
    }
    if is_listed(COPIERS) {
        return copied(name, words, &operands);
    }
    match name {
        "dd" => words.iter().filter_map(|word| after(word, "of=")).collect(),
        "sed" | "gsed" if words.iter().any(is_in_place) => {
            let has_script = words
                .iter()
                .any(|word| word.is("-e") || word.is("-f") || word.source.starts_with("--expression"));
            operands.into_iter().skip(usize::from(!has_script)).collect()
        }
        "tar" | "bsdtar" | "gtar" => tar(words, operands),
        "cpio" => operands,
        "script" | "mkisofs" => operands.last().cloned().into_iter().collect(),
        "uniq" => operands.into_iter().skip(1).collect(),
        "zip" => operands.into_iter().take(1).collect(),
        "unzip" => values(words, &["-d"]),
        "less" => values(words, &["-O", "--LOG-FILE", "--log-file"]),
        "find" | "gfind" => values(words, &["-fprint", "-fprint0", "-fprintf", "-fls"]),
        "wget" => values(words, &["-O", "-P", "--output-document", "--directory-prefix"]),
        "openssl" => values(words, &["-out"]),
        "docker" | "podman" | "nerdctl" => mounts(words),
        "git" => git(words, &operands),
        _ => Vec::new(),
    }
}

fn copied(name: &str, words: &[Word], operands: &[Word]) -> Vec<Word> {
    let targets: Vec<Word> = words
        .iter()
        .filter_map(glued_target)
        .chain(values(words, &["-t"]))
        .collect();
    if !targets.is_empty() {
        return targets;
    }
    let last = operands.last().filter(|_| name != "ln" || operands.len() > 1);
    let is_remote = |word: &Word| word.shown().split('/').next().is_some_and(|host| host.contains(':'));
    last.filter(|word| !is_remote(word)).cloned().into_iter().collect()
}

/// The folders of this machine that a container gets; those of the working directory are below it.
fn mounts(words: &[Word]) -> Vec<Word> {
    let of_volume = |word: Word| word.fixed().and_then(|text| text.split(':').next()).map(Word::new);
    let of_mount = |word: Word| {
        let mut fields = word.fixed()?.split(',');
        let source = fields.find_map(|field| field.strip_prefix("source=").or_else(|| field.strip_prefix("src=")));
        source.map(Word::new)
    };
    let volumes = values(words, &["-v", "--volume"]).into_iter().filter_map(of_volume);
    let all = volumes.chain(values(words, &["--mount"]).into_iter().filter_map(of_mount));
    all.filter(|word| word.source.starts_with(['/', '~', '.'])).collect()
}

/// Says whether a word is a bundle of short options with one of these letters.
fn has_letter(word: &Word, letters: &str) -> bool {
    word.source.starts_with('-') && !word.source.starts_with("--") && word.source.contains(|c| letters.contains(c))
}

fn is_in_place(word: &Word) -> bool {
    if word.source.starts_with("--in-place") {
        return true;
    }
    // What follows `-e`, `-f` or `-l` in the same word is its value.
    let bundle = word.source.strip_prefix('-').unwrap_or_default();
    let flags = bundle.split(['e', 'f', 'l']).next().unwrap_or_default();
    !bundle.starts_with('-') && flags.contains('i')
}

fn tar(words: &[Word], operands: Vec<Word>) -> Vec<Word> {
    let long = |list: &[&str]| words.iter().any(|word| list.contains(&word.shown()));
    let old = words.get(1).filter(|word| !word.source.starts_with('-'));
    let letters = |list: &str| {
        old.is_some_and(|word| word.source.contains(|c| list.contains(c)))
            || words.iter().any(|word| has_letter(word, list))
    };
    let mut found = values(words, &["-C", "--directory"]);
    if letters("cruA") || long(&["--create", "--append", "--update", "--concatenate", "--delete"]) {
        found.extend(values(words, &["--file"]));
        let is_file = |word: &&Word| has_letter(word, "f") && word.source.ends_with('f');
        let bundled = words.iter().position(|word| is_file(&word));
        let place = bundled.or_else(|| old.filter(|word| word.source.contains('f')).map(|_| 1));
        found.extend(place.and_then(|place| words.get(place + 1)).cloned());
        found.extend(words.iter().filter_map(|word| after(word, "-f")));
    }
    if long(&["--remove-files"]) {
        found.extend(operands);
    }
    found
}

/// Where git works, and where it writes what it prints.
fn git(words: &[Word], operands: &[Word]) -> Vec<Word> {
    let sub = words
        .iter()
        .skip(1)
        .position(|word| GIT_WRITERS.iter().any(|sub| word.is(sub)))
        .map_or(words.len(), |at| at + 1);
    let mut found = values(&words[..sub], &["--work-tree", "--git-dir", "-C"]);
    let behind = |count: usize| {
        words
            .get(sub + count)
            .filter(|word| !word.source.starts_with('-'))
            .cloned()
    };
    match words.get(sub).and_then(Word::fixed) {
        Some("clone") => found.extend(operands.iter().skip_while(|word| !word.is("clone")).nth(2).cloned()),
        Some("init") => found.extend(behind(1)),
        Some("bundle") if words.get(sub + 1).is_some_and(|word| word.is("create")) => found.extend(behind(2)),
        Some("worktree") if words.get(sub + 1).is_some_and(|word| word.is("add")) => {
            found.extend(operands.iter().skip_while(|word| !word.is("add")).nth(1).cloned());
        }
        _ => {}
    }
    found
}

/// Subcommands of git that write where they are told.
const GIT_WRITERS: [&str; 4] = ["clone", "init", "bundle", "worktree"];

pub(super) fn operands(words: &[Word]) -> Vec<&Word> {
    words
        .iter()
        .skip(1)
        .filter(|word| !word.source.starts_with(['-', '+']))
        .collect()
}

/// Returns the words that follow these options, or stand in one word with them.
fn values(words: &[Word], options: &[&str]) -> Vec<Word> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.is("--") {
            break;
        }
        if options.iter().any(|option| word.is(option)) {
            found.extend(words.get(at + 1).cloned());
            continue;
        }
        let glued = options.iter().find_map(|option| {
            let rest = after(word, option)?;
            if option.starts_with("--") {
                after(&rest, "=")
            } else {
                Some(rest)
            }
        });
        found.extend(glued);
    }
    found
}

/// Returns what stands behind a beginning in the same word.
pub(super) fn after(word: &Word, beginning: &str) -> Option<Word> {
    let rest = word.fixed()?.strip_prefix(beginning)?;
    (!rest.is_empty()).then(|| Word {
        source: rest.to_owned(),
        value: Some(rest.to_owned()),
        tilde: rest.starts_with('~'),
        counts: true,
        at: word.at,
        ..Word::default()
    })
}

/// `--target-directory=/x` carries a path; long options may be cut short.
pub(super) fn glued_target(word: &Word) -> Option<Word> {
    let (option, _) = word.fixed()?.split_once('=')?;
    let is_target = option.len() > 3 && "--target-directory".starts_with(option);
    is_target.then(|| after(word, &format!("{option}="))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_written() {
        let check = |line: &str, expected: &str| {
            let words: Vec<Word> = line.split(' ').map(Word::new).collect();
            let shown: Vec<String> = written(&words[0].source, &words)
                .into_iter()
                .map(|word| word.source)
                .collect();
            assert_eq!(shown.join(" "), expected, "{line}");
        };
        check("tar cf /x a", "/x");
        check("tar -czf /x a", "/x");
        check("tar --create --file=/x a", "/x");
        check("tar xf /x", "");
        check("tar xf /x -C /y", "/y");
        check("sort -o /x a", "/x");
        check("sort -o/x a", "/x");
        check("sort --output=/x a", "/x");
        check("uniq a /x", "/x");
        check("gzip -f /x", "/x");
        check("gzip -c /x", "");
        check("sed -Ei.bak s/a/b/ /x", "/x");
        check("sed -nes/i/b/ /x", "");
        check("cpio -pd /x", "/x");
        check("git -C /x status", "/x");
        check("git --work-tree=/x clean", "/x");
        check("git log --output=/x", "/x");
        check("git bundle create /x HEAD", "/x");
        check("git worktree add -b y ../x", "y");
        check("git archive -o /x HEAD", "/x");
        check("git log -C /x", "/x");
        check("gcc -o /x a.c", "/x");
        check("ls -o /x", "");
        check("cmd -- -o /x", "");
    }
}
