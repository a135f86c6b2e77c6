//! What clients are told who are denied.

use std::borrow::Cow;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode, Version};
use tidegate_engine::decision::Decision;

use super::NO_STORE;
use super::problem;
use super::write::Writer;
use crate::app::App;
use crate::body::Body;

/// The most bytes of a denial's body.
const BODY_MAX: usize = 1_000;

const GRPC: &[u8] = b"application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// A denial, with the problem types that the draft on `RateLimit` asks to register.
pub(crate) fn denial(app: &App, decision: &Decision, status: StatusCode) -> Response<Body> {
    // Who is denied because nobody could count is not the one who asked too often. The status is the same all the same: gateways take one of 5xx for
    // a failure of ours, and some then let the request pass that a rule denies.
    let (kind, title) = if app.engine.is_by_policy(decision) {
        ("temporary-reduced-capacity", "Temporary Reduced Capacity")
    } else {
        ("quota-exceeded", "Quota Exceeded")
    };
    let mut writer = Writer::with_capacity(BODY_MAX);
    writer.open('{');
    writer.member("type").text(&format!("https://iana.org/assignments/http-problem-types#{kind}"));
    writer.member("title").text(title);
    writer.member("status").number(status.as_u16().into());
    writer.member("detail").text(&advice(decision));
    writer.member("violated-policies").open('[');
    for (planned, status) in decision.statuses() {
        let is_violated = decision.is_told(status) && !status.is_allowed();
        if is_violated && writer.len() + planned.label.len() < BODY_MAX - 8 {
            writer.text(&planned.label);
        }
    }
    writer.close(']');
    writer.close('}');
    problem::response(status, writer)
}

/// Whether a request is a call of gRPC. One of gRPC-Web is not: its clients understand statuses of HTTP.
pub(crate) fn is_grpc(head: &Parts) -> bool {
    let Some(kind) = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else { return false };
    let is_called_so = kind.get(..GRPC.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(GRPC));
    head.version == Version::HTTP_2 && is_called_so && matches!(kind.get(GRPC.len()), None | Some(b'+' | b';' | b' '))
}

/// A denial of a call of gRPC. Its clients take 429 for `UNAVAILABLE`, which many repeat at once; `RESOURCE_EXHAUSTED` is what it is called among them.
/// Those that repeat it all the same are told when that makes sense, or that it never does.
pub(crate) fn grpc_denial(app: &App, decision: &Decision) -> Response<Body> {
    const RESOURCE_EXHAUSTED: HeaderValue = HeaderValue::from_static("8");
    const UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");
    let status = if app.engine.is_by_policy(decision) { UNAVAILABLE } else { RESOURCE_EXHAUSTED };
    let wait_ms = decision.verdict().retry_after().map(|wait_ns| wait_ns.div_ceil(1_000_000));
    // Some clients read it as a number of 32 bits, and who has to wait for longer does not wait in a call.
    let pushback = wait_ms.and_then(|wait_ms| i32::try_from(wait_ms).ok()).unwrap_or(-1);
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(GRPC_STATUS, status);
    // Never one with a sign that would have to be escaped there.
    if let Ok(advice) = HeaderValue::try_from(&*advice(decision)) {
        headers.insert(GRPC_MESSAGE, advice);
    }
    headers.insert(GRPC_PUSHBACK, HeaderValue::from(pushback));
    headers.insert(CACHE_CONTROL, NO_STORE);
    response
}

/// What to do next.
fn advice(decision: &Decision) -> Cow<'static, str> {
    let wait_s = decision.verdict().retry_after().map(|wait_ns| wait_ns.div_ceil(1_000_000_000).max(1));
    wait_s.map_or("this request is never admitted".into(), |wait_s| format!("try again in {wait_s} s").into())
}
