//! What is asked before a command line runs: for outside directories first, then for its commands
//! (`docs/spec/bash.md` §3, §9).
//!
//! *Invariant:* what was asked for is what runs: the paths are resolved again right before the start, and if one of them
//! leads elsewhere by then, nothing is run.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use toolgate_fs::open::is_at_hand;
use toolgate_fs::path::{normalize, walk};
use toolgate_fs::{Workspace, wildcards};
use toolgate_model::{Ask, AskPart, Consent, json_map};
use toolgate_shell::{self as shell, Command, Line, PathUse};
use toolgate_tool::{ToolContext, ToolError, blocking};

use super::hooked;
use super::input::Input;

/// A line that is parsed on the spot; a longer one may take a while.
const SHORT_LINE: usize = 512;

/// As many paths are looked at on the spot.
const MAX_PATHS_AT_HAND: usize = 16;

/// Folders of the system that everybody may read.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc"];

/// What lies there and is not for everybody.
const PRIVATE: [&str; 6] = [
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/ssl/private",
    "/etc/ssh",
    "/etc/security",
];

/// The working directory: where the shell is put, and how people write that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workdir {
    pub(super) real: PathBuf,
    pub(super) shown: PathBuf,
    /// Device and number, if it is there: another folder may come to bear the name.
    identity: Option<(u64, u64)>,
}

/// What was approved.
pub(super) struct Approved {
    /// Where the command starts.
    pub(super) workdir: Workdir,
    /// The outside directories that it may use, the working directory among them if it is one.
    pub(super) outside: Vec<PathBuf>,
    /// What the line was judged as.
    pub(super) judged: Judged,
}

/// What its confinement depends on.
pub(super) struct Judged {
    /// The line.
    pub(super) command: String,
    /// Whether a person approved its commands in this call.
    pub(super) consent: Consent,
    /// Whether one of its commands is known to use the network.
    pub(super) uses_network: bool,
    /// The names of its programs.
    pub(super) programs: Vec<String>,
}

/// Asks for everything that the call needs.
///
/// # Errors
/// The directory cannot be used, a permission is refused, or a path led elsewhere when the answers were there.
pub(super) async fn approve(input: &Input, ctx: &ToolContext) -> Result<Approved, ToolError> {
    let line = parse(&input.command).await?;
    let places = Arc::new(Places {
        workdir: input.workdir.clone().filter(|written| !written.is_empty()),
        uses: asked_paths(&line),
        expands_names: expands_names(&line),
        remotes: remotes(&line),
    });
    let before = look(&places, ctx).await?;
    if !before.is_workdir_outside {
        check_workdir(&before)?;
    }
    let home = ctx.workspace.home();
    let mut commands = for_commands(&input.command, &input.description, &line, &before, home);
    if let (Some(ask), Some(terminal)) = (&mut commands, input.terminal) {
        ask.metadata.insert("terminal".to_owned(), json!(terminal.note()));
    }
    // In one question with the command, so that whoever answers sees what it runs with.
    if let Some(variables) = hooked::for_caller(&ctx.origin.environment, input) {
        commands = Some(match commands {
            Some(mut ask) => {
                ask.patterns.extend(variables.patterns);
                ask.parts.extend(variables.parts);
                ask.metadata.extend(variables.metadata);
                ask
            }
            None => variables,
        });
    }
    if let Some(ask) = for_outside(&input.command, &before) {
        let then = commands.iter().cloned().collect();
        ctx.permission.ask(Ask { then, ..ask }).await?;
    }
    check_workdir(&before)?;
    let mut consent = Consent::Standing;
    if let Some(ask) = commands {
        consent = ctx.permission.ask(ask).await?;
    }
    let after = look(&places, ctx).await?;
    if after.outside != before.outside || after.workdir != before.workdir {
        return Err(ToolError::failed(
            "A path of this command changed while approval was awaited; nothing was run. Look at the paths again and repeat \
             the call.",
        ));
    }
    Ok(Approved {
        workdir: after.workdir,
        outside: after.outside,
        judged: Judged {
            command: input.command.clone(),
            consent,
            uses_network: line.commands.iter().any(|command| command.uses_network),
            programs: programs(&line),
        },
    })
}

