//! The published mistakes that are about scripts, put into them one at a time: the tests on a real server must notice each, and for the right reason.
#![cfg(feature = "mutants")]
#![allow(dead_code, reason = "only some of the tests of the scripts are needed here")]
#![allow(clippy::similar_names, clippy::needless_for_each, reason = "as in `redis_scripts.rs`, which shares these files")]

#[path = "redis_scripts/connection.rs"]
mod connection;
#[path = "redis_scripts/declared.rs"]
mod declared;
#[path = "redis_scripts/kit.rs"]
mod kit;
#[path = "redis_scripts/random.rs"]
mod random;
#[path = "redis_scripts/server.rs"]
mod server;
mod servers;

use tidegate_core::mutant::{Mutant, Promise, hunt};

const PROMISES: [Promise; 5] = [
    ("a_denied_request_writes_nothing", server::a_denied_request_writes_nothing),
    ("a_cluster_runs_every_script", declared::a_cluster_runs_every_script),
    ("scripts_touch_only_the_keys_that_they_are_given", declared::scripts_touch_only_the_keys_that_they_are_given),
    ("the_servers_clock_decides_however_wrong_the_callers_is", server::the_servers_clock_decides_however_wrong_the_callers_is),
    ("a_counter_lives_as_long_as_it_counts_and_not_longer", server::a_counter_lives_as_long_as_it_counts_and_not_longer),
];

const KILLERS: [(Mutant, &str); 7] = [
    (Mutant::TiersShareCounters, "a_denied_request_writes_nothing"),
    (Mutant::ChargesTierByTier, "a_denied_request_writes_nothing"),
    (Mutant::KeysMadeUp, "a_cluster_runs_every_script"),
    (Mutant::CallersClock, "the_servers_clock_decides_however_wrong_the_callers_is"),
    (Mutant::ExpiryByItself, "a_counter_lives_as_long_as_it_counts_and_not_longer"),
    (Mutant::FourteenDigits, "a_counter_lives_as_long_as_it_counts_and_not_longer"),
    (Mutant::KeysUndeclared, "scripts_touch_only_the_keys_that_they_are_given"),
];

/// One test, because the switch is one for the whole process.
#[test]
fn the_scripts_hold_and_fail_with_each_published_mistake() {
    hunt(&PROMISES, &KILLERS);
}
