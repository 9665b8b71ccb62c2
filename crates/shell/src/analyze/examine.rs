//! What a command is by its name and its words, and what runs inside it.

use std::time::Instant;

use super::context::{Context, MAX_DEPTH, calls_function, follows_links, is_chained, leads_out, stays_inside};
use super::findings::Findings;
use super::redirects::redirects;
use crate::parse::{self, Parsed};
use crate::paths::{self, PathUse};
use crate::words::Word;
use crate::wrappers::{self, Inner};
use crate::{arity, created_files, network, opaque, option_values, options, programs};

/// Where the words of a command come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// They stand in the line.
    Given,
    /// More of them come from input or from a search.
    Template,
    /// They say in words what an option does.
    Implied,
}

/// Examines a command, and what runs inside it.
pub(super) fn examine(words: &[Word], source: Source, depth: usize, context: &Context, findings: &mut Findings) {
    let Some(first) = words.first() else { return };
    if depth > MAX_DEPTH || Instant::now() > context.deadline {
        return findings.mark_opaque(Some("commands are wrapped in it too deeply"));
    }
    let joined: Vec<&str> = words.iter().map(Word::plain).collect();
    if depth > 0 {
        findings.form(
            words
                .iter()
                .map(|word| word.source.as_str())
                .collect::<Vec<_>>()
                .join(" "),
        );
    }
    let Some(name) = name_of(first, source, context, findings) else {
        return;
    };
    let is_made = |findings: &Findings, word: &Word| {
        let file = word.fixed().unwrap_or_default();
        context.made.holds(file, &context.from) || findings.made.holds(file, &context.from)
    };
    let file = words.iter().skip(1).find(|word| !word.source.starts_with('-'));
    if (first.shown().contains('/') && is_made(findings, first))
        || (created_files::is_runner(&name) && file.is_some_and(|file| is_made(findings, file)))
        || words
            .iter()
            .skip(1)
            .any(|word| context.made.is_run_by(&name, word.shown()))
    {
        findings.mark_opaque(Some("it runs a file that the line itself makes"));
    }
    let mut is_same = depth == 0;
    let mut plain = joined.clone();
    findings.bare_form(plain.join(" "), is_same);
    // An approval of the command as it is written is one for its other spellings (`permission::judgement`).
    if !is_same && source != Source::Implied && options::without_globals(&plain).is_none() {
        findings.offer(&plain);
    }
    if name != plain[0] {
        // What a way through `..` or a folder that is changed to leads to cannot be seen in the text, so no rule for the text
        // means it.
        is_same &= plain[0].starts_with(['/', '~']) && !plain[0].contains("../");
        plain[0] = &name;
        findings.offered_spelling(&plain, is_same);
    }
    let stripped = options::without_globals(&plain);
    if let Some(stripped) = &stripped {
        if is_same && name == joined[0] && findings.has_plain_variables {
            findings.equivalent(stripped.join(" "));
        }
        findings.offered_spelling(stripped, is_same);
    }
    let stripped = stripped.unwrap_or(plain);
    options::ordered(&stripped)
        .into_iter()
        .for_each(|form| findings.spelling(form, is_same));
    findings.uses_network |= network::uses(&name, &stripped);
    findings.mark_opaque(opaque::command(&name, words, &stripped));
    if context.is_lost {
        findings.mark_opaque(Some("in which folder it runs is only known when it runs"));
    }
    let ways = context.variables.resolve(words);
    for resolved in &ways {
        let resolved: &Vec<Word> = &resolved.iter().map(Word::unquote).collect();
        if ways.len() > 1
            || resolved.len() != words.len()
            || resolved.iter().zip(words).any(|(new, old)| new.source != old.source)
        {
            let spelled: Vec<&str> = resolved.iter().map(Word::plain).collect();
            findings.spelling(spelled.join(" "), is_same);
            options::ordered(&spelled)
                .into_iter()
                .for_each(|form| findings.spelling(form, is_same));
        }
        run(&name, resolved, source, depth, context, findings);
    }
}

