//! What the claims of a token must say, and what they are as texts.

use serde_json::{Map, Value};
use tidegate_core::rules::spec::JwtSpec;

/// From here on, neighbouring whole numbers cannot be told apart when they were read as fractions.
const FRACTION_MAX: f64 = 9_007_199_254_740_992.0;

/// What is demanded of every token.
#[derive(Debug)]
pub(super) struct Demands {
    issuer: Option<String>,
    /// One of these must be named; if there are none, nothing is asked.
    audience: Vec<String>,
    leeway_s: u64,
}

impl Demands {
    pub(super) fn new(spec: &JwtSpec) -> Self {
        Self { issuer: spec.issuer.clone(), audience: spec.audience.clone(), leeway_s: spec.leeway_s }
    }

    /// Whether the token holds now, and for us.
    pub(super) fn are_met(&self, claims: &Map<String, Value>, now_s: u64) -> bool {
        self.is_in_time(claims, now_s) && self.is_from_issuer(claims) && self.is_for_audience(claims)
    }

    /// Half open: at the second of `nbf` a token holds, at that of `exp` it does not. A time that is no number holds never.
    fn is_in_time(&self, claims: &Map<String, Value>, now_s: u64) -> bool {
        let is_expired = |exp: u64| now_s >= exp.saturating_add(self.leeway_s);
        let is_early = |nbf: u64| now_s.saturating_add(self.leeway_s) < nbf;
        claims.get("exp").is_none_or(|exp| seconds(exp).is_some_and(|exp| !is_expired(exp)))
            && claims.get("nbf").is_none_or(|nbf| seconds(nbf).is_some_and(|nbf| !is_early(nbf)))
    }

    fn is_from_issuer(&self, claims: &Map<String, Value>) -> bool {
        self.issuer.as_ref().is_none_or(|issuer| claims.get("iss").is_some_and(|found| found == issuer))
    }

    fn is_for_audience(&self, claims: &Map<String, Value>) -> bool {
        let is_wanted = |found: &Value| self.audience.iter().any(|audience| found == audience);
        self.audience.is_empty()
            || match claims.get("aud") {
                Some(Value::Array(several)) => several.iter().any(is_wanted),
                Some(one) => is_wanted(one),
                None => false,
            }
    }
}

/// A time in seconds since the epoch; fractions are rounded up, which is exact for comparisons with whole seconds.
fn seconds(time: &Value) -> Option<u64> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times before the epoch are 0, and late ones the latest"
    )]
    time.as_u64().or_else(|| time.as_f64().map(|time| time.ceil() as u64))
}

/// A claim as text, if it is one plain value.
pub(super) fn text(claim: &Value) -> Option<String> {
    match claim {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Bool(is_true) => Some(is_true.to_string()),
        // A whole number that does not fit 64 bits was read as a fraction: it would name its neighbours too.
        Value::Number(number) if number.is_f64() && number.as_f64().is_none_or(|number| number.abs() >= FRACTION_MAX) => None,
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
