//! One rule, compiled.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::HashMap;
use smallvec::SmallVec;

use super::address;
use super::condition::{Condition, lower};
use super::identity::{Identity, network};
use super::members::Standing;
use super::pattern::Pattern;
use super::request::{Names, Request, Slot};
use super::rule_set::RuleSetError;
use super::spec::{CostSpec, Mode, OverrideSpec, QuotaText, RuleSpec, StoreErrorPolicy};
use crate::quota::{self, AlgorithmName, Quota, QuotaError, QuotaSpec, UNITS_MAX};

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    /// Unique in the set.
    pub name: Arc<str>,
    /// All conditions; those in `residual` are looked at after the index was.
    pub(super) conditions: Vec<Condition>,
    pub(super) residual: Vec<u32>,
    pub(super) key: Vec<KeyPart>,
    /// Equal for rules with equal keys.
    pub(super) key_number: usize,
    /// Plans: first the default, then one for each tier, then one for each override.
    pub plans: Vec<Plan>,
    tiers: HashMap<Box<str>, usize>,
    overrides: HashMap<KeyBytes, usize>,
    /// What quotas of members use that name no algorithm.
    pub(super) algorithm: Option<AlgorithmName>,
    cost: Cost,
    /// Whether it decides.
    pub mode: Mode,
    /// The share of keys for which it does, in hundredths of a percent.
    pub rollout: u16,
    /// Where that share begins.
    pub rollout_from: u16,
    /// Whether no later rule is looked at once it applies.
    pub stop: bool,
    /// What is decided when the store cannot.
    pub on_store_error: Option<StoreErrorPolicy>,
    /// How long the store may take.
    pub budget_ms: Option<u32>,
    /// Whether clients are told about its quotas.
    pub headers: bool,
}

/// The quotas of some of a rule's keys.
#[derive(Debug)]
pub struct Plan {
    /// `default`, `tier pro` or `override`, with the key's position among the overrides.
    pub name: Box<str>,
    /// Its quotas; none allows everything.
    pub quotas: Vec<Quota>,
}

/// Which quotas hold for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanOf {
    /// One of the rule's [`plans`](Rule::plans).
    Rule(usize),
    /// One of those of [`Members`](super::Members::plans).
    Member(usize),
}

/// One value of a key.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(super) enum KeyPart {
    Fact(Slot),
    /// The address, as far as it makes one client.
    Address,
    /// A segment of the path, by the name of its capture.
    Capture(Box<str>),
}

#[derive(Debug)]
enum Cost {
    Units(u64),
    Fact { part: KeyPart, default: u64, max: u64 },
}

/// The longest name of a rule.
const NAME_MAX: usize = 96;

/// The values of a key: addresses as they are, texts after their length.
pub type KeyBytes = SmallVec<[u8; 64]>;

/// The first value of a key, with its length: what keys have in common that begin with the same attribute.
pub fn first_value(key: &[u8]) -> &[u8] {
    let Some((length, rest)) = key.split_first_chunk::<8>() else { return key };
    let length = u64::from_le_bytes(*length);
    // Addresses come after the complement of their length.
    let length = usize::try_from(length.min(!length)).unwrap_or(rest.len());
    &key[..(8 + length).min(key.len())]
}

/// Why a rule does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    /// This condition does not hold.
    Condition(usize),
    /// This part of the key is absent.
    Key(usize),
}

impl Rule {
    /// Writes the key of a request.
    pub(super) fn write_key(&self, request: &Request<'_>, identity: &Identity, bytes: &mut KeyBytes) -> Result<(), Miss> {
        for (position, part) in self.key.iter().enumerate() {
            let address = if *part == KeyPart::Address { request.address() } else { None };
            match (address, part) {
                (Some(address), _) => push_address(bytes, identity.network(address)),
                (None, KeyPart::Fact(slot)) => push_value(bytes, request.get(*slot).ok_or(Miss::Key(position))?),
                _ => push_value(bytes, &self.key_value(part, request, identity).ok_or(Miss::Key(position))?),
            }
        }
        Ok(())
    }

    pub(super) fn key_value<'r>(&self, part: &KeyPart, request: &'r Request<'_>, identity: &Identity) -> Option<Cow<'r, str>> {
        match part {
            KeyPart::Fact(slot) => request.get(*slot).map(Into::into),
            KeyPart::Address => match request.address() {
                Some(address) => Some(identity.network(address).to_string().into()),
                None => request.get(Slot::IP).map(Into::into),
            },
            KeyPart::Capture(name) => {
                let path = request.get(Slot::PATH)?;
                self.conditions.iter().filter_map(Condition::patterns).find_map(|(patterns, ignore_case)| {
                    // Where case does not matter it makes no two keys either: capitals are no way around a limit.
                    if ignore_case {
                        capture(patterns, name, &lower(path)).map(|value| value.to_owned().into())
                    } else {
                        capture(patterns, name, path).map(Into::into)
                    }
                })
            }
        }
    }

