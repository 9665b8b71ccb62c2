//! What operators see: metrics and probes over HTTP, traces in a collector, logs.
//!
//! *Invariant:* everything is asked for from outside, as an operator does; the collector is a real one of OTLP, in the test.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, ServerTlsConfig};
use tonic::{Request, Response, Status};
use toolgate_contract::*;
use toolgate_telemetry::{Admin, Metrics, Snapshot, Watched};

use crate::support::*;

const SECRET: &str = "hunter2-of-the-test";

fn setup() -> Setup {
    Setup::permission(json!({ "bash": { "*": "allow", ": ask*": "ask" } }))
        .env("TOOLGATE_TELEMETRY_ADMIN", "127.0.0.1:0")
}

/// Asks for a path and returns status and text; none if nobody listens.
pub(crate) async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, text) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, text.to_owned()))
    };
    timeout(Duration::from_secs(20), asking)
        .await
        .expect("an answer in time")
}

async fn metrics(server: &Server) -> String {
    let (status, text) = get(server.admin.as_deref().unwrap(), "/metrics").await.unwrap();
    assert_eq!(status, 200, "{text}");
    text
}

/// The value of a series, 0 without it. The order of labels does not matter.
pub(crate) fn value(text: &str, series: &str) -> f64 {
    let labels = |series: &str| {
        let (name, labels) = series.trim_end_matches('}').split_once('{').unwrap_or((series, ""));
        let mut labels: Vec<_> = labels.split(',').map(str::to_owned).collect();
        labels.sort();
        (name.to_owned(), labels)
    };
    let wanted = labels(series);
    let found = text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        (labels(name) == wanted).then(|| value.parse().unwrap())
    });
    found.unwrap_or(0.0)
}

/// The names of all series with those of their labels, as the service has them.
pub(crate) fn series(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut series: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = name.trim_end_matches('}').split_once('{').unwrap_or((name, ""));
        let labels = labels.split("\",").filter_map(|label| label.split_once('='));
        let labels = labels.map(|(label, _)| label.to_owned());
        series.entry(name.to_owned()).or_default().extend(labels);
    }
    series
}

/// The same as the list has them that the dashboard, the alerts and the page about metrics are held against.
pub(crate) fn listed(list: &str) -> BTreeMap<String, BTreeSet<String>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chart");
    let list = std::fs::read_to_string(format!("{folder}/{list}")).unwrap();
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let words = lines.map(|line| line.split_whitespace().map(str::to_owned));
    words
        .map(|mut words| (words.next().unwrap(), words.collect()))
        .collect()
}

fn check(text: &str, expected: &[(&str, f64)]) {
    for (series, number) in expected {
        assert_eq!(value(text, series), *number, "{series} in\n{text}");
    }
}

