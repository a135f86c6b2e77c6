//! What operators read: health, metrics, the keys that are denied most, the `OpenAPI` document.

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};

use super::problem::Problem;
use super::route::Route;
use super::text::each_parameter;
use super::{NO_STORE, health, json, token};
use crate::app::App;
use crate::body::Body;
use crate::metrics;

/// How many keys are told if nobody says a number.
const TOP_DEFAULT: usize = 20;

/// How many keys can be asked for.
const TOP_MAX: usize = 100_000;

/// Everything that this port answers, for programs that make clients of it.
const OPENAPI: &str = include_str!("openapi.json");

/// Answers what needs no body and no decision.
pub(super) fn serve(app: &App, route: Route, head: &Parts) -> Response<Body> {
    match route {
        Route::Health => health::live(),
        Route::Ready => health::ready(app, token::is_right(app, &head.headers)),
        Route::Metrics => {
            let mut response = Response::new(Body::full(app.metrics.render(app)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
            response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
            response
        }
        Route::Top => match top_count(head) {
            Ok(count) => json(StatusCode::OK, app.top.to_json(count)),
            Err(problem) => problem.into_response(),
        },
        Route::OpenApi => json(StatusCode::OK, OPENAPI),
        Route::Ask(_) | Route::ForwardAuth | Route::Json => Problem::not_found().into_response(),
    }
}

/// How many keys are asked for, by `?n=`.
fn top_count(head: &Parts) -> Result<usize, Problem> {
    let mut count = Ok(TOP_DEFAULT);
    each_parameter(head.uri.query().unwrap_or_default(), |name, value| {
        if name == "n" {
            let problem = || Problem::bad_request(format!("`n` has to be a whole number up to {TOP_MAX}"));
            count = value.parse().ok().filter(|count| *count <= TOP_MAX).ok_or_else(problem);
        }
    });
    count
}

#[cfg(test)]
mod tests {
    use super::OPENAPI;

    #[test]
    fn the_document_is_of_this_version() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).expect("JSON");
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
