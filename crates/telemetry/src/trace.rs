//! Traces, named by OpenTelemetry's conventions for RPCs and for generative AI, and their way to a collector.
//!
//! Spans are made here and handed on in contexts, not through `tracing`: the span of a call would otherwise keep the
//! span of the RPC that started it open, and a call may outlive that by hours. Nor is anything global.
//!
//! *Invariant:* an attribute is an id, a name or a word of ours, and cut; never an input, an output or a text. Spans wait in
//! a bounded queue that drops what is too much; a thread of its own sends them, and nobody waits for it but the end of the
//! service, and that not for long.

use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use futures_util::future::Either;
use opentelemetry::context::FutureExt as _;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use super::collector::{Collector, CollectorError, FLUSH_TIMEOUT, resource};

/// Bytes of the longest name in an attribute.
const MAX_NAME_BYTES: usize = 256;

/// The traces of one service.
#[derive(Clone)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Traces {
    /// Sends traces to a collector. To be called within a runtime.
    ///
    /// # Errors
    /// The endpoint is no address.
    pub fn to(collector: &Collector) -> Result<Self, CollectorError> {
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(collector.traces()?)
            .with_resource(resource(&collector.attributes))
            .build();
        let scope = InstrumentationScope::builder("toolgate").with_version(env!("CARGO_PKG_VERSION"));
        let tracer = provider.tracer_with_scope(scope.build());
        Ok(Self { provider, tracer })
    }

    /// Sends what is left, for a short time, and stops.
    pub(super) async fn close(self) {
        let closing = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(FLUSH_TIMEOUT));
        let closed = tokio::time::timeout(FLUSH_TIMEOUT * 2, closing).await;
        if !matches!(closed, Ok(Ok(Ok(())))) {
            tracing::warn!("the last traces may not have been sent");
        }
    }

    /// Begins the span of an RPC, on the trace that the headers name.
    pub(super) fn rpc(&self, name: &Arc<str>, headers: &HeaderMap) -> RpcTrace {
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
        let (service, method) = name.split_once('/').unwrap_or((name, ""));
        let span = SpanBuilder::from_name(name.to_string())
            .with_kind(SpanKind::Server)
            .with_attributes([
                KeyValue::new("rpc.system", "grpc"),
                KeyValue::new("rpc.service", service.to_owned()),
                KeyValue::new("rpc.method", method.to_owned()),
            ])
            .start_with_context(&self.tracer, &parent);
        RpcTrace(parent.with_span(span))
    }

    /// Begins the span of a call that was admitted, below the RPC or the call that made it.
    pub fn call(&self, facts: &CallFacts<'_>) -> CallTrace {
        let parent = Context::current();
        let tool = cut(facts.tool);
        let span = SpanBuilder::from_name(format!("execute_tool {tool}"))
            .with_kind(SpanKind::Internal)
            .with_start_time(facts.admitted)
            .with_attributes([
                KeyValue::new("gen_ai.operation.name", "execute_tool"),
                KeyValue::new("gen_ai.tool.name", tool),
                KeyValue::new("gen_ai.tool.type", "function"),
                KeyValue::new("gen_ai.tool.call.id", cut(facts.call)),
                KeyValue::new("gen_ai.conversation.id", cut(facts.session)),
                KeyValue::new("gen_ai.agent.name", cut(facts.agent)),
                KeyValue::new("toolgate.tool.source", facts.source),
            ])
            .start_with_context(&self.tracer, &parent);
        let context = parent.with_span(span);
        CallTrace(Some(Arc::new(Traced {
            tracer: self.tracer.clone(),
            context,
        })))
    }
}

fn cut(name: &str) -> String {
    name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_owned()
}

/// What names a call.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// Its tool; a registered one.
    pub tool: &'a str,
    /// Where that comes from.
    pub source: &'static str,
    /// Its id.
    pub call: &'a str,
    /// The session.
    pub session: &'a str,
    /// The agent.
    pub agent: &'a str,
    /// When it was admitted.
    pub admitted: SystemTime,
}

/// The span of an RPC.
pub(super) struct RpcTrace(Context);

impl RpcTrace {
    pub(super) fn context(&self) -> &Context {
        &self.0
    }

    pub(super) fn end(&self, code: &'static str, number: usize) {
        let span = self.0.span();
        span.set_attribute(KeyValue::new(
            "rpc.grpc.status_code",
            i64::try_from(number).unwrap_or(i64::MAX),
        ));
        // The others are the caller's errors, not the server's.
        let faults = [
            "UNKNOWN",
            "DEADLINE_EXCEEDED",
            "UNIMPLEMENTED",
            "INTERNAL",
            "UNAVAILABLE",
            "DATA_LOSS",
        ];
        if faults.contains(&code) {
            span.set_attribute(KeyValue::new("error.type", code));
            span.set_status(Status::error(code));
        }
        span.end();
    }
}

struct Traced {
    tracer: SdkTracer,
    context: Context,
}

/// The span of a call; nothing where traces are off.
#[derive(Clone, Default)]
pub struct CallTrace(Option<Arc<Traced>>);

impl CallTrace {
    /// Begins a part of the call that goes on since an earlier moment.
    pub fn part_since(&self, name: &'static str, from: SystemTime) -> Span {
        let begin = |traced: &Traced| {
            SpanBuilder::from_name(name)
                .with_start_time(from)
                .start_with_context(&traced.tracer, &traced.context)
        };
        Span(self.0.as_deref().map(begin))
    }

    /// Begins a part of the call, which ends when the guard is dropped.
    pub fn part(&self, name: &'static str) -> Span {
        let traced = self.0.as_deref();
        Span(traced.map(|traced| traced.tracer.start_with_context(name, &traced.context)))
    }

    /// Ends the span, with the reason of a failure.
    pub fn end(&self, failure: Option<&'static str>) {
        let Some(traced) = &self.0 else { return };
        let span = traced.context.span();
        if let Some(reason) = failure {
            span.set_attribute(KeyValue::new("error.type", reason));
            span.set_status(Status::error(reason));
        }
        span.end();
    }

    /// Returns the id of the trace, for the log; none where nothing is traced.
    pub fn id(&self) -> Option<String> {
        let traced = self.0.as_deref()?;
        Some(traced.context.span().span_context().trace_id().to_string())
    }

    /// Runs what the call does, so that the calls that it makes are traced below it.
    pub fn around<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        below(self.0.as_deref().map(|traced| traced.context.clone()), work)
    }
}

/// A part of a call, until it is dropped.
pub struct Span(
    #[expect(dead_code, reason = "the span ends when it is dropped")] Option<opentelemetry_sdk::trace::Span>,
);

/// Takes the trace of the moment along into another task, if traces are on.
pub fn carried<F: Future>(traces: Option<&Traces>, work: F) -> impl Future<Output = F::Output> + use<F> {
    below(traces.map(|_| Context::current()), work)
}

/// Runs a future below a span, if there is one.
pub fn below<F: Future>(context: Option<Context>, work: F) -> impl Future<Output = F::Output> + use<F> {
    match context {
        Some(context) => Either::Left(work.with_context(context)),
        None => Either::Right(work),
    }
}

/// Writes into the headers of a request which span it is made in, in the place of what they say; nothing where none is traced.
pub fn tell(headers: &mut HeaderMap) {
    let context = Context::current();
    if context.has_active_span() {
        TraceContextPropagator::new().inject_context(&context, &mut HeadersMut(headers));
    }
}

struct HeadersMut<'a>(&'a mut HeaderMap);

impl Injector for HeadersMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
