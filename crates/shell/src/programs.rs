//! Reads the options of a command by the table of programs: what is known to be harmless, which files are read and written.
//!
//! The table, `programs.txt`, is the closed world of the analysis: an option that it does not list makes a command unclear. A
//! program that it does not list is one that a rule names for what it does; its words must stand in the line then.
//!
//! *Invariant:* one reading of options for all programs. A word that may be an option and is not known is never harmless.

use super::words::Word;

const TABLE: &str = include_str!("programs.txt");

const OPTION: &str = "it has an option that is not known to be harmless";
const SUBCOMMAND: &str = "its subcommand is not known";
const WORD: &str = "a word of it is only known when it runs";
const FILE: &str = "which file it uses is only known when it runs";
const HOOKS: &str = "a repository in a folder runs its own hooks when it is pushed to";
const HELPER: &str = "it reaches a repository by a program of its own";

/// What is known of a command by its words.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Why it is not understood.
    pub(super) opaque: Option<&'static str>,
    /// The files that it writes.
    pub(super) written: Vec<Word>,
    /// The files that it reads.
    pub(super) read: Vec<Word>,
    /// Its operands, subcommands left out.
    pub(super) operands: Vec<Word>,
    /// What it pushes to, if that may be a folder or the name of a repository elsewhere.
    pub(super) remotes: Vec<Word>,
    /// Whether a word begins with a wildcard, so that a name that begins with a dash would be an option.
    pub(super) expands_names: bool,
    /// Whether not all of its words are known to be files or texts.
    pub(super) is_open: bool,
    /// Whether every option is harmless, so that further words are nothing but further operands.
    pub(super) is_tame: bool,
    /// Whether its operands are files.
    pub(super) takes_files: bool,
    /// Whether what it reads is shown, and not only named.
    pub(super) shows: bool,
    /// Its options with their values, in order.
    pub(super) options: Vec<(String, Option<Word>)>,
}

/// What comes after an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    Text,
    TwoTexts,
    TextInside,
    Written,
    Read,
    TextOrFile,
    Refused,
}

/// A line of the table.
#[derive(Clone, Debug)]
struct Entry<'t> {
    flags: &'t str,
    options: Vec<(&'t str, Takes, bool)>,
}

impl<'t> Entry<'t> {
    /// Finds the line of a program, or of its subcommand.
    fn find(names: &[&str]) -> Option<Entry<'static>> {
        let (last, above) = names.split_last()?;
        let mut lines = TABLE.lines().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with(['#', ' ']) || line.is_empty() {
                continue;
            }
            let mut fields = line.splitn(3, " : ");
            let head = fields.next().unwrap_or_default();
            let mut words = head.split(' ');
            let is_below = above.iter().all(|name| words.next() == Some(name));
            let is_named = words
                .next()
                .is_some_and(|list| list == *last || list.split('/').any(|name| name == *last));
            if !is_below || !is_named || words.next().is_some() {
                continue;
            }
            let flags = fields.next().unwrap_or_default().trim_end_matches(" :");
            let mut options: Vec<_> = fields
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .map(option)
                .collect();
            while let Some(more) = lines.next_if(|line| line.starts_with(' ')) {
                options.extend(more.split_whitespace().map(option));
            }
            return Some(Entry { flags, options });
        }
        None
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|listed| listed == flag)
    }

    /// Returns what comes after an option that is written out.
    fn exact(&self, text: &str) -> Option<Takes> {
        let mut found = self
            .options
            .iter()
            .filter(|(name, _, is_open)| !is_open && *name == text);
        if let Some((_, takes, _)) = found.next() {
            return Some(*takes);
        }
        // Of options that are known by their beginning, the longest one counts.
        let open = self
            .options
            .iter()
            .filter(|(name, _, is_open)| *is_open && text.starts_with(name));
        open.max_by_key(|(name, ..)| name.len()).map(|(_, takes, _)| *takes)
    }

    /// Returns what comes after a long option, which may be shortened.
    fn long(&self, text: &str) -> Option<Takes> {
        if let Some(takes) = self.exact(text) {
            return Some(takes);
        }
        if !self.is("cut") || text.len() < 4 {
            return None;
        }
        let mut found = self
            .options
            .iter()
            .filter(|(name, ..)| name.starts_with(text))
            .map(|(_, takes, _)| *takes);
        let first = found.next()?;
        found.all(|takes| takes == first).then_some(first)
    }
}

