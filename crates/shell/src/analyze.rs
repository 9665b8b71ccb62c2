//! From the simple commands of a line to the result: forms, prefixes, paths and what is unclear, the commands inside wrappers
//! included.
//!
//! *Invariant:* the depth, the number of forms and the time of one line are bounded; beyond a bound it is unclear.

mod context;
mod examine;
mod findings;
mod redirects;

use std::time::Instant;

use context::{Context, calls_function, follows_links, is_chained, leads_out};
use examine::{SEARCHES, Source, examine};
use findings::Findings;
use redirects::redirects;

use super::created_files::{self, CreatedFiles};
use super::line::{Command, Line};
use super::opaque;
use super::parse::{self, PARSE_LIMIT, Simple};
use super::paths::{self, PathUse};
use super::words::Word;

/// Takes a command line apart.
pub(super) fn analyze(text: &str) -> Line {
    let deadline = Instant::now() + PARSE_LIMIT;
    let parsed = parse::parse(text, deadline);
    let mut context = Context {
        deadline,
        functions: parsed.functions,
        variables: parsed.variables,
        from: Vec::new(),
        is_lost: false,
        made: CreatedFiles::default(),
        links: Vec::new(),
        is_fed: false,
        is_chained: is_chained(text),
        has_dashes: false,
        makes_folders: false,
    };
    let mut reason = parsed.unclear;
    if let Some(disguise) = opaque::hidden_chars(text) {
        reason.get_or_insert_with(|| disguise.to_owned());
    }
    let has_programs = parsed.commands.iter().any(|simple| !simple.words.is_empty());
    let mut commands = Vec::new();
    for assignment in parsed.assignments.iter().filter(|_| has_programs) {
        let doubt = opaque::assignment(assignment);
        commands.extend(doubt.map(|doubt| Command {
            text: assignment.text.clone(),
            forms: vec![assignment.text.clone()],
            unclear: Some(doubt.to_owned()),
            ..Command::default()
        }));
    }
    for simple in &parsed.commands {
        if Instant::now() > deadline {
            reason.get_or_insert_with(|| "it takes too long to parse".to_owned());
            break;
        }
        commands.extend(command(simple, &mut context));
    }
    // Assignments, tests and other statements are judged as well, by the whole line.
    let is_judged = |command: &Command| !command.is_directory_change;
    if parsed.has_statements && !commands.iter().any(is_judged) {
        let text = text.trim().to_owned();
        commands.push(Command {
            patterns: vec![text.clone()],
            forms: vec![text.clone()],
            text,
            ..Command::default()
        });
    }
    Line {
        commands,
        unclear: reason,
    }
}

/// Analyzes one command of the line. A change of directory that writes a file gives that redirection besides.
fn command(simple: &Simple, context: &mut Context) -> Vec<Command> {
    let is_change = simple
        .words
        .first()
        .is_some_and(|word| paths::is_directory_change(&word.source));
    let mut findings = Findings::default();
    let arguments = simple.words.iter().map(|word| word.shown().to_owned()).collect();
    let mut patterns = Vec::new();
    if !is_change {
        patterns.push(simple.text.clone());
        if simple.canonical != simple.text && !simple.canonical.is_empty() {
            patterns.push(simple.canonical.clone());
        }
        findings.form(simple.text.clone());
        let is_plain = simple.assignments.iter().all(opaque::is_harmless_assignment);
        if let Some(canonical) = patterns.get(1) {
            if is_plain {
                findings.equivalent(canonical.clone());
            } else {
                findings.form(canonical.clone());
            }
        }
        findings.has_plain_variables = is_plain;
        simple.extended.iter().for_each(|form| findings.form(form.clone()));
        findings.offer_words(&simple.words);
    }
    for assignment in &simple.assignments {
        if let Some((_, value)) = assignment.text.split_once('=') {
            findings.settings.push(Word::new(value));
        }
        // A separator that is set for `read` alone splits what is read.
        let reads = assignment.name == "IFS" && simple.words.first().is_some_and(|word| word.is("read"));
        if !reads {
            findings.mark_opaque(opaque::assignment(assignment));
        }
    }
    if calls_function(&simple.words, context) {
        findings.mark_opaque(Some("it calls a function of this line"));
    }
    examine(&simple.words, Source::Given, 0, context, &mut findings);
    if is_change {
        findings.forms.clear();
        findings.variants.clear();
        findings.equivalents.clear();
        findings.always.clear();
    }
    context.follow_changes(&simple.words);
    if is_change {
        context.is_lost |= findings.unclear.is_some();
        findings.unclear = None;
    }
    redirects(simple, context, &mut findings);
    let redirect_doubt = findings.unclear.filter(|_| is_change).map(str::to_owned);
    if findings.expands_names && context.has_dashes {
        findings.mark_opaque(Some("a name that the line makes would be taken for an option"));
    }
    let is_dash = |used: &PathUse| used.path.trim_start_matches("./").starts_with('-');
    context.has_dashes |= findings.paths.iter().any(is_dash);
    if context.makes_folders && !findings.remotes.is_empty() {
        findings.mark_opaque(Some(
            "what it pushes to may be a folder that the line makes, with hooks of its own",
        ));
    }
    let mut forms = findings.forms.iter().chain(&findings.variants);
    context.makes_folders |= forms.any(|form| created_files::makes_folders(form));
    through_links(is_change, context, &mut findings);
    let is_search = simple
        .words
        .first()
        .is_some_and(|word| SEARCHES.split_whitespace().any(|name| word.is(name)));
    context.is_fed = is_search
        && findings.unclear.is_none()
        && !findings.paths.iter().any(leads_out)
        && !follows_links(&simple.words);
    if findings.unclear.is_some() {
        findings.always.clear();
    }
    for used in findings.paths.iter_mut().chain(&mut context.links) {
        used.at.get_or_insert(simple.start);
    }
    let mut made = vec![Command {
        text: simple.text.clone(),
        arguments,
        patterns,
        forms: findings.forms,
        variants: findings.variants,
        equivalents: findings.equivalents,
        always: findings.always,
        unclear: findings.unclear.map(str::to_owned).filter(|_| !is_change),
        paths: findings.paths,
        uses_network: findings.uses_network,
        remotes: findings.remotes,
        expands_names: findings.expands_names,
        is_directory_change: is_change,
    }];
    if is_change {
        made.extend(
            simple
                .redirects
                .iter()
                .filter(|redirect| !is_idle(&redirect.target))
                .map(|redirect| {
                    let text = redirect.text.trim().to_owned();
                    Command {
                        patterns: vec![text.clone()],
                        forms: vec![text.clone()],
                        unclear: redirect_doubt.clone(),
                        text,
                        ..Command::default()
                    }
                }),
        );
    }
    made
}

fn is_idle(target: &Word) -> bool {
    target.fixed().is_some_and(paths::is_idle_device)
}

/// A link that the line makes is no harm by itself; what is written later may be written through it.
fn through_links(is_change: bool, context: &mut Context, findings: &mut Findings) {
    if findings.writes || is_change || !findings.paths.is_empty() {
        findings.paths.append(&mut context.links);
    }
    if findings.writes {
        findings.paths.append(&mut findings.links);
    }
    context.links.append(&mut findings.links);
    context.made.extend(std::mem::take(&mut findings.made));
}
