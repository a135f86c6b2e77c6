//! Short ways to ask a script.

use tidegate_core::decision::Verdict;
use tidegate_core::meter::{Ask, Meter};
use tidegate_store::digest::Digest;
use tidegate_store::redis::script::{Build, Call, Op, Reply, Scripts, key};
use tidegate_store::store::{Charge, Part, Place, StoreError};

use super::connection::{Connection, PREFIX};

/// A quota of every algorithm with a counter, each with a capacity of 5.
pub(crate) const QUOTAS_OF_FIVE: [&str; 9] = [
    "5/minute gcra",
    "5/7s burst 5",
    "1/second queue 4s",
    "5/minute fixed_window",
    "5/minute sliding_window_counter",
    "5/minute sliding_window_counter buckets 6",
    "5/minute",
    "5/minute sliding_window_log",
    "5 concurrent ttl 60s",
];

/// Scripts and a server.
pub(crate) struct Kit {
    pub(crate) scripts: Scripts,
    pub(crate) connection: Connection,
}

impl Kit {
    pub(crate) fn new(build: Build) -> Self {
        Self { scripts: Scripts::new(build), connection: Connection::new() }
    }

    pub(crate) fn meter(&self, quota: &str) -> Meter {
        self.scripts.meter(&quota.parse().expect("a quota"), None).expect("a quota without a calendar")
    }

    pub(crate) fn call(&self, op: Op, charges: &[Charge<'_>], now_ns: u64) -> Call {
        self.scripts.call(op, charges, PREFIX, now_ns)
    }

    pub(crate) fn ask(&self, op: Op, charges: &[Charge<'_>], now_ns: u64) -> Result<(u64, Verdict), StoreError> {
        match self.connection.call(&self.call(op, charges, now_ns))? {
            Reply::Verdict { now_ns, verdict } => Ok((now_ns, verdict)),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn check(&self, charges: &[Charge<'_>], now_ns: u64) -> Verdict {
        self.ask(Op::Check, charges, now_ns).expect("a server that works").1
    }
}

/// A charge of cost 1 to the counter with this number.
pub(crate) fn charge(meter: &Meter, number: u64) -> Charge<'_> {
    let key = Digest([7, 7]);
    let ask = Ask { lease: Some(u128::from(number) << 64 | 5), ..Ask::cost(1) };
    Charge { meter, key, place: Place::of(key), namespace: Digest([number << 16, 1]), ask, until: None, part: Part::Enforced }
}

pub(crate) fn name(charge: &Charge<'_>) -> Vec<u8> {
    let mut name = Vec::new();
    key::write(&mut name, PREFIX, charge);
    name
}
