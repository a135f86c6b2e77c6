//! The reference service's JSON form: a `RateLimitRequest` in, a `RateLimitResponse` out, with the status of a plain HTTP service.
//!
//! 200 is allowed, 429 denied, 400 a request that makes no sense. A denial because the store could not be asked is 503, where the reference service
//! says 400.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use prost_types::value::Kind;
use tidegate_core::descriptors::Unit;
use tidegate_core::descriptors::answer::Code as Overall;

use super::problem::Problem;
use super::write::Writer;
use super::{counted, json, read, rls_read};
use crate::app::App;
use crate::body::Body;
use crate::grpc::failure::{Code, Failure};
use crate::grpc::proto::RateLimitResponse;
use crate::grpc::proto::rate_limit_response::DescriptorStatus;
use crate::grpc::question::Question;
use crate::grpc::rate_limit::{self, Answered};
use crate::metrics::{AnswerCode, Protocol};
use crate::watch::Watch;

/// Answers a request.
pub(super) async fn serve<B>(app: &Arc<App>, head: &Parts, body: B) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    // Callers of the reference service do not say that it is JSON, so it is not asked.
    let body = match read::whole(body, &app.settings.limits).await {
        Ok(body) => body,
        Err(problem) => return counted(app, Protocol::Json, problem.into_response()),
    };
    let mut watch = app.watch(Protocol::Json, &head.headers);
    let response = match ask(app, &mut watch, &body).await {
        Ok(answered) => respond(&answered),
        Err(problem) => problem.into_response(),
    };
    watch.answered(app, AnswerCode::Http(response.status().as_u16()));
    response
}

async fn ask(app: &Arc<App>, watch: &mut Watch, body: &[u8]) -> Result<Answered, Problem> {
    let message = rls_read::read(body)?;
    let question = Question::of(&message).map_err(|refusal| Problem::bad_request(refusal.to_string()))?;
    Ok(rate_limit::answer(app, watch, &question, None).await?)
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let status = match failure.code {
            Code::FailedPrecondition => StatusCode::INTERNAL_SERVER_ERROR,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, failure.message)
    }
}

fn respond(answered: &Answered) -> Response<Body> {
    let status = match answered.response.overall_code {
        code if code != Overall::OverLimit as i32 => StatusCode::OK,
        _ if answered.is_by_policy => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    };
    let mut writer = Writer::with_capacity(256);
    write(&mut writer, &answered.response);
    json(status, writer.into_bytes())
}

/// Writes a response as protobuf does it: what has the value that it has anyway is left out.
fn write(writer: &mut Writer, response: &RateLimitResponse) {
    writer.open('{');
    writer.member("overallCode").text(code(response.overall_code));
    writer.member("statuses").open('[');
    for status in &response.statuses {
        write_status(writer, status);
    }
    writer.close(']');
    if !response.response_headers_to_add.is_empty() {
        writer.member("responseHeadersToAdd").open('[');
        for header in &response.response_headers_to_add {
            writer.open('{');
            writer.member("key").text(&header.key);
            writer.member("value").text(&header.value);
            writer.close('}');
        }
        writer.close(']');
    }
    if !response.raw_body.is_empty() {
        writer.member("rawBody").text(&BASE64_STANDARD.encode(&response.raw_body));
    }
    if let Some(metadata) = &response.dynamic_metadata {
        writer.member("dynamicMetadata");
        write_struct(writer, metadata);
    }
    writer.close('}');
}

fn write_status(writer: &mut Writer, status: &DescriptorStatus) {
    writer.open('{');
    writer.member("code").text(code(status.code));
    if let Some(limit) = &status.current_limit {
        writer.member("currentLimit").open('{');
        if !limit.name.is_empty() {
            writer.member("name").text(&limit.name);
        }
        if limit.requests_per_unit > 0 {
            writer.member("requestsPerUnit").number(limit.requests_per_unit.into());
        }
        if let Some(unit) = Unit::from_number(limit.unit).filter(|unit| *unit != Unit::Unknown) {
            writer.member("unit").text(unit.name());
        }
        writer.close('}');
    }
    if status.limit_remaining > 0 {
        writer.member("limitRemaining").number(status.limit_remaining.into());
    }
    if let Some(wait) = &status.duration_until_reset {
        writer.member("durationUntilReset").text(&format!("{}s", wait.seconds));
    }
    writer.close('}');
}

fn code(code: i32) -> &'static str {
    if code == Overall::OverLimit as i32 { "OVER_LIMIT" } else { "OK" }
}

fn write_struct(writer: &mut Writer, fields: &prost_types::Struct) {
    writer.open('{');
    for (name, value) in &fields.fields {
        writer.named(name);
        write_value(writer, value);
    }
    writer.close('}');
}

fn write_value(writer: &mut Writer, value: &prost_types::Value) {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => writer.null(),
        Some(Kind::BoolValue(flag)) => writer.flag(*flag),
        Some(Kind::NumberValue(number)) => writer.float(*number),
        Some(Kind::StringValue(text)) => writer.text(text),
        Some(Kind::StructValue(fields)) => write_struct(writer, fields),
        Some(Kind::ListValue(list)) => {
            writer.open('[');
            for value in &list.values {
                write_value(writer, value);
            }
            writer.close(']');
        }
    }
}
