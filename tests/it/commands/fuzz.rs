//! Random command lines, held against bash itself: what it starts, writes or deletes must be among what is judged, or the
//! line must be called unclear.
//!
//! A line is run in a folder of its own under the kernel's confinement. The programs `p`, `q`, `r` and `git` write down how
//! they were called, and the kernel says which files were opened; a few real programs are there too.
//!
//! *Invariant:* a seed gives the same lines each time.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio_util::sync::CancellationToken;
use toolgate_process::sandbox::{Demand, Kernel, Mode, Places, Sandbox};
use toolgate_process::{Environment, Launch, Programs, Settings, Stdin};
use toolgate_shell::words::Word;
use toolgate_shell::{Command, Line, parse};

/// A line ends within moments, or is stopped.
const LIMIT: Duration = Duration::from_secs(2);

/// How often a failing line is run again to make it shorter.
const TRIES: usize = 400;

/// Programs that write down how they were called.
const SHIMS: [&str; 4] = ["p", "q", "r", "git"];

/// Programs that do what they always do.
const REAL: [&str; 18] = [
    "env", "nice", "timeout", "nohup", "xargs", "setsid", "bash", "sh", "cat", "tee", "cp", "rm", "mv", "ln", "touch",
    "sort", "find", "sed",
];

/// Those of them that may write files of the workspace without a question of their own.
const WRITERS: [&str; 9] = ["tee", "cp", "mv", "ln", "touch", "sort", "find", "sed", "nohup"];

/// Names of programs that delete.
const DELETERS: [&str; 4] = ["rm", "mv", "unlink", "rmdir"];

/// A source of numbers that a seed decides.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// The productions of each name.
struct Grammar(BTreeMap<&'static str, Vec<String>>);

impl Grammar {
    fn read() -> Self {
        let text: &'static str = include_str!("../../corpus/grammar.txt");
        let mut rules: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        let mut name = "";
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
            let heading = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            match heading.filter(|inner| inner.len() > 3 && inner.bytes().all(|byte| byte.is_ascii_lowercase())) {
                Some(heading) => name = heading,
                None => {
                    let production = line.replace('⏎', "\n").replace('⇥', "\t").replace("⟨empty⟩", "");
                    rules.entry(name).or_default().push(production);
                }
            }
        }
        Self(rules)
    }

    /// Makes a line.
    fn generate(&self, dice: &mut Dice) -> String {
        let mut line = String::new();
        let depth = 5 + dice.below(4);
        self.expand("line", depth, dice, &mut line);
        if dice.chance(12) {
            mutate(dice, &mut line);
        }
        line
    }

    fn expand(&self, name: &str, depth: usize, dice: &mut Dice, out: &mut String) {
        let productions = &self.0[name];
        let chosen = if depth == 0 { 0 } else { dice.below(productions.len()) };
        let mut rest = productions[chosen].as_str();
        while let Some(start) = rest.find('<') {
            let end = rest[start..].find('>').map(|end| start + end);
            let inner = end.map(|end| &rest[start + 1..end]);
            let known = inner.filter(|inner| self.0.contains_key(inner));
            out.push_str(&rest[..start]);
            if let (Some(inner), Some(end)) = (known, end) {
                self.expand(inner, depth.saturating_sub(1), dice, out);
                rest = &rest[end + 1..];
            } else {
                out.push('<');
                rest = &rest[start + 1..];
            }
        }
        out.push_str(rest);
    }
}

/// Changes a few characters.
fn mutate(dice: &mut Dice, line: &mut String) {
    const CHARACTERS: &[&str] = &[
        "'", "\"", "\\", "$", "`", "(", ")", "{", "}", "[", "]", "<", ">", "|", "&", ";", "#", "!", "*", "~", "=", " ",
        "\n", "\t", "$(", "${", "((", "))", "[[", "]]", "<<", "<(", "$'", "$\"", "\\\n", ";;", "\r", "\u{a0}",
    ];
    for _ in 0..=dice.below(2) {
        let mut characters: Vec<String> = line.chars().map(String::from).collect();
        let at = dice.below(characters.len() + 1);
        match dice.below(3) {
            0 => characters.insert(at, dice.one(CHARACTERS).to_owned()),
            1 if at < characters.len() => drop(characters.remove(at)),
            _ if at < characters.len() => characters[at] = dice.one(CHARACTERS).to_owned(),
            _ => {}
        }
        *line = characters.concat();
    }
}

