//! The sandbox of a command: what it is confined to, and what happens when the kernel refuses it something.
//!
//! What a person approved runs as the configuration says. What rules or grants allowed is held within walls, also
//! where there are no rules at all: the kernel allows what the line was judged as, and nothing else. Only where the rules allow
//! every command and hold back nothing else there are no walls (`has_walls` of `permission`'s agents).
//!
//! A refusal is seen in what the command prints, because the kernel tells nobody else. It becomes a question: may the
//! command write there, and run again? The rules answer where they can, so that what a rule allows for an outside
//! folder, the kernel allows too. A command runs again from its beginning; the prompt says so.
//!
//! *Invariant:* only an approval widens a confinement, once per folder and [`MAX_AGAIN`] times per call.

mod caches;
mod refusals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_model::{Ask, Consent, JsonMap, json_map};
use toolgate_process::sandbox::{Confinement, Demand, Mode, Sandbox, Stopped};
use toolgate_tool::{Refusal, ToolContext, ToolError, blocking};

use super::approval::Judged;
use refusals::{Refused, find};

/// How often a command may run again.
const MAX_AGAIN: usize = 3;

/// How the commands of an agent are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confining {
    /// What they may write; none for whatever the service may.
    pub mode: Option<Mode>,
    /// Whether they may use the network.
    pub network: NetworkUse,
}

/// Whether confined commands may use the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkUse {
    /// Not at first; when one fails for it, `network` is asked for.
    Ask,
    /// Yes.
    Allow,
    /// No.
    Deny,
}

/// Says where the outputs of a workspace are.
type OutputsOf = Box<dyn Fn(&str) -> PathBuf + Send + Sync>;

/// Confines commands by their agent.
pub struct Confine {
    sandbox: Arc<Sandbox>,
    general: Confining,
    agents: BTreeMap<String, Confining>,
    /// Where the outputs of a workspace are; its own are all that a command may read of them.
    outputs: OutputsOf,
}

impl Confine {
    /// Makes it; `general` is for agents that are not named, `outputs` gets the names of workspaces.
    pub fn new(
        sandbox: Arc<Sandbox>,
        general: Confining,
        agents: BTreeMap<String, Confining>,
        outputs: impl Fn(&str) -> PathBuf + Send + Sync + 'static,
    ) -> Self {
        Self {
            sandbox,
            general,
            agents,
            outputs: Box::new(outputs),
        }
    }

    /// Begins the confinement of one call's command, which starts in `workdir` and may write what was `approved`.
    fn confine(&self, workdir: &Path, approved: &[PathBuf], judged: &Judged, ctx: &ToolContext) -> Option<Active> {
        let Confining { mode, network } = *self.agents.get(&ctx.origin.agent).unwrap_or(&self.general);
        let walls = judged.consent == Consent::Standing && ctx.permission.has_walls();
        if mode.is_none() && !walls {
            return None;
        }
        let has_network = match (mode, network) {
            (_, NetworkUse::Allow) => true,
            (Some(_), NetworkUse::Ask) | (_, NetworkUse::Deny) => false,
            (None, NetworkUse::Ask) => judged.uses_network || ctx.permission.allows("network", &judged.command),
        };
        // What counts as inside for the rules: the whole checkout.
        let workspace = ctx.workspace.worktree().to_path_buf();
        Some(Active {
            sandbox: Arc::clone(&self.sandbox),
            is_configured: mode.is_some(),
            demand: Demand {
                network: has_network,
                approved: approved.to_vec(),
                shown: vec![(self.outputs)(ctx.workspace.name())],
                walls,
                configuration: ctx.workspace.configuration().to_vec(),
                directory: Some(ctx.workspace.real_directory().to_path_buf()),
                ..Demand::new(mode.unwrap_or(Mode::WorkspaceWrite), workspace)
            },
            network,
            directory: workdir.to_path_buf(),
            caches: if walls {
                caches::caches_of(&judged.programs, ctx.workspace.home())
            } else {
                Vec::new()
            },
            current: None,
            asked: Vec::new(),
            refused: Vec::new(),
            again: 0,
        })
    }
}

/// The sandbox of one call, off or on.
pub(super) struct Confined(Option<Active>);