/// Looks at what a command does, with the texts of its variables put in.
fn run(name: &str, words: &[Word], source: Source, depth: usize, context: &Context, findings: &mut Findings) {
    let inner = wrappers::inner(name, words);
    let mut uses = paths::of_command(name, words, &context.from);
    let found = match programs::read(name, words) {
        Some(reading) => {
            findings.mark_opaque(reading.opaque);
            uses.extend(paths::of_words(&reading.written, true, &context.from));
            let mut read = paths::of_words(&reading.read, false, &context.from);
            read.iter_mut().for_each(|used| used.is_asked = reading.shows);
            uses.extend(read);
            let remotes = paths::of_words(&reading.remotes, true, &context.from);
            findings.remotes.extend(remotes);
            findings.expands_names |= reading.expands_names && !reading.is_tame;
            // A symbolic link touches nothing of where it leads to; what goes through it later does.
            let is_link = name == "ln" && paths::is_symbolic(words);
            if reading.is_open && !paths::is_listed(name) && !is_link {
                uses.extend(paths::of_any_words(words.get(1..).unwrap_or_default(), &context.from));
            }
            if source == Source::Template {
                findings.mark_opaque(template_words(&reading, context.is_fed || findings.is_found));
            }
            Some(option_values::check(name, words, &reading))
        }
        None => {
            let found = option_values::check_unlisted(name, words);
            let is_fed = (context.is_fed || findings.is_found) && !matches!(name, "find" | "gfind");
            if source == Source::Template && found.is_some() && !is_fed {
                findings.mark_opaque(Some("its words come from its input"));
            }
            found
        }
    };
    match found {
        Some(found) => {
            findings.mark_opaque(found.opaque);
            uses.extend(paths::of_words(&found.written, true, &context.from));
            let mut read = paths::of_words(&found.read, false, &context.from);
            read.iter_mut().for_each(|used| used.is_asked = true);
            uses.extend(read);
            let is_open = |word: &Word| word.value.is_none() && !word.is_stream();
            if found.read.iter().chain(&found.written).any(is_open) {
                findings.mark_opaque(Some("which file it uses is only known when it runs"));
            }
        }
        None if !inner.is_empty() => {
            let own = own_words(name, words, &inner);
            let is_open = |word: &Word| word.value.is_none() && !word.source.contains('=') && !word.is_stream();
            if own.iter().any(is_open) {
                findings.mark_opaque(Some("a word of it is only known when it runs"));
            }
            let found = paths::of_any_words(own, &context.from);
            uses.extend(found.into_iter().filter(leads_out));
        }
        None if !paths::is_directory_change(name) => {
            if !option_values::is_elsewhere(name) {
                uses.extend(paths::of_any_words(words.get(1..).unwrap_or_default(), &context.from));
            }
            if source == Source::Template {
                findings.mark_opaque(Some("its words come from its input"));
            }
            let is_open = |word: &Word| {
                if word.value.is_some() && word.glob.is_some() {
                    return word.beginning().starts_with('-');
                }
                let is_one = !word.splits && !word.brace && !word.prefix.is_empty() && !word.prefix.starts_with('-');
                (word.value.is_none() || word.brace) && !is_one && !word.is_stream()
            };
            if words.iter().skip(1).any(is_open) {
                findings.mark_opaque(Some("a word of it is only known when it runs"));
            }
            findings.mark_opaque(option_values::forwards(name, words));
        }
        None => {}
    }
    for assignment in &findings.settings {
        uses.extend(
            paths::of_any_words(std::slice::from_ref(assignment), &context.from)
                .into_iter()
                .filter(leads_out),
        );
    }
    // Where each command must succeed before the next one runs, only the folder that a `cd` led to counts.
    if context.is_chained
        && let Some(folder) = context.from.last()
    {
        let is_below = |used: &&mut PathUse| !used.path.starts_with(['/', '~']) && stays_inside(folder, &used.path);
        uses.iter_mut().filter(is_below).for_each(|used| used.only_from = true);
    }
    let mut seen: Vec<PathUse> = Vec::with_capacity(uses.len());
    for used in uses {
        // What two ways of reading find is asked for if one of them says so.
        match seen
            .iter_mut()
            .find(|known| known.path == used.path && known.at == used.at)
        {
            Some(known) => {
                known.is_asked |= used.is_asked;
                known.is_written |= used.is_written;
            }
            None => seen.push(used),
        }
    }
    let uses = seen;
    findings.is_found = matches!(name, "find" | "gfind") && !uses.iter().any(leads_out) && !follows_links(words);
    if name == "ln" {
        findings.links.extend(paths::of_link(words, &context.from));
        uses.iter().for_each(|used| findings.made.add(&used.path));
    } else {
        findings.record_written(&uses, created_files::is_maker(name), context);
    }
    findings.paths.extend(uses);
    for word in words {
        let setting = word.fixed().and_then(|text| text.split_once('='));
        // They take assignments as arguments.
        if let Some((variable, _)) = setting.filter(|_| matches!(name, "env" | "sudo" | "doas" | "exec" | "time")) {
            let assignment = parse::Assignment {
                name: variable.to_owned(),
                text: word.source.clone(),
            };
            findings.mark_opaque(opaque::assignment(&assignment));
        }
    }
    if source == Source::Template {
        let spelled: Vec<&str> = words.iter().map(Word::plain).collect();
        let stripped = options::without_globals(&spelled).unwrap_or(spelled);
        template(&stripped, &inner, findings);
    }
    inside(inner, source, depth, context, findings);
}

