//! Decisions on whole requests, by rules.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidegate_core::decision::Verdict;
use tidegate_core::meter::Ask;
use tidegate_core::quota::UNITS_MAX;
use tidegate_core::rules::explain::Outcome;
use tidegate_core::rules::identity::Claims;
use tidegate_core::rules::rule_set::ROLLOUT_ALL;
use tidegate_core::rules::spec::Mode;
use tidegate_core::rules::{Matches, PlanOf, Request, Rule, Standing, first_value};
use tidegate_core::time::Ticks;
use tidegate_store::digest::{Digest, Digester};
use tidegate_store::store::{Charge, Part, Place};

use super::{Blocked, CheckOptions, Engine, UsageError, charge, random_id};
use crate::decision::{Asked, Charged, Decision, Origin, Question, Requested};
use crate::jwt::Jwt;
use crate::plan::{Plan, Rules};

/// Which keys a partial rollout enforces must not depend on a secret that each process makes up: it is the same everywhere and for ever.
static ROLLOUT: LazyLock<Digester> = LazyLock::new(|| Digester::new(*b"tidegate/rollout"));

/// The facts about a request, wherever the caller has them.
pub trait Facts {
    /// States them.
    fn state<'a>(&'a self, request: &mut Request<'a>);
}

/// Facts as the rules see them, by name.
type Seen = Vec<(String, String)>;

/// The counters of a request.
#[derive(Debug)]
pub struct CountersOf {
    pub(super) plan: Arc<Plan>,
    pub(super) requested: Box<Requested>,
}

/// What became of one rule, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The rule.
    pub rule: Arc<str>,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether it is enforced for this key.
    pub is_enforced: bool,
    /// The name of the plan that applies.
    pub plan: String,
    /// Its quotas.
    pub quotas: Vec<String>,
}

impl Engine {
    /// Takes from the quotas of all rules that apply, if it fits into all, otherwise takes nothing. Without `cost` each rule says what it costs.
    ///
    /// # Errors
    /// See [`UsageError`]. A denial is not an error, and neither is a store that cannot answer.
    pub fn check_request(&self, facts: &impl Facts, cost: Option<u64>, options: CheckOptions) -> Result<Decision, UsageError> {
        // Read before anything is charged: a reset in between must void the receipt.
        let resets = self.resets.load(Ordering::SeqCst);
        let plan = self.plan();
        let requested = self.ask(&plan, facts, cost)?;
        let lease = lends(&plan, &requested).then(|| options.lease.unwrap_or_else(random_id));
        let max_delay = options.max_delay.unwrap_or(Ticks::MAX);
        let outcome = Self::with_requested(&plan, &requested, lease, max_delay, |charges| match (requested.blocked, charges) {
            (Some(blocked), _) => Ok(self.refuse(blocked)),
            (None, []) => Ok(Verdict::default()),
            (None, charges) => self.charge_all(charges, options),
        });
        let cost = total(&requested, cost);
        Ok(self.answer(Question { plan, origin: Origin::Check, asked: Asked::Request(requested), cost, resets, lease }, outcome))
    }

    /// The same, but answers only whether it took.
    ///
    /// # Errors
    /// See [`check_request`](Self::check_request).
    pub fn allow_request(&self, facts: &impl Facts, cost: Option<u64>) -> Result<bool, UsageError> {
        let plan = self.plan();
        let requested = self.ask(&plan, facts, cost)?;
        let lease = lends(&plan, &requested).then(random_id);
        let outcome = Self::with_requested(&plan, &requested, lease, Ticks::MAX, |charges| match (requested.blocked, charges) {
            (Some(blocked), _) => Ok(self.refuse(blocked).is_allowed()),
            (None, []) => Ok(true),
            (None, charges) => self.store.allow(charges),
        });
        Ok(outcome.unwrap_or_else(|error| {
            let cost = total(&requested, cost);
            let question = Question { plan, origin: Origin::Check, asked: Asked::Request(requested), cost, resets: 0, lease };
            self.without_store(&question, &error).is_allowed()
        }))
    }