struct Active {
    sandbox: Arc<Sandbox>,
    /// Whether the configuration confines it, whoever approved it.
    is_configured: bool,
    demand: Demand,
    network: NetworkUse,
    /// Where relative paths of the command begin.
    directory: PathBuf,
    /// Caches that are made before it first runs: beside them it may make nothing.
    caches: Vec<caches::Cache>,
    current: Option<Arc<Confinement>>,
    asked: Vec<PathBuf>,
    /// What the kernel refused, for the metadata.
    refused: Vec<Value>,
    again: usize,
}

impl Confined {
    pub(super) fn new(
        confine: Option<&Confine>,
        workdir: &Path,
        approved: &[PathBuf],
        judged: &Judged,
        ctx: &ToolContext,
    ) -> Self {
        Self(confine.and_then(|confine| confine.confine(workdir, approved, judged, ctx)))
    }

    /// Prepares what the next run is confined to; none if it is not confined.
    pub(super) async fn prepare(&mut self) -> Result<Option<Arc<Confinement>>, ToolError> {
        let Some(active) = &mut self.0 else { return Ok(None) };
        let (sandbox, demand) = (Arc::clone(&active.sandbox), active.demand.clone());
        let caches = std::mem::take(&mut active.caches);
        let prepared = blocking(move || {
            caches::make(&caches, &sandbox);
            sandbox.confine(&demand)
        })
        .await?;
        let prepared = prepared.map_err(|error| {
            ToolError::Failed(format!("The command was not run, because its sandbox failed: {error}"))
        })?;
        Ok(active.current.insert(Arc::new(prepared)).clone().into())
    }

    /// Looks at what a failed run printed for refusals of the kernel and asks about them. Returns what was allowed, in
    /// words, if the command is to run again.
    pub(super) async fn again(
        &mut self,
        command: &str,
        printed: &str,
        ctx: &ToolContext,
    ) -> Result<Option<String>, ToolError> {
        let Some(active) = &mut self.0 else { return Ok(None) };
        let Some(current) = active.current.clone() else {
            return Ok(None);
        };
        let mut protected = active.new_stops(&current);
        protected.retain(|path| !active.asked.contains(path));
        if !protected.is_empty() {
            return active.ask_protected(command, protected, ctx).await;
        }
        let (text, directory, demand) = (printed.to_owned(), active.directory.clone(), active.demand.clone());
        let mut found = blocking(move || find(&text, &directory, &demand, &current)).await?;
        found.read.retain(|path| !active.asked.contains(path));
        if !found.read.is_empty() {
            return active.ask_reading(command, found.read, ctx).await;
        }
        found.folders.retain(|folder| !active.asked.contains(folder));
        if !found.folders.is_empty() {
            return active.ask_folders(command, found, ctx).await;
        }
        if found.network {
            return active.ask_network(command, ctx).await;
        }
        Ok(None)
    }

    /// Returns the metadata of the result.
    pub(super) fn metadata(&self) -> Value {
        let Some(active) = &self.0 else {
            return json!({ "mode": "off" });
        };
        let enforced = active.current.as_ref().map(|current| {
            let enforced = current.enforced();
            json!({
                "filesystem": enforced.filesystem,
                "network": enforced.network,
                "system_calls": enforced.system_calls,
                "signals": enforced.signals,
                "unix_sockets": enforced.sockets,
                "protected": enforced.protected,
            })
        });
        let mode = if active.is_configured {
            active.demand.mode.as_str()
        } else {
            "walls"
        };
        let mut refused = active.refused.clone();
        refused.extend(active.unasked());
        json!({ "mode": mode, "walls": active.demand.walls, "enforced": enforced, "refused": refused })
    }

    /// Returns what the model should know of refusals that stand.
    pub(super) fn hint(&self) -> Option<String> {
        let active = self.0.as_ref()?;
        let unasked = active.unasked();
        let refused = active.refused.iter().chain(&unasked);
        let standing = refused.filter(|refused| refused["answer"] != "allowed");
        let lines = standing.map(|refused| {
            let what = match refused["kind"].as_str() {
                Some("network") => "the network".to_owned(),
                Some("read") => format!("reading {}", refused["path"].as_str().unwrap_or_default()),
                Some("socket") => format!("connecting to {}", refused["path"].as_str().unwrap_or_default()),
                Some("protected") => format!("changing {}", refused["path"].as_str().unwrap_or_default()),
                Some(_) | None => format!("writing to {}", refused["directory"].as_str().unwrap_or_default()),
            };
            format!(
                "The sandbox refused {what} ({})\n",
                refused["answer"].as_str().unwrap_or_default()
            )
        });
        let lines: String = lines.collect();
        (!lines.is_empty()).then(|| format!("\n\n<bash_metadata>\n{lines}</bash_metadata>"))
    }
}

