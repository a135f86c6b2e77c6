//! Checks as JSON, forward-auth, health, metrics.
//!
//! | module | holds |
//! | --- | --- |
//! | `route` | which path is what, and by which methods |
//! | `read` | bodies, within their limits |
//! | `question`, `text`, `number` | what a check says, and the facts that it states |
//! | `check` | check, peek, usage, debit, and the way of all questions |
//! | `short` | the short way of a check |
//! | `batch` | many checks in one request |
//! | `slots` | release, renew, reset |
//! | `answer`, `write` | a decision as JSON |
//! | `date` | the time of an answer |
//! | `denial` | what clients are told who are denied |
//! | `forward_auth`, `gateway` | sub-requests of gateways |
//! | `rls`, `rls_read` | the reference service's JSON form |
//! | `health` | liveness and readiness |
//! | `pages` | what operators read: metrics, top, the `OpenAPI` document |
//! | `problem` | everything that is wrong, in one form |
//! | `token` | who may ask |

mod answer;
mod batch;
mod check;
mod date;
mod denial;
mod forward_auth;
mod gateway;
mod health;
mod number;
mod pages;
mod problem;
mod question;
mod read;
mod rls;
mod rls_read;
mod route;
mod short;
mod slots;
mod text;
mod token;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;

use self::check::Kind;
pub(crate) use self::date::extend_date;
pub(crate) use self::denial::{denial, grpc_denial, is_grpc};
pub(crate) use self::forward_auth::tell;
pub(crate) use self::gateway::{all, each};
pub(crate) use self::problem::Problem;
use self::route::Route;
pub(crate) use self::text::each_parameter;
use crate::app::{App, Peer};
use crate::body::Body;
use crate::metrics::{AnswerCode, Protocol};

pub(crate) use self::short::answer as shortcut;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Answers a request on the port of HTTP.
pub async fn serve<B>(app: Arc<App>, peer: Peer, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
{
    let (head, body) = request.into_parts();
    let response = match find(&app, peer, &head) {
        Ok(Route::Ask(kind)) => check::serve(&app, kind, &head, body).await,
        // What is rare lies elsewhere, so that what is not has less to move.
        Ok(Route::Json) => Box::pin(rls::serve(&app, &head, body)).await,
        // What a gateway sends along is not waited for.
        Ok(Route::ForwardAuth) => forward_auth::serve(&app, peer, &head).await,
        Ok(route) => counted(&app, Protocol::Http, pages::serve(&app, route, &head)),
        Err(problem) => counted(&app, Protocol::Http, problem.into_response()),
    };
    if head.method == Method::HEAD { without_body(response) } else { response }
}

/// The route of a request, if it may be taken.
fn find(app: &App, peer: Peer, head: &Parts) -> Result<Route, Problem> {
    let route = Route::find(head.uri.path());
    let is_open = matches!(route, Some(Route::Health | Route::Ready));
    if !is_open && !token::is_right(app, &head.headers) {
        // A gateway would hand a 401 to its client, as a question for credentials.
        return Err(if route == Some(Route::ForwardAuth) { Problem::forbidden() } else { Problem::unauthorized() });
    }
    let route = route.ok_or_else(Problem::not_found)?;
    if !route.takes(&head.method) {
        return Err(Problem::method_not_allowed(route.methods()));
    }
    // Everything else takes, or gives back what the caller can prove to have taken.
    if route == Route::Ask(Kind::Reset) && !token::is_operator(app, peer) {
        return Err(Problem::operators_only());
    }
    Ok(route)
}

/// Counts an answer that decides nothing.
fn counted(app: &App, protocol: Protocol, response: Response<Body>) -> Response<Body> {
    app.metrics.count_answer(protocol, AnswerCode::Http(response.status().as_u16()));
    response
}

/// An answer in JSON that is true for now only.
fn json(status: StatusCode, content: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(content));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

/// What is answered to HEAD: the same without the body, whose length is told all the same.
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Body::empty())
}
