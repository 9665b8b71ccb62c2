//! Taking samples in turns.
//!
//! *Invariant:* what is compared is measured round by round, so that whatever else the machine does hits both sides.

#![allow(dead_code)] // two benchmarks share this, and each has its own part of it

use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::table::show_time;

/// Times of one piece of work, sorted.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Takes the times.
    pub(crate) fn new(mut times: Vec<Duration>) -> Result<Self> {
        ensure!(!times.is_empty(), "no sample was taken");
        times.sort_unstable();
        Ok(Self(times))
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the time that half of the samples do not exceed.
    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// Returns the time that so many per cent of the samples do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0[rank.clamp(1, self.0.len()) - 1]
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", show_time(self.median()))?;
        // Of a few samples the 99th percentile is only the worst one.
        if self.0.len() >= 50 {
            write!(formatter, " / {}", show_time(self.percentile(99)))?;
        }
        Ok(())
    }
}

/// Returns how often [`in_turns`] does each piece of work.
pub(crate) fn turns(rounds: usize) -> usize {
    rounds + warm_up(rounds)
}

fn warm_up(rounds: usize) -> usize {
    (rounds / 10).max(1)
}

/// Measures two pieces of work in turns. Each is given the number of the round, and tells its time itself; the first
/// tenth of the rounds, one at least, is for warming up.
pub(crate) async fn in_turns(
    rounds: usize,
    mut one: impl AsyncFnMut(usize) -> Result<Duration>,
    mut other: impl AsyncFnMut(usize) -> Result<Duration>,
) -> Result<(Samples, Samples)> {
    let warm_up = warm_up(rounds);
    let (mut of_one, mut of_other) = (Vec::new(), Vec::new());
    for round in 0..warm_up + rounds {
        let times = (one(round).await?, other(round).await?);
        if round >= warm_up {
            of_one.push(times.0);
            of_other.push(times.1);
        }
    }
    Ok((Samples::new(of_one)?, Samples::new(of_other)?))
}
