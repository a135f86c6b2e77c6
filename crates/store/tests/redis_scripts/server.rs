//! What only a server can get wrong: its clock, expiry, other people's values, memory that runs out.

use tidegate_core::algorithm::Receipt;
use tidegate_store::redis::resp::Value;
use tidegate_store::redis::script::{Build, Op, Reply};
use tidegate_store::store::{Charge, StoreError};

use super::connection::{Connection, PREFIX, server_name, start};
use super::kit::{Kit, QUOTAS_OF_FIVE, charge, name};
use super::random::Random;

fn server_now_us(kit: &Kit) -> u64 {
    let time = kit.connection.ask(&["TIME"]);
    let number =
        |value: &Value| -> u64 { std::str::from_utf8(value.text().expect("a text")).expect("digits").parse().expect("a number") };
    let items = time.items().expect("two numbers");
    number(&items[0]) * 1_000_000 + number(&items[1])
}

/// Mistake 18.
#[test]
pub(crate) fn the_servers_clock_decides_however_wrong_the_callers_is() {
    let kit = Kit::new(Build::Production);
    let minute_ns = 60_000_000_000;
    for (number, quota) in (0..).zip(QUOTAS_OF_FIVE) {
        let meter = kit.meter(quota);
        let before = server_now_us(&kit) * 1_000;
        for estimate in [0, before - minute_ns, before, before + minute_ns, 1 << 62] {
            let (now_ns, verdict) = kit.ask(Op::Check, &[charge(&meter, number)], estimate).expect("a server that works");
            assert!(before <= now_ns && now_ns <= server_now_us(&kit) * 1_000, "{quota}: {before} {now_ns}");
            assert!(verdict.reset_after() <= 2 * minute_ns, "{quota}");
        }
    }
}

/// Mistakes 19 and 20: the value and its expiry are written together, and to the digit.
#[test]
pub(crate) fn a_counter_lives_as_long_as_it_counts_and_not_longer() {
    let kit = Kit::new(Build::Production);
    kit.connection.ask(&["CONFIG", "RESETSTAT"]);
    for (number, quota) in (0..).zip(QUOTAS_OF_FIVE) {
        let meter = kit.meter(quota);
        let charge = charge(&meter, number);
        let (now_ns, verdict) = kit.ask(Op::Check, &[charge], 0).expect("a server that works");
        let (value, ttl_ms) = kit.connection.stored(&name(&charge)).expect("it was charged");
        let expires_ns = match verdict.statuses()[0].receipt {
            Receipt::Arrival { arrival, .. } => {
                let written = u64::from_be_bytes([0, value[1], value[2], value[3], value[4], value[5], value[6], value[7]]);
                assert_eq!(written, arrival.ticks, "{quota}: no digit is lost");
                arrival.expires_at() * 1_000
            }
            _ => now_ns + verdict.reset_after(),
        };
        let (asked_at_us, ttl_us) = (server_now_us(&kit), ttl_ms.unsigned_abs() * 1_000);
        assert!(asked_at_us + ttl_us >= expires_ns / 1_000, "{quota}: it must not be forgotten early");
        assert!(ttl_us <= (expires_ns - now_ns) / 1_000 + 2_000, "{quota}: {ttl_us}");
    }
    let commands = kit.connection.ask(&["INFO", "commandstats"]);
    let text = String::from_utf8_lossy(commands.text().expect("a text")).into_owned();
    assert!(!text.contains("expire:"), "no expiry is written by itself");
}

#[test]
fn a_counter_at_full_credit_is_deleted() {
    let kit = Kit::new(Build::Production);
    let now_ns = server_now_us(&kit) * 1_000;
    for (number, quota) in (0..).zip(QUOTAS_OF_FIVE) {
        let meter = kit.meter(quota);
        let charge = charge(&meter, number);
        let receipt = kit.check(&[charge], now_ns).statuses()[0].receipt;
        let op = match receipt {
            Receipt::Lease { .. } => Op::Release,
            receipt => Op::Refund(tidegate_core::meter::Refund { receipt, cost: 1 }),
        };
        let reply = kit.connection.call(&kit.call(op, &[charge], now_ns));
        assert_eq!(reply, Ok(Reply::Done(true)), "{quota}");
        let is_bucket = matches!(receipt, Receipt::Arrival { .. });
        // A bucket remembers its refunds until receipts of before have passed.
        assert_eq!(kit.connection.stored(&name(&charge)).is_some(), is_bucket, "{quota}");
        assert_eq!(kit.connection.call(&kit.call(op, &[charge], now_ns)), Ok(Reply::Done(false)), "{quota}: not a second time");
    }
}

