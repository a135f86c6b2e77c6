//! What is charged for descriptors, and what the store says to it.

use smallvec::SmallVec;
use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::decision::Status;
use tidegate_core::descriptors::answer::Count;
use tidegate_core::meter::Ask;
use tidegate_core::quota::UNITS_MAX;
use tidegate_core::time::{Tick, Ticks};
use tidegate_store::store::{Charge, Place, StoreError};

use super::matched::{Limited, Matched};
use super::teller::Teller;
use super::whole_seconds;

/// What the store said to the quotas of one descriptor, in their order.
pub(super) type Said = SmallVec<[Status; 1]>;

/// What was counted for one descriptor.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    said: Said,
    /// What was given back because the request was denied after all.
    undone: u64,
}

/// A charge that was taken, and for which descriptors.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    charge: Charge<'a>,
    receipt: Receipt,
    descriptors: SmallVec<[usize; 1]>,
}

/// One charge of a batch, for one descriptor or, where they are charged together, for all that share its counter.
#[derive(Debug)]
struct Asked<'a> {
    charge: Charge<'a>,
    descriptors: SmallVec<[usize; 1]>,
}

impl Counted {
    /// What the answer tells of it.
    pub(super) fn count(&self, limited: &Limited<'_>, now: Ticks, tick: Tick) -> Count {
        let is_over = |status: &Status| match status.retry_after {
            // Counted with a limit of 1: one hit is one too many.
            _ if limited.is_zero() => status.remaining == Some(0),
            wait => wait != Some(0),
        };
        let remaining = |status: &Status| status.remaining.unwrap_or(u64::MAX);
        let wait = |status: &Status| status.retry_after.unwrap_or(Ticks::MAX);
        let windows = limited.windows();
        let told = |(index, status): (usize, &Status)| {
            let until_end = windows.get(index).and_then(|window| window.end(now, tick)).map(|end| end - now);
            let until_retry = status.retry_after.filter(|&wait| wait > 0).unwrap_or(status.reset_after);
            until_end.unwrap_or(until_retry)
        };
        let over = self.said.iter().enumerate().filter(|(_, status)| is_over(status)).max_by_key(|(_, status)| wait(status));
        let least = self.said.iter().enumerate().min_by_key(|(_, status)| remaining(status));
        let reset_after = over.or(least).map_or(0, told);
        Count {
            is_over: over.is_some(),
            remaining: if limited.is_zero() { 0 } else { least.map_or(0, |(_, status)| remaining(status)) + self.undone },
            reset_after_s: whole_seconds(reset_after, tick.nanos()),
        }
    }
}

/// Gives hits back to the windows of now, of which there is never less than nothing in use.
pub(super) async fn give_back(teller: &Teller<'_>, matched: &[Matched<'_>]) -> Result<(), StoreError> {
    for limited in matched.iter().filter_map(limited).filter(|limited| limited.credit > 0) {
        for window in limited.windows() {
            let charge = Charge {
                meter: window.meter,
                key: limited.key,
                place: Place::of(limited.key),
                namespace: window.namespace,
                ask: Ask::cost(0),
                until: None,
                part: limited.part,
            };
            let tick = teller.store().tick();
            if let Some(end) = window.end(teller.store().now(), tick) {
                // Receipts are in the ticks of their meters.
                let id = end * tick.nanos() / window.meter.tick().nanos();
                teller.refund(&charge, Refund { receipt: Receipt::Window { id }, cost: limited.credit }).await?;
            }
        }
    }
    Ok(())
}

/// Charges all descriptors, usually in one call.
pub(super) async fn charge_all<'a>(
    teller: &Teller<'_>,
    is_atomic: bool,
    matched: &'a [Matched<'a>],
) -> Result<(Vec<Counted>, Vec<Taken<'a>>), StoreError> {
    let mut counted = vec![Counted::default(); matched.len()];
    let mut taken = Vec::new();
    for batch in batches(matched, is_atomic) {
        let charges: SmallVec<[Charge<'_>; 4]> = batch.iter().map(|asked| asked.charge).collect();
        let verdict = teller.check(&charges).await?;
        for status in verdict.statuses() {
            let Asked { charge, descriptors } = &batch[usize::from(status.quota)];
            for &descriptor in descriptors {
                counted[descriptor].said.push(*status);
            }
            if status.receipt != Receipt::Nothing {
                taken.push(Taken { charge: *charge, receipt: status.receipt, descriptors: descriptors.clone() });
            }
        }
    }
    Ok((counted, taken))
}

/// Gives everything back that a request took which is denied.
pub(super) async fn undo(
    teller: &Teller<'_>,
    taken: Vec<Taken<'_>>,
    mut counted: Vec<Counted>,
) -> Result<Vec<Counted>, StoreError> {
    for Taken { charge, receipt, descriptors } in taken {
        teller.refund(&charge, Refund { receipt, cost: charge.ask.cost }).await?;
        for descriptor in descriptors {
            counted[descriptor].undone = charge.ask.cost;
        }
    }
    Ok(counted)
}

/// The charges, in as few batches as possible. A store looks at all charges of a batch before it takes any: descriptors that share a counter must
/// not be in one, or, where all are charged together, must be one charge.
fn batches<'a>(matched: &'a [Matched<'a>], is_atomic: bool) -> Vec<Vec<Asked<'a>>> {
    let mut batches: Vec<Vec<Asked<'_>>> = vec![Vec::new()];
    for (index, limited) in matched.iter().enumerate().filter_map(|(index, matched)| Some((index, limited(matched)?))) {
        let charges: SmallVec<[Charge<'_>; 1]> = limited
            .windows()
            .iter()
            .map(|window| Charge {
                meter: window.meter,
                key: limited.key,
                place: Place::of(limited.key),
                namespace: window.namespace,
                ask: Ask::cost(limited.cost),
                until: None,
                part: limited.part,
            })
            .collect();
        let batch = batches.last_mut().expect("there is always one");
        let is_met = batch.iter().any(|asked| charges.iter().any(|charge| is_same(&asked.charge, charge)));
        let batch = if is_met && !is_atomic {
            batches.push(Vec::new());
            batches.last_mut().expect("it was just made")
        } else {
            batch
        };
        for charge in charges {
            let is_together =
                |asked: &&mut Asked<'_>| is_atomic && is_same(&asked.charge, &charge) && asked.charge.part == charge.part;
            match batch.iter_mut().find(is_together) {
                Some(asked) => {
                    asked.charge.ask.cost = (asked.charge.ask.cost + charge.ask.cost).min(UNITS_MAX);
                    asked.descriptors.push(index);
                }
                None => batch.push(Asked { charge, descriptors: [index].into_iter().collect() }),
            }
        }
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

fn is_same(one: &Charge<'_>, other: &Charge<'_>) -> bool {
    one.key == other.key && one.namespace == other.namespace
}

fn limited<'a>(matched: &'a Matched<'a>) -> Option<&'a Limited<'a>> {
    match matched {
        Matched::Limited(limited) => Some(limited),
        Matched::Nothing | Matched::Unlimited => None,
    }
}
