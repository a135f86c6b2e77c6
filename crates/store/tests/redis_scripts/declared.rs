//! Mistakes 17 and 21: a script names every key that it touches, and makes none up.

use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::meter::Meter;
use tidegate_core::time::Ticks;
use tidegate_store::digest::Digest;
use tidegate_store::redis::resp::{Command, Value};
use tidegate_store::redis::script::{Build, Call, Op, Scripts, key};
use tidegate_store::store::{Charge, Part, Place};

use super::connection::{Connection, PREFIX, server_name};
use super::kit::{QUOTAS_OF_FIVE, charge};
use crate::servers::Servers;

/// Calls of every script with one counter, and of one with all algorithms.
fn calls(scripts: &Scripts, meters: &[Meter]) -> Vec<Call> {
    let charges: Vec<Charge<'_>> = meters.iter().zip(0..).map(|(meter, number)| charge(meter, number)).collect();
    let call = |op, charges: &[Charge<'_>]| scripts.call(op, charges, PREFIX, 1_767_225_600_000_000_000);
    let mut calls = vec![call(Op::Check, &charges), call(Op::Peek, &charges), call(Op::Debit, &charges)];
    let receipts = |charge: &Charge<'_>| {
        let (id, at, sequence): (u64, Ticks, u64) = (1_767_225_660_000_000, 1_767_225_600_000_000, 0);
        let arrival = tidegate_core::algorithm::rate::Arrival { ticks: at, part: 0, base: 1 };
        let all = [
            Receipt::Arrival { arrival, refunded: [0; 16] },
            Receipt::Window { id },
            Receipt::Stamp { at, clamps: 0 },
            Receipt::Entry { sequence, at },
        ];
        all.map(|receipt| call(Op::Refund(Refund { receipt, cost: 1 }), std::slice::from_ref(charge)))
    };
    for charge in &charges {
        let one = std::slice::from_ref(charge);
        calls.extend([
            call(Op::Check, one),
            call(Op::Peek, one),
            call(Op::Debit, one),
            call(Op::Renew, one),
            call(Op::Release, one),
        ]);
        calls.extend(receipts(charge));
    }
    calls.retain(|call| call.keys().next().is_some());
    calls
}

fn meters(scripts: &Scripts) -> Vec<Meter> {
    QUOTAS_OF_FIVE.iter().map(|quota| scripts.meter(&quota.parse().expect("a quota"), None).expect("no calendar")).collect()
}

#[test]
pub(crate) fn scripts_touch_only_the_keys_that_they_are_given() {
    let scripts = Scripts::new(Build::Production);
    for call in calls(&scripts, &meters(&scripts)) {
        let text = call.script().text();
        for command in text.split("call('").skip(1) {
            let arguments = command.split('\n').next().expect("a line");
            let is_declared =
                ["TIME')", "GET', key)", "SET', key, packed,", "DEL', key)"].iter().any(|known| arguments.starts_with(known));
            assert!(is_declared, "call('{arguments}");
        }
        let mut made = text.split(['=', '\n', ' ', ',']).filter(|word| word.starts_with("KEYS"));
        assert!(made.all(|word| word == "KEYS[1]" || word == "KEYS[k]"), "{text}");
        assert_eq!(text.matches("call('TIME')").count(), 1, "the clock is read once");
        assert!(!text.contains("tostring("), "numbers are never printed with 14 digits");
    }
}

/// With `#!lua` in front, a server in cluster mode refuses a script that touches a key of another slot than those it was given.
#[test]
pub(crate) fn a_cluster_runs_every_script() {
    let server = Servers::start(&["single", "--server", &server_name(), "--config", "cluster-enabled yes"]);
    let connection = Connection::plain(&server.url);
    connection.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let is_ready = || {
        let info = connection.ask(&["CLUSTER", "INFO"]);
        String::from_utf8_lossy(info.text().expect("a text")).contains("cluster_state:ok")
    };
    while !is_ready() {}
    let scripts = Scripts::new(Build::Production);
    let strict = |call: &Call, text: &str| {
        let (text, keys) = (format!("#!lua\n{text}"), call.keys().count().to_string());
        let words: Vec<&[u8]> =
            [b"EVAL", text.as_bytes(), keys.as_bytes()].into_iter().chain(call.keys()).chain(call.arguments()).collect();
        connection.send(&Command::new(&words))
    };
    let meters = meters(&scripts);
    for call in calls(&scripts, &meters) {
        let value = strict(&call, call.script().text());
        assert!(call.decode(&value).is_ok(), "{value:?}");
    }
    // The same with a key that the script makes up itself: the test would notice.
    let call = scripts.call(Op::Check, &[charge(&meters[0], 0)], PREFIX, 0);
    let value = strict(&call, &call.script().text().replace("KEYS[1]", "'tg:' .. ARGV[1]"));
    assert!(matches!(value, Value::Error(_)), "{value:?}");
}

#[test]
fn a_name_has_one_tag_whatever_the_digests_are() {
    let scripts = Scripts::new(Build::Production);
    let meter = scripts.meter(&"5/minute".parse().expect("a quota"), None).expect("no calendar");
    let braces = Digest([0x7d7d_7d7d_7b7b_7d7d, 0x7d7d_7d7d_7d7d_7d7d]);
    let place = Place { tag: braces, breadth: 0 };
    let of = |key: Digest, place: Place| {
        let mut name = Vec::new();
        key::write(&mut name, PREFIX, &Charge { key, place, part: Part::Enforced, ..charge(&meter, 3) });
        name
    };
    let (alone, shared) = (of(braces, Place::of(braces)), of(Digest([1, 2]), place));
    assert_eq!((alone.len(), shared.len()), (28, 44));
    for name in [&alone, &shared] {
        let first_end = name.iter().position(|&byte| byte == b'}').expect("a tag ends");
        assert_eq!((name[3], first_end), (b'{', 20));
    }
    assert_eq!(alone[4..20], shared[4..20]);
    assert_eq!(key::tag(place), shared[4..20]);
}
