//! Folders as people read them.

use std::path::Path;

use super::terminal::visible;

/// Returns a folder with `~` for the home folder.
pub(super) fn shown(folder: &Path) -> String {
    let home = std::env::var_os("HOME").filter(|home| home.len() > 1);
    let below = home.as_ref().and_then(|home| folder.strip_prefix(home).ok());
    let text = match below {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => folder.display().to_string(),
    };
    visible(&text).into_owned()
}
