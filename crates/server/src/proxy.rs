//! Forwards requests that the rules allow.
//!
//! | module | holds |
//! | --- | --- |
//! | [`settings`] | what is forwarded, and where: the section `proxy` of the settings |
//! | `route` | which request goes to which group of servers, and with which path |
//! | `head` | what is refused, what is meant for one connection only, what is added on the way |
//! | `facts` | what rules can know about a request |
//! | `forward` | a request that was allowed: servers are tried until one answers |
//! | `group` | servers that are alike, and which of them is next |
//! | `pool`, `dial`, `tls` | connections to servers: kept ones and new ones |
//! | `exchange` | one request to one server, up to the head of the response |
//! | `request_body`, `response_body` | bodies, read as fast as the other side takes them |
//! | `request_id` | a name for each request |
//! | `refuse` | a request that goes nowhere, and what becomes of its body |
//! | `settle` | costs that only the server knows |
//! | `slot` | what concurrency quotas lend, held until the response has ended |
//! | `tunnel` | `WebSocket`: connections that are no longer ones of HTTP |
//!
//! # The life of a request
//!
//! 1. hyper has read the head, and refused what is malformed. `head::checked` refuses what could be understood in two ways, and finds the host.
//! 2. `route` finds the group. Who fits no route is answered 404, before anything is counted.
//! 3. The rules decide, on the same facts as for forward-auth. Who is denied is answered at once: no server hears of it.
//! 4. What a `leaky_bucket` asks to wait is waited; slots of concurrency quotas are held from here on.
//! 5. `forward` takes a server in turn and a connection to it. A server that cannot be reached costs nothing but the time: the next one is tried.
//!    A request of which nothing was sent, or which may be repeated and found a connection that the server was just about to end, is sent once more.
//! 6. The head of the response gets the fields about quotas. Its body holds the connection and the slots: the connection goes back when the body has
//!    ended as it should, the slots whenever it has ended.
//!
//! Everything of a request happens on the worker that its client is connected to, and so do its connections to servers.

mod dial;
mod exchange;
mod facts;
mod forward;
mod group;
mod head;
mod pool;
mod refuse;
mod request_body;
mod request_id;
mod response_body;
mod route;
pub mod settings;
mod settle;
mod slot;
mod tls;
mod tunnel;

pub(crate) use request_body::Progress;
pub use settings::ProxySettings;
pub use tunnel::Tunnel;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Request, Response, StatusCode};
use hyper::body::Incoming;
use tidegate_core::rules::address::Network;
use tidegate_engine::decision::Origin;
use tidegate_engine::engine::CheckOptions;

use self::facts::Forwardable;
use self::group::Group;
use self::head::Wants;
use self::pool::Pool;
use self::request_body::RequestBody;
use self::route::Routes;
use self::slot::Slot;
use crate::access_log::{self, Entry};
use crate::app::{App, Peer};
use crate::body::Body;
use crate::http::{Problem, tell};
use crate::metrics::{AnswerCode, Protocol};
use crate::watch::Watch;

/// Longer than any request.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// What all requests share.
#[derive(Debug)]
pub struct Proxy {
    routes: Routes,
    groups: Vec<Group>,
    pool: Arc<Pool>,
    trusted_proxies: Vec<Network>,
    cost_header: Option<HeaderName>,
    request_id: Option<HeaderName>,
    scheme: &'static str,
}

impl Proxy {
    /// A proxy for so many workers.
    pub fn new(settings: &ProxySettings, workers: usize) -> Self {
        let mut groups = Vec::new();
        let mut servers = 0;
        for group in &settings.upstreams {
            groups.push(Group::new(group.clone(), servers));
            servers += group.servers.len();
        }
        let names: Vec<&str> = settings.upstreams.iter().map(|group| group.name.as_str()).collect();
        Self {
            routes: Routes::new(&settings.routes, &names),
            groups,
            pool: Arc::new(Pool::new(workers, servers)),
            trusted_proxies: settings.trusted_proxies.clone(),
            cost_header: settings.cost_header.as_ref().and_then(|name| HeaderName::try_from(name).ok()),
            request_id: settings.request_id.as_ref().and_then(|name| HeaderName::try_from(name).ok()),
            scheme: if settings.listener.tls.is_some() { "https" } else { "http" },
        }
    }

