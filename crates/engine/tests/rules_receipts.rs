//! Giving back what several rules took, each its own cost.

mod rules;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tidegate_engine::engine::UsageError;

use rules::{Ruled, SECOND, cases};

fn by_size(name: &str, quotas: &str, max: u64) -> Value {
    json!({"name": name, "quotas": quotas, "cost": {"attribute": "size", "default": 1, "max": max}})
}

#[test]
fn a_refund_of_all_gives_each_rule_what_it_took() {
    let limiter = Ruled::new(&[json!({"name": "requests"}), by_size("bytes", "1000/minute", 500)]);
    let decision = limiter.check("size=300");
    assert_eq!(limiter.left(""), [9, 700]);
    assert_eq!(limiter.engine.refund_decision(&decision, None), Ok(300));
    assert_eq!(limiter.left(""), [10, 1_000]);
    assert_eq!(limiter.engine.refund_decision(&decision, None), Err(UsageError::AlreadyGivenBack { left: 0, cost: 300 }));
}

#[test]
fn a_receipt_is_for_its_own_engine() {
    let (limiter, other) = (Ruled::new(&[json!({})]), Ruled::new(&[json!({})]));
    let decision = limiter.check("");
    assert_eq!(other.engine.refund_decision(&decision, None), Err(UsageError::ForeignDecision));
    assert_eq!(other.engine.settle_decision(&decision, 0).map(drop), Err(UsageError::ForeignDecision));
    assert_eq!(other.engine.renew_decision(&decision), Err(UsageError::ForeignDecision));
    assert_eq!(limiter.engine.refund(b"a key", &decision, None), Err(UsageError::WrongKey), "it was made for a request");
}

#[test]
fn a_refund_finds_rules_that_moved_and_loses_those_that_are_gone() {
    let limiter = Ruled::new(&[json!({"name": "a"}), json!({"name": "b"})]);
    let decision = limiter.check("");
    limiter.load(&[json!({"name": "new", "priority": 5}), json!({"name": "b"})], tidegate_engine::plan::Transition::Safe);
    assert_eq!(limiter.left(""), [10, 9]);
    limiter.engine.refund_decision(&decision, None).expect("a call that makes sense");
    assert_eq!(limiter.left(""), [10, 10]);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Takes, and gives nothing back.
    Check(u64),
    Forward(u64),
    /// Gives back a part of the decision.
    Refund(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..=4_u64).prop_map(Step::Check),
        3 => (1..=9_000_u64).prop_map(|millis| Step::Forward(millis * (SECOND / 1_000))),
        3 => (0..=4_u64).prop_map(Step::Refund),
    ];
    vec(step, 0..25)
}

