//! The thread that sends spans to a collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, Uri};
use hyper_util::rt::TokioIo;
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::Span;
use super::message::{Export, Resource, ResourceSpans, Scope, ScopeSpans, SpanMessage, Status, Value, attribute};
use crate::body::Body;
use crate::metrics::AnswerCode;

/// The most spans that are sent together.
const BATCH_MAX: usize = 512;
/// How long spans are collected.
const COLLECT_FOR: Duration = Duration::from_millis(500);
/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The kind of a span that serves a request.
const SERVER: i32 = 2;
/// The status of a span that failed.
const ERROR: i32 = 2;

/// Begins; ends when nobody can send spans any more, after what is queued was sent.
pub(super) fn start(endpoint: Uri, spans: Receiver<Box<Span>>, dropped: &Arc<AtomicU64>) {
    let started = std::thread::Builder::new().name("tidegate-otlp".to_owned()).spawn({
        let dropped = Arc::clone(dropped);
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(run(&endpoint, spans, &dropped));
            }
        }
    });
    // Without a thread the queue has no reader, and every span counts as dropped.
    drop(started);
}

async fn run(endpoint: &Uri, mut spans: Receiver<Box<Span>>, dropped: &AtomicU64) {
    while let Some(batch) = collect(&mut spans).await {
        let count = batch.len() as u64;
        let is_sent = timeout(PATIENCE, send(endpoint, encode(&batch))).await.unwrap_or(false);
        if !is_sent {
            dropped.fetch_add(count, Ordering::Relaxed);
            // Not longer if the service stops meanwhile.
            if !spans.is_closed() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The next spans, once there is one; `None` if there are none any more.
async fn collect(spans: &mut Receiver<Box<Span>>) -> Option<Vec<Box<Span>>> {
    let mut batch = vec![spans.recv().await?];
    let fill = async {
        while batch.len() < BATCH_MAX {
            match spans.recv().await {
                Some(span) => batch.push(span),
                None => break,
            }
        }
    };
    // If the time is over, what has come is sent.
    let _ = timeout(COLLECT_FOR, fill).await;
    Some(batch)
}

/// Sends a batch on a connection of its own; whether the collector took it.
async fn send(endpoint: &Uri, batch: Vec<u8>) -> bool {
    let (Some(host), port) = (endpoint.host(), endpoint.port_u16().unwrap_or(80)) else { return false };
    let Ok(stream) = TcpStream::connect((host.trim_matches(['[', ']']), port)).await else { return false };
    let Ok((mut sender, connection)) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await else { return false };
    let request = Request::post(format!("{}/v1/traces", endpoint.path().trim_end_matches('/')))
        .header(HOST, endpoint.authority().map_or("", http::uri::Authority::as_str))
        .header(CONTENT_TYPE, "application/x-protobuf")
        .body(Body::full(Bytes::from(batch)));
    let Ok(request) = request else { return false };
    let answer = sender.send_request(request);
    tokio::pin!(connection, answer);
    // The connection moves only while it is polled. What the collector says beyond its status is of no use.
    tokio::select! {
        answer = &mut answer => answer.is_ok_and(|answer| answer.status().is_success()),
        _ = &mut connection => answer.await.is_ok_and(|answer| answer.status().is_success()),
    }
}

fn encode(batch: &[Box<Span>]) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: vec![
            attribute("service.name", Value::Text("tidegate".to_owned())),
            attribute("service.version", Value::Text(version.to_owned())),
        ],
    };
    let scope = Scope { name: "tidegate".to_owned(), version: version.to_owned() };
    let spans = batch.iter().map(|span| message(span)).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    Export { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] }.encode_to_vec()
}

fn message(span: &Span) -> SpanMessage {
    let decided = &span.decided;
    let (code, is_fault) = match span.code {
        AnswerCode::Http(status) => (attribute("http.response.status_code", Value::Number(status.into())), status >= 500),
        // INTERNAL, UNAVAILABLE and the like; a denial is an answer.
        AnswerCode::Grpc(status) => {
            (attribute("rpc.grpc.status_code", Value::Number(status.into())), matches!(status, 2 | 13 | 14 | 15))
        }
    };
    let mut attributes = vec![attribute("tidegate.protocol", Value::Text(span.protocol.as_str().to_owned())), code];
    let mut add = |key: &str, value: Value| attributes.push(attribute(key, value));
    if decided.decisions > 0 {
        let outcome = if decided.is_denied { "denied" } else { "allowed" };
        add("tidegate.outcome", Value::Text(outcome.to_owned()));
        add("tidegate.decisions", Value::Number(decided.decisions.into()));
        add("tidegate.shadowed", Value::Truth(decided.is_shadowed));
        add("tidegate.degraded", Value::Truth(decided.degraded.is_some()));
    }
    if let Some(reason) = decided.degraded {
        add("tidegate.degraded_reason", Value::Text(reason.to_owned()));
    }
    if let Some(rule) = &decided.rule {
        add("tidegate.rule", Value::Text(rule.to_string()));
    }
    if let Some(domain) = &decided.domain {
        add("tidegate.domain", Value::Text(domain.to_string()));
    }
    SpanMessage {
        trace_id: span.trace_id.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.map(Vec::from).unwrap_or_default(),
        name: "tidegate.check".to_owned(),
        kind: SERVER,
        start_time_unix_nano: span.begun_ns,
        end_time_unix_nano: span.ended_ns,
        attributes,
        status: is_fault.then_some(Status { code: ERROR }),
    }
}
