//! What became of each case, in lines for a person and one summary.
//!
//! *Invariant:* the summary reads `N passed, M failed, K skipped`, whatever else is printed.

use anyhow::Result;

use crate::play::Problems;

/// What became of a case.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed(Problems),
    /// Cannot pass yet, and did not; or cannot be played on this machine.
    Known(String),
}

/// Turns what was played into an outcome: a known case must fail, any other must not.
pub(crate) fn judge(known: Option<&str>, played: Result<Problems>) -> Outcome {
    let problems = played.unwrap_or_else(|error| vec![format!("{error:#}")]);
    match (known, problems.is_empty()) {
        (None, true) => Outcome::Passed,
        (None, false) => Outcome::Failed(problems),
        (Some(reason), false) => Outcome::Known(reason.to_owned()),
        (Some(_), true) => Outcome::Failed(vec!["it passes: remove it from the list of known cases".to_owned()]),
    }
}

/// Counts outcomes.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    pub(crate) failed: usize,
    skipped: usize,
}

impl Tally {
    /// Prints a case's line and counts it.
    pub(crate) fn add(&mut self, id: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => {
                self.passed += 1;
                println!("ok      {id}");
            }
            Outcome::Known(reason) => {
                self.skipped += 1;
                println!("known   {id}: {reason}");
            }
            Outcome::Failed(problems) => {
                self.failed += 1;
                println!("FAILED  {id}");
                for problem in problems {
                    println!("    {}", problem.replace('\n', "\n      "));
                }
            }
        }
    }

    /// Counts and prints a fault of the run that belongs to no case.
    pub(crate) fn fault(&mut self, text: &str) {
        self.failed += 1;
        println!("FAILED  {text}");
    }

    /// Returns the summary line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}