/// What bash did.
#[derive(Debug, Default)]
struct Trace {
    /// How the shims were called.
    started: BTreeSet<Vec<String>>,
    /// The files that were opened for writing, made or renamed to.
    written: BTreeSet<PathBuf>,
    /// The files outside that were opened.
    read: BTreeSet<PathBuf>,
    /// The files that are gone.
    deleted: BTreeSet<PathBuf>,
}

/// Where lines are run.
struct Scene {
    root: PathBuf,
    programs: Programs,
    sandbox: Sandbox,
    events: OwnedFd,
    watched: Vec<(i32, PathBuf)>,
}

impl Scene {
    /// To be called inside a runtime.
    fn new(root: PathBuf) -> Self {
        let shims = root.join("bin");
        fs::create_dir_all(&shims).unwrap();
        let log = root.join("log");
        fs::create_dir_all(&log).unwrap();
        for name in SHIMS {
            let text = format!(
                "#!/bin/sh\n{{ printf '%s\\0' {name} \"$@\"; printf '\\n'; }} >> {}/calls\n",
                log.display()
            );
            fs::write(shims.join(name), text).unwrap();
            fs::set_permissions(shims.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in REAL {
            let real = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
            let real = real.iter().find(|path| path.is_file()).unwrap();
            symlink(real, shims.join(name)).unwrap();
        }
        let environment: Environment = [
            ("PATH".into(), shims.into()),
            ("SHELL".into(), "/bin/bash".into()),
            ("HOME".into(), root.join("outside").into()),
            ("TMPDIR".into(), log.into()),
            ("LANG".into(), "C.UTF-8".into()),
            // Functions that call themselves end soon.
            ("FUNCNEST".into(), "4".into()),
        ]
        .into();
        let kernel = Kernel::probe();
        let mut scene = Self {
            programs: Programs::new(&environment, Settings::default()).unwrap(),
            sandbox: Sandbox::new(kernel, Places::default()).unwrap(),
            events: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap(),
            watched: Vec::new(),
            root,
        };
        scene.restore();
        scene
    }

    /// Makes the folders anew.
    fn restore(&mut self) {
        self.watched.clear();
        self.events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        for name in ["work", "outside"] {
            drop(fs::remove_dir_all(self.root.join(name)));
        }
        drop(fs::remove_file(self.root.join("log/calls")));
        for name in ["work/sub", "outside"] {
            fs::create_dir_all(self.root.join(name)).unwrap();
        }
        for name in ["work/a", "work/sub/a", "outside/v"] {
            fs::write(self.root.join(name), "1\n").unwrap();
        }
        symlink("../outside", self.root.join("work/link")).unwrap();
        symlink("../bin/p", self.root.join("work/p")).unwrap();
        for name in ["work", "work/sub", "outside"] {
            let path = self.root.join(name);
            let wanted = WatchFlags::OPEN
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO;
            let id = inotify::add_watch(&self.events, &path, wanted).unwrap();
            self.watched.push((id, path));
        }
    }

    fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    async fn run(&mut self, line: &str) -> Trace {
        // The folder outside is inside of the walls, so that what gets there is seen.
        let demand = Demand {
            walls: true,
            ..Demand::new(Mode::WorkspaceWrite, self.root.clone())
        };
        let launch = Launch {
            call: "line".to_owned(),
            program: PathBuf::from("/bin/bash"),
            arguments: vec!["-c".into(), OsString::from(line)],
            directory: self.work(),
            shown_directory: self.work(),
            environment: Default::default(),
            stdin: Stdin::Null,
            sandbox: Some(std::sync::Arc::new(self.sandbox.confine(&demand).unwrap())),
        };
        let Ok(mut running) = self.programs.start(launch).await else {
            return Trace::default();
        };
        let mut output = running.take_output().unwrap();
        let token = CancellationToken::new();
        let read = async { while output.next().await.is_some() {} };
        tokio::join!(running.supervise(LIMIT, &token), read);
        self.programs.end_call("line").await;
        self.trace()
    }

    fn trace(&self) -> Trace {
        let mut trace = Trace::default();
        let calls = fs::read(self.root.join("log/calls")).unwrap_or_default();
        for call in calls.split(|byte| *byte == b'\n').filter(|call| !call.is_empty()) {
            let words = call.split(|byte| *byte == 0);
            let mut words: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            words.pop();
            // A call with a newline in a word takes several lines; only its beginning is a call.
            if words.first().is_some_and(|name| SHIMS.contains(&&**name)) {
                trace.started.insert(words);
            }
        }
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        while let Ok(event) = reader.next() {
            let folder = self.watched.iter().find(|(id, _)| *id == event.wd());
            let (Some((_, folder)), Some(name)) = (folder, event.file_name()) else {
                continue;
            };
            let path = folder.join(name.to_string_lossy().as_ref());
            let is_folder = event.events().contains(ReadFlags::ISDIR);
            let made = ReadFlags::CLOSE_WRITE | ReadFlags::CREATE | ReadFlags::MOVED_TO;
            if event.events().intersects(made) {
                trace.written.insert(path);
            } else if event.events().intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
                trace.deleted.insert(path);
            } else if event.events().contains(ReadFlags::OPEN) && !is_folder && folder.ends_with("outside") {
                trace.read.insert(path);
            }
        }
        // What came and went is no loss.
        let written = trace.written.clone();
        trace.deleted.retain(|path| {
            !written.contains(path)
                || path.ends_with("work/a")
                || path.ends_with("sub/a")
                || path.ends_with("outside/v")
        });
        trace
    }

    /// Runs a line and says what bash did that was not judged.
    async fn unjudged(&mut self, line: &str) -> Result<(), String> {
        let judged = parse(line);
        if is_unclear(&judged) {
            return Ok(());
        }
        self.restore();
        // A link that the line makes leads elsewhere before and afterwards.
        let mut places = self.places(&judged);
        let trace = self.run(line).await;
        places.extend(self.places(&judged));
        self.compare(line, &judged, &trace, &places)
    }

    fn compare(
        &self,
        line: &str,
        judged: &Line,
        trace: &Trace,
        places: &BTreeSet<(PathBuf, bool)>,
    ) -> Result<(), String> {
        for call in &trace.started {
            if !judged.commands.iter().any(|command| covers(command, call)) {
                return Err(format!("{call:?} was started, and is not among {:?}", forms(judged)));
            }
        }
        let is_written_to = |path: &PathBuf| {
            places
                .iter()
                .any(|(place, is_written)| *is_written && is_at(place, path))
        };
        let has_writer = WRITERS.iter().any(|name| line.contains(name));
        for path in &trace.written {
            let is_outside = path.starts_with(self.root.join("outside"));
            if (is_outside || !has_writer) && !is_written_to(path) {
                return Err(format!("{} was written, and is not among {places:?}", self.shown(path)));
            }
        }
        for path in &trace.read {
            let is_judged = |(place, _): &(PathBuf, bool)| is_at(place, path);
            if !trace.written.contains(path) && !places.iter().any(is_judged) {
                return Err(format!("{} was read, and is not among {places:?}", self.shown(path)));
            }
        }
        let deletes = |command: &Command| {
            names(command).any(|name| DELETERS.contains(&&*name)) || command.paths.iter().any(|used| used.is_written)
        };
        if let Some(path) = trace.deleted.first().filter(|_| !judged.commands.iter().any(deletes)) {
            return Err(format!(
                "{} was deleted; judged were {:?}",
                self.shown(path),
                forms(judged)
            ));
        }
        Ok(())
    }

    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }

