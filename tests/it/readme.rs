//! What the README and the pages of `docs/` show is run: their `console` blocks, in their order, with the real program
//! and grpcurl, each page by itself against the service that it starts. Their links lead somewhere.
//!
//! Every command has to succeed and to print what the page says. Two things differ from what a reader does: `cargo run
//! --release --` is the program that is already built, and the port is a free one. The blocks in other languages are
//! programs, which the client libraries run; see `docs/guides/README.md`.
//!
//! *Invariant:* nothing is left out, but what needs grpcurl when the runner of the tests has declared that this machine
//! cannot have it.

mod examples;
mod links;
mod session;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::FileDescriptorSet;
use toolgate_config::RawConfig;
use toolgate_contract::DESCRIPTORS;

use self::examples::{Block, blocks, examples};
use self::session::Session;
use crate::fleet::server::Server;

const DOCUMENTED: &str = "127.0.0.1:50551";

const README: &str = "README.md";
const GRPCURL: &str = "docs/guides/grpcurl.md";

/// The most lines of the README: it is an introduction, and `docs/` has the rest.
const MOST_LINES: usize = 200;

/// Where a page's examples are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// In a copy of the repository, as a clone is.
    Clone,
    /// In an empty folder.
    Empty,
    /// In an empty folder, with the address of an empty database in `DATABASE`.
    EmptyWithDatabase,
    /// In an empty folder, and not at all without grpcurl.
    EmptyWithGrpcurl,
}

/// Makes a test of each page with `console` blocks.
macro_rules! pages {
    ($($test:ident: $page:expr, $stage:expr;)*) => {
        /// The pages with `console` blocks.
        const PAGES: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() {
                play($page, $stage);
            }
        )*
    };
}

pages! {
    its_examples_work: README, Stage::Clone;
    the_tour_works: "docs/start.md", Stage::Clone;
    every_rpc_answers_grpcurl_as_documented: GRPCURL, Stage::EmptyWithGrpcurl;
    a_tool_is_lent_as_documented: "docs/guides/host.md", Stage::EmptyWithGrpcurl;
    completions_are_installed_as_documented: "docs/guides/install.md", Stage::Empty;
    sessions_work_as_documented: "docs/guides/sessions.md", Stage::Empty;
    configuration_works_as_documented: "docs/reference/configuration.md", Stage::Empty;
    the_audit_works_as_documented: "docs/operate/audit.md", Stage::Empty;
    a_gateway_works_as_documented: "docs/operate/gateway.md", Stage::Empty;
    a_fleet_works_as_documented: "docs/operate/fleet.md", Stage::EmptyWithDatabase;
    mcp_servers_are_configured_as_documented: "docs/extend/mcp.md", Stage::Empty;
    executables_are_tools_as_documented: "docs/extend/custom-tools.md", Stage::Empty;
    skills_work_as_documented: "docs/extend/skills.md", Stage::Empty;
}

/// What a fence may name beside `console` in the guides: the languages of programs, and what programs print.
const RUN_BY_CLIENTS: [&str; 6] = ["python", "ts", "go", "java", "rust", "text"];

/// Pages for operators: they are held against the chart and the images, by their tests.
const HELD_ELSEWHERE: [&str; 3] = [
    "docs/operate/operations.md",
    "docs/operate/container.md",
    "docs/operate/kubernetes.md",
];

/// The specification has tests of its own.
const SPECIFICATION: &str = "docs/spec/";

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
fn run(page: &str, folder: &Path, first: Option<&Path>, database: Option<&str>) {
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
        database,
    };
    session.run(&examples);
}

/// Runs the examples of a page where it wants them to be run.
fn play(page: &str, stage: Stage) {
    if stage == Stage::EmptyWithGrpcurl && without_grpcurl() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_toolgate"));
    if stage == Stage::EmptyWithDatabase {
        crate::support::test(async {
            let server = Server::start(false).await;
            server.run("postgres", "CREATE DATABASE toolgate").await;
            let address = server.url("toolgate");
            let (folder, program) = (folder.path().to_owned(), program.parent());
            tokio::task::block_in_place(|| run(page, &folder, program, Some(&address)));
        });
        return;
    }
    if stage != Stage::Clone {
        run(page, folder.path(), program.parent(), None);
        return;
    }
    let clone = folder.path().join("clone");
    copy(repository(), &clone);
    fs::create_dir_all(clone.join("target/release")).unwrap();
    std::os::unix::fs::symlink(program, clone.join("target/release/toolgate")).unwrap();
    run(page, &clone, None, None);
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

/// Every page below a folder, by its path from the repository's top.
fn pages_below(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(repository().join(&folder)).unwrap().map(Result::unwrap) {
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                left.push(path);
            } else if path.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Says what is wrong with a block, if anything is: it is run, read, or drawn.
fn wrong(page: &str, block: &Block<'_>) -> Option<String> {
    let language = block.language;
    match language {
        "console" if PAGES.contains(&page) => None,
        "json" => serde_json::from_str::<serde_json::Value>(&block.text())
            .err()
            .map(|error| error.to_string()),
        "toml" => RawConfig::check_file(&block.text())
            .err()
            .map(|error| error.to_string()),
        // What the program prints of itself, compared by `reference`.
        "text" if page == "docs/reference/cli.md" => None,
        "mermaid" if page == README => None,
        language if page.starts_with("docs/guides/") && RUN_BY_CLIENTS.contains(&language) => None,
        _ => Some(format!("nobody runs `{language}` here")),
    }
}

#[test]
fn every_block_is_run() {
    let pages = pages_below("docs");
    let pages = pages.iter().map(String::as_str).chain([README]);
    let held_here = |page: &&str| !HELD_ELSEWHERE.contains(page) && !page.starts_with(SPECIFICATION);
    let mut findings = Vec::new();
    for page in pages.filter(held_here) {
        let text = read(page);
        for block in blocks(&text) {
            findings.extend(wrong(page, &block).map(|why| format!("{page}:{}: {why}", block.line)));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn the_readme_is_short() {
    let lines = read(README).lines().count();
    assert!(
        lines <= MOST_LINES,
        "{lines} lines, more than {MOST_LINES}: move some to docs/"
    );
}