    /// Whether it asks for the address, to match it or to count by it.
    pub(super) fn wants_address(&self) -> bool {
        self.key.contains(&KeyPart::Address) || self.conditions.iter().any(|condition| condition.slot == Slot::IP)
    }

    /// What the request costs. A fact comes from outside: if it is no number, the default counts.
    pub(super) fn cost(&self, request: &Request<'_>, identity: &Identity) -> u64 {
        match &self.cost {
            Cost::Units(units) => *units,
            Cost::Fact { part, default, max } => {
                let is_number = |text: &Cow<'_, str>| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let stated = self.key_value(part, request, identity).filter(is_number);
                // A number that is too long to be read is large.
                stated.map_or(*default, |text| text.parse().unwrap_or(u64::MAX)).min(*max)
            }
        }
    }

    /// Whether a fact about each request says what it costs.
    pub fn asks_for_cost(&self) -> bool {
        matches!(self.cost, Cost::Fact { .. })
    }

    /// How many attributes make the key; 0 counts everybody together.
    pub fn key_len(&self) -> usize {
        self.key.len()
    }

    /// The quotas of a key; `number` is that of the rule.
    pub(super) fn plan(&self, number: usize, key: &KeyBytes, request: &Request<'_>, standing: Standing<'_>) -> PlanOf {
        if let Some(plan) = standing.of_member(number) {
            return PlanOf::Member(plan);
        }
        let of_key = if self.overrides.is_empty() { None } else { self.overrides.get(key).copied() };
        if let Some(plan) = of_key {
            return PlanOf::Rule(plan);
        }
        if let Some(plan) = standing.of_group(number) {
            return PlanOf::Member(plan);
        }
        let of_tier = || self.tiers.get(request.get(Slot::TIER)?).copied();
        PlanOf::Rule(if self.tiers.is_empty() { 0 } else { of_tier().unwrap_or(0) })
    }
}

/// What a capture takes of a path, by the first pattern that fits and has it.
fn capture<'p>(patterns: &[Pattern], name: &str, path: &'p str) -> Option<&'p str> {
    patterns.iter().filter(|pattern| pattern.matches(path)).find_map(|pattern| pattern.capture(name, path))
}

/// An address is written in as many bytes as it has: to spell it takes longer than all else.
fn push_address(bytes: &mut KeyBytes, address: IpAddr) {
    match address {
        IpAddr::V4(address) => push_octets(bytes, &address.octets()),
        IpAddr::V6(address) => push_octets(bytes, &address.octets()),
    }
}

/// After a length that no text has, so that no text reads like an address, whatever comes before or behind it.
fn push_octets(bytes: &mut KeyBytes, octets: &[u8]) {
    bytes.extend_from_slice(&(!(octets.len() as u64)).to_le_bytes());
    bytes.extend_from_slice(octets);
}

fn push_value(bytes: &mut KeyBytes, value: &str) {
    bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    bytes.extend_from_slice(value.as_bytes());
}

/// Compiles a rule. `keys` are the different keys of the rules so far.
pub(super) fn compile(
    spec: &RuleSpec,
    ipv6_prefix: u8,
    names: &mut Names,
    keys: &mut Vec<Vec<KeyPart>>,
) -> Result<Rule, RuleSetError> {
    let invalid = |message: String| RuleSetError::Invalid { place: spec.name.clone(), message };
    if !is_name(&spec.name) {
        return Err(invalid(format!("the name of a rule has 1 to {NAME_MAX} letters, digits, _, ., - and ~")));
    }
    let conditions = spec
        .conditions
        .iter()
        .map(|condition| Condition::new(condition, names))
        .collect::<Result<Vec<_>, _>>()
        .map_err(invalid)?;
    let captures: Vec<&str> = conditions
        .iter()
        .filter_map(Condition::patterns)
        .flat_map(|(patterns, _)| patterns)
        .flat_map(|pattern| pattern.captures().iter().map(|(name, _)| &**name))
        .collect();
    let mut part = |name: &String| match name.as_str() {
        "ip" => KeyPart::Address,
        name if captures.contains(&name) => KeyPart::Capture(name.into()),
        name => KeyPart::Fact(names.slot(name)),
    };
    let key: Vec<KeyPart> = spec.per.iter().map(&mut part).collect();
    let key_number = key_number(&key, keys);
    let (plans, tiers, overrides) = plans(spec, &key, ipv6_prefix)?;
    let cost = match &spec.cost {
        CostSpec::Units { units } => Cost::Units((*units).min(UNITS_MAX)),
        CostSpec::Attribute { attribute, default, max } => {
            let max = max.unwrap_or(UNITS_MAX).min(UNITS_MAX);
            Cost::Fact { part: part(attribute), default: *default, max }
        }
    };
    Ok(Rule {
        name: spec.name.as_str().into(),
        conditions,
        residual: Vec::new(),
        key,
        key_number,
        plans,
        tiers,
        overrides,
        algorithm: spec.algorithm.as_deref().and_then(AlgorithmName::from_name),
        cost,
        mode: spec.mode,
        rollout: spec.rollout,
        rollout_from: spec.rollout_from,
        stop: spec.stop,
        on_store_error: spec.on_store_error,
        budget_ms: spec.budget_ms,
        headers: spec.headers,
    })
}

