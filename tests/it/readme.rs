//! The README's examples, run in their order in a fresh copy of this repository, with the real program and grpcurl.
//!
//! In a block marked `console`, `$ ` begins a command and `> ` goes on with it; what follows is what it prints, where
//! `…` stands for any text and, alone, for any lines. Every command has to succeed. Two things differ from what a reader
//! does: `cargo run --release --` is the program that is already built, and the port is a free one.
//!
//! *Invariant:* nothing is left out, but the sections that need grpcurl when the runner of the tests has declared that
//! this machine cannot have it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

const DOCUMENTED: &str = "127.0.0.1:50551";
const SECONDS: &str = "180";

#[derive(Debug, Default)]
struct Example {
    line: usize,
    section: String,
    command: String,
    expected: Vec<String>,
}

impl Example {
    fn stays_in_background(&self) -> bool {
        self.command.ends_with('&')
    }

    /// Sections of the third level build on calls that grpcurl made.
    fn needs_grpcurl(&self) -> bool {
        self.section.starts_with("### ")
    }

    /// Returns a pattern for the whole output; of a program that goes on running, for its beginning.
    fn pattern(&self) -> Regex {
        let lines = self.expected.iter().map(|line| match line.as_str() {
            "…" => r"(?:.*\n)*?".to_owned(),
            line => format!(r"{}\n", regex::escape(line).replace('…', ".*")),
        });
        let end = if self.stays_in_background() { "" } else { r"\z" };
        Regex::new(&format!(r"\A{}{end}", lines.collect::<String>())).unwrap()
    }
}

fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut section = String::new();
    let mut inside = false;
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            inside = !inside;
            assert!(
                !inside || language == "console",
                "line {}: `{language}` is not run",
                at + 1
            );
        } else if !inside {
            if line.starts_with('#') {
                line.clone_into(&mut section);
            }
        } else if let Some(command) = line.strip_prefix("$ ") {
            examples.push(Example {
                line: at + 1,
                section: section.clone(),
                command: command.to_owned(),
                expected: Vec::new(),
            });
        } else {
            let example = examples.last_mut().expect("a block begins with a command");
            match line.strip_prefix('>') {
                Some(more) if example.expected.is_empty() => {
                    example.command.push('\n');
                    example.command.push_str(more.strip_prefix(' ').unwrap_or(more));
                }
                Some(_) | None => example.expected.push(line.to_owned()),
            }
        }
    }
    examples
}

/// Writes one script of all commands, so that variables and jobs last. What the command at `n` prints goes to `out.n`
/// and its status to `status.n`; a program in the background is waited for until it has printed what it should.
fn script(examples: &[Example], results: &Path) -> String {
    let results = results.display();
    let mut script = "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n".to_owned();
    for (n, example) in examples.iter().enumerate() {
        let Example { command, expected, .. } = example;
        script += &format!("{{ {command}\n}} >{results}/out.{n} 2>&1 </dev/null\necho $? >{results}/status.{n}\n");
        script += &format!("[[ $(<{results}/status.{n}) == 0 ]] || exit 1\n");
        if example.stays_in_background() {
            let printed = format!("$(wc -l <{results}/out.{n}) -ge {}", expected.len());
            script += &format!("for _ in {{1..200}}; do [[ {printed} ]] && break; sleep 0.05; done\n");
        }
    }
    script
}

/// Copies what a clone has: not what was built, nor the history.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (name, path) = (entry.file_name(), entry.path());
        if path.is_dir() {
            if name != "target" && name != ".git" {
                copy(&path, &to.join(name));
            }
        } else {
            fs::copy(path, to.join(name)).unwrap();
        }
    }
}

/// The folders of programs: those that the tests installed come first.
fn path() -> Vec<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_toolgate")).ancestors().nth(2).unwrap();
    let installed = target.join("tools/bin");
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    [installed]
        .into_iter()
        .chain(std::env::split_paths(&inherited))
        .collect()
}

#[test]
fn its_examples_work() {
    let path = path();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut examples = examples(&fs::read_to_string(repository.join("README.md")).unwrap());
    if std::env::var_os("TOOLGATE_TEST_WITHOUT_GRPCURL").is_some() {
        examples.retain(|example| !example.needs_grpcurl());
    } else {
        let there = path.iter().any(|folder| folder.join("grpcurl").is_file());
        assert!(there, "no grpcurl: tests/setup/tools.sh installs it");
    }
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .to_string();
    for example in &mut examples {
        let command = example
            .command
            .replace("cargo run --release --", "target/release/toolgate");
        example.command = command.replace(DOCUMENTED, &port);
        example.expected = example
            .expected
            .iter()
            .map(|line| line.replace(DOCUMENTED, &port))
            .collect();
    }

    let stage = tempfile::tempdir().unwrap();
    let [clone, home, results] = ["clone", "home", "results"].map(|name| stage.path().join(name));
    copy(repository, &clone);
    for folder in [&home, &results, &clone.join("target/release")] {
        fs::create_dir_all(folder).unwrap();
    }
    let program = clone.join("target/release/toolgate");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolgate"), program).unwrap();
    fs::write(stage.path().join("script"), script(&examples, &results)).unwrap();

    let ended = Command::new("timeout")
        .args(["--kill-after=10", SECONDS, "bash"])
        .arg(stage.path().join("script"))
        .current_dir(&clone)
        .env_clear()
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HOME", &home)
        .env("TOOLGATE_LISTEN_TCP", &port)
        .status()
        .unwrap();
    for (n, example) in examples.iter().enumerate() {
        let result = |name: &str| fs::read_to_string(results.join(format!("{name}.{n}"))).unwrap_or_default();
        let (status, printed) = (result("status"), result("out"));
        let place = format!("README.md:{}: {}", example.line, example.command);
        assert_eq!(
            status.trim(),
            "0",
            "{place}\nended badly ({ended}) and printed:\n{printed}"
        );
        let matches = example.pattern().is_match(&printed);
        assert!(
            matches,
            "{place}\nshould print:\n{}\nprinted:\n{printed}",
            example.expected.join("\n")
        );
    }
    assert!(ended.success(), "{ended}");
}

#[test]
fn examples_are_told_from_the_text() {
    let text = "# A\n```console\n$ one \\\n>   two\nout…\n…\n$ three &\n```\n### B\n```console\n$ four\n> five\n```\n";
    let found = examples(text);
    let commands: Vec<_> = found
        .iter()
        .map(|example| (example.line, example.command.as_str()))
        .collect();
    assert_eq!(commands, [(3, "one \\\n  two"), (7, "three &"), (11, "four\nfive")]);
    let check = |example: usize, printed: &str, expected: bool| {
        assert_eq!(found[example].pattern().is_match(printed), expected, "{printed:?}");
    };
    check(0, "output\n", true);
    check(0, "out\nmore\nand more\n", true);
    check(0, "in\n", false);
    check(1, "it runs\n", true);
    check(2, "", true);
    check(2, "unexpected\n", false);
    assert_eq!(
        [false, false, true],
        [0, 1, 2].map(|at: usize| found[at].needs_grpcurl())
    );
}
