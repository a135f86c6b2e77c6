//! How many bytes a server needs for a key, at 100,000 keys.

use tidegate_core::meter::Ask;
use tidegate_store::redis::script::Build;
use tidegate_store::store::Charge;

use super::connection::Connection;
use super::kit::{Kit, charge, name};
use crate::servers::Servers;

const KEYS: u64 = 100_000;
/// 2026-01-01.
const START_NS: u64 = 1_767_225_600_000_000_000;
/// Between two charges of a key.
const GAP_NS: u64 = 7_001_001_000;

/// Quotas, and the bytes of a key that was charged once and five times, with some seconds between.
///
/// Memory comes in steps of 16 bytes: up to 12 bytes of value take 149, up to 28 take 165, up to 44 take 181. A lease alone has 16 bytes of id, and five
/// times to the microsecond have more than 12 bytes, whatever is done.
const BOUNDS: [(&str, u64, u64); 9] = [
    ("100/minute gcra", 150, 150),
    ("7/minute burst 9", 150, 150),
    ("1/second queue 1m", 150, 150),
    ("100/minute fixed_window", 150, 150),
    ("100/minute sliding_window_counter", 150, 150),
    ("100/minute sliding_window_counter buckets 60", 150, 150),
    ("100/minute", 150, 166),
    ("100/minute sliding_window_log", 150, 198),
    ("100 concurrent ttl 60s", 166, 278),
];

#[test]
fn a_key_takes_few_bytes() {
    let Some(server) = Servers::start_if_installed(&["single", "--server", "redis70"]) else { return };
    let kit = Kit { connection: Connection::plain(&server.url), ..Kit::new(Build::InjectedMicros) };
    for (quota, once_max, often_max) in BOUNDS {
        let meter = kit.meter(quota);
        let value = |charges: u64| {
            let charge = charge(&meter, charges);
            let of = |number| Charge { ask: Ask { lease: Some(number), ..Ask::cost(1) }, ..charge };
            for number in 0..charges {
                assert!(kit.check(&[of(u128::from(number) << 64)], START_NS + number * GAP_NS).is_allowed(), "{quota}");
            }
            kit.connection.stored(&name(&charge)).expect("it was charged").0
        };
        let (once, often) = (bytes(&kit.connection, &value(1)), bytes(&kit.connection, &value(5)));
        println!("{once:4} bytes after one charge, {often:4} after five: {quota}");
        assert!(once <= once_max && often <= often_max, "{quota}");
    }
}

/// What a key with this value takes.
fn bytes(connection: &Connection, value: &[u8]) -> u64 {
    connection.ask(&["FLUSHALL", "SYNC"]);
    let empty = used(connection);
    // A name is as long as those of most counters.
    let fill =
        b"for i = 1, 10000 do redis.call('SET', string.format('tg:{%016d}%07d', i, ARGV[2]), ARGV[1], 'PX', '3600000') end";
    for round in 0..KEYS / 10_000 {
        connection.ask_bytes(&[b"EVAL", fill, b"0", value, round.to_string().as_bytes()]);
    }
    let bytes = (used(connection) - empty) / KEYS;
    connection.ask(&["FLUSHALL", "SYNC"]);
    bytes
}

fn used(connection: &Connection) -> u64 {
    let info = connection.ask(&["INFO", "memory"]);
    let text = String::from_utf8_lossy(info.text().expect("a text")).into_owned();
    let used = text.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it is there");
    used.trim().parse().expect("a number")
}
