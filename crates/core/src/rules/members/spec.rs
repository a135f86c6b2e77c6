//! The document of members: written by `tidegate.control.members` and read here, beside the rule set and independent of it.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use crate::rules::spec::QuotaText;

/// The version of the document that this build reads.
pub const VERSION: u32 = 1;

/// Quotas by the name of a rule.
pub type QuotasByRule = BTreeMap<String, Vec<QuotaText>>;

/// What customers have of their own.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MembersSpec {
    /// [`VERSION`].
    pub version: u32,
    /// By the digest of their key, in hexadecimal digits.
    #[serde(default)]
    pub keys: HashMap<String, MemberSpec>,
    /// By the attribute `tenant`.
    #[serde(default)]
    pub tenants: BTreeMap<String, TenantSpec>,
    /// By the attribute `tier`.
    #[serde(default)]
    pub tiers: BTreeMap<String, TierSpec>,
}

/// One customer's key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberSpec {
    /// Whose key it is: wins over what the request says.
    #[serde(default)]
    pub tenant: Option<String>,
    /// Its tier: wins over that of the tenant, and over what the request says.
    #[serde(default)]
    pub tier: Option<String>,
    /// Its own quotas: win over everything else.
    #[serde(default)]
    pub quotas: QuotasByRule,
    /// Whether it is refused.
    #[serde(default)]
    pub blocked: Option<BlockedSpec>,
}

/// That a key is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockedSpec {
    /// Until when, in nanoseconds since 1970; for good if it is absent.
    #[serde(default)]
    pub until_ns: Option<u64>,
}

/// A customer with any number of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantSpec {
    /// The tier of its keys, unless they have another.
    #[serde(default)]
    pub tier: Option<String>,
    /// Its quotas: win over those of tiers.
    #[serde(default)]
    pub quotas: QuotasByRule,
}

/// A plan that customers are put on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierSpec {
    /// Its quotas: win over those that a rule itself has for a tier of this name.
    #[serde(default)]
    pub quotas: QuotasByRule,
}
