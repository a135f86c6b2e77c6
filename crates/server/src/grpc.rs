//! The service that Envoy asks, and what goes with it: health and reflection.
//!
//! | module | holds |
//! | --- | --- |
//! | [`rate_limit`] | `ShouldRateLimit`: by files of the reference service, by rules |
//! | [`question`] | what is asked, read from the bytes of a message |
//! | `wire`, `deadline` | messages in bodies, timeouts in headers |
//! | [`failure`] | how calls fail |
//! | `health`, `reflection` | the two services that every gRPC server has |
//! | [`proto`] | the messages |

mod deadline;
pub mod failure;
mod health;
pub mod proto;
pub mod question;
pub mod rate_limit;
mod reflection;
mod wire;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use tokio::time::timeout;

use self::failure::{Code, Failure};
use self::question::Question;
use self::wire::Messages;
use crate::app::{App, Peer};
use crate::body::Body;
use crate::metrics::{AnswerCode, Protocol};
use crate::watch::Watch;

/// Answers a request on the port of gRPC.
pub fn serve<B>(app: Arc<App>, _peer: Peer, request: Request<B>) -> impl Future<Output = Response<Body>> + Send
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
{
    let refusal = refuse(&request);
    let (head, body) = request.into_parts();
    async move {
        if let Some(refusal) = refusal {
            app.metrics.count_answer(Protocol::Grpc, AnswerCode::Http(refusal.status().as_u16()));
            return refusal;
        }
        if head.uri.path() == rate_limit::SHOULD_RATE_LIMIT {
            return wire::response(should_rate_limit(&app, &head.headers, body).await);
        }
        let answer = Box::pin(other(&app, head.uri.path(), body)).await;
        let code = answer.as_ref().map_or_else(|failure| failure.code, |_| Code::Ok);
        app.metrics.count_answer(Protocol::Grpc, AnswerCode::Grpc(code as u8));
        answer.map_or_else(|failure| failure.response(), wire::success)
    }
}

/// The call on whose path every decision is.
async fn should_rate_limit<B>(app: &Arc<App>, headers: &HeaderMap, body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let message = read(app, body).await;
    let mut watch = app.watch(Protocol::Grpc, headers);
    let answer = match message {
        Ok(message) => answer(app, &mut watch, headers, &message).await,
        Err(failure) => Err(failure),
    };
    let code = answer.as_ref().map_or_else(|failure| failure.code, |_| Code::Ok);
    watch.answered(app, AnswerCode::Grpc(code as u8));
    answer
}

async fn answer(app: &Arc<App>, watch: &mut Watch, headers: &HeaderMap, message: &[u8]) -> Result<Bytes, Failure> {
    let patience = deadline::patience(headers)?;
    let question = Question::read(message)?;
    let answered = rate_limit::answer(app, watch, &question, patience).await?;
    Ok(wire::framed(&answered.response))
}

/// All other calls.
async fn other<B>(app: &Arc<App>, path: &str, body: B) -> Result<Body, Failure>
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
{
    let has_reflection = || app.settings.grpc.as_ref().is_some_and(|port| port.reflection);
    match path {
        health::CHECK => {
            let answer = health::check(app, &read(app, body).await?)?;
            Ok(Body::full(answer).with_trailers(wire::ok_trailers()))
        }
        health::WATCH => health::watch(app, &read(app, body).await?),
        path if reflection::PATHS.contains(&path) && has_reflection() => Ok(reflection::converse(app, body)),
        _ => Err(Failure::new(Code::Unimplemented, "there is no such call")),
    }
}

/// The one message of a request, within the time that it may take.
async fn read<B>(app: &App, body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let limits = &app.settings.limits;
    match timeout(limits.read_timeout, Messages::new(body, limits.body_bytes).only()).await {
        Ok(message) => message,
        Err(_) => Err(Failure::new(Code::DeadlineExceeded, "the request did not come in time")),
    }
}

/// What is said to those who do not speak gRPC.
fn refuse<B>(request: &Request<B>) -> Option<Response<Body>> {
    if request.version() < Version::HTTP_2 {
        return Some(refusal(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "this port speaks gRPC, over HTTP/2 only\n"));
    }
    if request.method() != Method::POST {
        let mut refusal = refusal(StatusCode::METHOD_NOT_ALLOWED, "this port speaks gRPC, whose calls are POST\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return Some(refusal);
    }
    if !request.headers().get(CONTENT_TYPE).is_some_and(is_grpc) {
        return Some(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "this port speaks gRPC: application/grpc\n"));
    }
    None
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// `application/grpc`, also with `+proto` and with parameters; other codecs and the form for browsers are not understood.
fn is_grpc(content_type: &HeaderValue) -> bool {
    let is_ours = |rest: &[u8]| matches!(rest.split(|&byte| byte == b';').next(), Some(b"" | b"+proto"));
    content_type.as_bytes().strip_prefix(b"application/grpc").is_some_and(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_protobuf_over_grpc_is_understood() {
        for (content_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc+proto; v=1", true),
            ("application/grpc+json", false),
            ("application/grpc-web", false),
            ("application/grpcx", false),
            ("application/json", false),
            ("", false),
        ] {
            assert_eq!(is_grpc(&HeaderValue::from_static(content_type)), expected, "{content_type:?}");
        }
    }
}
