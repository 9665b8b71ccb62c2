//! What the kernel says of this process.
//!
//! *Invariant:* read when it is asked for; what the kernel does not say is left out.

#![allow(clippy::disallowed_methods)] // /proc is the kernel's, not a workspace's

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Units of time in `/proc` of a second: a constant of the kernel's interface on all that Rust runs on but Alpha and IA-64.
const TICKS: f64 = 100.0;

/// Tells of this process.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read = |file| std::fs::read_to_string(file).unwrap_or_default();
        if let Some(bytes) = resident(&read("/proc/self/status")) {
            let help = "Memory that is in use and not swapped out";
            let to = encoder.encode_descriptor("process_resident_memory_bytes", help, None, MetricType::Gauge)?;
            ConstGauge::new(bytes).encode(to)?;
        }
        if let Some(seconds) = processor_time(&read("/proc/self/stat")) {
            let help = "Processor time, in the program and for it in the kernel";
            let to = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(to)?;
        }
        Ok(())
    }
}

fn resident(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn processor_time(stat: &str) -> Option<f64> {
    // The program's name may hold anything, brackets too.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(|field| field.parse::<u32>().ok());
    Some((f64::from(times.next()??) + f64::from(times.next()??)) / TICKS)
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
        assert_eq!(resident("VmRSS:\t9223372036854775807 kB\n"), None);
        assert_eq!(resident(""), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 5\n";
        assert_eq!(processor_time(stat), Some(2.0));
        assert_eq!(processor_time("7 (a"), None);
    }
}
