//! Several quotas in one check against one limiter for each of them.

mod limiter;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_engine::decision::Decision;

use limiter::{Limiter, SECOND, cases};

const TEXTS: [&str; 11] = [
    "3/10s",
    "5/25s entries 2 min_interval 1s",
    "4/40s sliding_window_log",
    "4/12s sliding_window_counter",
    "6/30s sliding_window_counter buckets 3",
    "3/20s fixed_window",
    "4/20s burst 2",
    "2/10s queue 5s",
    "3/minute calendar",
    "unlimited",
    "5/hour",
];

#[derive(Debug, Clone, Copy)]
enum Step {
    Check(u64),
    Peek(u64),
    Debit(u64),
    /// Gives a part of an earlier decision back.
    Refund(usize, u64),
    Forward(u64),
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1..=3_u64).prop_map(Step::Check),
        2 => (0..=4_u64).prop_map(Step::Peek),
        1 => (0..=4_u64).prop_map(Step::Debit),
        2 => (any::<prop::sample::Index>(), 1..=2_u64).prop_map(|(of, cost)| Step::Refund(of.index(16), cost)),
        4 => (1..=15_000_u64).prop_map(|millis| Step::Forward(millis * (SECOND / 1_000))),
        1 => Just(Step::Reset),
    ];
    vec(step, 1..60)
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// Allowed if all alone would allow it, charged then to each as if it were alone, and otherwise to none.
    #[test]
    fn several_quotas_answer_as_each_would_alone(texts in vec(select(&TEXTS[..]), 2..=4), steps in steps()) {
        let together = Limiter::new(&texts.join(", "));
        let alone: Vec<Limiter> = texts.iter().map(|text| Limiter::new(text)).collect();
        let mut taken: Vec<(Decision, Vec<Decision>)> = Vec::new();
        for step in steps {
            match step {
                Step::Check(cost) => {
                    let is_allowed = alone.iter().all(|limiter| limiter.peek("a", cost).is_allowed());
                    let decision = together.check("a", cost);
                    prop_assert_eq!(decision.is_allowed(), is_allowed);
                    if is_allowed {
                        let decisions: Vec<Decision> = alone.iter().map(|limiter| limiter.check("a", cost)).collect();
                        prop_assert!(decisions.iter().all(Decision::is_allowed));
                        let delays = decisions.iter().map(|decision| decision.verdict().delay());
                        prop_assert_eq!(Some(decision.verdict().delay()), delays.max());
                        taken.push((decision, decisions));
                    } else {
                        let waits: Vec<_> = alone.iter().map(|limiter| limiter.peek("a", cost).verdict().retry_after()).collect();
                        let longest = if waits.contains(&None) { None } else { waits.into_iter().max().flatten() };
                        prop_assert_eq!(decision.verdict().retry_after(), longest);
                    }
                }
                Step::Peek(cost) => drop(together.peek("a", cost)),
                Step::Debit(cost) => {
                    for limiter in alone.iter().chain([&together]) {
                        limiter.engine.debit(b"a", cost).expect("a call that makes sense");
                    }
                }
                Step::Refund(of, cost) => {
                    let Some((decision, decisions)) = of.checked_rem(taken.len()).map(|of| &taken[of]) else { continue };
                    let refunded = together.engine.refund(b"a", decision, Some(cost));
                    for (limiter, decision) in alone.iter().zip(decisions) {
                        prop_assert_eq!(limiter.engine.refund(b"a", decision, Some(cost)), refunded.clone());
                    }
                }
                Step::Forward(nanos) => alone.iter().chain([&together]).for_each(|limiter| limiter.advance(nanos)),
                Step::Reset => {
                    for limiter in alone.iter().chain([&together]) {
                        limiter.engine.reset(b"a").expect("a call that makes sense");
                    }
                }
            }
            let answer = together.peek("a", 1);
            for (status, limiter) in answer.verdict().statuses().iter().zip(&alone) {
                let lonely = limiter.peek("a", 1);
                prop_assert_eq!(status, &tidegate_core::decision::Status { quota: status.quota, ..lonely.verdict().statuses()[0] });
            }
        }
    }
}