/// Rules with equal keys share a number, except for captures: each rule has its own paths.
fn key_number(key: &[KeyPart], keys: &mut Vec<Vec<KeyPart>>) -> usize {
    let is_own = key.iter().any(|part| matches!(part, KeyPart::Capture(_)));
    let known = if is_own { None } else { keys.iter().position(|other| other == key) };
    known.unwrap_or_else(|| {
        keys.push(key.to_vec());
        keys.len() - 1
    })
}

/// Counters are found by names, so that one with odd characters could be that of another rule's quota. What stands behind `~` tells versions
/// of one rule apart: no author can write it.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'~');
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

type Plans = (Vec<Plan>, HashMap<Box<str>, usize>, HashMap<KeyBytes, usize>);

fn plans(spec: &RuleSpec, key: &[KeyPart], ipv6_prefix: u8) -> Result<Plans, RuleSetError> {
    let invalid = |message: &str| RuleSetError::Invalid { place: spec.name.clone(), message: message.to_owned() };
    if spec.quotas.is_empty() && !spec.stop {
        return Err(invalid("a rule without quotas must stop"));
    }
    let mut plans = vec![Plan { name: "default".into(), quotas: quotas(spec, &spec.quotas)? }];
    let mut tiers = HashMap::default();
    for (tier, texts) in &spec.tiers {
        tiers.insert(Box::from(tier.as_str()), plans.len());
        plans.push(Plan { name: format!("tier {tier}").into(), quotas: quotas(spec, texts)? });
    }
    let mut overrides = HashMap::default();
    for given in &spec.overrides {
        let (OverrideSpec::Quotas { key: values, .. } | OverrideSpec::Tier { key: values, .. }) = given;
        if values.len() != key.len() {
            return Err(invalid("an override needs one value for each attribute of `per`"));
        }
        let mut bytes = KeyBytes::new();
        for (part, value) in key.iter().zip(values) {
            match (part, address::parse(value)) {
                (KeyPart::Address, Some(address)) => push_address(&mut bytes, network(address, ipv6_prefix)),
                _ => push_value(&mut bytes, value),
            }
        }
        let plan = match given {
            OverrideSpec::Tier { tier, .. } => {
                *tiers.get(tier.as_str()).ok_or_else(|| invalid("an override names an unknown tier"))?
            }
            OverrideSpec::Quotas { quotas: texts, .. } => {
                // With quotes where there are several: `a b, c` and `a, b c` are two.
                let key = if let [value] = &values[..] { value.clone() } else { format!("{values:?}") };
                plans.push(Plan { name: format!("override {key}").into(), quotas: quotas(spec, texts)? });
                plans.len() - 1
            }
        };
        if overrides.insert(bytes, plan).is_some() {
            return Err(invalid("two overrides have the same key"));
        }
    }
    Ok((plans, tiers, overrides))
}

fn quotas(spec: &RuleSpec, texts: &[QuotaText]) -> Result<Vec<Quota>, RuleSetError> {
    quotas_of(texts, None).map_err(|error| RuleSetError::Quota { place: spec.name.clone(), error })
}

/// The quotas that some texts say; those that name no algorithm use this one, where it has room for what they say.
pub(super) fn quotas_of(texts: &[QuotaText], algorithm: Option<AlgorithmName>) -> Result<Vec<Quota>, QuotaError> {
    let mut built = Vec::with_capacity(texts.len());
    for text in texts {
        for mut quota in quota::parse_specs(&text.text)? {
            quota.name.clone_from(&text.name);
            let is_open = algorithm.is_some() && quota.algorithm.is_none() && !quota.unlimited;
            let with_algorithm = is_open.then(|| QuotaSpec { algorithm, ..quota.clone() }.build().ok()).flatten();
            built.push(with_algorithm.map_or_else(|| quota.build(), Ok)?);
        }
    }
    Ok(built)
}
