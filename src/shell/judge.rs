//! From the simple commands of a line to what is judged: forms, prefixes, doubts and paths, the commands inside wrappers
//! included.
//!
//! *Invariant:* the depth, the number of forms and the time of one line are bounded; beyond a bound it is unclear.

use std::time::Instant;

use super::arity;
use super::made::{self, Made};
use super::network;
use super::options;
use super::parse::{self, PATIENCE, Parsed, Simple};
use super::paths::{self, PathUse};
use super::unclear;
use super::words::Word;
use super::wrappers::{self, Inner};
use super::{Command, Line};

/// How deep commands may be wrapped in each other.
const MAX_DEPTH: usize = 8;

/// The most forms of one command.
const MAX_FORMS: usize = 64;

/// The most folders that a line is followed to by its `cd` commands.
const MAX_FOLDERS: usize = 16;

/// The longest path that is followed.
const LONGEST_PATH: usize = 4096;

/// What is the same for all commands of a line.
struct Scene {
    deadline: Instant,
    functions: Vec<String>,
    /// Where a `cd` before may have led to.
    from: Vec<String>,
    /// Whether a `cd` before led to where only the shell knows.
    is_lost: bool,
    /// The files that commands before have made.
    made: Made,
    /// What links lead to that commands before have made.
    links: Vec<PathUse>,
}

