//! Which files and variables configure the tools, weak to strong (`docs/spec/extensions.md` §4.1).
//!
//! The order is that of OpenCode 1.18, except that an inner `.opencode` folder beats an outer one.
//!
//! *Invariant:* outside a repository the search goes on above the workspace, and there only what belongs to the
//! service's user or to root counts: in a shared folder such as `/tmp` anybody could leave a file.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_model::JsonMap;
use toolgate_permission::rules::ConfigProblem;

use super::environment::Environment;
use super::error::{ConfigError, Position, Problem};
use super::markdown::Depth;
use super::seen::Seen;
use super::sources::{Layer, Origin};
use super::{checks, jsonc, markdown, masked, odd, read, substitute};

const FILE_NAMES: [&str; 2] = ["opencode.json", "opencode.jsonc"];

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) layers: Vec<Layer>,
    /// The folders for agents, tools and plugins, weak to strong.
    pub(super) directories: Vec<PathBuf>,
    /// Those of them that the project brought.
    pub(super) project_directories: Vec<PathBuf>,
    pub(super) warnings: Vec<String>,
    /// Files of agents that look as if somebody were still writing them: empty, or with front matter that does not end.
    pub(super) unfinished: Vec<PathBuf>,
}

/// Reads every layer for a workspace. `seen` gets what was looked for, also where this fails.
pub(super) fn collect(
    directory: &Path,
    worktree: &Path,
    env: &Environment,
    seen: &mut Seen,
) -> Result<Found, ConfigError> {
    let mut collector = Collector {
        env,
        of_project: false,
        found: Found::default(),
        seen,
    };
    let home_dir = env.config_home().map(|folder| folder.join("opencode"));
    if let Some(folder) = &home_dir {
        collector.file(&folder.join("config.json"))?;
        collector.files(&Folder::of_user(folder.clone()))?;
    }
    if let Some(named) = env.get("OPENCODE_CONFIG") {
        let path = env.resolve(named, env.cwd());
        if !collector.file(&path)? {
            collector.warn(format!(
                "OPENCODE_CONFIG names {}, which does not exist",
                path.display()
            ));
        }
    }
    let project = if env.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        Vec::new()
    } else {
        project_folders(directory, worktree)
    };
    collector.of_project = true;
    for folder in &project {
        collector.files(folder)?;
    }
    collector.of_project = false;
    if let Some(folder) = home_dir {
        collector.agents(&folder)?;
        if folder.is_dir() {
            collector.found.directories.push(folder);
        }
    }
    for folder in dot_folders(&project, env, collector.seen) {
        collector.of_project = folder.of_project;
        collector.files(&Folder::of_user(folder.path.clone()))?;
        collector.agents(&folder.path)?;
        if folder.of_project {
            collector.found.project_directories.push(folder.path.clone());
        }
        collector.found.directories.push(folder.path);
    }
    collector.of_project = false;
    if let Some(text) = env.get("OPENCODE_CONFIG_CONTENT") {
        collector.text(text, Origin::Variable("OPENCODE_CONFIG_CONTENT"), directory)?;
    }
    collector.files(&Folder::of_user(env.system_dir().join("opencode")))?;
    collector.permission_variable()?;
    Ok(collector.found)
}

/// A folder to look in.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Whether what is in it must be our own to count.
    pub(super) foreign: bool,
    /// Whether the project brought it.
    pub(super) of_project: bool,
}

impl Folder {
    /// Makes one that belongs to the user who runs the service.
    pub(super) fn of_user(path: PathBuf) -> Self {
        Self {
            path,
            foreign: false,
            of_project: false,
        }
    }
}

/// The folders of a project, from the outermost that counts to the workspace itself.
pub(super) fn project_folders(directory: &Path, worktree: &Path) -> Vec<Folder> {
    let repository = worktree.join(".git").exists() && directory.starts_with(worktree);
    let mut folders: Vec<Folder> = directory
        .ancestors()
        .filter(|path| !repository || path.starts_with(worktree))
        .map(|path| Folder {
            path: path.to_path_buf(),
            foreign: !path.starts_with(worktree),
            of_project: true,
        })
        .collect();
    folders.reverse();
    folders
}

/// The `.opencode` folders, outermost first, then those that belong to the user.
fn dot_folders(project: &[Folder], env: &Environment, seen: &mut Seen) -> Vec<Folder> {
    let below = |folder: &Folder| Folder {
        path: folder.path.join(".opencode"),
        ..folder.clone()
    };
    let of_home = env.home().map(|home| home.join(".opencode"));
    let named = env.get("OPENCODE_CONFIG_DIR");
    let named = named.map(|named| env.resolve(named, env.cwd()));
    let of_user = of_home.into_iter().chain(named).map(Folder::of_user);
    let folders: Vec<Folder> = project.iter().map(below).chain(of_user).collect();
    folders.iter().for_each(|folder| seen.add(&folder.path));
    let counts = |(index, folder): &(usize, &Folder)| {
        let again = folders[index + 1..].iter().any(|later| later.path == folder.path);
        !again && folder.path.is_dir() && (!folder.foreign || read::is_own(&folder.path))
    };
    let last_places = folders.iter().enumerate().filter(counts);
    last_places.map(|(_, folder)| folder.clone()).collect()
}

struct Collector<'a> {
    env: &'a Environment,
    /// Whether what is read now comes from the project.
    of_project: bool,
    found: Found,
    seen: &'a mut Seen,
}

