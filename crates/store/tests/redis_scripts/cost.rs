//! What a call of each script costs the server: to be run by hand, on a machine that does nothing else.

use tidegate_core::meter::{Ask, Meter};
use tidegate_store::digest::Digest;
use tidegate_store::redis::resp::Command;
use tidegate_store::redis::script::{Build, Op, Scripts};
use tidegate_store::store::{Charge, Part, Place};

use super::connection::{Connection, PREFIX};

const CALLS: u64 = 200;
const KEYS: u64 = 20;
/// The machine does other things too: the quickest tenth of many runs was not disturbed.
const RUNS: usize = 300;

/// Quotas that admit all of these calls, and some that soon deny.
const QUOTAS: [&[&str]; 20] = [
    &["1000000/second gcra"],
    &["999983/7s gcra"],
    &["2/hour gcra"],
    &["1000000/second queue 10s"],
    &["1000000/minute fixed_window"],
    &["2/hour fixed_window"],
    &["1000000/minute sliding_window_counter"],
    &["1000000/minute sliding_window_counter buckets 6"],
    &["1000000/minute"],
    &["1000000/minute entries 4"],
    &["2/hour"],
    &["1000000/day sliding_window_log"],
    &["2/hour sliding_window_log"],
    &["100000 concurrent ttl 5s"],
    &["1000000/second gcra min_interval 1us"],
    &["1000000/second gcra", "1000000/minute gcra"],
    &["1000000/second gcra", "1000000/minute gcra", "1000000/hour gcra"],
    &["1000000/second", "1000000/minute", "1000000/hour"],
    &["1000000/second gcra", "1000000/minute", "1000000/day fixed_window"],
    &[
        "1000000/second gcra",
        "1000000/second queue 10s",
        "1000000/minute",
        "1000000/minute sliding_window_counter",
        "1000000/day fixed_window",
    ],
];

#[test]
#[ignore = "a measurement"]
fn script_cost() {
    let connection = Connection::new();
    let scripts = Scripts::new(Build::Production);
    for quotas in QUOTAS {
        let meters: Vec<Meter> =
            quotas.iter().map(|quota| scripts.meter(&quota.parse().expect("valid"), None).expect("valid")).collect();
        let command = |number: u64| {
            let charges: Vec<_> = meters.iter().zip(1..).map(|(meter, space)| charge(meter, number, space)).collect();
            scripts.call(Op::Check, &charges, PREFIX, 0)
        };
        connection.call(&command(0)).expect("a server that works");
        let commands: Vec<Command> = (0..CALLS).map(|number| command(number).by_hash()).collect();
        let mut runs: Vec<f64> = (0..RUNS).map(|_| micros(&connection, &commands)).collect();
        runs.sort_by(f64::total_cmp);
        println!("{:6.2} us  {}", runs[RUNS / 10], quotas.join(", "));
        connection.ask(&["FLUSHDB"]);
    }
}

fn charge(meter: &Meter, number: u64, space: u64) -> Charge<'_> {
    let key = Digest([number % KEYS, 1]);
    let ask = Ask { lease: Some(u128::from(number)), ..Ask::cost(1) };
    Charge { meter, key, place: Place::of(key), namespace: Digest([space << 16, 2]), ask, until: None, part: Part::Enforced }
}

/// Microseconds of one call, by the server's own account.
fn micros(connection: &Connection, commands: &[Command]) -> f64 {
    connection.ask(&["CONFIG", "RESETSTAT"]);
    connection.send_all(commands);
    let info = connection.ask(&["INFO", "commandstats"]);
    let text = String::from_utf8_lossy(info.text().expect("a text")).into_owned();
    let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("it was called");
    let value = line.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next()).expect("a number");
    value.parse().expect("a number")
}