    /// That what TLS with servers needs is there.
    pub(crate) fn check_tls(&self) -> Result<(), String> {
        self.groups.iter().try_for_each(Group::check_tls)
    }

    /// Whether a peer is believed that a request came from elsewhere. Who may open a socket in the file system is.
    fn is_trusted(&self, peer: Peer) -> bool {
        peer.address.is_none_or(|address| self.trusted_proxies.iter().any(|network| network.contains(address.to_canonical())))
    }
}

/// Answers a request on the port of the proxy.
///
/// # Panics
/// The app has no proxy.
pub async fn serve(app: Arc<App>, peer: Peer, mut request: Request<Incoming>) -> Response<Body> {
    let mut watch = app.watch(Protocol::Proxy, request.headers());
    let proxy = app.proxy.as_ref().expect("only an app with a proxy listens for it");
    let name = proxy.request_id.as_ref();
    let id = name.map(|name| request_id::of(request.headers_mut(), name, proxy.is_trusted(peer)));
    let mut entry = app.access_log.as_ref().map(|log| Entry::new(log, peer, &request, id.clone()));
    let mut response = answer(&app, proxy, peer, request, &mut watch, &mut entry).await;
    watch.answered(&app, AnswerCode::Http(response.status().as_u16()));
    response.headers_mut().extend(name.cloned().zip(id));
    match entry {
        Some(entry) => access_log::follow(entry, response),
        None => response,
    }
}

async fn answer(
    app: &Arc<App>,
    proxy: &Proxy,
    peer: Peer,
    request: Request<Incoming>,
    watch: &mut Watch,
    entry: &mut Option<Box<Entry>>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let wants = Wants::of(&head);
    let host = match head::checked(&head) {
        Ok(host) => host,
        // Who sends one request that makes no sense may send another: where it begins is anybody's guess.
        Err(problem) => return refuse::ending(problem.into_response(), head.version),
    };
    if let Some(entry) = entry {
        entry.is_for(host.as_ref());
    }
    let Some(route) = proxy.routes.find(host.as_ref().map_or("", |host| host.as_str()), head.uri.path()) else {
        let problem = Problem::new(StatusCode::NOT_FOUND, "no route leads from here to a server");
        return refuse::with(problem.into_response(), wants, &head, body);
    };
    let facts = Forwardable { head: &head, host: host.as_ref(), scheme: proxy.scheme, peer };
    let begun = match app.engine.begin_request(Origin::Check, &facts, None, CheckOptions::default()) {
        Ok(begun) => begun,
        Err(error) => return refuse::with(Problem::from(error).into_response(), wants, &head, body),
    };
    let decision = begun.decide().await;
    watch.decided(app, &facts, &decision);
    if let Some(entry) = entry {
        entry.decided(&decision);
    }
    if !decision.is_allowed() {
        let mut response = crate::http::denial(app, &decision, StatusCode::TOO_MANY_REQUESTS);
        tell(response.headers_mut(), app, &decision);
        return refuse::with(response, wants, &head, body);
    }
    let decision = Arc::new(decision);
    let slot = Slot::hold(&app.engine, &decision);
    let delay = Duration::from_nanos(decision.verdict().delay());
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let is_trusted = proxy.is_trusted(peer);
    let origin = head::Origin { peer, is_trusted, host: host.as_ref(), scheme: proxy.scheme };
    let group = &proxy.groups[route.group];
    let path = route.path(head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str)).into_owned();
    let asked = forward::Asked { head, body: RequestBody::new(body), path, wants, origin };
    let mut response = forward::forward(proxy, group, asked, slot, entry).await;
    let headers = response.headers_mut();
    let settled = match &proxy.cost_header {
        Some(field) => settle::settle(&app.engine, &decision, field, headers).await,
        None => None,
    };
    tell(headers, app, settled.as_ref().unwrap_or(&decision));
    response
}

/// A timeout; 0 is none.
fn or_never(timeout: Duration) -> Duration {
    if timeout.is_zero() { NEVER } else { timeout }
}