    /// The paths that are judged, as the kernel finds them, and whether they are written.
    fn places(&self, judged: &Line) -> BTreeSet<(PathBuf, bool)> {
        let mut found = BTreeSet::new();
        for used in judged.commands.iter().flat_map(|command| &command.paths) {
            let home = |path: &str| match path.strip_prefix('~') {
                Some(rest) => self.root.join("outside").join(rest.trim_start_matches('/')),
                None => PathBuf::from(path),
            };
            let folders = std::iter::once(self.work()).chain(used.from.iter().map(|from| self.work().join(home(from))));
            for folder in folders {
                // The tilde of nobody's name stays.
                for path in [home(&used.path), PathBuf::from(&used.path)] {
                    found.insert((real(&folder.join(path)), used.is_written));
                }
            }
        }
        found
    }
}

/// Says whether what was found is what was judged: the path itself, something below it, what a wildcard that is cut off may
/// stand for, or the new file that sed puts in its place.
fn is_at(place: &Path, path: &Path) -> bool {
    let is_beside = place.parent() == path.parent();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.starts_with(place)
        || (is_beside && name(path).starts_with(&name(place)))
        || (is_beside && name(path).len() == 9 && name(path).starts_with("sed"))
}

/// Returns a path without `..`, and with the links of its folder followed.
fn real(path: &Path) -> PathBuf {
    let mut made = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(made.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => made.push(part),
        }
        if let Ok(known) = made.canonicalize() {
            made = known;
        }
    }
    made
}

fn is_unclear(line: &Line) -> bool {
    line.unclear.is_some() || line.commands.iter().any(|command| command.unclear.is_some())
}

