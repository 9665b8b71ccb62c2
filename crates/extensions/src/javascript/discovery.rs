//! Which files of the configuration folders are tools and plugins, and whether they have changed since.
//!
//! *Invariant:* only looks. Bounded in files and depth; what cannot be read counts as absent.

#![allow(clippy::disallowed_methods)] // lists configuration folders, which lie outside the workspace as well

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use serde_json::Value;
use toolgate_fs::Workspace;

/// Entries that are looked at below one configuration folder, and how deep.
const MAX_ENTRIES: usize = 5_000;
const MAX_DEPTH: usize = 6;

/// What package managers write when they have installed something.
const INSTALLED: [&str; 5] = [
    "bun.lock",
    "bun.lockb",
    "node_modules/.package-lock.json",
    "node_modules/.modules.yaml",
    "node_modules/.yarn-state.yml",
];

/// What a change is noticed by.
pub(super) type Stamp = u64;

/// Of which kind a JavaScript file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Tools,
    Plugin,
}

/// A JavaScript file, or the folder of a package.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Script {
    pub(super) kind: Kind,
    pub(super) path: PathBuf,
    /// The path as people know it.
    pub(super) shown: String,
    /// What the configuration says to a plugin.
    pub(super) options: Value,
    pub(super) stamp: Stamp,
}

/// A manifest, which may lie beside an executable.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ManifestFile {
    pub(super) path: PathBuf,
    pub(super) shown: String,
    pub(super) stamp: Stamp,
}

/// Everything that was found, weak to strong.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) scripts: Vec<Script>,
    pub(super) manifests: Vec<ManifestFile>,
    /// Plugins that the configuration names and that are not there, with what is wrong.
    pub(super) missing: Vec<(String, String)>,
    /// What every other file of the folders is at: those that scripts import.
    pub(super) surroundings: Stamp,
}

impl Found {
    /// Leaves plugins out in a mode that has none.
    pub(super) fn for_mode(mut self, pure: bool) -> Self {
        if pure {
            self.scripts.retain(|script| script.kind != Kind::Plugin);
            self.missing.clear();
        }
        self
    }
}