    /// Answers what `check_request` would, and changes nothing.
    ///
    /// # Errors
    /// See [`check_request`](Self::check_request).
    pub fn peek_request(&self, facts: &impl Facts, cost: Option<u64>) -> Result<Decision, UsageError> {
        let plan = self.plan();
        let requested = self.ask(&plan, facts, cost)?;
        let outcome = Self::with_requested(&plan, &requested, None, Ticks::MAX, |charges| match requested.blocked {
            Some(blocked) => Ok(blocked.verdict()),
            None => self.store.peek(charges),
        });
        let cost = total(&requested, cost);
        Ok(self.answer(Question::new(plan, Origin::Peek, Asked::Request(requested), cost), outcome))
    }

    /// Takes `cost` without asking, up to each quota's `max_debt`. What is debited was done already, so who is blocked pays too.
    ///
    /// # Errors
    /// See [`check_request`](Self::check_request).
    pub fn debit_request(&self, facts: &impl Facts, cost: u64) -> Result<Decision, UsageError> {
        let plan = self.plan();
        let requested = self.ask_all(&plan, facts, Some(cost))?;
        Ok(self.debit_requested(plan, requested, cost))
    }

    /// Forgets what is known of a request's keys under the rules that apply; `false` when nothing was.
    ///
    /// # Errors
    /// See [`reset`](Self::reset).
    pub fn reset_request(&self, facts: &impl Facts) -> Result<bool, UsageError> {
        Ok(self.reset_all(&self.counters_of(facts)?))
    }

    /// The counters of a request, to be forgotten by [`reset_all`](Self::reset_all), or whose slots are renewed or given back.
    ///
    /// # Errors
    /// See [`check_request`](Self::check_request).
    pub fn counters_of(&self, facts: &impl Facts) -> Result<CountersOf, UsageError> {
        let plan = self.plan();
        let requested = self.ask_all(&plan, facts, None)?;
        Ok(CountersOf { plan, requested })
    }

    /// Forgets counters; `false` when nothing was known of any.
    pub fn reset_all(&self, CountersOf { plan, requested }: &CountersOf) -> bool {
        self.note_reset();
        let forgotten = Self::with_requested(plan, requested, None, Ticks::MAX, |charges| {
            charges.iter().filter(|charge| self.store.reset(charge).unwrap_or(false)).count()
        });
        forgotten > 0
    }

    /// What the rules make of a request, rule by rule, and the facts as they see them.
    ///
    /// # Errors
    /// See [`check_request`](Self::check_request).
    pub fn explain(&self, facts: &impl Facts) -> Result<(Seen, Vec<Explained>), UsageError> {
        let plan = self.plan();
        let rules = plan.rules().ok_or(UsageError::NoRules)?;
        let (request, standing) = self.request(&plan, rules, facts);
        let is_blocked = self.blocked(standing).is_some();
        let block = is_blocked.then(|| (rules.set.rule(rules.set.blocked()), rules.set.explain_block(&request)));
        let outcomes = rules.set.explain(&request, standing, is_blocked);
        let explained = block.into_iter().chain(rules.set.rules().iter().zip(outcomes)).map(|(rule, outcome)| {
            let (found, is_enforced) = match &outcome {
                Outcome::Applies { found, bytes, .. } => (found.plan, is_enforced(rule, bytes)),
                _ => (PlanOf::Rule(0), rule.mode == Mode::Enforce),
            };
            let (name, quotas): (&str, _) = match (found, plan.members()) {
                (PlanOf::Member(number), Some(members)) => (&members.plans()[number].name, &members.plans()[number].quotas),
                (PlanOf::Rule(number) | PlanOf::Member(number), _) => (&rule.plans[number].name, &rule.plans[number].quotas),
            };
            Explained {
                rule: Arc::clone(&rule.name),
                is_enforced,
                plan: name.to_owned(),
                quotas: quotas.iter().map(ToString::to_string).collect(),
                outcome,
            }
        });
        let seen = request.facts().map(|(name, value)| (name.to_owned(), value.into_owned())).collect();
        Ok((seen, explained.collect()))
    }

