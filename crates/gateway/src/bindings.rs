//! What workers were bound to that came without a workspace, as far as it is known here.
//!
//! *Invariant:* a worker keeps its binding, but a created workspace that is deleted, or gets another place, loses its own: so what is
//! remembered is good for a moment, and nothing is taken by it. What is not remembered is asked for: another gateway may have made it a
//! moment ago.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolgate_store::StoreError;
use toolgate_store::ledger::{Binding, Ledger};

/// Principals of which it is remembered. Beyond that all are forgotten.
const MAX_PRINCIPALS: usize = 20_000;

/// How long what was read is good for reading what is of a workspace.
const GOOD: Duration = Duration::from_secs(10);

/// The bindings of a principal: names of workers with their workspaces.
type OfPrincipal = Arc<[(String, String)]>;

/// What is known of bindings.
pub(crate) struct Bindings {
    ledger: Arc<dyn Ledger>,
    known: Mutex<HashMap<String, (OfPrincipal, Instant)>>,
}

impl Bindings {
    pub(crate) fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self {
            ledger,
            known: Mutex::default(),
        }
    }

    /// Returns which of these workspaces workers of a principal are bound to.
    pub(crate) async fn among(&self, principal: &str, wanted: &[String]) -> Result<Vec<String>, StoreError> {
        let has = |bindings: &OfPrincipal, workspace: &String| bindings.iter().any(|(_, one)| one == workspace);
        let known = self.known.lock().get(principal).cloned();
        let known =
            known.filter(|(known, read)| read.elapsed() < GOOD && wanted.iter().all(|workspace| has(known, workspace)));
        let bindings = match known {
            Some((known, _)) => known,
            None => self.read(principal).await?,
        };
        Ok(wanted
            .iter()
            .filter(|workspace| has(&bindings, workspace))
            .cloned()
            .collect())
    }

    /// Reads what is stored of a principal now. What was remembered of it stays if the store is away.
    pub(crate) async fn look(&self, principal: &str) -> Result<(), StoreError> {
        self.read(principal).await.map(drop)
    }

    /// Returns what a worker is bound to, whatever its name is if it has none. While the store is away that is what is remembered of it.
    pub(crate) async fn of(&self, principal: &str, worker: &str) -> Result<Option<String>, StoreError> {
        let own = |bindings: &OfPrincipal| {
            let found = bindings.iter().find(|(name, _)| worker.is_empty() || name == worker);
            found.map(|(_, workspace)| workspace.clone())
        };
        match self.read(principal).await {
            Ok(bindings) => Ok(own(&bindings)),
            Err(away) => {
                let known = self.known.lock().get(principal).cloned();
                known.and_then(|(known, _)| own(&known)).map(Some).ok_or(away)
            }
        }
    }

    async fn read(&self, principal: &str) -> Result<OfPrincipal, StoreError> {
        let bindings: OfPrincipal = self.ledger.bindings_of(principal).await?.into();
        let mut known = self.known.lock();
        if known.len() >= MAX_PRINCIPALS {
            known.clear();
        }
        known.insert(principal.to_owned(), (Arc::clone(&bindings), Instant::now()));
        Ok(bindings)
    }

    /// Binds a worker to a workspace that nobody has had.
    pub(crate) async fn bind(&self, principal: &str, worker: &str, workspace: &str) -> Result<Binding, StoreError> {
        self.ledger.bind_worker(principal, worker, workspace).await
    }
}
