//! The tools' configuration: what the `opencode.json` files, the agent files and the environment lead to for one
//! workspace (`docs/spec/extensions.md` §4).
//!
//! *Invariant:* everything here was checked layer by layer before it was merged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use toolgate_lsp::Server;
use toolgate_model::skills::{SkillFolder, SkillSource};
use toolgate_model::{JsonMap, Rule};
use toolgate_permission::agents::{AgentConfig, AgentsConfig, Mode};
use toolgate_permission::hints::{self, AddedName};
use toolgate_permission::rules;

use super::environment::Environment;
use super::error::ConfigError;
use super::flags::Flags;
use super::layers::{self, Found};
use super::seen::Seen;
use super::sources::{self, Layer};
pub use super::sources::{Leaf, Origin};
use super::{lsp, merge, skills};

/// The tools' configuration of one workspace, checked.
#[derive(Clone, Debug, Default)]
pub struct ToolsConfig {
    /// Everything, merged; parts that this service does not use included.
    pub merged: JsonMap,
    /// The global rules, and what is said about agents.
    pub agents: AgentsConfig,
    /// The same as people have written it, where plugins have changed it.
    pub written: Option<AgentsConfig>,
    /// The part `experimental`.
    pub experimental: Experimental,
    /// How many tasks may hang on each other.
    pub subagent_depth: usize,
    /// The part `tool_output`.
    pub tool_output: ToolOutputLimits,
    /// The npm packages that the part `provider` names, by `provider/model` and by `provider`.
    pub packages: BTreeMap<String, String>,
    /// The switches of the environment.
    pub flags: Flags,
    /// The configuration folders that exist, weak to strong: custom tools and plugins are looked for there.
    pub directories: Vec<PathBuf>,
    /// Where skills are looked for, weak to strong.
    pub skills: Vec<SkillFolder>,
    /// Those of them that the project brought, and not the user who runs the service.
    project_directories: Vec<PathBuf>,
    /// What a person should know: keys without effect, files left out. What is odd about [`Self::added_names`] is not among it.
    pub warnings: Vec<String>,
    /// The permissions in rules that the service itself does not ask for.
    pub added_names: Vec<AddedName>,
    /// Files of agents that look as if somebody were still writing them.
    pub unfinished: Vec<PathBuf>,
    pub(super) layers: Vec<Layer>,
    shown: JsonMap,
}

/// The part `experimental`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Experimental {
    /// Offers the batch tool.
    pub batch_tool: bool,
    /// Tools that subagents do not get.
    pub primary_tools: Vec<String>,
    /// A rejection does not end the agent's turn.
    pub continue_loop_on_deny: bool,
    /// How long a call of an MCP server's tool may take.
    #[serde(deserialize_with = "millis")]
    pub mcp_timeout: Option<Duration>,
}

/// How much of an output a model sees; what is absent is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ToolOutputLimits {
    /// Lines.
    pub max_lines: Option<u64>,
    /// Bytes.
    pub max_bytes: Option<u64>,
}

impl ToolsConfig {
    /// Reads the configuration for a workspace. Blocking; nothing is written.
    ///
    /// # Errors
    /// The first file or variable that is invalid or cannot be read.
    pub fn load(directory: &Path, worktree: &Path, env: &Environment) -> Result<Self, ConfigError> {
        Self::load_and_note(directory, worktree, env, &mut Seen::default())
    }

    /// As [`Self::load`]; `seen` gets what was looked for, also where this fails.
    ///
    /// # Errors
    /// The first file or variable that is invalid or cannot be read.
    pub fn load_and_note(
        directory: &Path,
        worktree: &Path,
        env: &Environment,
        seen: &mut Seen,
    ) -> Result<Self, ConfigError> {
        Ok(Self::made_of(
            layers::collect(directory, worktree, env, seen)?,
            (directory, worktree),
            env,
        ))
    }

    /// As [`Self::load_and_note`], where `before` was in force: of files that are gone, what they said of rules and agents stays.
    /// Nobody may have meant everything to be allowed: a branch that is checked out or an editor takes files away as well.
    /// Returned with the files of which that is so.
    ///
    /// # Errors
    /// The first file or variable that is invalid or cannot be read.
    pub fn load_again(
        directory: &Path,
        worktree: &Path,
        env: &Environment,
        seen: &mut Seen,
        before: &Self,
    ) -> Result<(Self, Vec<PathBuf>), ConfigError> {
        let mut found = layers::collect(directory, worktree, env, seen)?;
        let kept = sources::keep_rules(&mut found.layers, &before.layers);
        Ok((Self::made_of(found, (directory, worktree), env), kept))
    }

