//! The folders of a case: workspace, outside, home and data below one fresh folder, and what is in them before and after.
//!
//! The configuration of a case goes into the home folder (`.config/opencode/opencode.json`), never into the workspace: a
//! case that lists or searches the workspace must see only what it put there.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::case::Pairs;
use crate::entry::{Content, Entry};
use crate::vars::Vars;
use crate::{lsp, mcp};

/// Where the configuration of a case is written, below its home.
const CONFIG: &str = ".config/opencode/opencode.json";

/// A `.git` folder with one empty commit, made once and copied for every case.
pub(crate) struct GitTemplate(TempDir);

impl GitTemplate {
    /// Makes it with `git`, or by hand where there is no `git`.
    pub(crate) fn make() -> Result<Self> {
        let folder = TempDir::new().context("making a folder for the template of repositories")?;
        if git(folder.path(), &["init", "-q", "--template="]).is_ok() {
            git(folder.path(), &["commit", "-q", "--allow-empty", "-m", "first"])?;
        } else {
            let dot_git = folder.path().join(".git");
            fs::create_dir_all(dot_git.join("objects"))?;
            fs::create_dir_all(dot_git.join("refs/heads"))?;
            fs::write(dot_git.join("HEAD"), "ref: refs/heads/main\n")?;
        }
        Ok(Self(folder))
    }

    fn copy_into(&self, workspace: &Path) -> Result<()> {
        copy_folder(&self.0.path().join(".git"), &workspace.join(".git"))
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Result<()> {
    let settings = [
        "init.defaultBranch=main",
        "user.name=case",
        "user.email=case@localhost",
        "commit.gpgsign=false",
        // What git does in the background would change the folder while it is copied.
        "maintenance.auto=false",
    ];
    let output = Command::new("git")
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .context("starting git")?;
    if !output.status.success() {
        bail!(
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry.with_context(|| format!("reading {}", from.display()))?;
        let target = to.join(entry.file_name());
        if entry.file_type().context("the kind of a file")?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("creating {}", target.display()))?;
        }
    }
    Ok(())
}

/// What a case puts into its folders.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    pub(crate) files: Option<&'a Pairs<Entry>>,
    pub(crate) outside: Option<&'a Pairs<Entry>>,
    pub(crate) home: Option<&'a Pairs<Entry>>,
    pub(crate) config: Option<&'a Map<String, Value>>,
    pub(crate) mcp: Option<&'a Map<String, Value>>,
    /// The address of the case's web server.
    pub(crate) http: Option<&'a str>,
    pub(crate) lsp: Option<&'a Map<String, Value>>,
    pub(crate) cwd: Option<&'a str>,
    pub(crate) without_git: bool,
}

/// The folders of one case; gone when it is dropped.
pub(crate) struct Folders {
    root: PathBuf,
    cwd: PathBuf,
    http: Option<String>,
    _root: TempDir,
}

impl Folders {
    /// Makes the folders and fills them.
    pub(crate) fn make(template: &GitTemplate, setup: &Setup<'_>) -> Result<Self> {
        let root = TempDir::with_prefix("conformance-").context("making the folder of the case")?;
        // Expectations name real paths, and the folder for temporary files may be a link.
        let path = root.path().canonicalize().context("the folder of the case")?;
        let folders = Self {
            cwd: path.join("workspace").join(setup.cwd.unwrap_or_default()),
            root: path,
            http: setup.http.map(str::to_owned),
            _root: root,
        };
        for folder in [
            folders.workspace(),
            folders.outside(),
            folders.home(),
            folders.data(),
            folders.cwd.clone(),
        ] {
            fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        if !setup.without_git {
            template.copy_into(&folders.workspace())?;
        }
        let vars = folders.vars();
        let parts = [
            (setup.files, folders.workspace()),
            (setup.outside, folders.outside()),
            (setup.home, folders.home()),
        ];
        for (entries, below) in parts {
            for (name, entry) in entries.iter().flat_map(|entries| &entries.0) {
                let path = below.join(name);
                write_entry(&path, entry, &vars).with_context(|| format!("creating {}", path.display()))?;
            }
        }
        if let Some(config) = setup.config.filter(|config| !config.is_empty()) {
            folders.write_config(&vars.object(config))?;
        }
        if let Some(servers) = setup.mcp {
            folders.write_config(&mcp::configuration(&vars.object(servers), &folders.mcp())?)?;
        }
        if let Some(servers) = setup.lsp {
            folders.write_config(&lsp::configuration(&vars.object(servers), &folders.lsp())?)?;
        }
        Ok(folders)
    }

    /// Returns the workspace's root.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// Returns the folder in which the service works.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the folder beside the workspace.
    pub(crate) fn outside(&self) -> PathBuf {
        self.root.join("outside")
    }

    /// Returns the home folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns the folder of the fake MCP servers.
    pub(crate) fn mcp(&self) -> PathBuf {
        self.root.join("mcp")
    }

    /// Returns the folder of the fake language servers.
    pub(crate) fn lsp(&self) -> PathBuf {
        self.root.join("lsp")
    }

    /// Returns the service's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Returns a name that no other case of the run has.
    pub(crate) fn name(&self) -> String {
        self.root.display().to_string()
    }

    /// Returns the folder of all that a case has.
    pub(crate) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// Returns the service's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.root.join("s.sock")
    }

