//! Programs that run a program of their own language: where that is not a file of a known name, nobody can say what it does.
//!
//! *Invariant:* pure. It reads option letters and a few small languages (sed, awk); a doubt counts as unknown.

use super::words::Word;
use super::wrappers::is_unknown_file;

const INLINE: &str = "it runs code from its command line";
const INPUT: &str = "it reads its program from its input";
const LATER: &str = "what it runs is only known when it runs";
const ESCAPE: &str = "its program can start others";

/// A language by the options of its program.
struct Language {
    names: &'static str,
    /// Short options with code.
    code: &'static str,
    /// Long options with code, and subcommands that take code.
    long_code: &'static str,
    /// Short options with another value.
    values: &'static str,
    /// Long options with another value.
    long_values: &'static str,
}

#[rustfmt::skip]
const LANGUAGES: &[Language] = &[
    Language { names: "python pypy ipython", code: "c", long_code: "", values: "WXmQ", long_values: "check-hash-based-pycs" },
    Language { names: "perl", code: "eE", long_code: "", values: "", long_values: "" },
    Language { names: "ruby jruby irb", code: "e", long_code: "", values: "IrCEK", long_values: "require encoding" },
    Language { names: "node nodejs tsx ts-node", code: "ep", long_code: "eval print", values: "rC", long_values: "require import loader conditions env-file project" },
    Language { names: "php", code: "rBRE", long_code: "run process-begin process-code process-end", values: "dczStf", long_values: "define php-ini server docroot file" },
    Language { names: "lua luajit", code: "e", long_code: "", values: "l", long_values: "" },
    Language { names: "julia", code: "eE", long_code: "eval print", values: "JptLC", long_values: "project threads procs" },
    Language { names: "Rscript", code: "e", long_code: "", values: "", long_values: "" },
    Language { names: "elixir iex", code: "eS", long_code: "eval rpc-eval", values: "rz", long_values: "require" },
    Language { names: "erl escript", code: "", long_code: "", values: "", long_values: "" },
    Language { names: "tclsh wish expect", code: "c", long_code: "", values: "f", long_values: "" },
    Language { names: "csh tcsh nu xonsh elvish", code: "c", long_code: "command commands", values: "", long_values: "" },
    Language { names: "pwsh powershell", code: "c", long_code: "command", values: "", long_values: "" },
    Language { names: "osascript jshell groovy scala clojure bb guile racket runghc ghc ocaml swipl sbcl", code: "eEc", long_code: "eval", values: "", long_values: "" },
];

/// Editors and debuggers: all of them take commands, and none is of use without a terminal but for that.
const EDITORS: &str = "vi vim nvim ex view ed emacs emacsclient gdb lldb m4";

/// Says why nobody knows what an interpreter would do; none for other programs, and for programs in files.
pub(super) fn reason(name: &str, words: &[Word]) -> Option<&'static str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let is_listed = |names: &str| names.split_whitespace().any(|listed| listed == name || listed == plain);
    if let Some(language) = LANGUAGES.iter().find(|language| is_listed(language.names)) {
        return of_language(language, words);
    }
    if is_listed(EDITORS) {
        return (!is_question(words)).then_some(ESCAPE);
    }
    match plain {
        "awk" | "gawk" | "mawk" | "nawk" => awk(words),
        "sed" | "gsed" => sed(words),
        "psql" | "mysql" | "mariadb" | "sqlite" | "mongosh" | "duckdb" => database(plain, words),
        "deno" => subcommand(words, &["eval", "repl"]),
        "bun" => subcommand(words, &["-e", "-p", "--eval", "--print", "repl", "exec"]),
        "dc" if words.len() < 2 => Some(INPUT),
        "dc" | "bc" => words.iter().any(|word| word.shown().contains('!')).then_some(ESCAPE),
        _ => None,
    }
}

fn is_question(words: &[Word]) -> bool {
    let asks = |word: &Word| matches!(word.fixed(), Some("--version" | "-V" | "-v" | "--help" | "-h"));
    words.len() == 2 && words.iter().skip(1).all(asks)
}

