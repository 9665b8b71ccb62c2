//! What plugins make of a workspace: what their hook `config` left, until the rules are made of it.
//!
//! Plugins are loaded while the service runs, and what they leave is handed over here; whoever looks after the rules
//! (`rules`) takes it from here. Lists and calls are held back meanwhile.
//!
//! *Invariant:* wiring only. What is handed over is taken as a whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolgate_config::plugins::PluginConfig;
use toolgate_fs::Workspace;
use toolgate_model::JsonMap;
use toolgate_permission::agents::Agents;
use toolgate_store::Store;
use toolgate_tool::Hold;

/// How far above a plugin's file the folder of its package may be.
const MAX_ABOVE: usize = 4;

/// The plugins of one workspace, as the rest of the service sees them.
pub(super) struct Plugins {
    pub(super) workspace: Arc<Workspace>,
    pub(super) store: Arc<dyn Store>,
    /// The configuration that they are shown.
    pub(super) given: JsonMap,
    /// How many sessions they have made. Held while one is made.
    pub(super) made: tokio::sync::Mutex<usize>,
    /// Notified when they have left something.
    news: Arc<Notify>,
    state: Mutex<State>,
}

/// What they have left, and what is in force. Never held across an await.
#[derive(Default)]
struct State {
    /// Counts how often they left something.
    generation: u64,
    left: Vec<PluginConfig>,
    /// The folders of their packages.
    packages: Vec<PathBuf>,
    /// Those who wait until it is in force.
    holds: Vec<Hold>,
    /// Whether nobody takes anything any more, so that nobody is to wait.
    is_over: bool,
    agents: Arc<Agents>,
}

/// What plugins have left.
pub(super) struct Taken {
    pub(super) generation: u64,
    pub(super) left: Vec<PluginConfig>,
    pub(super) packages: Vec<PathBuf>,
    /// To be kept until it is in force.
    pub(super) holds: Vec<Hold>,
}

impl Plugins {
    pub(super) fn new(workspace: Arc<Workspace>, store: Arc<dyn Store>, given: JsonMap, news: Arc<Notify>) -> Self {
        Self {
            workspace,
            store,
            given,
            made: tokio::sync::Mutex::default(),
            news,
            state: Mutex::default(),
        }
    }

    /// Hands over what plugins left: name, file and configuration of each, in their order.
    pub(super) fn leave(&self, left: Vec<(String, PathBuf, JsonMap)>, hold: Hold) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.packages = left.iter().filter_map(|(_, path, _)| package_of(path)).collect();
        let configs = left.into_iter().map(|(plugin, _, left)| PluginConfig {
            plugin,
            given: self.given.clone(),
            left,
        });
        state.left = configs.collect();
        if !state.is_over {
            state.holds.push(hold);
        }
        drop(state);
        self.news.notify_one();
    }

    /// Says whether they have left something since.
    pub(super) fn has_news(&self, generation: u64) -> bool {
        self.state.lock().generation != generation
    }

    /// Returns what they have left.
    pub(super) fn take(&self) -> Taken {
        let mut state = self.state.lock();
        Taken {
            generation: state.generation,
            left: state.left.clone(),
            packages: state.packages.clone(),
            holds: std::mem::take(&mut state.holds),
        }
    }

    /// Says that nobody takes from here what they leave: nobody waits for it then.
    pub(super) fn give_up(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        let holds = std::mem::take(&mut state.holds);
        drop(state);
        drop(holds);
    }

    /// Notes which agents there are now.
    pub(super) fn note_agents(&self, agents: Arc<Agents>) {
        self.state.lock().agents = agents;
    }

    /// Returns the agents that there are.
    pub(super) fn agents(&self) -> Arc<Agents> {
        self.state.lock().agents.clone()
    }
}

/// Returns the folder of the package that a plugin belongs to, links followed.
fn package_of(plugin: &Path) -> Option<PathBuf> {
    let plugin = plugin.canonicalize().ok()?;
    let mut folders = plugin.ancestors().take(MAX_ABOVE);
    folders
        .find(|folder| folder.join("package.json").is_file())
        .map(Path::to_path_buf)
}
