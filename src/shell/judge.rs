//! From the simple commands of a line to what is judged: forms, prefixes, doubts and paths, the commands inside wrappers
//! included.
//!
//! *Invariant:* the depth, the number of forms and the time of one line are bounded; beyond a bound it is unclear.

use std::time::Instant;

use super::arity;
use super::known;
use super::made::{self, Made};
use super::network;
use super::options;
use super::parse::{self, PATIENCE, Parsed, Simple};
use super::paths::{self, PathUse};
use super::programs;
use super::unclear;
use super::variables::Variables;
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
    /// Those that mean the very same.
    equivalents: Vec<String>,
    /// Whether the variables in front of the command change nothing of what it does.
    has_plain_variables: bool,
    always: Vec<String>,
    unclear: Option<&'static str>,
    paths: Vec<PathUse>,
    /// Whether a word begins with a wildcard, so that a name that begins with a dash would be an option.
    expands_names: bool,
    /// The values of the variables in front of it.
    settings: Vec<Word>,
    /// Whether the files that it hands on lie where it searches.
    is_found: bool,
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
            if known::decides(&used.path) {
                self.doubt(Some("it writes a file that decides what other commands run"));
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

    /// Adds another spelling that means the very same, so that a rule for it is one for the text.
    fn equivalent(&mut self, form: String) {
        self.spelling(form.clone(), true);
        let is_new = !form.is_empty() && !self.equivalents.contains(&form) && !self.forms.contains(&form);
        if is_new && self.equivalents.len() < MAX_FORMS {
            self.equivalents.push(form);
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

    /// Offers the prefix of a command without its global options: what stands behind them decides what it does.
    fn offer_words(&mut self, words: &[Word]) {
        let counted = words.iter().filter(|word| word.counts);
        let sources: Vec<&str> = counted.map(|word| word.source.as_str()).collect();
        match options::without_globals(&sources) {
            Some(stripped) => self.offer(&stripped),
            None => self.offer(&sources),
        }
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
        || words
            .iter()
            .skip(1)
            .any(|word| scene.made.is_run_by(&name, word.shown()))
    {
        findings.doubt(Some("it runs a file that the line itself makes"));
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
    findings.doubt(unclear::command(&name, words, &stripped));
    if scene.is_lost {
        findings.doubt(Some("in which folder it runs is only known when it runs"));
    }
    let ways = scene.variables.resolve(words);
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
        run(&name, resolved, source, depth, scene, findings);
    }
}

/// Looks at what a command does, with the texts of its variables put in.
fn run(name: &str, words: &[Word], source: Source, depth: usize, scene: &Scene, findings: &mut Findings) {
    let inner = wrappers::inner(name, words);
    let mut uses = paths::of_command(name, words, &scene.from);
    let found = match programs::read(name, words) {
        Some(reading) => {
            findings.doubt(reading.doubt);
            uses.extend(paths::of_words(&reading.written, true, &scene.from));
            let mut read = paths::of_words(&reading.read, false, &scene.from);
            read.iter_mut().for_each(|used| used.is_asked = reading.shows);
            uses.extend(read);
            findings.expands_names |= reading.expands_names && !reading.is_tame;
            // A symbolic link touches nothing of where it leads to; what goes through it later does.
            let is_link = name == "ln" && paths::is_symbolic(words);
            if reading.is_open && !paths::is_listed(name) && !is_link {
                uses.extend(paths::of_any_words(words.get(1..).unwrap_or_default(), &scene.from));
            }
            if source == Source::Template {
                findings.doubt(template_words(&reading, scene.is_fed || findings.is_found));
            }
            Some(known::check(name, words, &reading))
        }
        None => known::check_unlisted(name, words),
    };
    match found {
        Some(found) => {
            findings.doubt(found.doubt);
            uses.extend(paths::of_words(&found.written, true, &scene.from));
            let mut read = paths::of_words(&found.read, false, &scene.from);
            read.iter_mut().for_each(|used| used.is_asked = true);
            uses.extend(read);
            let is_open = |word: &Word| word.value.is_none() && !word.is_stream();
            if found.read.iter().chain(&found.written).any(is_open) {
                findings.doubt(Some("which file it uses is only known when it runs"));
            }
        }
        None if !inner.is_empty() => uses.extend(own_paths(name, words, &inner, scene)),
        None if !paths::is_directory_change(name) => {
            if !known::is_elsewhere(name) {
                uses.extend(paths::of_any_words(words.get(1..).unwrap_or_default(), &scene.from));
            }
            if source == Source::Template {
                findings.doubt(Some("its words come from its input"));
            }
            let is_open = |word: &Word| {
                if word.value.is_some() && word.glob.is_some() {
                    return word.beginning().starts_with('-');
                }
                let is_one = !word.splits && !word.brace && !word.prefix.is_empty() && !word.prefix.starts_with('-');
                (word.value.is_none() || word.brace) && !is_one && !word.is_stream()
            };
            if words.iter().skip(1).any(is_open) {
                findings.doubt(Some("a word of it is only known when it runs"));
            }
            findings.doubt(known::forwards(name, words));
        }
        None => {}
    }
    for assignment in &findings.settings {
        uses.extend(
            paths::of_any_words(std::slice::from_ref(assignment), &scene.from)
                .into_iter()
                .filter(leads_out),
        );
    }
    // Where each command must succeed before the next one runs, only the folder that a `cd` led to counts.
    if scene.is_chained
        && let Some(folder) = scene.from.last()
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
        findings.links.extend(paths::of_link(words, &scene.from));
        uses.iter().for_each(|used| findings.made.add(&used.path));
    } else {
        findings.note(&uses, made::is_maker(name), scene);
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
            findings.doubt(unclear::assignment(&assignment));
        }
    }
    if source == Source::Template {
        let spelled: Vec<&str> = words.iter().map(Word::plain).collect();
        let stripped = options::without_globals(&spelled).unwrap_or(spelled);
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

/// Returns what a program that runs another one does with its own words.
fn own_paths(name: &str, words: &[Word], inner: &[Inner], scene: &Scene) -> Vec<PathUse> {
    if known::is_elsewhere(name) || paths::is_listed(name) {
        return Vec::new();
    }
    let count = inner.iter().map(|inner| match inner {
        Inner::Words(words) | Inner::Template(words) => words.len(),
        Inner::Script(_) | Inner::Remote(_) | Inner::Implied(_) | Inner::Opaque(_) => 0,
    });
    let own = words.len().saturating_sub(count.max().unwrap_or(0));
    let found = paths::of_any_words(words.get(1..own).unwrap_or_default(), &scene.from);
    found.into_iter().filter(leads_out).collect()
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
const SEARCHES: &str = "find fd fdfind rg ls git seq grep";

/// Examines a text that a shell parses.
fn script(text: &str, depth: usize, scene: &Scene, findings: &mut Findings) {
    if depth > MAX_DEPTH {
        return findings.doubt(Some("commands are wrapped in it too deeply"));
    }
    let Parsed {
        commands,
        assignments,
        functions,
        variables,
        has_statements: _,
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
        variables,
        from: scene.from.clone(),
        is_lost: scene.is_lost,
        made: scene.made.clone(),
        links: Vec::new(),
        is_fed: false,
        is_chained: is_chained(text),
        has_dashes: false,
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
