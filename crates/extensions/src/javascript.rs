//! What a workspace and its user bring: custom tools and plugins in JavaScript, and executables with a manifest
//! (`docs/spec/extensions.md` §1 and §2).
//!
//! The files of the configuration folders are looked at every second. What has changed is loaded anew, a broken file is a
//! source that failed with its reason, and calls that run keep what they were admitted with.
//!
//! JavaScript runs in one host process for each workspace, in the first runtime that is there (`runtime`), each file on
//! threads of its own: an endless loop can only be ended with its thread. Calls of a file with tools have a thread each
//! while they run at the same time; a plugin has one, because its hooks and tools share what it keeps.
//!
//! *Invariant:* imports `call`, `permission`, `tool`, `workspace` and `process` only. Files of a project that is not trusted
//! are neither read nor run.

mod discovery;
mod events;
mod host;
mod manifest;
mod runtime;
mod script;
mod world;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use toolgate_fs::Workspace;
use toolgate_model::{JsonMap, Source, SourceState};
use toolgate_process::Programs;
use toolgate_tool::{Catalog, Contribution, Hold, Offering};

use self::discovery::{Found, Kind, ManifestFile, Script};
use self::events::{Feeds, Listeners};
use self::host::Hosts;
use self::script::{LoadError, Loaded, Module};
pub use self::world::{Answer, Left, World};
use crate::groups::{Group, Groups};

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long what is there already waits for files that are still being loaded.
const MAX_LOAD_WAIT: Duration = Duration::from_secs(15);

/// How many files are loaded at the same time.
const MAX_LOADING: usize = 8;

/// A file that the host has ended with this often is not loaded any more as it is.
const MAX_CRASHES: u32 = 3;

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
    /// Where plugins that are named by a relative path or as a package are looked for besides: the workspace, if its code
    /// may be run.
    pub plugin_base: Option<PathBuf>,
    /// The configuration folders whose code is not run.
    pub untrusted_directories: Vec<PathBuf>,
    /// The entries of the key `plugin` that may be run.
    pub plugins: Vec<Value>,
    /// Those that may not.
    pub untrusted_plugins: Vec<Value>,
    /// Whether plugins are left out, wherever they come from.
    pub pure: bool,
    /// The merged configuration, which plugins are shown.
    pub config: Value,
    /// Where OpenCode installs plugins that it finds in its registry.
    pub cache: Option<PathBuf>,
    /// What plugins may know and change.
    pub world: Arc<dyn World>,
    /// A folder of the service for the host's own files.
    pub home: PathBuf,
    /// The runtime that the service's configuration names.
    pub runtime: Option<String>,
}

/// The extensions of all workspaces, while they are kept up to date.
#[derive(Default)]
pub struct Extensions {
    groups: Groups,
    feeds: Arc<Feeds>,
}

impl Extensions {
    /// Begins to look after a workspace, whose tools `catalog` has. It holds lists and calls back until what is there at the
    /// start has been offered.
    pub fn watch(&self, settings: Settings, catalog: Arc<Catalog>) {
        let first = catalog.hold();
        let group = self.groups.of(settings.workspace.name());
        let hosts = Hosts::new(
            host::Settings {
                programs: settings.programs.clone(),
                workspace: settings.workspace.clone(),
                home: settings.home.clone(),
                directories: settings
                    .directories
                    .iter()
                    .chain(&settings.plugin_base)
                    .cloned()
                    .collect(),
                runtime: settings.runtime.clone(),
                world: settings.world.clone(),
            },
            group.tasks.clone(),
            group.stop.clone(),
        );
        let reloader = Reloader {
            hosts: Arc::new(hosts),
            settings: Arc::new(settings),
            catalog,
            found: Arc::default(),
            scripts: HashMap::new(),
            manifests: HashMap::new(),
            failed: HashMap::new(),
            plugins: Plugins {
                feeds: self.feeds.clone(),
                group: group.clone(),
                listeners: Arc::default(),
                left: Vec::new(),
                notes: Vec::new(),
            },
        };
        let reloading = reloader.run(first);
        group.tasks.spawn(group.stop.run_until_cancelled_owned(reloading));
    }