    fn made_of(found: Found, (directory, worktree): (&Path, &Path), env: &Environment) -> Self {
        let Found {
            mut layers,
            directories,
            project_directories,
            mut warnings,
            unfinished,
        } = found;
        prepend_old_tools(&mut layers);
        let (mut merged, mut shown) = (JsonMap::new(), JsonMap::new());
        for layer in &layers {
            merge::merge(&mut merged, layer.value.clone());
            merge::merge(&mut shown, layer.shown.clone());
        }
        let agents = AgentsConfig {
            global: rules_of(merged.get("permission"), env, &mut warnings),
            agents: agents_of(&merged, env, &mut warnings),
        };
        let skills = skills::roots(directory, worktree, env, &merged, &mut warnings);
        Self {
            added_names: added_names(&agents, &layers),
            unfinished,
            agents,
            written: None,
            experimental: part(&merged, "experimental"),
            subagent_depth: part::<Option<usize>>(&merged, "subagent_depth").unwrap_or(1),
            tool_output: part(&merged, "tool_output"),
            packages: packages_of(&merged),
            flags: Flags::from_environment(env),
            merged,
            directories,
            skills,
            project_directories,
            warnings,
            layers,
            shown,
        }
    }

    /// Returns what a person should know as long as nobody knows which tools are added.
    pub fn warnings_alone(&self) -> Vec<String> {
        let may_come = self.brings_tools();
        let odd = self.added_names.iter().filter_map(|name| name.oddity(may_come));
        self.warnings.iter().cloned().chain(odd).collect()
    }

    /// Says whether MCP servers, custom tools or plugins are named, or lie in the configuration folders.
    fn brings_tools(&self) -> bool {
        let is_named = |key: &str| match self.merged.get(key) {
            Some(Value::Object(map)) => !map.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => false,
        };
        let folders = ["tool", "tools", "plugin", "plugins"];
        let is_there = |directory: &PathBuf| folders.iter().any(|folder| directory.join(folder).is_dir());
        is_named("mcp") || is_named("plugin") || self.directories.iter().any(is_there)
    }

    /// Returns everything, merged, as it may be shown: what a mark such as `{env:NAME}` stands for is not in it, nor what is
    /// a secret by its place.
    pub fn masked(&self) -> &JsonMap {
        &self.shown
    }

    /// Returns every value in force, as it may be shown, and where it comes from.
    pub fn explain(&self) -> Vec<Leaf<'_>> {
        sources::leaves(&self.shown, &self.layers)
    }

    /// Returns the skills that are to be fetched: those that the project names only if it is trusted.
    pub fn remote_skills(&self, trusted: bool, env: &Environment) -> Vec<SkillSource> {
        skills::remote(self.code("skills", trusted).as_ref(), env)
    }

    /// Returns the language servers that may be used: those that are known, as the configuration changes them, and its own.
    pub fn language_servers(&self, trusted: bool) -> Vec<Server> {
        lsp::servers(self.part("lsp"), self.code("lsp", trusted).as_ref(), &self.flags)
    }

    /// Returns one part of the configuration that names code to be run, such as `mcp` or `plugin`: without what the
    /// project says of it, unless that is trusted.
    pub fn code(&self, key: &str, trusted: bool) -> Option<Value> {
        let mut merged = JsonMap::new();
        for layer in self.layers.iter().filter(|layer| trusted || !layer.of_project) {
            if let Some(part) = layer.value.get(key) {
                merge::merge(&mut merged, toolgate_model::json_map([(key, part.clone())]));
            }
        }
        merged.shift_remove(key)
    }

    /// Returns the configuration folders whose code may be run: without those of the project, unless that is trusted.
    pub fn code_directories(&self, trusted: bool) -> Vec<PathBuf> {
        let may_run = |folder: &&PathBuf| trusted || !self.project_directories.contains(folder);
        self.directories.iter().filter(may_run).cloned().collect()
    }

    /// Returns the configuration folders that the project brought.
    pub fn project_directories(&self) -> &[PathBuf] {
        &self.project_directories
    }

    /// Returns the plugins that are named by their path.
    pub fn plugin_files(&self) -> Vec<PathBuf> {
        let entries = self
            .merged
            .get("plugin")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let names = entries.filter_map(|entry| entry.as_str().or_else(|| entry.get(0)?.as_str()));
        let paths = names.map(|name| match name.strip_prefix("file://") {
            Some(url) => percent_decode_str(url).decode_utf8_lossy().into_owned(),
            None => name.to_owned(),
        });
        paths.filter(|path| path.starts_with('/')).map(PathBuf::from).collect()
    }

    /// Returns the files that say something of rules or agents.
    pub fn rule_files(&self) -> impl Iterator<Item = &Path> {
        let says = |layer: &&Layer, key: &str| layer.value.contains_key(key);
        let of_rules = move |layer: &&Layer| ["permission", "agent", "tools"].iter().any(|key| says(layer, key));
        self.layers
            .iter()
            .filter(of_rules)
            .filter_map(|layer| match &layer.origin {
                Origin::File(path) => Some(path.as_path()),
                Origin::Variable(_) | Origin::OldTools => None,
            })
    }

    /// Returns one part of the merged configuration, such as `mcp` or `lsp`.
    pub fn part(&self, key: &str) -> Option<&Value> {
        self.merged.get(key)
    }
}

