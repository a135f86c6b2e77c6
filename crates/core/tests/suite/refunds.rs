//! A refund gives back what it should, and never more than if the request had never been charged.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use tidegate_core::meter::Ask;
use tidegate_core::time::Ticks;

use super::desk::{Charged, Desk, Event};
use super::history::{Events, Step, histories};
use super::oracle::ExactLog;
use super::quotas::{Kind, Options};
use super::{Outcome, ensure, holds, quotas};

/// As if nothing had happened; only the bounded log may have merged entries, which holds units back longer but takes none.
pub(crate) fn a_refund_at_once_gives_everything_back(runner: &mut TestRunner) -> Outcome {
    let options = Options { quotas_max: 2, ..Options::of(quotas::ALL) };
    holds(runner, (histories(options, Events::ALL), 1..=4_u64), |(history, cost)| {
        let mut desk = Desk::open(&history);
        for &step in &history.steps {
            desk.play(step);
            let mut refunded = desk.clone();
            if !refunded.check(cost).is_allowed() {
                continue;
            }
            refunded.refund(refunded.charges.len() - 1, cost);
            for cost in [1, desk.capacity()] {
                let (before, after) = (desk.answer(0, cost), refunded.answer(0, cost));
                let is_same =
                    if desk.kind == Kind::SlidingWindow { before.remaining == after.remaining } else { before == after };
                ensure!(is_same, "{before:?} became {after:?}");
            }
        }
        Ok(())
    })
}

/// One charge is given back, in parts or as a whole, at any later times; a twin never made it. From then on the twin has at least as much.
///
/// A window knows where each charge lies. A bucket only knows its level, and a receipt how far it lay ahead when it was made: for buckets the promise is
/// about one refunded charge, and the others stay.
pub(crate) fn a_refund_never_gives_more_than_never_having_charged(runner: &mut TestRunner) -> Outcome {
    // What a debit cannot owe is forgiven, and no receipt knows: debts are ample, or there are none.
    let options = Options { quotas_max: 2, min_interval: true, ..Options::of(quotas::TIMED) };
    let debited = histories(Options { quotas_max: 1, ample_debt: true, ..options }, Events { loads: false, ..Events::FORWARD });
    let loaded = histories(Options { one_pace: true, ..options }, Events { debits: false, ..Events::FORWARD });
    holds(runner, (prop_oneof![debited, loaded], any::<Index>()), |(history, target)| {
        let (mut desk, mut twin) = (Desk::open(&history), Twin::new(Desk::open(&history), target.index(6)));
        for &step in history.steps.iter().chain(&[Step::Refund(twin.target, u64::MAX)]) {
            if twin.is_beyond_the_promise(&desk, step) {
                continue;
            }
            let event = desk.play(step);
            twin.follow(&desk, step, event);
            if desk.charges.get(twin.target).is_some_and(|charged| charged.given_back == charged.cost) {
                twin.ensure_at_least(&desk, history.family.window)?;
            }
        }
        Ok(())
    })
}

/// However many charges are given back, in whatever order and parts: as much is left as if only the rest had ever been charged, or less.
pub(crate) fn many_refunds_give_no_more_than_never_having_charged(runner: &mut TestRunner) -> Outcome {
    const KINDS: &[Kind] = &[Kind::Gcra, Kind::Leaky, Kind::Fixed, Kind::Counter, Kind::Ring, Kind::Log];
    let events = Events { loads: false, debits: false, ..Events::FORWARD };
    holds(runner, histories(Options::of(KINDS), events), |history| {
        let mut desk = Desk::open(&history);
        let mut charged_at: Vec<Ticks> = Vec::new();
        for &step in &history.steps {
            desk.play(step);
            charged_at.resize(desk.charges.len(), desk.now);
            let mut rest = Desk::open(&history);
            let meter = rest.meters[rest.loaded].clone();
            for (charged, &at) in desk.charges.iter().zip(&charged_at).filter(|(charged, _)| charged.given_back < charged.cost) {
                meter.commit(&mut rest.state, at, Ask::cost(charged.cost - charged.given_back));
            }
            (rest.now, rest.elapsed) = (desk.now, desk.elapsed);
            let (refunded, never) = (desk.answer(0, 1), rest.answer(0, 1));
            ensure!(
                refunded.remaining <= never.remaining && refunded.retry_after >= never.retry_after,
                "refunded {refunded:?}, only the rest charged {never:?}"
            );
        }
        Ok(())
    })
}

