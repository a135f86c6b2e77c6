//! The `RuleSet` IR: one immutable document, written by `tidegate.rules.compile` and read here.
//!
//! Python has checked it and told people in their own words what is wrong; what is refused here is a document that nobody checked.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::descriptors::spec::DomainSpec;

/// The version of the document that this build reads.
pub const VERSION: u32 = 1;

/// Everything in force.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSetSpec {
    /// [`VERSION`].
    pub version: u32,
    /// The name of the set.
    pub domain: String,
    /// Where `client` comes from; the first that is present wins.
    #[serde(default)]
    pub identity: Vec<SourceSpec>,
    /// How claims are verified.
    #[serde(default)]
    pub jwt: Option<JwtSpec>,
    /// The rules, in the order of the files.
    #[serde(default)]
    pub rules: Vec<RuleSpec>,
    /// Trees in the format of the reference rate limit service.
    #[serde(default)]
    pub domains: Vec<DomainSpec>,
}

/// One place where a client can be named.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum SourceSpec {
    /// A header, in lower case, that also becomes an attribute.
    Header {
        /// Its name.
        header: String,
        /// The attribute.
        attribute: String,
        /// Keys, or patterns with `*` and `?` that keys fit: what fits none of them names nobody. Empty is that everything does.
        #[serde(default)]
        valid: Vec<String>,
    },
    /// A verified claim that also becomes an attribute.
    Claim {
        /// Its name.
        claim: String,
        /// The attribute.
        attribute: String,
    },
    /// The address.
    Ip {
        /// Whom to believe, and how much of an address counts.
        ip: IpSpec,
    },
    /// An attribute that the caller passes.
    Attribute {
        /// Its name.
        attribute: String,
    },
}

/// How the client's address is found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IpSpec {
    /// Networks whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<String>,
    /// How many bits of an IPv6 address make one client.
    pub ipv6_prefix: u8,
}

/// How claims are verified: with a key, or by somebody in front.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtSpec {
    /// The header that holds the token.
    pub header: String,
    /// `upstream`: the signature is not looked at.
    #[serde(default)]
    pub verified_by: Option<String>,
    /// Accepted algorithms.
    #[serde(default)]
    pub algorithms: Vec<String>,
    /// The shared secret, in base64.
    #[serde(default)]
    pub secret: Option<String>,
    /// The public key, in PEM.
    #[serde(default)]
    pub public_key: Option<String>,
    /// The issuer to insist on.
    #[serde(default)]
    pub issuer: Option<String>,
    /// Audiences of which one must be named.
    #[serde(default)]
    pub audience: Vec<String>,
    /// How wrong clocks may be, in seconds.
    #[serde(default)]
    pub leeway_s: u64,
}

impl std::fmt::Debug for JwtSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtSpec").field("header", &self.header).field("algorithms", &self.algorithms).finish_non_exhaustive()
    }
}

/// A named, matched, partitioned set of quotas.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// Unique in the set.
    pub name: String,
    /// Conditions that must all hold.
    #[serde(rename = "match", default)]
    pub conditions: Vec<ConditionSpec>,
    /// Attributes that make the key; none counts everybody together.
    pub per: Vec<String>,
    /// The plan of keys that have no other.
    pub quotas: Vec<QuotaText>,
    /// Plans by the attribute `tier`.
    #[serde(default)]
    pub tiers: BTreeMap<String, Vec<QuotaText>>,
    /// Plans of single keys.
    #[serde(default)]
    pub overrides: Vec<OverrideSpec>,
    /// What quotas of members use for this rule that name no algorithm; those of the rule itself name theirs.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// What a request costs.
    pub cost: CostSpec,
    /// Whether it decides.
    pub mode: Mode,
    /// The share of keys for which it does, in hundredths of a percent.
    pub rollout: u16,
    /// Where that share begins: keys before it have another version of the rule, which takes over step by step.
    #[serde(default)]
    pub rollout_from: u16,
    /// Higher ones are looked at first.
    pub priority: i32,
    /// Whether no later rule is looked at once this one applies.
    pub stop: bool,
    /// What is decided when the store cannot; `None` is the engine's default.
    #[serde(default)]
    pub on_store_error: Option<StoreErrorPolicy>,
    /// How long the store may take.
    #[serde(default)]
    pub budget_ms: Option<u32>,
    /// Whether clients are told about its quotas.
    pub headers: bool,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
    /// For people.
    #[serde(default)]
    pub owner: Option<String>,
}

/// One quota, as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaText {
    /// Such as `100/minute burst 20`.
    pub text: String,
    /// Its name in headers and metrics.
    #[serde(default)]
    pub name: Option<String>,
}

/// The plan of one key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum OverrideSpec {
    /// Quotas of its own.
    Quotas {
        /// The values of the `per` attributes, in their order.
        key: Vec<String>,
        /// The quotas.
        quotas: Vec<QuotaText>,
    },
    /// One of the rule's tiers.
    Tier {
        /// The values of the `per` attributes, in their order.
        key: Vec<String>,
        /// The tier.
        tier: String,
    },
}

/// What a request costs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum CostSpec {
    /// Always the same.
    Units {
        /// So much.
        units: u64,
    },
    /// What an attribute says.
    Attribute {
        /// Which one.
        attribute: String,
        /// If it is absent or no number.
        default: u64,
        /// If it is more.
        max: Option<u64>,
    },
}

/// Whether a rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Yes.
    Enforce,
    /// It counts as if it did.
    Shadow,
    /// It is not looked at.
    Off,
}

/// What a rule wants decided when the store cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreErrorPolicy {
    /// Each instance enforces its share.
    Local,
    /// Let it pass.
    Allow,
    /// Refuse it.
    Deny,
}

/// What is asked of one attribute.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionSpec {
    /// A name, `header:name` or `query:name`.
    pub attribute: String,
    /// What must hold.
    pub test: TestSpec,
    /// Whether it must not.
    pub not: bool,
    /// Whether `A` is `a`.
    pub ignore_case: bool,
}

/// A test, by any of several texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestSpec {
    /// It is there.
    Present,
    /// The same text.
    Exact(Vec<String>),
    /// Begins so.
    Prefix(Vec<String>),
    /// Ends so.
    Suffix(Vec<String>),
    /// `*` and `?`.
    Glob(Vec<String>),
    /// A regular expression for the whole text.
    Regex(Vec<String>),
    /// A network.
    Cidr(Vec<String>),
    /// A path.
    Pattern(Vec<String>),
}
