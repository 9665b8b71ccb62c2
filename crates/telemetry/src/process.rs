//! What the kernel says of this process.
//!
//! *Invariant:* read when it is asked for; what the kernel does not say is left out.

#![allow(clippy::disallowed_methods)] // /proc is the kernel's, not a workspace's

use opentelemetry::metrics::Meter;

/// Units of time in `/proc` of a second: a constant of the kernel's interface on all that Rust runs on but Alpha and IA-64.
const TICKS_PER_SECOND: f64 = 100.0;

/// Has a meter tell of this process.
pub(super) fn observe(meter: &Meter) {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    meter
        .u64_observable_gauge("process.resident_memory")
        .with_unit("By")
        .with_description("Memory that is in use and not swapped out")
        .with_callback(move |observer| {
            if let Some(bytes) = resident(&read("/proc/self/status")) {
                observer.observe(bytes, &[]);
            }
        })
        .build();
    meter
        .f64_observable_counter("process.cpu")
        .with_unit("s")
        .with_description("Processor time, in the program and for it in the kernel")
        .with_callback(move |observer| {
            if let Some(seconds) = processor_time(&read("/proc/self/stat")) {
                observer.observe(seconds, &[]);
            }
        })
        .build();
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn processor_time(stat: &str) -> Option<f64> {
    // The program's name may hold anything, brackets too.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(|field| field.parse::<u32>().ok());
    Some((f64::from(times.next()??) + f64::from(times.next()??)) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        assert_eq!(
            resident("Name:\tx\nVmRSS:\t    12 kB\nRssAnon:\t 1 kB\n"),
            Some(12 * 1024)
        );
        assert_eq!(resident("VmRSS:\t18446744073709551615 kB\n"), None);
        assert_eq!(resident(""), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 5\n";
        assert_eq!(processor_time(stat), Some(2.0));
        assert_eq!(processor_time("7 (a"), None);
    }
}
