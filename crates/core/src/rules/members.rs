//! Members: the tenant, tier and quotas that customers have of their own, and which of them are blocked.
//!
//! A [`Members`] is compiled for one [`RuleSet`] and never changes. A member is known by the digest of its key, so that nobody who reads the
//! document learns a key. Who is looked up has the attribute `api_key`, or, where a request has none, is its `client`.
//!
//! Of the plans that a rule could use for a request the first of these is taken: the member's own, an override in the rule, the tenant's, the
//! tier's as stored, the tier's in the rule, the default.
//!
//! A hundred thousand members are a few flat tables: nothing is allocated for each, so that the last request that holds an old generation has
//! little to free.

pub mod spec;

use std::borrow::Cow;
use std::sync::Arc;

use foldhash::HashMap;

use self::spec::{BlockedSpec, MembersSpec, QuotasByRule, VERSION};
use super::request::{Request, Slot};
use super::rule::quotas_of;
use super::rule_set::RuleSet;
use super::spec::QuotaText;
use crate::quota::{AlgorithmName, Quota, QuotaError};

/// The digest of a key.
pub type Digest = [u64; 2];

/// The most members of one document.
pub const MEMBERS_MAX: usize = 10_000_000;

/// Why a document of members is refused. The one in force stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// It is written for another build.
    #[error("the members have version {0}, this build reads version {VERSION}")]
    Version(u32),
    /// There are too many.
    #[error("{0} members given, at most {MEMBERS_MAX} are possible")]
    TooMany(usize),
    /// A member's name is no digest.
    #[error("{0:?} is no digest of a key: 32 hexadecimal digits in lower case")]
    Digest(String),
    /// No quota where one is needed.
    #[error("{place}: no quota given; `unlimited` grants everything")]
    Empty {
        /// Whose, and of which rule.
        place: String,
    },
    /// A quota is wrong.
    #[error("{place}: {error}")]
    Quota {
        /// Whose, and of which rule.
        place: String,
        /// What is wrong.
        error: QuotaError,
    },
}

/// Quotas of some members for one rule. Members with equal quotas share a plan.
#[derive(Debug)]
pub struct MemberPlan {
    /// The rule.
    pub rule: usize,
    /// `member`, `tenant acme` or `tier pro`.
    pub name: Arc<str>,
    /// Tells it from all other plans of the rule, in every generation: a tier's and a tenant's by its name, a member's by its quotas.
    pub owner: Box<str>,
    /// Its quotas.
    pub quotas: Vec<Quota>,
}

/// All members, for one rule set.
#[derive(Debug, Default)]
pub struct Members {
    keys: HashMap<Digest, Member>,
    tenants: HashMap<Arc<str>, Tenant>,
    tiers: HashMap<Arc<str>, Grants>,
    /// Names of tenants and tiers, by number.
    names: Vec<Arc<str>>,
    grants: Vec<Grant>,
    plans: Vec<MemberPlan>,
    has_blocks: bool,
}

/// One key's standing.
#[derive(Debug, Clone, Copy)]
struct Member {
    tenant: Option<u32>,
    tier: Option<u32>,
    own: Grants,
    blocked: Option<BlockedSpec>,
}

#[derive(Debug, Clone, Copy)]
struct Tenant {
    tier: Option<u32>,
    own: Grants,
}

/// Some of all grants: from the first to before the last, one for each rule.
#[derive(Debug, Clone, Copy, Default)]
struct Grants {
    first: u32,
    end: u32,
}

/// That some quotas hold for a rule.
#[derive(Debug, Clone, Copy)]
struct Grant {
    rule: u32,
    plan: u32,
}

/// What a request has of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standing<'m> {
    member: &'m [Grant],
    tenant: &'m [Grant],
    tier: &'m [Grant],
    /// Whether its key is refused, and the digest of that key.
    pub blocked: Option<(Digest, BlockedSpec)>,
}

