//! Sub-requests of gateways: nginx `auth_request`, Traefik `ForwardAuth`, Caddy `forward_auth`, Envoy `ext_authz`.
//!
//! Allowed is exactly 200 without a body, denied is 429 or what the gateway asks for, with a problem in less than 1 KiB. Never a redirect, and never a
//! 401, which gateways hand to clients as a question for credentials.

use std::sync::Arc;

use http::header::CACHE_CONTROL;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::CheckOptions;
use tidegate_engine::headers::{Field, fields_in};

use super::NO_STORE;
use super::denial::denial;
use super::gateway::Original;
use super::problem::Problem;
use super::route::FORWARD_AUTH;
use super::text::each_parameter;
use crate::app::{App, Peer};
use crate::body::Body;
use crate::metrics::{AnswerCode, Protocol};

const DECISION: HeaderName = HeaderName::from_static("x-ratelimit-decision");

/// What the gateway is told in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Allow,
    Deny,
    /// Allowed, although a rule in shadow would have denied it.
    Shadow,
    /// Decided without anybody counting, whatever was decided.
    Error,
}

impl Word {
    fn of(app: &App, decision: &Decision) -> Self {
        match decision.is_allowed() {
            _ if app.engine.is_by_policy(decision) => Self::Error,
            true if !decision.shadowed().is_empty() => Self::Shadow,
            true => Self::Allow,
            false => Self::Deny,
        }
    }

    fn value(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Shadow => "shadow",
            Self::Error => "error",
        })
    }
}

/// Answers a sub-request.
pub(super) async fn serve(app: &Arc<App>, peer: Peer, head: &Parts) -> Response<Body> {
    let mut watch = app.watch(Protocol::ForwardAuth, &head.headers);
    let original = Original::of(app, peer, head);
    let decided = match deny_status(app, head) {
        Ok(deny_status) => match app.engine.begin_request(Origin::Check, &original, None, CheckOptions::default()) {
            Ok(begun) => Ok((begun.decide().await, deny_status)),
            Err(error) => Err(Problem::from(error)),
        },
        Err(problem) => Err(problem),
    };
    let response = match decided {
        Ok((decision, deny_status)) => {
            watch.decided(app, &original, &decision);
            respond(app, &decision, deny_status)
        }
        Err(problem) => {
            let mut response = problem.into_response();
            response.headers_mut().insert(DECISION, Word::Error.value());
            response
        }
    };
    watch.answered(app, AnswerCode::Http(response.status().as_u16()));
    response
}

fn respond(app: &App, decision: &Decision, deny_status: StatusCode) -> Response<Body> {
    let mut response = if decision.is_allowed() {
        let mut response = Response::new(Body::empty());
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        response
    } else {
        denial(app, decision, deny_status)
    };
    let headers = response.headers_mut();
    headers.insert(DECISION, Word::of(app, decision).value());
    tell(headers, app, decision);
    response
}

/// Adds the fields that tell a client about its quotas.
pub(crate) fn tell(headers: &mut HeaderMap, app: &App, decision: &Decision) {
    for (field, value) in fields_in(decision, app.settings.headers.profile(), app.engine.now_ns()) {
        // Names of rules are checked when they are loaded, so this is always a value.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name(field), value);
        }
    }
}

fn name(field: Field) -> HeaderName {
    // Constants, because names that are not in the standard are read letter by letter.
    const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
    const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
    const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
    const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
    const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
    match field {
        Field::Policy => POLICY,
        Field::RateLimit => RATE_LIMIT,
        Field::RetryAfter => http::header::RETRY_AFTER,
        Field::XLimit => X_LIMIT,
        Field::XRemaining => X_REMAINING,
        Field::XReset => X_RESET,
    }
}

/// The status of a denial. The gateway may choose it, but only where clients cannot: not behind an original path, whose query is theirs.
fn deny_status(app: &App, head: &Parts) -> Result<StatusCode, Problem> {
    let mut asked = None;
    if head.uri.path() == FORWARD_AUTH {
        each_parameter(head.uri.query().unwrap_or_default(), |name, value| {
            if name == "deny_status" {
                asked = Some(value);
            }
        });
    }
    let Some(asked) = asked else {
        return Ok(StatusCode::from_u16(app.settings.deny_status).unwrap_or(StatusCode::TOO_MANY_REQUESTS));
    };
    let status = asked.parse().ok().and_then(|status| StatusCode::from_u16(status).ok());
    let is_possible = |status: &StatusCode| {
        (status.is_client_error() || status.is_server_error())
            && !matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED)
    };
    status
        .filter(is_possible)
        .ok_or_else(|| Problem::bad_request("`deny_status` has to be a status from 400 to 599 other than 401 and 407"))
}