    /// Calls `act` with the facts about a request as the rules see them that decided on it; `None` if no rules did.
    pub fn with_facts<R>(&self, decision: &Decision, facts: &impl Facts, act: impl FnOnce(&Request<'_>) -> R) -> Option<R> {
        let rules = decision.plan.rules()?;
        Some(act(&self.request(&decision.plan, rules, facts).0))
    }

    /// Debits what a decision took too little. Only the rules whose cost is a fact about the request, or that charged all of it if none is: what the others
    /// count did not grow.
    pub(super) fn debit_again(&self, decision: &Decision, requested: &Requested, cost: u64) -> Decision {
        let plan = Arc::clone(&decision.plan);
        let is_asked = |charged: &Charged| plan.rules().is_some_and(|rules| rules.set.rule(charged.rule).asks_for_cost());
        let is_any_asked = requested.charged.iter().any(is_asked);
        let owed = |charged: &Charged| match (cost, is_any_asked) {
            (0, _) => 0,
            (_, true) if is_asked(charged) => (decision.cost + cost).saturating_sub(charged.cost),
            (_, false) if charged.cost == decision.cost => cost,
            _ => 0,
        };
        let charged = requested.charged.iter().map(|charged| Charged { cost: owed(charged), ..*charged }).collect();
        let requested = Requested { rules: requested.rules.clone(), charged, blocked: None };
        self.debit_requested(plan, Box::new(requested), cost)
    }

    fn debit_requested(&self, plan: Arc<Plan>, requested: Box<Requested>, cost: u64) -> Decision {
        let outcome = Self::with_requested(&plan, &requested, None, Ticks::MAX, |charges| self.store.debit(charges));
        self.answer(Question::new(plan, Origin::Debit, Asked::Request(requested), cost), outcome)
    }

    /// What the rules in force ask of a request; of one whose sender is blocked, nothing but to go.
    pub(super) fn ask(&self, plan: &Plan, facts: &impl Facts, cost: Option<u64>) -> Result<Box<Requested>, UsageError> {
        self.ask_unless(plan, facts, cost, |standing| self.blocked(standing))
    }

    /// The same, whether its sender is blocked or not: for what was admitted before.
    pub(super) fn ask_all(&self, plan: &Plan, facts: &impl Facts, cost: Option<u64>) -> Result<Box<Requested>, UsageError> {
        self.ask_unless(plan, facts, cost, |_| None)
    }

    fn ask_unless(
        &self,
        plan: &Plan,
        facts: &impl Facts,
        cost: Option<u64>,
        blocked: impl FnOnce(Standing<'_>) -> Option<Blocked>,
    ) -> Result<Box<Requested>, UsageError> {
        let rules = plan.rules().ok_or(UsageError::NoRules)?;
        if let Some(cost) = cost.filter(|&cost| cost > UNITS_MAX) {
            return Err(UsageError::CostTooLarge { cost });
        }
        let (request, standing) = self.request(plan, rules, facts);
        if let Some(name) = request.repeated() {
            return Err(UsageError::RepeatedParameter { name: name.to_owned() });
        }
        if let (Some((digest, _)), Some(blocked)) = (standing.blocked, blocked(standing)) {
            return Ok(Box::new(Self::refused(rules, Digest(digest), blocked, cost)));
        }
        let matches = rules.set.matches(&request, standing, cost);
        let requested = self.requested(plan, rules, &matches);
        // A status names its charge by a number of 16 bits.
        if requested.charged.len() > usize::from(u16::MAX) {
            return Err(UsageError::TooManyQuotas { count: requested.charged.len() });
        }
        Ok(Box::new(requested))
    }

    /// A request as the rules see it, and what its sender has of its own.
    pub(super) fn request<'a>(&self, plan: &'a Plan, rules: &'a Rules, facts: &'a impl Facts) -> (Request<'a>, Standing<'a>) {
        let mut request = rules.set.request();
        facts.state(&mut request);
        let claims = ClaimsNow { jwt: rules.jwt.as_ref(), engine: self };
        rules.set.identity().resolve(&mut request, &claims);
        let standing = self.standing(plan, &mut request);
        (request, standing)
    }

    pub(super) fn requested(&self, plan: &Plan, rules: &Rules, matches: &Matches) -> Requested {
        let keys: SmallVec<[Digest; 2]> = matches.keys.iter().map(|(_, bytes)| self.digester.digest(bytes)).collect();
        let mut requested = Requested::default();
        for (number, found) in matches.rules.iter().enumerate() {
            requested.rules.push(found.rule);
            let rule = &rules.set.rules()[found.rule];
            let set = plan.set_of(rules, found.rule, found.plan);
            let shadow = || Part::Shadow(u16::try_from(number).unwrap_or(u16::MAX));
            let part = if is_enforced(rule, &matches.keys[found.key].1) { Part::Enforced } else { shadow() };
            let key = keys[found.key];
            let place = self.place(rule, key, &matches.keys[found.key].1);
            let charged = |quota| Charged { rule: found.rule, set, quota, key, place, cost: found.cost, part };
            requested.charged.extend((0..plan.set(set).quotas.len()).map(charged));
        }
        requested
    }

    /// Where a key of a rule is kept: with all others whose first attribute has the same value, so that the rules of one client are decided together.
    fn place(&self, rule: &Rule, key: Digest, bytes: &[u8]) -> Place {
        let attributes = u8::try_from(rule.key_len()).unwrap_or(Place::EVERYBODY);
        // In this process everything is in one place.
        let is_shared = self.remote.is_some() && attributes > 1;
        let tag = if is_shared { self.digester.digest(first_value(bytes)) } else { key };
        Place { tag, breadth: Place::EVERYBODY - attributes }
    }

    /// Calls `act` with the charges of a request.
    pub(super) fn with_requested<R>(
        plan: &Plan,
        requested: &Requested,
        lease: Option<u128>,
        max_delay: Ticks,
        act: impl FnOnce(&[Charge<'_>]) -> R,
    ) -> R {
        let charges: SmallVec<[Charge<'_>; 4]> = charges(plan, requested, lease, max_delay).collect();
        act(&charges)
    }
}

/// The charges of a request.
pub(super) fn charges<'a>(
    plan: &'a Plan,
    requested: &'a Requested,
    lease: Option<u128>,
    max_delay: Ticks,
) -> impl Iterator<Item = Charge<'a>> {
    requested.charged.iter().map(move |&Charged { set, quota, key, place, cost, part, .. }| Charge {
        part,
        place,
        ..charge(&plan.set(set).quotas[quota], key, Ask { cost, lease, max_delay })
    })
}

/// Whether a rule decides for a key, or only says what it would have said.
fn is_enforced(rule: &Rule, key: &[u8]) -> bool {
    let share = u64::from(rule.rollout_from)..u64::from(rule.rollout);
    rule.mode == Mode::Enforce && (share == (0..u64::from(ROLLOUT_ALL)) || share.contains(&rollout_place(rule, key)))
}

/// The place of a key in the rollout of a rule, of [`ROLLOUT_ALL`]. Versions of one rule (`orders` and `orders~12`) agree on it, so that one
/// begins where the other ends.
fn rollout_place(rule: &Rule, key: &[u8]) -> u64 {
    let name = rule.name.split('~').next().unwrap_or(&rule.name);
    let place = ROLLOUT.digest(name.as_bytes()) ^ ROLLOUT.digest(key);
    place.0[0] % u64::from(ROLLOUT_ALL)
}

/// Whether a quota that is asked lends slots. Others in force may, which is no reason to make up an id or to promise a lease.
pub(super) fn lends(plan: &Plan, requested: &Requested) -> bool {
    let is_lender = |charged: &Charged| plan.set(charged.set).quotas[charged.quota].meter.retry_is_hint();
    plan.lease_ttl_ns().is_some() && requested.charged.iter().any(is_lender)
}

/// The cost of a request as a whole: what was asked for, or the most that any rule charges.
pub(super) fn total(requested: &Requested, cost: Option<u64>) -> u64 {
    cost.unwrap_or_else(|| requested.charged.iter().map(|charged| charged.cost).max().unwrap_or(1))
}

/// Claims that hold at the store's time.
struct ClaimsNow<'a> {
    jwt: Option<&'a Jwt>,
    engine: &'a Engine,
}

impl Claims for ClaimsNow<'_> {
    fn claim(&self, header: &str, name: &str) -> Option<String> {
        let jwt = self.jwt?;
        jwt.claim(header, name, self.engine.now_ns() / 1_000_000_000)
    }
}