/// Puts what the old `tools` maps mean below everything else: explicit permissions win over them, key by key.
fn prepend_old_tools(layers: &mut Vec<Layer>) {
    let mut merged = JsonMap::new();
    for layer in layers.iter() {
        if let Some(tools) = layer.value.get("tools") {
            merge::merge(&mut merged, toolgate_model::json_map([("tools", tools.clone())]));
        }
    }
    if let Some(Value::Object(tools)) = merged.get("tools")
        && let Ok(block) = rules::from_tools(tools)
    {
        let value = toolgate_model::json_map([("permission", Value::Object(block))]);
        let old_tools = Layer {
            origin: Origin::OldTools,
            of_project: false,
            shown: value.clone(),
            value,
        };
        layers.insert(0, old_tools);
    }
}

/// Every layer has been checked, so that a merged block can only be wrong through a merge of its own making; such a
/// block must not loosen anything.
pub(super) fn rules_of(block: Option<&Value>, env: &Environment, warnings: &mut Vec<String>) -> Vec<Rule> {
    let Some(block) = block else { return Vec::new() };
    let made = rules::from_config(block, env.home());
    warnings.extend(made.iter().flat_map(|rules| hints::for_rules(rules)));
    made.unwrap_or_else(|problem| {
        warnings.push(format!(
            "everything is asked for: the merged permissions are invalid at {problem}"
        ));
        vec![rules::rule("*", "*", toolgate_model::Action::Ask)]
    })
}

/// Returns the permissions in rules that the service itself does not ask for.
pub(super) fn added_names(agents: &AgentsConfig, layers: &[Layer]) -> Vec<AddedName> {
    let of_agents = agents.agents.iter().flat_map(|agent| &agent.rules);
    let names = hints::added_names(agents.global.iter().chain(of_agents)).into_iter();
    let placed = names.map(|name| {
        let places = layers.iter().filter(|layer| sources::has_rules_for(layer, name.name()));
        let places = places.map(|layer| layer.origin.to_string()).collect();
        name.written_in(places)
    });
    placed.collect()
}

pub(super) fn agents_of(merged: &JsonMap, env: &Environment, warnings: &mut Vec<String>) -> Vec<AgentConfig> {
    let Some(Value::Object(agents)) = merged.get("agent") else {
        return Vec::new();
    };
    let one = |(name, block): (&String, &Value)| {
        let text = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
        let switch = |key: &str| block.get(key).and_then(Value::as_bool);
        AgentConfig {
            name: name.clone(),
            description: text("description"),
            mode: text("mode").as_deref().and_then(Mode::from_word),
            hidden: switch("hidden"),
            disable: switch("disable").unwrap_or(false),
            model: text("model"),
            prompt: text("prompt"),
            rules: rules_of(block.get("permission"), env, warnings),
        }
    };
    agents.iter().map(one).collect()
}

fn packages_of(merged: &JsonMap) -> BTreeMap<String, String> {
    let entries = |part: Option<&Value>| part.and_then(Value::as_object).cloned().unwrap_or_default();
    let package = |block: &Value, pointer: &str| block.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let mut packages = BTreeMap::new();
    for (provider, block) in entries(merged.get("provider")) {
        for (model, block) in entries(block.get("models")) {
            let package = package(&block, "/provider/npm");
            packages.extend(package.map(|package| (format!("{provider}/{model}"), package)));
        }
        packages.extend(package(&block, "/npm").map(|package| (provider, package)));
    }
    packages
}

/// Reads one part of the merged configuration. Its values were checked layer by layer.
fn part<T: Default + for<'v> Deserialize<'v>>(merged: &JsonMap, key: &str) -> T {
    let part = merged.get(key).map(T::deserialize);
    part.and_then(Result::ok).unwrap_or_default()
}

fn millis<'v, D: Deserializer<'v>>(time: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::deserialize(time)?.map(Duration::from_millis))
}

#[cfg(test)]
mod tests;
