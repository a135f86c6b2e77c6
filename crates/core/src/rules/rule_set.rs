//! All rules in force, and which of them apply to a request.

use std::collections::BTreeMap;

use foldhash::HashSet;
use smallvec::SmallVec;

use super::identity::{self, Identity};
use super::index::{Candidates, Index};
use super::members::{self, Standing};
use super::request::{NAMES_MAX, Names, Request, Slot};
use super::rule::{self, KeyBytes, Miss, PlanOf, Rule};
use super::spec::{CostSpec, Mode, QuotaText, RuleSetSpec, RuleSpec, VERSION};
use crate::descriptors::spec::DomainSpec;
use crate::quota::QuotaError;

/// The most rules of one set.
pub const RULES_MAX: usize = 100_000;

/// The name of the rule that refuses members who are blocked.
pub const BLOCKED: &str = "blocked";

/// A rollout of all keys, in hundredths of a percent.
pub const ROLLOUT_ALL: u16 = 10_000;

/// Why a document is no rule set. The one in force stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleSetError {
    /// It is written for another build.
    #[error("the rule set has version {0}, this build reads version {VERSION}")]
    Version(u32),
    /// There are too many rules.
    #[error("{0} rules given, at most {RULES_MAX} are possible")]
    TooMany(usize),
    /// A part of it cannot be compiled.
    #[error("{place}: {message}")]
    Invalid {
        /// Where: the name of a rule, or `identity`.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// A quota of a rule is wrong.
    #[error("{place}: {error}")]
    Quota {
        /// The name of the rule.
        place: String,
        /// What is wrong.
        error: QuotaError,
    },
}

/// A rule that applies to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Its number.
    pub rule: usize,
    /// Which quotas.
    pub plan: PlanOf,
    /// Which of [`Matches::keys`].
    pub key: usize,
    /// What the request costs here.
    pub cost: u64,
}

/// All rules that apply to a request, in order.
#[derive(Debug, Default)]
pub struct Matches {
    /// The rules.
    pub rules: SmallVec<[Match; 4]>,
    /// Their keys, each once, with their number.
    pub keys: SmallVec<[(usize, KeyBytes); 2]>,
}

/// Everything in force. Immutable: a decision sees exactly one.
#[derive(Debug)]
pub struct RuleSet {
    domain: Box<str>,
    names: Names,
    identity: Identity,
    rules: Vec<Rule>,
    blocked: Rule,
    index: Index,
    domains: Vec<DomainSpec>,
}

impl RuleSet {
    /// Compiles a document.
    ///
    /// # Errors
    /// See [`RuleSetError`].
    pub fn new(spec: RuleSetSpec) -> Result<Self, RuleSetError> {
        if spec.version != VERSION {
            return Err(RuleSetError::Version(spec.version));
        }
        if spec.rules.len() > RULES_MAX {
            return Err(RuleSetError::TooMany(spec.rules.len()));
        }
        let mut known = HashSet::default();
        if let Some(twin) = spec.rules.iter().find(|rule| !known.insert(rule.name.as_str())) {
            return Err(RuleSetError::Invalid { place: twin.name.clone(), message: "two rules have this name".into() });
        }
        let mut names = Names::default();
        let mut specs: Vec<&RuleSpec> = spec.rules.iter().collect();
        // Stable: rules of one priority stay in the order of the files.
        specs.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        let (mut keys, ipv6_prefix) = (Vec::new(), identity::ipv6_prefix(&spec.identity));
        let mut rules = specs
            .into_iter()
            .map(|rule| rule::compile(rule, ipv6_prefix, &mut names, &mut keys))
            .collect::<Result<Vec<_>, _>>()?;
        let blocked = rule::compile(&blocked(), ipv6_prefix, &mut names, &mut keys)?;
        let token_header = spec.jwt.as_ref().map(|jwt| jwt.header.as_str());
        let identity = Identity::new(&spec.identity, token_header, rules.iter().any(Rule::wants_address), &mut names).map_err(
            |network| RuleSetError::Invalid { place: "identity".into(), message: format!("{network:?} is no network") },
        )?;
        if names.are_too_many() {
            let message = format!("attributes, headers and query parameters with {NAMES_MAX} or more different names");
            return Err(RuleSetError::Invalid { place: "rules".into(), message });
        }
        let mut index = Index::default();
        for (number, rule) in (0..).zip(&mut rules) {
            let filed = if rule.mode == Mode::Off { None } else { index.add(number, &rule.conditions) };
            let mut residual: Vec<u32> =
                (0..).take(rule.conditions.len()).filter(|&condition| Some(condition as usize) != filed).collect();
            residual.sort_by_key(|&condition| rule.conditions[condition as usize].weight());
            rule.residual = residual;
        }
        Ok(Self { domain: spec.domain.into(), names, identity, rules, blocked, index, domains: spec.domains })
    }

