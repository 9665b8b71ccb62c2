//! What is counted and timed: its text for Prometheus, and what a collector is sent.
//!
//! *Invariant:* labels are bounded: a name from outside is cut, and after so many of them the next one is `other`.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider as _, UpDownCounter};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::TextEncoder;

use super::collector::{Collector, CollectorError, FLUSH_TIMEOUT, resource};
use super::process;

/// Tools that have labels of their own; front ends and servers lend as many as they like. With each way to end it stays
/// below the 2,000 series that the SDK keeps apart.
const MAX_TOOLS: usize = 128;

/// Bytes of the longest name in a label.
const MAX_NAME_BYTES: usize = 64;

/// What stands for every name beyond the bounds.
const OTHER: &str = "other";

/// From what answers at once to what runs for an hour.
const WORK_BUCKETS_SECONDS: [f64; 15] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0, 120.0, 600.0, 3600.0,
];

/// From a glance to the next working day.
const PEOPLE_BUCKETS_SECONDS: [f64; 11] = [0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0, 300.0, 1800.0, 14_400.0, 86_400.0];

/// A commit takes some 50 µs.
const COMMIT_BUCKETS_SECONDS: [f64; 11] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.0,
];

/// A name that is kept once, however often it is counted.
type Name = Arc<str>;

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
    /// Those among them that no connected approver is shown.
    pub prompts_unseen: u64,
    /// Free bytes where outputs are kept; none if that cannot be told.
    pub free_bytes: Option<u64>,
    /// Portions of what was to be told that cannot be read; none where nothing is told by a database.
    pub untold: Option<u64>,
    /// Workspaces whose configuration as it is now is not in force; none where there are no workspaces.
    pub configuration_problems: Option<u64>,
    /// Whether new calls are refused.
    pub draining: bool,
}

/// A worker of a gateway, as it is when somebody asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerFacts {
    /// Its name.
    pub name: String,
    /// Whether it answered the last time.
    pub is_there: bool,
    /// Streams that are open at it.
    pub streams: u64,
}

/// What a gateway with a database knows of its fleet, when somebody asks.
pub struct FleetFacts {
    /// Workers that wait for a workspace.
    pub unbound: u64,
    /// How long the oldest waits that audit and journal do not have yet.
    pub lag: Duration,
    /// Workspaces that were taken from workers that were not heard of.
    pub expired: u64,
    /// Calls that ended as lost because their worker was dead.
    pub lost: u64,
}

/// The metrics of one service.
pub struct Metrics {
    meter: Meter,
    provider: SdkMeterProvider,
    registry: prometheus::Registry,
    are_sent: bool,
    names: RwLock<HashSet<Name>>,
    now: Arc<Mutex<Snapshot>>,
    instruments: Instruments,
}

/// What is counted and timed as it happens.
struct Instruments {
    started: Counter<u64>,
    finished: Counter<u64>,
    durations: Histogram<f64>,
    prompt_wait: Histogram<f64>,
    streams: UpDownCounter<i64>,
    rpcs: Histogram<f64>,
    refusals: Counter<u64>,
    output: Counter<u64>,
    store_writes: Histogram<f64>,
    gateway_requests: Counter<u64>,
    gateway_routing: Histogram<f64>,
    gateway_lookups: Counter<u64>,
    gateway_reattachments: Counter<u64>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(None).expect("nothing is connected to")
    }
}

impl Metrics {
    /// Makes the metrics of a service, which are sent to a collector now and then if there is one. To be called within a
    /// runtime in that case.
    ///
    /// # Errors
    /// The endpoint is no address.
    pub fn new(collector: Option<&Collector>) -> Result<Self, CollectorError> {
        let registry = prometheus::Registry::new();
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .without_target_info()
            .build()
            .expect("the registry is new");
        let mut provider = SdkMeterProvider::builder().with_reader(reader);
        if let Some(collector) = collector {
            provider = provider
                .with_periodic_exporter(collector.metrics()?)
                .with_resource(resource(&collector.attributes));
        }
        let provider = provider.build();
        let scope = InstrumentationScope::builder("toolgate").with_version(env!("CARGO_PKG_VERSION"));
        let meter = provider.meter_with_scope(scope.build());
        let now = Arc::new(Mutex::new(Snapshot::default()));
        observe_snapshot(&meter, &now);
        process::observe(&meter);
        Ok(Self {
            are_sent: collector.is_some(),
            provider,
            registry,
            names: RwLock::default(),
            now,
            instruments: Instruments::new(&meter),
            meter,
        })
    }

