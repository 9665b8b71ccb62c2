//! The sandbox of a command: what it is confined to, and what happens when the kernel refuses it something.
//!
//! A refusal is seen in what the command prints, because the kernel tells nobody else. It becomes a question: may the
//! command write there, and run again? The rules answer where they can, so that what a rule allows for an outside
//! folder, the kernel allows too. A command runs again from its beginning; the prompt says so.
//!
//! *Invariant:* only an approval widens a confinement, once per folder and [`MAX_AGAIN`] times per call.

mod refusals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::call::{Ask, JsonMap, json_map};
use crate::process::sandbox::{Confinement, Demand, Mode, Sandbox};
use crate::tool::{CallContext, Refusal, ToolError, blocking};

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

/// Confines commands by their agent.
pub struct Confine {
    sandbox: Arc<Sandbox>,
    general: Confining,
    agents: BTreeMap<String, Confining>,
    /// Where the outputs of each workspace are; its own are all that a command may read of them.
    outputs: BTreeMap<String, PathBuf>,
}

impl Confine {
    /// Makes it; `general` is for agents that are not named, `outputs` by the names of workspaces.
    pub fn new(
        sandbox: Arc<Sandbox>,
        general: Confining,
        agents: BTreeMap<String, Confining>,
        outputs: BTreeMap<String, PathBuf>,
    ) -> Self {
        Self {
            sandbox,
            general,
            agents,
            outputs,
        }
    }

    /// Begins the confinement of one call's command, which starts in `workdir` and may write what was `approved`.
    fn confine(&self, workdir: &Path, approved: &[PathBuf], ctx: &CallContext) -> Option<Active> {
        let Confining { mode, network } = *self.agents.get(&ctx.origin.agent).unwrap_or(&self.general);
        Some(Active {
            sandbox: Arc::clone(&self.sandbox),
            demand: Demand {
                mode: mode?,
                network: network == NetworkUse::Allow,
                // What counts as inside for the rules: the whole checkout.
                workspace: ctx.workspace.worktree().to_path_buf(),
                approved: approved.to_vec(),
                readable: self.outputs.get(ctx.workspace.name()).cloned().into_iter().collect(),
            },
            network,
            directory: workdir.to_path_buf(),
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
    demand: Demand,
    network: NetworkUse,
    /// Where relative paths of the command begin.
    directory: PathBuf,
    current: Option<Arc<Confinement>>,
    asked: Vec<PathBuf>,
    /// What the kernel refused, for the metadata.
    refused: Vec<Value>,
    again: usize,
}

impl Confined {
    pub(super) fn new(confine: Option<&Confine>, workdir: &Path, approved: &[PathBuf], ctx: &CallContext) -> Self {
        Self(confine.and_then(|confine| confine.confine(workdir, approved, ctx)))
    }

    /// Prepares what the next run is confined to; none if it is not confined.
    pub(super) async fn prepare(&mut self) -> Result<Option<Arc<Confinement>>, ToolError> {
        let Some(active) = &mut self.0 else { return Ok(None) };
        let (sandbox, demand) = (Arc::clone(&active.sandbox), active.demand.clone());
        let prepared = blocking(move || sandbox.confine(&demand)).await?;
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
        ctx: &CallContext,
    ) -> Result<Option<String>, ToolError> {
        let Some(active) = &mut self.0 else { return Ok(None) };
        let Some(current) = active.current.clone() else {
            return Ok(None);
        };
        let (text, directory, demand) = (printed.to_owned(), active.directory.clone(), active.demand.clone());
        let mut found = blocking(move || find(&text, &directory, &demand, &current)).await?;
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
            })
        });
        json!({ "mode": active.demand.mode.as_str(), "enforced": enforced, "refused": active.refused })
    }

    /// Returns what the model should know of refusals that stand.
    pub(super) fn note(&self) -> Option<String> {
        let active = self.0.as_ref()?;
        let standing = active.refused.iter().filter(|refused| refused["answer"] != "allowed");
        let lines = standing.map(|refused| {
            let what = match refused["kind"].as_str() {
                Some("network") => "the network".to_owned(),
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
    async fn ask_folders(
        &mut self,
        command: &str,
        found: Refused,
        ctx: &CallContext,
    ) -> Result<Option<String>, ToolError> {
        let shown: Vec<String> = found
            .folders
            .iter()
            .map(|folder| folder.to_string_lossy().into_owned())
            .collect();
        let patterns: Vec<String> = shown.iter().map(|folder| format!("{folder}/*")).collect();
        // An approval is a wildcard, so a name that holds one would approve more than itself.
        let is_literal = shown.iter().all(|folder| !folder.contains(['*', '?']));
        let names = shown.join(", ");
        let ask = Ask {
            permission: "external_directory".to_owned(),
            always: if is_literal { patterns.clone() } else { Vec::new() },
            patterns,
            title: format!("Allow writing to {names} and run the command again"),
            metadata: question(
                command,
                [
                    ("filepath", json!(found.paths.first())),
                    ("parentDir", json!(shown.first())),
                ],
            ),
            late: true,
            ..Ask::default()
        };
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
    async fn ask_network(&mut self, command: &str, ctx: &CallContext) -> Result<Option<String>, ToolError> {
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

    async fn put(&self, ask: Ask, ctx: &CallContext) -> Result<&'static str, ToolError> {
        if self.again >= MAX_AGAIN {
            return Ok("not asked: the command ran too often");
        }
        match ctx.ask(ask).await {
            Ok(()) => Ok("allowed"),
            Err(Refusal::Denied { .. }) => Ok("denied by a rule"),
            Err(Refusal::Rejected | Refusal::Corrected { .. } | Refusal::Dismissed { .. }) => {
                Ok("rejected by the user")
            }
            Err(Refusal::Expired) => Ok("nobody answered"),
            Err(Refusal::Unattended) => Ok("nobody is there to allow it"),
            Err(Refusal::TooManyPrompts { .. }) => Ok("not asked: too many prompts wait for an answer"),
            Err(Refusal::Withdrawn) => Err(ToolError::Cancelled),
            Err(Refusal::Edited) => Err(Refusal::Edited.into()),
            Err(Refusal::Unavailable) => Err(Refusal::Unavailable.into()),
        }
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
