//! The trees as they cross from Python to Rust, a part of the [`RuleSet` IR](crate::rules::spec).

use serde::Deserialize;

use crate::rules::spec::QuotaText;

/// One domain.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainSpec {
    /// Its name.
    pub domain: String,
    /// Whether the descriptors of one request are charged together or not at all, and nothing that is refused counts.
    #[serde(default)]
    pub atomic: bool,
    /// The first level.
    pub descriptors: Vec<DescriptorSpec>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescriptorSpec {
    /// Its key.
    pub key: String,
    /// Its value, also with `*`; `None` is the default for the key.
    #[serde(default)]
    pub value: Option<String>,
    /// Its limit.
    #[serde(default)]
    pub limit: Option<LimitSpec>,
    /// Whether all values that match share one counter.
    #[serde(default)]
    pub share_threshold: bool,
    /// Whether the value is shown in metrics.
    #[serde(default)]
    pub value_to_metric: bool,
    /// The next level.
    #[serde(default)]
    pub descriptors: Vec<DescriptorSpec>,
}

/// What a node allows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "the format has them")]
pub struct LimitSpec {
    /// No limit at all.
    pub unlimited: bool,
    /// The quotas that decide.
    pub quotas: Vec<QuotaText>,
    /// What answers say: so many ...
    pub requests_per_unit: u32,
    /// ... per `SECOND`, `MINUTE`, ...
    pub unit: String,
    /// Its name in answers, and what others replace.
    #[serde(default)]
    pub name: Option<String>,
    /// Names of limits that are dropped when this one is matched.
    #[serde(default)]
    pub replaces: Vec<String>,
    /// Whether it decides nothing.
    #[serde(default)]
    pub shadow: bool,
    /// Whether it denies only together with all others of its kind.
    #[serde(default)]
    pub quota_mode: bool,
    /// Whether metrics show all values of the path.
    #[serde(default)]
    pub detailed_metric: bool,
    /// Handed on with the answer.
    #[serde(default)]
    pub metadata: Option<serde_json::Value>,
}