    /// Returns the one copy of a name; it is bounded, whoever chose it.
    fn name(&self, name: &str) -> Name {
        let name = &name[..name.floor_char_boundary(MAX_NAME_BYTES)];
        if let Some(known) = self.names.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return known.clone();
        }
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names
            .get(name)
            .or_else(|| names.get(OTHER).filter(|_| names.len() > MAX_TOOLS))
        {
            return known.clone();
        }
        let name: Name = if names.len() < MAX_TOOLS { name } else { OTHER }.into();
        names.insert(name.clone());
        name
    }

    /// Counts a call that was admitted. Its tool is a registered one.
    pub fn call_started(&self, tool: &str, source: &'static str) {
        let labels = [KeyValue::new("tool", self.name(tool)), KeyValue::new("source", source)];
        self.instruments.started.add(1, &labels);
    }

    /// Counts a call that ended, and what it spent its time with.
    pub fn call_finished(&self, tool: &str, outcome: &'static str, phases: Phases) {
        let tool = KeyValue::new("tool", self.name(tool));
        let Phases { queued, waited, ran } = phases;
        for (phase, time) in [("queued", queued), ("waited", waited), ("ran", ran)] {
            let labels = [tool.clone(), KeyValue::new("phase", phase)];
            self.instruments.durations.record(time.as_secs_f64(), &labels);
        }
        self.instruments
            .finished
            .add(1, &[tool, KeyValue::new("outcome", outcome)]);
    }

    /// Times how long a call waited for a prompt.
    pub fn prompt_waited(&self, time: Duration) {
        self.instruments.prompt_wait.record(time.as_secs_f64(), &[]);
    }

    /// Counts what a limit refused; `limit` is its key in the configuration.
    pub fn refused(&self, limit: &'static str) {
        self.instruments.refusals.add(1, &[KeyValue::new("limit", limit)]);
    }

    /// Counts stored output.
    pub fn output_stored(&self, bytes: u64) {
        self.instruments.output.add(bytes, &[]);
    }

    /// Times a transaction of the store.
    pub fn store_written(&self, time: Duration) {
        self.instruments.store_writes.record(time.as_secs_f64(), &[]);
    }

    /// Counts a request that a gateway passed to a worker, or could not pass; `rpc` is a name of the contract, or of a door beside it.
    /// `routing` is the time from its arrival until a worker was asked.
    pub fn gateway_passed(&self, rpc: &str, outcome: &'static str, routing: Duration) {
        let labels = [KeyValue::new("rpc", self.name(rpc)), KeyValue::new("outcome", outcome)];
        self.instruments.gateway_requests.add(1, &labels);
        self.instruments.gateway_routing.record(routing.as_secs_f64(), &[]);
    }

    /// Counts an id whose worker a gateway had to know.
    pub fn gateway_looked_up(&self, outcome: &'static str) {
        self.instruments
            .gateway_lookups
            .add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// Counts a stream of a call that a gateway took up again, or could not.
    pub fn gateway_reattached(&self, outcome: &'static str) {
        self.instruments
            .gateway_reattachments
            .add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// Has the workers of a gateway looked at whenever somebody asks for the metrics.
    pub fn watch_workers(&self, look: impl Fn() -> Vec<WorkerFacts> + Send + Sync + 'static) {
        let look = Arc::new(look);
        let gauge = |name, what, value: fn(&WorkerFacts) -> u64| {
            let look = look.clone();
            let gauge = self.meter.u64_observable_gauge(name).with_description(what);
            gauge
                .with_callback(move |observer| {
                    for worker in look() {
                        observer.observe(value(&worker), &[KeyValue::new("worker", worker.name.clone())]);
                    }
                })
                .build();
        };
        gauge("toolgate.gateway.worker.up", "1 while a worker answers", |worker| {
            u64::from(worker.is_there)
        });
        gauge(
            "toolgate.gateway.worker.streams",
            "Requests and streams that are open at a worker",
            |worker| worker.streams,
        );
    }

    /// Has the fleet of a gateway looked at whenever somebody asks for the metrics.
    pub fn watch_fleet(&self, look: impl Fn() -> FleetFacts + Send + Sync + 'static) {
        let look = Arc::new(look);
        let now = look.clone();
        self.meter
            .u64_observable_gauge("toolgate.gateway.workers.unbound")
            .with_description("Workers that wait for a workspace")
            .with_callback(move |observer| observer.observe(now().unbound, &[]))
            .build();
        let now = look.clone();
        self.meter
            .f64_observable_gauge("toolgate.gateway.sequencer.lag")
            .with_unit("s")
            .with_description("How long the oldest waits that audit and journal do not have yet")
            .with_callback(move |observer| observer.observe(now().lag.as_secs_f64(), &[]))
            .build();
        let now = look.clone();
        self.meter
            .u64_observable_counter("toolgate.gateway.leases.expired")
            .with_description("Workspaces that were taken from workers that were not heard of")
            .with_callback(move |observer| observer.observe(now().expired, &[]))
            .build();
        self.meter
            .u64_observable_counter("toolgate.gateway.calls.lost")
            .with_description("Calls that ended as lost because their worker was dead")
            .with_callback(move |observer| observer.observe(look().lost, &[]))
            .build();
    }

    /// Has the workspaces that were created at a gateway's database counted, by their stages.
    pub fn watch_created(&self, look: impl Fn() -> Vec<(&'static str, u64)> + Send + Sync + 'static) {
        let gauge = self.meter.u64_observable_gauge("toolgate.gateway.workspaces.created");
        gauge
            .with_description("Workspaces that clients have created, by how far they are")
            .with_callback(move |observer| {
                for (stage, count) in look() {
                    observer.observe(count, &[KeyValue::new("state", stage)]);
                }
            })
            .build();
    }

    /// Has the store of a gateway looked at whenever somebody asks for the metrics.
    pub fn watch_store(&self, is_there: impl Fn() -> bool + Send + Sync + 'static) {
        let gauge = self.meter.u64_observable_gauge("toolgate.gateway.store.up");
        gauge
            .with_description("1 while the database of a gateway answers")
            .with_callback(move |observer| observer.observe(u64::from(is_there()), &[]))
            .build();
    }

    /// Counts streams that are opened, or closed. `rpc` is a name of the contract.
    pub(super) fn stream(&self, rpc: &Name, change: i64) {
        self.instruments
            .streams
            .add(change, &[KeyValue::new("rpc", rpc.clone())]);
    }

    /// Times an RPC. `rpc` is a name of the contract.
    pub(super) fn rpc_ended(&self, rpc: &Name, code: &'static str, time: Duration) {
        let labels = [KeyValue::new("rpc", rpc.clone()), KeyValue::new("code", code)];
        self.instruments.rpcs.record(time.as_secs_f64(), &labels);
    }

    /// Says whether a collector is sent them.
    pub fn are_sent(&self) -> bool {
        self.are_sent
    }

    /// Notes what the service looks like now: what is told of it until the next time.
    pub fn observe(&self, now: Snapshot) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Returns everything as text for Prometheus.
    ///
    /// # Errors
    /// Never in practice: a text takes what is written to it.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// Sends the last numbers, for a short time, and stops sending.
    pub(super) async fn close(&self) {
        if !self.are_sent {
            return;
        }
        let provider = self.provider.clone();
        let closing = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIMEOUT));
        let closed = tokio::time::timeout(FLUSH_TIMEOUT * 2, closing).await;
        if !matches!(closed, Ok(Ok(Ok(())))) {
            tracing::warn!("the last metrics may not have been sent");
        }
    }
}

