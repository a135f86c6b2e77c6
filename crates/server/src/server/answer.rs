//! One request.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use pin_project_lite::pin_project;

use super::activity::{Activity, Counted, Receiving, Running};
use super::connection::Shortcut;
use crate::app::{App, Peer};
use crate::body::Body;
use crate::metrics::{ConnectionFailure, Port};
use crate::proxy::Tunnel;

/// What answers the requests of a port.
pub trait Handler: 'static {
    /// Whether requests have timeouts of their own: how long they take says nothing about the client.
    const HAS_TIMEOUTS: bool = false;

    /// Whether requests are passed on, so that it matters that everybody agrees on where they end.
    const PASSES_ON: bool = false;

    /// Answers a request.
    fn serve(app: Arc<App>, peer: Peer, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;

    /// The answer to a request whose handler panicked.
    fn broken() -> Response<Body>;

    /// Answers the request at the beginning of these bytes, which came over HTTP/1, if it is one that needs nothing else to be known.
    fn shortcut(_app: &Arc<App>, _peer: Peer, _bytes: &[u8]) -> Shortcut {
        Shortcut::None
    }
}

/// Goes with a request over HTTP/1 if its head, as it came, may have had more than one length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unclear;

/// What answers on the port of HTTP.
#[derive(Debug)]
pub struct Http;

/// What answers on the port of gRPC.
#[derive(Debug)]
pub struct Grpc;

impl Handler for Http {
    fn serve(app: Arc<App>, peer: Peer, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send {
        crate::http::serve(app, peer, request)
    }

    fn shortcut(app: &Arc<App>, _peer: Peer, bytes: &[u8]) -> Shortcut {
        crate::http::shortcut(app, bytes)
    }

    fn broken() -> Response<Body> {
        const PROBLEM: &str = r#"{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"the service failed; this is a bug of it"}"#;
        let mut response = Response::new(Body::full(PROBLEM));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl Handler for Grpc {
    fn serve(app: Arc<App>, peer: Peer, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send {
        crate::grpc::serve(app, peer, request)
    }

    fn broken() -> Response<Body> {
        let mut response = Response::new(Body::empty());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response.headers_mut().insert("grpc-status", HeaderValue::from_static("13"));
        response.headers_mut().insert("grpc-message", HeaderValue::from_static("the service failed; this is a bug of it"));
        response
    }
}

/// What answers on the port of the proxy.
#[derive(Debug)]
pub(super) struct Proxy;

impl Handler for Proxy {
    const HAS_TIMEOUTS: bool = true;
    const PASSES_ON: bool = true;

    fn serve(app: Arc<App>, peer: Peer, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send {
        crate::proxy::serve(app, peer, request.map(Some))
    }

    fn shortcut(app: &Arc<App>, peer: Peer, bytes: &[u8]) -> Shortcut {
        crate::proxy::shortcut(app, peer, bytes)
    }

    fn broken() -> Response<Body> {
        Http::broken()
    }
}

/// Why a request that is answered is still under way.
const RUNS: &str = "a future is not polled after its end";

pin_project! {
    /// A request that is being answered.
    pub(super) struct Answering<H, F> {
        #[pin]
        handling: F,
        // What the short way has got already: then nobody is asked.
        ahead: Option<Box<Response<Body>>>,
        running: Option<Running>,
        port: Port,
        is_http1: bool,
        handler: PhantomData<fn() -> H>,
    }
}

/// Begins to answer a request.
pub(super) fn answer<H: Handler>(
    activity: &Arc<Activity>,
    port: Port,
    peer: Peer,
    mut request: Request<Incoming>,
) -> Answering<H, impl Future<Output = Response<Body>> + Send + use<H>> {
    let is_http1 = request.version() < Version::HTTP_2;
    if H::PASSES_ON && is_http1 {
        if !activity.begins_clearly() {
            request.extensions_mut().insert(Unclear);
        }
        if !request.body().is_end_stream() {
            request.extensions_mut().insert(Receiving::new(activity));
        }
    }
    Answering {
        ahead: if H::PASSES_ON { activity.take_ahead() } else { None },
        running: Some(Running::new(activity, H::HAS_TIMEOUTS)),
        port,
        is_http1,
        handling: H::serve(Arc::clone(&activity.app), peer, request),
        handler: PhantomData,
    }
}

impl<H: Handler, F: Future<Output = Response<Body>>> Future for Answering<H, F> {
    type Output = Result<Response<Counted>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let running = this.running.as_ref().expect(RUNS);
        let mut response = match this.ahead.take() {
            Some(response) => *response,
            None => ready!(polled::<H>(this.handling, context, &running.activity().app, *this.port)),
        };
        let running = this.running.take().expect(RUNS);
        let activity = running.activity();
        if *this.is_http1 && activity.is_last() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(tunnel) = response.extensions_mut().remove::<Tunnel>() {
            activity.leads_to(tunnel);
        }
        let is_offered = H::HAS_TIMEOUTS && !*this.is_http1;
        Poll::Ready(Ok(response.map(|body| if is_offered { running.offered(body) } else { running.counted(body) })))
    }
}

/// Asks a handler to go on. One that panics has answered that it is broken.
pub(super) fn polled<H: Handler>(
    handling: Pin<&mut (impl Future<Output = Response<Body>> + ?Sized)>,
    context: &mut Context<'_>,
    app: &App,
    port: Port,
) -> Poll<Response<Body>> {
    // What a handler that panicked leaves behind is dropped and not looked at again, except for the engine, whose locks end with the panic.
    catch_unwind(AssertUnwindSafe(|| handling.poll(context))).unwrap_or_else(|_| {
        app.metrics.failed(port, ConnectionFailure::Panic);
        Poll::Ready(H::broken())
    })
}