pub(super) fn line(text: &str) -> Line {
    let deadline = Instant::now() + PATIENCE;
    let parsed = parse::parse(text, deadline);
    let mut scene = Scene {
        deadline,
        functions: parsed.functions,
        from: Vec::new(),
        is_lost: false,
        made: Made::default(),
        links: Vec::new(),
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
        findings.forms.clone_from(&patterns);
        simple.extended.iter().for_each(|form| findings.form(form.clone()));
        findings.offer_words(&simple.words);
    }
    for assignment in &simple.assignments {
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
        findings.always.clear();
    }
    if let Some((name, words)) = run_by_shell(&simple.words).split_first()
        && name.fixed().is_some_and(paths::is_directory_change)
    {
        follow(name.shown(), words, scene);
    }
    redirects(simple, scene, &mut findings);
    through_links(is_change, scene, &mut findings);
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
        always: findings.always,
        unclear: findings.unclear.map(str::to_owned).filter(|_| !is_change),
        paths: findings.paths,
        uses_network: findings.uses_network,
        is_directory_change: is_change,
    }];
    if is_change {
        made.extend(
            simple
                .redirects
                .iter()
                .filter(|redirect| redirect.writes && !is_idle(&redirect.target))
                .map(|redirect| {
                    let text = redirect.text.trim().to_owned();
                    Command {
                        patterns: vec![text.clone()],
                        forms: vec![text.clone()],
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

fn is_idle(target: &Word) -> bool {
    target.fixed().is_some_and(paths::is_idle_device)
}

/// A link that the line makes is no harm by itself; what is written later may be written through it.
fn through_links(is_change: bool, scene: &mut Scene, findings: &mut Findings) {
    if findings.writes || is_change {
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
        let uses = paths::of_redirect(redirect, &scene.from);
        findings.note(&uses, true, scene);
        findings.paths.extend(uses);
        if redirect.writes && redirect.target.value.is_none() {
            findings.doubt(Some("which file it writes is only known when it runs"));
        }
        let is_network = |path: &str| path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/");
        if redirect.target.value.as_deref().is_some_and(is_network) {
            findings.doubt(Some("it opens a network connection"));
        }
    }
}

/// Follows a static `cd`, so that what comes behind it is looked at from there too.
fn follow(name: &str, words: &[Word], scene: &mut Scene) {
    let target = words.iter().find(|word| !word.source.starts_with('-'));
    scene.is_lost |= target.is_some_and(|word| word.fixed().is_none());
    let Some(target) = target.and_then(Word::fixed).filter(|_| name != "popd") else {
        return;
    };
    let next = if target.starts_with(['/', '~']) {
        target.to_owned()
    } else {
        let base = scene.from.last().map(String::as_str);
        base.map_or_else(|| target.to_owned(), |base| format!("{base}/{target}"))
    };
    if next.len() <= LONGEST_PATH && scene.from.len() < MAX_FOLDERS && !scene.from.contains(&next) {
        scene.from.push(next);
    }
}

/// Where the words of a command come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// They stand in the line.
    Given,
    /// More of them come from input or from a search.
    Template,
    /// They say in words what an option does.
    Implied,
}

#[derive(Default)]
struct Findings {
    forms: Vec<String>,
    /// Other ways to write the same.
    variants: Vec<String>,
    always: Vec<String>,
    unclear: Option<&'static str>,
    paths: Vec<PathUse>,
    /// Whether it writes a path, links not counted.
    writes: bool,
    uses_network: bool,
    made: Made,
    links: Vec<PathUse>,
}

impl Findings {
    /// Takes down what is written; `makes` says whether whole files come to be, which may be run later.
    fn note(&mut self, uses: &[PathUse], makes: bool, scene: &Scene) {
        for used in uses.iter().filter(|used| used.is_written) {
            self.writes = true;
            if makes {
                self.made.add(&used.path);
            }
            if scene.is_lost && !used.path.starts_with(['/', '~']) {
                self.doubt(Some("it writes below a folder that is only known when it runs"));
            }
        }
    }

    fn form(&mut self, form: String) {
        if !form.is_empty() && !self.forms.contains(&form) && self.has_room() {
            self.forms.push(form);
        }
    }

    /// Adds the command of the line itself in another spelling, or the one that it runs inside.
    fn spelling(&mut self, form: String, is_same: bool) {
        if !is_same {
            self.form(form);
            return;
        }
        let is_known = self.forms.contains(&form) || self.variants.contains(&form);
        if !form.is_empty() && !is_known && self.has_room() {
            self.variants.push(form);
        }
    }

    fn has_room(&mut self) -> bool {
        let has_room = self.forms.len() + self.variants.len() < MAX_FORMS;
        if !has_room {
            self.doubt(Some("there are too many commands in it"));
        }
        has_room
    }

    /// Adds another spelling. What an approval of the command as it is written does not cover is offered by itself.
    fn offered_spelling(&mut self, words: &[&str], is_same: bool) {
        self.spelling(words.join(" "), is_same);
        if !is_same {
            self.offer(words);
        }
    }

    /// Adds the command without its redirections, unless that is how another form begins.
    fn bare_form(&mut self, form: String, is_same: bool) {
        let begins = |known: &String| {
            known
                .strip_prefix(&form)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        if !self.forms.iter().any(begins) {
            self.spelling(form, is_same);
        }
    }

    fn doubt(&mut self, reason: Option<&'static str>) {
        self.unclear = self.unclear.or(reason);
    }

    /// Offers the prefix of a command. An approval is a wildcard, so words that hold one would approve more.
    fn offer(&mut self, words: &[&str]) {
        let prefix = arity::prefix(words).join(" ");
        if prefix.trim().is_empty() || prefix.contains(['*', '?']) {
            return;
        }
        let pattern = format!("{prefix} *");
        if !self.always.contains(&pattern) {
            self.always.push(pattern);
        }
    }

    fn offer_words(&mut self, words: &[Word]) {
        let counted = words.iter().filter(|word| word.counts);
        let sources: Vec<&str> = counted.map(|word| word.source.as_str()).collect();
        self.offer(&sources);
    }
}

/// Examines a command, and what runs inside it.
fn examine(words: &[Word], source: Source, depth: usize, scene: &Scene, findings: &mut Findings) {
    let Some(first) = words.first() else { return };
    if depth > MAX_DEPTH || Instant::now() > scene.deadline {
        return findings.doubt(Some("commands are wrapped in it too deeply"));
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
    let Some(name) = name_of(first, source, scene, findings) else {
        return;
    };
    let is_made = |findings: &Findings, word: &Word| {
        let file = word.fixed().unwrap_or_default();
        scene.made.holds(file, &scene.from) || findings.made.holds(file, &scene.from)
    };
    let file = words.iter().skip(1).find(|word| !word.source.starts_with('-'));
    if (first.shown().contains('/') && is_made(findings, first))
        || (made::is_runner(&name) && file.is_some_and(|file| is_made(findings, file)))
    {
        findings.doubt(Some("it runs a file that the line itself makes"));
    }
    let mut is_same = depth == 0;
    let mut plain = joined.clone();
    findings.bare_form(plain.join(" "), is_same);
    // An approval of the command as it is written is one for its other spellings (`permission::judgement`).
    if !is_same && source != Source::Implied {
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
        findings.offered_spelling(stripped, is_same);
    }
    let stripped = stripped.unwrap_or(plain);
    options::ordered(&stripped)
        .into_iter()
        .for_each(|form| findings.spelling(form, is_same));
    findings.uses_network |= network::uses(&name, &stripped);
    findings.doubt(unclear::command(&name, words, &stripped));
    let uses = paths::of_command(&name, words, &scene.from);
    if name == "ln" {
        findings.links.extend(paths::of_link(words, &scene.from));
        uses.iter().for_each(|used| findings.made.add(&used.path));
    } else {
        findings.note(&uses, made::is_maker(&name), scene);
    }
    findings.paths.extend(uses);
    for word in words {
        let setting = word.fixed().and_then(|text| text.split_once('='));
        // They take assignments as arguments.
        if let Some((variable, _)) = setting.filter(|_| matches!(&*name, "env" | "sudo" | "doas" | "exec" | "time")) {
            let assignment = parse::Assignment {
                name: variable.to_owned(),
                text: word.source.clone(),
            };
            findings.doubt(unclear::assignment(&assignment));
        }
    }
    let inner = wrappers::inner(&name, words);
    if source == Source::Template {
        template(&stripped, &inner, findings);
    }
    inside(inner, source, depth, scene, findings);
}

fn inside(inner: Vec<Inner>, source: Source, depth: usize, scene: &Scene, findings: &mut Findings) {
    let passed_on = if source == Source::Template {
        Source::Template
    } else {
        Source::Given
    };
    for inner in inner {
        match inner {
            Inner::Words(words) => examine(&words, passed_on, depth + 1, scene, findings),
            Inner::Template(words) => examine(&words, Source::Template, depth + 1, scene, findings),
            Inner::Implied(words) => examine(&words, Source::Implied, depth + 1, scene, findings),
            Inner::Remote(text) => {
                // Its paths are those of another machine.
                let known = findings.paths.len();
                script(&text, depth + 1, scene, findings);
                findings.paths.truncate(known);
            }
            Inner::Script(text) => {
                if source == Source::Template && text.contains("{}") {
                    findings.doubt(Some("file names become part of a script"));
                }
                script(&text, depth + 1, scene, findings);
            }
            Inner::Opaque(reason) => findings.doubt(Some(reason)),
        }
    }
}

/// Returns the name of the program without its folder, if it can be known.
fn name_of(word: &Word, source: Source, scene: &Scene, findings: &mut Findings) -> Option<String> {
    const RESERVED: [&str; 14] = [
        "{", "}", "!", "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "case", "esac",
    ];
    let Some(value) = word.fixed() else {
        findings.doubt(Some("which program it runs is only known when it runs"));
        return None;
    };
    if !value.is_ascii() {
        findings.doubt(Some("the program's name has characters that may look like others"));
    }
    if RESERVED.contains(&&*word.source) {
        findings.doubt(Some("the shell's grammar does not fit it"));
    }
    if value.starts_with("/proc/") || value.starts_with("/dev/") {
        findings.doubt(Some("which program it runs is only known when it runs"));
    }
    if source == Source::Template && value.contains(['{', '%', '@']) {
        findings.doubt(Some("which program it runs is only known when it runs"));
    }
    // A folder of the project holds programs of the project; one of the system, however it is written, those of the system.
    let is_elsewhere = value.starts_with('/')
        || value.starts_with("~/")
        || value.contains("../")
        || (value.starts_with("./") && scene.from.iter().any(|folder| paths::is_of_programs(folder)));
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
        findings.doubt(Some("its subcommand comes from its input"));
    }
    if inner.is_empty() && wrappers::is_wrapper(words.first().copied().unwrap_or_default()) {
        findings.doubt(Some("which program it runs comes from its input"));
    }
}

/// Examines a text that a shell parses.
fn script(text: &str, depth: usize, scene: &Scene, findings: &mut Findings) {
    if depth > MAX_DEPTH {
        return findings.doubt(Some("commands are wrapped in it too deeply"));
    }
    let Parsed {
        commands,
        assignments,
        functions,
        unclear,
    } = parse::parse(text, scene.deadline);
    if unclear.is_some() {
        findings.doubt(Some("the script in it is not understood"));
    }
    for assignment in &assignments {
        findings.doubt(unclear::assignment(assignment));
    }
    let inner_scene = Scene {
        deadline: scene.deadline,
        functions,
        from: scene.from.clone(),
        is_lost: scene.is_lost,
        made: scene.made.clone(),
        links: Vec::new(),
    };
    let known = findings.paths.len();
    for simple in &commands {
        let first = simple.words.first();
        if calls_function(&simple.words, &inner_scene) {
            findings.doubt(Some("it calls a function of its script"));
        }
        for assignment in &simple.assignments {
            findings.doubt(unclear::assignment(assignment));
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
    }
    // Places in the script are none in the line.
    let paths = findings.paths[known..].iter_mut();
    paths.chain(&mut findings.links).for_each(|used| used.at = None);
}