/// Returns the names of the programs of a line, without their folders.
fn programs(line: &Line) -> Vec<String> {
    let names = line
        .commands
        .iter()
        .flat_map(|command| command.forms.iter().chain(&command.variants));
    let names = names.filter_map(|form| form.split_whitespace().next());
    names
        .map(|name| name.rsplit('/').next().unwrap_or(name).to_owned())
        .collect()
}

async fn parse(command: &str) -> Result<Line, ToolError> {
    if command.len() <= SHORT_LINE {
        return Ok(shell::parse(command));
    }
    let command = command.to_owned();
    blocking(move || shell::parse(&command)).await
}

/// The places that a call names.
struct Places {
    workdir: Option<String>,
    uses: Vec<PathUse>,
    /// Whether a word begins with a wildcard where a name that begins with a dash would be an option.
    expands_names: bool,
    /// What is pushed to, if that may be a folder.
    remotes: Vec<PathUse>,
}

impl Places {
    /// Says whether these are few, and the kernel knows the way to each from memory.
    fn are_at_hand(&self, workspace: &Workspace) -> bool {
        let workdir = match &self.workdir {
            Some(written) => workspace.display_path(written),
            None => workspace.directory().to_path_buf(),
        };
        let forms = self
            .uses
            .iter()
            .map(|used| absolute_forms(used, &workdir, workspace.home()));
        if self.uses.iter().any(|used| used.pattern.is_some()) || self.expands_names || !self.remotes.is_empty() {
            return false;
        }
        let paths: Vec<PathBuf> = forms
            .flatten()
            .chain([workdir.clone()])
            .take(MAX_PATHS_AT_HAND + 1)
            .collect();
        paths.len() <= MAX_PATHS_AT_HAND && paths.iter().all(|path| is_at_hand(path))
    }
}

/// Where those places are now.
struct Found {
    workdir: Workdir,
    is_workdir_outside: bool,
    workdir_problem: Option<String>,
    /// The outside directories, in the order of the line, the working directory last.
    outside: Vec<PathBuf>,
    /// Whether a name that begins with a dash would be taken for an option.
    has_dashes: bool,
    /// Whether a folder is pushed to, which is a repository with hooks of its own.
    pushes_here: bool,
}

fn remotes(line: &Line) -> Vec<PathUse> {
    line.commands
        .iter()
        .flat_map(|command| command.remotes.clone())
        .collect()
}

fn expands_names(line: &Line) -> bool {
    line.commands.iter().any(|command| command.expands_names)
}

/// Returns each path once that directories are asked for, in the order of the line.
fn asked_paths(line: &Line) -> Vec<PathUse> {
    let uses = line.commands.iter().flat_map(|command| &command.paths);
    let mut asked: Vec<PathUse> = uses.filter(|used| used.is_asked).cloned().collect();
    asked.sort_by_key(|used| used.at);
    let mut seen = HashSet::new();
    asked.retain(|used| {
        seen.insert((
            used.path.clone(),
            used.from.clone(),
            used.may_be_system,
            used.pattern.clone(),
        ))
    });
    asked
}

async fn look(places: &Arc<Places>, ctx: &ToolContext) -> Result<Found, ToolError> {
    // Handing it to a thread that may wait, and back, takes ten times as long as looking.
    if places.are_at_hand(&ctx.workspace) {
        return Ok(find(places, &ctx.workspace));
    }
    let (places, workspace) = (Arc::clone(places), Arc::clone(&ctx.workspace));
    blocking(move || find(&places, &workspace)).await
}