fn of_language(language: &Language, words: &[Word]) -> Option<&'static str> {
    if is_question(words) {
        return None;
    }
    let has = |list: &str, name: &str| list.split_whitespace().any(|listed| listed == name);
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(text) = word.fixed() else { return Some(LATER) };
        if text == "--" {
            at += 1;
            break;
        }
        if text == "-" || !text.starts_with('-') {
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            if has(language.long_code, name) {
                return Some(INLINE);
            }
            at += if !long.contains('=') && has(language.long_values, name) {
                2
            } else {
                1
            };
            continue;
        }
        // `-m` names a module, and what follows are its arguments.
        if language.names.starts_with("python") && text.contains('m') && !text.contains('c') {
            return python_module(text, words.get(at + 1));
        }
        let special = text[1..].find(|c| language.code.contains(c) || language.values.contains(c));
        match special.map(|place| (place + 1, text.as_bytes()[place + 1])) {
            Some((_, letter)) if language.code.as_bytes().contains(&letter) => return Some(INLINE),
            Some((place, b'f')) if place + 1 == text.len() => {
                at += 1;
                break;
            }
            Some((place, _)) => at += if place + 1 == text.len() { 2 } else { 1 },
            None => at += 1,
        }
    }
    match words.get(at) {
        Some(file) => file_reason(file),
        // A test runner or a server of the language's own, with its operands among the options.
        None if words
            .iter()
            .any(|word| matches!(word.fixed(), Some("--test" | "-S" | "--check" | "-m"))) =>
        {
            None
        }
        None => Some(INPUT),
    }
}

/// Most modules are programs of their own; some take code.
fn python_module(option: &str, next: Option<&Word>) -> Option<&'static str> {
    let glued = option.split_once('m').map_or("", |(_, name)| name);
    let name = if glued.is_empty() {
        next.map_or("", Word::shown)
    } else {
        glued
    };
    matches!(
        name,
        "timeit" | "code" | "codeop" | "idlelib" | "IPython" | "ptpython" | "bpython"
    )
    .then_some(INLINE)
}

fn file_reason(file: &Word) -> Option<&'static str> {
    match file.fixed() {
        None => Some(LATER),
        Some(_) if is_unknown_file(file) => Some(INPUT),
        Some(_) => None,
    }
}

fn subcommand(words: &[Word], names: &[&str]) -> Option<&'static str> {
    let is_code = |word: &Word| word.fixed().is_some_and(|text| names.contains(&text));
    if words.iter().skip(1).take(3).any(is_code) {
        return Some(INLINE);
    }
    words
        .iter()
        .skip(1)
        .any(|word| word.is("-") || word.is("/dev/stdin"))
        .then_some(INPUT)
}

fn awk(words: &[Word]) -> Option<&'static str> {
    const PLAIN: [&str; 14] = [
        "--",
        "-n",
        "-N",
        "-S",
        "-t",
        "-O",
        "-s",
        "-P",
        "-c",
        "-b",
        "-r",
        "--posix",
        "--traditional",
        "--csv",
    ];
    let mut programs: Vec<Option<&str>> = Vec::new();
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let text = word.fixed();
        at += 1;
        match text {
            Some("-f" | "--file" | "-E" | "--exec") => {
                return Some(words.get(at).and_then(file_reason).unwrap_or(ESCAPE));
            }
            Some("-F" | "-v") => at += 1,
            Some("-e" | "--source") => {
                programs.push(words.get(at).and_then(|program| program.value.as_deref()));
                at += 1;
            }
            Some(option) if option.starts_with("--source=") => programs.push(option.strip_prefix("--source=")),
            Some(option) if option.starts_with("-e") => programs.push(option.strip_prefix("-e")),
            Some(option) if option.starts_with("-F") || option.starts_with("-v") || PLAIN.contains(&option) => {}
            Some(option) if option.len() > 1 && option.starts_with('-') => {
                return (!is_question(words)).then_some(ESCAPE);
            }
            Some(_) | None => {
                if programs.is_empty() {
                    programs.push(word.value.as_deref());
                }
                break;
            }
        }
    }
    if is_question(words) {
        return None;
    }
    if programs.is_empty() {
        return Some(INPUT);
    }
    programs.into_iter().find_map(awk_program)
}

fn awk_program(text: Option<&str>) -> Option<&'static str> {
    let Some(text) = text else {
        return Some(LATER);
    };
    let reaches = ["system", "getline", "ARGV", "ENVIRON", "@", "close", "fflush"];
    let pipes = text.replace("||", "").contains('|');
    (pipes || reaches.iter().any(|word| text.contains(word)) || redirects(text)).then_some(ESCAPE)
}