#[test]
fn metrics_follow_calls_of_every_kind() {
    test(async {
        let server = Server::with(setup().env("TOOLGATE_LIMITS_MAX_INPUT_BYTES", "4KiB")).await;
        server
            .run("bash", json!({"command": "echo 12345", "description": "a test"}))
            .await;
        server.run("read", json!({"filePath": "missing-file"})).await;
        server.run("bash", json!({"command": 7})).await;
        server.run("tool-of-nobody", json!({})).await;
        let too_large = run_request(bash(&"x".repeat(5000)));
        assert!(server.tools().run_tool(too_large).await.is_err());
        let unknown = GetCallRequest {
            call_id: "nobody".to_owned(),
        };
        assert!(server.tools().get_call(unknown).await.is_err());

        let mut stream = server
            .tools()
            .execute_tool(bash(": ask; true"))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut stream).await;
        let during = metrics(&server).await;
        check(
            &during,
            &[
                ("toolgate_calls_running", 1.0),
                ("toolgate_calls_queued", 0.0),
                ("toolgate_prompts_open", 1.0),
                ("toolgate_prompts_unseen", 1.0),
                ("toolgate_streams{rpc=\"toolgate.v1.ToolService/ExecuteTool\"}", 1.0),
                ("toolgate_draining", 0.0),
            ],
        );
        let approver = Approver::open(server.connect().await, "metrics").await.unwrap();
        assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        collect(stream).await.unwrap();
        eventually("the stream is over", async || {
            value(
                &metrics(&server).await,
                "toolgate_streams{rpc=\"toolgate.v1.ToolService/ExecuteTool\"}",
            ) == 0.0
        })
        .await;

        let text = metrics(&server).await;
        assert_eq!(
            series(&text),
            listed("metrics.txt"),
            "what the service has, and the list"
        );
        check(
            &text,
            &[
                ("toolgate_calls_started_total{tool=\"bash\",source=\"builtin\"}", 3.0),
                (
                    "toolgate_calls_finished_total{tool=\"bash\",outcome=\"completed\"}",
                    2.0,
                ),
                (
                    "toolgate_calls_finished_total{tool=\"bash\",outcome=\"invalid_arguments\"}",
                    1.0,
                ),
                (
                    "toolgate_calls_finished_total{tool=\"read\",outcome=\"tool_error\"}",
                    1.0,
                ),
                ("toolgate_calls_started_total{tool=\"invalid\",source=\"builtin\"}", 1.0),
                (
                    "toolgate_call_duration_seconds_count{tool=\"bash\",phase=\"queued\"}",
                    3.0,
                ),
                (
                    "toolgate_call_duration_seconds_count{tool=\"bash\",phase=\"waited\"}",
                    3.0,
                ),
                ("toolgate_call_duration_seconds_count{tool=\"bash\",phase=\"ran\"}", 3.0),
                ("toolgate_calls_running", 0.0),
                ("toolgate_prompts_open", 0.0),
                ("toolgate_prompts_unseen", 0.0),
                ("toolgate_prompt_wait_seconds_count", 1.0),
                (
                    "toolgate_rpc_seconds_count{rpc=\"toolgate.v1.ToolService/ExecuteTool\",code=\"OK\"}",
                    1.0,
                ),
                (
                    "toolgate_rpc_seconds_count{rpc=\"toolgate.v1.ToolService/RunTool\",code=\"OK\"}",
                    4.0,
                ),
                (
                    "toolgate_rpc_seconds_count{rpc=\"toolgate.v1.ToolService/RunTool\",code=\"RESOURCE_EXHAUSTED\"}",
                    1.0,
                ),
                (
                    "toolgate_rpc_seconds_count{rpc=\"toolgate.v1.ToolService/GetCall\",code=\"NOT_FOUND\"}",
                    1.0,
                ),
                ("toolgate_limit_refusals_total{limit=\"limits.max_input_bytes\"}", 1.0),
                ("toolgate_output_bytes_total", 6.0),
            ],
        );
        for series in [
            "toolgate_store_write_seconds_count",
            "toolgate_spool_free_bytes",
            "process_resident_memory_bytes",
            "process_cpu_seconds_total",
        ] {
            assert!(value(&text, series) > 0.0, "{series} in\n{text}");
        }
        assert!(
            !text.contains("tool-of-nobody"),
            "what a caller names is no label:\n{text}"
        );
        assert_eq!(get(server.admin.as_deref().unwrap(), "/").await.unwrap().0, 404);
    });
}