pub(super) fn inside(inner: Vec<Inner>, source: Source, depth: usize, context: &Context, findings: &mut Findings) {
    let passed_on = if source == Source::Template {
        Source::Template
    } else {
        Source::Given
    };
    for inner in inner {
        match inner {
            Inner::Words(words) => examine(&words, passed_on, depth + 1, context, findings),
            Inner::Template(words) => examine(&words, Source::Template, depth + 1, context, findings),
            Inner::Implied(words) => examine(&words, Source::Implied, depth + 1, context, findings),
            Inner::Remote(text) => {
                // Its paths are those of another machine.
                let known = findings.paths.len();
                script(&text, depth + 1, context, findings);
                findings.paths.truncate(known);
            }
            Inner::Script(text) => {
                if source == Source::Template && text.contains("{}") {
                    findings.mark_opaque(Some("file names become part of a script"));
                }
                script(&text, depth + 1, context, findings);
            }
            Inner::Opaque(reason) => findings.mark_opaque(Some(reason)),
        }
    }
}

/// Says whether a relative name is that of a program of the system, meant from a folder.
fn is_of_programs(folder: &str, name: &str) -> bool {
    match name.rsplit_once('/') {
        // It is looked for where the shell looks for programs.
        None => false,
        Some((".", _)) => paths::is_of_programs(folder),
        Some((below, _)) => {
            let below = below.strip_prefix("./").unwrap_or(below);
            folder.starts_with('/') && paths::is_of_programs(&format!("{}/{below}", folder.trim_end_matches('/')))
        }
    }
}

/// Returns the name of the program without its folder, if it can be known.
fn name_of(word: &Word, source: Source, context: &Context, findings: &mut Findings) -> Option<String> {
    const RESERVED: [&str; 14] = [
        "{", "}", "!", "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "case", "esac",
    ];
    let Some(value) = word.fixed() else {
        findings.mark_opaque(Some("which program it runs is only known when it runs"));
        return None;
    };
    if !value.is_ascii() {
        findings.mark_opaque(Some("the program's name has characters that may look like others"));
    }
    if RESERVED.contains(&&*word.source) {
        findings.mark_opaque(Some("the shell's grammar does not fit it"));
    }
    if value.starts_with("/proc/") || value.starts_with("/dev/") {
        findings.mark_opaque(Some("which program it runs is only known when it runs"));
    }
    if source == Source::Template && value.contains(['{', '%', '@']) {
        findings.mark_opaque(Some("which program it runs is only known when it runs"));
    }
    // A folder of the project holds programs of the project; one of the system, however it is written, those of the system.
    let is_elsewhere = value.starts_with('/')
        || value.starts_with("~/")
        || value.contains("../")
        || context.from.iter().any(|folder| is_of_programs(folder, value));
    let base = value.rsplit('/').next().filter(|base| is_elsewhere && !base.is_empty());
    Some(base.unwrap_or(value).to_owned())
}

