//! What the README and the pages of `docs/` show is run: their `console` blocks, in their order, with the real program
//! and grpcurl, each page by itself against the service that it starts.
//!
//! Every command has to succeed and to print what the page says. Two things differ from what a reader does: `cargo run
//! --release --` is the program that is already built, and the port is a free one. The blocks in other languages are
//! programs, which the client libraries run; see `docs/README.md`.
//!
//! *Invariant:* nothing is left out, but what needs grpcurl when the runner of the tests has declared that this machine
//! cannot have it.

mod examples;
mod session;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::FileDescriptorSet;
use toolgate_contract::DESCRIPTORS;

use self::examples::{Block, blocks, examples};
use self::session::Session;

const DOCUMENTED: &str = "127.0.0.1:50551";

/// The pages with `console` blocks.
const PAGES: [&str; 2] = ["README.md", GRPCURL];
const GRPCURL: &str = "docs/grpcurl.md";

/// What a fence may name beside `console`: the languages of programs, and what programs print.
const RUN_BY_CLIENTS: [&str; 5] = ["python", "ts", "go", "java", "text"];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: &str) -> String {
    fs::read_to_string(repository().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

fn without_grpcurl() -> bool {
    std::env::var_os("TOOLGATE_TEST_WITHOUT_GRPCURL").is_some()
}

/// Copies what a clone has: not what was built, nor the history.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (name, path) = (entry.file_name(), entry.path());
        if path.is_dir() {
            if name != "target" && name != ".git" && name != "node_modules" {
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
    let path: Vec<_> = [installed]
        .into_iter()
        .chain(std::env::split_paths(&inherited))
        .collect();
    let there = path.iter().any(|folder| folder.join("grpcurl").is_file());
    assert!(
        there || without_grpcurl(),
        "no grpcurl: tests/setup/tools.sh installs it"
    );
    path
}

/// Runs the examples of a page in a folder. Programs are looked for in `first`, too.
fn run(page: &str, folder: &Path, first: Option<&Path>) {
    let mut examples = examples(&read(page));
    if without_grpcurl() {
        // They build on calls that grpcurl made.
        examples.retain(|example| !example.is_of_a_subsection());
    }
    let listen = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .to_string();
    for example in &mut examples {
        example.replace("cargo run --release --", "target/release/toolgate");
        example.replace(DOCUMENTED, &listen);
    }
    let aside = tempfile::tempdir().unwrap();
    let session = Session {
        page,
        folder,
        aside: aside.path(),
        path: first.map(Path::to_owned).into_iter().chain(path()).collect(),
        listen: &listen,
    };
    session.run(&examples);
}

#[test]
fn its_examples_work() {
    let stage = tempfile::tempdir().unwrap();
    let clone = stage.path().join("clone");
    copy(repository(), &clone);
    fs::create_dir_all(clone.join("target/release")).unwrap();
    let program = clone.join("target/release/toolgate");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolgate"), program).unwrap();
    run(PAGES[0], &clone, None);
}

#[test]
fn every_rpc_answers_grpcurl_as_documented() {
    if without_grpcurl() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run(
        GRPCURL,
        folder.path(),
        Path::new(env!("CARGO_BIN_EXE_toolgate")).parent(),
    );
}

#[test]
fn every_rpc_has_an_example() {
    let page = read(GRPCURL);
    let examples = examples(&page);
    let mut missing = Vec::new();
    for file in FileDescriptorSet::decode(DESCRIPTORS).unwrap().file {
        for service in file.service.iter().filter(|_| file.package() == "toolgate.v1") {
            for method in &service.method {
                let name = format!("{}/{}", service.name(), method.name());
                let called = format!(" toolgate.v1.{name}");
                if !examples.iter().any(|example| example.command.contains(&called)) {
                    missing.push(format!("{GRPCURL}: no example of {name}"));
                }
                if !page.lines().any(|line| line == format!("### {name}")) {
                    missing.push(format!("{GRPCURL}: no heading `### {name}`"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_block_is_run() {
    let pages = fs::read_dir(repository().join("docs")).unwrap();
    let pages = pages.map(|entry| format!("docs/{}", entry.unwrap().file_name().to_str().unwrap()));
    // Those for operators are held against the chart and the images, by their tests.
    let pages =
        pages.filter(|page| page.ends_with(".md") && page != "docs/operations.md" && page != "docs/container.md");
    let mut findings = Vec::new();
    for page in pages.chain([PAGES[0].to_owned()]) {
        let text = read(&page);
        for Block { line, language, .. } in blocks(&text) {
            let runs = match language {
                "console" => PAGES.contains(&page.as_str()),
                language => page != PAGES[0] && RUN_BY_CLIENTS.contains(&language),
            };
            if !runs {
                findings.push(format!("{page}:{line}: nobody runs `{language}` here"));
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