fn find(places: &Places, workspace: &Workspace) -> Found {
    // A folder that the call names may be swapped for a link after its admission.
    let of_call = workspace.starts_elsewhere().then_some("");
    let given = places.workdir.as_deref().or(of_call);
    let given = given.map(|written| workspace.resolve(written));
    let mut workdir = given.as_ref().map_or_else(
        || Workdir {
            real: workspace.directory().to_path_buf(),
            shown: workspace.directory().to_path_buf(),
            identity: None,
        },
        |resolved| Workdir {
            real: resolved.real().to_path_buf(),
            shown: resolved.display_path().to_path_buf(),
            identity: None,
        },
    );
    let workdir_problem = match std::fs::metadata(&workdir.real) {
        Ok(metadata) if metadata.is_dir() => {
            workdir.identity = Some((metadata.dev(), metadata.ino()));
            None
        }
        Ok(_) => Some("it is not a directory".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    let mut outside = Vec::new();
    for used in &places.uses {
        let mut forms = absolute_forms(used, &workdir.shown, workspace.home());
        if let Some(pattern) = &used.pattern {
            let whole = PathUse {
                path: pattern.clone(),
                ..used.clone()
            };
            let whole = absolute_forms(&whole, &workdir.shown, workspace.home());
            forms.extend(whole.iter().flat_map(|pattern| wildcards::linked(pattern)));
        }
        for path in forms.into_iter().flat_map(as_programs_see_it) {
            let resolved = workspace.resolve(path);
            if used.may_be_system && is_public(resolved.real()) {
                continue;
            }
            let is_folder = std::fs::metadata(resolved.real()).is_ok_and(|metadata| metadata.is_dir());
            outside.extend(resolved.outside_folders(is_folder));
        }
    }
    outside.extend(given.iter().flat_map(|resolved| resolved.outside_folders(true)));
    let mut seen = HashSet::new();
    outside.retain(|folder: &PathBuf| seen.insert(folder.clone()));
    Found {
        has_dashes: places.expands_names
            && folders_of(places, &workdir.shown, workspace.home())
                .iter()
                .any(|folder| wildcards::holds_dashes(folder)),
        pushes_here: places
            .remotes
            .iter()
            .flat_map(|used| absolute_forms(used, &workdir.shown, workspace.home()))
            .any(|folder| folder.exists() || folder.with_extension("git").exists()),
        is_workdir_outside: given.is_some_and(|resolved| !resolved.is_inside()),
        workdir,
        workdir_problem,
        outside,
    }
}

/// Returns the folders in which the line may be.
fn folders_of(places: &Places, workdir: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = vec![workdir.to_path_buf()];
    for from in places.uses.iter().flat_map(|used| &used.from) {
        let folder = workdir.join(expand_home(from, home));
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// Says whether a path lies where everybody may read.
fn is_public(path: &Path) -> bool {
    is_below(path, &SYSTEM) && !is_below(path, &PRIVATE)
}

fn is_below(path: &Path, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

/// Returns a path and, where `..` may stand behind a link, also where the kernel takes it to: a program hands its words
/// over as they are, while a workspace takes `..` out before it follows links.
fn as_programs_see_it(path: PathBuf) -> Vec<PathBuf> {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let walked = climbs.then(|| walk(&path));
    std::iter::once(path).chain(walked).collect()
}

/// Returns where a path leads from the working directory, and from each folder that a `cd` before may have led to.
fn absolute_forms(used: &PathUse, workdir: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut forms = Vec::new();
    if !used.only_from {
        forms.push(workdir.join(expand_home(&used.path, home)));
    }
    if !used.path.starts_with(['/', '~']) {
        let from = used
            .from
            .iter()
            .map(|folder| workdir.join(expand_home(folder, home)).join(&used.path));
        forms.extend(from);
    }
    forms
}

fn expand_home(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_path_buf(),
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        // Homes of others are beside one's own as a rule; what matters is that they are outside.
        (Some(name), Some(home)) => home.parent().unwrap_or(home).join(name),
        (Some(_) | None, _) => PathBuf::from(path),
    }
}

fn check_workdir(found: &Found) -> Result<(), ToolError> {
    match &found.workdir_problem {
        Some(problem) => Err(ToolError::Failed(format!(
            "The working directory {} cannot be used: {problem}",
            found.workdir.shown.display()
        ))),
        None => Ok(()),
    }
}

/// Returns what is asked for a command line that starts in the workspace's directory, in order; nothing is run.
pub fn asks(command: &str, workspace: &Workspace) -> Vec<Ask> {
    let line = shell::parse(command);
    let places = Places {
        workdir: None,
        uses: asked_paths(&line),
        expands_names: expands_names(&line),
        remotes: remotes(&line),
    };
    let found = find(&places, workspace);
    let outside = for_outside(command, &found);
    let commands = for_commands(command, "", &line, &found, workspace.home());
    outside.into_iter().chain(commands).collect()
}

/// Returns the question about outside directories; none if there are none.
fn for_outside(command: &str, found: &Found) -> Option<Ask> {
    if found.outside.is_empty() {
        return None;
    }
    let directories: Vec<String> = found
        .outside
        .iter()
        .map(|folder| folder.to_string_lossy().into_owned())
        .collect();
    let patterns: Vec<String> = directories
        .iter()
        .map(|folder| format!("{}/*", folder.trim_end_matches('/')))
        .collect();
    let metadata = json_map([
        ("command", json!(command)),
        ("directories", json!(directories)),
        ("patterns", json!(patterns)),
    ]);
    Some(Ask {
        permission: "external_directory".to_owned(),
        always: if directories
            .iter()
            .all(|folder| folder != "/" && !folder.contains(['*', '?']))
        {
            patterns.clone()
        } else {
            Vec::new()
        },
        title: directories.join(", "),
        patterns,
        metadata,
        ..Ask::default()
    })
}

/// Says of the parts that are these commands why it is not clear what they do, unless that is said already.
fn mark_unclear<'c>(parts: &mut [AskPart], commands: impl Iterator<Item = &'c Command>, reason: &str) {
    let texts: HashSet<&str> = commands.map(|command| command.text.as_str()).collect();
    for part in parts.iter_mut().filter(|part| texts.contains(part.text.as_str())) {
        part.unclear.get_or_insert_with(|| reason.to_owned());
    }
}

/// Returns the question about the commands; none if the line only changes the directory.
fn for_commands(command: &str, description: &str, line: &Line, found: &Found, home: Option<&Path>) -> Option<Ask> {
    let mut parts = parts(command, line, &found.workdir.shown, home);
    if found.has_dashes {
        let expanding = line.commands.iter().filter(|command| command.expands_names);
        let reason = "a name that begins with a dash would be taken for an option";
        mark_unclear(&mut parts, expanding, reason);
    }
    if found.pushes_here {
        let pushing = line.commands.iter().filter(|command| !command.remotes.is_empty());
        let reason = "it pushes to a folder that is here, which runs its own hooks";
        mark_unclear(&mut parts, pushing, reason);
    }
    if parts.is_empty() {
        return None;
    }
    let mut patterns = unique(line.commands.iter().flat_map(|command| &command.patterns));
    if patterns.is_empty() {
        patterns.push(command.trim().to_owned());
    }
    let always = unique(line.commands.iter().flat_map(|command| &command.always));
    let metadata = json_map([
        ("command", json!(command)),
        ("workdir", json!(found.workdir.shown.to_string_lossy())),
        ("description", json!(description)),
    ]);
    Some(Ask {
        permission: "bash".to_owned(),
        patterns,
        always,
        title: description.to_owned(),
        metadata,
        parts,
        ..Ask::default()
    })
}

fn unique<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.filter(|text| seen.insert(text.as_str())).cloned().collect()
}

/// Returns the parts that are judged, the whole line first where that is unclear.
fn parts(text: &str, line: &Line, workdir: &Path, home: Option<&Path>) -> Vec<AskPart> {
    let whole = line.unclear.as_ref().map(|reason| AskPart {
        text: text.trim().to_owned(),
        patterns: vec![text.trim().to_owned()],
        unclear: Some(reason.clone()),
        ..AskPart::default()
    });
    let judged = line.commands.iter().filter(|command| !command.is_directory_change);
    whole
        .into_iter()
        .chain(judged.map(|command| {
            let paths = command
                .paths
                .iter()
                .flat_map(|used| absolute_forms(used, workdir, home));
            let shown: Vec<String> = paths
                .map(|path| normalize(&path).to_string_lossy().into_owned())
                .collect();
            AskPart {
                text: command.text.clone(),
                arguments: command.arguments.clone(),
                patterns: command.forms.clone(),
                variants: command.variants.clone(),
                equivalents: command.equivalents.clone(),
                always: command.always.clone(),
                paths: unique(shown.iter()),
                unclear: command.unclear.clone(),
                ..AskPart::default()
            }
        }))
        .collect()
}
