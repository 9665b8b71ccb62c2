//! The programs of the guides in `docs/guides/`: each page shows the example of its name, which prints what the page says.
//!
//! The service is the program that `TOOLGATE_BIN` names; without it, only the texts are compared.
//!
//! *Invariant:* a page and its example are the same text.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests make the folders and programs they work with

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const RULES: &str = r#"{"permission": {"bash": {"*": "ask", "seq *": "allow", "sleep *": "allow"}}}"#;

const PAGES: [(&str, &str); 8] = [
    ("list-tools", "list_tools"),
    ("execute", "execute"),
    ("watch", "watch"),
    ("approve", "approve"),
    ("host", "host"),
    ("files", "files"),
    ("output", "output"),
    ("errors", "errors"),
];

fn library() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> String {
    fs::read_to_string(library().join(format!("../../docs/guides/{name}.md"))).unwrap()
}

/// Returns the first block of a language after the beginning of `text`, and what follows it.
fn block<'a>(text: &'a str, language: &str) -> (&'a str, &'a str) {
    let fence = format!("\n```{language}\n");
    let begin = text.find(&fence).unwrap_or_else(|| panic!("no {language}")) + fence.len();
    let end = begin + text[begin..].find("\n```\n").unwrap() + 1;
    (&text[begin..end], &text[end..])
}

#[test]
fn the_pages_show_the_examples() {
    for (name, example) in PAGES {
        let text = page(name);
        let path = library().join(format!("examples/{example}.rs"));
        assert_eq!(
            block(&text, "rust").0,
            fs::read_to_string(path).unwrap(),
            "docs/guides/{name}.md"
        );
    }
}

/// A service of its own, in a temporary folder.
struct Server {
    folder: PathBuf,
    child: Child,
}

impl Server {
    fn start(program: &str, name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tg-rust-{}-{name}", std::process::id()));
        let (work, socket) = (folder.join("work"), folder.join("s"));
        fs::create_dir_all(&work).unwrap();
        fs::write(work.join("opencode.json"), RULES).unwrap();
        let mut command = Command::new(program);
        command.args(["serve", "--no-tcp", "--socket"]).arg(&socket);
        command.arg("--data-dir").arg(folder.join("data"));
        command.args(["--workspace", &format!("default={}", work.display())]);
        command
            .env("HOME", &folder)
            .env("XDG_CONFIG_HOME", &folder)
            .env_remove("TOOLGATE_BIN");
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let server = Self { folder, child };
        let begin = Instant::now();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(30), "the service does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn the_programs_of_the_guides_work() {
    let Ok(program) = std::env::var("TOOLGATE_BIN") else {
        eprintln!("TOOLGATE_BIN names no service");
        return;
    };
    let examples = std::env::current_exe().unwrap();
    let examples = examples.ancestors().nth(2).unwrap().join("examples");
    for (name, example) in PAGES {
        let server = Server::start(&program, example);
        let output = Command::new(examples.join(example))
            .current_dir(&server.folder)
            .env("TOOLGATE_SERVER", format!("unix:{}/s", server.folder.display()))
            .output()
            .unwrap();
        let problem = String::from_utf8_lossy(&output.stderr);
        let text = page(name);
        let (_, rest) = block(&text, "rust");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            block(rest, "text").0,
            "{name}: {problem}"
        );
    }
}
