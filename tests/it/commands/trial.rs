//! Attacks are proven, judged under every set of rules, and run once more under the kernel's confinement.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use toolgate_fs::Workspace;
use toolgate_model::Ask;
use toolgate_permission::Rights;
use toolgate_permission::judgement::{Judgement, judge};
use toolgate_process::sandbox::{Kernel, Places, Sandbox};
use toolgate_tools::bash::asks;

use super::arena::{self, Place};
use super::attacks::{Attack, Effect};
use super::rulesets::{RuleSet, rule_sets};

/// How many run at the same time; most of the time they wait.
const WORKERS: usize = 8;

/// What came of an attack.
struct Outcome {
    attack: Attack,
    /// What it did when nothing held it back.
    effects: BTreeSet<Effect>,
    /// What it did within the walls.
    confined: BTreeSet<Effect>,
}

/// Runs attacks, each twice.
fn run(root: &Path, attacks: Vec<Attack>) -> Vec<Outcome> {
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
struct Bench {
    workspace: Workspace,
    outside: String,
    sets: Vec<RuleSet>,
}

impl Bench {
    fn new(root: &Path) -> Self {
        let template = root.join("template");
        let workspace = Workspace::open("main", &template.join("space"), Some(template.join("home"))).unwrap();
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
    fn unasked(&self, attack: &Attack) -> Vec<&str> {
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

/// What attacks did that had to be asked for, or held back.
#[derive(Default)]
pub(super) struct Verdict {
    /// How many had their effect when nothing held them back.
    pub(super) proven: usize,
    /// Those that had none, and say nothing.
    pub(super) idle: Vec<String>,
    /// Those that nobody was asked for.
    pub(super) unasked: Vec<String>,
    /// Those that did something outside or on the network within the walls.
    pub(super) outside: Vec<String>,
}

/// Runs and judges attacks.
pub(super) fn verdict(root: &Path, attacks: Vec<Attack>) -> Verdict {
    let outcomes = run(root, attacks);
    let bench = Bench::new(root);
    let mut verdict = Verdict::default();
    for Outcome {
        attack,
        effects,
        confined,
    } in &outcomes
    {
        let line = format!("{:?} {}", attack.effect, attack.line);
        if !effects.contains(&attack.effect) {
            verdict.idle.push(line);
            continue;
        }
        verdict.proven += 1;
        if confined.contains(&Effect::Writes) || confined.contains(&Effect::Connects) {
            verdict.outside.push(format!("{line}\n    did: {confined:?}"));
        }
        let sets = bench.unasked(attack);
        if !sets.is_empty() {
            verdict.unasked.push(format!("{line}\n    under: {}", sets.join("; ")));
        }
    }
    verdict
}
