//! The trees, compiled: immutable, and found by hash.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::spec::{DescriptorSpec, DomainSpec, LimitSpec};
use super::unit::Unit;
use super::wildcard::Wildcard;
use crate::quota::{Quota, QuotaError, QuotaSpec, parse_specs};
use crate::rules::spec::QuotaText;

/// The deepest tree.
pub const DEPTH_MAX: usize = 40;

/// Why trees cannot be compiled. Those in force stay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DomainsError {
    /// The name of a domain is empty.
    #[error("a domain has an empty name")]
    EmptyDomain,
    /// Two domains have the same name.
    #[error("duplicate domain {0}")]
    DuplicateDomain(String),
    /// A node has no key.
    #[error("{0}: a descriptor has an empty key")]
    EmptyKey(String),
    /// Two siblings have the same identity.
    #[error("duplicate descriptor {0}")]
    Duplicate(String),
    /// `share_threshold` without `*`.
    #[error("{0}: share_threshold needs a key or a value with *")]
    NothingToShare(String),
    /// The tree is too deep.
    #[error("{0}: more than {DEPTH_MAX} levels")]
    TooDeep(String),
    /// A unit that does not exist.
    #[error("{place}: invalid rate limit unit {unit:?}")]
    Unit {
        /// The dotted path of the node.
        place: String,
        /// What was given.
        unit: String,
    },
    /// Quotas where none may be, or none where one must be.
    #[error("{0}: a limit has quotas, or it is unlimited")]
    Quotas(String),
    /// A quota is wrong.
    #[error("{place}: {error}")]
    Quota {
        /// The dotted path of the node.
        place: String,
        /// What is wrong.
        error: QuotaError,
    },
}

/// All domains in force.
#[derive(Debug, Default)]
pub struct Domains {
    domains: HashMap<Box<str>, Domain>,
    limits: usize,
}

/// One domain.
#[derive(Debug)]
pub struct Domain {
    /// Its name.
    pub name: Box<str>,
    /// Whether the descriptors of one request are charged together or not at all, and nothing that is refused counts.
    pub is_atomic: bool,
    /// The first level.
    pub(super) root: Level,
}

/// Siblings.
#[derive(Debug, Default)]
pub(super) struct Level {
    nodes: Vec<Node>,
    keys: HashMap<Box<str>, OfKey>,
    wildcards: Vec<(Wildcard, usize)>,
}

/// The siblings of one key, by their positions.
#[derive(Debug, Default)]
struct OfKey {
    default: Option<usize>,
    exact: HashMap<Box<str>, usize>,
}

/// One node.
#[derive(Debug)]
pub struct Node {
    /// `key`, or `key_value`.
    pub identity: Box<str>,
    /// Whether it stands for one value or pattern, not for all values of its key.
    pub has_value: bool,
    /// Its limit.
    pub limit: Option<Limit>,
    /// Whether all values that match share one counter.
    pub is_shared: bool,
    /// Whether the value is shown in metrics.
    pub is_value_in_metric: bool,
    pub(super) children: Level,
}

/// What a node allows.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "the format has them")]
pub struct Limit {
    /// Its number: limits are numbered from 0 in the order of the document, across all domains.
    pub number: usize,
    /// The dotted path of its node, which begins with the domain.
    pub path: Arc<str>,
    /// What decides; none is unlimited.
    pub quotas: Vec<Quota>,
    /// What answers say: so many ...
    pub requests_per_unit: u32,
    /// ... per unit.
    pub unit: Unit,
    /// Its name in answers, and what others replace.
    pub name: Option<Arc<str>>,
    /// Names of limits that are dropped when this one is matched.
    pub replaces: Vec<Box<str>>,
    /// Whether it decides nothing.
    pub is_shadow: bool,
    /// Whether it denies only together with all others of its kind.
    pub is_quota: bool,
    /// Whether metrics show all values of the path.
    pub is_metric_detailed: bool,
    /// Handed on with the answer.
    pub metadata: Option<Arc<serde_json::Value>>,
}

impl Limit {
    /// Whether there is no limit at all.
    pub fn is_unlimited(&self) -> bool {
        self.quotas.is_empty()
    }
}

impl Domains {
    /// Compiles trees.
    ///
    /// # Errors
    /// See [`DomainsError`].
    pub fn new(specs: &[DomainSpec]) -> Result<Self, DomainsError> {
        let mut domains = Self::default();
        for spec in specs {
            if spec.domain.is_empty() {
                return Err(DomainsError::EmptyDomain);
            }
            let root = Level::new(&spec.descriptors, &spec.domain, 1, &mut domains.limits)?;
            let domain = Domain { name: spec.domain.as_str().into(), is_atomic: spec.atomic, root };
            if domains.domains.insert(domain.name.clone(), domain).is_some() {
                return Err(DomainsError::DuplicateDomain(spec.domain.clone()));
            }
        }
        Ok(domains)
    }

    /// The domain of this name.
    pub fn get(&self, domain: &str) -> Option<&Domain> {
        self.domains.get(domain)
    }

