//! From the simple commands of a line to what is judged: forms, prefixes, doubts and paths, the commands inside wrappers
//! included.
//!
//! *Invariant:* the depth, the number of forms and the time of one line are bounded; beyond a bound it is unclear.

mod examine;
mod findings;

use std::time::Instant;

use examine::{SEARCHES, Source, examine};
use findings::Findings;

use super::made::{self, Made};
use super::parse::{self, PATIENCE, Simple};
use super::paths::{self, PathUse};
use super::unclear;
use super::variables::Variables;
use super::words::Word;
use super::{Command, Line};

/// How deep commands may be wrapped in each other.
const MAX_DEPTH: usize = 8;

/// The most folders that a line is followed to by its `cd` commands.
const MAX_FOLDERS: usize = 16;

/// The longest path that is followed.
const LONGEST_PATH: usize = 4096;

/// What is the same for all commands of a line.
struct Scene {
    deadline: Instant,
    functions: Vec<String>,
    /// What the line makes of its variables.
    variables: Variables,
    /// Where a `cd` before may have led to.
    from: Vec<String>,
    /// Whether a `cd` before led to where only the shell knows.
    is_lost: bool,
    /// The files that commands before have made.
    made: Made,
    /// Whether the line is one chain of commands that each need the one before to succeed.
    is_chained: bool,
    /// Whether a command before made a file whose name begins with a dash.
    has_dashes: bool,
    /// Whether a command before may have made a folder, or a repository in one.
    makes_folders: bool,
    /// Whether the command before prints names of files that lie where it searches.
    is_fed: bool,
    /// What links lead to that commands before have made.
    links: Vec<PathUse>,
}

