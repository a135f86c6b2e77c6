//! Long random traces: the scripts and the Rust kernels agree in every field of every answer, at the same tick.

use tidegate_store::redis::script::Build;

use super::trace::{Family, Trace};

const GCRA: Family = &[
    "5/minute gcra",
    "7/minute burst 5",
    "11/13s burst 6 min_interval 1s",
    "7/minute burst 3 max_debt 0",
    "60/minute burst 4",
    "0/minute gcra",
];
const GCRA_ODD: Family = &["999999937/day gcra", "1000/7s burst 70", "65537/11s burst 99999 max_debt 5"];
const LEAKY: Family = &[
    "10/second queue 350ms nodelay 2",
    "7/minute queue 30s",
    "3/7s queue 10s max_cost 4 max_debt 2",
    "10/second queue 1s min_interval 250ms",
];
const FIXED: Family =
    &["5/7s fixed_window", "9/7s fixed_window max_debt 3", "2/7s fixed_window min_interval 500ms", "0/7s fixed_window"];
const FIXED_LARGE: Family = &["9007199254740992/7s fixed_window", "70000/7s fixed_window", "300/7s fixed_window"];
const COUNTER: Family =
    &["5/7s sliding_window_counter", "12/7s sliding_window_counter max_debt 2", "3/7s sliding_window_counter min_interval 300ms"];
const COUNTER_LARGE: Family = &[
    "9007199254740992/day sliding_window_counter",
    "9007199254740881/day sliding_window_counter",
    "70001/day sliding_window_counter",
];
const RING: Family = &["5/7s sliding_window_counter buckets 6", "12/7s sliding_window_counter buckets 6 min_interval 100ms"];
const RING_LARGE: Family =
    &["4503599627370496/day sliding_window_counter buckets 1000", "300/day sliding_window_counter buckets 1000"];
const SLIDING: Family = &["5/7s", "20/7s entries 3", "12/7s entries 2 max_debt 2", "9/7s min_interval 100ms", "40/7s entries 30"];
/// Roomy enough for full logs that go on and on.
const SLIDING_DENSE: Family =
    &["1000000/7s entries 3", "1000000/7s entries 4", "900000/7s entries 3", "1000000/8s entries 3", "800000/7s"];
const SLIDING_LARGE: Family = &["9007199254740992/day entries 3", "9007199254740991/day entries 2", "70000/day"];
const LOG: Family =
    &["5/7s sliding_window_log", "12/7s sliding_window_log max_debt 3", "300/7s sliding_window_log min_interval 10ms"];
const LOG_LARGE: Family = &["1000000/day sliding_window_log", "70000/day sliding_window_log"];
const SLOTS: Family = &["3 concurrent ttl 10s", "8 concurrent ttl 7s", "0 concurrent ttl 10s", "5 concurrent ttl 1s"];
const SLOTS_LARGE: Family = &["100000 concurrent ttl 10s", "70 concurrent ttl 10s"];
/// Windows that only fit microseconds.
const LONG: [Family; 6] = [
    &["9007199254740992/36500d", "5/36500d"],
    &["9007199254740992/36500d fixed_window", "5/36500d fixed_window"],
    &["9007199254740992/36500d sliding_window_counter", "5/36500d sliding_window_counter"],
    &["9007199254740992/36500d sliding_window_counter buckets 1024"],
    &["7/30000d gcra", "7/30000d burst 8"],
    &["999983/s queue 36000d max_cost 5", "999983/s queue 30000d"],
];
const ALL: [Family; 17] = [
    GCRA,
    GCRA_ODD,
    LEAKY,
    FIXED,
    FIXED_LARGE,
    COUNTER,
    COUNTER_LARGE,
    RING,
    RING_LARGE,
    SLIDING,
    SLIDING_DENSE,
    SLIDING_LARGE,
    LOG,
    LOG_LARGE,
    SLOTS,
    SLOTS_LARGE,
    CALENDAR,
];
const CALENDAR: Family = &["5/day calendar", "9/day calendar max_debt 3"];

/// Steps of each trace; `TIDEGATE_TRACE_STEPS` for longer ones.
fn steps() -> usize {
    std::env::var("TIDEGATE_TRACE_STEPS").map_or(1_500, |steps| steps.parse().expect("a number"))
}

fn seeds() -> Vec<u64> {
    std::env::var("TIDEGATE_TRACE_SEED").map_or_else(|_| vec![1, 2, 3], |seed| vec![seed.parse().expect("a number")])
}

fn play(build: Build, families: &[Family]) {
    for seed in seeds() {
        println!("replay: TIDEGATE_TRACE_SEED={seed} TIDEGATE_TRACE_STEPS={}", steps());
        Trace::new(build, families, seed).play(steps());
    }
}

macro_rules! traces {
    ($($name:ident: $($family:ident)*,)*) => {
        $(#[test]
        fn $name() {
            $(play(Build::Injected, &[$family]);
            play(Build::InjectedMicros, &[$family]);)*
        })*
    };
}

traces! {
    gcra_agrees: GCRA GCRA_ODD,
    leaky_bucket_agrees: LEAKY,
    fixed_window_agrees: FIXED FIXED_LARGE CALENDAR,
    sliding_window_counter_agrees: COUNTER COUNTER_LARGE,
    sliding_window_ring_agrees: RING RING_LARGE,
    sliding_window_agrees: SLIDING SLIDING_DENSE SLIDING_LARGE,
    sliding_window_log_agrees: LOG LOG_LARGE,
    concurrency_agrees: SLOTS SLOTS_LARGE,
}

#[test]
fn several_quotas_of_all_algorithms_agree() {
    play(Build::Injected, &ALL);
    play(Build::InjectedMicros, &ALL);
}

#[test]
fn the_longest_windows_agree() {
    for family in LONG {
        play(Build::InjectedMicros, &[family]);
    }
    play(Build::InjectedMicros, &LONG);
}