impl Members {
    /// Compiles a document. Quotas of rules that are not in the set are checked, and wait for their rule.
    ///
    /// # Errors
    /// See [`MembersError`].
    pub fn new(spec: &MembersSpec, rules: &RuleSet) -> Result<Self, MembersError> {
        if spec.version != VERSION {
            return Err(MembersError::Version(spec.version));
        }
        let count = spec.keys.len() + spec.tenants.len() + spec.tiers.len();
        if count > MEMBERS_MAX {
            return Err(MembersError::TooMany(count));
        }
        let mut compiler = Compiler::new(rules);
        for (name, tier) in &spec.tiers {
            let own = compiler.grants(&tier.quotas, Whose::Tier(name))?;
            compiler.members.tiers.insert(name.as_str().into(), own);
        }
        for (name, tenant) in &spec.tenants {
            let own = compiler.grants(&tenant.quotas, Whose::Tenant(name))?;
            let tier = compiler.number(tenant.tier.as_deref());
            compiler.members.tenants.insert(name.as_str().into(), Tenant { tier, own });
        }
        compiler.members.keys.reserve(spec.keys.len());
        for (text, key) in &spec.keys {
            let digest = parse_digest(text).ok_or_else(|| MembersError::Digest(text.clone()))?;
            let own = compiler.grants(&key.quotas, Whose::Key(text))?;
            let (tenant, tier) = (compiler.number(key.tenant.as_deref()), compiler.number(key.tier.as_deref()));
            compiler.members.has_blocks |= key.blocked.is_some();
            compiler.members.keys.insert(digest, Member { tenant, tier, own, blocked: key.blocked });
        }
        Ok(compiler.members)
    }

    /// The plans of all of them.
    pub fn plans(&self) -> &[MemberPlan] {
        &self.plans
    }

    /// How many keys it knows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it grants nothing to anybody.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.tenants.is_empty() && self.tiers.is_empty()
    }

    /// Whether any key is blocked, if only for a time that is over.
    pub fn has_blocks(&self) -> bool {
        self.has_blocks
    }

    /// Finds out what an identified request has of its own, and states its tenant and its tier.
    pub fn join<'a>(&'a self, request: &mut Request<'a>, digest: impl FnOnce(&[u8]) -> Digest) -> Standing<'a> {
        let mut standing = Standing::default();
        let mut tier = None;
        let key = if self.keys.is_empty() { None } else { key_of(request) };
        if let Some((digest, member)) = key.map(|key| digest(key.as_bytes())).and_then(|key| Some((key, self.keys.get(&key)?))) {
            standing.member = self.of(member.own);
            standing.blocked = member.blocked.map(|blocked| (digest, blocked));
            tier = member.tier;
            if let Some(tenant) = member.tenant {
                request.put(Slot::TENANT, Cow::Borrowed(&self.names[tenant as usize]));
            }
        }
        let tenant = if self.tenants.is_empty() { None } else { request.get(Slot::TENANT) };
        if let Some(tenant) = tenant.and_then(|name| self.tenants.get(name)) {
            standing.tenant = self.of(tenant.own);
            tier = tier.or(tenant.tier);
        }
        if let Some(tier) = tier {
            request.put(Slot::TIER, Cow::Borrowed(&self.names[tier as usize]));
        }
        let tier = if self.tiers.is_empty() { None } else { request.get(Slot::TIER) };
        standing.tier = tier.and_then(|name| self.tiers.get(name)).map_or(&[], |&grants| self.of(grants));
        standing
    }

    fn of(&self, grants: Grants) -> &[Grant] {
        &self.grants[grants.first as usize..grants.end as usize]
    }
}

/// Who is looked up: the API key, or the client where there is none.
pub fn key_of<'r>(request: &'r Request<'_>) -> Option<&'r str> {
    request.get(Slot::API_KEY).or_else(|| request.get(Slot::CLIENT))
}

impl Standing<'_> {
    /// The member's own plan for a rule.
    pub(super) fn of_member(&self, rule: usize) -> Option<usize> {
        find(self.member, rule)
    }

    /// The plan of its tenant or of its stored tier.
    pub(super) fn of_group(&self, rule: usize) -> Option<usize> {
        find(self.tenant, rule).or_else(|| find(self.tier, rule))
    }
}

fn find(grants: &[Grant], rule: usize) -> Option<usize> {
    grants.iter().find(|grant| grant.rule as usize == rule).map(|grant| grant.plan as usize)
}

/// Whose quotas are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Whose<'s> {
    Key(&'s str),
    Tenant(&'s str),
    Tier(&'s str),
}

impl Whose<'_> {
    fn place(self, rule: &str) -> String {
        match self {
            Self::Key(digest) => format!("member {digest}, rule {rule}"),
            Self::Tenant(name) => format!("tenant {name}, rule {rule}"),
            Self::Tier(name) => format!("tier {name}, rule {rule}"),
        }
    }
}

struct Compiler<'s> {
    /// By name: number, and what quotas use that name no algorithm.
    rules: HashMap<&'s str, (usize, Option<AlgorithmName>)>,
    /// Other versions of a rule while a change of it rolls out, such as `orders~12`: members have the same of all.
    versions: HashMap<&'s str, Vec<&'s str>>,
    member: Arc<str>,
    numbers: HashMap<&'s str, u32>,
    /// Plans of members by rule and quotas: most members have one of a few.
    known: HashMap<(&'s str, &'s [QuotaText]), Option<u32>>,
    members: Members,
}