/// Looks for everything that the folders and the configuration key `plugin` name; what that names by a relative path or as
/// a package is looked for from `bases`, and a package in OpenCode's own `cache` then. Blocking.
pub(super) fn look(
    workspace: &Workspace,
    directories: &[PathBuf],
    plugins: &[Value],
    bases: &[&Path],
    cache: Option<&Path>,
) -> Found {
    let mut found = Found::default();
    for entry in plugins {
        let (spec, options) = match entry {
            Value::String(spec) => (spec.as_str(), Value::Null),
            Value::Array(pair) => match pair.first().and_then(Value::as_str) {
                Some(spec) => (spec, pair.get(1).cloned().unwrap_or_default()),
                None => continue,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => continue,
        };
        match plugin_path(spec, bases, cache) {
            Ok(path) => found.scripts.push(script(workspace, Kind::Plugin, path, options)),
            Err(problem) => found.missing.push((spec.to_owned(), problem)),
        }
    }
    let mut around = DefaultHasher::new();
    for directory in directories {
        for (folder, kind) in [
            ("tool", Kind::Tools),
            ("tools", Kind::Tools),
            ("plugin", Kind::Plugin),
            ("plugins", Kind::Plugin),
        ] {
            for path in files_of(&directory.join(folder)) {
                match path.extension().and_then(|ending| ending.to_str()) {
                    Some("js" | "ts") => found.scripts.push(script(workspace, kind, path, Value::Null)),
                    Some("json" | "toml") if kind == Kind::Tools => found.manifests.push(ManifestFile {
                        stamp: manifest_stamp(&path),
                        shown: name_in(workspace, &path),
                        path,
                    }),
                    Some(_) | None => {}
                }
            }
        }
        let entries: BTreeSet<&PathBuf> = found.scripts.iter().map(|script| &script.path).collect();
        stamp_below(directory, &entries, &mut around);
        // Grows with what is installed. Elsewhere all kinds of tools keep things of a moment in that folder.
        add_stamp(&directory.join("node_modules"), &mut around);
    }
    for (base, mark) in bases.iter().flat_map(|base| INSTALLED.map(|mark| (base, mark))) {
        add_stamp(&base.join(mark), &mut around);
    }
    found.surroundings = around.finish();
    found.scripts = last_of_each(found.scripts);
    found
}

/// Of what is named twice the last one counts.
fn last_of_each(scripts: Vec<Script>) -> Vec<Script> {
    let mut seen = BTreeSet::new();
    let mut kept: Vec<Script> = scripts
        .into_iter()
        .rev()
        .filter(|script| seen.insert((script.kind, script.path.clone())))
        .collect();
    kept.reverse();
    kept
}

fn script(workspace: &Workspace, kind: Kind, path: PathBuf, options: Value) -> Script {
    Script {
        kind,
        shown: name_in(workspace, &path),
        stamp: stamp_of(&path),
        path,
        options,
    }
}

fn name_in(workspace: &Workspace, path: &Path) -> String {
    let path = path.strip_prefix(workspace.directory()).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

/// Finds what an entry of the key `plugin` names: a file URL, a path, or a package that is installed.
fn plugin_path(spec: &str, bases: &[&Path], cache: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = spec.strip_prefix("file://") {
        let path = PathBuf::from(percent_decode_str(path).decode_utf8_lossy().into_owned());
        return path
            .exists()
            .then_some(path)
            .ok_or_else(|| "there is no such file".to_owned());
    }
    if spec.starts_with(['.', '/']) {
        let mut candidates = bases.iter().map(|base| toolgate_fs::path::normalize(&base.join(spec)));
        let found = candidates.find(|path| path.exists());
        return found
            .ok_or_else(|| "there is no such file, neither in the workspace nor in a configuration folder".to_owned());
    }
    let version = spec.char_indices().skip(1).find(|(_, letter)| *letter == '@');
    let name = version.map_or(spec, |(at, _)| &spec[..at]);
    if name.split('/').any(|part| part.is_empty() || part == "..") {
        return Err("this is neither a path nor the name of a package".to_owned());
    }
    bases
        .iter()
        .flat_map(|base| base.ancestors())
        .map(|folder| folder.join("node_modules").join(name))
        .find(|package| package.is_dir())
        .or_else(|| cached(cache?, spec, name))
        .ok_or_else(|| {
            let how = match cache {
                Some(_) => "or start OpenCode there once",
                // Whoever does not look there must not send anybody there.
                None => {
                    "or in a configuration folder, or name its path; OpenCode's cache does not count where commands may write \
                     it (sandbox.caches, sandbox.writable)"
                }
            };
            format!(
                "the package is not installed, and is not installed by itself: run `npm install {spec}` in the project, {how}"
            )
        })
}

/// Finds a package where OpenCode has installed it: releases up to 1.1 in one folder with all others, later ones in a folder
/// named after what the configuration says.
fn cached(cache: &Path, spec: &str, name: &str) -> Option<PathBuf> {
    let packages = cache.join("packages");
    let version = spec.strip_prefix(name).and_then(|rest| rest.strip_prefix('@'));
    let inside = |folder: PathBuf| folder.join("node_modules").join(name);
    let named = inside(packages.join(format!("{name}@{}", version.unwrap_or("latest"))));
    // What is fetched from a repository has a folder with a name of OpenCode's own making.
    let is_open = version.is_none_or(|version| version.contains([':', '/']));
    let others = is_open.then(|| {
        let (scope, last) = name
            .rsplit_once('/')
            .map_or((packages.clone(), name), |(scope, last)| (packages.join(scope), last));
        let entries = fs::read_dir(scope).into_iter().flatten().take(MAX_ENTRIES).flatten();
        let of_name = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{last}@")));
        let mut folders: Vec<PathBuf> = of_name.map(|entry| inside(entry.path())).collect();
        folders.sort();
        folders
    });
    let all = std::iter::once(named).chain(others.into_iter().flatten());
    all.chain([inside(cache.to_path_buf())])
        .find(|package| package.is_dir())
}

/// The files of a folder, links followed, in order.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .take(MAX_ENTRIES)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

/// Returns what a file is at; a folder is at what its `package.json` is.
fn stamp_of(path: &Path) -> Stamp {
    let mut hasher = DefaultHasher::new();
    add_stamp(path, &mut hasher);
    if path.is_dir() {
        add_stamp(&path.join("package.json"), &mut hasher);
    }
    hasher.finish()
}

/// A manifest changes with the program beside it: whether that can be run is seen when the manifest is read.
fn manifest_stamp(path: &Path) -> Stamp {
    let mut hasher = DefaultHasher::new();
    add_stamp(path, &mut hasher);
    for neighbour in path.parent().map(files_of).unwrap_or_default() {
        if neighbour.file_stem() == path.file_stem() {
            add_stamp(&neighbour, &mut hasher);
        }
    }
    hasher.finish()
}

fn add_stamp(path: &Path, hasher: &mut DefaultHasher) {
    path.hash(hasher);
    if let Ok(about) = fs::metadata(path) {
        (
            about.ino(),
            about.len(),
            about.mode(),
            about.mtime(),
            about.mtime_nsec(),
        )
            .hash(hasher);
    }
}

/// Adds what the sources below a folder are at, those left out that have a stamp of their own.
fn stamp_below(top: &Path, but: &BTreeSet<&PathBuf>, hasher: &mut DefaultHasher) {
    let mut left = vec![(top.to_path_buf(), MAX_DEPTH)];
    let mut room = MAX_ENTRIES;
    while let Some((folder, depth)) = left.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let mut entries: Vec<_> = entries.take(room).filter_map(Result::ok).collect();
        room = room.saturating_sub(entries.len());
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if depth > 0 && entry.file_name() != "node_modules" && entry.file_name() != ".git" {
                    left.push((path, depth - 1));
                }
            } else if is_source(path.strip_prefix(top).unwrap_or(&path)) && !but.contains(&path) {
                add_stamp(&path, hasher);
            }
        }
    }
}

