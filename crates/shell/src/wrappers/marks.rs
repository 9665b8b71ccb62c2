//! Single words of a command that runs another one: options that change what it runs, assignments, other names of programs.
//!
//! *Invariant:* pure; each looks at one word.

use crate::words::Word;

/// Says whether a word may be an option that names the folder in which the command runs.
pub(super) fn changes_folder(word: &Word) -> bool {
    const OPTIONS: [&str; 6] = ["-C", "-D", "-w", "--chdir", "--w", "--chroot"];
    let text = word.fixed().unwrap_or(&word.source);
    OPTIONS.iter().any(|option| text.starts_with(option))
}

/// Says whether a word may be an option of `sudo` to start a shell.
pub(super) fn starts_shell(word: &Word) -> bool {
    let text = word.fixed().unwrap_or(&word.source);
    match text.strip_prefix("--") {
        Some(long) => "shell".starts_with(long) || "login".starts_with(long),
        None => text.starts_with('-') && text.contains(['s', 'i']),
    }
}

/// The usual programs have another name where those of another system come first.
pub(super) fn is_gnu_name(name: &str) -> bool {
    const NAMES: &str = "rm mv cp ln dd chmod chown chgrp mkdir rmdir touch tee truncate shred install unlink make";
    name.strip_prefix('g')
        .is_some_and(|plain| NAMES.split_whitespace().any(|listed| listed == plain))
}

/// Says whether a word sets a variable.
pub(super) fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Says whether a word is the option of `env` to split a text into words.
pub(super) fn is_split_option(word: &Word) -> bool {
    let text = word.fixed().unwrap_or_default();
    text.starts_with("--split-string") || (text.starts_with('-') && !text.starts_with("--") && text.contains('S'))
}
