//! Where skills are looked for, as the configuration says.
//!
//! *Invariant:* plain data.

use std::path::PathBuf;

/// A folder in which skills are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFolder {
    /// The folder. It need not exist.
    pub path: PathBuf,
    /// Whether folders whose names begin with a dot are entered.
    pub enters_hidden: bool,
    /// Whether only what belongs to the service's user or to root counts.
    pub own_only: bool,
    /// Where a link may lead whose target is not named `SKILL.md`; anywhere if there is none. What a project brings with
    /// it must not show other people's files as skills.
    pub within: Option<PathBuf>,
}

/// Skills at a URL, and where they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSource {
    /// Where they are published.
    pub url: String,
    /// Where they are kept; not there before they have been fetched.
    pub folder: PathBuf,
}