    /// Returns the file that takes what the service prints.
    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("server.log")
    }

    /// Returns the placeholders that hold from the start.
    pub(crate) fn vars(&self) -> Vars {
        let mut vars = Vars::default();
        vars.set("workspace", self.workspace().display().to_string());
        vars.set("outside", self.outside().display().to_string());
        vars.set("home", self.home().display().to_string());
        if let Some(address) = &self.http {
            vars.set("http", address.clone());
        }
        vars
    }

    fn write_config(&self, config: &Map<String, Value>) -> Result<()> {
        let path = self.home().join(CONFIG);
        let mut merged = match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).with_context(|| format!("merging into {}", path.display()))?,
            Err(_) => Map::new(),
        };
        merge(&mut merged, config);
        fs::create_dir_all(path.parent().context("the configuration has a folder")?)?;
        fs::write(&path, serde_json::to_vec_pretty(&merged)?).with_context(|| format!("writing {}", path.display()))
    }

    /// Checks one expected entry (`None`: nothing may be there).
    ///
    /// # Errors
    /// What is there instead.
    pub(crate) fn check_entry(&self, name: &str, expected: Option<&Entry>, vars: &Vars) -> Result<(), String> {
        let path = self.workspace().join(vars.text(name));
        let found = fs::symlink_metadata(&path);
        let Some(entry) = expected else {
            return match found {
                Ok(_) => Err("expected: not there\ngot:      it is there".to_owned()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                // A parent that is a file: nothing can be there.
                Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(()),
                Err(error) => Err(error.to_string()),
            };
        };
        let found = found.map_err(|error| format!("expected: it is there\ngot:      {error}"))?;
        check_content(&path, &entry.content, &found, vars)?;
        if entry.mtime_seconds_ago.is_some() {
            return Err("a modification time cannot be expected".to_owned());
        }
        let mode = found.permissions().mode() & 0o7777;
        match entry.mode {
            Some(expected) if expected != mode => Err(format!("expected: mode {expected:04o}\ngot:      {mode:04o}")),
            Some(_) | None => Ok(()),
        }
    }
}

fn check_content(path: &Path, expected: &Content, found: &fs::Metadata, vars: &Vars) -> Result<(), String> {
    let is_as_expected = match expected {
        Content::Folder => found.is_dir(),
        Content::Fifo => found.file_type().is_fifo(),
        Content::Symlink(_) => found.is_symlink(),
        // A file is compared through links, as a reader would see it, but only if it can be read without waiting.
        Content::Text(_) | Content::Bytes(_) => fs::metadata(path).is_ok_and(|target| target.is_file()),
    };
    if !is_as_expected {
        return Err(format!(
            "expected: another kind of file\ngot:      {:?}",
            found.file_type()
        ));
    }
    match expected {
        Content::Folder | Content::Fifo => Ok(()),
        Content::Symlink(target) => {
            let got = fs::read_link(path).map_err(|error| error.to_string())?;
            let target = vars.text(target);
            if got == Path::new(&target) {
                return Ok(());
            }
            Err(format!(
                "expected: link to {target}\ngot:      link to {}",
                got.display()
            ))
        }
        Content::Text(text) => check_bytes(path, vars.text(text).as_bytes()),
        Content::Bytes(bytes) => check_bytes(path, bytes),
    }
}

fn check_bytes(path: &Path, expected: &[u8]) -> Result<(), String> {
    let got = fs::read(path).map_err(|error| error.to_string())?;
    if got == expected {
        return Ok(());
    }
    let show = |bytes: &[u8]| bytes.escape_ascii().to_string().chars().take(1500).collect::<String>();
    Err(format!(
        "expected: \"{}\"\ngot:      \"{}\"",
        show(expected),
        show(&got)
    ))
}

fn write_entry(path: &Path, entry: &Entry, vars: &Vars) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match &entry.content {
        Content::Text(text) => fs::write(path, vars.text(text))?,
        Content::Bytes(bytes) => fs::write(path, bytes)?,
        Content::Folder => fs::create_dir_all(path)?,
        Content::Symlink(target) => symlink(vars.text(target), path)?,
        Content::Fifo => make_fifo(path)?,
    }
    let is_special = matches!(entry.content, Content::Symlink(_) | Content::Fifo);
    if is_special && (entry.mode.is_some() || entry.mtime_seconds_ago.is_some()) {
        bail!("a link or a pipe has neither mode nor time of its own");
    }
    if let Some(seconds) = entry.mtime_seconds_ago {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::open(path)?.set_times(fs::FileTimes::new().set_modified(time))?;
    }
    if let Some(mode) = entry.mode {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn make_fifo(path: &Path) -> Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

/// Lays one configuration over another: objects merge deeply, anything else replaces. A key that exists keeps its
/// position, a new one goes to the end: in a permission block the order decides.
pub(crate) fn merge(base: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge(base, over),
            (Some(slot), value) => *slot = value.clone(),
            (None, value) => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}
