//! Benchmarks of the figures that Toolgate is to reach, as ratios in one run on one machine.

fn main() {}