/// A command that gets more words later must say with its own ones what it does.
fn template(words: &[&str], inner: &[Inner], findings: &mut Findings) {
    let needed = arity::length(words);
    let is_fixed = |word: &str| {
        word.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./:+".contains(&byte))
    };
    let says = words.iter().skip(1).take(needed.saturating_sub(1));
    if words.len() < needed || !says.clone().all(|word| is_fixed(word)) {
        findings.mark_opaque(Some("its subcommand comes from its input"));
    }
    if inner.is_empty() && wrappers::is_wrapper(words.first().copied().unwrap_or_default()) {
        findings.mark_opaque(Some("which program it runs comes from its input"));
    }
}

/// Returns the words of a program that runs another one which are its own, if they may name files.
fn own_words<'w>(name: &str, words: &'w [Word], inner: &[Inner]) -> &'w [Word] {
    if option_values::is_elsewhere(name) || paths::is_listed(name) {
        return &[];
    }
    let count = inner.iter().map(|inner| match inner {
        Inner::Words(words) | Inner::Template(words) => words.len(),
        Inner::Script(_) | Inner::Remote(_) | Inner::Implied(_) | Inner::Opaque(_) => 0,
    });
    let own = words.len().saturating_sub(count.max().unwrap_or(0));
    words.get(1..own).unwrap_or_default()
}

/// Says why further words, which come from input, may do something else than the command says.
fn template_words(reading: &programs::Reading, is_fed: bool) -> Option<&'static str> {
    if !reading.is_tame {
        return Some("its words come from its input");
    }
    // What a search finds below a folder of the workspace is not outside of it.
    (reading.takes_files && !is_fed).then_some("which file it reads comes from its input")
}

/// Commands that print names of files below where they search.
pub(super) const SEARCHES: &str = "find fd fdfind rg ls git seq grep";

/// Examines a text that a shell parses.
pub(super) fn script(text: &str, depth: usize, context: &Context, findings: &mut Findings) {
    if depth > MAX_DEPTH {
        return findings.mark_opaque(Some("commands are wrapped in it too deeply"));
    }
    let Parsed {
        commands,
        assignments,
        functions,
        variables,
        has_statements: _,
        unclear,
    } = parse::parse(text, context.deadline);
    if unclear.is_some() {
        findings.mark_opaque(Some("the script in it is not understood"));
    }
    for assignment in &assignments {
        findings.mark_opaque(opaque::assignment(assignment));
    }
    let mut inner_scene = Context {
        deadline: context.deadline,
        functions,
        variables,
        from: context.from.clone(),
        is_lost: context.is_lost,
        made: context.made.clone(),
        links: Vec::new(),
        is_fed: false,
        is_chained: is_chained(text),
        has_dashes: false,
        makes_folders: context.makes_folders,
    };
    let known = findings.paths.len();
    for simple in &commands {
        let first = simple.words.first();
        if calls_function(&simple.words, &inner_scene) {
            findings.mark_opaque(Some("it calls a function of its script"));
        }
        for assignment in &simple.assignments {
            findings.mark_opaque(opaque::assignment(assignment));
        }
        if !first.is_some_and(|word| paths::is_directory_change(&word.source)) {
            findings.form(simple.text.clone());
            findings.form(simple.canonical.clone());
            findings.offer_words(&simple.words);
        }
        redirects(simple, &inner_scene, findings);
        if first.is_some_and(|word| !paths::is_directory_change(&word.source)) {
            examine(&simple.words, Source::Given, depth, &inner_scene, findings);
        } else if let Some(first) = first {
            findings
                .paths
                .extend(paths::of_command(&first.source, &simple.words, &inner_scene.from));
        }
        inner_scene.follow_changes(&simple.words);
    }
    // Places in the script are none in the line.
    let paths = findings.paths[known..].iter_mut();
    paths.chain(&mut findings.links).for_each(|used| used.at = None);
}
