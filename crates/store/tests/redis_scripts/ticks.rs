//! Ticks: which one a quota gets, what becomes of counters when it changes, and clocks that are set.

use std::sync::Arc;

use tidegate_core::algorithm::Receipt;
use tidegate_core::meter::{Ask, MeterError, Refund};
use tidegate_core::time::{Calendar, Ticks, Window};
use tidegate_store::redis::script::{Build, Op, Reply, meter};
use tidegate_store::store::Charge;

use super::kit::{Kit, QUOTAS_OF_FIVE, charge};

const START_NS: u64 = 1_767_225_600_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn a_quota_gets_the_finest_tick_that_is_exact() {
    let tick_ns = |quota: &str| {
        let quota = quota.parse().unwrap_or_else(|error| panic!("{quota}: {error}"));
        meter(Build::Production, &quota, None).map(|meter| meter.tick().nanos())
    };
    let cases = [
        ("100/minute", 1_000),
        ("9007199254740992/36500d", 1_000),
        ("9007199254740992/36500d fixed_window", 1_000),
        ("9007199254740992/36500d sliding_window_counter", 1_000),
        ("9007199254740992/36500d sliding_window_counter buckets 1024", 1_000),
        ("1000000/36500d sliding_window_log", 1_000),
        ("100000 concurrent ttl 1d", 1_000),
        ("100/minute gcra", 1_000),
        ("1000000000/day gcra", 1_000),
        ("999999937/day gcra", 100_000_000),
        ("4294967291/second gcra", 1_000),
        ("4294967291/second burst 5000000000", 10_000),
        ("7/30000d gcra", 10_000),
        ("999983/s queue 36000d max_cost 5", 1_000_000_000),
        ("3/7001ns gcra", 1_000),
    ];
    for (quota, expected) in cases {
        assert_eq!(tick_ns(quota), Ok(expected), "{quota}");
    }
    assert_eq!(tick_ns("9007199254740992/105553116266496ns gcra"), Err(MeterError::TooLarge));
    assert_eq!(tick_ns("4294967291/999999937ns gcra"), Err(MeterError::RateTooFine { tick_ns: 1_000 }));
}

#[test]
fn a_debt_is_cut_to_what_can_be_counted() {
    let kit = Kit::new(Build::InjectedMicros);
    let meter = kit.meter("9007199254740990/minute fixed_window max_debt 100");
    let charge = Charge { ask: Ask::cost(1 << 53), ..charge(&meter, 1) };
    kit.ask(Op::Debit, &[charge], START_NS).expect("a server that works");
    let refund = Refund { receipt: Receipt::Window { id: START_NS / 1_000 + 60_000_000 }, cost: 3 };
    assert_eq!(kit.connection.call(&kit.call(Op::Refund(refund), &[charge], START_NS)), Ok(Reply::Done(true)));
    let (_, verdict) = kit.ask(Op::Peek, &[Charge { ask: Ask::cost(2), ..charge }], START_NS).expect("a server that works");
    assert_eq!((verdict.remaining(), verdict.is_allowed()), (Some(1), false));
}

/// A quota whose tick became coarser or finer counts what was charged, rounded up by less than a tick.
#[test]
fn a_bucket_outlives_a_change_of_its_tick() {
    let kit = Kit::new(Build::InjectedMicros);
    let quotas = ["999999937/day gcra", "1000000000/day gcra", "4294967291/second gcra max_debt 0", "7/minute burst 5"];
    let meters = quotas.map(|quota| kit.meter(quota));
    for (number, (old, new)) in meters.iter().flat_map(|old| meters.iter().map(move |new| (old, new))).enumerate() {
        let before = Charge { ask: Ask::cost(3), ..charge(old, number as u64) };
        let now_ns = START_NS + 123_456_000;
        let spent = kit.check(&[before], now_ns).reset_after();
        let (_, verdict) = kit.ask(Op::Peek, &[Charge { meter: new, ..before }], now_ns).expect("a server that works");
        let after = verdict.reset_after();
        let most = new.parameters();
        assert!(after >= spent || verdict.remaining() == Some(0), "{old:?} {new:?}: {after} is less than {spent}; {most:?}");
        let tick = old.tick().nanos().max(new.tick().nanos());
        assert!(after <= spent + 2 * tick, "{old:?} {new:?}: {after} is far more than {spent}");
    }
}

