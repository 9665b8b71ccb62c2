//! What people and rules are asked about command lines, held against two lists: ways around permission rules, and the
//! lines of ordinary work (`tests/corpus`).
//!
//! *Invariant:* a way that is judged is never run here but under the kernel's confinement.

mod arena;
mod attacked;
mod attacks;
mod corpus;
mod evaluated;
mod fuzz;
mod fuzzed;
mod kernel;
mod rulesets;
mod trial;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use corpus::Way;
use toolgate_fs::Workspace;
use toolgate_model::{Action, Ask, Rule};
use toolgate_permission::Rights;
use toolgate_permission::judgement::{Judgement, judge};
use toolgate_permission::rules::rule;
use toolgate_tools::bash::asks;

/// A workspace with a folder beside it.
struct Scene {
    folder: tempfile::TempDir,
    workspace: Workspace,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        for name in ["work/src", "work/inner", "outside", "home"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for name in ["x", "y", "src/main.c", "inner/victim.txt", "../outside/victim.txt"] {
            fs::write(work.join(name), "1\n2\n3\n").unwrap();
        }
        let workspace = Workspace::open("main", &work, Some(folder.path().join("home"))).unwrap();
        Self { folder, workspace }
    }

    fn path(&self, name: &str) -> String {
        let real = self.folder.path().canonicalize().unwrap();
        real.join(name).to_str().unwrap().to_owned()
    }

    /// The judgement on each question about a line.
    fn judged(&self, line: &str, rules: &[Rule]) -> Vec<(Ask, Judgement)> {
        let rights = Rights {
            rules: rules.into(),
            ancestors: Vec::new(),
            requesters: [].into(),
            worktree: Path::new(self.workspace.worktree()).into(),
        };
        asks(line, &self.workspace)
            .into_iter()
            .map(|ask| {
                let judgement = judge(&ask, &rights, &[]);
                (ask, judgement)
            })
            .collect()
    }

    fn asks_for(&self, line: &str, rules: &[Rule], permission: Option<&str>) -> bool {
        self.judged(line, rules).iter().any(|(ask, judgement)| {
            permission.is_none_or(|permission| ask.permission == permission)
                && matches!(judgement, Judgement::Ask { .. })
        })
    }
}

fn rules_of(set: &str) -> Vec<Rule> {
    let (others, action, patterns) = match set {
        "ask-list" => (
            Action::Allow,
            Action::Ask,
            &["rm *", "git push *", "curl *", "chmod *", "mv *"][..],
        ),
        "allow-list" => (
            Action::Ask,
            Action::Allow,
            &[
                "ls *",
                "echo *",
                "cat *",
                "git status *",
                "find *",
                "xargs *",
                "env *",
                "sed *",
                "awk *",
            ][..],
        ),
        other => panic!("{other}: no such set of rules"),
    };
    let mut rules = vec![rule("bash", "*", others), rule("external_directory", "*", Action::Ask)];
    rules.extend(patterns.iter().map(|pattern| rule("bash", pattern, action)));
    rules
}

/// The beginning of a line that may be very long.
fn shown(line: &str) -> String {
    line.chars().take(200).collect()
}

fn unnoticed(scene: &Scene, outside: &str, permission: Option<&str>, ways: &[Way]) -> Vec<String> {
    let mut found = Vec::new();
    for way in ways {
        let line = way.command.replace("${outside}", outside);
        for set in &way.rules {
            if !scene.asks_for(&line, &rules_of(set), permission) {
                found.push(format!("{} ({set}): {}", way.name, shown(&way.command)));
            }
        }
    }
    found
}

fn report(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{} {what}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn pushing_to_a_folder_is_asked_since_its_hooks_run() {
    let scene = Scene::new();
    let rules = [rule("bash", "*", Action::Ask), rule("bash", "git *", Action::Allow)];
    fs::create_dir(scene.folder.path().join("work/mirror")).unwrap();
    fs::create_dir(scene.folder.path().join("work/src/backup.git")).unwrap();
    for (line, expected) in [
        ("git push mirror HEAD", true),
        ("git -C . push mirror", true),
        ("cd src && git push backup", true),
        ("git push src/backup.git", true),
        ("git push file://$PWD/mirror", true),
        ("git push origin HEAD", false),
        ("git push", false),
    ] {
        assert_eq!(scene.asks_for(line, &rules, Some("bash")), expected, "{line}");
    }
}

#[test]
fn the_list_of_ways_is_sound() {
    let ways = corpus::ways();
    let names: HashSet<&str> = ways.iter().map(|way| way.name.as_str()).collect();
    assert_eq!(names.len(), ways.len(), "two ways have the same name");
    let unsound = ways.iter().filter(|way| {
        let mut texts = std::iter::once(&way.command).chain(way.files.values());
        let names_it = texts.any(|text| text.contains("${outside}"));
        way.category.is_empty() || (way.writes_outside && !names_it)
    });
    report(
        "ways say what they do not do",
        &unsound.map(|way| way.name.clone()).collect::<Vec<_>>(),
    );
}

#[test]
fn no_way_around_the_rules_goes_unnoticed() {
    let (scene, ways) = (Scene::new(), corpus::ways());
    let judged = ways.iter().filter(|way| !way.rules.is_empty()).count();
    assert!(judged >= 880, "{judged} ways are judged");
    let found = unnoticed(&scene, &scene.path("outside"), None, &ways);
    report("ways are not asked for", &found);
}

/// The same without a place outside that would be asked for in any case.
#[test]
fn no_command_is_hidden_from_the_rules_for_commands() {
    let (scene, mut ways) = (Scene::new(), corpus::ways());
    ways.retain(|way| way.hides != "outside write");
    let found = unnoticed(&scene, &scene.path("work/inner"), Some("bash"), &ways);
    report("commands are not asked for", &found);
}

#[test]
fn ordinary_work_is_rarely_asked_for() {
    let scene = Scene::new();
    let mut rules = vec![
        rule("bash", "*", Action::Ask),
        rule("external_directory", "*", Action::Ask),
    ];
    let granted = corpus::grants();
    rules.extend(granted.iter().map(|pattern| rule("bash", pattern, Action::Allow)));
    let lines = corpus::ordinary();
    assert!(lines.len() >= 290, "{} lines", lines.len());
    let asked: Vec<&String> = lines.iter().filter(|line| scene.asks_for(line, &rules, None)).collect();
    for line in &asked {
        for (ask, judgement) in scene.judged(line, &rules) {
            if let Judgement::Ask { rule, verdicts } = judgement {
                let parts = ask.parts.iter().zip(verdicts);
                let asking = parts.filter(|(_, verdict)| verdict.action == Action::Ask);
                let why: Vec<_> = asking.map(|(part, _)| (&part.patterns, &part.unclear)).collect();
                println!("{line}: {} {:?} {why:?}", ask.permission, rule.map(|rule| rule.pattern));
            }
        }
    }
    let share = asked.len() as f64 / lines.len() as f64;
    println!("{} of {} ordinary lines are asked for", asked.len(), lines.len());
    assert!(
        share <= 0.05,
        "{:.1} % of ordinary lines are asked for: {asked:#?}",
        share * 100.0
    );
}

#[test]
fn ordinary_work_is_free_where_everything_is_allowed() {
    let scene = Scene::new();
    let rules = [
        rule("*", "*", Action::Allow),
        rule("external_directory", "*", Action::Ask),
    ];
    let lines = corpus::ordinary();
    let asked = lines.into_iter().filter(|line| scene.asks_for(line, &rules, None));
    report("lines are asked for", &asked.collect::<Vec<_>>());
}