/// Says whether an awk program may redirect what it prints. Outside of actions, and in parentheses, `>` compares; a program
/// that prints in none of its statements redirects nothing.
fn redirects(program: &str) -> bool {
    // Where a regular expression or a comment ends is not followed; in one, brackets and quotes mean nothing.
    if program.contains(['/', '#']) {
        let printed = program.find("print").map(|at| &program[at..]);
        return printed.is_some_and(|behind| behind.contains('>'));
    }
    let mut parentheses = 0_i32;
    let mut is_printing = false;
    let mut rest = program.char_indices();
    let mut is_literal = None;
    while let Some((at, c)) = rest.next() {
        if let Some(end) = is_literal {
            if c == '\\' {
                rest.next();
            } else if c == end {
                is_literal = None;
            }
            continue;
        }
        match c {
            '"' => is_literal = Some('"'),
            '(' => parentheses += 1,
            ')' => parentheses -= 1,
            '}' | ';' | '\n' => is_printing = false,
            'p' if program[at..].starts_with("print") => is_printing = true,
            '>' if is_printing && parentheses <= 0 => return true,
            _ => {}
        }
    }
    is_literal.is_some()
}

fn sed(words: &[Word]) -> Option<&'static str> {
    let (mut scripts, mut operand): (Vec<Option<String>>, Option<&Word>) = (Vec::new(), None);
    let mut at = 1;
    while let Some(word) = words.get(at) {
        at += 1;
        let Some(option) = word.fixed().filter(|text| text.len() > 1 && text.starts_with('-')) else {
            operand.get_or_insert(word);
            continue;
        };
        let (letter, glued) = sed_option(option);
        if letter == 'f' {
            return Some(ESCAPE);
        }
        if letter == 'e' && !glued.is_empty() {
            scripts.push(Some(glued.to_owned()));
        } else if letter == 'e' {
            scripts.push(words.get(at).and_then(|word| word.value.clone()));
        }
        at += usize::from(matches!(letter, 'e' | 'l') && glued.is_empty());
    }
    if scripts.is_empty() {
        scripts.extend(operand.map(|word| word.value.clone()));
    }
    scripts.into_iter().find_map(|script| match script {
        None => Some(LATER),
        Some(text) => (!is_plain_sed(&text)).then_some(ESCAPE),
    })
}

/// Returns the first option of a word that has a value, by its letter, and the value if it stands in the same word.
fn sed_option(word: &str) -> (char, &str) {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').unwrap_or((long, ""));
        // `--e` and `--f` are short for these; no other option begins like them.
        return match name {
            "" => (' ', ""),
            _ if "expression".starts_with(name) => ('e', value),
            _ if "file".starts_with(name) => ('f', value),
            _ if "line-length".starts_with(name) => ('l', value),
            _ => (' ', ""),
        };
    }
    let letters = word.char_indices().skip(1);
    for (at, letter) in letters {
        match letter {
            'e' | 'f' | 'l' => return (letter, &word[at + 1..]),
            'i' => break,
            _ => {}
        }
    }
    (' ', "")
}

/// Says whether a sed script neither runs programs nor writes files.
fn is_plain_sed(script: &str) -> bool {
    let mut left = script.chars().peekable();
    let section = |left: &mut std::iter::Peekable<std::str::Chars<'_>>, end: char| {
        while let Some(c) = left.next() {
            if c == '\\' {
                left.next();
            } else if c == end {
                return true;
            } else if c == '[' {
                // A delimiter in brackets ends nothing for some programs.
                let mut ahead = left.clone();
                let first = ahead.next();
                if first == Some(end) || ahead.take_while(|c| *c != ']').any(|c| c == end) && first != Some(']') {
                    return false;
                }
            }
        }
        false
    };
    while let Some(c) = left.next() {
        match c {
            ' ' | '\t' | '\n' | ';' | '{' | '}' | ',' | '$' | '!' | '~' | '+' | '0'..='9' => {}
            '/' => {
                if !section(&mut left, '/') {
                    return false;
                }
                while left.next_if(|flag| matches!(flag, 'I' | 'M')).is_some() {}
            }
            '\\' => {
                let Some(end) = left.next() else { return false };
                if !section(&mut left, end) {
                    return false;
                }
            }
            's' | 'y' => {
                let Some(end) = left.next() else { return false };
                if !section(&mut left, end) || !section(&mut left, end) {
                    return false;
                }
                while let Some(flag) = left.next_if(|flag| flag.is_ascii_alphanumeric()) {
                    if matches!(flag, 'e' | 'w') {
                        return false;
                    }
                }
            }
            'a' | 'i' | 'c' => while left.next_if(|c| *c != '\n').is_some() {},
            'b' | 't' | 'T' | ':' | 'q' | 'Q' | 'l' | 'L' | '#' | 'v' => {
                while left.next_if(|c| !matches!(c, '\n' | ';' | '}')).is_some() {}
            }
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | '=' | 'F' | 'z' => {}
            _ => return false,
        }
    }
    true
}

