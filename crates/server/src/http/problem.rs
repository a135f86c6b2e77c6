//! Everything that is wrong, in one form: problem details (RFC 9457).

use std::borrow::Cow;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use tidegate_engine::engine::UsageError;

use super::NO_STORE;
use super::write::Writer;
use crate::body::Body;

/// The most characters of a detail: it may quote what the client sent.
const DETAIL_MAX: usize = 400;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// What is wrong with a request.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(super) status: StatusCode,
    pub(super) detail: Cow<'static, str>,
    /// Where in the body, if it is about the body: line and column, from 1.
    place: Option<(usize, usize)>,
    /// A field that says what to do.
    hint: Option<Hint>,
}

/// A field that goes with a status.
#[derive(Debug, Clone, Copy)]
enum Hint {
    Challenge,
    Allow(&'static str),
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, detail: detail.into(), place: None, hint: None }
    }

    pub(crate) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// A body that is not what was expected.
    pub(super) fn bad_json(error: &serde_json::Error) -> Self {
        let place = Some((error.line(), error.column())).filter(|(line, _)| *line > 0);
        Self { place, ..Self::bad_request(error.to_string()) }
    }

    pub(super) fn unauthorized() -> Self {
        let detail = "this service asks for its token, in `Authorization: Bearer` or `X-Tidegate-Token`";
        Self { hint: Some(Hint::Challenge), ..Self::new(StatusCode::UNAUTHORIZED, detail) }
    }

    pub(super) fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "the gateway has to send the token of this service, in `X-Tidegate-Token`")
    }

    pub(super) fn operators_only() -> Self {
        let detail = "a reset is for operators: set a token (`http.token`), or ask from the machine of the service";
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is nothing here; /openapi.json says what there is")
    }

    pub(super) fn method_not_allowed(methods: &'static str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("it is asked by {methods}")).allowing(methods)
    }

    /// The same, with the methods that would have been right.
    pub(crate) fn allowing(self, methods: &'static str) -> Self {
        Self { hint: Some(Hint::Allow(methods)), ..self }
    }

    /// Writes its members, without the braces around them.
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.member("type").text("about:blank");
        writer.member("title").text(self.status.canonical_reason().unwrap_or("Error"));
        writer.member("status").number(self.status.as_u16().into());
        let end = self.detail.char_indices().nth(DETAIL_MAX).map_or(self.detail.len(), |(end, _)| end);
        writer.member("detail").text(&self.detail[..end]);
        if let Some((line, column)) = self.place {
            writer.member("line").number(line as u64);
            writer.member("column").number(column as u64);
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut writer = Writer::with_capacity(256);
        writer.open('{');
        self.write(&mut writer);
        writer.close('}');
        let mut response = response(self.status, writer);
        let headers = response.headers_mut();
        match self.hint {
            Some(Hint::Challenge) => headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tidegate\"")),
            Some(Hint::Allow(methods)) => headers.insert(ALLOW, HeaderValue::from_static(methods)),
            None => None,
        };
        response
    }
}

/// A response with problem details that were written.
pub(super) fn response(status: StatusCode, details: Writer) -> Response<Body> {
    let mut response = Response::new(Body::full(details.into_bytes()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

impl From<UsageError> for Problem {
    fn from(error: UsageError) -> Self {
        match error {
            // It is the rules that make no sense, not the request.
            UsageError::NoRules | UsageError::TooManyQuotas { .. } => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
            _ => Self::bad_request(error.to_string()),
        }
    }
}
