//! `toolgate man`: the manual pages, one for each command.
//!
//! *Invariant:* made from the definition of the command line. No page has a date, so the same program writes the same bytes.

#![allow(clippy::disallowed_methods)] // what is written belongs to no workspace

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use super::exit::{Exit, Failure};
use super::terminal::{Terminal, counted};

/// Where to.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The directory to write them in, for instance ~/.local/share/man/man1. It is made if it is not there.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl ManArgs {
    /// Writes the pages of this command line.
    pub(super) fn run(self, command: Command, terminal: &Terminal) -> Result<Exit, Failure> {
        let write =
            |path: PathBuf, result: io::Result<()>| result.map_err(|source| Failure::WriteFile { path, source });
        write(self.directory.clone(), fs::create_dir_all(&self.directory))?;
        let pages = pages(command);
        for (name, page) in &pages {
            let path = self.directory.join(name);
            write(path.clone(), fs::write(&path, page))?;
        }
        terminal.inform(&format!(
            "wrote {} to {}",
            counted(pages.len(), "page"),
            self.directory.display()
        ));
        Ok(Exit::Completed)
    }
}

/// Returns the page of a command and of those below it, each with the name of its file.
fn pages(command: Command) -> Vec<(String, Vec<u8>)> {
    // `toolgate help` is for terminals: a page of each would say what the page of its command says.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().filter(|below| !below.is_hide_set()).cloned());
        let page = Man::new(command)
            .manual("Toolgate")
            .source(concat!("toolgate ", env!("CARGO_PKG_VERSION")));
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = page.render(&mut text);
        pages.push((page.get_filename(), text));
    }
    pages
}
