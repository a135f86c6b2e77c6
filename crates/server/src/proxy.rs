//! Forwards requests that the rules allow.
//!
//! | module | holds |
//! | --- | --- |
//! | [`settings`] | what is forwarded, and where: the section `proxy` of the settings |
//! | `route` | which request goes to which group of servers, and with which path |
//! | `head` | what is refused, what is meant for one connection only, what is added on the way |
//! | `asked` | a request on its way to servers: what each is told |
//! | `facts` | what rules can know about a request |
//! | `forward` | a request that was allowed: servers are tried until one answers |
//! | `table` | everything that a reload replaces: routes and groups |
//! | `group`, `server` | servers that are alike, and which of them is next; one of them |
//! | `balance`, `health` | whose turn it is, and who gets nothing for a while: both pure |
//! | `check`, `resolve`, `tend` | what happens in the background: are servers well, and where are they |
//! | `pool`, `dial`, `tls` | connections to servers: kept ones and new ones |
//! | `heard` | a server that reads no more may have answered |
//! | `counts` | what is counted of servers |
//! | `line` | HTTP/1 with servers, on the short way: what is plain is neither written nor read by hyper |
//! | `exchange` | one request to one server, up to the head of the response |
//! | `request_body`, `response_body` | bodies, read as fast as the other side takes them |
//! | `rehearse` | what a server would be sent, for fuzzers |
//! | `request_id` | a name for each request |
//! | `refuse` | a request that goes nowhere, and what becomes of its body |
//! | `settle` | costs that only the server knows |
//! | `short` | requests over HTTP/1 that are not read by hyper |
//! | `slot` | what concurrency quotas lend, held until the response has ended |
//! | `spare` | room for fields, kept for the next message |
//! | `tunnel` | `WebSocket`: connections that are no longer ones of HTTP |
//!
//! # The life of a request
//!
//! 1. hyper has read the head, and refused what is malformed; or `short` has, because nothing was special about it. `head::checked` refuses what could be understood in two ways, and finds the host.
//! 2. `route` finds the group. Who fits no route is answered 404, before anything is counted.
//! 3. The rules decide, on the same facts as for forward-auth. Who is denied is answered at once: no server hears of it.
//! 4. What a `leaky_bucket` asks to wait is waited; slots of concurrency quotas are held from here on.
//! 5. `forward` takes the server whose turn it is and a connection to it. A server that cannot be reached costs nothing but the time: the next one is tried.
//!    A request of which nothing was sent, or which may be repeated and found a server that broke off before it answered, is sent once more.
//! 6. The head of the response gets the fields about quotas. Its body holds the connection and the slots: the connection goes back when the body has
//!    ended as it should, the slots whenever it has ended.
//!
//! Everything of a request happens on the worker that its client is connected to, and so do its connections to servers.

mod alarm;
mod asked;
mod balance;
mod check;
mod counts;
mod dial;
mod exchange;
mod facts;
mod forward;
mod group;
mod head;
mod health;
mod heard;
mod line;
mod pool;
mod refuse;
mod rehearse;
mod request_body;
mod request_id;
mod resolve;
mod response_body;
mod route;
mod server;
pub mod settings;
mod settle;
mod short;
mod slot;
mod spare;
mod table;
mod tend;
mod tls;
mod tunnel;

pub(crate) use counts::{GroupSummary, Outcome, ServerSummary};
pub(crate) use dial::DialError;
pub(crate) use health::State;
pub use rehearse::{rehearse, rehearse_short};
pub(crate) use request_body::Progress;
pub use settings::ProxySettings;
pub(crate) use short::shortcut;
pub(crate) use spare::take_back;
pub(crate) use tend::tend;
pub use tunnel::Tunnel;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidegate_core::rules::address;
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::{Begun, CheckOptions, UsageError};
use tokio::sync::watch;
use tokio::time::Instant;

use self::asked::Asked;
use self::facts::Forwardable;
use self::head::Wants;
use self::request_body::RequestBody;
use self::resolve::Found;
use self::slot::Slot;
use self::table::Table;
use crate::access_log::{self, Entry};
use crate::app::{App, Peer};
use crate::body::Body;
use crate::http::{Problem, denial, grpc_denial, is_grpc, tell};
use crate::metrics::{AnswerCode, Protocol};
use crate::watch::Watch;

/// Longer than any request.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// What all requests share.
#[derive(Debug)]
pub struct Proxy {
    table: ArcSwap<Table>,
    scheme: &'static str,
    workers: usize,
    /// Where names lead.
    found: Arc<Mutex<Found>>,
    /// Counts tables, for those who tend the servers of the one in force.
    tables: watch::Sender<u64>,
    /// Attempts to load other settings: those that failed, and those that are or were in force.
    reloads: [AtomicU64; 2],
    /// Why the settings on disk are not the ones in force.
    problem: Mutex<Option<Arc<str>>>,
    /// Held while others are loaded, which may take seconds: of two who load the later one wins.
    reloading: Mutex<()>,
}