/// All values that are not of the kind that a script expects.
fn foreign_values(kit: &Kit) -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> =
        ["", "5", "hello", "{\"count\": 5}", "1767225600.123", "\x00", "a value that is longer than any of the others"]
            .map(|text| text.as_bytes().to_vec())
            .into();
    let mut random = Random::new(7);
    values.extend((0..40).map(|length| (0..length).map(|_| random.next().to_le_bytes()[0] & 0x7f).collect()));
    for (number, quota) in (500..).zip(QUOTAS_OF_FIVE) {
        let meter = kit.meter(quota);
        kit.check(&[charge(&meter, number)], 0);
        let (value, _) = kit.connection.stored(&name(&charge(&meter, number))).expect("it was charged");
        // Cut off, and with something behind it.
        values.extend((1..value.len()).map(|length| value[..length].to_vec()));
        values.push([&value[..], b"!"].concat());
        values.push(value);
    }
    values
}

#[test]
fn a_foreign_value_is_reported_and_nothing_is_written() {
    let kit = Kit::new(Build::Production);
    let values = foreign_values(&kit);
    let other = kit.meter("5/minute gcra");
    for (number, quota) in (0..).zip(QUOTAS_OF_FIVE) {
        let meter = kit.meter(quota);
        let (foreign, mine) = (charge(&meter, number), charge(&other, 900));
        let key = name(&foreign);
        kit.check(&[foreign], 0);
        let own = kit.connection.stored(&key).expect("it was charged").0[0];
        for value in values.iter().filter(|value| value.first() != Some(&own)) {
            kit.connection.ask_bytes(&[b"SET", &key, value]);
            for charges in [&[foreign][..], &[mine, foreign]] {
                let answer = kit.ask(Op::Check, charges, 0);
                assert!(matches!(answer, Err(StoreError::Foreign { .. })), "{quota}: {value:?} {answer:?}");
            }
            assert_eq!(kit.connection.stored(&key), Some((value.clone(), -1)), "{quota}");
            assert_eq!(kit.connection.stored(&name(&mine)), None, "{quota}: {value:?}");
        }
    }
}

/// Also what begins like a value of our own never leads to a half-done request.
#[test]
fn a_broken_value_never_charges_half_of_a_request() {
    let kit = Kit::new(Build::Production);
    let other = kit.meter("1000000/day fixed_window");
    let mut random = Random::new(11);
    for (number, quota) in (0..).zip(QUOTAS_OF_FIVE) {
        let meter = kit.meter(quota);
        let (broken, mine) = (charge(&meter, number), charge(&other, 901));
        let key = name(&broken);
        (0..3).for_each(|lease| _ = kit.check(&[Charge { ask: charge(&meter, 40 + lease).ask, ..broken }], 0));
        let (value, _) = kit.connection.stored(&key).expect("it was charged");
        for _ in 0..300 {
            let mut value = value.clone();
            let index = random.index(value.len() - 1) + 1;
            value[index] = random.next().to_le_bytes()[0];
            value.truncate(value.len() - random.index(2));
            kit.connection.ask_bytes(&[b"SET", &key, &value]);
            let before = kit.connection.stored(&name(&mine)).map(|stored| stored.0);
            let answer = kit.ask(Op::Check, &[mine, broken], 0);
            let is_charged = answer.is_ok_and(|(_, verdict)| verdict.is_allowed());
            let after = kit.connection.stored(&name(&mine)).map(|stored| stored.0);
            assert_eq!(is_charged, before != after, "{quota}: {value:?}");
        }
    }
}

