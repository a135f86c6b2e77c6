//! The properties of [`suite`], each on two thousand random cases.
//!
//! A failure prints its smallest case and the seed that finds it again. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` override the number of cases and
//! the seed.

mod suite;

use std::env;
use std::hash::{BuildHasher, RandomState};

use proptest::test_runner::{Config, RngSeed, TestRunner};

use suite::Property;

const CASES: u32 = 2_000;

fn prove(name: &str, property: Property) {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(name),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    if let Err(failure) = property(&mut TestRunner::new(config)) {
        panic!(
            "{failure}\nreplay: PROPTEST_RNG_SEED={seed} CARGO_PROFILE_TEST_OPT_LEVEL=2 \
             cargo test -p tidegate-core --test properties {name}"
        );
    }
}

macro_rules! tests {
    ($($module:ident::$name:ident,)*) => {
        $(#[test]
        fn $name() {
            prove(stringify!($name), suite::$module::$name);
        })*
    };
}
suite::properties!(tests);
