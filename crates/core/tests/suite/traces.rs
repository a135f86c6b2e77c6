//! What leaves no trace: two desks, of which one skips it, answer alike ever after.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate_core::meter::Packed;
use tidegate_core::time::{TICKS_MAX, Ticks};

use super::desk::{Desk, Event, ask};
use super::history::{Events, History, histories};
use super::quotas::{Kind, Options};
use super::{Outcome, ensure, holds};

/// Histories of every algorithm. Limits may change where that only changes what usage is compared with: a bucket that is too full for its new
/// burst is clamped when somebody looks, and so remembers when that was.
fn cases(events: Events) -> impl Strategy<Value = History> {
    const COUNTED: &[Kind] = &[Kind::SlidingWindow, Kind::Log, Kind::Counter, Kind::Ring, Kind::Fixed, Kind::Concurrency];
    let counted = Options { quotas_max: 2, one_pace: true, min_interval: true, ..Options::of(COUNTED) };
    let buckets = Options { quotas_max: 1, ..Options { kinds: &[Kind::Gcra, Kind::Leaky], ..counted } };
    prop_oneof![3 => histories(counted, events), 1 => histories(buckets, events)]
}

/// Denied requests are never charged.
pub(crate) fn a_denied_request_leaves_no_trace(runner: &mut TestRunner) -> Outcome {
    holds(runner, cases(Events::FORWARD), |history| {
        let (mut asked, mut silent) = (Desk::open(&history), Desk::open(&history));
        for &step in &history.steps {
            let event = asked.play(step);
            let is_denied = matches!(event, Event::Checked { status, .. } if !status.is_allowed());
            silent.follow(&asked, step, if is_denied { Event::Moved } else { event });
            ensure_alike(&asked, &silent, &history)?;
        }
        Ok(())
    })
}

/// Neither does asking without taking, with whatever cost.
pub(crate) fn a_question_leaves_no_trace(runner: &mut TestRunner) -> Outcome {
    holds(runner, cases(Events::FORWARD), |history| {
        let (mut asked, mut silent) = (Desk::open(&history), Desk::open(&history));
        for &step in &history.steps {
            for cost in [0, 1, asked.remaining(), asked.capacity() + 1] {
                let meter = asked.meters[asked.loaded].clone();
                let ask = ask(cost, asked.next_lease());
                meter.assess(&mut asked.state, asked.now, ask);
            }
            let event = asked.play(step);
            silent.follow(&asked, step, event);
            ensure_alike(&asked, &silent, &history)?;
        }
        Ok(())
    })
}

/// A store may drop a state from `expires_at` on, and that instant comes.
pub(crate) fn from_its_expiry_on_a_state_is_like_none(runner: &mut TestRunner) -> Outcome {
    holds(runner, cases(Events::FORWARD), |history| {
        let (mut kept, mut dropped) = (Desk::open(&history), Desk::open(&history));
        // A refund does not make a state short-lived: it is remembered until the receipts of before have passed.
        let mut back_at = 0;
        for &step in &history.steps {
            let event = kept.play(step);
            dropped.follow(&kept, step, event);
            let expires_at = dropped.meter().expires_at(&dropped.state);
            back_at = (dropped.now + dropped.answer(0, 0).reset_after).max(back_at);
            let soon = back_at + 2 * history.family.window + 1;
            ensure!(expires_at <= soon, "expires at {expires_at}, after everything was back for two windows");
            if expires_at <= dropped.now {
                dropped.state = dropped.meter().empty();
            }
            ensure_alike(&kept, &dropped, &history)?;
            let idle = Desk { state: kept.meter().empty(), now: expires_at.max(kept.now), ..kept.clone() };
            if idle.now <= TICKS_MAX {
                ensure_alike(&Desk { now: idle.now, ..kept.clone() }, &idle, &history)?;
            }
        }
        Ok(())
    })
}

/// A packed state is the same state, decides the same, and knows when it may be dropped.
pub(crate) fn packing_loses_nothing(runner: &mut TestRunner) -> Outcome {
    holds(runner, cases(Events::ALL), |history| {
        let mut desk = Desk::open(&history);
        for &step in &history.steps {
            let before = desk.clone();
            let event = desk.play(step);
            let meter = desk.meter();
            if let (Event::Checked { cost, status }, Some(words)) = (event, meter.pack(&before.state)) {
                let (packed_status, packed) = meter.decide_packed(words, desk.now, ask(cost, before.next_lease()));
                ensure!(packed_status == status, "packed {packed_status:?}, otherwise {status:?}");
                let state = match packed {
                    Packed::Words(words) => meter.unpack(words),
                    Packed::State(state) => state,
                };
                ensure!(state == desk.state, "packed {state:?}, otherwise {:?}", desk.state);
                if let Some(admission) = meter.admit(words, desk.now, ask(cost, before.next_lease())) {
                    let (quick_status, quick_state) = (meter.admitted(admission), meter.unpack(admission.words));
                    ensure!(quick_status == status, "quickly {quick_status:?}, otherwise {status:?}");
                    ensure!(quick_state == desk.state, "quickly {quick_state:?}, otherwise {:?}", desk.state);
                }
            }
            if let Some(words) = meter.pack(&desk.state) {
                ensure!(meter.unpack(words) == desk.state, "{:?} became {:?}", desk.state, meter.unpack(words));
                let expires_at = meter.expires_at(&desk.state);
                ensure!(words[0] >= expires_at, "packed to expire at {} before {expires_at}", words[0]);
            }
        }
        Ok(())
    })
}

/// Whether two desks answer every question alike, now and later.
fn ensure_alike(left: &Desk, right: &Desk, history: &History) -> Outcome {
    let waits: [Ticks; 4] = [0, 1, history.family.window / 2, history.family.window];
    for cost in [1, left.capacity()] {
        for wait in waits {
            let (left, right) = (left.answer(wait, cost), right.answer(wait, cost));
            ensure!(left == right, "cost {cost} after {wait} ticks: {left:?} and {right:?}");
        }
    }
    Ok(())
}