fn database(name: &str, words: &[Word]) -> Option<&'static str> {
    const ESCAPES: [&str; 17] = [
        "attach",
        "vacuum into",
        "readfile",
        "fsdir",
        "zipfile(",
        r"\!",
        "program",
        r"\o",
        r"\g |",
        r"\w |",
        "system",
        ".shell",
        ".load",
        "load_extension",
        "edit(",
        "writefile",
        ".output",
    ];
    if is_question(words) {
        return None;
    }
    // The commands of its own shell may be shortened, so only those that are written out and look are understood.
    const LOOKS: &str =
        ".tables .schema .headers .mode .indexes .databases .dump .quit .exit .timeout .width .nullvalue .show";
    let is_odd = |word: &Word| {
        let text = word.fixed().unwrap_or(".");
        let command = text.split_whitespace().next().unwrap_or_default();
        command.starts_with('.') && !LOOKS.split_whitespace().any(|look| look == command)
    };
    let has_option = words
        .iter()
        .any(|word| matches!(word.fixed(), Some("-init" | "--init" | "-cmd" | "--cmd")));
    if matches!(name, "sqlite" | "duckdb") && (has_option || words.iter().skip(2).any(is_odd)) {
        return Some(ESCAPE);
    }
    let escapes = |word: &Word| {
        let text = word.shown().to_lowercase();
        ESCAPES.iter().any(|escape| text.contains(escape))
    };
    if words.iter().skip(1).any(escapes) {
        return Some(ESCAPE);
    }
    let starts = |options: &[&str]| {
        let is_option = |text: &str| options.iter().any(|option| text.starts_with(option));
        words.iter().skip(1).any(|word| word.fixed().is_some_and(is_option))
    };
    let has_query = match name {
        "psql" => starts(&["-c", "--command", "-f", "--file", "-l", "--list"]),
        "sqlite" | "duckdb" => {
            words
                .iter()
                .skip(1)
                .filter(|word| !word.source.starts_with('-'))
                .count()
                > 1
        }
        _ => starts(&["-e", "--execute", "--eval"]),
    };
    (!has_query).then_some(INPUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_from_anywhere_but_a_file_is_unknown() {
        let check = |words: &[&str], expected: bool| {
            let list: Vec<Word> = words.iter().map(|word| Word::new(*word)).collect();
            assert_eq!(reason(words[0], &list).is_some(), expected, "{words:?}");
        };
        check(&["python", "x.py"], false);
        check(&["python3", "-m", "pytest", "-c", "x"], false);
        check(&["python3", "-V"], false);
        check(&["python3", "-u", "x.py", "-c"], false);
        check(&["python3.11", "-c", "'print(1)'"], true);
        check(&["python3", "-Bc", "'print(1)'"], true);
        check(&["python3"], true);
        check(&["python3", "-"], true);
        check(&["python3", "$x"], true);
        check(&["python3", "/dev/fd/3"], true);
        check(&["perl", "-pe", "'s/a/b/'"], true);
        check(&["perl", "x.pl", "-e"], false);
        check(&["node", "-e", "1"], true);
        check(&["node", "--eval=1"], true);
        check(&["node", "--test"], false);
        check(&["node", "server.js"], false);
        check(&["ruby", "-rjson", "-e", "1"], true);
        check(&["php", "-r", "1"], true);
        check(&["deno", "eval", "1"], true);
        check(&["deno", "run", "x.ts"], false);
        check(&["awk", "'{print $1}'", "f"], false);
        check(&["awk", "-F:", "'$3 > 5 || x {print}'"], false);
        check(&["awk", "'BEGIN{system(\"x\")}'"], true);
        check(&["awk", "'{print | \"sh\"}'"], true);
        check(&["awk", "\"$x\""], true);
        check(&["sed", "'s/a/b/g; 1,3d; /x/p'", "f"], false);
        check(&["sed", "-n", "'5,10p'", "f"], false);
        check(&["sed", "-i", "s/a/b/", "f"], false);
        check(&["sed", "'s/a/b/e'"], true);
        check(&["sed", "'1e git push'"], true);
        check(&["sed", "'w /x'"], true);
        check(&["sed", "-i", "s|x|y|w/z", "f"], true);
        check(&["sed", "\"s/x/$y/\""], true);
        check(&["psql", "-c", "'select 1'"], false);
        check(&["psql", "-c", r"'\! ls'"], true);
        check(&["sqlite3", "db", "'.shell ls'"], true);
        check(&["sqlite3", "db", "'select 1'"], false);
        check(&["mysql"], true);
        check(&["vim", "x"], true);
        check(&["ls"], false);
    }
}
