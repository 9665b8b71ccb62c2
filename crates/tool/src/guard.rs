//! Files that programs obey are asked for by name: a rule for everything does not mean them.
//!
//! *Invariant:* nothing here decides; it says what of a request must be named, and the permissions decide.

use toolgate_fs::{ResolvedPath, guarded};
use toolgate_model::{Ask, AskPart};

/// Why a file counts that has no name by which it is known.
const CONFIGURES: &str = "the rules of the workspace are read from there";

/// Returns the part of a request that a change of a file makes, if programs obey the file.
pub fn guarded_part(path: &ResolvedPath, old: &[u8], new: &[u8]) -> Option<AskPart> {
    part(path, |name| guarded::reason_to_change(name, old, new))
}

/// As [`guarded_part`], whatever the change is.
pub fn guarded_file(path: &ResolvedPath) -> Option<AskPart> {
    part(path, guarded::reason)
}

fn part(path: &ResolvedPath, reason: impl Fn(&str) -> Option<&'static str>) -> Option<AskPart> {
    let names = [path.relative(), path.real_relative()];
    let configures = path.configures().then_some(CONFIGURES);
    let reason = names.into_iter().find_map(reason).or(configures)?;
    let holds_rules = path.configures() || names.into_iter().any(guarded::holds_rules);
    Some(AskPart {
        text: format!("{} ({reason})", path.relative()),
        patterns: path.patterns(),
        guarded: Some(reason.to_owned()),
        holds_rules,
        ..AskPart::default()
    })
}

/// Adds such parts to a request that has its patterns. What `always` would allow is then these paths and no others.
pub fn ask_by_name(ask: &mut Ask, parts: Vec<AskPart>) {
    if parts.is_empty() {
        return;
    }
    let is_literal = ask.patterns.iter().all(|pattern| !pattern.contains(['*', '?']));
    ask.always = if is_literal { ask.patterns.clone() } else { Vec::new() };
    ask.parts.extend(parts);
}