    /// Ends the hosts, and waits for that.
    pub async fn close(&self) {
        self.groups.end_all().await;
    }

    /// Returns the workspaces with plugins that hear of what happens, now and later.
    pub fn listening(&self) -> watch::Receiver<BTreeSet<String>> {
        self.feeds.listening()
    }

    /// Says that those who hear are told of everything that happens from now on.
    pub fn begin_to_tell(&self) {
        self.feeds.begin();
    }

    /// Says that nobody is told of anything.
    pub fn never_tell(&self) {
        self.feeds.never();
    }

    /// Tells the plugins of a workspace of an event, which has the shape of OpenCode's. Waits for none.
    pub fn tell(&self, workspace: &str, event: Value) {
        self.feeds.tell(workspace, event);
    }

    /// Ends the host of a workspace, and waits for that.
    pub async fn end(&self, workspace: &str) {
        // A reload that is under way would begin to listen again.
        self.groups.end(workspace).await;
        self.feeds.end(workspace);
    }
}

/// Keeps one workspace's extensions up to date.
struct Reloader {
    hosts: Arc<Hosts>,
    settings: Arc<Settings>,
    catalog: Arc<Catalog>,
    found: Arc<Found>,
    /// What was made of each file as it is.
    scripts: HashMap<PathBuf, (Script, Made)>,
    manifests: HashMap<PathBuf, (ManifestFile, Option<Offering>)>,
    /// Files that could not be loaded, perhaps for no fault of theirs: they are tried again.
    failed: HashMap<PathBuf, FailedLoad>,
    plugins: Plugins,
}

/// What a file offers, and what it did besides when it was loaded.
#[derive(Clone)]
struct Made {
    offering: Offering,
    module: Option<Arc<Module>>,
    left: Option<JsonMap>,
    hears: bool,
}

impl Made {
    fn nothing(offering: Offering) -> Self {
        Self {
            offering,
            module: None,
            left: None,
            hears: false,
        }
    }

    /// Returns what the file has wanted so far and is not there.
    fn notes(&self) -> BTreeSet<String> {
        self.module.as_ref().map(|module| module.notes()).unwrap_or_default()
    }

    /// Returns what it offers, with what people should know of it by now.
    fn offering(&self) -> Offering {
        let mut offering = self.offering.clone();
        let notes: Vec<String> = self.notes().into_iter().collect();
        if !notes.is_empty() {
            let told = format!("it has asked for what is not there: {}", notes.join(", "));
            if !offering.problem.is_empty() {
                offering.problem.push_str("; ");
            }
            offering.problem.push_str(&told);
        }
        offering
    }
}

/// What plugins are to the service besides tools and hooks of calls.
struct Plugins {
    feeds: Arc<Feeds>,
    group: Group,
    listeners: Arc<Listeners>,
    /// What they left of the configuration, as it was taken in last.
    left: Vec<Left>,
    /// What was told last of what they wanted.
    notes: Vec<BTreeSet<String>>,
}

impl Plugins {
    /// Takes over what the plugins that are loaded now, in their order, hear and have left.
    fn take_over(&mut self, settings: &Settings, catalog: &Catalog, made: &[(&Script, &Made)]) {
        let heard = made.iter().filter(|(_, made)| made.hears);
        let modules = heard.filter_map(|(_, made)| made.module.clone()).collect();
        let workspace = settings.workspace.name();
        if let Some(feed) = self.feeds.listen(workspace, &self.listeners, modules, catalog.hold()) {
            let running = self.group.stop.clone().run_until_cancelled_owned(feed.run());
            self.group.tasks.spawn(running);
        }
        let left: Vec<Left> = made
            .iter()
            .filter_map(|(script, made)| {
                Some(Left {
                    plugin: script.shown.clone(),
                    path: script.path.clone(),
                    config: made.left.clone()?,
                })
            })
            .collect();
        if left != self.left {
            settings.world.take_config(left.clone(), catalog.hold());
            self.left = left;
        }
    }
}

