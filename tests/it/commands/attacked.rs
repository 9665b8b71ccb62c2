//! The attacks are proven, judged under every set of rules, and run once more under the kernel's confinement.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use toolgate::call::Ask;
use toolgate::permission::broker::Rights;
use toolgate::permission::judgement::{Judgement, judge};
use toolgate::process::sandbox::{Kernel, Places, Sandbox};
use toolgate::tools::bash::asks;
use toolgate::workspace::Workspace;

use super::arena::{self, Place};
use super::attacks::{Attack, Effect, attacks};
use super::rulesets::{RuleSet, rule_sets};
use super::{report, shown};

/// How many run at the same time.
const WORKERS: usize = 4;

/// One in so many is run by a test; `make fuzz` runs all.
const SHARE: usize = 4;

/// The fewest that have to have their effect.
const WANTED: usize = 1500;

/// What came of an attack.
pub(super) struct Outcome {
    pub(super) attack: Attack,
    /// What it did when nothing held it back.
    pub(super) effects: BTreeSet<Effect>,
    /// What it did within the walls.
    pub(super) confined: BTreeSet<Effect>,
}

/// Runs attacks, each twice.
pub(super) fn run(root: &Path, attacks: Vec<Attack>) -> Vec<Outcome> {
    let kernel = Kernel::probe();
    assert_eq!(
        kernel.lacks(),
        Vec::<String>::new(),
        "this test needs a kernel that can confine"
    );
    let sandbox = Sandbox::new(kernel, Places::default()).unwrap();
    let template = root.join("template");
    arena::template(&template);
    let (left, done) = (Mutex::new(attacks), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (place, template) = (root.join(format!("place-{worker}")), template.clone());
            let (left, done, sandbox) = (&left, &done, &sandbox);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(work(place, template, sandbox, left, done));
            });
        }
    });
    done.into_inner().unwrap()
}

async fn work(
    place: PathBuf,
    template: PathBuf,
    sandbox: &Sandbox,
    left: &Mutex<Vec<Attack>>,
    done: &Mutex<Vec<Outcome>>,
) {
    let mut place = Place::new(place, template);
    loop {
        let next = left.lock().unwrap().pop();
        let Some(attack) = next else { break };
        let effects = place.run(&attack.line, None).await;
        let confined = if effects.contains(&attack.effect) {
            place.run(&attack.line, Some(sandbox)).await
        } else {
            BTreeSet::new()
        };
        done.lock().unwrap().push(Outcome {
            attack,
            effects,
            confined,
        });
    }
    place.shutdown().await;
}

/// Judges lines in a workspace as the attacks find it.
pub(super) struct Bench {
    workspace: Workspace,
    outside: String,
    sets: Vec<RuleSet>,
}

impl Bench {
    pub(super) fn new(root: &Path) -> Self {
        let template = root.join("template");
        let workspace = Workspace::open("main", &template.join("work"), Some(template.join("home"))).unwrap();
        Self {
            workspace,
            outside: template.join("outside").to_str().unwrap().to_owned(),
            sets: rule_sets(),
        }
    }

    fn asks(&self, line: &str) -> Vec<Ask> {
        asks(
            &line.replace("OUTSIDE", &self.outside).replace("PORT", "45678"),
            &self.workspace,
        )
    }

    fn allows(&self, asks: &[Ask], set: &RuleSet) -> bool {
        let rights = Rights {
            rules: set.rules.as_slice().into(),
            ancestors: Vec::new(),
            requesters: [].into(),
            worktree: Path::new(self.workspace.worktree()).into(),
        };
        asks.iter()
            .all(|ask| matches!(judge(ask, &rights, &[]), Judgement::Allow { .. }))
    }

    /// Returns the sets under which nobody is asked for an attack, although they do not allow what it does. Where a set
    /// allows every command and only asks for folders outside, what is called unclear is left to the walls.
    pub(super) fn unasked(&self, attack: &Attack) -> Vec<&str> {
        let asked = self.asks(&attack.line);
        let plain = self.asks(attack.plain);
        let is_unclear = asked
            .iter()
            .flat_map(|ask| &ask.parts)
            .any(|part| part.unclear.is_some());
        let is_unasked =
            |set: &&RuleSet| self.allows(&asked, set) && !self.allows(&plain, set) && !(is_unclear && set.allows_all());
        self.sets.iter().filter(is_unasked).map(|set| &*set.name).collect()
    }
}

/// What a walled command must not have done.
pub(super) fn breaks_out(effects: &BTreeSet<Effect>) -> bool {
    effects.contains(&Effect::Writes) || effects.contains(&Effect::Connects)
}

#[test]
fn no_attack_goes_unasked_or_beyond_the_walls() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let all = attacks();
    let made = all.len();
    let chosen = all.into_iter().filter(|attack| attack.mark() % SHARE == 0).collect();
    let outcomes = run(&root, chosen);
    let (proven, idle): (Vec<_>, Vec<_>) = outcomes
        .iter()
        .partition(|outcome| outcome.effects.contains(&outcome.attack.effect));
    println!(
        "{made} attacks are made; of {} that were run {} have their effect here",
        outcomes.len(),
        proven.len()
    );
    for outcome in idle {
        println!("no effect: {:?} {}", outcome.attack.effect, shown(&outcome.attack.line));
    }
    let bench = Bench::new(&root);
    let mut unasked = Vec::new();
    let mut outside = Vec::new();
    for outcome in &proven {
        let line = shown(&outcome.attack.line);
        let sets = bench.unasked(&outcome.attack);
        if !sets.is_empty() {
            unasked.push(format!(
                "{:?} {line}\n    under: {}",
                outcome.attack.effect,
                sets.join("; ")
            ));
        }
        if breaks_out(&outcome.confined) {
            outside.push(format!("{:?} {line}", outcome.confined));
        }
    }
    assert!(proven.len() >= WANTED, "{} attacks have their effect", proven.len());
    println!("{} unasked, {} beyond the walls", unasked.len(), outside.len());
    report("attacks get beyond the walls", &outside);
    report("attacks are not asked for", &unasked);
}