impl Instruments {
    /// Names everything. Units become suffixes for Prometheus, and counters end with `_total` there.
    fn new(meter: &Meter) -> Self {
        let count = |name, what| meter.u64_counter(name).with_description(what);
        let time = |name, what, buckets: &[f64]| {
            let histogram = meter.f64_histogram(name).with_description(what).with_unit("s");
            histogram.with_boundaries(buckets.to_vec()).build()
        };
        Self {
            started: count("toolgate.calls.started", "Calls that were admitted").build(),
            finished: count("toolgate.calls.finished", "Calls that ended, by how").build(),
            durations: time(
                "toolgate.call.duration",
                "What calls spent queued, waiting for people, and running",
                &WORK_BUCKETS_SECONDS,
            ),
            prompt_wait: time(
                "toolgate.prompt.wait",
                "How long calls waited for a decision on a prompt",
                &PEOPLE_BUCKETS_SECONDS,
            ),
            streams: meter
                .i64_up_down_counter("toolgate.streams")
                .with_description("Streams that are open")
                .build(),
            rpcs: time(
                "toolgate.rpc",
                "RPCs from their request to their status",
                &WORK_BUCKETS_SECONDS,
            ),
            refusals: count("toolgate.limit.refusals", "What a limit refused").build(),
            output: count("toolgate.output", "Bytes of output that calls stored")
                .with_unit("By")
                .build(),
            store_writes: time(
                "toolgate.store.write",
                "Transactions of the store",
                &COMMIT_BUCKETS_SECONDS,
            ),
            gateway_requests: count(
                "toolgate.gateway.requests",
                "Requests that a gateway passed to workers, by what came of it",
            )
            .build(),
            gateway_routing: time(
                "toolgate.gateway.routing",
                "From the arrival of a request at a gateway until a worker is asked",
                &COMMIT_BUCKETS_SECONDS,
            ),
            gateway_lookups: count("toolgate.gateway.lookups", "Ids whose worker a gateway had to know").build(),
            gateway_reattachments: count(
                "toolgate.gateway.reattachments",
                "Streams of calls that a gateway took up again",
            )
            .build(),
        }
    }
}