#[test]
fn readiness_ends_with_the_drain() {
    test(async {
        let mut server = Server::with(setup().env("TOOLGATE_DRAIN_GRACE", "60s")).await;
        let admin = server.admin.clone().unwrap();
        let answers = async |path: &str| get(&admin, path).await;
        assert_eq!(answers("/healthz").await, Some((200, "alive\n".to_owned())));
        assert_eq!(answers("/readyz").await, Some((200, "ready\n".to_owned())));
        let request = bash("mkfifo go; echo ready; cat go");
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        next_such(&mut stream, is_output).await;
        server.signal(Signal::TERM);
        eventually("it drains", async || {
            answers("/readyz").await == Some((503, "draining\n".to_owned()))
        })
        .await;
        assert_eq!(answers("/healthz").await.unwrap().0, 200);
        check(
            &metrics(&server).await,
            &[("toolgate_draining", 1.0), ("toolgate_calls_running", 1.0)],
        );
        let go = server.work().join("go");
        tokio::task::spawn_blocking(move || std::fs::write(go, "done\n"))
            .await
            .unwrap()
            .unwrap();
        collect(stream).await.unwrap();
        assert_eq!(server.ended().await.code(), Some(0));
        assert_eq!(answers("/healthz").await, None);
        server.assert_calm();
    });
}

#[test]
fn a_full_disk_is_not_ready() {
    test(async {
        let server = Server::with(setup().env("TOOLGATE_LIMITS_MIN_FREE_BYTES", "1000000TiB")).await;
        let (status, text) = get(server.admin.as_deref().unwrap(), "/readyz").await.unwrap();
        assert_eq!(status, 503);
        assert!(
            text.starts_with("full: ") && text.contains("limits.min_free_bytes"),
            "{text}"
        );
    });
}

struct Ready;

#[tonic::async_trait]
impl Watched for Ready {
    async fn snapshot(&self) -> Snapshot {
        std::future::pending().await
    }

    async fn ready(&self) -> Result<(), String> {
        std::future::pending().await
    }
}

#[test]
fn who_starts_or_hangs_is_not_ready() {
    test(async {
        let admin = Admin::open("127.0.0.1:0".parse().unwrap(), Arc::new(Metrics::default()))
            .await
            .unwrap();
        let address = admin.address().to_string();
        assert_eq!(get(&address, "/readyz").await, Some((503, "starting\n".to_owned())));
        assert_eq!(get(&address, "/healthz").await.unwrap().0, 200);
        assert_eq!(get(&address, "/metrics").await.unwrap().0, 200);
        admin.watch(Arc::new(Ready));
        assert_eq!(get(&address, "/readyz").await.unwrap().0, 503);
        assert_eq!(get(&address, "/metrics").await.unwrap().0, 200);
        admin.close().await;
        assert_eq!(get(&address, "/healthz").await, None);
    });
}

