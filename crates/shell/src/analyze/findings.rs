//! What is found of one command.

use super::context::Context;
use crate::created_files::CreatedFiles;
use crate::paths::PathUse;
use crate::words::Word;
use crate::{arity, option_values, options};

/// The most forms of one command.
const MAX_FORMS: usize = 64;

/// What one command is judged by: its forms, and what is done beside it.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) forms: Vec<String>,
    /// Other ways to write the same.
    pub(super) variants: Vec<String>,
    /// Those that mean the very same.
    pub(super) equivalents: Vec<String>,
    /// Whether the variables in front of the command change nothing of what it does.
    pub(super) has_plain_variables: bool,
    pub(super) always: Vec<String>,
    pub(super) unclear: Option<&'static str>,
    pub(super) paths: Vec<PathUse>,
    /// Whether a word begins with a wildcard, so that a name that begins with a dash would be an option.
    pub(super) expands_names: bool,
    /// The values of the variables in front of it.
    pub(super) settings: Vec<Word>,
    /// Whether the files that it hands on lie where it searches.
    pub(super) is_found: bool,
    /// Whether it writes a path, links not counted.
    pub(super) writes: bool,
    pub(super) uses_network: bool,
    /// What it pushes to, if that may be a folder.
    pub(super) remotes: Vec<PathUse>,
    pub(super) made: CreatedFiles,
    pub(super) links: Vec<PathUse>,
}

impl Findings {
    /// Takes down what is written; `makes` says whether whole files come to be, which may be run later.
    pub(super) fn record_written(&mut self, uses: &[PathUse], makes: bool, context: &Context) {
        for used in uses.iter().filter(|used| used.is_written) {
            self.writes = true;
            if makes {
                self.made.add(&used.path);
            }
            if option_values::decides(&used.path) {
                self.mark_opaque(Some("it writes a file that decides what other commands run"));
            }
            if context.is_lost && !used.path.starts_with(['/', '~']) {
                self.mark_opaque(Some("it writes below a folder that is only known when it runs"));
            }
        }
    }

    pub(super) fn form(&mut self, form: String) {
        if !form.is_empty() && !self.forms.contains(&form) && self.has_room() {
            self.forms.push(form);
        }
    }

    /// Adds the command of the line itself in another spelling, or the one that it runs inside.
    pub(super) fn spelling(&mut self, form: String, is_same: bool) {
        if !is_same {
            self.form(form);
            return;
        }
        let is_known = self.forms.contains(&form) || self.variants.contains(&form);
        if !form.is_empty() && !is_known && self.has_room() {
            self.variants.push(form);
        }
    }

    /// Adds another spelling that means the very same, so that a rule for it is one for the text.
    pub(super) fn equivalent(&mut self, form: String) {
        self.spelling(form.clone(), true);
        let is_new = !form.is_empty() && !self.equivalents.contains(&form) && !self.forms.contains(&form);
        if is_new && self.equivalents.len() < MAX_FORMS {
            self.equivalents.push(form);
        }
    }

    pub(super) fn has_room(&mut self) -> bool {
        let has_room = self.forms.len() + self.variants.len() < MAX_FORMS;
        if !has_room {
            self.mark_opaque(Some("there are too many commands in it"));
        }
        has_room
    }

    /// Adds another spelling. What an approval of the command as it is written does not cover is offered by itself.
    pub(super) fn offered_spelling(&mut self, words: &[&str], is_same: bool) {
        self.spelling(words.join(" "), is_same);
        if !is_same {
            self.offer(words);
        }
    }

    /// Adds the command without its redirections, unless that is how another form begins.
    pub(super) fn bare_form(&mut self, form: String, is_same: bool) {
        let begins = |known: &String| {
            known
                .strip_prefix(&form)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        if !self.forms.iter().any(begins) {
            self.spelling(form, is_same);
        }
    }

    pub(super) fn mark_opaque(&mut self, reason: Option<&'static str>) {
        self.unclear = self.unclear.or(reason);
    }

    /// Offers the prefix of a command. An approval is a wildcard, so words that hold one would approve more.
    pub(super) fn offer(&mut self, words: &[&str]) {
        let prefix = arity::prefix(words).join(" ");
        if prefix.trim().is_empty() || prefix.contains(['*', '?']) {
            return;
        }
        let pattern = format!("{prefix} *");
        if !self.always.contains(&pattern) {
            self.always.push(pattern);
        }
    }

    /// Offers the prefix of a command without its global options: what stands behind them decides what it does.
    pub(super) fn offer_words(&mut self, words: &[Word]) {
        let counted = words.iter().filter(|word| word.counts);
        let sources: Vec<&str> = counted.map(|word| word.source.as_str()).collect();
        match options::without_globals(&sources) {
            Some(stripped) => self.offer(&stripped),
            None => self.offer(&sources),
        }
    }
}
