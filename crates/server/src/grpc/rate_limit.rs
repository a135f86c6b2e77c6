//! `ShouldRateLimit`: the call that Envoy makes for every request.

mod fields;
mod files;
mod metadata;
mod native;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::descriptors::answer::{Answer, Code, Modes, Status};
use tidegate_engine::decision::Decision;

use super::failure::Failure;
use super::proto::rate_limit_response::{DescriptorStatus, RateLimit};
use super::proto::{HeaderValue, RateLimitResponse};
use super::question::Question;
use crate::app::App;
use crate::settings::Told;
use crate::watch::Watch;

/// The service by its full name.
pub const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

pub(super) const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// An answer, and how it came about.
#[derive(Debug)]
pub struct Answered {
    /// What is said.
    pub response: RateLimitResponse,
    /// Whether it was decided without the store.
    pub is_degraded: bool,
    /// Whether nobody counted: see [`Engine::is_by_policy`](tidegate_engine::engine::Engine::is_by_policy).
    pub is_by_policy: bool,
}

/// The decisions of rules on descriptors; `None` for a descriptor without entries.
type Decisions = SmallVec<[Option<Decision>; 1]>;

/// What was decided, before it is put into words.
#[derive(Debug)]
struct Decided {
    answer: Answer,
    /// Why the store could not decide, as one word.
    degraded: Option<&'static str>,
    /// By rules: one for each descriptor. By files: none.
    decisions: Decisions,
}

impl Decided {
    /// Whether something is out of the ordinary: denied, nearly denied, or decided without the store.
    fn is_notable(&self) -> bool {
        let is_notable = |status: &Status| status.is_over || status.is_shadowed;
        self.degraded.is_some() || self.is_denied() || self.answer.statuses.iter().any(is_notable)
    }

    fn is_denied(&self) -> bool {
        self.answer.overall == Code::OverLimit
    }

    /// Whether nobody counted.
    fn is_by_policy(&self, app: &App) -> bool {
        match (self.degraded, self.decisions.is_empty()) {
            (None, _) => false,
            (Some(_), true) => !app.engine.counts_without_store(),
            (Some(_), false) => self.decisions.iter().flatten().any(|decision| app.engine.is_by_policy(decision)),
        }
    }

    /// The decision that headers tell, if rules took it.
    fn tightest(&self) -> Option<&Decision> {
        self.answer.tightest().and_then(|index| self.decisions.get(index)?.as_ref())
    }

    fn is_told(&self, told: Told) -> bool {
        match told {
            Told::Off => false,
            Told::Notable => self.is_notable(),
            Told::All => true,
        }
    }
}

/// Answers a question.
///
/// # Errors
/// It makes no sense. A denial is not an error, and neither is a store that cannot answer.
pub async fn answer(
    app: &Arc<App>,
    watch: &mut Watch,
    question: &Question<'_>,
    patience: Option<Duration>,
) -> Result<Answered, Failure> {
    let rls = app.settings.rls;
    let modes = Modes { is_shadow: rls.shadow_mode, is_quota: rls.quota_mode };
    let decided = if native::is_asked(app, question.domain) {
        native::decide(app, watch, question, modes, patience).await?
    } else {
        files::decide(app, watch, question, modes, patience).await?
    };
    Ok(put(app, question, &decided))
}

/// Puts a decision into words.
fn put(app: &App, question: &Question<'_>, decided: &Decided) -> Answered {
    let rls = app.settings.rls;
    let mut response = RateLimitResponse {
        overall_code: decided.answer.overall as i32,
        statuses: decided.answer.statuses.iter().map(status).collect(),
        ..RateLimitResponse::default()
    };
    if decided.is_told(rls.headers) {
        response.response_headers_to_add = fields::of(app, decided);
        if decided.is_denied() {
            response.response_headers_to_add.push(field(http::header::CONTENT_TYPE.as_str(), "application/problem+json"));
            response.raw_body = fields::problem(decided).into();
        }
    }
    if decided.is_told(rls.metadata) {
        response.dynamic_metadata = Some(metadata::of(question, decided));
    }
    Answered { response, is_degraded: decided.degraded.is_some(), is_by_policy: decided.is_by_policy(app) }
}

fn status(status: &Status) -> DescriptorStatus {
    let duration = |seconds: u64| prost_types::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 };
    DescriptorStatus {
        code: status.code() as i32,
        current_limit: status.current_limit.as_ref().map(|limit| RateLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.number(),
            name: limit.name.as_deref().unwrap_or_default().to_owned(),
        }),
        limit_remaining: status.remaining,
        duration_until_reset: status.reset_after_s.map(duration),
        quota: None,
    }
}

fn field(name: &str, value: impl Into<String>) -> HeaderValue {
    HeaderValue { key: name.to_owned(), value: value.into(), ..HeaderValue::default() }
}

/// The name of a descriptor's limit: its own or, if it has none, what it says.
fn name_of(status: &Status) -> Option<Cow<'_, str>> {
    let limit = status.current_limit.as_ref()?;
    Some(match &limit.name {
        Some(name) => Cow::Borrowed(&**name),
        None => Cow::Owned(format!("{}/{}", limit.requests_per_unit, limit.unit.name().to_ascii_lowercase())),
    })
}
