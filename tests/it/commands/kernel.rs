//! The ways around the rules, run for real under the kernel's confinement: nothing outside of the workspace changes.
//!
//! Landlock has no right for modes, owners and times, so in the mode that lets a program write its workspace those can be
//! changed elsewhere too; what does that is run once more in the mode in which the filter of system calls refuses it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolgate_process::sandbox::{Demand, Kernel, Mode, Places, Sandbox};
use toolgate_process::{Cause, Environment, Launch, Programs, Settings, Stdin};

use super::corpus::{Way, ways};
use super::{report, shown};

/// How many run at the same time.
const WORKERS: usize = 4;

/// Every way ends by itself long before, but for loops that wait for what the kernel refuses.
const LIMIT: Duration = Duration::from_secs(20);

/// How much of the output is kept.
const KEPT: usize = 4096;

/// What an entry of a folder is, and its attributes beside that.
type Listing = BTreeMap<PathBuf, (String, (u32, u32, i64, i64))>;

/// What was outside before and after, and what was printed.
struct Outcome {
    before: Listing,
    after: Listing,
    printed: String,
    has_ended: bool,
}

/// A folder with a workspace that is made anew for each way, and a folder beside it.
struct Place {
    root: PathBuf,
    template: PathBuf,
    programs: Programs,
    sandbox: Arc<Sandbox>,
}

