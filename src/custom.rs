//! What a workspace and its user bring: custom tools and plugins in JavaScript, and executables with a manifest
//! (`spec/extensions.md` §1 and §2).
//!
//! The files of the configuration folders are looked at every second. What has changed is loaded anew, a broken file is a
//! source that failed with its reason, and calls that run keep what they were admitted with.
//!
//! JavaScript runs in one host process for each workspace, in the first runtime that is there (`runtime`), each file on a
//! thread of its own: an endless loop can only be ended with its thread, and so takes no other file's calls with it. What
//! two files import both is therefore there twice.
//!
//! *Invariant:* imports `call`, `permission`, `tool`, `workspace` and `process` only. Files of a project that is not trusted
//! are neither read nor run.

mod discovery;
mod host;
mod manifest;
mod runtime;
mod script;

use std::any::Any;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::discovery::{Found, Kind, ManifestFile, Script};
use self::host::Hosts;
use self::script::LoadError;
use crate::call::SourceState;
use crate::process::Programs;
use crate::tool::{Hook, Tool};
use crate::workspace::Workspace;

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What to do about a source that is not run.
const UNTRUSTED: &str = "it comes with the project, which is not trusted, so it is not run: set `trust = true` for the \
                         workspace, or start the service with --trust or TOOLGATE_TRUST=1";

/// What a workspace's extensions are made from.
pub struct Settings {
    /// The workspace.
    pub workspace: Arc<Workspace>,
    /// What starts programs.
    pub programs: Programs,
    /// The configuration folders whose code may be run, weak to strong.
    pub directories: Vec<PathBuf>,
    /// The configuration folders whose code is not run.
    pub untrusted_directories: Vec<PathBuf>,
    /// The entries of the key `plugin` that may be run.
    pub plugins: Vec<Value>,
    /// Those that may not.
    pub untrusted_plugins: Vec<Value>,
    /// The merged configuration, which plugins are shown.
    pub config: Value,
    /// A folder of the service for the host's own files.
    pub home: PathBuf,
    /// The runtime that the service's configuration names.
    pub runtime: Option<String>,
}

/// Whether a source is one of tools or a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Files and executables.
    Custom,
    /// Plugins.
    Plugin,
}

/// A source and what it offers.
#[derive(Clone)]
pub struct Offering {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: SourceState,
    /// What is wrong with it, or with some of what it offers; empty if nothing.
    pub problem: String,
    /// Its tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Its hooks.
    pub hooks: Vec<Arc<dyn Hook>>,
}

/// Takes what the sources of a group offer from now on, in their order.
pub type Take = Box<dyn Fn(Group, Vec<Offering>) + Send + Sync>;

/// The extensions of all workspaces, while they are kept up to date.
#[derive(Default)]
pub struct Extensions {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Extensions {
    /// Begins to look after a workspace. `first` is dropped when what is there at the start has been offered.
    pub fn watch(&self, settings: Settings, take: Take, first: Box<dyn Any + Send>) {
        let hosts = Hosts::new(
            host::Settings {
                programs: settings.programs.clone(),
                workspace: settings.workspace.clone(),
                home: settings.home.clone(),
                directories: settings.directories.clone(),
                runtime: settings.runtime.clone(),
            },
            self.tasks.clone(),
            self.stop.clone(),
        );
        let keeper = Keeper {
            hosts: Arc::new(hosts),
            settings: Arc::new(settings),
            take,
            found: Arc::default(),
            scripts: HashMap::new(),
            manifests: HashMap::new(),
            unlucky: HashMap::new(),
        };
        let keeping = keeper.keep(first);
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(keeping));
    }

