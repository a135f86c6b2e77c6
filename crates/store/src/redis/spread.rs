//! Requests whose counters lie on several servers of a cluster.
//!
//! No server can decide such a request alone. The servers are asked one after the other, those that count few before those that count many: each
//! charges its own quotas together or not at all. As soon as one denies or fails, what the others took is given back. So a request passes only after
//! every quota was charged, and no rule can be exceeded; whatever is lost on the way errs to the other side (`algorithms.md` §2.2, §2.3).
//!
//! A refund is sent once. Whether it arrived is not asked: sending it again could give back twice.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};

use smallvec::SmallVec;
use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::mutant::Mutant;

use super::script::{Op, Reply};
use super::store::Inner;
use super::topology::Slot;
use crate::store::{Charge, OwnedCharge, Part, StoreError};

/// The charges of a request that lie on one slot.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) slot: Slot,
    breadth: u8,
    charges: Vec<Numbered>,
}

/// A charge with its position among those of the request.
#[derive(Debug)]
struct Numbered {
    index: u16,
    owned: OwnedCharge,
}

/// The one slot of these charges; `None` if there are several.
pub(super) fn single(charges: &[Charge<'_>], slot_of: impl Fn(&Charge<'_>) -> Slot) -> Option<Slot> {
    let mut slots = charges.iter().map(slot_of);
    let first = slots.next()?;
    slots.all(|slot| slot == first).then_some(first)
}

/// The charges by slot, narrow ones first.
pub(super) fn groups(charges: &[Charge<'_>], slot_of: impl Fn(&Charge<'_>) -> Slot) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, charge) in charges.iter().enumerate() {
        let (slot, breadth) = (slot_of(charge), charge.place.breadth);
        let numbered = Numbered { index: u16::try_from(index).unwrap_or(u16::MAX), owned: charge.to_owned() };
        match groups.iter_mut().find(|group| group.slot == slot) {
            Some(group) => {
                group.breadth = group.breadth.max(breadth);
                group.charges.push(numbered);
            }
            None => groups.push(Group { slot, breadth, charges: vec![numbered] }),
        }
    }
    groups.sort_by_key(|group| if Mutant::WideFirst.is_active() { u8::MAX - group.breadth } else { group.breadth });
    groups
}

/// Asks all groups at once: for what changes nothing, or is not conditional on the others.
pub(super) async fn each(inner: Arc<Inner>, op: Op, groups: Vec<Group>) -> Result<Verdict, StoreError> {
    let calls: Vec<_> = groups
        .into_iter()
        .map(|group| {
            let inner = Arc::clone(&inner);
            tokio::spawn(async move { ask(&inner, op, group.slot, &group.charges.iter().collect::<Vec<_>>()).await })
        })
        .collect();
    let mut statuses = Vec::new();
    for call in calls {
        statuses.extend(call.await.map_err(|_| StoreError::unavailable("the process is ending"))??);
    }
    Ok(verdict(statuses))
}

/// Charges the groups one after the other, and undoes it if one of them has no room or no answer.
pub(super) async fn check(inner: Arc<Inner>, groups: Vec<Group>) -> Result<Verdict, StoreError> {
    let mut statuses: Vec<Status> = Vec::new();
    let mut taken: Vec<(usize, Status)> = Vec::new();
    let mut denied_by = None;
    for (number, group) in groups.iter().enumerate() {
        // Until the last group has room, nobody knows whether a rule in shadow would have seen the request.
        let is_last = number + 1 == groups.len();
        let asked: Vec<&Numbered> = group.charges.iter().filter(|numbered| is_last || !is_shadow(numbered)).collect();
        if asked.is_empty() {
            continue;
        }
        match ask(&inner, Op::Check, group.slot, &asked).await {
            Ok(said) => {
                let is_allowed = said.iter().filter(|status| !status.is_shadow).all(Status::is_allowed);
                let charged = said.iter().filter(|status| is_enforced(group, status) && status.receipt != Receipt::Nothing);
                taken.extend(charged.map(|status| (number, *status)));
                statuses.extend(said);
                if !is_allowed {
                    denied_by = Some(number);
                    break;
                }
            }
            Err(error) => {
                give_back(&inner, &groups, taken);
                return Err(error);
            }
        }
    }
    if denied_by.is_some() {
        // What is given back is there again.
        for (number, given_back) in &taken {
            let cost = groups[*number]
                .charges
                .iter()
                .find(|charge| charge.index == given_back.quota)
                .map_or(0, |charge| charge.owned.ask.cost);
            for status in statuses.iter_mut().filter(|status| status.quota == given_back.quota) {
                let remaining = status.remaining.map(|remaining| remaining.saturating_add(cost));
                (status.remaining, status.receipt) = (remaining.min(status.limit), Receipt::Nothing);
            }
        }
        give_back(&inner, &groups, taken);
    }
    statuses.extend(rest(&inner, &groups, denied_by).await?);
    Ok(verdict(statuses))
}