fn any_rules() -> impl Strategy<Value = Vec<Value>> {
    // With more room than all steps take: a debit that is cut at the most that can be owed would be cut less without the request.
    let quotas = [
        "300/10s",
        "300/12s sliding_window_counter",
        "300/20s fixed_window",
        "300/20s burst 250",
        "300/10s sliding_window_log",
        "300/15s queue 14s",
    ];
    vec((select(quotas.to_vec()), 1..=6_u64, any::<bool>()), 1..4).prop_map(|rules| {
        let rule = |(number, (quotas, max, is_shadow)): (usize, (&str, u64, bool))| {
            let mut rule = by_size(&format!("rule-{number}"), quotas, max);
            rule["mode"] = json!(if is_shadow { "shadow" } else { "enforce" });
            rule
        };
        rules.into_iter().enumerate().map(rule).collect()
    })
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// However a decision is given back, in parts and later, every rule is at least as strict as if the request had never been made, and at
    /// most as strict as if nothing had been given back.
    #[test]
    fn what_is_given_back_is_never_more_than_was_taken(rules in any_rules(), before in steps(), size in 1..=8_u64, after in steps(), settled in prop::option::of(0..=8_u64)) {
        let [with, without, kept] = std::array::from_fn(|_| Ruled::new(&rules));
        let all = [&with, &without, &kept];
        let walk = |step: Step| match step {
            // Debits are charged whatever is left, so the three see the same.
            Step::Check(cost) => all.iter().for_each(|limiter| drop(limiter.engine.debit_request(&rules::Text(""), cost))),
            Step::Forward(nanos) => all.iter().for_each(|limiter| limiter.advance(nanos)),
            Step::Refund(_) => {}
        };
        before.into_iter().for_each(walk);
        let facts = format!("size={size}");
        let (decision, kept_decision) = (with.check(&facts), kept.check(&facts));
        prop_assert_eq!(decision.is_allowed(), kept_decision.is_allowed());
        for step in after {
            walk(step);
            if let Step::Refund(cost) = step {
                let _ = with.engine.refund_decision(&decision, Some(cost));
            }
            let (left, most, least) = (with.left(""), without.left(""), kept.left(""));
            for ((left, most), least) in left.iter().zip(&most).zip(&least) {
                prop_assert!(left <= most, "{} is left, and {} would be without the request", left, most);
                prop_assert!(left >= least, "{} is left, and {} would be without a refund", left, least);
            }
        }
        if let Some(cost) = settled {
            let _ = with.engine.settle_decision(&decision, cost);
            prop_assert!(with.left("").iter().zip(&without.left("")).all(|(left, most)| left <= most));
            prop_assert!(with.engine.refund_decision(&decision, Some(1)).is_err(), "it is settled, or took nothing");
        }
    }

    /// Without time passing, what is given back in parts is in the end exactly what was taken, rule by rule.
    #[test]
    fn parts_add_up_to_the_whole(rules in any_rules(), size in 1..=8_u64, parts in vec(1..=3_u64, 0..9)) {
        let limiter = Ruled::new(&rules);
        let before = limiter.left("");
        let decision = limiter.check(&format!("size={size}"));
        prop_assert!(decision.is_allowed());
        let mut given_back = 0;
        for part in parts {
            match limiter.engine.refund_decision(&decision, Some(part)) {
                Ok(units) => given_back += units,
                Err(error) => prop_assert_eq!(error, UsageError::AlreadyGivenBack { left: decision.cost() - given_back, cost: decision.cost() }),
            }
        }
        if given_back < decision.cost() {
            prop_assert_eq!(limiter.engine.refund_decision(&decision, None), Ok(decision.cost() - given_back));
        }
        prop_assert_eq!(limiter.left(""), before);
    }
}

#[test]
fn settling_a_costly_rule_leaves_the_count_of_requests_alone() {
    let limiter = Ruled::new(&[json!({"name": "requests"}), by_size("tokens", "1000/minute", 500)]);
    let decision = limiter.check("size=300");
    limiter.engine.settle_decision(&decision, 200).expect("a call that makes sense");
    assert_eq!(limiter.left(""), [9, 800], "it was cheaper, and still one request");
    let decision = limiter.check("size=300");
    limiter.engine.settle_decision(&decision, 400).expect("a call that makes sense");
    assert_eq!(limiter.left(""), [8, 400], "it was dearer, and still one request");
    let decision = limiter.check("size=300");
    limiter.engine.settle_decision(&decision, 0).expect("a call that makes sense");
    assert_eq!(limiter.left(""), [8, 400], "it was none");
}

#[test]
fn a_rule_whose_cost_was_stated_too_low_pays_the_true_one() {
    let limiter = Ruled::new(&[json!({"name": "requests"}), by_size("tokens", "1000/minute", 500)]);
    let decision = limiter.check("size=0");
    limiter.engine.settle_decision(&decision, 400).expect("a call that makes sense");
    assert_eq!(limiter.left(""), [9, 600], "nothing was taken for it, and one request");
    let limiter = Ruled::new(&[by_size("tokens", "1000/minute", 500)]);
    let decision = limiter.check("size=0");
    assert!(limiter.engine.settle_decision(&decision, 400).is_err(), "nothing was taken: it is no receipt");
    limiter.engine.debit_decision(&decision, 400).expect("a call that makes sense");
    assert_eq!(limiter.left(""), [600]);
    let decision = limiter.check("size=300");
    limiter.engine.debit_decision(&decision, 200).expect("a call that makes sense");
    assert_eq!(limiter.left(""), [300], "nothing is given back");
}
