//! Liveness and readiness.

use http::{Response, StatusCode};

use super::json;
use super::write::Writer;
use crate::app::App;
use crate::body::Body;

/// The most characters of a reason's detail.
const DETAIL_MAX: usize = 300;

/// Why not everything is as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reason {
    code: &'static str,
    detail: String,
}

impl Reason {
    fn new(code: &'static str, detail: &str) -> Self {
        Self { code, detail: detail.chars().take(DETAIL_MAX).collect() }
    }
}

/// Whether the process answers at all.
pub(super) fn live() -> Response<Body> {
    json(StatusCode::OK, &b"{\"status\":\"ok\"}"[..])
}

/// Whether requests should come here, and what is not as it should be. Details are only for those who may ask everything.
pub(super) fn ready(app: &App, shows_details: bool) -> Response<Body> {
    let reasons = reasons(app);
    let (status, word) = match (app.is_draining(), reasons.is_empty()) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        (false, true) => (StatusCode::OK, "ready"),
        // Decisions are taken all the same, and no other instance is better off.
        (false, false) => (StatusCode::OK, "degraded"),
    };
    let mut writer = Writer::with_capacity(128);
    writer.open('{');
    writer.member("status").text(word);
    writer.member("generation").number(app.engine.stats().generation);
    writer.member("reasons").open('[');
    for reason in &reasons {
        writer.open('{');
        writer.member("code").text(reason.code);
        if shows_details {
            writer.member("detail").text(&reason.detail);
        }
        writer.close('}');
    }
    writer.close(']');
    writer.close('}');
    json(status, writer.into_bytes())
}

fn reasons(app: &App) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if app.is_draining() {
        reasons.push(Reason::new("draining", "the service is about to stop; it still answers"));
    }
    if let Some(problem) = app.reload_problem() {
        reasons.push(Reason::new("rules_not_reloaded", &problem));
    }
    if let Some(problem) = app.control_problem() {
        reasons.push(Reason::new("control_plane_failing", &problem));
    }
    if let Some(problem) = app.tls_problem() {
        reasons.push(Reason::new("certificates_not_reloaded", &problem));
    }
    if let Some(proxy) = &app.proxy {
        if let Some(problem) = proxy.problem() {
            reasons.push(Reason::new("upstreams_not_reloaded", &problem));
        }
        reasons.extend(proxy.group_problems().iter().map(|problem| Reason::new("upstream_down", problem)));
    }
    let health = app.engine.remote().map(|remote| remote.health());
    for shard in health.iter().flat_map(|health| &health.shards) {
        if !shard.is_up {
            reasons.push(Reason::new("store_down", &format!("{}: {}", shard.name, shard.why)));
        } else if shard.breaker != "closed" {
            reasons.push(Reason::new("store_failing", &format!("{}: breaker {}: {}", shard.name, shard.breaker, shard.why)));
        }
    }
    reasons
}