impl Active {
    /// Returns what the gate refused because it is protected.
    fn new_stops(&self, current: &Confinement) -> Vec<PathBuf> {
        let stopped = current.stopped().into_iter();
        let protected = stopped.filter_map(|stopped| match stopped {
            Stopped::Protected(path) => Some(path),
            Stopped::Socket(_) => None,
        });
        protected.collect()
    }

    /// Returns what the gate refused and nobody was asked about.
    fn unasked(&self) -> Vec<Value> {
        let stopped = self
            .current
            .as_ref()
            .map(|current| current.stopped())
            .unwrap_or_default();
        let told = stopped.into_iter().filter_map(|stopped| match stopped {
            Stopped::Protected(path) if self.asked.contains(&path) => None,
            Stopped::Protected(path) => Some(json!({
                "kind": "protected",
                "path": path,
                "answer": "not asked: the command ended well",
            })),
            Stopped::Socket(path) => Some(json!({
                "kind": "socket",
                "path": path,
                "answer": "sandbox.sockets names the sockets that commands may use",
            })),
        });
        told.collect()
    }

    /// What is protected is code or configuration that somebody else runs, so rules for all files do not open it.
    async fn ask_protected(
        &mut self,
        command: &str,
        paths: Vec<PathBuf>,
        ctx: &ToolContext,
    ) -> Result<Option<String>, ToolError> {
        let names = joined(&paths);
        let workspace = self.demand.workspace.canonicalize().unwrap_or_default();
        let patterns = paths.iter().map(|path| {
            let shown = path.strip_prefix(&workspace).unwrap_or(path);
            shown.to_string_lossy().into_owned()
        });
        let ask = Ask {
            permission: "edit".to_owned(),
            patterns: patterns.collect(),
            title: format!("Allow changing {names}, which others run or are configured by, and run the command again"),
            metadata: question(command, [("filepath", json!(paths.first()))]),
            late: true,
            only_people: true,
            ..Ask::default()
        };
        if !self.ask_paths("protected", &paths, ask, ctx).await? {
            return Ok(None);
        }
        self.demand.opened.extend(paths);
        Ok(Some(format!("changing {names}")))
    }

    async fn ask_reading(
        &mut self,
        command: &str,
        paths: Vec<PathBuf>,
        ctx: &ToolContext,
    ) -> Result<Option<String>, ToolError> {
        let names = joined(&paths);
        let patterns = paths.iter().map(|path| {
            let shown = path.to_string_lossy();
            if path.is_dir() {
                format!("{shown}/*")
            } else {
                shown.into_owned()
            }
        });
        let title = format!("Allow reading {names} and run the command again");
        let metadata = question(command, [("filepath", json!(paths.first()))]);
        let ask = outside(patterns.collect(), title, metadata);
        if !self.ask_paths("read", &paths, ask, ctx).await? {
            return Ok(None);
        }
        self.demand.readable.extend(paths);
        Ok(Some(format!("reading {names}")))
    }

    /// Asks for paths that were refused, and says whether the command may have them now.
    async fn ask_paths(
        &mut self,
        kind: &str,
        paths: &[PathBuf],
        ask: Ask,
        ctx: &ToolContext,
    ) -> Result<bool, ToolError> {
        self.asked.extend(paths.iter().cloned());
        let answer = self.put(ask, ctx).await?;
        let told = paths
            .iter()
            .map(|path| json!({ "kind": kind, "path": path, "answer": answer }));
        self.refused.extend(told);
        let is_allowed = answer == "allowed";
        self.again += usize::from(is_allowed);
        Ok(is_allowed)
    }

