//! `toolgate completions`: what a shell has to read to complete the command line of this program.
//!
//! *Invariant:* made from the definition of the command line, so that it names what this program takes.

use clap::{Args, Command};
use clap_complete::aot::{Shell, generate};

use super::exit::{Exit, Failure};
use super::terminal::Terminal;

const WHERE: &str = "\
Where each shell looks for it:
  bash  toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate
  zsh   toolgate completions zsh > ~/.zfunc/_toolgate
        (with fpath+=~/.zfunc before compinit in ~/.zshrc)
  fish  toolgate completions fish > ~/.config/fish/completions/toolgate.fish";

/// For which shell.
#[derive(Debug, Args)]
#[command(after_help = WHERE)]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints it for this command line.
    pub(super) fn run(&self, mut command: Command, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "toolgate", &mut script);
        terminal.bytes(&script)?;
        Ok(Exit::Completed)
    }
}
