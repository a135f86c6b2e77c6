//! What a server would be sent, without one. For fuzzers, which look at what becomes of hostile requests.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use tidegate_core::rules::address;
use tokio::time::Instant;

use super::asked::Asked;
use super::head::{self, Origin, Wants};
use super::request_body::RequestBody;
use super::short;
use crate::app::{App, Peer};
use crate::body::BrokenOff;
use crate::server::Unclear;

/// The request at the beginning of these bytes and how many it has, if it is one that the short way takes.
pub fn rehearse_short(bytes: &[u8]) -> Option<(Request<()>, usize)> {
    short::read(bytes, usize::MAX).map(|(request, whole)| (request, whole.len()))
}

/// The request that the server whose turn it is would be sent if the rules allowed it. `is_clear` is what
/// [`Framing`](crate::server::framing::Framing) says about the head.
///
/// # Errors
/// The status that it is refused with.
///
/// # Panics
/// The app has no proxy.
pub fn rehearse(
    app: &App,
    peer: Peer,
    mut request: Request<Incoming>,
    is_clear: bool,
) -> Result<Request<impl Body<Data = Bytes, Error = BrokenOff> + Send + 'static + use<>>, StatusCode> {
    let proxy = app.proxy.as_ref().expect("only an app with a proxy rehearses");
    if !is_clear {
        request.extensions_mut().insert(Unclear);
    }
    let table = proxy.table.load_full();
    let (head, body) = request.into_parts();
    let host = head::checked(&head).map_err(|problem| problem.into_response().status())?;
    let route =
        table.routes.find(host.as_ref().map_or("", |host| host.as_str()), head.uri.path()).ok_or(StatusCode::NOT_FOUND)?;
    let group = &table.groups[route.group];
    let server = group.choose(&[], Instant::now()).ok_or(StatusCode::BAD_GATEWAY)?;
    let path = route.path(&head.uri);
    let address = peer.address.map(address::text);
    let origin =
        Origin { address: address.as_deref(), is_trusted: table.is_trusted(peer), host: host.as_ref(), scheme: proxy.scheme };
    let mut asked = Asked {
        wants: Wants::of(&head),
        head: &head,
        body: RequestBody::new(Some(body), &head.extensions),
        path,
        origin,
        request_id: None,
    };
    Ok(asked.request(&server, &group.settings))
}
