//! Where attacks are run: a workspace, a folder outside and a home of their own, and a listener, all looked at afterwards.
//!
//! *Invariant:* what a line did is seen, not assumed; each line finds everything as the first one did.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolgate_process::sandbox::{Confinement, Demand, Mode, Sandbox};
use toolgate_process::{Environment, Launch, Programs, Settings, Stdin};

use super::attacks::Effect;

/// Attacks end by themselves within moments.
const LIMIT: Duration = Duration::from_secs(4);

/// How much of the output is looked at.
const KEPT: usize = 256 * 1024;

/// What the files outside hold.
const SECRET: &str = "s3cr3t-value-77";

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    kind: char,
    mode: u32,
    /// The size and the time of the last change; nothing of folders.
    stamp: (u64, i64, i64),
}

type Listing = BTreeMap<PathBuf, Entry>;

/// Makes what every place starts with: the folders `space`, `outside`, `home` and `tmp`.
pub(super) fn template(root: &Path) {
    let (work, outside) = (root.join("space"), root.join("outside"));
    for name in [
        "space/src",
        "space/sub",
        "space/empty",
        "outside/empty",
        "outside/src",
        "home",
        "tmp",
    ] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let big: String = (0..60_000).map(|i| format!("{}\n", i * 7919 % 100_000)).collect();
    for (name, text) in [
        ("space/x", "1\n2\n3\n"),
        ("space/y", "y\n"),
        ("space/big", &big),
        ("space/keep.txt", "keep\n"),
        ("space/sub/keep.txt", "keep\n"),
        ("space/src/main.c", "int main(void) { return 0; }\n"),
        ("space/c", "#!/bin/sh\n: > pwned\n"),
        ("space/Makefile", "all: ; @:\n"),
        (
            "space/package.json",
            "{\"name\":\"w\",\"version\":\"1.0.0\",\"scripts\":{\"t\":\"true\"}}\n",
        ),
        ("home/victim", "victim\n"),
        ("outside/secret.txt", &format!("{SECRET}\n")),
        ("outside/one.txt", "1\n2\n3\n"),
        ("outside/conf", &format!("[s]\n\ta = {SECRET}\n")),
        ("outside/conf.env", &format!("S={SECRET}\n")),
        ("outside/j.json", &format!("{{\"s\":\"{SECRET}\"}}\n")),
        ("outside/p.py", &format!("\"\"\"{SECRET}\"\"\"\n")),
        ("outside/src/a", &format!("{SECRET}\n")),
    ] {
        fs::write(root.join(name), text).unwrap();
    }
    fs::set_permissions(work.join("c"), fs::Permissions::from_mode(0o755)).unwrap();
    let git = |folder: &Path, arguments: &[&str]| started("git", folder, root, arguments);
    for (folder, message) in [(&work, "first"), (&outside.join("src"), SECRET)] {
        git(folder, &["init", "-q", "-b", "main", "--template="]);
        git(folder, &["config", "user.name", "a"]);
        git(folder, &["config", "user.email", "a@b"]);
        git(folder, &["add", "-A"]);
        git(folder, &["commit", "-q", "-m", message]);
    }
    symlink("../outside", work.join("link")).unwrap();
    fs::create_dir(work.join(".git/hooks")).unwrap();
    fs::create_dir(work.join(".git/info")).unwrap();
    git(&outside, &["init", "-q", "--bare", "--template=", "repo.git"]);
    git(&work, &["init", "-q", "--bare", "--template=", "rem.git"]);
    git(
        &outside.join("src"),
        &["bundle", "create", "-q", "../bundle", "HEAD", "main"],
    );
    started("tar", &outside, root, &["cf", "t.tar", "secret.txt"]);
}

