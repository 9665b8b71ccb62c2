//! The environment of the process as a value: variables, current folder, the machine's folder for settings.
//!
//! *Invariant:* nothing else in `config` asks the process. Tests make their own environment and mutate none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toolgate_fs::path::normalize;

/// What configuration may know of the process.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    vars: BTreeMap<String, String>,
    cwd: PathBuf,
    system_dir: PathBuf,
}

impl Environment {
    /// Makes an environment of variables and an absolute current folder; the machine's settings are in `/etc`.
    pub fn new(vars: impl IntoIterator<Item = (String, String)>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            vars: vars.into_iter().collect(),
            cwd: cwd.into(),
            system_dir: PathBuf::from("/etc"),
        }
    }

    /// Looks for the machine's settings elsewhere than in `/etc`.
    pub fn with_system_dir(self, system_dir: impl Into<PathBuf>) -> Self {
        Self {
            system_dir: system_dir.into(),
            ..self
        }
    }

    /// Returns a variable; an empty one counts as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.vars
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// Returns every variable.
    pub fn vars(&self) -> impl Iterator<Item = (&str, &str)> {
        self.vars.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Says whether a switch is on: `1` or `true`, in any case.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    /// Returns the current folder.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the home folder, if the process has one.
    pub fn home(&self) -> Option<&Path> {
        self.folder("HOME")
    }

    /// Returns the folder of a user's settings: `$XDG_CONFIG_HOME` or `~/.config`.
    pub fn config_home(&self) -> Option<PathBuf> {
        self.folder_or("XDG_CONFIG_HOME", ".config")
    }

    /// Returns the folder of a user's data: `$XDG_DATA_HOME` or `~/.local/share`.
    pub fn data_home(&self) -> Option<PathBuf> {
        self.folder_or("XDG_DATA_HOME", ".local/share")
    }

    /// Returns the folder of what can be had again: `$XDG_CACHE_HOME` or `~/.cache`.
    pub fn cache_home(&self) -> Option<PathBuf> {
        self.folder_or("XDG_CACHE_HOME", ".cache")
    }

    /// Returns the folder for sockets, if the login session has one.
    pub fn runtime_dir(&self) -> Option<&Path> {
        self.folder("XDG_RUNTIME_DIR")
    }

    /// Returns where services of this user say that they run, the first being the one to use if it can be had.
    pub fn instance_folders(&self) -> Vec<PathBuf> {
        let home = self.home().map(|home| home.join(".local/state"));
        let folders = home.into_iter().chain(self.runtime_dir().map(Path::to_path_buf));
        folders.map(|folder| folder.join("toolgate/instances")).collect()
    }

    /// Returns the folder of the machine's settings.
    pub fn system_dir(&self) -> &Path {
        &self.system_dir
    }

    /// Makes a path absolute, without `.` and `..`: `~/` is the home folder, what is relative belongs to `base`.
    pub fn resolve(&self, written: &str, base: &Path) -> PathBuf {
        normalize(&match (written.strip_prefix("~/"), self.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(written),
        })
    }

    fn folder_or(&self, name: &str, below_home: &str) -> Option<PathBuf> {
        let folder = self.folder(name).map(Path::to_path_buf);
        folder.or_else(|| Some(self.home()?.join(below_home)))
    }

    /// A relative folder in such a variable is to be ignored, says the XDG specification.
    fn folder(&self, name: &str) -> Option<&Path> {
        self.get(name).map(Path::new).filter(|folder| folder.is_absolute())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_plain() {
        let env = Environment::new([("HOME".to_owned(), "/home/u".to_owned())], "/");
        let check = |written: &str, expected: &str| {
            assert_eq!(
                env.resolve(written, Path::new("/w/s")),
                Path::new(expected),
                "{written}"
            );
        };
        check("lib", "/w/s/lib");
        check("./lib/", "/w/s/lib");
        check("../lib/./a", "/w/lib/a");
        check("../../../lib", "/lib");
        check("~/x/../lib", "/home/u/lib");
        check("/a/../b", "/b");
        check("a/~/b", "/w/s/a/~/b");
    }
}