impl Proxy {
    /// A proxy for so many workers.
    pub fn new(settings: &ProxySettings, workers: usize) -> Self {
        Self {
            table: ArcSwap::from_pointee(Table::new(settings, workers, None, &Found::new())),
            scheme: if settings.listener.tls.is_some() { "https" } else { "http" },
            workers,
            found: Arc::default(),
            tables: watch::Sender::new(0),
            reloads: Default::default(),
            problem: Mutex::default(),
            reloading: Mutex::default(),
        }
    }

    /// Whether settings can be used, as far as that can be said without asking anybody.
    ///
    /// # Errors
    /// What is wrong with certificates that servers are trusted by or shown.
    pub fn check(settings: &ProxySettings) -> Result<(), String> {
        Table::new(settings, 1, None, &Found::new()).check_tls()
    }

    /// Finds out what must be known before anybody asks: that TLS with servers can work, and where names lead. It waits for that.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        let table = self.table.load();
        table.check_tls()?;
        let found = self.look_up(&table)?;
        table.groups.iter().for_each(|group| group.settle(&found));
        *self.found.lock() = found;
        Ok(())
    }

    /// Puts other settings in force, as a whole: requests that are under way end by the ones that they began with. The port stays.
    ///
    /// # Errors
    /// What is wrong with them; those in force stay.
    pub fn reload(&self, settings: &ProxySettings) -> Result<(), String> {
        let _reloading = self.reloading.lock();
        let before = self.table.load_full();
        let loaded = self.loaded(settings, &before).map(|(table, found)| {
            *self.found.lock() = found;
            let table = Arc::new(table);
            self.table.store(Arc::clone(&table));
            table.succeed(&before);
            self.tables.send_modify(|number| *number += 1);
        });
        self.reloads[usize::from(loaded.is_ok())].fetch_add(1, Ordering::Relaxed);
        *self.problem.lock() = loaded.as_ref().err().map(|why| Arc::from(why.as_str()));
        loaded
    }

    /// A table by other settings, and where its names lead. Nobody sees a group whose servers nobody has looked up.
    fn loaded(&self, settings: &ProxySettings, before: &Table) -> Result<(Table, Found), String> {
        let found = self.look_up(&Table::new(settings, self.workers, Some(before), &Found::new()))?;
        let table = Table::new(settings, self.workers, Some(before), &found);
        // Of this one and of no other: it keeps what it has read, and files may be others a moment later.
        table.check_tls()?;
        Ok((table, found))
    }

    /// Notes that settings on disk could not even be read.
    pub fn refuse(&self, why: &str) {
        self.reloads[0].fetch_add(1, Ordering::Relaxed);
        *self.problem.lock() = Some(Arc::from(why));
    }

    /// Why the settings on disk are not the ones in force, if so.
    pub(crate) fn problem(&self) -> Option<Arc<str>> {
        self.problem.lock().clone()
    }

    /// Attempts to load other settings: those that failed, and those that are or were in force.
    pub(crate) fn reloads(&self) -> [u64; 2] {
        self.reloads.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Whether a peer speaks for many clients, and is believed whom they are.
    pub(crate) fn trusts(&self, peer: Peer) -> bool {
        self.table.load().is_trusted(peer)
    }

    /// What was counted of servers, by groups.
    pub(crate) fn summary(&self) -> Vec<GroupSummary> {
        let now = Instant::now();
        self.table.load().groups.iter().map(|group| group.summary(now)).collect()
    }

    /// What is wrong with groups of which no server is well.
    pub(crate) fn group_problems(&self) -> Vec<String> {
        let now = Instant::now();
        self.table.load().groups.iter().filter_map(|group| group.problem(now)).collect()
    }

    /// Where the names of a table lead: those that are known keep their addresses until they are looked up again in time.
    fn look_up(&self, table: &Table) -> Result<Found, String> {
        let known = self.found.lock().clone();
        let names: HashSet<&str> = table.groups.iter().flat_map(|group| group.names()).collect();
        let new = names.iter().filter(|name| !known.contains_key(**name)).map(ToString::to_string);
        let mut found = resolve::first(new).map_err(|error| format!("names cannot be looked up: {error}"))?;
        found.extend(known.into_iter().filter(|(name, _)| names.contains(name.as_str())));
        Ok(found)
    }
}

