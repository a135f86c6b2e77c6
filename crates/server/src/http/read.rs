//! Bodies, within their limits.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body::Body;

use super::problem::Problem;
use crate::settings::Limits;

/// Reads a whole body.
pub(super) async fn whole<B>(body: B, limits: &Limits) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut reading = pin!(collect(body, limits.body_bytes));
    // Most bodies came with their head, and then no timer is needed.
    match poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await {
        Poll::Ready(bytes) => bytes,
        Poll::Pending => tokio::time::timeout(limits.read_timeout, reading)
            .await
            .unwrap_or_else(|_| Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body took too long"))),
    }
}

async fn collect<B>(mut body: B, bytes_max: usize) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes> + Unpin,
{
    let too_large =
        || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is too large, at most {bytes_max} bytes are read"));
    if usize::try_from(body.size_hint().lower()).map_or(true, |bytes| bytes > bytes_max) {
        return Err(too_large());
    }
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| Problem::bad_request("the body broke off"))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if first.len() + more.len() + bytes.len() > bytes_max {
            return Err(too_large());
        }
        // One piece, as most bodies are, is not copied.
        if first.is_empty() {
            first = bytes;
        } else {
            more.extend_from_slice(&bytes);
        }
        if body.is_end_stream() {
            break;
        }
    }
    if more.is_empty() {
        return Ok(first);
    }
    Ok([first, more.freeze()].concat().into())
}

/// Refuses a body that says it is something else than JSON. One that says nothing is taken at its word.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let is_json = |value: &http::HeaderValue| {
        let kind = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        kind.eq_ignore_ascii_case(b"application/json") || kind.to_ascii_lowercase().ends_with(b"+json")
    };
    if headers.get(CONTENT_TYPE).is_none_or(is_json) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body has to be JSON; send `Content-Type: application/json`"))
}
