//! Commands that run on another machine or in a container: their names count, their paths are not of this machine.
//!
//! *Invariant:* an option that is not known takes no value; so a word too many is looked at, never one too few.

use super::{Inner, Wrapper, after_options, joined, wrapper};
use crate::words::Word;

const LATER: &str = "it runs a text that is only known when it runs";

fn text(words: &[Word]) -> Vec<Inner> {
    if words.is_empty() {
        return Vec::new();
    }
    match joined(words) {
        Some(text) => vec![Inner::Remote(text)],
        None => vec![Inner::Opaque(LATER)],
    }
}

pub(super) fn ssh(words: &[Word]) -> Vec<Inner> {
    const ENTRY: Wrapper = wrapper("ssh", "BbcDEeFIiJLlmOopQRSWw", "", 0);
    let host = after_options(&ENTRY, words).unwrap_or(words.len());
    // Options may stand behind the host too.
    let behind = words.get(host..).unwrap_or_default();
    let command = after_options(&ENTRY, behind).unwrap_or(behind.len());
    text(behind.get(command..).unwrap_or_default())
}

/// `docker run image command`, `docker exec container command`, `kubectl exec pod -- command`.
pub(super) fn container(name: &str, words: &[Word]) -> Vec<Inner> {
    const SHORT: &str = "acehlmpuvw";
    let sub = words
        .iter()
        .position(|word| matches!(word.fixed(), Some("run" | "exec" | "debug")));
    let Some(sub) = sub.filter(|sub| *sub < 8) else {
        return Vec::new();
    };
    if let Some(end) = words.iter().position(|word| word.is("--")) {
        return text(&words[end + 1..]);
    }
    if matches!(name, "kubectl" | "oc") {
        return Vec::new();
    }
    let mut at = sub + 1;
    while let Some(word) = words.get(at).filter(|word| word.source.starts_with('-')) {
        let takes = match word.source.strip_prefix("--") {
            Some(long) => !long.contains('=') && !is_flag(long),
            None => word.source.len() == 2 && word.source.ends_with(|c| SHORT.contains(c)),
        };
        at += if takes { 2 } else { 1 };
    }
    text(words.get(at + 1..).unwrap_or_default())
}

/// Long options without a value.
fn is_flag(option: &str) -> bool {
    matches!(
        option,
        "rm" | "init"
            | "interactive"
            | "tty"
            | "detach"
            | "privileged"
            | "read-only"
            | "publish-all"
            | "no-healthcheck"
            | "oom-kill-disable"
            | "sig-proxy"
            | "no-deps"
            | "service-ports"
            | "build"
            | "quiet"
            | "quiet-pull"
            | "use-aliases"
            | "no-TTY"
            | "remove-orphans"
    )
}
