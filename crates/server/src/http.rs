//! Checks as JSON, forward-auth, health, metrics.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;

use crate::app::{App, Peer};
use crate::body::Body;

/// Answers a request on the port of HTTP.
pub async fn serve(_app: Arc<App>, _peer: Peer, _request: Request<Incoming>) -> Response<Body> {
    Response::new(Body::empty())
}
