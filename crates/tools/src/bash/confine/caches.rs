//! Caches of toolchains that are made before a command runs which may write them and nothing beside them.
//!
//! *Invariant:* only what the configuration says is a cache, and only for programs that would make it themselves.

use std::path::{Path, PathBuf};

use toolgate_process::sandbox::Sandbox;

/// Programs, and what they make below the home folder; what ends with a slash is a folder.
const MADE: &[(&str, &str)] = &[
    ("npm npx pnpm yarn", ".npm/_cacache/ .npm/_logs/ .npm/_npx/ .cache/"),
    (
        "cargo",
        ".cargo/registry/ .cargo/git/ .cargo/.package-cache .cargo/.package-cache-mutate .cargo/.global-cache",
    ),
    ("go", "go/pkg/ .cache/"),
    ("pip pip3 uv pipx poetry pytest python python3 pre-commit", ".cache/"),
    ("mvn mvnw", ".m2/repository/ .m2/wrapper/"),
    (
        "gradle gradlew",
        ".gradle/caches/ .gradle/daemon/ .gradle/native/ .gradle/notifications/ .gradle/workers/ .gradle/wrapper/",
    ),
];

/// A cache that may have to be made.
pub(super) struct Cache {
    path: PathBuf,
    is_folder: bool,
}

/// Returns what these programs would make.
pub(super) fn caches_of(programs: &[String], home: Option<&Path>) -> Vec<Cache> {
    let Some(home) = home else { return Vec::new() };
    let made = MADE
        .iter()
        .filter(|(names, _)| {
            names
                .split(' ')
                .any(|name| programs.iter().any(|program| program == name))
        })
        .flat_map(|(_, made)| made.split(' '));
    made.map(|name| Cache {
        path: home.join(name.trim_end_matches('/')),
        is_folder: name.ends_with('/'),
    })
    .collect()
}

/// Makes those that are not there. Blocking.
pub(super) fn make(caches: &[Cache], sandbox: &Sandbox) {
    for Cache { path, is_folder } in caches {
        // Where it cannot be made the program says so itself.
        let _ = sandbox.make_cache(path, *is_folder);
    }
}
