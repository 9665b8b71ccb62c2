//! Which JavaScript runtime is there, and what the host needs beside it: its own file, and packages that a project may
//! not have installed.
//!
//! *Invariant:* writes below the service's data directory only, and nothing into a project.

#![allow(clippy::disallowed_methods)] // writes the host into the data directory

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;
use toolgate_process::{Environment, Launch, Programs, Stdin};

/// What makes an OpenCode run files as the bun that is in it.
const BE_BUN: (&str, &str) = ("BUN_BE_BUN", "1");

/// The oldest node that runs TypeScript and lets imports be found elsewhere, and from when on the line beside it does.
const NODE: (u32, u32) = (22, 18);
const NODE_23: (u32, u32) = (23, 6);

/// From this on node has no switch for TypeScript that is more than types.
const NODE_WITHOUT_TRANSFORM: u32 = 26;

/// The name of OpenCode's program.
const OPENCODE: &str = "opencode";

/// What bun says its version to, with its commit.
const REVISION: &str = "--revision";

/// How long a runtime may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// What a project's files may import without having it installed, and the part of it that has a name of its own.
const PACKAGES: [(&str, &str); 2] = [("@opencode-ai/plugin", "tool"), ("zod", "v4")];

const FILES: [(&str, &str); 13] = [
    ("host.mjs", include_str!("host_js/host.mjs")),
    ("thread.mjs", include_str!("host_js/thread.mjs")),
    ("client.mjs", include_str!("host_js/client.mjs")),
    ("packages.mjs", include_str!("host_js/packages.mjs")),
    ("schema.mjs", include_str!("host_js/schema.mjs")),
    ("answer.mjs", include_str!("host_js/answer.mjs")),
    ("node_modules/zod/index.js", include_str!("host_js/vendor/zod.js")),
    // What bun finds by NODE_PATH it takes by the name of the file, whatever the package exports.
    (
        "node_modules/zod/v4.js",
        "export * from \"./index.js\";\nexport { default } from \"./index.js\";\n",
    ),
    (
        "node_modules/@opencode-ai/plugin/tool.js",
        "export * from \"./index.js\";\n",
    ),
    ("node_modules/zod/LICENSE", include_str!("host_js/vendor/zod.LICENSE")),
    (
        "node_modules/zod/package.json",
        r#"{"name":"zod","version":"4.1.8","license":"MIT","type":"module","exports":{".":"./index.js","./v4":"./index.js"}}"#,
    ),
    (
        "node_modules/@opencode-ai/plugin/index.js",
        include_str!("host_js/vendor/plugin.js"),
    ),
    (
        "node_modules/@opencode-ai/plugin/package.json",
        r#"{"name":"@opencode-ai/plugin","type":"module","exports":{".":"./index.js","./tool":"./index.js"}}"#,
    ),
];

/// What runtimes escape in the URL of a file.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'`')
    .add(b'{')
    .add(b'}');

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bun,
    /// An OpenCode, which has a bun in it.
    OpenCode,
    Deno,
    Node {
        major: u32,
    },
}

/// A runtime that can run the host.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    kind: Kind,
    program: PathBuf,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum RuntimeError {
    #[error(
        "no JavaScript runtime was found: install bun, deno, node {}.{} or later or OpenCode in the service's PATH, or name \
         one with extensions.runtime",
        NODE.0,
        NODE.1
    )]
    None,
    #[error("extensions.runtime names {name:?}, which is not an executable file")]
    Absent { name: String },
    #[error("{} is node {version}, and {}.{} or later is needed", program.display(), NODE.0, NODE.1)]
    TooOld { program: PathBuf, version: String },
    #[error("{} does not run JavaScript as OpenCode does, whose BUN_BE_BUN makes it a runtime: its version is {version:?}", program.display())]
    NoBun { program: PathBuf, version: String },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Chooses the runtime: the one that is named, else bun, deno, node or an OpenCode, whichever is there first.
