//! What the scripts must answer, from the Rust kernels: a store that keeps a state only if it was charged, or clamped because the clock went back.

use std::collections::HashMap;

use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::Status;
use tidegate_core::meter::{Ask, Meter, Refund, State};
use tidegate_core::time::Ticks;
use tidegate_store::store::{Charge, Part};

/// Which counter: key and namespace.
pub(crate) type Name = ([u64; 2], [u64; 2]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Check,
    Peek,
    Debit,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    kept: HashMap<Name, State>,
    /// What each state became by the last call.
    settled: HashMap<Name, (State, bool)>,
}

pub(crate) fn name(charge: &Charge<'_>) -> Name {
    (charge.key.0, charge.namespace.0)
}

impl Model {
    pub(crate) fn ask(&mut self, verb: Verb, charges: &[Charge<'_>], now_ns: u64) -> Vec<Status> {
        self.settled.clear();
        let in_force: Vec<_> =
            charges.iter().enumerate().filter(|(_, charge)| charge.until.is_none_or(|until| now_ns < until)).collect();
        let assessed: Vec<_> = in_force
            .iter()
            .map(|(_, charge)| {
                let now = ticks(charge, now_ns);
                self.state(charge, now, |state| charge.meter.assess(state, now, ask(charge)))
            })
            .collect();
        let has_room = |part| in_force.iter().zip(&assessed).all(|((_, c), a)| c.part != part || a.retry_after == Some(0));
        let is_allowed = has_room(Part::Enforced);
        let mut statuses = Vec::new();
        for ((index, charge), assessment) in in_force.iter().zip(&assessed) {
            let is_charged = charge.ask.cost > 0
                && !charge.meter.is_stateless()
                && match (verb, charge.part) {
                    (Verb::Peek, _) => false,
                    (Verb::Debit, _) => !charge.meter.retry_is_hint(),
                    (Verb::Check, Part::Enforced) => is_allowed,
                    (Verb::Check, Part::Shadow(_)) => is_allowed && has_room(charge.part),
                    (Verb::Check, Part::Counted) => true,
                };
            let now = ticks(charge, now_ns);
            let (receipt, left) = self.state(charge, now, |state| {
                let receipt = match verb {
                    Verb::Check if is_charged => charge.meter.commit(state, now, ask(charge)),
                    Verb::Debit => {
                        charge.meter.debit(state, now, charge.ask.cost);
                        Receipt::Nothing
                    }
                    _ => Receipt::Nothing,
                };
                (receipt, charge.meter.left(state, now))
            });
            if is_charged && let Some(settled) = self.settled.get_mut(&name(charge)) {
                settled.1 = true;
            }
            let after = |ticks| after(charge, now_ns, ticks);
            let ends_after = charge.until.map_or(u64::MAX, |until| until - now_ns);
            let retry = if verb == Verb::Debit { Some(0) } else { assessment.retry_after.map(after) };
            statuses.push(Status {
                quota: u16::try_from(*index).expect("few charges"),
                is_shadow: matches!(charge.part, Part::Shadow(_)),
                limit: charge.meter.capacity(),
                remaining: left.remaining,
                retry_after: if charge.until.is_some() { Some(retry.unwrap_or(u64::MAX).min(ends_after)) } else { retry },
                retry_is_hint: charge.meter.retry_is_hint(),
                reset_after: after(left.reset_after).min(ends_after),
                delay: if verb == Verb::Debit { 0 } else { after(assessment.delay) },
                receipt,
            });
        }
        statuses
    }

    pub(crate) fn refund(&mut self, charge: &Charge<'_>, refund: Refund, now_ns: u64) {
        self.act(charge, now_ns, |meter, state, now| meter.refund(state, now, refund));
    }

    pub(crate) fn renew(&mut self, charge: &Charge<'_>, now_ns: u64) -> bool {
        self.act(charge, now_ns, |meter, state, now| charge.ask.lease.is_some_and(|lease| meter.renew(state, now, lease)))
    }

    pub(crate) fn release(&mut self, charge: &Charge<'_>, now_ns: u64) -> bool {
        self.act(charge, now_ns, |meter, state, now| charge.ask.lease.is_some_and(|lease| meter.release(state, now, lease)))
    }

    /// Ends a call: states that were charged, and those that the server wrote, are as they became.
    ///
    /// # Panics
    /// The server did not write what was charged.
    pub(crate) fn keep(&mut self, name: Name, was_written: bool) {
        if let Some((state, is_charged)) = self.settled.remove(&name)
            && (was_written || is_charged)
        {
            self.kept.insert(name, state);
        }
    }

    fn act<R>(&mut self, charge: &Charge<'_>, now_ns: u64, act: impl FnOnce(&Meter, &mut State, Ticks) -> R) -> R {
        self.settled.clear();
        let now = ticks(charge, now_ns);
        self.state(charge, now, |state| act(charge.meter, state, now))
    }

    /// Shows the state of a counter as this call has it by now: from its expiry on, none.
    fn state<R>(&mut self, charge: &Charge<'_>, now: Ticks, act: impl FnOnce(&mut State) -> R) -> R {
        if charge.meter.is_stateless() {
            return act(&mut charge.meter.empty());
        }
        let kept = || {
            let state = self.kept.get(&name(charge)).filter(|state| charge.meter.expires_at(state) > now);
            (state.cloned().unwrap_or_else(|| charge.meter.empty()), false)
        };
        let entry = self.settled.entry(name(charge)).or_insert_with(kept);
        act(&mut entry.0)
    }
}

fn ticks(charge: &Charge<'_>, now_ns: u64) -> Ticks {
    now_ns / charge.meter.tick().nanos()
}

/// The end of a tick, in nanoseconds from now.
fn after(charge: &Charge<'_>, now_ns: u64, wait: Ticks) -> u64 {
    if wait == 0 { 0 } else { (ticks(charge, now_ns) + wait) * charge.meter.tick().nanos() - now_ns }
}

fn ask(charge: &Charge<'_>) -> Ask {
    Ask { max_delay: charge.ask.max_delay / charge.meter.tick().nanos(), ..charge.ask }
}