impl Collector<'_> {
    fn warn(&mut self, text: String) {
        self.found.warnings.push(text);
    }

    /// Reads the two files of a folder, if they may count.
    fn files(&mut self, folder: &Folder) -> Result<(), ConfigError> {
        for name in FILE_NAMES {
            let path = folder.path.join(name);
            self.seen.add(&path);
            if folder.foreign && path.exists() && !read::is_own(&path) {
                self.warn(format!("{} is left out: it belongs to another user", path.display()));
            } else {
                self.file(&path)?;
            }
        }
        Ok(())
    }

    /// Reads a file, if there is one.
    fn file(&mut self, path: &Path) -> Result<bool, ConfigError> {
        self.seen.add(path);
        let Some(text) = read::text(path)? else {
            return Ok(false);
        };
        if jsonc::is_blank(&text) {
            // It says nothing, or its content is still to come.
            return Ok(true);
        }
        let folder = path.parent().unwrap_or(path);
        self.text(&text, Origin::File(path.to_path_buf()), folder)?;
        Ok(true)
    }

    /// Reads a text in which relative paths belong to `folder`.
    fn text(&mut self, text: &str, origin: Origin, folder: &Path) -> Result<(), ConfigError> {
        let invalid = |problem| ConfigError::invalid(&origin, problem);
        let parsed = substitute::substitute(text, folder, self.env, self.seen).map_err(invalid)?;
        let map = jsonc::parse(&parsed).map_err(|problem| invalid(jsonc::with_excerpt(problem, text, &parsed)))?;
        let twice = jsonc::repeated(&parsed).into_iter();
        self.found.warnings.extend(
            twice.map(|key| format!("{origin}: the key {key:?} is written twice, and only what it says last counts")),
        );
        let unknown = odd::unknown_keys(&map).into_iter();
        self.found
            .warnings
            .extend(unknown.map(|text| format!("{origin}: {text}")));
        let locate = |pointer: &str| jsonc::locate(&parsed, pointer);
        self.push(map, origin, folder, locate)?;
        if let Some(layer) = self.found.layers.last_mut().filter(|_| parsed != text) {
            layer.shown = masked::without_inserted(text, &layer.value);
        }
        Ok(())
    }

    /// Reads the agent files of a configuration folder.
    fn agents(&mut self, folder: &Path) -> Result<(), ConfigError> {
        for (name, primary) in [("agent", false), ("agents", false), ("mode", true), ("modes", true)] {
            let below = folder.join(name);
            // Agents of a team share a folder; modes lie side by side.
            let depth = if primary { Depth::One } else { Depth::Any };
            for path in markdown::files(&below, depth, self.seen)? {
                self.seen.add(&path);
                let Some(text) = read::text(&path)? else { continue };
                if markdown::is_open(&text) {
                    self.warn(format!(
                        "{}: its first lines say nothing of the agent: the line \"---\" that ends them is missing",
                        path.display()
                    ));
                }
                if markdown::is_open(&text) || text.trim().is_empty() {
                    self.found.unfinished.push(path.clone());
                }
                let (agent, mut block) = markdown::agent(&below, &path, &text)?;
                if primary {
                    block.insert("mode".to_owned(), json!("primary"));
                }
                let map = toolgate_model::json_map([("agent", json!({agent: block}))]);
                let locate = |pointer: &str| markdown::locate(&text, &jsonc::unescape(pointer.split('/').nth(3)?));
                self.push(map, Origin::File(path.clone()), folder, locate)?;
            }
        }
        Ok(())
    }

    /// Adds the permissions of `OPENCODE_PERMISSION`. What is no JSON is ignored, as OpenCode does, but not silently.
    fn permission_variable(&mut self) -> Result<(), ConfigError> {
        const NAME: &str = "OPENCODE_PERMISSION";
        let Some(text) = self.env.get(NAME) else { return Ok(()) };
        match serde_json::from_str::<Value>(text) {
            Ok(block) => {
                let map = toolgate_model::json_map([("permission", block)]);
                self.push(map, Origin::Variable(NAME), self.env.cwd(), |_| None)
            }
            Err(error) => {
                self.warn(format!("{NAME} is ignored: it is not JSON: {error}"));
                Ok(())
            }
        }
    }

    fn push(
        &mut self,
        map: JsonMap,
        origin: Origin,
        folder: &Path,
        locate: impl Fn(&str) -> Option<Position>,
    ) -> Result<(), ConfigError> {
        let odd = odd::odd_keys(&map).into_iter();
        self.found.warnings.extend(odd.map(|text| format!("{origin}: {text}")));
        let mut value = checks::normalise(map).map_err(|problems| ConfigError::Invalid {
            place: format!("at {origin}"),
            problems: problems.iter().map(|problem| place(problem, &locate)).collect(),
        })?;
        if let Some(Value::Array(plugins)) = value.get_mut("plugin") {
            plugins.iter_mut().for_each(|plugin| plugin_path(plugin, folder));
        }
        let of_project = self.of_project;
        let shown = masked::without_secrets(value.clone());
        self.found.layers.push(Layer {
            origin,
            of_project,
            value,
            shown,
        });
        Ok(())
    }
}

/// Shows a pointer as a key with dots, and its place.
fn place(problem: &ConfigProblem, locate: impl Fn(&str) -> Option<Position>) -> Problem {
    let segments: Vec<String> = problem.pointer.split('/').skip(1).map(jsonc::unescape).collect();
    Problem::new(locate(&problem.pointer), segments.join("."), problem.message.clone())
}

/// Makes a plugin given by a relative path independent of the file that names it.
fn plugin_path(plugin: &mut Value, folder: &Path) {
    let name = if plugin.is_array() {
        plugin.get_mut(0)
    } else {
        Some(plugin)
    };
    if let Some(Value::String(name)) = name
        && (name.starts_with("./") || name.starts_with("../"))
    {
        let path = toolgate_fs::path::normalize(&folder.join(&*name));
        *name = format!("file://{}", path.display());
    }
}
