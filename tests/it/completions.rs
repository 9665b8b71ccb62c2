//! What the program writes for shells that complete its command line, and for `man`.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");

/// Reads the script as the shell of a person does, and prints what it offers for the last of the words.
const COMPLETE: &str = r#"
source <("$1" completions bash) || exit 1
shift
COMP_WORDS=(toolgate "$@")
COMP_CWORD=$#
complete -p toolgate >/dev/null || exit 1
_toolgate toolgate "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// What bash offers after these words, of which the last one is not finished.
fn offered(words: &[&str]) -> BTreeSet<String> {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", COMPLETE, "bash", PROGRAM])
        .args(words);
    let output = run(&mut bash);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_commands_and_options() {
    let check = |words: &[&str], expected: &[&str]| {
        let expected: BTreeSet<String> = expected.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(offered(words), expected, "{words:?}");
    };
    check(&["ca"], &["call", "calls", "cancel"]);
    check(&["completions", "b"], &["bash"]);
    check(&["audit", "v"], &["verify"]);
    check(&["call", "--dry"], &["--dry-run"]);
    check(&["--color", "al"], &["always"]);
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(Command::new(PROGRAM).args(["completions", shell]));
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("dry-run"), "{shell}: {script}");
    }
    let output = Command::new(PROGRAM).args(["completions", "csh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// The names of the pages, without the section: those of the page about the command line.
fn documented() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/cli.md");
    let page = fs::read_to_string(page).unwrap();
    let headings = page
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(" toolgate"));
    headings
        .map(|words| format!("toolgate{}", words.replace(' ', "-")))
        .collect()
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man/man1");
    let output = run(Command::new(PROGRAM).arg("man").arg(&pages));
    assert!(output.stdout.is_empty(), "{output:?}");
    let written: BTreeSet<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_suffix(".1").expect(&name).to_owned())
        .collect();
    assert_eq!(written, documented());

    let main = fs::read_to_string(pages.join("toolgate.1")).unwrap();
    for part in ["exit code", "toolgate\\-call(1)", "TOOLGATE_SERVER", "130"] {
        assert!(main.to_lowercase().contains(&part.to_lowercase()), "{part}: {main}");
    }
    let again = folder.path().join("again");
    run(Command::new(PROGRAM).arg("man").arg(&again));
    for entry in fs::read_dir(&pages).unwrap().map(Result::unwrap) {
        let repeated = fs::read(again.join(entry.file_name())).unwrap();
        assert!(
            fs::read(entry.path()).unwrap() == repeated,
            "{:?} is not the same twice",
            entry.file_name()
        );
    }

    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output = Command::new(PROGRAM).arg("man").arg(&file).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cannot write") && told.contains("file"), "{told}");
}