/// Has a meter tell what was looked at last.
fn observe_snapshot(meter: &Meter, now: &Arc<Mutex<Snapshot>>) {
    let gauge = |name, what, unit, value: fn(Snapshot) -> Option<u64>| {
        let now = Arc::clone(now);
        let gauge = meter.u64_observable_gauge(name).with_description(what).with_unit(unit);
        gauge
            .with_callback(move |observer| {
                let now = *now.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(value) = value(now) {
                    observer.observe(value, &[]);
                }
            })
            .build();
    };
    gauge(
        "toolgate.calls.running",
        "Calls that have started and not ended",
        "",
        |now| Some(now.running),
    );
    gauge("toolgate.calls.queued", "Calls that have not started", "", |now| {
        Some(now.queued)
    });
    gauge("toolgate.prompts.open", "Prompts that wait for somebody", "", |now| {
        Some(now.prompts_open)
    });
    gauge(
        "toolgate.prompts.unseen",
        "Open prompts that no connected approver is shown",
        "",
        |now| Some(now.prompts_unseen),
    );
    gauge(
        "toolgate.spool.free",
        "Free bytes on the disk where outputs are kept",
        "By",
        |now| now.free_bytes,
    );
    gauge(
        "toolgate.untold",
        "Portions of audit and journal that were set aside because they cannot be read",
        "",
        |now| now.untold,
    );
    gauge(
        "toolgate.configuration.problems",
        "Workspaces whose configuration as it is now is not in force",
        "",
        |now| now.configuration_problems,
    );
    gauge("toolgate.draining", "1 while the service stops", "", |now| {
        Some(u64::from(now.draining))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &Metrics) -> String {
        metrics.text().unwrap()
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
        metrics.stream(&rpc, 3);
        metrics.stream(&rpc, -2);
        metrics.rpc_ended(&rpc, "OK", Duration::from_millis(1));
        metrics.observe(Snapshot {
            running: 3,
            queued: 4,
            prompts_open: 5,
            prompts_unseen: 2,
            free_bytes: Some(6),
            untold: Some(8),
            configuration_problems: Some(9),
            draining: true,
        });
        let text = text(&metrics);
        for line in [
            "toolgate_calls_started_total{source=\"builtin\",tool=\"bash\"} 1",
            "toolgate_calls_finished_total{outcome=\"completed\",tool=\"bash\"} 1",
            "toolgate_call_duration_seconds_sum{phase=\"ran\",tool=\"bash\"} 2",
            "toolgate_call_duration_seconds_bucket{phase=\"queued\",tool=\"bash\",le=\"0.001\"} 1",
            "toolgate_call_duration_seconds_count{phase=\"waited\",tool=\"bash\"} 1",
            "toolgate_calls_running 3",
            "toolgate_calls_queued 4",
            "toolgate_prompts_open 5",
            "toolgate_prompts_unseen 2",
            "toolgate_prompt_wait_seconds_count 1",
            "toolgate_streams{rpc=\"toolgate.v1.ToolService/ExecuteTool\"} 1",
            "toolgate_rpc_seconds_count{code=\"OK\",rpc=\"toolgate.v1.ToolService/ExecuteTool\"} 1",
            "toolgate_limit_refusals_total{limit=\"limits.max_running_calls\"} 1",
            "toolgate_output_bytes_total 7",
            "toolgate_store_write_seconds_bucket{le=\"0.0001\"} 1",
            "toolgate_spool_free_bytes 6",
            "toolgate_untold 8",
            "toolgate_configuration_problems 9",
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
    }

    #[test]
    fn names_from_outside_are_bounded() {
        let metrics = Metrics::default();
        metrics.call_started(&"ü".repeat(100), "hosted");
        assert!(text(&metrics).contains(&format!(",tool=\"{}\"}}", "ü".repeat(32))));
        for number in 0..2 * MAX_TOOLS {
            metrics.call_started(&format!("lent-{number}"), "hosted");
        }
        metrics.call_started("lent-0", "hosted");
        let text = text(&metrics);
        let series = text
            .lines()
            .filter(|line| line.starts_with("toolgate_calls_started_total"))
            .count();
        assert_eq!(series, MAX_TOOLS + 1);
        let other = 2 * MAX_TOOLS - (MAX_TOOLS - 1);
        assert!(
            text.contains(&format!("{{source=\"hosted\",tool=\"other\"}} {other}\n")),
            "{text}"
        );
        assert!(text.contains("{source=\"hosted\",tool=\"lent-0\"} 2\n"), "{text}");
    }

    #[test]
    fn a_name_cannot_break_the_text() {
        let metrics = Metrics::default();
        metrics.call_started("a\"} 1\nb\\", "mcp");
        assert!(text(&metrics).contains("{source=\"mcp\",tool=\"a\\\"} 1\\nb\\\\\"} 1\n"));
    }
}
