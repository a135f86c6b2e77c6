//! How calls fail.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue, Response};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tidegate_engine::engine::UsageError;

use super::wire;
use crate::body::Body;

/// What is not sent as it is in `grpc-message`.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

pub(super) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(super) const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// The codes that calls end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// It is answered.
    Ok = 0,
    /// The request makes no sense.
    InvalidArgument = 3,
    /// The request did not come in time.
    DeadlineExceeded = 4,
    /// Nobody knows that.
    NotFound = 5,
    /// The request is too large.
    ResourceExhausted = 8,
    /// The service has no rules.
    FailedPrecondition = 9,
    /// The request broke off.
    Aborted = 10,
    /// There is no such call, or no such compression.
    Unimplemented = 12,
    /// The service is about to stop.
    Unavailable = 14,
}

/// A call that is not answered. There is no denial among the reasons: a denial is an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind.
    pub code: Code,
    /// What is wrong. Nothing in it is secret.
    pub message: Cow<'static, str>,
}

impl Failure {
    /// A failure.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// A request that makes no sense.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// The response, which is one of trailers only.
    pub(super) fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, wire::CONTENT_TYPE);
        if self.code == Code::Unimplemented {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        headers.extend(self.trailers());
        response
    }

    /// The same at the end of a stream.
    pub(super) fn trailers(&self) -> http::HeaderMap {
        let mut trailers = http::HeaderMap::with_capacity(2);
        trailers.insert(STATUS, HeaderValue::from(self.code as u16));
        let message = utf8_percent_encode(&self.message, ENCODED).to_string();
        if let Ok(message) = HeaderValue::try_from(message) {
            trailers.insert(MESSAGE, message);
        }
        trailers
    }
}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Self {
        let code = if error == UsageError::NoRules { Code::FailedPrecondition } else { Code::InvalidArgument };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_of_ascii() {
        let trailers = Failure::invalid("50 % of\n\"größe\"").trailers();

        assert_eq!(trailers[STATUS], "3");
        assert_eq!(trailers[MESSAGE], "50 %25 of%0A\"gr%C3%B6%C3%9Fe\"");
    }

    #[test]
    fn calls_that_make_no_sense_are_invalid_and_missing_rules_are_not_the_callers_fault() {
        assert_eq!(Failure::from(UsageError::NoDescriptors).code, Code::InvalidArgument);
        assert_eq!(Failure::from(UsageError::NoRules).code, Code::FailedPrecondition);
    }
}