fn started(program: &str, folder: &Path, root: &Path, arguments: &[&str]) {
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("HOME", root.join("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// A place for one attack at a time.
pub(super) struct Place {
    root: PathBuf,
    template: PathBuf,
    clean: Listing,
    listener: TcpListener,
    programs: Programs,
}

impl Place {
    /// To be called inside a runtime.
    pub(super) fn new(root: PathBuf, template: PathBuf) -> Self {
        let environment: Environment = [
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("SHELL".into(), "/bin/bash".into()),
            ("HOME".into(), root.join("home").into()),
            ("TMPDIR".into(), root.join("tmp").into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ]
        .into();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut place = Self {
            programs: Programs::new(&environment, Settings::default()).unwrap(),
            clean: Listing::new(),
            root,
            template,
            listener,
        };
        fs::create_dir_all(&place.root).unwrap();
        place.restore();
        place
    }

    /// Returns the workspace.
    pub(super) fn work(&self) -> PathBuf {
        self.root.join("space")
    }

    /// Puts in what is different in each place.
    pub(super) fn fill(&self, line: &str) -> String {
        let port = self.listener.local_addr().unwrap().port().to_string();
        line.replace("OUTSIDE", self.root.join("outside").to_str().unwrap())
            .replace("PORT", &port)
    }

    /// Runs a line and returns what it did.
    pub(super) async fn run(&mut self, line: &str, sandbox: Option<&Sandbox>) -> BTreeSet<Effect> {
        let confinement = sandbox.map(|sandbox| Arc::new(self.confinement(sandbox)));
        let launch = Launch {
            call: "attack".to_owned(),
            program: self.programs.shell().unwrap().to_path_buf(),
            arguments: vec!["-c".into(), OsString::from(self.fill(line))],
            directory: self.work(),
            shown_directory: self.work(),
            environment: Default::default(),
            stdin: Stdin::Null,
            sandbox: confinement,
        };
        let mut printed = Vec::new();
        // A line with a NUL, or one that is too long, is not started at all.
        if let Ok(mut running) = self.programs.start(launch).await {
            let mut output = running.take_output().unwrap();
            let token = CancellationToken::new();
            let read = async {
                while let Some(chunk) = output.next().await {
                    let room = KEPT.saturating_sub(printed.len()).min(chunk.len());
                    printed.extend_from_slice(&chunk[..room]);
                }
            };
            tokio::join!(running.supervise(LIMIT, &token), read);
            self.programs.end_call("attack").await;
        }
        let mut effects = self.look(sandbox.is_some());
        if memchr::memmem::find(&printed, SECRET.as_bytes()).is_some() {
            effects.insert(Effect::Reads);
        }
        self.restore();
        effects
    }

    /// Ends what is left.
    pub(super) async fn shutdown(self) {
        self.programs.shutdown().await;
    }

    fn confinement(&self, sandbox: &Sandbox) -> Confinement {
        let demand = Demand {
            walls: true,
            ..Demand::new(Mode::WorkspaceWrite, self.work())
        };
        sandbox.confine(&demand).unwrap()
    }

    /// Says what has changed, and whether somebody connected. Landlock has no right for modes: within walls they are left out.
    fn look(&self, has_walls: bool) -> BTreeSet<Effect> {
        let mut effects = BTreeSet::new();
        while let Ok((stream, _)) = self.listener.accept() {
            drop(stream);
            effects.insert(Effect::Connects);
        }
        let now = listing(&self.root);
        for path in self.clean.keys().chain(now.keys()) {
            let (before, after) = (self.clean.get(path), now.get(path));
            let is_mode_only = |before: &Entry, after: &Entry| (before.kind, before.stamp) == (after.kind, after.stamp);
            let is_alike = has_walls
                && before
                    .zip(after)
                    .is_some_and(|(before, after)| is_mode_only(before, after));
            if before == after || is_alike {
                continue;
            }
            if path.starts_with("outside") || path == Path::new("home/victim") {
                effects.insert(Effect::Writes);
            }
            if path.starts_with("space") && after.is_none() && !path.starts_with("space/.git") {
                effects.insert(Effect::Deletes);
            }
            if path.ends_with("pwned") && before.is_none() {
                effects.insert(Effect::Runs);
            }
            if path == Path::new("space/rem.git/refs/heads/z") {
                effects.insert(Effect::Pushes);
            }
        }
        effects
    }

    /// Makes everything as it was.
    fn restore(&mut self) {
        let now = listing(&self.root);
        for path in now.keys().rev().filter(|path| now.get(*path) != self.clean.get(*path)) {
            let full = self.root.join(path);
            let is_kept = now[path].kind == 'd' && self.clean.get(path).is_some_and(|entry| entry.kind == 'd');
            if is_kept {
                fs::set_permissions(&full, fs::Permissions::from_mode(self.clean[path].mode)).unwrap();
            } else if now[path].kind == 'd' {
                fs::remove_dir_all(&full).unwrap();
            } else {
                fs::remove_file(&full).unwrap();
            }
        }
        let wanted = listing(&self.template);
        for (path, entry) in &wanted {
            let (from, to) = (self.template.join(path), self.root.join(path));
            if to.symlink_metadata().is_ok() {
                continue;
            }
            match entry.kind {
                'd' => fs::create_dir(&to).unwrap(),
                'l' => symlink(fs::read_link(&from).unwrap(), &to).unwrap(),
                _ => drop(fs::copy(&from, &to).unwrap()),
            }
            let made = entry_of(&to);
            self.clean.insert(path.clone(), made);
        }
    }
}

fn entry_of(path: &Path) -> Entry {
    let metadata = path.symlink_metadata().unwrap();
    let kind = metadata.file_type();
    let kind = match () {
        () if kind.is_dir() => 'd',
        () if kind.is_symlink() => 'l',
        () if kind.is_file() => 'f',
        () => 'o',
    };
    let stamp = (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    Entry {
        kind,
        mode: metadata.mode(),
        stamp: if kind == 'd' { (0, 0, 0) } else { stamp },
    }
}

/// Returns everything below a folder, by the path from there.
fn listing(root: &Path) -> Listing {
    let mut found = Listing::new();
    let mut left = vec![PathBuf::new()];
    while let Some(folder) = left.pop() {
        let full = root.join(&folder);
        let entries = fs::read_dir(&full).or_else(|_| {
            fs::set_permissions(&full, fs::Permissions::from_mode(0o755))?;
            fs::read_dir(&full)
        });
        for entry in entries.unwrap().map(Result::unwrap) {
            let path = folder.join(entry.file_name());
            let entry = entry_of(&root.join(&path));
            if entry.kind == 'd' {
                left.push(path.clone());
            }
            found.insert(path, entry);
        }
    }
    found
}