/// Two refunds of one receipt at the same time are one refund.
pub(crate) fn refunds_in_parts_give_no_more_than_one(runner: &mut TestRunner) -> Outcome {
    let options = Options { ample_debt: true, ..Options::of(quotas::TIMED) };
    let events = Events { loads: false, ..Events::FORWARD };
    holds(runner, (histories(options, events), any::<Index>(), 1..=3_u64), |(history, target, part)| {
        let mut desk = Desk::open(&history);
        for &step in &history.steps {
            desk.play(step);
            if desk.charges.is_empty() {
                continue;
            }
            let charge = target.index(desk.charges.len());
            let (mut whole, mut parts) = (desk.clone(), desk.clone());
            whole.refund(charge, 2 * part);
            parts.refund(charge, part);
            parts.refund(charge, part);
            let (whole, parts) = (whole.answer(0, 1), parts.answer(0, 1));
            ensure!(whole == parts, "at once {whole:?}, in two parts {parts:?}");
        }
        Ok(())
    })
}

/// A desk that never makes one of the charges, but all others.
struct Twin {
    desk: Desk,
    /// Which charge it leaves out.
    target: usize,
    /// The same without merging: what the bounded log is compared with, because merging depends on what else is there.
    log: ExactLog,
}

impl Twin {
    fn new(desk: Desk, target: usize) -> Self {
        Self { desk, target, log: ExactLog::default() }
    }

    /// Whether the step is a refund of another charge to a bucket.
    fn is_beyond_the_promise(&self, other: &Desk, step: Step) -> bool {
        let Step::Refund(charge, _) = step else { return false };
        let is_other = charge.checked_rem(other.charges.len()) != Some(self.target);
        is_other && matches!(other.kind, Kind::Gcra | Kind::Leaky)
    }

    fn follow(&mut self, other: &Desk, step: Step, event: Event) {
        match event {
            Event::Checked { cost, status } if status.is_allowed() => self.charge(cost),
            Event::Checked { .. } => self.look(),
            Event::Refunded { charge, .. } if charge == self.target => self.look(),
            Event::Refunded { charge, units } => {
                self.desk.refund(charge, units);
                self.log.give_back(charge, units);
            }
            _ => self.desk.follow(other, step, event),
        }
        (self.desk.now, self.desk.elapsed) = (other.now, other.elapsed);
    }

    /// What looking does to a bucket that is too full for its new burst, it does here too.
    fn look(&mut self) {
        let meter = self.desk.meters[self.desk.loaded].clone();
        meter.assess(&mut self.desk.state, self.desk.now, Ask::cost(0));
    }

    /// Takes without asking: what the other desk admitted counts here too.
    fn charge(&mut self, cost: u64) {
        self.look();
        let is_target = self.desk.charges.len() == self.target;
        let (ask, now) = (Ask::cost(cost), self.desk.now);
        let meter = self.desk.meters[self.desk.loaded].clone();
        let receipt =
            if is_target { tidegate_core::algorithm::Receipt::Nothing } else { meter.commit(&mut self.desk.state, now, ask) };
        self.log.take(now, if is_target { 0 } else { cost });
        self.desk.charges.push(Charged { receipt, lease: 0, cost, given_back: 0, is_valid: true });
    }

    fn ensure_at_least(&self, desk: &Desk, window: Ticks) -> Outcome {
        for wait in [0, 1, window / 3, window / 2, window - 1, window] {
            let refunded = desk.answer(wait, 1);
            if desk.kind == Kind::SlidingWindow {
                let exact = self.log.remaining(desk.now + wait, window, desk.capacity());
                ensure!(
                    refunded.remaining <= Some(exact),
                    "after {wait} ticks {refunded:?} remain, and {exact} if never charged"
                );
                continue;
            }
            let never = self.desk.answer(wait, 1);
            let is_less = refunded.remaining <= never.remaining
                && refunded.retry_after >= never.retry_after
                && (refunded.retry_after != Some(0) || refunded.delay >= never.delay)
                && refunded.reset_after >= never.reset_after;
            ensure!(is_less, "after {wait} ticks: refunded {refunded:?}, never charged {never:?}");
        }
        Ok(())
    }
}