pub(super) fn line(text: &str) -> Line {
    let deadline = Instant::now() + PATIENCE;
    let parsed = parse::parse(text, deadline);
    let mut scene = Scene {
        deadline,
        functions: parsed.functions,
        variables: parsed.variables,
        from: Vec::new(),
        is_lost: false,
        made: Made::default(),
        links: Vec::new(),
        is_fed: false,
        is_chained: is_chained(text),
        has_dashes: false,
        makes_folders: false,
    };
    let mut reason = parsed.unclear;
    if let Some(disguise) = unclear::disguise(text) {
        reason.get_or_insert_with(|| disguise.to_owned());
    }
    let has_programs = parsed.commands.iter().any(|simple| !simple.words.is_empty());
    let mut commands = Vec::new();
    for assignment in parsed.assignments.iter().filter(|_| has_programs) {
        let doubt = unclear::assignment(assignment);
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
        commands.extend(command(simple, &mut scene));
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

/// Returns the words that the shell itself runs: to it `time` is a mark in front of a pipeline, and `command` and `builtin`
/// start no program for what it has built in.
fn run_by_shell(words: &[Word]) -> &[Word] {
    let is_mark =
        |word: &&Word| matches!(&*word.source, "time" | "-p" | "--") || word.is("command") || word.is("builtin");
    &words[words.iter().take_while(is_mark).count()..]
}

/// Judges one command of the line. A change of directory that writes a file gives that redirection besides.
fn command(simple: &Simple, scene: &mut Scene) -> Vec<Command> {
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
        let is_plain = simple.assignments.iter().all(unclear::is_harmless_assignment);
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
            findings.doubt(unclear::assignment(assignment));
        }
    }
    if calls_function(&simple.words, scene) {
        findings.doubt(Some("it calls a function of this line"));
    }
    examine(&simple.words, Source::Given, 0, scene, &mut findings);
    if is_change {
        findings.forms.clear();
        findings.variants.clear();
        findings.equivalents.clear();
        findings.always.clear();
    }
    for words in scene.variables.resolve(&simple.words) {
        if let Some((name, words)) = run_by_shell(&words).split_first()
            && name.fixed().is_some_and(paths::is_directory_change)
        {
            follow(name.shown(), words, scene);
        }
    }
    if is_change {
        scene.is_lost |= findings.unclear.is_some();
        findings.unclear = None;
    }
    redirects(simple, scene, &mut findings);
    let redirect_doubt = findings.unclear.filter(|_| is_change).map(str::to_owned);
    if findings.expands_names && scene.has_dashes {
        findings.doubt(Some("a name that the line makes would be taken for an option"));
    }
    let is_dash = |used: &PathUse| used.path.trim_start_matches("./").starts_with('-');
    scene.has_dashes |= findings.paths.iter().any(is_dash);
    if scene.makes_folders && !findings.remotes.is_empty() {
        findings.doubt(Some(
            "what it pushes to may be a folder that the line makes, with hooks of its own",
        ));
    }
    let mut forms = findings.forms.iter().chain(&findings.variants);
    scene.makes_folders |= forms.any(|form| made::makes_folders(form));
    through_links(is_change, scene, &mut findings);
    let is_search = simple
        .words
        .first()
        .is_some_and(|word| SEARCHES.split_whitespace().any(|name| word.is(name)));
    scene.is_fed = is_search
        && findings.unclear.is_none()
        && !findings.paths.iter().any(leads_out)
        && !follows_links(&simple.words);
    if findings.unclear.is_some() {
        findings.always.clear();
    }
    for used in findings.paths.iter_mut().chain(&mut scene.links) {
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

/// Says whether a function of the text may run, also behind such a mark.
fn calls_function(words: &[Word], scene: &Scene) -> bool {
    let behind = run_by_shell(words).first();
    [words.first(), behind]
        .into_iter()
        .flatten()
        .any(|word| scene.functions.contains(&word.source))
}

/// Says whether a path clearly leads out of the folder that it is meant from.
fn leads_out(used: &PathUse) -> bool {
    used.path.starts_with(['/', '~']) || used.path.split('/').any(|step| step == "..")
}

fn is_chained(text: &str) -> bool {
    let rest = text.replace("&&", "").replace("2>&1", "");
    !rest.contains([';', '\n', '|', '&', '(', '{', '`'])
}

/// Says whether a path with steps up stays below the working directory when it is meant from a folder in it.
fn stays_inside(folder: &str, path: &str) -> bool {
    let mut depth = 0_i32;
    let is_plain = |step: &&str| !matches!(*step, "" | ".");
    !folder.starts_with(['/', '~'])
        && folder.split('/').chain(path.split('/')).filter(is_plain).all(|step| {
            depth += if step == ".." { -1 } else { 1 };
            depth >= 0
        })
}

/// Says whether a search goes through links.
fn follows_links(words: &[Word]) -> bool {
    words
        .iter()
        .any(|word| matches!(word.fixed(), Some("-L" | "-follow" | "--follow" | "-R")))
}

fn is_idle(target: &Word) -> bool {
    target.fixed().is_some_and(paths::is_idle_device)
}

/// A link that the line makes is no harm by itself; what is written later may be written through it.
fn through_links(is_change: bool, scene: &mut Scene, findings: &mut Findings) {
    if findings.writes || is_change || !findings.paths.is_empty() {
        findings.paths.append(&mut scene.links);
    }
    if findings.writes {
        findings.paths.append(&mut findings.links);
    }
    scene.links.append(&mut findings.links);
    scene.made.extend(std::mem::take(&mut findings.made));
}

fn redirects(simple: &Simple, scene: &Scene, findings: &mut Findings) {
    for redirect in &simple.redirects {
        let targets = scene.variables.resolve(std::slice::from_ref(&redirect.target));
        for target in targets.into_iter().flatten() {
            let uses = paths::of_redirect(&target, redirect.writes, &scene.from);
            findings.note(&uses, true, scene);
            findings.paths.extend(uses);
            if target.value.is_none() && !target.is_stream() {
                findings.doubt(Some("which file it opens is only known when it runs"));
            }
            let is_network = |path: &str| path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/");
            if target.value.as_deref().is_some_and(is_network) {
                findings.doubt(Some("it opens a network connection"));
            }
        }
    }
}

/// Follows a static `cd`, so that what comes behind it is looked at from there too.
fn follow(name: &str, words: &[Word], scene: &mut Scene) {
    let target = words.iter().find(|word| !word.source.starts_with('-'));
    // A folder of the working directory is known well enough by its wildcard.
    let place = |word: &Word| {
        let value = word.value.clone().filter(|_| !word.brace)?;
        let is_below = !value.starts_with(['/', '~']) && !value.split('/').any(|step| step == "..");
        (word.glob.is_none() || is_below).then_some(value)
    };
    scene.is_lost |= target.is_some_and(|word| place(word).is_none());
    let Some(target) = target.and_then(place).filter(|_| name != "popd") else {
        return;
    };
    let next = if target.starts_with(['/', '~']) {
        target
    } else {
        let base = scene.from.last().map(String::as_str);
        base.map_or_else(|| target.clone(), |base| format!("{base}/{target}"))
    };
    if next.len() <= LONGEST_PATH && scene.from.len() < MAX_FOLDERS && !scene.from.contains(&next) {
        scene.from.push(next);
    }
}
