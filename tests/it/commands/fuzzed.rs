//! A short run of the fuzzer that `make fuzz` lets run for long.

use std::time::{Duration, Instant};

use super::fuzz;
use super::report;

/// How many lines each of two threads makes.
const LINES: usize = 1200;

#[test]
fn bash_does_nothing_that_was_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let reports: Vec<fuzz::Report> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=2)
            .map(|seed| {
                let place = root.join(seed.to_string());
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .unwrap();
                    runtime.block_on(fuzz::run(place, seed, LINES, until, 40))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (lines, clear) = reports.iter().fold((0, 0), |(lines, clear), report| {
        (lines + report.lines, clear + report.clear)
    });
    println!("{lines} lines, {clear} of them clear");
    let failures: Vec<String> = reports.into_iter().flat_map(|report| report.failures).collect();
    report("lines do what was not judged", &failures);
    assert!(clear * 10 >= lines, "only {clear} of {lines} lines are clear");
}
