//! What is counted and timed, and its text for Prometheus.
//!
//! *Invariant:* whoever counts does not allocate once a label is known, and labels are bounded: a name from outside is
//! cut, and after so many of them the next one is `other`.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::process::Process;

/// Tools that have labels of their own; front ends and servers lend as many as they like.
const MOST_TOOLS: usize = 256;

/// Bytes of the longest name in a label.
const LONGEST_NAME: usize = 64;

/// What stands for every name beyond the bounds.
const OTHER: &str = "other";

/// From what answers at once to what runs for an hour.
const WORK: [f64; 15] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0, 120.0, 600.0, 3600.0,
];

/// From a glance to the next working day.
const PEOPLE: [f64; 11] = [0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0, 300.0, 1800.0, 14_400.0, 86_400.0];

/// A commit takes some 50 µs.
const COMMITS: [f64; 11] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.0,
];

/// A name that is kept once, however often it is counted.
type Name = Arc<str>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStart {
    tool: Name,
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEnd {
    tool: Name,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPhase {
    tool: Name,
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRpc {
    rpc: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfAnswer {
    rpc: Name,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLimit {
    limit: &'static str,
}

/// How a call spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// From admission to the start of its tool.
    pub queued: Duration,
    /// For people.
    pub waited: Duration,
    /// For its tool, without that.
    pub ran: Duration,
}

/// What is looked at when somebody asks, rather than counted as it happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Calls that have started and not ended.
    pub running: u64,
    /// Calls that are admitted and have not started.
    pub queued: u64,
    /// Prompts that wait for somebody.
    pub prompts_open: u64,
    /// Free bytes where outputs are kept; none if that cannot be told.
    pub free_bytes: Option<u64>,
    /// Whether new calls are refused.
    pub draining: bool,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;
type Number = Gauge<u64, AtomicU64>;

/// The metrics of one service.
pub struct Metrics {
    registry: Registry,
    names: RwLock<HashSet<Arc<str>>>,
    started: Family<OfStart, Counter>,
    finished: Family<OfEnd, Counter>,
    durations: Histograms<OfPhase>,
    prompt_wait: Histogram,
    streams: Family<OfRpc, Gauge>,
    rpcs: Histograms<OfAnswer>,
    refusals: Family<OfLimit, Counter>,
    output: Counter,
    store_writes: Histogram,
    running: Number,
    queued: Number,
    prompts_open: Number,
    free_bytes: Number,
    draining: Number,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

fn work() -> Histogram {
    Histogram::new(WORK)
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            names: RwLock::default(),
            started: Family::default(),
            finished: Family::default(),
            durations: Family::new_with_constructor(work),
            prompt_wait: Histogram::new(PEOPLE),
            streams: Family::default(),
            rpcs: Family::new_with_constructor(work),
            refusals: Family::default(),
            output: Counter::default(),
            store_writes: Histogram::new(COMMITS),
            running: Number::default(),
            queued: Number::default(),
            prompts_open: Number::default(),
            free_bytes: Number::default(),
            draining: Number::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    /// Names everything; the suffixes `_total`, `_bucket`, `_count` and `_sum` come from the kinds.
    fn register(&mut self) {
        let all = &mut self.registry;
        let calls = "toolgate_calls";
        all.register(
            format!("{calls}_started"),
            "Calls that were admitted",
            self.started.clone(),
        );
        all.register(
            format!("{calls}_finished"),
            "Calls that ended, by how",
            self.finished.clone(),
        );
        all.register(
            "toolgate_call_duration_seconds",
            "What calls spent queued, waiting for people, and running",
            self.durations.clone(),
        );
        all.register(
            format!("{calls}_running"),
            "Calls that have started and not ended",
            self.running.clone(),
        );
        all.register(
            format!("{calls}_queued"),
            "Calls that have not started",
            self.queued.clone(),
        );
        all.register(
            "toolgate_prompts_open",
            "Prompts that wait for somebody",
            self.prompts_open.clone(),
        );
        all.register(
            "toolgate_prompt_wait_seconds",
            "How long calls waited for a decision on a prompt",
            self.prompt_wait.clone(),
        );
        all.register("toolgate_streams", "Streams that are open", self.streams.clone());
        all.register(
            "toolgate_rpc_seconds",
            "RPCs from their request to their status",
            self.rpcs.clone(),
        );
        all.register("toolgate_limit_refusals", "What a limit refused", self.refusals.clone());
        all.register(
            "toolgate_output_bytes",
            "Bytes of output that calls stored",
            self.output.clone(),
        );
        all.register(
            "toolgate_store_write_seconds",
            "Transactions of the store",
            self.store_writes.clone(),
        );
        all.register(
            "toolgate_spool_free_bytes",
            "Free bytes on the disk where outputs are kept",
            self.free_bytes.clone(),
        );
        all.register("toolgate_draining", "1 while the service stops", self.draining.clone());
        all.register_collector(Box::new(Process));
    }

    /// Returns the one copy of a name; it is bounded, whoever chose it.
    fn name(&self, name: &str) -> Name {
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        if let Some(known) = self.names.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return known.clone();
        }
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names
            .get(name)
            .or_else(|| names.get(OTHER).filter(|_| names.len() > MOST_TOOLS))
        {
            return known.clone();
        }
        let name: Name = if names.len() < MOST_TOOLS { name } else { OTHER }.into();
        names.insert(name.clone());
        name
    }

    /// Counts a call that was admitted. Its tool is a registered one.
    pub fn call_started(&self, tool: &str, source: &'static str) {
        let tool = self.name(tool);
        self.started.get_or_create(&OfStart { tool, source }).inc();
    }

    /// Counts a call that ended, and what it spent its time with.
    pub fn call_finished(&self, tool: &str, outcome: &'static str, phases: Phases) {
        let tool = self.name(tool);
        let Phases { queued, waited, ran } = phases;
        for (phase, time) in [("queued", queued), ("waited", waited), ("ran", ran)] {
            let labels = OfPhase {
                tool: tool.clone(),
                phase,
            };
            self.durations.get_or_create(&labels).observe(time.as_secs_f64());
        }
        self.finished.get_or_create(&OfEnd { tool, outcome }).inc();
    }

    /// Times how long a call waited for a prompt.
    pub fn prompt_waited(&self, time: Duration) {
        self.prompt_wait.observe(time.as_secs_f64());
    }

    /// Counts what a limit refused; `limit` is its key in the configuration.
    pub fn refused(&self, limit: &'static str) {
        self.refusals.get_or_create(&OfLimit { limit }).inc();
    }

    /// Counts stored output.
    pub fn output_stored(&self, bytes: u64) {
        self.output.inc_by(bytes);
    }

    /// Times a transaction of the store.
    pub fn store_written(&self, time: Duration) {
        self.store_writes.observe(time.as_secs_f64());
    }

    /// Counts a stream that is open until the guard is dropped. `rpc` is a name of the contract.
    pub(super) fn stream(&self, rpc: &Arc<str>) -> Gauge {
        let rpc = rpc.clone();
        let open = self.streams.get_or_create(&OfRpc { rpc }).clone();
        open.inc();
        open
    }

    /// Times an RPC. `rpc` is a name of the contract.
    pub(super) fn rpc_ended(&self, rpc: &Arc<str>, code: &'static str, time: Duration) {
        let rpc = rpc.clone();
        self.rpcs
            .get_or_create(&OfAnswer { rpc, code })
            .observe(time.as_secs_f64());
    }

    /// Returns everything as OpenMetrics text.
    ///
    /// # Errors
    /// Never in practice: a text takes what is written to it.
    pub fn text(&self, now: &Snapshot) -> Result<String, fmt::Error> {
        self.running.set(now.running);
        self.queued.set(now.queued);
        self.prompts_open.set(now.prompts_open);
        if let Some(bytes) = now.free_bytes {
            self.free_bytes.set(bytes);
        }
        self.draining.set(u64::from(now.draining));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &Metrics) -> String {
        metrics.text(&Snapshot::default()).unwrap()
    }

    #[test]
    fn names_are_as_the_dashboard_has_them() {
        let metrics = Metrics::default();
        metrics.call_started("bash", "builtin");
        let phases = Phases {
            ran: Duration::from_secs(2),
            ..Phases::default()
        };
        metrics.call_finished("bash", "completed", phases);
        metrics.prompt_waited(Duration::from_secs(1));
        metrics.refused("limits.max_running_calls");
        metrics.output_stored(7);
        metrics.store_written(Duration::from_micros(70));
        let rpc: Arc<str> = "toolgate.v1.ToolService/ExecuteTool".into();
        metrics.stream(&rpc);
        metrics.rpc_ended(&rpc, "OK", Duration::from_millis(1));
        let text = metrics
            .text(&Snapshot {
                running: 3,
                queued: 4,
                prompts_open: 5,
                free_bytes: Some(6),
                draining: true,
            })
            .unwrap();
        for line in [
            "toolgate_calls_started_total{tool=\"bash\",source=\"builtin\"} 1",
            "toolgate_calls_finished_total{tool=\"bash\",outcome=\"completed\"} 1",
            "toolgate_call_duration_seconds_sum{tool=\"bash\",phase=\"ran\"} 2.0",
            "toolgate_call_duration_seconds_bucket{le=\"0.001\",tool=\"bash\",phase=\"queued\"} 1",
            "toolgate_call_duration_seconds_count{tool=\"bash\",phase=\"waited\"} 1",
            "toolgate_calls_running 3",
            "toolgate_calls_queued 4",
            "toolgate_prompts_open 5",
            "toolgate_prompt_wait_seconds_count 1",
            "toolgate_streams{rpc=\"toolgate.v1.ToolService/ExecuteTool\"} 1",
            "toolgate_rpc_seconds_count{rpc=\"toolgate.v1.ToolService/ExecuteTool\",code=\"OK\"} 1",
            "toolgate_limit_refusals_total{limit=\"limits.max_running_calls\"} 1",
            "toolgate_output_bytes_total 7",
            "toolgate_store_write_seconds_bucket{le=\"0.0001\"} 1",
            "toolgate_spool_free_bytes 6",
            "toolgate_draining 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
        }
        for name in ["process_resident_memory_bytes ", "process_cpu_seconds_total "] {
            assert!(
                text.lines().any(|line| line.starts_with(name)),
                "{name:?} is not in\n{text}"
            );
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn names_from_outside_are_bounded() {
        let metrics = Metrics::default();
        metrics.call_started(&"ü".repeat(100), "hosted");
        assert!(text(&metrics).contains(&format!("{{tool=\"{}\",", "ü".repeat(32))));
        for number in 0..2 * MOST_TOOLS {
            metrics.call_started(&format!("lent-{number}"), "hosted");
        }
        metrics.call_started("lent-0", "hosted");
        let text = text(&metrics);
        let series = text
            .lines()
            .filter(|line| line.starts_with("toolgate_calls_started_total"))
            .count();
        assert_eq!(series, MOST_TOOLS + 1);
        let other = 2 * MOST_TOOLS - (MOST_TOOLS - 1);
        assert!(
            text.contains(&format!("{{tool=\"other\",source=\"hosted\"}} {other}\n")),
            "{text}"
        );
        assert!(text.contains("{tool=\"lent-0\",source=\"hosted\"} 2\n"), "{text}");
    }

    #[test]
    fn a_name_cannot_break_the_text() {
        let metrics = Metrics::default();
        metrics.call_started("a\"} 1\nb\\", "mcp");
        assert!(text(&metrics).contains("{tool=\"a\\\"} 1\\nb\\\\\",source=\"mcp\"} 1\n"));
    }
}