pub(super) async fn choose(programs: &Programs, named: Option<&str>, home: &Path) -> Result<Runtime, RuntimeError> {
    if let Some(name) = named {
        let program = programs
            .find(OsStr::new(name), Path::new("/"))
            .ok_or_else(|| RuntimeError::Absent { name: name.to_owned() })?;
        return check(programs, program, home).await;
    }
    for name in ["bun", "deno"] {
        if let Some(program) = programs.find(OsStr::new(name), Path::new("/")) {
            return check(programs, program, home).await;
        }
    }
    for name in ["node", OPENCODE] {
        if let Some(program) = programs.find(OsStr::new(name), Path::new("/"))
            && let Ok(runtime) = check(programs, program, home).await
        {
            return Ok(runtime);
        }
    }
    Err(RuntimeError::None)
}

async fn check(programs: &Programs, program: PathBuf, home: &Path) -> Result<Runtime, RuntimeError> {
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    if name.starts_with("bun") {
        return Ok(Runtime {
            kind: Kind::Bun,
            program,
        });
    }
    if name.starts_with("deno") {
        return Ok(Runtime {
            kind: Kind::Deno,
            program,
        });
    }
    if name.starts_with(OPENCODE) {
        let version = says(programs, &program, REVISION, home).await.unwrap_or_default();
        // OpenCode itself has no such switch.
        return match is_revision(&version) {
            true => Ok(Runtime {
                kind: Kind::OpenCode,
                program,
            }),
            false => Err(RuntimeError::NoBun { program, version }),
        };
    }
    let version = says(programs, &program, "--version", home).await.unwrap_or_default();
    match parse_version(&version) {
        Some(found) if is_new_enough(found) => Ok(Runtime {
            kind: Kind::Node { major: found.0 },
            program,
        }),
        Some(_) | None => Err(RuntimeError::TooOld { program, version }),
    }
}