    /// Ends the hosts, and waits for that.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Keeps one workspace's extensions up to date.
struct Keeper {
    hosts: Arc<Hosts>,
    settings: Arc<Settings>,
    take: Take,
    found: Arc<Found>,
    /// What was made of each file as it is.
    scripts: HashMap<PathBuf, (Script, Offering)>,
    manifests: HashMap<PathBuf, (ManifestFile, Option<Offering>)>,
    /// Files that could not be loaded for no fault of theirs, and why: they are tried again.
    unlucky: HashMap<PathBuf, String>,
}

impl Keeper {
    async fn keep(mut self, first: Box<dyn Any + Send>) {
        let untrusted = self.untrusted().await;
        let mut first = Some(first);
        loop {
            if let Some(found) = self.look().await
                && (*found != *self.found || first.is_some() || !self.unlucky.is_empty())
            {
                self.update(found, &untrusted).await;
            }
            first = None;
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn look(&self) -> Option<Arc<Found>> {
        let settings = self.settings.clone();
        let look = move || discovery::look(&settings.workspace, &settings.directories, &settings.plugins);
        // Fails only when the runtime shuts down.
        tokio::task::spawn_blocking(look).await.ok().map(Arc::new)
    }

    /// Names what is not run.
    async fn untrusted(&self) -> Vec<(Group, Offering)> {
        let settings = self.settings.clone();
        let look = move || {
            discovery::look(
                &settings.workspace,
                &settings.untrusted_directories,
                &settings.untrusted_plugins,
            )
        };
        let found = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        let scripts = found
            .scripts
            .into_iter()
            .map(|script| (group(script.kind), script.shown));
        let missing = found.missing.into_iter().map(|(name, _)| (Group::Plugin, name));
        let manifests = found
            .manifests
            .into_iter()
            .map(|manifest| (Group::Custom, manifest.shown));
        scripts
            .chain(missing)
            .chain(manifests)
            .map(|(group, name)| (group, without(name, SourceState::Untrusted, UNTRUSTED)))
            .collect()
    }

    /// Loads what has changed and offers everything.
    async fn update(&mut self, found: Arc<Found>, untrusted: &[(Group, Offering)]) {
        let surroundings_are_same = found.surroundings == self.found.surroundings;
        let (known, unlucky) = (std::mem::take(&mut self.scripts), std::mem::take(&mut self.unlucky));
        let is_same = |script: &Script| {
            let (before, offering) = known.get(&script.path)?;
            (surroundings_are_same && before == script).then(|| offering.clone())
        };
        let loading = found.scripts.iter().map(|script| async {
            match is_same(script) {
                Some(offering) => (offering, true),
                None => self.load(script, unlucky.get(&script.path)).await,
            }
        });
        let (scripts, is_final): (Vec<Offering>, Vec<bool>) = join_all(loading).await.into_iter().unzip();
        let manifests = self.read_manifests(&found).await;
        for wanted in [Group::Custom, Group::Plugin] {
            let of_scripts = found.scripts.iter().zip(&scripts);
            let of_scripts = of_scripts.filter(|(script, _)| group(script.kind) == wanted);
            let mut offerings: Vec<Offering> = of_scripts.map(|(_, offering)| offering.clone()).collect();
            match wanted {
                Group::Custom => offerings.extend(manifests.iter().cloned()),
                Group::Plugin => {
                    let missing = found.missing.iter();
                    offerings
                        .extend(missing.map(|(name, problem)| without(name.clone(), SourceState::Failed, problem)));
                }
            }
            let untrusted = untrusted.iter().filter(|(group, _)| *group == wanted);
            offerings.extend(untrusted.map(|(_, offering)| offering.clone()));
            (self.take)(wanted, offerings);
        }
        for ((script, offering), is_final) in found.scripts.iter().zip(scripts).zip(is_final) {
            if is_final {
                self.scripts.insert(script.path.clone(), (script.clone(), offering));
            } else {
                self.unlucky.insert(script.path.clone(), offering.problem);
            }
        }
        self.found = found;
    }

    /// Loads a file, and says whether that is what becomes of it as it is. `before` is why it could not be loaded before.
    async fn load(&self, script: &Script, before: Option<&String>) -> (Offering, bool) {
        let error = match script::load(&self.hosts, script, &self.settings.config).await {
            Ok(loaded) => {
                let offering = Offering {
                    problem: loaded.problem,
                    tools: loaded.tools,
                    hooks: loaded.hooks,
                    ..without(script.shown.clone(), SourceState::Ready, "")
                };
                return (offering, true);
            }
            Err(error) => error,
        };
        let problem = error.to_string();
        if before != Some(&problem) {
            tracing::warn!(
                workspace = self.settings.workspace.name(),
                file = script.shown,
                problem,
                "not loaded"
            );
        }
        let is_final = matches!(error, LoadError::File(_));
        (without(script.shown.clone(), SourceState::Failed, &problem), is_final)
    }

    async fn read_manifests(&mut self, found: &Found) -> Vec<Offering> {
        let mut known = std::mem::take(&mut self.manifests);
        let mut offerings = Vec::new();
        for file in &found.manifests {
            let offering = match known.remove(&file.path) {
                Some((before, offering)) if before == *file => offering,
                Some(_) | None => {
                    let (path, programs) = (file.path.clone(), self.settings.programs.clone());
                    let read = tokio::task::spawn_blocking(move || manifest::read(&path, &programs)).await;
                    match read.unwrap_or_else(|error| Err(error.to_string())) {
                        Ok(None) => None,
                        Ok(Some(tool)) => Some(Offering {
                            tools: vec![Arc::new(tool)],
                            ..without(file.shown.clone(), SourceState::Ready, "")
                        }),
                        Err(problem) => Some(without(file.shown.clone(), SourceState::Failed, &problem)),
                    }
                }
            };
            offerings.extend(offering.clone());
            self.manifests.insert(file.path.clone(), (file.clone(), offering));
        }
        offerings
    }
}

fn group(kind: Kind) -> Group {
    match kind {
        Kind::Tools => Group::Custom,
        Kind::Plugin => Group::Plugin,
    }
}

fn without(name: String, state: SourceState, problem: &str) -> Offering {
    Offering {
        name,
        state,
        problem: problem.to_owned(),
        tools: Vec::new(),
        hooks: Vec::new(),
    }
}