fn is_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is_lib = path.components().any(|part| {
        let part = part.as_os_str();
        part == "tool" || part == "tools" || part == "plugin" || part == "plugins"
    });
    match ending {
        Some("js" | "ts" | "mjs" | "mts" | "cjs" | "cts" | "jsx" | "tsx") => true,
        Some("json" | "txt" | "md" | "wasm") => is_lib,
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let workspace = Workspace::open("w", folder.path(), None).unwrap();
        (folder, workspace)
    }

    #[test]
    fn finds_files_one_level_deep() {
        let (_folder, workspace) = folder(&[
            (".opencode/tool/one.js", ""),
            (".opencode/tool/sub/nested.js", ""),
            (".opencode/tool/module.mjs", ""),
            (".opencode/tools/two.ts", ""),
            (".opencode/tools/deploy.json", "{}"),
            (".opencode/plugin/p.js", ""),
            (".opencode/plugin/p.json", ""),
        ]);
        let found = look(&workspace, &[workspace.directory().join(".opencode")], &[], &[], None);
        let scripts: Vec<_> = found
            .scripts
            .iter()
            .map(|script| (script.kind, script.shown.as_str()))
            .collect();
        let expected = [
            (Kind::Tools, ".opencode/tool/one.js"),
            (Kind::Tools, ".opencode/tools/two.ts"),
            (Kind::Plugin, ".opencode/plugin/p.js"),
        ];
        assert_eq!(scripts, expected);
        assert_eq!(found.manifests.len(), 1);
    }

    #[test]
    fn pure_is_without_plugins() {
        let (_folder, workspace) = folder(&[
            (".opencode/tool/one.js", ""),
            (".opencode/tools/deploy.json", "{}"),
            (".opencode/plugin/p.js", ""),
            ("q.js", ""),
        ]);
        let directories = [workspace.directory().join(".opencode")];
        let named = [json!("./q.js"), json!(["./gone.js", {}])];
        let found = look(&workspace, &directories, &named, &[workspace.directory()], None);
        assert_eq!((found.scripts.len(), found.missing.len()), (3, 1));
        assert_eq!(found, found.clone().for_mode(false));
        let found = found.for_mode(true);
        let scripts: Vec<&str> = found.scripts.iter().map(|script| script.shown.as_str()).collect();
        assert_eq!(scripts, [".opencode/tool/one.js"]);
        assert_eq!((found.manifests.len(), found.missing.len()), (1, 0));
    }

    #[test]
    fn notices_changes() {
        let (_folder, workspace) = folder(&[(".opencode/tool/a.js", "1"), (".opencode/lib/x.ts", "1")]);
        let directories = [workspace.directory().join(".opencode")];
        let look = || {
            look(
                &workspace,
                &directories,
                &[],
                &[workspace.directory(), &directories[0]],
                None,
            )
        };
        let before = look();
        assert_eq!(before, look());
        fs::write(directories[0].join("lib/x.ts"), "22").unwrap();
        let library = look();
        assert_ne!(before.surroundings, library.surroundings);
        assert_eq!(before.scripts, library.scripts);
        fs::write(directories[0].join("tool/a.js"), "22").unwrap();
        let tool = look();
        assert_eq!(library.surroundings, tool.surroundings);
        assert_ne!(library.scripts, tool.scripts);
    }

    #[test]
    fn notices_what_is_installed_and_nothing_else_of_packages() {
        let (_folder, workspace) = folder(&[
            (".opencode/tool/a.js", "1"),
            ("node_modules/x/index.js", "1"),
            ("tools/notes.md", "1"),
        ]);
        let directory = workspace.directory();
        let directories = [directory.join(".opencode")];
        let surroundings = || look(&workspace, &directories, &[], &[directory, &directories[0]], None).surroundings;
        let mut before = surroundings();
        let mut check = |path: &str, is_noticed: bool| {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "new").unwrap();
            let after = surroundings();
            assert_eq!(before != after, is_noticed);
            before = after;
        };
        check("node_modules/x/index.js", false);
        check("node_modules/.cache", false);
        check("node_modules/.package-lock.json", true);
        check(".opencode/node_modules/y/index.js", true);
        check(".opencode/node_modules/y/index.js", false);
        check("bun.lock", true);
        check(".opencode/agent/a.md", false);
        check(".opencode/tool/prompt.md", true);
    }

    #[test]
    fn finds_what_opencode_has_installed() {
        let (_folder, workspace) = folder(&[
            ("node_modules/old/package.json", "{}"),
            ("packages/new@latest/node_modules/new/package.json", "{}"),
            ("packages/@me/pinned@1.2.3/node_modules/@me/pinned/package.json", "{}"),
            ("packages/git@git+https_x/node_modules/git/package.json", "{}"),
        ]);
        let cache = workspace.directory();
        let check = |spec: &str, expected: Option<&str>| {
            assert_eq!(
                plugin_path(spec, &[], Some(cache)).ok(),
                expected.map(|path| cache.join(path)),
                "{spec}"
            );
        };
        check("old", Some("node_modules/old"));
        check("old@1.0.0", Some("node_modules/old"));
        check("new", Some("packages/new@latest/node_modules/new"));
        check("new@1.0.0", None);
        check(
            "@me/pinned@1.2.3",
            Some("packages/@me/pinned@1.2.3/node_modules/@me/pinned"),
        );
        check("@me/pinned@1.2.4", None);
        check(
            "git@git+https://x/y.git",
            Some("packages/git@git+https_x/node_modules/git"),
        );
        check("absent", None);
    }

    #[test]
    fn finds_what_the_configuration_names() {
        let (_folder, workspace) = folder(&[
            ("node_modules/@me/plug/package.json", "{}"),
            ("extra/p.ts", ""),
            (".opencode/own.js", ""),
        ]);
        let base = workspace.directory().to_path_buf();
        let check = |spec: Value, expected: Option<&str>| {
            let folder = base.join(".opencode");
            let bases: &[&Path] = &[&base, &folder];
            let found = look(
                &workspace,
                std::slice::from_ref(&folder),
                std::slice::from_ref(&spec),
                bases,
                None,
            );
            let path = found.scripts.first().map(|script| script.path.clone());
            assert_eq!(
                path,
                expected.map(|path| base.join(path)),
                "{spec}: {:?}",
                found.missing
            );
            assert_eq!(found.missing.len(), usize::from(expected.is_none()), "{spec}");
        };
        check(json!("@me/plug"), Some("node_modules/@me/plug"));
        check(json!("@me/plug@1.2.3"), Some("node_modules/@me/plug"));
        check(json!(["@me/plug@latest", {"a": 1}]), Some("node_modules/@me/plug"));
        check(json!("./extra/p.ts"), Some("extra/p.ts"));
        check(json!("./own.js"), Some(".opencode/own.js"));
        check(
            json!(format!("file://{}/extra/%70.ts", base.display())),
            Some("extra/p.ts"),
        );
        check(json!("absent"), None);
        check(json!("a/../../b"), None);
        check(json!("%@"), None);
        check(json!("file:///nowhere/x.js"), None);
    }
}
