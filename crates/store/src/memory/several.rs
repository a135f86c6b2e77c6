//! Requests with several quotas: all that have to be charged are charged together, or none is.

use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::{Status, Statuses, Verdict};
use tidegate_core::meter::{Assessment, Packed, State};
use tidegate_core::mutant::Mutant;
use tidegate_core::time::Ticks;

use super::locked::{Locked, in_force};
use super::shard::{Visit, is_limiting};
use super::{MemoryStore, status, visit};
use crate::store::{Charge, Part, Store as _, StoreError};

/// Quotas up to which the usual case is tried: each is compared with all before it.
const KNOWN_MAX: usize = 8;

impl MemoryStore {
    /// Decides and, if all have room, charges any number of quotas: first look at all, then write all.
    #[inline(never)] // Its size would slow down the usual request, which has one quota.
    pub(super) fn check_all(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        if charges.iter().all(|charge| charge.ask.cost == 0) {
            return self.peek(charges);
        }
        let mut locked = self.lock(charges);
        // Read under the lock: time must not go back between two charges of one key.
        let now = self.clock.now();
        if let Some(statuses) = admit_known(&mut locked, charges, now) {
            self.finish(locked, true, now);
            return Ok(Verdict::new(statuses));
        }
        let mut assessed: SmallVec<[(usize, Assessment); 4]> = SmallVec::new();
        for (index, charge) in in_force(charges, now) {
            let assessment = locked.shard(charge.key).visit(charge.key ^ charge.namespace, charge.meter, now, |state| {
                let assessment = charge.meter.assess(state, now, charge.ask);
                (assessment, Visit::Leave { limiting: assessment.retry_after != Some(0) })
            })?;
            assessed.push((index, assessment));
        }
        if Mutant::ReadModifyWrite.is_active() {
            drop(locked);
            std::thread::yield_now();
            locked = self.lock(charges);
        }
        let has_room = |part: Part| {
            assessed
                .iter()
                .filter(|(index, _)| charges[*index].part == part)
                .all(|(_, assessment)| assessment.retry_after == Some(0))
        };
        let is_allowed = has_room(Part::Enforced);
        let is_charged = |charge: &Charge<'_>| match charge.part {
            _ if charge.meter.is_stateless() || charge.ask.cost == 0 => false,
            Part::Enforced => is_allowed,
            Part::Shadow(_) => (is_allowed && has_room(charge.part)) || Mutant::ShadowCountsAll.is_active(),
            Part::Counted => true,
        };
        // A rule in shadow for which there is no room is not charged: it must not keep the others from being enforced.
        let is_shadow = |charge: &Charge<'_>| matches!(charge.part, Part::Shadow(_));
        let has_room_for_shadow = match locked.make_room(charges, now, is_charged) {
            Err(_) if charges.iter().any(is_shadow) => {
                locked.make_room(charges, now, |charge| is_charged(charge) && !is_shadow(charge))?;
                false
            }
            made => made.map(|()| true)?,
        };
        let is_charged = |charge: &Charge<'_>| is_charged(charge) && (has_room_for_shadow || !is_shadow(charge));
        let statuses = assessed.iter().map(|&(index, assessment)| {
            let charge = &charges[index];
            // Where nothing is charged, the second look only reports what is left.
            let act = |state: &mut State| charge_one(charge, index, assessment, is_charged(charge), state, now);
            locked.shard(charge.key).visit(charge.key ^ charge.namespace, charge.meter, now, act)
        });
        let statuses = statuses.collect::<Result<_, _>>()?;
        self.finish(locked, is_allowed, now);
        Ok(Verdict::new(statuses))
    }

    fn finish(&self, mut locked: Locked<'_>, is_allowed: bool, now: Ticks) {
        let is_due = locked.count(is_allowed);
        drop(locked);
        if is_due {
            self.sweep(now);
        }
    }
}

/// The usual case: all states are there, small, and have room, so that each is looked up and decided once. `None` says nothing, and then nothing
/// was written.
fn admit_known(locked: &mut Locked<'_>, charges: &[Charge<'_>], now: Ticks) -> Option<Statuses> {
    if charges.len() > KNOWN_MAX || Mutant::ReadModifyWrite.is_active() {
        return None;
    }
    let mut decided: SmallVec<[_; 4]> = SmallVec::new();
    for (index, charge) in charges.iter().enumerate() {
        let digest = charge.key ^ charge.namespace;
        let is_usual =
            charge.part == Part::Enforced && charge.until.is_none() && charge.ask.cost > 0 && !charge.meter.is_stateless();
        // The same counter twice in one request would be decided twice by the same state.
        if !is_usual || charges[..index].iter().any(|other| other.key ^ other.namespace == digest) {
            return None;
        }
        let (place, words) = locked.shard(charge.key).find_words(digest)?;
        let (status, Packed::Words(words)) = charge.meter.decide_packed(words, now, charge.ask) else { return None };
        if !status.is_allowed() {
            return None;
        }
        decided.push((place, words, Status { quota: u16::try_from(index).unwrap_or(u16::MAX), ..status }));
    }
    let statuses = charges.iter().zip(decided).map(|(charge, (place, words, status))| {
        locked.shard(charge.key).set_words(place, words, is_limiting(&status));
        status
    });
    Some(statuses.collect())
}

/// Charges one quota if it is to be, and reports what is left.
fn charge_one(
    charge: &Charge<'_>,
    index: usize,
    assessment: Assessment,
    is_charged: bool,
    state: &mut State,
    now: Ticks,
) -> (Status, Visit) {
    let receipt = if is_charged { charge.meter.commit(state, now, charge.ask) } else { Receipt::Nothing };
    let status = status(charge, index, assessment, receipt, state, now);
    (status, visit(&status, is_charged))
}