/// Reads an option of the table.
fn option(token: &str) -> (&str, Takes, bool) {
    if let Some(refused) = token.strip_prefix('!') {
        return match refused.strip_suffix('*') {
            Some(beginning) => (beginning, Takes::Refused, true),
            None => (refused, Takes::Refused, false),
        };
    }
    if let Some(name) = token.strip_suffix("=2") {
        return (name, Takes::TwoTexts, false);
    }
    let (name, takes) = match token.split_at(token.len() - 1) {
        (name, "=") => (name, Takes::Text),
        (name, "?") => (name, Takes::TextInside),
        (name, ">") => (name, Takes::Written),
        (name, "<") => (name, Takes::Read),
        (name, "@") if name.len() > 1 => (name, Takes::TextOrFile),
        (name, "*") => return (name, Takes::Nothing, true),
        _ => (token, Takes::Nothing),
    };
    (name, takes, false)
}

/// Reads the words of a command, which begin with its name; none if the program is not in the table.
pub(super) fn read(name: &str, words: &[Word]) -> Option<Reading> {
    let mut entry = Entry::find(&[name])?;
    let mut names = vec![name];
    let mut reading = Reading {
        is_tame: entry.is("tame"),
        ..Reading::default()
    };
    let (mut at, mut is_over) = (1, false);
    while let Some(word) = words.get(at) {
        at += 1;
        let is_operand = is_over || !reading.option(&entry, word, words, &mut at);
        if !is_operand {
            is_over = word.is("--") && !entry.is("sub");
            continue;
        }
        if entry.is("sub") {
            let Some(name) = word.fixed() else {
                reading.mark_opaque(SUBCOMMAND);
                return Some(reading);
            };
            names.push(name);
            match Entry::find(&names) {
                Some(next) => entry = next,
                None => {
                    reading.mark_opaque(SUBCOMMAND);
                    return Some(reading);
                }
            }
            continue;
        }
        if entry.is("old") && reading.operands.is_empty() && at == 2 && is_bundle(word) {
            let bundle = Word {
                at: word.at,
                ..Word::new(format!("-{}", word.source))
            };
            reading.bundle(&entry, &bundle, words, &mut at);
            continue;
        }
        reading.operands.push(word.clone());
        is_over |= entry.is("stop");
    }
    reading.is_tame = entry.is("any") || entry.is("tame");
    reading.takes_files = ["read", "write", "last"].iter().any(|flag| entry.is(flag));
    reading.is_open = (entry.is("else") || entry.is("single")) && !entry.is("script");
    reading.shows = !entry.is("names");
    reading.place_operands(&entry);
    Some(reading)
}

