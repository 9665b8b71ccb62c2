//! A share of the attacks, each proven, judged and run within the walls. `make fuzz` has all of them.

use super::attacks::attacks;
use super::report;
use super::trial::verdict;

/// One in so many is run.
const SHARE: usize = 4;

/// The fewest that have to have their effect.
const WANTED: usize = 1500;

#[test]
fn no_attack_goes_unasked_or_beyond_the_walls() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (chosen, made) = attacks(SHARE);
    let found = verdict(&root, chosen);
    for line in &found.idle {
        println!("no effect: {line}");
    }
    println!(
        "{made} attacks are made; of those chosen {} have their effect here and {} have none; {} are unasked, {} get beyond \
         the walls",
        found.proven,
        found.idle.len(),
        found.unasked.len(),
        found.outside.len()
    );
    assert!(found.proven >= WANTED, "{} attacks have their effect", found.proven);
    report("attacks get beyond the walls", &found.outside);
    report("attacks are not asked for", &found.unasked);
}
