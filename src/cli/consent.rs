//! Agreement of a person to a change of a file, asked for once it was shown.
//!
//! *Invariant:* nothing but a yes is one, and where nobody can be asked nobody agrees.

use std::io::{self, IsTerminal as _};

use super::exit::Failure;
use super::terminal::visible;

/// Asks whether to do something to a file, for instance `Change`.
///
/// # Errors
/// Nobody is there to ask.
pub(super) async fn agreed(what: &str, path: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "cannot ask whether to change {path}, because there is no terminal; --yes agrees to the change"
        )));
    }
    eprint!("{what} {}? [y/N] ", visible(path));
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = read
        .await
        .map_err(io::Error::other)
        .and_then(|answer| answer)
        .map_err(Failure::Terminal)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