    async fn ask_folders(
        &mut self,
        command: &str,
        found: Refused,
        ctx: &ToolContext,
    ) -> Result<Option<String>, ToolError> {
        let shown: Vec<String> = found
            .folders
            .iter()
            .map(|folder| folder.to_string_lossy().into_owned())
            .collect();
        let patterns = shown.iter().map(|folder| format!("{folder}/*"));
        let names = shown.join(", ");
        let title = format!("Allow writing to {names} and run the command again");
        let (path, folder) = (json!(found.paths.first()), json!(shown.first()));
        let metadata = question(command, [("filepath", path), ("parentDir", folder)]);
        let ask = outside(patterns.collect(), title, metadata);
        self.asked.extend(found.folders.iter().cloned());
        let answer = self.put(ask, ctx).await?;
        self.refused.extend(
            shown
                .iter()
                .map(|folder| json!({ "kind": "write", "directory": folder, "paths": found.paths, "answer": answer })),
        );
        if answer != "allowed" {
            return Ok(None);
        }
        self.demand.approved.extend(found.folders);
        self.again += 1;
        Ok(Some(format!("writing to {names}")))
    }

    /// The pattern is the command line: an approval for good is for that very command and no other.
    async fn ask_network(&mut self, command: &str, ctx: &ToolContext) -> Result<Option<String>, ToolError> {
        if self.demand.network || self.refused.iter().any(|refused| refused["kind"] == "network") {
            return Ok(None);
        }
        let is_literal = !command.contains(['*', '?']);
        let ask = Ask {
            permission: "network".to_owned(),
            patterns: vec![command.to_owned()],
            always: is_literal.then(|| command.to_owned()).into_iter().collect(),
            title: "Allow the network and run the command again".to_owned(),
            metadata: question(command, []),
            late: true,
            ..Ask::default()
        };
        let answer = match self.network {
            NetworkUse::Ask => self.put(ask, ctx).await?,
            NetworkUse::Allow | NetworkUse::Deny => "denied by the configuration",
        };
        self.refused.push(json!({ "kind": "network", "answer": answer }));
        if answer != "allowed" {
            return Ok(None);
        }
        self.demand.network = true;
        self.again += 1;
        Ok(Some("the network".to_owned()))
    }

    async fn put(&self, ask: Ask, ctx: &ToolContext) -> Result<&'static str, ToolError> {
        if self.again >= MAX_AGAIN {
            return Ok("not asked: the command ran too often");
        }
        match ctx.permission.ask(ask).await {
            Ok(_) => Ok("allowed"),
            Err(Refusal::Denied { .. }) => Ok("denied by a rule"),
            Err(Refusal::Rejected | Refusal::Corrected { .. } | Refusal::Dismissed { .. }) => {
                Ok("rejected by the user")
            }
            Err(Refusal::Expired { .. }) => Ok("nobody answered"),
            Err(Refusal::Unattended { .. }) => Ok("nobody is there to allow it"),
            Err(Refusal::TooManyPrompts { .. }) => Ok("not asked: too many prompts wait for an answer"),
            Err(Refusal::Withdrawn) => Err(ToolError::Cancelled),
            Err(Refusal::Edited) => Err(Refusal::Edited.into()),
            Err(Refusal::Unavailable) => Err(Refusal::Unavailable.into()),
        }
    }
}

fn joined(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    shown.join(", ")
}

/// Returns the question for paths outside the workspace, which is put after a refusal.
fn outside(patterns: Vec<String>, title: String, metadata: JsonMap) -> Ask {
    // An approval for good is a wildcard, so a name that holds one would approve more than itself.
    Ask {
        permission: "external_directory".to_owned(),
        always: if patterns
            .iter()
            .all(|pattern| !pattern.strip_suffix("/*").unwrap_or(pattern).contains(['*', '?']))
        {
            patterns.clone()
        } else {
            Vec::new()
        },
        patterns,
        title,
        metadata,
        late: true,
        ..Ask::default()
    }
}

fn question<const N: usize>(command: &str, more: [(&str, Value); N]) -> JsonMap {
    let mut metadata = json_map([
        ("command", json!(command)),
        (
            "reason",
            json!("the sandbox refused it; the command ran once and would run again from its beginning"),
        ),
    ]);
    metadata.extend(more.map(|(key, value)| (key.to_owned(), value)));
    metadata
}
