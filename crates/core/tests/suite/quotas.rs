//! Random quotas of every algorithm, in families that share their counters.

use std::fmt;

use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::meter::Meter;
use tidegate_core::quota::{AlgorithmName, Quota, QuotaSpec};
use tidegate_core::time::{Tick, Ticks};

/// The algorithms, the ring counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    SlidingWindow,
    Log,
    Counter,
    Ring,
    Fixed,
    Gcra,
    Leaky,
    Concurrency,
}

use Kind::{Concurrency, Counter, Fixed, Gcra, Leaky, Log, Ring, SlidingWindow};

pub(crate) const ALL: &[Kind] = &[SlidingWindow, Log, Counter, Ring, Fixed, Gcra, Leaky, Concurrency];
pub(crate) const TIMED: &[Kind] = &[SlidingWindow, Log, Counter, Ring, Fixed, Gcra, Leaky];
pub(crate) const WINDOWS: &[Kind] = &[SlidingWindow, Log, Counter, Ring, Fixed];

/// What the quotas of a family may have.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "each is a choice of its own, and named where it is made")]
pub(crate) struct Options {
    pub(crate) kinds: &'static [Kind],
    /// How many quotas, with different limits, share the counters.
    pub(crate) quotas_max: usize,
    /// Whether all quotas of a family have the same rate and the same distance between requests.
    pub(crate) one_pace: bool,
    /// Whether requests may have to keep a distance.
    pub(crate) min_interval: bool,
    /// Whether debits never reach the bottom of the debt, where part of them is forgiven.
    pub(crate) ample_debt: bool,
    /// Whether ticks are microseconds and all times multiples of them.
    pub(crate) whole_micros: bool,
}

impl Options {
    pub(crate) fn of(kinds: &'static [Kind]) -> Self {
        Self { kinds, quotas_max: 1, one_pace: false, min_interval: false, ample_debt: false, whole_micros: false }
    }
}

/// Quotas of one algorithm and window, which keep their counters when one replaces the other.
#[derive(Clone)]
pub(crate) struct Family {
    pub(crate) kind: Kind,
    pub(crate) tick: Tick,
    pub(crate) quotas: Vec<Quota>,
    /// The window, period or life of a lease, in ticks.
    pub(crate) window: Ticks,
}

impl Family {
    pub(crate) fn meters(&self) -> Vec<Meter> {
        self.quotas.iter().map(|quota| Meter::new(quota, self.tick, None).expect("a quota that fits its tick")).collect()
    }
}

/// As somebody would write it down to try it.
impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.quotas.iter().map(ToString::to_string).collect();
        write!(f, "{texts:?} at ticks of {} ns", self.tick.nanos())
    }
}

/// The numbers of one quota; each algorithm takes those it knows.
#[derive(Debug, Clone)]
struct Numbers {
    limit: u64,
    burst: u64,
    queue: u64,
    nodelay: u64,
    max_cost: Option<u64>,
    entries: u64,
    max_debt: Option<u64>,
    min_interval: u64,
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let limit = prop_oneof![4 => 1..=8_u64, 1 => 9..=40_u64];
    let entries = prop_oneof![3 => 1..=4_u64, 1 => Just(16)];
    let max_cost = proptest::option::of(1..=6_u64);
    let max_debt = proptest::option::of(0..=8_u64);
    let min_interval = prop_oneof![2 => Just(0), 1 => 1..=12_u64];
    (limit, 1..=8_u64, 0..=20_u64, 0..=3_u64, max_cost, entries, max_debt, min_interval).prop_map(
        |(limit, burst, queue, nodelay, max_cost, entries, max_debt, min_interval)| Numbers {
            limit,
            burst,
            queue,
            nodelay,
            max_cost,
            entries,
            max_debt,
            min_interval,
        },
    )
}

/// Families with windows of 1 to some 60,000 ticks: so short that every edge is met often.
pub(crate) fn families(options: Options) -> impl Strategy<Value = Family> {
    let quotas = proptest::collection::vec(numbers(), 1..=options.quotas_max);
    let odd_max = u64::from(!options.whole_micros);
    let period_ns = (1..=60_u64, 0..=odd_max, 0..1_000_u64).prop_map(|(micros, odd, nanos)| micros * 1_000 + odd * nanos);
    let ticks = if options.whole_micros { vec![1_000_u64] } else { vec![1, 7, 1_000] };
    (select(options.kinds), select(ticks), period_ns, 2..=6_u64, quotas)
        .prop_filter_map("a quota that cannot be built", move |(kind, tick_ns, period_ns, buckets, numbers)| {
            family(options, kind, tick_ns, period_ns, buckets, &numbers)
        })
}

fn family(options: Options, kind: Kind, tick_ns: u64, period_ns: u64, buckets: u64, numbers: &[Numbers]) -> Option<Family> {
    // A lease lives at least a millisecond.
    let (tick_ns, period_ns) = if kind == Concurrency { (1_000_000, period_ns * 1_000) } else { (tick_ns, period_ns) };
    let first = &numbers[0];
    let specs = numbers.iter().map(|numbers| {
        let pace = if options.one_pace { first } else { numbers };
        let limit = if matches!(kind, Gcra | Leaky) { pace.limit } else { numbers.limit };
        let base = QuotaSpec { limit: Some(limit), algorithm: Some(algorithm(kind)), ..QuotaSpec::default() };
        let timed = QuotaSpec {
            period_ns: Some(period_ns),
            min_interval_ns: options.min_interval.then_some(pace.min_interval * tick_ns),
            max_debt: if options.ample_debt { Some(10_000) } else { numbers.max_debt },
            ..base.clone()
        };
        match kind {
            SlidingWindow => QuotaSpec { entries: Some(numbers.entries), ..timed },
            Ring => QuotaSpec { buckets: Some(buckets), ..timed },
            Gcra => QuotaSpec { burst: Some(numbers.burst), ..timed },
            Leaky => QuotaSpec {
                queue_ns: Some(numbers.queue * tick_ns),
                nodelay: Some(numbers.nodelay),
                max_cost: numbers.max_cost,
                ..timed
            },
            Log | Counter | Fixed => timed,
            Concurrency => QuotaSpec { ttl_ns: Some(period_ns), ..base },
        }
    });
    let quotas: Option<Vec<Quota>> = specs.map(|spec| spec.build().ok()).collect();
    let tick = Tick::from_nanos(tick_ns)?;
    Some(Family { kind, tick, quotas: quotas?, window: tick.ceil(period_ns) })
}

fn algorithm(kind: Kind) -> AlgorithmName {
    match kind {
        SlidingWindow => AlgorithmName::SlidingWindow,
        Log => AlgorithmName::SlidingWindowLog,
        Counter | Ring => AlgorithmName::SlidingWindowCounter,
        Fixed => AlgorithmName::FixedWindow,
        Gcra => AlgorithmName::Gcra,
        Leaky => AlgorithmName::LeakyBucket,
        Concurrency => AlgorithmName::Concurrency,
    }
}
