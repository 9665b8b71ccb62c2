//! The table against what the programs say of themselves.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use super::*;

/// Programs that every machine of a developer has, and that say what their options take.
const USUAL: &str = "ls cat head tail wc sort cut tr uniq grep sed tar cp mv rm rmdir mkdir touch ln chmod chown du date tee \
    split paste join comm fold nl od stat md5sum sha256sum readlink realpath truncate shuf install diff gzip mktemp";

const USUAL_GIT: &str = "status add commit branch tag checkout switch restore reset rm mv clean fetch pull push clone merge \
    rebase cherry-pick revert ls-files grep describe apply am remote init";

/// Returns what a program says of itself; none if it is not there.
fn help(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let both = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&both).into_owned())
}

/// Returns what comes right behind a name: `[=VALUE]` or `[VALUE]` is possible, `=VALUE` and ` VALUE` are needed.
fn takes(piece: &str) -> (char, &str) {
    match piece.find(['[', '=', ' ', '<']).map(|at| piece.split_at(at)) {
        None => (' ', ""),
        Some((_, value)) if value.starts_with('[') => ('?', value),
        Some((_, value)) => ('=', value),
    }
}

/// Reads `-x, --name[=VALUE]`: each option of a line, and whether a value is needed (`=`), possible (`?`) or not taken.
fn options_of(help: &str) -> BTreeMap<String, char> {
    let mut found = BTreeMap::new();
    for line in help.lines().map(str::trim).filter(|line| line.starts_with('-')) {
        let line = line.replace("  --", ", --").replace("[no-]", "");
        let head = line.split("  ").next().unwrap_or_default();
        let pieces: Vec<&str> = head
            .split(',')
            .map(str::trim)
            .filter(|piece| piece.starts_with('-'))
            .collect();
        // What stands behind the long option is for the short one too, unless it is a text that the short one stands for, as
        // in `-p, --indicator-style=slash`.
        let (of_line, value) = pieces.last().map_or((' ', ""), |last| takes(last));
        let is_fixed = value
            .trim_start_matches('=')
            .starts_with(|c: char| c.is_ascii_lowercase());
        for piece in &pieces {
            let name = piece.split(['[', '=', '<', ' ']).next().unwrap_or_default();
            let is_name = name
                .trim_start_matches('-')
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_name || name.len() < 2 {
                continue;
            }
            let (own, _) = takes(piece);
            let inherits = own == ' ' && !name.starts_with("--") && !is_fixed;
            let said = if inherits { of_line } else { own };
            let both = found.get(name).is_some_and(|known| *known != said);
            found.insert(name.to_owned(), if both { '?' } else { said });
        }
    }
    found
}

/// A value where none is taken would hide the next word from the analysis, and none where one is taken would take a value
/// for an option.
fn compare(names: &[&str], help: &str) -> Vec<String> {
    let entry = Entry::find(names).unwrap_or_else(|| panic!("{names:?} has no line"));
    let options = options_of(help);
    let wrong = entry.options.iter().filter_map(|(name, takes, is_open)| {
        let said = options.get(*name).filter(|_| !is_open && *takes != Takes::Refused)?;
        let known = match takes {
            Takes::Nothing => ' ',
            Takes::TextInside => '?',
            Takes::Text | Takes::TwoTexts | Takes::Written | Takes::Read | Takes::TextOrFile | Takes::Refused => '=',
        };
        // These take the next word if there is one, whatever it is: reading it as a word of its own is the safe side.
        if name.ends_with("merged") {
            return None;
        }
        // A value that is possible in the same word only is none for the words behind.
        let is_same = known == *said || matches!((known, *said), (' ', '?') | ('?', ' '));
        (!is_same).then(|| {
            format!(
                "{} {name}: the table says {known:?}, the program {said:?}",
                names.join(" ")
            )
        })
    });
    wrong.collect()
}

#[test]
fn the_table_agrees_with_the_programs_on_what_takes_a_value() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for name in USUAL.split_whitespace() {
        if let Some(help) = help(name, &["--help"]) {
            checked += 1;
            wrong.extend(compare(&[name], &help));
        }
    }
    for name in USUAL_GIT.split_whitespace() {
        let text = help("git", &[name, "-h"]).expect("git is needed for this test");
        checked += 1;
        wrong.extend(compare(&["git", name], &text));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= 60, "only {checked} programs are there");
}

#[test]
fn every_line_of_the_table_is_sound() {
    const FLAGS: &str = "any sub single old number stop text read write last revision remote hooks address none tame names script else cut";
    for line in TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ' ']))
    {
        let fields: Vec<&str> = line.splitn(3, " : ").collect();
        assert!(fields.len() >= 2, "{line}");
        let flags = fields[1].trim_end_matches(" :");
        for flag in flags.split(' ') {
            assert!(FLAGS.split(' ').any(|known| known == flag), "{flag:?} in {line}");
        }
        let roles = [
            "sub", "text", "read", "write", "last", "revision", "remote", "none", "else",
        ];
        let count = roles
            .iter()
            .filter(|role| flags.split(' ').any(|flag| flag == **role))
            .count();
        assert!(count == 1, "{count} roles in {line}");
    }
}

#[test]
fn options_are_read_as_the_programs_read_them() {
    let check = |line: &str, is_clear: bool, written: &str| {
        let words: Vec<Word> = line.split(' ').map(Word::new).collect();
        let reading = read(words[0].shown(), &words).unwrap();
        assert_eq!(reading.opaque.is_none(), is_clear, "{line}: {reading:?}");
        let found: Vec<&str> = reading.written.iter().map(Word::shown).collect();
        assert_eq!(found.join(" "), written, "{line}");
    };
    check("sort -rn x", true, "");
    check("sort -no y x", true, "y");
    check("sort -noy x", true, "y");
    check("sort --output=y x", true, "y");
    check("sort --outp y x", true, "y");
    check("sort --compress-program=z x", false, "");
    check("sort --comp=z x", false, "");
    check("sort --odd x", false, "");
    check("sort $x", false, "");
    check("sort -k $x", false, "");
    check("head -20 x", true, "");
    check("git log --oneline -5", true, "");
    check("git log --output=y", true, "y");
    check("git odd", false, "");
    check("git --exec-path=x status", false, "");
    check("git stash push -m x", true, "");
    check("git push ../x", false, "../x");
    check("git push x.git", false, "");
    check("git push file:///x", false, "/x");
    check("git push --repo=sub/x", false, "");
    check("git push origin main", true, "");
    check("git push git@host:x/y.git", true, "");
    check("git fetch ../x", true, "../x");
    check("git remote add o x.git", false, "");
    check("git remote add o https://h/x.git", true, "");
    check("git remote set-url --push origin ssh://h/x", true, "");
    check("git remote rename a b", true, "");
    check("git fetch ext::x", false, "");
    check("tar xzf x", true, "");
    check("tar cIf z x", false, "");
    check("gcc -O2 -Wall -o y x.c", true, "y");
    check("gcc -Wl,-Map=y x.c", false, "");
    check("ls --odd", true, "");
    check("rm -- -x", true, "-x");
    check("rm -z x", false, "x");
}
