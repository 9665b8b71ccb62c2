//! The cases that cannot pass yet, each with the reason.
//!
//! *Invariant:* exact. A case named here that passes, an entry that names no case, and a case that two entries name are
//! failures of the run; so whoever builds a feature removes its line.

/// An id, or the beginning of ids followed by `*`, and why those cases cannot pass yet.
pub(crate) const KNOWN: &[(&str, &str)] = &[];

/// Says whether an entry names a case.
pub(crate) fn names(entry: &str, id: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(beginning) => id.starts_with(beginning),
        None => entry == id,
    }
}

/// Returns why a case cannot pass yet.
pub(crate) fn reason(id: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .find_map(|(entry, reason)| names(entry, id).then_some(*reason))
}

/// Returns what is wrong with a list: entries without a case, and cases with two entries.
pub(crate) fn faults(list: &[(&str, &str)], ids: &[&str]) -> Vec<String> {
    let is_idle = |entry: &str| !ids.iter().any(|id| names(entry, id));
    let idle = list.iter().filter(|(entry, _)| is_idle(entry));
    let mut faults: Vec<String> = idle
        .map(|(entry, _)| format!("{entry}: the list of known cases names no case"))
        .collect();
    for id in ids {
        if list.iter().filter(|(entry, _)| names(entry, id)).count() > 1 {
            faults.push(format!("{id}: the list of known cases names it twice"));
        }
    }
    faults
}
