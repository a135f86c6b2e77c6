//! Members: customers with a tenant, a tier and quotas of their own, and those who are blocked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::rules::Request;
use tidegate_core::rules::members::spec::{BlockedSpec, MembersSpec};
use tidegate_core::rules::members::{self, Standing};
use tidegate_core::time::Ticks;
use tidegate_store::digest::{Digest, Digester};
use tidegate_store::store::{Part, Place};

use super::{CountersOf, Engine, Facts, UsageError};
use crate::decision::{Asked, Charged, Decision, Requested};
use crate::plan::{LoadError, Plan, Rules};

/// What the secret of members is made of: their digests are kept in a database, and must not be those of the store.
const MEMBERS: &[u8] = b"members";

/// Makes the digests of members under the secret of an operator, wherever they are made.
pub fn member_digester(secret: [u8; 16]) -> Digester {
    let Digest([first, second]) = Digester::new(secret).digest(MEMBERS);
    let mut derived = [0; 16];
    derived[..8].copy_from_slice(&first.to_le_bytes());
    derived[8..].copy_from_slice(&second.to_le_bytes());
    Digester::new(derived)
}

/// A request whose key is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// How long it still is; `None` for good.
    retry_after: Option<Ticks>,
}

impl Blocked {
    /// What the rule `blocked` says.
    pub(super) fn verdict(self) -> Verdict {
        Verdict::of_one(Status {
            quota: 0,
            is_shadow: false,
            limit: Some(0),
            remaining: Some(0),
            retry_after: self.retry_after,
            retry_is_hint: false,
            reset_after: self.retry_after.unwrap_or(0),
            delay: 0,
            receipt: Receipt::Nothing,
        })
    }
}

impl Engine {
    /// The same engine, with members whose digests are made under this secret and not under that of the store.
    #[must_use]
    pub fn with_member_secret(self, secret: [u8; 16]) -> Self {
        Self { members: member_digester(secret), ..self }
    }

    /// Replaces the members for all following decisions at once; returns the new generation. The rules stay.
    ///
    /// # Errors
    /// See [`LoadError`]; then the old ones stay in force.
    pub fn load_members(&self, spec: MembersSpec) -> Result<u64, LoadError> {
        let spec = Arc::new(spec);
        self.replace(|old| old.with_members(Arc::clone(&spec), &*self.store, &self.digester))
    }

    /// The digest by which somebody with this API key is known as a member, in this process and in every other with the same secret.
    pub fn digest(&self, key: &[u8]) -> Digest {
        self.members.digest(key)
    }

    /// The same for the sender of a request; `None` if nothing says who it is.
    pub fn member_digest(&self, facts: &impl Facts) -> Option<Digest> {
        let plan = self.plan.load();
        let (request, _) = self.request(&plan, plan.rules()?, facts);
        members::key_of(&request).map(|key| self.digest(key.as_bytes()))
    }

    /// What the rules that count the sender of a request are asked for, whatever else they ask of a request.
    pub(super) fn counting(&self, plan: &Plan, facts: &impl Facts) -> Result<Box<Requested>, UsageError> {
        let rules = plan.rules().ok_or(UsageError::NoRules)?;
        let (request, standing) = self.request(plan, rules, facts);
        Ok(Box::new(self.requested(plan, rules, &rules.set.counting(&request, standing, Some(0)))))
    }

    /// The counters of the sender of a request alone, under every rule that counts it apart from all others, whatever else the rule asks of a
    /// request: to be forgotten by [`reset_all`](Self::reset_all).
    ///
    /// # Errors
    /// See [`check_request`](Self::check_request).
    pub fn counters_of_sender(&self, facts: &impl Facts) -> Result<CountersOf, UsageError> {
        let plan = self.plan();
        let rules = plan.rules().ok_or(UsageError::NoRules)?;
        let (request, standing) = self.request(&plan, rules, facts);
        let mut matches = rules.set.counting(&request, standing, Some(0));
        matches.rules.retain(|found| rules.set.counts_sender(found.rule, &request));
        let requested = Box::new(self.requested(&plan, rules, &matches));
        drop(request);
        Ok(CountersOf { plan, requested })
    }

    /// What an identified request has of its own.
    pub(super) fn standing<'a>(&self, plan: &'a Plan, request: &mut Request<'a>) -> Standing<'a> {
        let digest = |key: &[u8]| self.digest(key).0;
        plan.members().map_or_else(Standing::default, |members| members.join(request, digest))
    }

    /// Whether a block is not over yet.
    pub(super) fn blocked(&self, standing: Standing<'_>) -> Option<Blocked> {
        let (_, BlockedSpec { until_ns }) = standing.blocked?;
        let Some(until_ns) = until_ns else { return Some(Blocked { retry_after: None }) };
        let until = until_ns.div_ceil(self.store.tick().nanos());
        let left = until.checked_sub(self.store.now()).filter(|&left| left > 0)?;
        Some(Blocked { retry_after: Some(left) })
    }

    /// What is asked for who is blocked: nothing but the rule `blocked`, which no store is asked for.
    pub(super) fn refused(rules: &Rules, digest: Digest, blocked: Blocked, cost: Option<u64>) -> Requested {
        let (rule, set, cost) = (rules.set.blocked(), rules.blocked_set(), cost.unwrap_or(1));
        let charged = Charged { rule, set, quota: 0, key: digest, place: Place::of(digest), cost, part: Part::Enforced };
        Requested { rules: SmallVec::from_slice(&[rule]), charged: SmallVec::from_slice(&[charged]), blocked: Some(blocked) }
    }

    /// Counts who is refused without the store, and says so.
    pub(super) fn refuse(&self, blocked: Blocked) -> Verdict {
        self.blocked.fetch_add(1, Ordering::Relaxed);
        blocked.verdict()
    }
}

impl Decision {
    /// Whether its sender is blocked.
    pub fn is_blocked(&self) -> bool {
        matches!(&self.asked, Asked::Request(requested) if requested.blocked.is_some())
    }
}
