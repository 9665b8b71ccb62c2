//! The command line of a server.
//!
//! *Invariant:* paths of tests have neither blanks nor quotes.

use std::path::Path;

use super::{PROGRAM, Setup};

/// Returns the program and its arguments, for a server whose files are in a folder.
pub(super) fn of(setup: &Setup, folder: &Path) -> Vec<String> {
    let shown = |name: &str| folder.join(name).display().to_string();
    let listen = if setup.tcp {
        ["--no-socket", "--listen", "127.0.0.1:0"].map(str::to_owned)
    } else {
        ["--no-tcp".to_owned(), "--socket".to_owned(), shown("s")]
    };
    let mut line: Vec<String> = setup.by.iter().map(|&word| word.to_owned()).collect();
    line.extend([PROGRAM, "serve", "--json", "--data-dir"].map(str::to_owned));
    line.push(shown("data"));
    for (name, folder) in [("default", "work")]
        .into_iter()
        .chain(setup.more.iter().map(|&name| (name, name)))
    {
        line.extend(["--workspace".to_owned(), format!("{name}={}", shown(folder))]);
    }
    line.extend(listen);
    if !setup.on_terminal {
        return line;
    }
    let (out, errors) = (shown("stdout"), shown("stderr"));
    let shell = format!("exec {} </dev/null >{out} 2>>{errors}", line.join(" "));
    ["script", "-qc", &shell, "/dev/null"].map(str::to_owned).to_vec()
}