    /// Its name.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Its rules, in the order in which they are looked at.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// A rule by its number. That behind the last one is [`blocked`](Self::blocked).
    pub fn rule(&self, number: usize) -> &Rule {
        self.rules.get(number).unwrap_or(&self.blocked)
    }

    /// The number of the rule that refuses members who are blocked. No request meets it otherwise.
    pub fn blocked(&self) -> usize {
        self.rules.len()
    }

    /// Who the client is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Trees in the format of the reference rate limit service.
    pub fn domains(&self) -> &[DomainSpec] {
        &self.domains
    }

    /// A request to be filled with facts.
    pub fn request(&self) -> Request<'_> {
        Request::new(&self.names)
    }

    /// The rules that apply to an identified request, with what it has of its own. With `cost`, that is what it costs everywhere.
    pub fn matches(&self, request: &Request<'_>, standing: Standing<'_>, cost: Option<u64>) -> Matches {
        let mut matches = Matches::default();
        let mut candidates = Candidates::new();
        self.index.candidates(request, &mut candidates);
        for number in candidates {
            let rule = &self.rules[number as usize];
            if rule.mode == Mode::Off {
                continue;
            }
            let holds = |&condition: &u32| rule.conditions[condition as usize].holds(request);
            if !rule.residual.iter().all(holds) {
                continue;
            }
            if let Ok(found) = self.apply(number as usize, request, standing, cost, &mut matches) {
                matches.rules.push(found);
                if rule.stop {
                    break;
                }
            }
        }
        matches
    }

    /// The rules that count somebody of whom the facts tell, whatever else they ask of a request: all but those in mode `off`.
    pub fn counting(&self, request: &Request<'_>, standing: Standing<'_>, cost: Option<u64>) -> Matches {
        let mut matches = Matches::default();
        for (number, _) in self.rules.iter().enumerate().filter(|(_, rule)| rule.mode != Mode::Off) {
            if let Ok(found) = self.apply(number, request, standing, cost, &mut matches) {
                matches.rules.push(found);
            }
        }
        matches
    }

    /// Whether a rule counts the sender of a request apart from all others: by its API key or as a client.
    pub fn counts_sender(&self, number: usize, request: &Request<'_>) -> bool {
        let rule = &self.rules[number];
        let is_sender = |value: &str| members::key_of(request) == Some(value) || request.get(Slot::CLIENT) == Some(value);
        rule.key.iter().any(|part| rule.key_value(part, request, &self.identity).is_some_and(|value| is_sender(&value)))
    }

    /// Key, plan and cost of a rule whose conditions hold.
    fn apply(
        &self,
        number: usize,
        request: &Request<'_>,
        standing: Standing<'_>,
        cost: Option<u64>,
        matches: &mut Matches,
    ) -> Result<Match, Miss> {
        let rule = &self.rules[number];
        let known = matches.keys.iter().position(|(key, _)| *key == rule.key_number);
        let key = if let Some(position) = known {
            position
        } else {
            let mut bytes = KeyBytes::new();
            rule.write_key(request, &self.identity, &mut bytes)?;
            matches.keys.push((rule.key_number, bytes));
            matches.keys.len() - 1
        };
        let plan = rule.plan(number, &matches.keys[key].1, request, standing);
        Ok(Match { rule: number, plan, key, cost: cost.unwrap_or_else(|| rule.cost(request, &self.identity)) })
    }

    /// Whether a rule applies, without the index and without the rules before it.
    pub(super) fn evaluate(
        &self,
        number: usize,
        request: &Request<'_>,
        standing: Standing<'_>,
    ) -> Result<(Match, KeyBytes), Miss> {
        let rule = &self.rules[number];
        if let Some(failed) = rule.conditions.iter().position(|condition| !condition.holds(request)) {
            return Err(Miss::Condition(failed));
        }
        let mut matches = Matches::default();
        let found = self.apply(number, request, standing, None, &mut matches)?;
        Ok((found, matches.keys.swap_remove(found.key).1))
    }

    /// Whether some rule asks for a header of this name, in any case.
    pub fn asks_for_header(&self, name: &str) -> bool {
        self.names.header(name).is_some()
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }
}

/// The rule that refuses members who are blocked.
fn blocked() -> RuleSpec {
    RuleSpec {
        name: BLOCKED.into(),
        conditions: Vec::new(),
        per: vec!["api_key".into()],
        quotas: vec![QuotaText { text: "0/second".into(), name: None }],
        tiers: BTreeMap::new(),
        overrides: Vec::new(),
        algorithm: None,
        cost: CostSpec::Units { units: 1 },
        mode: Mode::Enforce,
        rollout: ROLLOUT_ALL,
        rollout_from: 0,
        priority: 0,
        stop: true,
        on_store_error: None,
        budget_ms: None,
        headers: true,
        description: None,
        owner: None,
    }
}
