//! Chance that can be had again.
//!
//! *Invariant:* what follows from a seed is the same on every machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Numbers that follow from a seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// Returns a number below `below`.
    pub(super) fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    }

    pub(super) fn moment(&mut self, from: Duration, to: Duration) -> Duration {
        from + (to - from) * self.roll(1_000) as u32 / 1_000
    }
}

/// Returns the seed that a variable has, or another one each time; prints how to have it again.
pub(super) fn seed(variable: &str) -> u64 {
    let given = std::env::var(variable).ok().map(|seed| seed.parse().unwrap());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = given.unwrap_or_else(|| now().as_nanos() as u64 % 1_000_000_000);
    println!("the seed is {seed}: {variable}={seed} gives the same faults");
    seed
}
