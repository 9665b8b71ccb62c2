//! A command line, taken apart.
//!
//! *Invariant:* plain data.

use super::paths::PathUse;

/// A command line, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The commands in source order, an outer one before those nested in it.
    pub commands: Vec<Command>,
    /// Why the line as a whole cannot be judged by its commands.
    pub unclear: Option<String>,
}

/// One simple command, or a redirection or an assignment that stands for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The source text with its redirections.
    pub text: String,
    /// The name and the arguments without quotes; what only the shell can know stands as it is written.
    pub arguments: Vec<String>,
    /// The patterns of the specification: the text and, where it differs, its canonical form. Empty for what only changes
    /// the directory and for assignments.
    pub patterns: Vec<String>,
    /// What it is judged as: the patterns first, then the commands inside.
    pub forms: Vec<String>,
    /// The same command written in other ways, where no form is: without quotes, folder or global options, its flags in one
    /// order.
    pub variants: Vec<String>,
    /// Those of the variants that mean the very same, so that a rule or a grant that names one allows the text.
    pub equivalents: Vec<String>,
    /// The patterns that an approval may remember.
    pub always: Vec<String>,
    /// Why nobody can say what it does.
    pub unclear: Option<String>,
    /// The paths that it touches.
    pub paths: Vec<PathUse>,
    /// Whether it, or a command inside it, is known to use the network.
    pub uses_network: bool,
    /// What it pushes to, if that is the name of a remote repository or a folder: one that is there runs hooks of its own.
    pub remotes: Vec<PathUse>,
    /// Whether a word begins with a wildcard, so that a file whose name begins with a dash would be taken for an option.
    pub expands_names: bool,
    /// Whether it only changes the directory, so that nothing is asked for it but outside directories.
    pub is_directory_change: bool,
}
