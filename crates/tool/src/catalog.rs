//! The tools of a workspace as they come and go: what is built in, and what its sources offer at the moment.
//!
//! *Invariant:* a source's tools and hooks are replaced together, and whoever asks gets one consistent [`Registry`], which
//! stays as it is for as long as it is held. A tool that cannot be offered takes no other one with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_model::{ServiceEventKind, Source, SourceState};

use super::registry::{Entry, Registry, SchemaError};
use super::{Hook, Tool};

/// How long after the start of the service lists and calls wait for sources that are still being connected to. An agent's
/// first step should see its tools; a source that never answers holds up nobody for longer, and later ones nobody at all.
const MAX_START_WAIT: Duration = Duration::from_secs(5);

/// How long lists and calls wait for code of the workspace to be loaded: its hooks see every call.
const MAX_HOLD: Duration = Duration::from_secs(20);

/// Problems of one source that are told; of the others, their number.
const MAX_SHOWN: usize = 20;

/// What a source offers.
#[derive(Clone, Default)]
pub struct Contribution {
    /// Tools, in their order.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Hooks, in the order in which they run.
    pub hooks: Vec<Arc<dyn Hook>>,
}

/// A source as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// Of which kind it is.
    pub source: Source,
    /// Its name, unique among those of its kind.
    pub name: String,
    /// How it is.
    pub state: SourceState,
    /// What is wrong with it; empty if nothing.
    pub problem: String,
    /// How many tools it offers.
    pub tools: usize,
}

/// A source that is offered together with others of its kind.
#[derive(Clone)]
pub struct Offering {
    /// Its name, unique among those of its kind.
    pub name: String,
    /// How it is.
    pub state: SourceState,
    /// What is wrong with it; empty if nothing.
    pub problem: String,
    /// What it offers.
    pub contribution: Contribution,
}

impl Offering {
    /// Makes a source that offers nothing.
    pub fn empty(name: String, state: SourceState, problem: &str) -> Self {
        Self {
            name,
            state,
            problem: problem.to_owned(),
            contribution: Contribution::default(),
        }
    }
}

/// Keeps lists and calls waiting for tools that are about to come, but not for long.
pub struct Hold(tokio::sync::watch::Sender<Holds>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.send_modify(|holds| {
            holds.count -= 1;
            if holds.count == 0 {
                holds.until = None;
            }
        });
    }
}

/// Those who are about to offer something.
#[derive(Default)]
struct Holds {
    count: usize,
    /// From then on nobody waits for them: it counts from when the first one came, for whoever comes to wait.
    until: Option<Instant>,
}

/// What a source says to a catalog that may have forgotten it meanwhile: when it is over, what it says counts for nothing,
/// also if it had begun before. To be over before [`Catalog::remove`].
#[derive(Clone)]
pub struct Voice {
    /// Where it speaks.
    pub catalog: Arc<Catalog>,
    /// Of which kind it is.
    pub source: Source,
    /// Its name, unique among those of its kind.
    pub name: String,
    /// Whether it is over.
    pub over: CancellationToken,
}

impl Voice {
    /// As [`Catalog::offer`].
    pub fn offer(&self, contribution: Contribution) -> Vec<SchemaError> {
        let (part, problems) = Part::new(self.source, contribution, SourceState::Ready, String::new());
        self.put(part);
        problems
    }

    /// As [`Catalog::report`].
    pub fn report(&self, state: SourceState, problem: impl Into<String>) {
        let (part, _) = Part::new(self.source, Contribution::default(), state, problem.into());
        self.put(part);
    }

    /// Says that the source is lost that is about to come back: it has failed, and what it offered can still be called. Such
    /// a call waits in its tool.
    pub fn lost(&self, problem: String) {
        self.change(|parts, key| {
            if let Some(part) = parts.get_mut(&key) {
                part.state = SourceState::Failed;
                part.problem = problem;
            }
        });
    }