/// Why a file could not be loaded, and how often the host has ended meanwhile.
struct FailedLoad {
    problem: String,
    crashes: u32,
}

impl Reloader {
    async fn run(mut self, first: Hold) {
        let untrusted = self.untrusted().await;
        let mut first = Some(first);
        loop {
            if let Some(found) = self.look().await
                && (*found != *self.found || first.is_some() || !self.failed.is_empty())
            {
                self.update(found, &untrusted, &mut first).await;
            } else if self.notes() != self.plugins.notes {
                self.offer_again(&untrusted);
            }
            first = None;
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn look(&self) -> Option<Arc<Found>> {
        let settings = self.settings.clone();
        // Fails only when the runtime shuts down.
        tokio::task::spawn_blocking(move || {
            let mut bases: Vec<&Path> = settings.plugin_base.iter().map(PathBuf::as_path).collect();
            bases.extend(settings.directories.iter().map(PathBuf::as_path));
            let (directories, cache) = (&settings.directories, settings.cache.as_deref());
            let found = discovery::look(&settings.workspace, directories, &settings.plugins, &bases, cache);
            found.for_mode(settings.pure)
        })
        .await
        .ok()
        .map(Arc::new)
    }

    /// Names what is not run.
    async fn untrusted(&self) -> Vec<(Source, Offering)> {
        let settings = self.settings.clone();
        let found = tokio::task::spawn_blocking(move || {
            let (directories, plugins) = (&settings.untrusted_directories, &settings.untrusted_plugins);
            discovery::look(&settings.workspace, directories, plugins, &[], None).for_mode(settings.pure)
        })
        .await
        .unwrap_or_default();
        let scripts = found
            .scripts
            .into_iter()
            .map(|script| (source(script.kind), script.shown));
        let missing = found.missing.into_iter().map(|(name, _)| (Source::Plugin, name));
        let manifests = found
            .manifests
            .into_iter()
            .map(|manifest| (Source::Custom, manifest.shown));
        scripts
            .chain(missing)
            .chain(manifests)
            .map(|(source, name)| (source, Offering::empty(name, SourceState::Untrusted, UNTRUSTED)))
            .collect()
    }

    /// Loads what has changed and offers everything: at once if it is soon there, else as it comes. Until then what was made
    /// of a file before is offered. `first` goes when all plugins have been offered, whose hooks see every call.
    async fn update(&mut self, found: Arc<Found>, untrusted: &[(Source, Offering)], first: &mut Option<Hold>) {
        let environment_is_same = found.surroundings == self.found.surroundings;
        let (known, failed) = (std::mem::take(&mut self.scripts), std::mem::take(&mut self.failed));
        let manifests = self.read_manifests(&found).await;
        let mut outcomes: Vec<Option<Outcome>> = found
            .scripts
            .iter()
            .map(|script| {
                let (before, made) = known.get(&script.path)?;
                let is_same = environment_is_same && before == script;
                is_same.then(|| Outcome::Final(made.clone()))
            })
            .collect();
        let offer = |outcomes: &[Option<Outcome>]| {
            let scripts: Vec<Offering> = found
                .scripts
                .iter()
                .zip(outcomes)
                .map(|(script, outcome)| match outcome {
                    Some(outcome) => outcome.offering(),
                    None => match known.get(&script.path) {
                        Some((_, before)) => before.offering(),
                        None => Offering::empty(script.shown.clone(), SourceState::Connecting, ""),
                    },
                })
                .collect();
            self.offer(&found, &scripts, &manifests, untrusted);
        };
        // The file that ends the host is found by loading one after the other.
        let is_careful = failed.values().any(|before| before.crashes > 0);
        let slots = Semaphore::new(if is_careful { 1 } else { MAX_LOADING });
        let to_load = (0..outcomes.len()).filter(|index| outcomes[*index].is_none());
        let mut loading: FuturesUnordered<_> = to_load
            .map(|index| {
                let (slots, script) = (&slots, &found.scripts[index]);
                let (reloader, before) = (&*self, failed.get(&script.path));
                async move {
                    // Never closed.
                    let _slot = slots.acquire().await;
                    (index, reloader.load(script, before).await)
                }
            })
            .collect();
        let mut has_news = *found != *self.found || first.is_some();
        let wait = tokio::time::sleep(MAX_LOAD_WAIT);
        tokio::pin!(wait);
        let mut is_waiting = true;
        loop {
            tokio::select! {
                loaded = loading.next() => {
                    let Some((index, outcome)) = loaded else { break };
                    has_news |= outcome.is_news(failed.get(&found.scripts[index].path));
                    outcomes[index] = Some(outcome);
                }
                () = &mut wait, if is_waiting => is_waiting = false,
            }
            if !is_waiting {
                offer(&outcomes);
                let mut plugins = found
                    .scripts
                    .iter()
                    .zip(&outcomes)
                    .filter(|(script, _)| script.kind == Kind::Plugin);
                let is_out =
                    |outcome: &Option<Outcome>| outcome.as_ref().is_some_and(|outcome| !outcome.leaves_config());
                // What one leaves of the configuration is taken over with all the rest.
                if plugins.all(|(_, outcome)| is_out(outcome)) {
                    *first = None;
                }
            }
        }
        drop(loading);
        if has_news {
            offer(&outcomes);
        }
        let plugins = found.scripts.iter().zip(&outcomes);
        let plugins: Vec<(&Script, &Made)> = plugins
            .filter_map(|(script, outcome)| match outcome {
                Some(Outcome::Final(made)) if script.kind == Kind::Plugin => Some((script, made)),
                Some(Outcome::Final(_) | Outcome::FailedLoad(..)) | None => None,
            })
            .collect();
        self.plugins.take_over(&self.settings, &self.catalog, &plugins);
        for (script, outcome) in found.scripts.iter().zip(outcomes) {
            match outcome {
                Some(Outcome::Final(made)) => {
                    self.scripts.insert(script.path.clone(), (script.clone(), made));
                }
                Some(Outcome::FailedLoad(offering, crashes)) => {
                    let problem = offering.problem;
                    self.failed.insert(script.path.clone(), FailedLoad { problem, crashes });
                }
                // All have been loaded by now.
                None => {}
            }
        }
        self.found = found;
        self.plugins.notes = self.notes();
    }

    /// Returns what each file has wanted that is not there.
    fn notes(&self) -> Vec<BTreeSet<String>> {
        let made = self
            .found
            .scripts
            .iter()
            .filter_map(|script| self.scripts.get(&script.path));
        made.map(|(_, made)| made.notes()).collect()
    }

    /// Offers the same again, with what is known of it by now.
    fn offer_again(&mut self, untrusted: &[(Source, Offering)]) {
        let made = self
            .found
            .scripts
            .iter()
            .map(|script| match self.scripts.get(&script.path) {
                Some((_, made)) => made.offering(),
                None => Offering::empty(script.shown.clone(), SourceState::Failed, ""),
            });
        let scripts: Vec<Offering> = made.collect();
        let manifests: Vec<Offering> = self
            .found
            .manifests
            .iter()
            .filter_map(|file| self.manifests.get(&file.path)?.1.clone())
            .collect();
        self.plugins.notes = self.notes();
        self.offer(&self.found, &scripts, &manifests, untrusted);
    }

    /// Hands on what there is, in its order.
    fn offer(&self, found: &Found, scripts: &[Offering], manifests: &[Offering], untrusted: &[(Source, Offering)]) {
        for wanted in [Source::Custom, Source::Plugin] {
            let of_scripts = found.scripts.iter().zip(scripts);
            let of_scripts = of_scripts.filter(|(script, _)| source(script.kind) == wanted);
            let mut offerings: Vec<Offering> = of_scripts.map(|(_, offering)| offering.clone()).collect();
            if wanted == Source::Custom {
                offerings.extend(manifests.iter().cloned());
            } else {
                let missing = found.missing.iter();
                offerings
                    .extend(missing.map(|(name, problem)| Offering::empty(name.clone(), SourceState::Failed, problem)));
            }
            let untrusted = untrusted.iter().filter(|(source, _)| *source == wanted);
            offerings.extend(untrusted.map(|(_, offering)| offering.clone()));
            self.catalog.replace(wanted, offerings);
        }
    }

    /// Loads a file. `before` is why it could not be loaded before.
    async fn load(&self, script: &Script, before: Option<&FailedLoad>) -> Outcome {
        let error = match script::load(&self.hosts, script, &self.settings.config).await {
            Ok(Loaded {
                contribution,
                problem,
                module,
                left,
                hears,
            }) => {
                return Outcome::Final(Made {
                    offering: Offering {
                        problem,
                        contribution,
                        ..Offering::empty(script.shown.clone(), SourceState::Ready, "")
                    },
                    module: (script.kind == Kind::Plugin).then_some(module),
                    left,
                    hears,
                });
            }
            Err(error) => error,
        };
        let problem = error.to_string();
        if before.is_none_or(|before| before.problem != problem) {
            tracing::warn!(
                workspace = self.settings.workspace.name(),
                file = script.shown,
                problem,
                "not loaded"
            );
        }
        let offering = Offering::empty(script.shown.clone(), SourceState::Failed, &problem);
        let crashes = before.map_or(0, |before| before.crashes);
        match error {
            LoadError::File(_) => Outcome::Final(Made::nothing(offering)),
            LoadError::NoHost(_) => Outcome::FailedLoad(offering, crashes),
            LoadError::HostEnded(_) if crashes + 1 >= MAX_CRASHES => Outcome::Final(Made::nothing(offering)),
            LoadError::HostEnded(_) => Outcome::FailedLoad(offering, crashes + 1),
        }
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
                            contribution: Contribution {
                                tools: vec![Arc::new(tool)],
                                hooks: Vec::new(),
                            },
                            ..Offering::empty(file.shown.clone(), SourceState::Ready, "")
                        }),
                        Err(problem) => Some(Offering::empty(file.shown.clone(), SourceState::Failed, &problem)),
                    }
                }
            };
            offerings.extend(offering.clone());
            self.manifests.insert(file.path.clone(), (file.clone(), offering));
        }
        offerings
    }
}

/// What became of a file that was loaded.
enum Outcome {
    /// This is what becomes of it as it is.
    Final(Made),
    /// It may not be its fault that there is nothing; how often the host has ended.
    FailedLoad(Offering, u32),
}

impl Outcome {
    fn offering(&self) -> Offering {
        match self {
            Self::Final(made) => made.offering(),
            Self::FailedLoad(offering, _) => offering.clone(),
        }
    }

    /// Says whether the file has changed the configuration.
    fn leaves_config(&self) -> bool {
        match self {
            Self::Final(made) => made.left.is_some(),
            Self::FailedLoad(..) => false,
        }
    }

    /// Says whether anything has changed for a file that could not be loaded for this reason before.
    fn is_news(&self, before: Option<&FailedLoad>) -> bool {
        match self {
            Self::Final(_) => true,
            Self::FailedLoad(offering, _) => before.is_none_or(|before| before.problem != offering.problem),
        }
    }
}

fn source(kind: Kind) -> Source {
    match kind {
        Kind::Tools => Source::Custom,
        Kind::Plugin => Source::Plugin,
    }
}