    /// How many domains there are.
    pub fn len(&self) -> usize {
        self.domains.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// All limits with their domains, by number.
    pub fn limits(&self) -> Vec<(&Domain, &Limit)> {
        let mut limits = Vec::with_capacity(self.limits);
        for domain in self.domains.values() {
            domain.root.each_limit(&mut |limit| limits.push((domain, limit)));
        }
        limits.sort_by_key(|(_, limit)| limit.number);
        limits
    }
}

impl Level {
    fn new(specs: &[DescriptorSpec], place: &str, depth: usize, limits: &mut usize) -> Result<Self, DomainsError> {
        if depth > DEPTH_MAX && !specs.is_empty() {
            return Err(DomainsError::TooDeep(place.to_owned()));
        }
        let mut level = Self::default();
        let mut identities = HashSet::default();
        for spec in specs {
            let node = Node::new(spec, place, depth, limits)?;
            // Judged by the joined text, as the reference service does: a file must not load here that does not load there.
            if !identities.insert(node.identity.clone()) {
                return Err(DomainsError::Duplicate(format!("{place}.{}", node.identity)));
            }
            level.add(spec, node);
        }
        Ok(level)
    }

    fn add(&mut self, spec: &DescriptorSpec, node: Node) {
        let position = self.nodes.len();
        if let Some(wildcard) = Wildcard::new(&node.identity) {
            self.wildcards.push((wildcard, position));
        }
        let of_key = self.keys.entry(spec.key.as_str().into()).or_default();
        match &spec.value {
            Some(value) if node.has_value => _ = of_key.exact.insert(value.as_str().into(), position),
            _ => of_key.default = Some(position),
        }
        self.nodes.push(node);
    }

    /// The node for one entry: that of the value, then the first pattern that fits, then the default of the key.
    pub(super) fn find(&self, key: &str, value: &str, joined: &mut String) -> Option<&Node> {
        let of_key = self.keys.get(key);
        let exact = of_key.and_then(|of_key| of_key.exact.get(value).copied());
        let position = exact.or_else(|| self.wildcard(key, value, joined)).or_else(|| of_key?.default);
        position.map(|position| &self.nodes[position])
    }

    fn wildcard(&self, key: &str, value: &str, joined: &mut String) -> Option<usize> {
        if self.wildcards.is_empty() {
            return None;
        }
        joined.clear();
        joined.extend([key, "_", value]);
        self.wildcards.iter().find(|(wildcard, _)| wildcard.matches(joined)).map(|&(_, position)| position)
    }

    fn each_limit<'a>(&'a self, visit: &mut impl FnMut(&'a Limit)) {
        for node in &self.nodes {
            if let Some(limit) = &node.limit {
                visit(limit);
            }
            node.children.each_limit(visit);
        }
    }
}

impl Node {
    fn new(spec: &DescriptorSpec, parent: &str, depth: usize, limits: &mut usize) -> Result<Self, DomainsError> {
        if spec.key.is_empty() {
            return Err(DomainsError::EmptyKey(parent.to_owned()));
        }
        let value = spec.value.as_deref().filter(|value| !value.is_empty());
        let identity = value.map_or_else(|| spec.key.clone(), |value| format!("{}_{value}", spec.key));
        let place = format!("{parent}.{identity}");
        if spec.share_threshold && !identity.contains('*') {
            return Err(DomainsError::NothingToShare(place));
        }
        let limit = spec.limit.as_ref().map(|limit| Limit::new(limit, &place, limits)).transpose()?;
        Ok(Self {
            has_value: value.is_some(),
            limit,
            is_shared: spec.share_threshold,
            is_value_in_metric: spec.value_to_metric,
            children: Level::new(&spec.descriptors, &place, depth + 1, limits)?,
            identity: identity.into(),
        })
    }
}

impl Limit {
    fn new(spec: &LimitSpec, place: &str, limits: &mut usize) -> Result<Self, DomainsError> {
        if spec.unlimited != spec.quotas.is_empty() {
            return Err(DomainsError::Quotas(place.to_owned()));
        }
        let unit = Unit::from_name(&spec.unit);
        let number = *limits;
        *limits += 1;
        Ok(Self {
            number,
            path: place.into(),
            quotas: spec.quotas.iter().map(|text| quota(text, place)).collect::<Result<_, _>>()?,
            requests_per_unit: spec.requests_per_unit,
            unit: unit.ok_or_else(|| DomainsError::Unit { place: place.to_owned(), unit: spec.unit.clone() })?,
            name: spec.name.as_deref().filter(|name| !name.is_empty()).map(Into::into),
            replaces: spec.replaces.iter().map(|name| name.as_str().into()).collect(),
            is_shadow: spec.shadow,
            is_quota: spec.quota_mode,
            is_metric_detailed: spec.detailed_metric,
            metadata: spec.metadata.clone().map(Arc::new),
        })
    }
}

fn quota(QuotaText { text, name }: &QuotaText, place: &str) -> Result<Quota, DomainsError> {
    let wrong = |error: QuotaError| DomainsError::Quota { place: place.to_owned(), error };
    // A text of several quotas fails here, with the error that says so.
    text.parse::<Quota>().map_err(wrong)?;
    let specs = parse_specs(text).map_err(wrong)?;
    let spec = specs.into_iter().next().unwrap_or_default();
    QuotaSpec { name: name.clone(), ..spec }.build().map_err(wrong)
}
