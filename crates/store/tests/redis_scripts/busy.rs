//! Counters of `sliding_window` that are asked all the time: their logs are full, and mostly only the newest pair changes, which has a way of its own.

use tidegate_core::algorithm::Receipt;
use tidegate_core::meter::{Ask, Refund};
use tidegate_store::redis::script::{Build, Op, Reply};
use tidegate_store::store::Charge;

use super::kit::{Kit, charge, name};
use super::model::{self, Model, Verb};
use super::random::Random;

/// 2026-01-01.
const START_NS: u64 = 1_767_225_600_000_000_000;
const STEPS: usize = 2_000;
/// The first byte of a log with sums in front.
const SUMS: u8 = 157;

/// Quotas, and the largest gap between two requests.
const QUOTAS: [(&str, u64); 6] = [
    ("1000000/second entries 3", 1_000_000),
    ("1000000/7s entries 4", 30_000_000),
    ("1000000/7s", 5_000_000),
    ("2000/7s entries 5", 9_000_000),
    ("2000/day max_debt 100", 900_000_000),
    ("9007199254740992/36500d entries 3", 90_000_000_000_000),
];

#[test]
fn busy_counters_agree_with_the_kernels() {
    for (number, (quota, gap_max_ns)) in (0..).zip(QUOTAS) {
        let grown = play(quota, gap_max_ns, number);
        println!("{grown} of {STEPS} steps grew the newest pair: {quota}");
        assert!(grown > STEPS / 3, "{quota}: only {grown} of {STEPS}");
    }
}

/// Plays a trace; says how often a log had sums in front before a charge and after it.
fn play(quota: &str, gap_max_ns: u64, number: u64) -> usize {
    let kit = Kit::new(Build::InjectedMicros);
    let meter = kit.meter(quota);
    let (mut random, mut model, mut grown, mut now_ns) = (Random::new(number), Model::default(), 0, START_NS);
    for step in 0..STEPS {
        now_ns += match random.below(40) {
            0 => 0,
            1 => 1_000,
            2 => 20 * gap_max_ns,
            _ => random.below(gap_max_ns),
        } / 1_000
            * 1_000;
        let cost = match random.below(100) {
            0 => 300,
            1 => 70_000,
            _ => 1 + random.below(2),
        };
        let charge = Charge { ask: Ask::cost(cost), ..charge(&meter, number) };
        let has_sums = || kit.connection.stored(&name(&charge)).is_some_and(|(value, _)| value[0] == SUMS);
        let had_sums = has_sums();
        let (op, verb) = match random.below(50) {
            0 => (Op::Peek, Verb::Peek),
            1 => (Op::Debit, Verb::Debit),
            _ => (Op::Check, Verb::Check),
        };
        let (_, verdict) = kit.ask(op, &[charge], now_ns).expect("a server that works");
        let expected = model.ask(verb, &[charge], now_ns);
        assert_eq!(verdict.statuses(), &expected[..], "{quota}, step {step}: {op:?} {cost}");
        // Nothing is written but what is charged, because this clock never goes back.
        model.keep(model::name(&charge), false);
        grown += usize::from(verb == Verb::Check && had_sums && has_sums());
        let receipt = verdict.statuses()[0].receipt;
        if random.one_in(50) && receipt != Receipt::Nothing {
            let refund = Refund { receipt, cost: 1 };
            model.refund(&charge, refund, now_ns);
            let reply = kit.connection.call(&kit.call(Op::Refund(refund), &[charge], now_ns)).expect("a server that works");
            model.keep(model::name(&charge), reply == Reply::Done(true));
        }
    }
    grown
}