fn forms(line: &Line) -> Vec<&[String]> {
    line.commands.iter().map(|command| command.forms.as_slice()).collect()
}

/// Returns the words that a form begins with, without assignments and redirections.
fn words(form: &str) -> Vec<String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_+[]".contains(&byte))
    };
    let mut is_target = false;
    let mut made = Vec::new();
    for text in form.split_whitespace() {
        if std::mem::take(&mut is_target) {
            continue;
        }
        let trimmed = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&');
        if trimmed.starts_with(['<', '>']) {
            is_target = trimmed.trim_start_matches(['<', '>', '&', '|']).is_empty();
            continue;
        }
        let is_assignment = text.split_once('=').is_some_and(|(name, _)| is_name(name));
        if made.is_empty() && is_assignment {
            continue;
        }
        made.push(Word::new(text).fixed().unwrap_or(text).to_owned());
    }
    made
}

/// Returns the names of what a command starts.
fn names(command: &Command) -> impl Iterator<Item = String> {
    let base = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let first = command.arguments.first().map(|name| base(name));
    let of_forms = command.forms.iter().chain(&command.variants);
    let of_forms = of_forms.filter_map(move |form| words(form).first().map(|name| base(name)));
    first.into_iter().chain(of_forms)
}

/// Says whether a command is judged as what was started. Of git the subcommand counts too.
fn covers(command: &Command, call: &[String]) -> bool {
    if call[0] != "git" {
        return names(command).any(|name| name == call[0]);
    }
    let subcommand = call.iter().skip(1).find(|word| matches!(&***word, "push" | "log"));
    let all = command.forms.iter().chain(&command.variants).map(|form| words(form));
    let mut all = all.chain(std::iter::once(command.arguments.clone()));
    all.any(|form| {
        form.first().is_some_and(|name| name.ends_with("git"))
            && subcommand.is_none_or(|subcommand| form.contains(subcommand))
    })
}

/// What came of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// How many lines were made.
    pub(super) lines: usize,
    /// How many of them were called clear, and were run.
    pub(super) clear: usize,
    /// The lines that failed, as short as they could be made, and why.
    pub(super) failures: Vec<String>,
}

/// Runs lines until the time is over, or there are as many as wanted, or as many failures.
pub(super) async fn run(root: PathBuf, seed: u64, lines: usize, until: Instant, most: usize) -> Report {
    let mut scene = Scene::new(root);
    let grammar = Grammar::read();
    let mut report = Report::default();
    let mut seen = BTreeSet::new();
    while report.lines < lines && Instant::now() < until && report.failures.len() < most {
        let mut dice = Dice(seed.wrapping_mul(0x1_0000_0001).wrapping_add(report.lines as u64));
        let line = grammar.generate(&mut dice);
        report.lines += 1;
        if line.contains('\0') || is_unclear(&parse(&line)) {
            continue;
        }
        report.clear += 1;
        if scene.unjudged(&line).await.is_ok() {
            continue;
        }
        let (short, why) = shortened(&mut scene, line.clone()).await;
        if why.is_empty() || !seen.insert(kind(&short)) {
            continue;
        }
        let mut text = String::new();
        write!(text, "{short:?}\n    {why}\n    made from {line:?}").unwrap();
        report.failures.push(text);
    }
    scene.programs.shutdown().await;
    report
}

/// Takes characters out as long as the line fails.
async fn shortened(scene: &mut Scene, line: String) -> (String, String) {
    let (mut short, mut why, mut tries) = (line, String::new(), 0);
    if let Err(reason) = scene.unjudged(&short).await {
        why = reason;
    }
    for size in [32, 16, 8, 4, 2, 1] {
        let mut at = 0;
        while tries < TRIES {
            let characters: Vec<char> = short.chars().collect();
            if at >= characters.len() {
                break;
            }
            let end = (at + size).min(characters.len());
            let less: String = characters[..at].iter().chain(&characters[end..]).collect();
            tries += 1;
            match scene.unjudged(&less).await {
                Err(reason) => (short, why) = (less, reason),
                Ok(()) => at += size,
            }
        }
    }
    // What a program of an earlier line did late is no failure of this one.
    if !why.is_empty() && scene.unjudged(&short).await.is_ok() {
        why.clear();
    }
    (short, why)
}

/// Returns a line without what differs between lines that fail alike.
fn kind(line: &str) -> String {
    let is_kept = |c: &char| c.is_ascii_alphabetic() || "<>|&()$`[".contains(*c);
    line.chars().filter(is_kept).take(12).collect()
}