/// Asks what was not asked yet: rules in shadow and, when the request is denied, the servers after the one that denied it. Their wait counts too, for
/// otherwise a client that has waited would be denied by the next one.
async fn rest(inner: &Arc<Inner>, groups: &[Group], denied_by: Option<usize>) -> Result<Vec<Status>, StoreError> {
    let mut statuses = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let is_last = number + 1 == groups.len();
        let was_asked = denied_by.is_none_or(|denied_by| number <= denied_by);
        let is_left = |numbered: &&Numbered| !was_asked || (is_shadow(numbered) && !is_last);
        let left: Vec<&Numbered> = group.charges.iter().filter(is_left).collect();
        let (counted, others): (Vec<&Numbered>, Vec<&Numbered>) =
            left.into_iter().partition(|numbered| numbered.owned.part == Part::Counted);
        let op = if denied_by.is_some() { Op::Peek } else { Op::Check };
        for (op, asked) in [(Op::Check, counted), (op, others)] {
            if !asked.is_empty() {
                statuses.extend(ask(inner, op, group.slot, &asked).await?);
            }
        }
    }
    Ok(statuses)
}

/// Asks one server, and numbers what it says by the request's charges.
async fn ask(inner: &Inner, op: Op, slot: Slot, asked: &[&Numbered]) -> Result<Vec<Status>, StoreError> {
    let call = {
        let charges: SmallVec<[Charge<'_>; 4]> = asked.iter().map(|numbered| numbered.owned.charge()).collect();
        inner.call(op, &charges)
    };
    let verdict = match inner.send(slot, &call).await? {
        Reply::Verdict { verdict, .. } => verdict,
        _ => Verdict::default(),
    };
    Ok(verdict.statuses().iter().map(|status| Status { quota: asked[usize::from(status.quota)].index, ..*status }).collect())
}

/// Gives back what was taken, once, without waiting for it.
fn give_back(inner: &Arc<Inner>, groups: &[Group], taken: Vec<(usize, Status)>) {
    for (number, status) in taken {
        let group = &groups[number];
        let Some(Numbered { owned, .. }) = group.charges.iter().find(|charge| charge.index == status.quota) else { continue };
        let op = match status.receipt {
            Receipt::Lease { .. } => Op::Release,
            receipt => Op::Refund(Refund { receipt, cost: owned.ask.cost }),
        };
        let (inner, slot, call) = (Arc::clone(inner), group.slot, inner.call(op, &[owned.charge()]));
        let mut refund = Box::pin(async move { inner.send(slot, &call).await });
        // Polled once, it is on its way: whatever its caller asks next comes after it.
        if refund.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(refund);
        }
    }
}

fn is_shadow(numbered: &Numbered) -> bool {
    matches!(numbered.owned.part, Part::Shadow(_))
}

fn is_enforced(group: &Group, status: &Status) -> bool {
    group.charges.iter().any(|charge| charge.index == status.quota && charge.owned.part == Part::Enforced)
}

fn verdict(mut statuses: Vec<Status>) -> Verdict {
    statuses.sort_by_key(|status| status.quota);
    Verdict::new(statuses.into())
}
