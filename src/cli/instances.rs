//! The services of this user that run now: a private folder with a file for each, so that commands find them.
//!
//! The folder is below the home folder, and only without one where the login session has its sockets: what starts an MCP
//! server often hands on little more of the environment than `HOME`.
//!
//! *Invariant:* a service holds the lock of its file as long as it lives, so a file that can be locked is of a dead one, and
//! is removed by whoever finds it. Only folders and files that belong to this user, and that nobody else may write, count.

#![allow(clippy::disallowed_methods)] // the user's own state, not files of a workspace

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toolgate_config::Environment;

/// The largest file.
const MAX_BYTES: u64 = 1 << 20;

/// A service that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Instance {
    /// Where it is, as it would be named on the command line.
    pub(super) url: String,
    /// Where it listens on TCP.
    #[serde(default)]
    pub(super) tcp: Option<SocketAddr>,
    /// What its environment says of what calls may do.
    #[serde(default)]
    pub(super) settings: Settings,
    /// This run of it.
    pub(super) id: String,
    /// The process.
    pub(super) pid: u32,
    /// Whether it goes on until somebody stops it, and not only as long as one client or command.
    pub(super) stays: bool,
    /// The configuration file that it was told to use.
    pub(super) config: Option<PathBuf>,
    /// Its data directory.
    pub(super) data_dir: Option<PathBuf>,
    /// Names and folders of the workspaces that it began with.
    pub(super) workspaces: Vec<(String, PathBuf)>,
    /// The folders below which it may have opened others since.
    #[serde(default)]
    pub(super) roots: Vec<PathBuf>,
    /// The session that it was started for, if it serves only one.
    #[serde(default)]
    pub(super) session: Option<String>,
}

/// The variables that say which rules and which plugins there are.
const OF_RULES: [&str; 7] = [
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_CONTENT",
    "OPENCODE_CONFIG_DIR",
    "OPENCODE_PERMISSION",
    "OPENCODE_DISABLE_PROJECT_CONFIG",
    "OPENCODE_PURE",
    "OPENCODE_DISABLE_FILETIME_CHECK",
];

/// The variables that begin so bound what calls may do. What a service was started with, its user has said of it; what is set where a
/// call is made must not be passed over.
const OF_BOUNDS: [&str; 5] = [
    "TOOLGATE_SANDBOX_",
    "TOOLGATE_PERMISSION_",
    "TOOLGATE_NETWORK_",
    "TOOLGATE_SHELL_",
    "TOOLGATE_REDACT_",
];

/// Says whether a variable says what calls may do.
pub(super) fn is_of_rules(name: &str) -> bool {
    OF_RULES.contains(&name) || OF_BOUNDS.iter().any(|part| name.starts_with(part))
}

/// What an environment says of what calls may do: variables with the digests of their values, which may be secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Notes the settings of an environment for a run of a service.
    pub(super) fn of(environment: &Environment, id: &str) -> Self {
        let variables = environment
            .vars()
            .filter(|(name, value)| is_of_rules(name) && !value.is_empty());
        let home = environment.config_home().unwrap_or_default();
        let home = home.to_string_lossy().into_owned();
        let all = variables.chain([("XDG_CONFIG_HOME", home.as_str())]);
        Self(all.map(|(name, value)| (name.to_owned(), digest(id, value))).collect())
    }

    /// Returns the variables for which a call in this environment would be judged otherwise than by the service.
    pub(super) fn differences(&self, environment: &Environment, id: &str) -> Vec<String> {
        let here = Self::of(environment, id);
        let names: BTreeSet<&String> = self.0.keys().chain(here.0.keys()).collect();
        let differs = |name: &&&String| {
            let (there, here) = (self.0.get(**name), here.0.get(**name));
            let is_bound = OF_BOUNDS.iter().any(|part| name.starts_with(part));
            there != here && !(is_bound && here.is_none())
        };
        names.iter().filter(differs).map(|name| (*name).clone()).collect()
    }
}

fn digest(id: &str, value: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(id);
    hasher.update([0]);
    hasher.update(value);
    hex::encode(hasher.finalize())
}

/// Keeps a service among those that are found.
#[derive(Debug)]
pub(super) struct Registration {
    path: PathBuf,
    _lock: File,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Left behind it is swept by the next who looks.
        let _ = fs::remove_file(&self.path);
    }
}

