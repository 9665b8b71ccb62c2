//! How many things of each name are under way.
//!
//! *Invariant:* nothing is kept of a name of which nothing is under way.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts by names.
#[derive(Clone, Default)]
pub(crate) struct Counts(Arc<Mutex<HashMap<String, usize>>>);

/// One that is under way; dropping it makes room.
pub(crate) struct UnderWay {
    name: String,
    counts: Counts,
}

impl Counts {
    /// Counts one more of a name if it may be, which is asked with all counts as they are. Until what is returned is dropped, it counts.
    pub(crate) fn begin<E>(
        &self,
        name: &str,
        may_be: impl FnOnce(&HashMap<String, usize>) -> Result<(), E>,
    ) -> Result<UnderWay, E> {
        let mut all = self.0.lock();
        may_be(&all)?;
        *all.entry(name.to_owned()).or_default() += 1;
        Ok(UnderWay {
            name: name.to_owned(),
            counts: self.clone(),
        })
    }

    /// Says whether nothing is under way.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut all = self.counts.0.lock();
        if let Some(count) = all.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.name);
            }
        }
    }
}