/// Says whether this is what bun says of its revision: `1.3.5+1e86cebd7`.
fn is_revision(text: &str) -> bool {
    let mut parts = text.trim().splitn(2, '+');
    let is_version = parts
        .next()
        .is_some_and(|version| version.split('.').all(|part| part.parse::<u32>().is_ok()));
    is_version
        && parts
            .next()
            .is_some_and(|commit| !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn is_new_enough(version: (u32, u32)) -> bool {
    version >= NODE && (version.0 != NODE_23.0 || version >= NODE_23)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns what a program says of its version.
async fn says(programs: &Programs, program: &Path, switch: &str, home: &Path) -> Option<String> {
    let launch = Launch {
        call: "extensions".to_owned(),
        program: program.to_path_buf(),
        arguments: vec![switch.into()],
        directory: home.to_path_buf(),
        shown_directory: home.to_path_buf(),
        environment: Environment::from([(BE_BUN.0.into(), BE_BUN.1.into())]),
        stdin: Stdin::Null,
        sandbox: None,
    };
    let mut peer = programs.spawn_piped(launch).await.ok()?;
    drop(peer.take_input());
    let output = peer.take_output()?;
    let mut text = String::new();
    let read = async { output.take(256).read_to_string(&mut text).await };
    let read = tokio::time::timeout(VERSION_LIMIT, read).await;
    peer.stop().await;
    read.ok()?.ok()?;
    Some(text)
}

impl Runtime {
    /// Returns the launch of the host, without its folder and its arguments of its own.
    pub(super) fn launch(
        &self,
        home: &Path,
        directories: &[PathBuf],
    ) -> Result<(PathBuf, Vec<OsString>, Environment), RuntimeError> {
        let host: OsString = home.join("host.mjs").into();
        let mut environment = Environment::new();
        let arguments: Vec<OsString> = match self.kind {
            Kind::Bun | Kind::OpenCode => {
                if self.kind == Kind::OpenCode {
                    environment.insert(BE_BUN.0.into(), BE_BUN.1.into());
                }
                environment.insert("NODE_PATH".into(), home.join("node_modules").into());
                // Bun would read `.env` of the workspace, which may not be trusted, for the programs that tools start.
                ["--no-install", "--env-file=/dev/null"]
                    .into_iter()
                    .map(OsString::from)
                    .chain([host])
                    .collect()
            }
            Kind::Node { major } => {
                let mut arguments: Vec<OsString> = vec!["--no-warnings".into(), host];
                if major < NODE_WITHOUT_TRANSFORM {
                    arguments.insert(1, "--experimental-transform-types".into());
                }
                arguments
            }
            Kind::Deno => {
                let imports = import_map(home, directories).to_string();
                let mut hasher = DefaultHasher::new();
                imports.hash(&mut hasher);
                let map = home.join(format!("imports-{:016x}.json", hasher.finish()));
                write(&map, imports.as_bytes())?;
                let mut switch = OsString::from("--import-map=");
                switch.push(&map);
                let fixed = [
                    "run",
                    "--allow-all",
                    "--quiet",
                    "--no-config",
                    "--no-lock",
                    "--node-modules-dir=manual",
                    "--unstable-sloppy-imports",
                ];
                environment.insert("NO_COLOR".into(), "1".into());
                fixed.into_iter().map(OsString::from).chain([switch, host]).collect()
            }
        };
        Ok((self.program.clone(), arguments, environment))
    }
}

/// Writes what the host is made of, unless it is there. Blocking.
pub(super) fn install(home: &Path) -> Result<(), RuntimeError> {
    FILES
        .iter()
        .try_for_each(|(name, text)| write(&home.join(name), text.as_bytes()))
}

fn write(path: &Path, content: &[u8]) -> Result<(), RuntimeError> {
    let failed = |source| RuntimeError::Write {
        path: path.to_path_buf(),
        source,
    };
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Writes a path as a URL, in the one way in which runtimes write it: they compare them letter by letter.
pub(super) fn file_url(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), ESCAPED))
}

/// Deno finds packages by a map only: ours, for the folders that have none of their own.
fn import_map(home: &Path, directories: &[PathBuf]) -> Value {
    let entry = |package: &str| json!(file_url(&home.join(format!("node_modules/{package}/index.js"))));
    let mut scopes = Map::new();
    for directory in directories {
        let is_there = |package: &str| {
            directory
                .ancestors()
                .any(|folder| folder.join("node_modules").join(package).is_dir())
        };
        let missing = PACKAGES.iter().filter(|(package, _)| !is_there(package));
        let names = missing.flat_map(|(package, part)| [(package, String::new()), (package, format!("/{part}"))]);
        let imports: Map<String, Value> = names
            .map(|(package, part)| (format!("{package}{part}"), entry(package)))
            .collect();
        scopes.insert(file_url(directory) + "/", Value::Object(imports));
    }
    scopes.insert(file_url(home) + "/", json!({ "zod": entry("zod") }));
    json!({ "imports": {}, "scopes": scopes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_versions_of_node() {
        let check = |text: &str, expected: Option<(u32, u32)>| assert_eq!(parse_version(text), expected, "{text:?}");
        check("v22.18.0\n", Some((22, 18)));
        check("v26.1.0-nightly", Some((26, 1)));
        check("22.18.0", None);
        check("", None);
        check("vx.1", None);
    }

    #[test]
    fn knows_the_bun_in_an_opencode() {
        let check = |text: &str, expected: bool| assert_eq!(is_revision(text), expected, "{text:?}");
        check("1.3.5+1e86cebd7\n", true);
        check("1.18.33", false);
        check("1.3.5+", false);
        check("opencode+1", false);
        check("", false);
    }

    #[test]
    fn knows_which_node_will_do() {
        let check = |version: (u32, u32), expected: bool| assert_eq!(is_new_enough(version), expected, "{version:?}");
        check((20, 99), false);
        check((22, 17), false);
        check((22, 18), true);
        check((23, 5), false);
        check((23, 6), true);
        check((24, 0), true);
    }

    #[test]
    fn writes_urls() {
        let check = |path: &str, expected: &str| assert_eq!(file_url(Path::new(path)), expected);
        check("/a/b-c.d_e~f", "file:///a/b-c.d_e~f");
        check("/a b/ü#?%", "file:///a%20b/%C3%BC%23%3F%25");
        check("/@a+b (1)/c,d=e", "file:///@a+b%20(1)/c,d=e");
        check("/\"<>`{}\\", "file:///%22%3C%3E%60%7B%7D%5C");
    }

    #[test]
    fn installs_once() {
        let home = tempfile::tempdir().unwrap();
        install(home.path()).unwrap();
        let host = home.path().join("host.mjs");
        let before = fs::metadata(&host).unwrap().modified().unwrap();
        install(home.path()).unwrap();
        assert_eq!(fs::metadata(&host).unwrap().modified().unwrap(), before);
        fs::write(&host, "other").unwrap();
        install(home.path()).unwrap();
        assert_ne!(fs::read(&host).unwrap(), b"other");
    }
}