/// Lets commands find a service, if there is a folder for that.
pub(super) fn register(folders: &[PathBuf], instance: &Instance) -> Option<Registration> {
    for folder in folders {
        match write(folder, instance) {
            Ok(registration) => return Some(registration),
            Err(error) => tracing::debug!(%error, "{} cannot hold running services", folder.display()),
        }
    }
    None
}

fn write(folder: &Path, instance: &Instance) -> io::Result<Registration> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if !is_private(folder) {
        return Err(io::Error::other("other users can write to it"));
    }
    let (new, path) = (
        folder.join(format!(".{}", instance.id)),
        folder.join(format!("{}.json", instance.id)),
    );
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file
        .lock()
        .and_then(|()| file.write_all(serde_json::to_string(instance)?.as_bytes()))
        .and_then(|()| fs::rename(&new, &path));
    if let Err(error) = written {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    Ok(Registration { path, _lock: file })
}

/// Returns the services that run, in the order of their ids, which is that of their starts.
pub(super) fn running(folders: &[PathBuf]) -> Vec<Instance> {
    let mut found: Vec<Instance> = folders.iter().flat_map(|folder| listed(folder)).collect();
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found
}

fn listed(folder: &Path) -> Vec<Instance> {
    let Some(entries) = fs::read_dir(folder).ok().filter(|_| is_private(folder)) else {
        return Vec::new();
    };
    let files = entries.flatten().map(|entry| entry.path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| read(&path))
        .collect()
}

fn read(path: &Path) -> Option<Instance> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) => {
            let _ = fs::remove_file(path);
            return None;
        }
        Err(TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn is_private(folder: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn instance(id: &str) -> Instance {
        Instance {
            url: format!("unix:/run/{id}"),
            id: id.to_owned(),
            pid: 1,
            stays: true,
            workspaces: vec![("default".to_owned(), PathBuf::from("/w"))],
            ..Instance::default()
        }
    }

    #[test]
    fn settings_that_would_judge_otherwise_are_named() {
        let environment = |vars: &[(&str, &str)]| {
            let vars = [("HOME", "/nowhere")].iter().chain(vars);
            Environment::new(vars.map(|&(name, value)| (name.to_owned(), value.to_owned())), "/")
        };
        let check = |there: &[(&str, &str)], here: &[(&str, &str)], expected: &[&str]| {
            let settings = Settings::of(&environment(there), "run");
            assert_eq!(
                settings.differences(&environment(here), "run"),
                expected,
                "{there:?} {here:?}"
            );
            assert!(
                there.iter().all(|(_, value)| !format!("{settings:?}").contains(value)),
                "{settings:?}"
            );
        };
        let asks = ("OPENCODE_PERMISSION", "{\"bash\": \"ask\"}");
        let sandbox = ("TOOLGATE_SANDBOX_MODE", "read-only");
        check(&[], &[("TOOLGATE_SESSION", "s"), ("LANG", "C")], &[]);
        check(&[asks, sandbox], &[asks, sandbox], &[]);
        check(&[asks], &[], &[asks.0]);
        check(&[], &[asks], &[asks.0]);
        check(
            &[("OPENCODE_CONFIG", "/a/b")],
            &[("OPENCODE_CONFIG", "/a/c")],
            &["OPENCODE_CONFIG"],
        );
        // The service was told so on purpose.
        check(&[sandbox], &[], &[]);
        check(&[], &[sandbox], &[sandbox.0]);
        check(&[], &[("XDG_CONFIG_HOME", "/elsewhere")], &["XDG_CONFIG_HOME"]);
    }

    #[test]
    fn those_that_run_are_found_and_dead_ones_swept() {
        let top = tempfile::tempdir().unwrap();
        let folders = [top.path().join("a/instances"), top.path().join("none")];
        assert!(running(&folders).is_empty());
        let two = register(&folders, &instance("two")).unwrap();
        let one = register(&folders, &instance("one")).unwrap();
        assert_eq!(running(&folders), [instance("one"), instance("two")]);
        drop(two);
        assert_eq!(running(&folders), [instance("one")]);

        // A service that was killed leaves its file, and the kernel gives its lock back.
        let dead = folders[0].join("dead.json");
        fs::write(&dead, serde_json::to_string(&instance("dead")).unwrap()).unwrap();
        assert_eq!(running(&folders), [instance("one")]);
        assert!(!dead.exists());

        // What others may write to is not believed.
        fs::set_permissions(&folders[0], fs::Permissions::from_mode(0o777)).unwrap();
        assert!(running(&folders).is_empty());
        assert!(register(&folders[..1], &instance("three")).is_none());
        drop(one);
    }
}