/// Answers a request on the port of the proxy. `None` is no body.
///
/// # Panics
/// The app has no proxy.
pub(crate) async fn serve(app: Arc<App>, peer: Peer, request: Request<Option<Incoming>>) -> Response<Body> {
    // The head stays here until the request is answered, and is lent to everybody who needs it: what a future holds is moved with it.
    let (mut head, body) = request.into_parts();
    let watch = app.watch(Protocol::Proxy, &head.headers);
    let proxy = app.proxy.as_ref().expect("only an app with a proxy listens for it");
    let table = proxy.table.load_full();
    let name = table.request_id.as_ref();
    let id = name.map(|name| request_id::of(&mut head.headers, name, table.is_trusted(peer)));
    let entry =
        app.access_log.as_ref().map(|log| Entry::new(log, (peer, table.named_by(peer, &head.headers)), &head, id.clone()));
    let mut notes = Notes { watch, entry };
    let from = From { peer, scheme: proxy.scheme };
    let mut response = answer(&app, &table, from, (&head, body), &mut notes).await;
    spare::take_back(head.headers);
    notes.watch.answered(&app, AnswerCode::Http(response.status().as_u16()));
    if let Some((name, id)) = name.zip(id) {
        // A server may say it, too.
        response.headers_mut().insert(name, id);
    }
    match notes.entry {
        Some(entry) => access_log::follow(entry, response),
        None => response,
    }
}

/// Whom a request came from, and how.
#[derive(Debug, Clone, Copy)]
struct From {
    peer: Peer,
    scheme: &'static str,
}

/// What is noted of a request on its way.
struct Notes {
    watch: Watch,
    entry: Option<Box<Entry>>,
}

async fn answer(
    app: &Arc<App>,
    table: &Table,
    From { peer, scheme }: From,
    (head, body): (&Parts, Option<Incoming>),
    Notes { watch, entry }: &mut Notes,
) -> Response<Body> {
    let wants = Wants::of(head);
    let host = match head::checked(head) {
        Ok(host) => host,
        // Who sends one request that makes no sense may send another: where it begins is anybody's guess.
        Err(problem) => return refuse::with(refuse::ending(problem.into_response(), head.version), wants, head, body),
    };
    if let Some(entry) = entry {
        entry.is_for(host.as_ref());
    }
    let Some(route) = table.routes.find(host.as_ref().map_or("", |host| host.as_str()), head.uri.path()) else {
        let problem = Problem::new(StatusCode::NOT_FOUND, "no route leads from here to a server");
        return refuse::with(problem.into_response(), wants, head, body);
    };
    // Three are told it.
    let address = peer.address.map(address::text);
    let facts = Forwardable { head, host: host.as_ref(), scheme, address: address.as_deref() };
    let decision = match decided(app, &facts).await {
        Ok(decision) => decision,
        Err(error) => return refuse::with(Problem::from(error).into_response(), wants, head, body),
    };
    watch.decided(app, &facts, &decision);
    if let Some(entry) = entry {
        entry.decided(&decision);
    }
    if !decision.is_allowed() {
        let mut response =
            if is_grpc(head) { grpc_denial(app, &decision) } else { denial(app, &decision, StatusCode::TOO_MANY_REQUESTS) };
        tell(response.headers_mut(), app, &decision);
        return refuse::with(response, wants, head, body);
    }
    let slot = Slot::hold(&app.engine, &decision);
    let delay = Duration::from_nanos(decision.verdict().delay());
    if !delay.is_zero() {
        // What is rare lies elsewhere, so that what is not has less to move.
        Box::pin(tokio::time::sleep(delay)).await;
    }
    let is_trusted = table.is_trusted(peer);
    let origin = head::Origin { address: address.as_deref(), is_trusted, host: host.as_ref(), scheme };
    let group = &table.groups[route.group];
    let path = route.path(&head.uri);
    let body = RequestBody::new(body, &head.extensions).heard(decision.plan());
    let mut asked = Asked { head, body, path, wants, origin, request_id: table.request_id.as_ref() };
    let mut response = forward::forward(group, &mut asked, slot, entry).await;
    let headers = response.headers_mut();
    let settled = match &table.cost_header {
        Some(field) => Box::pin(settle::settle(&app.engine, &decision, field, headers)).await,
        None => None,
    };
    tell(headers, app, settled.as_ref().unwrap_or(&decision));
    response
}

/// What the rules say. It is shared, because slots and servers may have to refer to it.
async fn decided(app: &App, facts: &Forwardable<'_>) -> Result<Arc<Decision>, UsageError> {
    let decision = match app.engine.begin_request(Origin::Check, facts, None, CheckOptions::default())? {
        Begun::Decided(decision) => decision,
        // What takes time anyway lies elsewhere, so that what does not has less to move.
        pending @ Begun::Pending(_) => Box::pin(pending.decide()).await,
    };
    Ok(Arc::new(decision))
}

/// A timeout; 0 is none.
fn or_never(timeout: Duration) -> Duration {
    if timeout.is_zero() { NEVER } else { timeout }
}