impl Place {
    /// To be called inside a runtime.
    fn new(root: PathBuf, template: PathBuf, sandbox: Arc<Sandbox>) -> Self {
        fs::create_dir_all(&root).unwrap();
        let environment: Environment = [
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("SHELL".into(), "/bin/bash".into()),
            ("HOME".into(), root.join("work/home").into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ]
        .into();
        Self {
            programs: Programs::new(&environment, Settings::default()).unwrap(),
            root,
            template,
            sandbox,
        }
    }

    /// Makes the workspace and the folder beside it anew.
    fn reset(&self, way: &Way) {
        fs::remove_dir_all(&self.root).unwrap();
        copy(&self.template, &self.root.join("work"));
        let outside = self.root.join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("victim.txt"), "precious\n").unwrap();
        fs::write(outside.join("other.txt"), "other\n").unwrap();
        for (name, text) in &way.files {
            let path = self.root.join("work").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, self.fill(text)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn fill(&self, text: &str) -> String {
        text.replace("${outside}", self.root.join("outside").to_str().unwrap())
    }

    /// Runs a way.
    async fn run(&self, way: &Way, mode: Mode) -> Outcome {
        self.reset(way);
        let before = self.outside();
        let work = self.root.join("work");
        let demand = Demand::new(mode, work.clone());
        let launch = Launch {
            call: way.name.clone(),
            program: self.programs.shell().unwrap().to_path_buf(),
            arguments: vec!["-c".into(), OsString::from(self.fill(&way.command))],
            directory: work.clone(),
            shown_directory: work,
            environment: Default::default(),
            stdin: Stdin::Null,
            sandbox: Some(Arc::new(self.sandbox.confine(&demand).unwrap())),
        };
        let mut running = self.programs.start(launch).await.unwrap();
        let mut output = running.take_output().unwrap();
        let token = CancellationToken::new();
        let read = async {
            let mut all = Vec::new();
            while let Some(chunk) = output.next().await {
                let room = KEPT.saturating_sub(all.len()).min(chunk.len());
                all.extend_from_slice(&chunk[..room]);
            }
            String::from_utf8_lossy(&all).into_owned()
        };
        let (ending, printed) = tokio::join!(running.supervise(LIMIT, &token), read);
        self.programs.end_call(&way.name).await;
        Outcome {
            before,
            after: self.outside(),
            printed,
            has_ended: ending.cause == Cause::Ended,
        }
    }

    /// Everything beside the workspace.
    fn outside(&self) -> Listing {
        let mut found = Listing::new();
        let mut left = vec![self.root.clone()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path == self.root.join("work") {
                    continue;
                }
                let metadata = path.symlink_metadata().unwrap();
                let is = match fs::read_link(&path) {
                    Ok(target) => format!("-> {}", target.display()),
                    Err(_) if metadata.is_dir() => "/".to_owned(),
                    Err(_) if metadata.is_file() => content(&path),
                    Err(_) => format!("{:?}", metadata.file_type()),
                };
                if metadata.is_dir() {
                    left.push(path.clone());
                }
                let attributes = (metadata.mode(), metadata.uid(), metadata.mtime(), metadata.mtime_nsec());
                found.insert(path, (is, attributes));
            }
        }
        found
    }
}

/// Reads a file, also one that a way has made unreadable.
fn content(path: &Path) -> String {
    let bytes = fs::read(path).or_else(|_| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        fs::read(path)
    });
    String::from_utf8_lossy(&bytes.unwrap()).into_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A repository with one commit and the files x, y and src/main.c.
fn template(folder: &Path) {
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::create_dir_all(folder.join("home")).unwrap();
    for (name, text) in [
        ("x", "1\n2\n3\n"),
        ("y", "y\n"),
        ("src/main.c", "int main(void) { return 0; }\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    for arguments in [
        &["init", "-q", "--template="][..],
        &["add", "x", "y", "src"],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "-m",
            "first",
        ],
    ] {
        let status = Command::new("git")
            .args(arguments)
            .current_dir(folder)
            .status()
            .unwrap();
        assert!(status.success(), "{arguments:?}");
    }
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn kinds(listing: &Listing) -> Vec<(&Path, &str)> {
    listing
        .iter()
        .map(|(path, (is, _))| (path.as_path(), is.as_str()))
        .collect()
}

/// What is found out about the ways.
#[derive(Default)]
struct Found {
    /// Those that changed something outside.
    changed: Vec<String>,
    /// Those that changed attributes only.
    attributes: Vec<String>,
    /// Those of them that do not ask for that by name, so that something else was changed.
    others: Vec<String>,
    /// Those of them that did it also where nothing may be written.
    attributes_read_only: Vec<String>,
    /// Those that had to be stopped.
    stopped: Vec<String>,
}

/// Says whether a way sets modes, owners or times by name.
fn sets_attributes(way: &Way) -> bool {
    let texts = std::iter::once(&way.command).chain(way.files.values());
    let is_named = |text: &String| {
        ["chmod", "chown", "touch", "utime"]
            .iter()
            .any(|name| text.contains(name))
    };
    texts.into_iter().any(is_named)
}

async fn work(place: Place, left: &Mutex<Vec<Way>>, found: &Mutex<Found>) {
    loop {
        let next = left.lock().unwrap().pop();
        let Some(way) = next else { break };
        let line = format!("{}: {}", way.name, shown(&way.command));
        let outcome = place.run(&way, Mode::WorkspaceWrite).await;
        if !outcome.has_ended {
            found.lock().unwrap().stopped.push(line.clone());
        }
        if kinds(&outcome.before) != kinds(&outcome.after) {
            let text = format!("{line}\n{:?}\n{}", outcome.after, shown(&outcome.printed));
            found.lock().unwrap().changed.push(text);
        } else if outcome.before != outcome.after {
            found.lock().unwrap().attributes.push(line.clone());
            if !sets_attributes(&way) {
                found.lock().unwrap().others.push(line.clone());
            }
            let outcome = place.run(&way, Mode::ReadOnly).await;
            if outcome.before != outcome.after {
                found.lock().unwrap().attributes_read_only.push(line);
            }
        }
    }
    place.programs.shutdown().await;
}

#[test]
fn under_the_sandbox_nothing_outside_changes() {
    let kernel = Kernel::probe();
    assert_eq!(
        kernel.lacks(),
        Vec::<String>::new(),
        "this test needs a kernel that can confine"
    );
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    template(&root.join("template"));
    let all: Vec<Way> = ways().into_iter().filter(|way| way.run).collect();
    let (usable, missing): (Vec<Way>, Vec<Way>) = all
        .into_iter()
        .partition(|way| way.needs.iter().all(|program| is_there(program)));
    let run = usable.len();
    let sandbox = Arc::new(Sandbox::new(kernel, Places::default()).unwrap());
    let (left, found) = (Mutex::new(usable), Mutex::new(Found::default()));
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let place = root.join(format!("place-{worker}"));
            let (template, sandbox) = (root.join("template"), Arc::clone(&sandbox));
            let (left, found) = (&left, &found);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(async { work(Place::new(place, template, sandbox), left, found).await });
            });
        }
    });
    let found = found.into_inner().unwrap();
    println!(
        "{run} were run, {} lack a program, {} changed attributes: {:#?}\nstopped: {:#?}",
        missing.len(),
        found.attributes.len(),
        found.attributes,
        found.stopped,
    );
    report("ways change something outside", &found.changed);
    report(
        "ways change attributes although nothing may be written",
        &found.attributes_read_only,
    );
    report("ways change attributes in a way that is not known", &found.others);
    assert!(found.stopped.len() <= 5, "ways did not end: {:#?}", found.stopped);
    assert!(run >= 700, "{run} ways were run; {} lack a program", missing.len());
}