    fn put(&self, part: Part) {
        self.change(|parts, key| {
            parts.insert(key, part);
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<SourceKey, Part>, SourceKey)) {
        self.catalog.change(|state| {
            // Looked at where the source is forgotten as well: one of both comes last.
            if !self.over.is_cancelled() {
                change(&mut state.parts, (self.source, self.name.clone()));
            }
        });
    }
}

/// The kind of a source, and its name among those of its kind.
type SourceKey = (Source, String);

struct Part {
    entries: Vec<Entry>,
    hooks: Vec<Arc<dyn Hook>>,
    state: SourceState,
    problem: String,
}

struct State {
    parts: BTreeMap<SourceKey, Part>,
    /// Sources whose order is not that of their names.
    order: Vec<SourceKey>,
    current: Arc<Registry>,
}

/// Tells the clients of a workspace which tools came, went or changed.
type Announce = Box<dyn Fn(ServiceEventKind) + Send + Sync>;

/// The tools of one workspace.
pub struct Catalog {
    announce: Announce,
    invalid: Entry,
    /// The sources, and what they make together. Never held across an await.
    state: Mutex<State>,
    /// Counts changes, of tools and of states.
    changes: tokio::sync::watch::Sender<u64>,
    /// From then on nobody waits for sources.
    settled: Instant,
    /// Those who are about to offer something.
    holds: tokio::sync::watch::Sender<Holds>,
}

impl Catalog {
    /// Makes the catalog of a workspace from the tool that answers calls that cannot be understood and the built-in ones, in
    /// the order in which models are told of them. Changes are handed to `announce`.
    ///
    /// # Errors
    /// A tool's schema does not compile.
    pub fn new(
        announce: impl Fn(ServiceEventKind) + Send + Sync + 'static,
        invalid: Arc<dyn Tool>,
        builtin: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Result<Self, SchemaError> {
        let invalid = Entry::new(invalid, Source::Builtin)?;
        let part = Part {
            entries: builtin
                .into_iter()
                .map(|tool| Entry::new(tool, Source::Builtin))
                .collect::<Result<_, _>>()?,
            hooks: Vec::new(),
            state: SourceState::Ready,
            problem: String::new(),
        };
        let parts = BTreeMap::from([((Source::Builtin, String::new()), part)]);
        let current = Arc::new(assemble(&invalid, &parts, &[]));
        Ok(Self {
            announce: Box::new(announce),
            invalid,
            state: Mutex::new(State {
                parts,
                order: Vec::new(),
                current,
            }),
            changes: tokio::sync::watch::Sender::new(0),
            settled: Instant::now() + MAX_START_WAIT,
            holds: tokio::sync::watch::Sender::default(),
        })
    }

    /// Returns the tools and hooks of this moment.
    pub fn current(&self) -> Arc<Registry> {
        self.state().current.clone()
    }

    /// Returns whether there is a tool of this name, whatever the case of its letters, that does not come from sources of
    /// this kind.
    pub fn has_from_elsewhere(&self, name: &str, source: Source) -> bool {
        let state = self.state();
        let mut others = state.parts.iter().filter(|((kind, _), _)| *kind != source);
        self.invalid.is_called(name) || others.any(|(_, part)| part.entries.iter().any(|entry| entry.is_called(name)))
    }

    /// Returns the names of the tools that are not built in.
    pub fn added(&self) -> Vec<String> {
        let state = self.state();
        let added = state.parts.iter().filter(|((kind, _), _)| *kind != Source::Builtin);
        let entries = added.flat_map(|(_, part)| &part.entries);
        entries.map(|entry| entry.tool.name().to_owned()).collect()
    }

    /// Replaces what a source offers. Returns what is wrong with those tools that cannot be offered, which are left out.
    pub fn offer(&self, source: Source, name: &str, contribution: Contribution) -> Vec<SchemaError> {
        let (part, problems) = Part::new(source, contribution, SourceState::Ready, String::new());
        self.change(|state| {
            state.parts.insert((source, name.to_owned()), part);
        });
        problems
    }

    /// Replaces all sources of a kind; hooks run and names are taken in this order.
    pub fn replace(&self, source: Source, offerings: Vec<Offering>) {
        let new: Vec<_> = offerings
            .into_iter()
            .map(|offering| {
                let (part, _) = Part::new(source, offering.contribution, offering.state, offering.problem);
                ((source, offering.name), part)
            })
            .collect();
        self.change(|state| {
            state.parts.retain(|(kind, _), _| *kind != source);
            state.order.retain(|(kind, _)| *kind != source);
            state.order.extend(new.iter().map(|(key, _)| key.clone()));
            state.parts.extend(new);
        });
    }

    /// Keeps lists and calls waiting until what is returned is dropped.
    pub fn hold(&self) -> Hold {
        self.holds.send_modify(|holds| {
            holds.count += 1;
            holds.until.get_or_insert_with(|| Instant::now() + MAX_HOLD);
        });
        Hold(self.holds.clone())
    }

    /// Returns whether somebody holds lists and calls back.
    pub fn is_loading(&self) -> bool {
        self.holds.borrow().until.is_some_and(|until| until > Instant::now())
    }

    /// Waits until nobody holds lists and calls back, but not for long.
    pub async fn loaded(&self) {
        let mut holds = self.holds.subscribe();
        let until = holds.borrow().until;
        if let Some(until) = until {
            // The sender is ours, so only the time can end it otherwise.
            let _ = tokio::time::timeout_at(until, holds.wait_for(|holds| holds.count == 0)).await;
        }
    }

    /// Says how a source is that offers nothing for now.
    pub fn report(&self, source: Source, name: &str, state: SourceState, problem: impl Into<String>) {
        let (part, _) = Part::new(source, Contribution::default(), state, problem.into());
        self.change(|state| {
            state.parts.insert((source, name.to_owned()), part);
        });
    }

    /// Says in which order sources of a kind stand, weak to strong; without that, it is the order of their names.
    pub fn arrange(&self, source: Source, names: impl IntoIterator<Item = String>) {
        self.change(|state| {
            state.order.retain(|(kind, _)| *kind != source);
            state.order.extend(names.into_iter().map(|name| (source, name)));
        });
    }

    /// Announces that the tools that run subagents are offered from now on, or are not any more. They are always here, but
    /// only of use where there is somebody who runs one.
    pub fn announce_subagents(&self, can_run: bool) {
        let registry = self.current();
        let tools = registry.tools().filter(|tool| tool.properties().runs_subagent);
        let names: Vec<String> = tools.map(|tool| tool.name().to_owned()).collect();
        let (added, removed) = if can_run {
            (names, Vec::new())
        } else {
            (Vec::new(), names)
        };
        (self.announce)(ServiceEventKind::ToolsChanged {
            added,
            removed,
            changed: Vec::new(),
        });
        self.changes.send_modify(|count| *count += 1);
    }

    /// Forgets a source.
    pub fn remove(&self, source: Source, name: &str) {
        self.change(|state| {
            state.parts.remove(&(source, name.to_owned()));
        });
    }

    /// Returns the sources, the service itself not among them.
    pub fn sources(&self) -> Vec<SourceInfo> {
        let state = self.state();
        let others = state.parts.iter().filter(|((source, _), _)| *source != Source::Builtin);
        others
            .map(|((source, name), part)| SourceInfo {
                source: *source,
                name: name.clone(),
                state: part.state,
                problem: part.problem.clone(),
                tools: part.entries.len(),
            })
            .collect()
    }

    /// Returns what counts up with every change; ask for the state after a change was seen.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// As [`Self::loaded`], and waits for sources that are being connected to for the first time, right after the start and
    /// not for long.
    pub async fn settled(&self) {
        self.loaded().await;
        self.connected(self.settled.saturating_duration_since(Instant::now()))
            .await;
    }

    /// Waits until no source is being connected to, at most for `limit`. Returns whether that is so.
    pub async fn connected(&self, limit: Duration) -> bool {
        let mut changes = self.changes();
        let settle = async {
            while self.is_connecting() {
                // The sender lives as long as this catalog.
                let _ = changes.changed().await;
            }
        };
        tokio::time::timeout(limit, settle).await.is_ok()
    }

    /// Returns whether a source is being connected to.
    pub fn is_connecting(&self) -> bool {
        let state = self.state();
        state.parts.values().any(|part| part.state == SourceState::Connecting)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let event = {
            let mut state = self.state();
            let before = state.current.clone();
            change(&mut state);
            state.current = Arc::new(assemble(&self.invalid, &state.parts, &state.order));
            difference(&before, &state.current)
        };
        if let Some(kind) = event {
            (self.announce)(kind);
        }
        self.changes.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Part {
    /// Makes a source of what it offers, and tells what of that cannot be offered: besides what is wrong with the source.
    fn new(
        source: Source,
        contribution: Contribution,
        state: SourceState,
        problem: String,
    ) -> (Self, Vec<SchemaError>) {
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        for tool in contribution.tools {
            match Entry::new(tool, source) {
                Ok(entry) => entries.push(entry),
                Err(problem) => problems.push(problem),
            }
        }
        let repaired = entries.iter().filter_map(Entry::repaired);
        let mut texts: Vec<String> = problems.iter().map(ToString::to_string).chain(repaired).collect();
        let more = texts.len().saturating_sub(MAX_SHOWN);
        texts.truncate(MAX_SHOWN);
        texts.extend((more > 0).then(|| format!("and {more} more")));
        texts.extend(Some(problem).filter(|problem| !problem.is_empty()));
        let part = Self {
            entries,
            hooks: contribution.hooks,
            state,
            problem: texts.join("; "),
        };
        (part, problems)
    }
}

fn assemble(invalid: &Entry, parts: &BTreeMap<SourceKey, Part>, order: &[SourceKey]) -> Registry {
    let mut parts: Vec<(&SourceKey, &Part)> = parts.iter().collect();
    // Stable: what has no place of its own stays in the order of the names.
    parts.sort_by_key(|(key, _)| (key.0, order.iter().position(|known| known == *key)));
    let hooks = parts.iter().flat_map(|(_, part)| part.hooks.iter().cloned()).collect();
    let entries = parts.iter().flat_map(|(_, part)| part.entries.iter().cloned());
    Registry::assemble(invalid.clone(), entries, hooks)
}

fn by_name(registry: &Registry) -> HashMap<&str, &Arc<dyn Tool>> {
    registry.tools().map(|tool| (tool.name(), tool)).collect()
}

/// Returns the names of some tools. What answers calls that cannot be understood is always the same, and is not looked at.
fn names_of(registry: &Registry, wanted: impl Fn(&Arc<dyn Tool>) -> bool) -> Vec<String> {
    let wanted = registry.tools().skip(1).filter(|tool| wanted(tool));
    wanted.map(|tool| tool.name().to_owned()).collect()
}

/// Tells which tools came, went, or are other ones now; nothing if none.
fn difference(before: &Registry, after: &Registry) -> Option<ServiceEventKind> {
    let (old, new) = (by_name(before), by_name(after));
    // Whoever changes definitions may change any of them.
    let is_redefined = before.hooks().redefining() != after.hooks().redefining();
    let added = names_of(after, |tool| !old.contains_key(tool.name()));
    let removed = names_of(before, |tool| !new.contains_key(tool.name()));
    let changed = names_of(after, |tool| {
        old.get(tool.name())
            .is_some_and(|old| is_redefined || !Arc::ptr_eq(old, tool))
    });
    (!(added.is_empty() && removed.is_empty() && changed.is_empty())).then_some(ServiceEventKind::ToolsChanged {
        added,
        removed,
        changed,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_model::{Definition, Effect, ToolOutput};

    use super::super::{Offer, ToolContext, ToolError};
    use super::*;

    struct Named(&'static str);

    #[async_trait::async_trait]
    impl Tool for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn input_schema(&self) -> Value {
            json!({"type": "object"})
        }

        fn definition(&self, _offer: &Offer<'_>) -> Definition {
            Definition::foreign(self.0, "", &self.input_schema(), Source::Mcp, &[Effect::Network])
        }

        async fn call(&self, _input: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
            Err(ToolError::failed("It is not called."))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_for_a_hold_than_it_may_last() {
        let catalog = Catalog::new(|_| {}, Arc::new(Named("invalid")), []).unwrap();
        let took = async || {
            let begun = Instant::now();
            catalog.loaded().await;
            begun.elapsed()
        };
        assert_eq!(took().await, Duration::ZERO);
        let first = catalog.hold();
        assert!(catalog.is_loading());
        tokio::time::sleep(MAX_HOLD / 2).await;
        let second = catalog.hold();
        let rest = took().await;
        assert!(rest >= MAX_HOLD / 2 && rest < MAX_HOLD, "{rest:?}");
        assert!(!catalog.is_loading());
        assert_eq!(took().await, Duration::ZERO);
        drop((first, second));
        // What comes anew is waited for anew.
        let third = catalog.hold();
        assert!(catalog.is_loading() && took().await >= MAX_HOLD);
        drop(third);
        assert!(!catalog.is_loading());
    }

    #[test]
    fn a_source_that_is_over_says_nothing() {
        let catalog = Arc::new(Catalog::new(|_| {}, Arc::new(Named("invalid")), []).unwrap());
        let voice = Voice {
            catalog: Arc::clone(&catalog),
            source: Source::Mcp,
            name: "s".to_owned(),
            over: CancellationToken::new(),
        };
        let contribution = || Contribution {
            tools: vec![Arc::new(Named("s_t"))],
            hooks: Vec::new(),
        };
        let said = || {
            let sources = catalog.sources().into_iter();
            sources
                .map(|source| (source.state, source.tools, source.problem))
                .collect::<Vec<_>>()
        };
        assert!(voice.offer(contribution()).is_empty());
        assert_eq!(said(), [(SourceState::Ready, 1, String::new())]);
        voice.lost("gone".to_owned());
        assert_eq!(said(), [(SourceState::Failed, 1, "gone".to_owned())]);
        voice.over.cancel();
        catalog.remove(Source::Mcp, "s");
        assert!(voice.offer(contribution()).is_empty());
        voice.report(SourceState::Failed, "late");
        assert_eq!(said(), []);
        // Another one of that name.
        catalog.report(Source::Mcp, "s", SourceState::Disabled, "");
        voice.offer(contribution());
        voice.lost("late".to_owned());
        assert_eq!(said(), [(SourceState::Disabled, 0, String::new())]);
    }
}
