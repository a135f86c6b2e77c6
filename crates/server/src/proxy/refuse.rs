//! A request that goes nowhere, and what becomes of its body.
//!
//! Many clients send all of a body before they read the answer. If the connection ended while they do, they would never see it: so what is on its way is
//! read and thrown away, up to a bound.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use http::header::CONNECTION;
use http::request::Parts;
use http::{HeaderValue, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::head::Wants;
use crate::body::Body;
use crate::server::Receiving;

/// The most bytes that are thrown away ...
const BYTES_MAX: u64 = 1_024 * 1_024;

/// ... and how long that may take.
const WITHIN: Duration = Duration::from_secs(5);

/// Answers a request that goes nowhere.
pub(super) fn with(mut response: Response<Body>, wants: Wants, head: &Parts, body: Option<Incoming>) -> Response<Body> {
    let Some(body) = body.filter(|body| !body.is_end_stream()) else { return response };
    let is_long = body.size_hint().lower() > BYTES_MAX;
    if is_long || wants.go_ahead {
        // Who waits to be told to go on never sends its body, and of who does nobody knows which one it is: no request can follow.
        response = ending(response, head.version);
    }
    if !wants.go_ahead {
        tokio::spawn(throw_away(body, head.extensions.get::<Receiving>().cloned()));
    }
    response
}

/// An answer behind which the connection ends. HTTP/2 ends streams instead.
pub(super) fn ending(mut response: Response<Body>, version: Version) -> Response<Body> {
    if version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Reads what is left of a body, within bounds.
pub(super) async fn throw_away(mut body: Incoming, _receiving: Option<Receiving>) {
    let reading = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            if bytes > BYTES_MAX {
                return;
            }
        }
    };
    // Whoever is slower has seen the answer by now, or never will.
    let _ = timeout(WITHIN, reading).await;
}