impl<'s> Compiler<'s> {
    fn new(rules: &'s RuleSet) -> Self {
        let mut versions: HashMap<&str, Vec<&str>> = HashMap::default();
        for rule in rules.rules() {
            if let Some((name, _)) = rule.name.split_once('~') {
                versions.entry(name).or_default().push(&rule.name);
            }
        }
        Self {
            versions,
            rules: rules.rules().iter().enumerate().map(|(number, rule)| (&*rule.name, (number, rule.algorithm))).collect(),
            member: "member".into(),
            numbers: HashMap::default(),
            known: HashMap::default(),
            members: Members::default(),
        }
    }

    /// The number of a tenant's or a tier's name.
    fn number(&mut self, name: Option<&'s str>) -> Option<u32> {
        let name = name.filter(|name| !name.is_empty())?;
        let names = &mut self.members.names;
        Some(*self.numbers.entry(name).or_insert_with(|| {
            names.push(name.into());
            count(names) - 1
        }))
    }

    fn grants(&mut self, quotas: &'s QuotasByRule, whose: Whose<'s>) -> Result<Grants, MembersError> {
        let first = count(&self.members.grants);
        for (rule, texts) in quotas {
            self.grant(rule, texts, whose)?;
            for version in self.versions.get(rule.as_str()).cloned().unwrap_or_default() {
                self.grant(version, texts, whose)?;
            }
        }
        Ok(Grants { first, end: count(&self.members.grants) })
    }

    fn grant(&mut self, rule: &'s str, texts: &'s [QuotaText], whose: Whose<'s>) -> Result<(), MembersError> {
        if let Some(plan) = self.plan(rule, texts, whose)? {
            let rule = self.members.plans[plan as usize].rule;
            self.members.grants.push(Grant { rule: u32::try_from(rule).unwrap_or(u32::MAX), plan });
        }
        Ok(())
    }

    /// The plan with these quotas; `None` as long as nobody knows the rule.
    fn plan(&mut self, rule: &'s str, texts: &'s [QuotaText], whose: Whose<'s>) -> Result<Option<u32>, MembersError> {
        let is_key = matches!(whose, Whose::Key(_));
        if let Some(&known) = self.known.get(&(rule, texts)).filter(|_| is_key) {
            return Ok(known);
        }
        let algorithm = self.rules.get(rule).and_then(|&(_, algorithm)| algorithm);
        let quotas = quotas_of(texts, algorithm).map_err(|error| MembersError::Quota { place: whose.place(rule), error })?;
        if quotas.is_empty() {
            return Err(MembersError::Empty { place: whose.place(rule) });
        }
        let plan = self.rules.get(rule).map(|&(rule, _)| {
            let (name, owner) = match whose {
                Whose::Key(_) => (Arc::clone(&self.member), owner_of(texts)),
                Whose::Tenant(name) => (format!("tenant {name}").into(), format!("tenant {name}")),
                // Apart from a tier of this name in the rule.
                Whose::Tier(name) => (format!("tier {name}").into(), format!("stored tier {name}")),
            };
            self.members.plans.push(MemberPlan { rule, name, owner: owner.into(), quotas });
            count(&self.members.plans) - 1
        });
        if is_key {
            self.known.insert((rule, texts), plan);
        }
        Ok(plan)
    }
}

fn owner_of(texts: &[QuotaText]) -> String {
    let mut owner = "member".to_owned();
    for QuotaText { text, name } in texts {
        owner.extend([" ", text, " ", name.as_deref().unwrap_or_default()]);
    }
    owner
}

/// How many there are: no more than [`MEMBERS_MAX`] times the rules that one names, which the size of a document bounds.
fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("a document has fewer than 2^32 parts")
}

/// A digest as [`Digest`] prints it: 32 hexadecimal digits in lower case.
pub fn parse_digest(text: &str) -> Option<Digest> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 32 || !text.bytes().all(is_digit) {
        return None;
    }
    Some([u64::from_str_radix(&text[..16], 16).ok()?, u64::from_str_radix(&text[16..], 16).ok()?])
}