/// A refund whose sum would not be exact is dropped: it errs to denying.
#[test]
fn a_sum_of_refunds_that_is_not_exact_is_dropped() {
    let kit = Kit::new(Build::InjectedMicros);
    let meter = kit.meter("7/30000d gcra");
    let charge = Charge { ask: Ask::cost(7), ..charge(&meter, 1) };
    let done: Vec<_> = (0..8)
        .map(|_| {
            let receipt = kit.check(&[charge], START_NS).statuses()[0].receipt;
            let call = kit.call(Op::Refund(Refund { receipt, cost: 7 }), &[charge], START_NS);
            call.answer(START_NS).unwrap_or_else(|| kit.connection.call(&call).expect("a server that works"))
        })
        .collect();
    assert_eq!(done[0], Reply::Done(true));
    assert!(done.contains(&Reply::Done(false)));
    let (_, verdict) = kit.ask(Op::Peek, &[charge], START_NS).expect("a server that works");
    assert!(!verdict.is_allowed());
}

/// The clock goes back by an hour: whoever is denied then is admitted when it was told, and not before.
#[test]
fn a_wait_comes_true_after_the_clock_went_back() {
    let kit = Kit::new(Build::InjectedMicros);
    for (number, quota) in (0..).zip(QUOTAS_OF_FIVE) {
        let meter = kit.meter(quota);
        let of = |lease| Charge { ask: charge(&meter, lease).ask, ..charge(&meter, number) };
        let late = START_NS + 3_600 * SECOND_NS;
        (0..5).for_each(|lease| assert!(kit.check(&[of(lease)], late).is_allowed(), "{quota}"));
        let denied = kit.check(&[of(9)], START_NS);
        assert!(!denied.is_allowed(), "{quota}");
        // Leases expire when they were told, by the clock that there was.
        let wait = denied.retry_after().expect("a wait");
        assert!(wait <= 120 * SECOND_NS || quota.contains("concurrent"), "{quota}: {wait}");
        assert!(!kit.check(&[of(9)], START_NS + wait - 1_000).is_allowed(), "{quota}");
        assert!(kit.check(&[of(9)], START_NS + wait).is_allowed(), "{quota}");
    }
}

#[derive(Debug)]
struct Days;

impl Calendar for Days {
    fn window_at(&self, now: Ticks) -> Window {
        let day = 86_400 * SECOND_NS;
        Window { start: now - now % day, end: now - now % day + day }
    }
}

#[test]
fn a_calendar_that_was_sent_for_another_day_is_asked_for_again() {
    let kit = Kit::new(Build::Production);
    let meter = kit.scripts.meter(&"5/day calendar".parse().expect("a quota"), Some(Arc::new(Days))).expect("a calendar");
    let charge = charge(&meter, 1);
    let other = kit.meter("5/minute");
    let charges = [super::kit::charge(&other, 2), charge];
    for wrong in [START_NS, START_NS * 2, SECOND_NS] {
        let call = kit.call(Op::Check, &charges, wrong);
        let Ok(Reply::Clock { now_ns }) = kit.connection.call(&call) else { panic!("the days of {wrong} are not those of now") };
        assert!(call.keys().all(|key| kit.connection.stored(key).is_none()), "nothing is written");
        let (said_ns, verdict) = kit.ask(Op::Peek, &charges, now_ns).expect("a server that works");
        assert_eq!((verdict.remaining(), said_ns / SECOND_NS - now_ns / SECOND_NS < 10), (Some(5), true));
    }
}