/// A collector that keeps what it gets.
#[derive(Clone, Default)]
pub(crate) struct Collector {
    traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.traces.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.metrics.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Collector {
    /// Starts one; it ends with the test's runtime.
    pub(crate) fn start() -> (Self, String) {
        let (collector, address) = Self::serve(tonic::transport::Server::builder());
        (collector, format!("http://{address}"))
    }

    fn serve(mut server: tonic::transport::Server) -> (Self, SocketAddr) {
        let collector = Self::default();
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = incoming.local_addr().unwrap();
        let serving = server
            .add_service(TraceServiceServer::new(collector.clone()))
            .add_service(MetricsServiceServer::new(collector.clone()))
            .serve_with_incoming(incoming);
        tokio::spawn(serving);
        (collector, address)
    }

    /// The sum of a counter over its series, or the last of a gauge, as it was sent last.
    fn number(&self, name: &str) -> Option<i64> {
        let requests = self.metrics.lock().unwrap();
        let resources = &requests.last()?.resource_metrics;
        let mut metrics = resources
            .iter()
            .flat_map(|resource| &resource.scope_metrics)
            .flat_map(|scope| &scope.metrics);
        let points = match metrics.find(|metric| metric.name == name)?.data.as_ref()? {
            metric::Data::Sum(sum) => &sum.data_points,
            metric::Data::Gauge(gauge) => &gauge.data_points,
            other => panic!("{other:?}"),
        };
        let values = points.iter().map(|point| match point.value {
            Some(number_data_point::Value::AsInt(number)) => number,
            other => panic!("{other:?}"),
        });
        Some(values.sum())
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.traces.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// Waits for the span of this name whose parent is this, and returns it.
    pub(crate) async fn span(&self, name: &str, parent: &[u8]) -> Span {
        let find = || {
            self.spans()
                .into_iter()
                .find(|span| span.name == name && span.parent_span_id == parent)
        };
        eventually(&format!("a span {name} below {parent:?}"), async || find().is_some()).await;
        find().unwrap()
    }
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{other:?}"),
    }
}

fn traced(endpoint: &str) -> Setup {
    setup()
        .env("TOOLGATE_TELEMETRY_OTLP_ENDPOINT", endpoint)
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
}

#[test]
fn a_collector_gets_the_metrics() {
    test(async {
        let (collector, endpoint) = Collector::start();
        let setup = traced(&endpoint)
            .env("OTEL_METRIC_EXPORT_INTERVAL", "50")
            .env("OTEL_SERVICE_NAME", "gate-of-the-test");
        let mut server = Server::with(setup).await;
        let mut stream = server
            .tools()
            .execute_tool(bash(&format!(": ask; echo {SECRET}")))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut stream).await;
        eventually("the prompt is among the metrics", async || {
            collector.number("toolgate.prompts.open") == Some(1)
                && collector.number("toolgate.calls.running") == Some(1)
        })
        .await;
        let approver = Approver::open(server.connect().await, "metrics").await.unwrap();
        assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        collect(stream).await.unwrap();
        server.stop().await;
        // What the end of the service has sent: nothing is left for the next interval.
        assert_eq!(collector.number("toolgate.calls.finished"), Some(1));
        assert_eq!(collector.number("toolgate.streams"), Some(0));
        let all = format!("{:?}", collector.metrics.lock().unwrap());
        assert!(all.contains("gate-of-the-test") && !all.contains(SECRET), "{all}");
    });
}