/// Says whether a first word without a dash is a bundle of options, as `tar` has it.
fn is_bundle(word: &Word) -> bool {
    word.fixed()
        .is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

impl Reading {
    fn mark_opaque(&mut self, reason: &'static str) {
        self.opaque.get_or_insert(reason);
    }

    /// Takes a word if it is an option, with its value.
    fn option(&mut self, entry: &Entry<'_>, word: &Word, words: &[Word], at: &mut usize) -> bool {
        if entry.is("else") && entry.options.is_empty() {
            return false;
        }
        let Some(text) = word.fixed() else {
            return self.open_word(entry, word);
        };
        if text.len() < 2 || !text.starts_with('-') {
            return false;
        }
        if text == "--" || entry.is("any") {
            return true;
        }
        let is_number = text[1..]
            .trim_end_matches(['k', 'm', 'b'])
            .bytes()
            .all(|byte| byte.is_ascii_digit());
        if entry.is("number") && is_number {
            return true;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (&text[..name.len() + 2], Some(value)),
                None => (text, None),
            };
            let takes = entry.long(name).unwrap_or(self.unknown());
            let inside = value.map(|value| part(word, value));
            self.value(name, takes, inside, words, at, true);
            return true;
        }
        if let Some(takes) = entry.exact(text) {
            self.value(text, takes, None, words, at, true);
        } else if entry.is("single") {
            let short = text.get(..2).and_then(|short| entry.exact(short).zip(text.get(2..)));
            match short {
                Some((takes, rest)) if takes != Takes::Nothing && takes != Takes::Refused => {
                    self.value(&text[..2], takes, Some(part(word, rest)), words, at, false);
                }
                _ if self.is_tame => {}
                _ => self.mark_opaque(OPTION),
            }
        } else {
            self.bundle(entry, word, words, at);
        }
        true
    }

    /// Takes a word that is not known in full: it is an option with a value, an operand, or nobody knows.
    fn open_word(&mut self, entry: &Entry<'_>, word: &Word) -> bool {
        if entry.is("any") || word.is_stream() {
            return false;
        }
        if word.value.is_some() && !word.brace && !word.beginning().starts_with('-') {
            // A wildcard that begins a word stands for names of files, which are looked at before it runs.
            self.expands_names |= word.glob == Some(0);
            return false;
        }
        // The value of an option may be anything; a wildcard in it matches no file that is named like that.
        if word.glob.is_some()
            && !word.brace
            && let Some((name, _)) = word.beginning().split_once('=')
            && matches!(entry.long(name), Some(Takes::Text | Takes::TextInside))
        {
            return true;
        }
        let is_one = !word.splits && !word.brace;
        if is_one && !word.prefix.is_empty() && !word.prefix.starts_with('-') {
            return false;
        }
        if is_one
            && let Some((name, _)) = word.prefix.split_once('=')
            && matches!(entry.long(name), Some(Takes::Text | Takes::TextInside))
        {
            return true;
        }
        self.mark_opaque(WORD);
        true
    }

    /// What comes after an option that is not listed.
    fn unknown(&self) -> Takes {
        if self.is_tame {
            Takes::TextInside
        } else {
            Takes::Refused
        }
    }

    fn bundle(&mut self, entry: &Entry<'_>, word: &Word, words: &[Word], at: &mut usize) {
        let text = word.fixed().unwrap_or_default();
        let letters = text.char_indices().skip(1);
        for (place, letter) in letters {
            let name = format!("-{letter}");
            let rest = &text[place + letter.len_utf8()..];
            let takes = entry.exact(&name).unwrap_or(match self.is_tame {
                true => Takes::Nothing,
                false => Takes::Refused,
            });
            if takes == Takes::Nothing {
                self.options.push((name, None));
                continue;
            }
            // In a bundle without a dash each option takes its value from the next word.
            let is_old = entry.is("old")
                && word.counts
                && words.get(1).is_some_and(|first| first.at == word.at)
                && words.get(1).is_some_and(|first| !first.source.starts_with('-'));
            if is_old && takes != Takes::Refused {
                self.value(&name, takes, None, words, at, true);
                continue;
            }
            let inside = (!rest.is_empty()).then(|| part(word, rest));
            return self.value(&name, takes, inside, words, at, false);
        }
    }

    /// Takes the value of an option: what stands in the same word, or the next one.
    fn value(
        &mut self,
        name: &str,
        takes: Takes,
        inside: Option<Word>,
        words: &[Word],
        at: &mut usize,
        is_whole: bool,
    ) {
        let needs_next = matches!(takes, Takes::Text | Takes::Written | Takes::Read | Takes::TextOrFile);
        let value = match (inside, takes) {
            (None, Takes::TwoTexts) => {
                *at += 2;
                None
            }
            (None, _) if needs_next => {
                let next = words.get(*at).cloned();
                *at += 1;
                if next.is_none() {
                    self.mark_opaque(OPTION);
                }
                next
            }
            (inside, _) => inside,
        };
        let is_several = value.as_ref().is_some_and(|value| value.splits || value.brace);
        match (takes, &value) {
            (Takes::Refused, _) => self.mark_opaque(OPTION),
            (Takes::Nothing, Some(_)) if is_whole => self.mark_opaque(OPTION),
            _ if is_several => self.mark_opaque(WORD),
            (Takes::Written, Some(file)) => self.file(file, true),
            (Takes::Read, Some(file)) => self.file(file, false),
            (Takes::TextOrFile, Some(text)) => match text.fixed() {
                Some(text_or_file) => {
                    if let Some((_, file)) = text_or_file
                        .split_once('@')
                        .filter(|(before, _)| before.is_empty() || before.ends_with('='))
                    {
                        self.read.push(part(text, file));
                    }
                }
                None if text.prefix.is_empty() || text.prefix.contains('@') => self.mark_opaque(FILE),
                None => {}
            },
            _ => {}
        }
        self.options.push((name.to_owned(), value));
    }

    fn file(&mut self, word: &Word, is_written: bool) {
        if (word.value.is_none() || word.brace) && !word.is_stream() {
            self.mark_opaque(FILE);
        }
        let list = if is_written { &mut self.written } else { &mut self.read };
        list.push(word.clone());
    }

    /// Takes the operands for what the table says they are.
    fn place_operands(&mut self, entry: &Entry<'_>) {
        let operands = std::mem::take(&mut self.operands);
        if entry.is("read") || entry.is("write") {
            operands.iter().for_each(|word| self.file(word, entry.is("write")));
        } else if entry.is("last") {
            for (place, word) in operands.iter().enumerate() {
                self.file(word, place > 0 && place + 1 == operands.len());
            }
        } else if entry.is("revision") {
            for word in operands.iter().filter(|word| is_path(word)) {
                self.file(word, false);
            }
        } else if entry.is("remote") {
            for word in &operands {
                let text = word.fixed().unwrap_or(&word.prefix);
                if text.contains("::") {
                    self.mark_opaque(HELPER);
                }
                let local = text.strip_prefix("file://").unwrap_or(text);
                if local.starts_with(['/', '.', '~']) {
                    self.file(&part(word, local), true);
                }
            }
            if entry.is("hooks") {
                self.place_remote(operands.first());
            }
            let is_elsewhere = |word: &Word| word.fixed().is_some_and(is_address);
            if entry.is("address") && operands.get(1).is_some_and(|word| !is_elsewhere(word)) {
                self.mark_opaque(HOOKS);
            }
        } else if entry.is("none") && !operands.is_empty() {
            self.mark_opaque(WORD);
        }
        self.operands = operands;
    }

    /// Takes what is pushed to: the operand, or what an option says.
    fn place_remote(&mut self, operand: Option<&Word>) {
        let named = self.options.iter().filter(|(name, _)| name == "--repo");
        let named = named.filter_map(|(_, value)| value.clone());
        for word in named.chain(operand.cloned()).collect::<Vec<_>>() {
            match word.fixed() {
                Some(text) if is_address(text) => {}
                // A name may be that of a folder: who knows the folders looks.
                Some(text) if !text.contains(['/', '.', '~', ':']) && !text.is_empty() => self.remotes.push(word),
                Some(_) | None => self.mark_opaque(HOOKS),
            }
        }
    }
}

/// Says whether an address of a repository is on another machine, as far as its writing tells.
fn is_address(text: &str) -> bool {
    let before = |end: &str| text.split_once(end).map(|(before, _)| before);
    match before("://") {
        Some(scheme) => ["https", "http", "ssh", "git", "git+ssh", "ssh+git"].contains(&scheme),
        // `host:path`; with a slash in front of the colon it is a path.
        None => before(":").is_some_and(|host| !host.is_empty() && !host.contains('/')),
    }
}

/// Says whether a revision or path clearly leads out of the folder that it is read from.
fn is_path(word: &Word) -> bool {
    let text = word.value.as_deref().unwrap_or(&word.prefix);
    text.starts_with(['/', '~']) || text == ".." || text.starts_with("../") || text.contains("/../")
}

/// Returns a part of a word as a word of its own.
fn part(word: &Word, text: &str) -> Word {
    Word {
        value: word.fixed().map(|_| text.to_owned()),
        source: text.to_owned(),
        tilde: text.starts_with('~'),
        counts: true,
        at: word.at,
        ..Word::default()
    }
}

#[cfg(test)]
mod tests;