#[test]
fn a_value_of_another_type_is_foreign() {
    let kit = Kit::new(Build::Production);
    for (number, quota) in (0..).zip(QUOTAS_OF_FIVE) {
        let meter = kit.meter(quota);
        let (foreign, mine, other) = (charge(&meter, number), charge(&meter, 902), charge(&meter, 903));
        kit.connection.ask_bytes(&[b"RPUSH", &name(&foreign), b"a"]);
        for charges in [&[foreign][..], &[foreign, foreign], &[mine, foreign, other]] {
            let answer = kit.ask(Op::Check, charges, 0);
            assert!(matches!(answer, Err(StoreError::Foreign { .. })), "{quota}: {answer:?}");
        }
        assert_eq!(kit.connection.ask_bytes(&[b"LLEN", &name(&foreign)]), Value::Int(1), "{quota}");
        assert_eq!(kit.connection.stored(&name(&mine)), None, "{quota}");
    }
}

/// A script that has begun to write may go on, so a request is charged to all quotas or to none, wherever memory ends.
#[test]
fn where_memory_ends_all_quotas_are_charged_or_none() {
    let server = start(&server_name(), &["--maxmemory", "100mb"]);
    let kit = Kit { connection: Connection::to(&server.url), ..Kit::new(Build::Production) };
    let meter = kit.meter("5/minute");
    let (mut charged, mut refused) = (0, 0);
    kit.check(&[charge(&meter, 0), charge(&meter, 1)], 0);
    for round in 1..200_u64 {
        let info = kit.connection.ask(&["INFO", "memory"]);
        let text = String::from_utf8_lossy(info.text().expect("a text")).into_owned();
        let used = text.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it is there").trim();
        let bound = used.parse::<u64>().expect("a number") + round * 150;
        kit.connection.ask(&["CONFIG", "SET", "maxmemory", &bound.to_string()]);
        let charges: Vec<_> = (0..20).map(|number| charge(&meter, round * 100 + number)).collect();
        let answer = kit.ask(Op::Check, &charges, 0);
        kit.connection.ask(&["CONFIG", "SET", "maxmemory", "0"]);
        let written = charges.iter().filter(|charge| kit.connection.stored(&name(charge)).is_some()).count();
        match answer {
            Ok(_) => charged += 1,
            Err(StoreError::Refused { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        assert_eq!(written, if answer.is_ok() { 20 } else { 0 }, "round {round}");
    }
    assert!(charged > 0 && refused > 0, "{charged} charged, {refused} refused");
}

/// Mistake 6 and mistake 5: a request that one quota denies is charged to none, and every quota has a counter of its own.
#[test]
pub(crate) fn a_denied_request_writes_nothing() {
    let kit = Kit::new(Build::Production);
    for (number, quota) in (0..).step_by(10).zip(QUOTAS_OF_FIVE) {
        let (meter, other) = (kit.meter(quota), kit.meter("1000/minute"));
        let (full, wide) = (charge(&meter, number), charge(&other, number + 1));
        (0..5).for_each(|lease| {
            assert!(kit.check(&[Charge { ask: charge(&meter, lease).ask, ..full }], 0).is_allowed(), "{quota}");
        });
        let before = kit.connection.stored(&name(&full)).map(|stored| stored.0);
        assert!(!kit.check(&[wide, Charge { ask: charge(&meter, 99).ask, ..full }], 0).is_allowed(), "{quota}");
        assert!(!kit.check(&[Charge { ask: charge(&meter, 99).ask, ..full }], 0).is_allowed(), "{quota}");
        assert_eq!(kit.connection.stored(&name(&wide)), None, "{quota}");
        assert_eq!(kit.connection.stored(&name(&full)).map(|stored| stored.0), before, "{quota}");
        assert_ne!(name(&wide), name(&full));
        assert!(name(&wide).starts_with(PREFIX));
    }
}

#[test]
fn a_server_that_forgot_its_scripts_is_told_again() {
    let kit = Kit::new(Build::Production);
    let meter = kit.meter("5/minute");
    kit.check(&[charge(&meter, 1)], 0);
    let call = kit.call(Op::Peek, &[charge(&meter, 1)], 0);
    kit.connection.call(&call).expect("a server that works");
    assert!(kit.connection.send(&call.by_hash()).items().is_some());
    kit.connection.ask(&["SCRIPT", "FLUSH"]);
    assert!(matches!(kit.connection.send(&call.by_hash()), Value::Error(text) if text.starts_with("NOSCRIPT")));
    assert!(kit.connection.call(&call).is_ok());
}