#[test]
fn a_collector_may_be_behind_tls() {
    test(async {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let identity = Identity::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
        let tls = ServerTlsConfig::new().identity(identity);
        let (collector, address) = Collector::serve(tonic::transport::Server::builder().tls_config(tls).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let authorities = folder.path().join("authorities.pem");
        std::fs::write(&authorities, made.cert.pem()).unwrap();
        let endpoint = format!("https://localhost:{}", address.port());
        let trusting = traced(&endpoint).env("SSL_CERT_FILE", authorities.to_str().unwrap());
        let mut server = Server::with(trusting).await;
        server.run("read", json!({"filePath": "missing-file"})).await;
        server.stop().await;
        assert!(collector.spans().iter().any(|span| span.name == "execute_tool read"));
        assert_eq!(collector.number("toolgate.calls.finished"), Some(1));

        let before = collector.spans().len();
        let mut server = Server::with(traced(&endpoint)).await;
        server.run("read", json!({"filePath": "missing-file"})).await;
        eventually("the log says that nothing is sent", async || {
            server.log().contains("traces cannot be sent")
        })
        .await;
        server.stop().await;
        assert_eq!(collector.spans().len(), before, "whom nobody trusts is told nothing");
    });
}

#[test]
fn one_trace_tells_of_one_call() {
    test(async {
        let (collector, endpoint) = Collector::start();
        let setup = traced(&endpoint)
            .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
            .env("TEST_SECRET", SECRET)
            .env("TOOLGATE_REDACT_VALUES_FROM_ENV", "TEST_SECRET")
            .env("TOOLGATE_LOG_FORMAT", "json")
            .env("TOOLGATE_LOG", "toolgate=debug");
        let mut server = Server::with(setup).await;
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let command = format!(": ask {SECRET}; echo marker-of-the-output $TEST_SECRET");
        let mut request = Request::new(in_session("s-1", kept("call-1", bash(&command))));
        let parent = format!("00-{trace}-b7ad6b7169203331-01");
        request.metadata_mut().insert("traceparent", parent.parse().unwrap());
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        let approver = Approver::open(server.connect().await, "traces").await.unwrap();
        assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        collect(stream).await.unwrap();

        let remote = [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31];
        let rpc = collector.span("toolgate.v1.ToolService/ExecuteTool", &remote).await;
        let call = collector.span("execute_tool bash", &rpc.span_id).await;
        for part in ["queue", "wait", "run", "truncate"] {
            let part = collector.span(part, &call.span_id).await;
            assert_eq!(part.trace_id, rpc.trace_id);
            assert!(part.start_time_unix_nano <= part.end_time_unix_nano);
        }
        let id: String = rpc.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(id, trace);
        for (key, expected) in [
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "bash"),
            ("gen_ai.tool.type", "function"),
            ("gen_ai.tool.call.id", "call-1"),
            ("gen_ai.conversation.id", "s-1"),
        ] {
            assert_eq!(attribute(&call, key).as_deref(), Some(expected), "{key}");
        }
        assert_eq!(attribute(&rpc, "rpc.grpc.status_code").as_deref(), Some("0"));
        assert_eq!(attribute(&call, "error.type"), None);

        let call = server.run("bash", json!({"command": 7})).await;
        assert!(matches!(call.ending, Some(call::Ending::Failed(_))));
        let failing = server.run("read", json!({"filePath": "missing-file"})).await;
        eventually("a failure is an error", async || {
            let spans = collector.spans();
            let failed = spans
                .iter()
                .find(|span| attribute(span, "gen_ai.tool.call.id") == Some(failing.call_id.clone()));
            failed.is_some_and(|span| {
                assert_eq!(attribute(span, "error.type").as_deref(), Some("tool_error"));
                span.status.as_ref().is_some_and(|status| status.code == 2)
            })
        })
        .await;

        server.stop().await;
        let all = format!("{:?}", collector.traces.lock().unwrap());
        assert!(
            all.contains("\"deployment.environment\"") && all.contains("\"toolgate\""),
            "{all}"
        );
        for hidden in [SECRET, "marker-of-the-output", "missing-file"] {
            assert!(!all.contains(hidden), "{hidden} is in {all}");
        }
        let log = server.log();
        assert!(!log.contains(SECRET), "{log}");
        let lines: Vec<Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect();
        assert!(log.contains("listening on unix:"), "{log}");
        let of_call =
            |line: &&Value| line["fields"]["message"] == "the call has ended" && line["span"]["id"] == "call-1";
        let ended = lines.iter().find(of_call).unwrap_or_else(|| panic!("{log}"));
        assert_eq!(
            (&ended["span"]["trace"], &ended["fields"]["outcome"]),
            (&json!(trace), &json!("completed"))
        );
    });
}

#[test]
fn calls_of_a_call_are_below_it() {
    test(async {
        let (collector, endpoint) = Collector::start();
        let mut setup = traced(&endpoint);
        setup.config = Some(json!({ "experimental": { "batch_tool": true } }));
        let server = Server::with(setup).await;
        let step = json!({"tool": "bash", "parameters": {"command": "true", "description": "a test"}});
        server.run("batch", json!({"tool_calls": [step]})).await;
        let rpc = collector.span("toolgate.v1.ToolService/RunTool", b"").await;
        let batch = collector.span("execute_tool batch", &rpc.span_id).await;
        collector.span("execute_tool bash", &batch.span_id).await;
    });
}

#[test]
fn a_dead_collector_changes_nothing() {
    test(async {
        // The port is free again, so nobody listens there.
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut server = Server::with(traced(&format!("http://{free}"))).await;
        for _ in 0..20 {
            completed(
                &server
                    .run("bash", json!({"command": "echo x", "description": "a test"}))
                    .await,
            );
        }
        eventually("it is told", async || server.log().contains("traces cannot be sent")).await;
        let from = Instant::now();
        server.stop().await;
        assert!(from.elapsed() < Duration::from_secs(20), "{:?}", from.elapsed());
        assert_eq!(
            server.log().matches("traces cannot be sent").count(),
            1,
            "{}",
            server.log()
        );
    });
}
