//! A random trace, played by the scripts and by the Rust kernels.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::decision::Verdict;
use tidegate_core::meter::{Ask, Meter, Parameters};
use tidegate_core::quota::Quota;
use tidegate_core::time::{Calendar, Ticks, Window};
use tidegate_store::digest::Digest;
use tidegate_store::redis::script::{Build, Call, Op, Reply, Scripts};
use tidegate_store::store::{Charge, Part, Place};

use super::connection::{Connection, PREFIX};
use super::model::{Model, Name, Verb, name};
use super::random::Random;

/// 2026-01-01, and a bit.
const START_NS: u64 = 1_767_225_600_123_456_789;
const DAY_NS: u64 = 86_400_000_000_000;

/// Counters of one namespace: a quota, and what it may be changed to.
pub(crate) type Family = &'static [&'static str];

/// Days and the odd short one, in nanoseconds.
#[derive(Debug)]
struct Days;

impl Calendar for Days {
    fn window_at(&self, now: Ticks) -> Window {
        let (day, within) = (now - now % DAY_NS, now % DAY_NS);
        let noon = if (day / DAY_NS).is_multiple_of(3) { DAY_NS / 2 } else { DAY_NS };
        if within < noon { Window { start: day, end: day + noon } } else { Window { start: day + noon, end: day + DAY_NS } }
    }
}

struct Counter {
    meters: Vec<Meter>,
    namespace: Digest,
    span_ns: u64,
}

struct Taken {
    counter: usize,
    charged_by: usize,
    key: Digest,
    receipt: Receipt,
    cost: u64,
}

pub(crate) struct Trace {
    random: Random,
    scripts: Scripts,
    unit_ns: u64,
    connection: Connection,
    model: Model,
    counters: Arc<[Counter]>,
    /// Which of its quotas each counter has now.
    current: Vec<usize>,
    now_ns: u64,
    /// The latest time at which each counter was written, and under which quota it was last.
    latest: HashMap<Name, (u64, usize)>,
    taken: Vec<Taken>,
    /// An upper bound of what was given back to each bucket.
    refunded: HashMap<Name, u128>,
    wait_ns: u64,
    log: Vec<String>,
}

impl Trace {
    pub(crate) fn new(build: Build, families: &[Family], seed: u64) -> Self {
        let scripts = Scripts::new(build);
        let unit_ns = if build == Build::Injected { 1 } else { 1_000 };
        let counters: Arc<[Counter]> =
            families.iter().enumerate().map(|(index, family)| counter(&scripts, index, family)).collect();
        Self {
            random: Random::new(seed),
            scripts,
            unit_ns,
            connection: Connection::new(),
            model: Model::default(),
            current: vec![0; counters.len()],
            counters,
            now_ns: START_NS / unit_ns * unit_ns,
            latest: HashMap::new(),
            taken: Vec::new(),
            refunded: HashMap::new(),
            wait_ns: 0,
            log: Vec::new(),
        }
    }

    pub(crate) fn play(&mut self, steps: usize) {
        for _ in 0..steps {
            self.move_clock();
            if self.random.one_in(25) {
                let index = self.random.index(self.counters.len());
                self.current[index] = self.random.index(self.counters[index].meters.len());
            }
            match self.random.below(20) {
                0..=2 => self.refund(),
                3 | 4 => self.lease(),
                5 | 6 => self.ask(Verb::Peek),
                7 | 8 => self.ask(Verb::Debit),
                _ => self.ask(Verb::Check),
            }
        }
    }

    fn move_clock(&mut self) {
        let (random, unit) = (&mut self.random, self.unit_ns);
        let span = self.counters[random.index(self.counters.len())].span_ns;
        let (forward, back) = match random.below(40) {
            0..=9 => (0, 0),
            10..=24 => (random.below(span / 10 + 2), 0),
            25..=29 => (random.below(span + 2), 0),
            // To the very tick at which something was promised, and one before.
            30..=33 => (self.wait_ns, 0),
            34 => (self.wait_ns.saturating_sub(unit), 0),
            35 => (unit, 0),
            36 => (0, unit),
            37 => (0, random.below(span / 5 + 2)),
            38 => (0, random.below(span + 2)),
            _ => (span.saturating_mul(2 + random.below(3)), 0),
        };
        // Nanoseconds have to stay within one era, and microseconds within what is exact.
        let (earliest, latest) =
            if unit == 1 { (START_NS - 4 * DAY_NS, START_NS + 50 * DAY_NS) } else { (DAY_NS, 2_400_000_000_000_000_000) };
        let now_ns = self.now_ns.saturating_add(forward).saturating_sub(back);
        self.now_ns = if (earliest..latest).contains(&now_ns) { now_ns / unit * unit } else { START_NS / unit * unit };
    }

    fn charge<'a>(&mut self, counter: &'a Counter, current: usize) -> Charge<'a> {
        let (random, now_ns) = (&mut self.random, self.now_ns);
        let meter = &counter.meters[current];
        let capacity = meter.capacity().unwrap_or(5);
        let cost = match random.below(12) {
            0 => 0,
            1 => capacity,
            2 => capacity + 1,
            3 => capacity / 2 + 1,
            4 => random.below(capacity.saturating_add(3)),
            5 => random.below(400),
            6 => u64::MAX >> (11 + random.below(12)),
            7 => 1 << 53,
            _ => 1 + random.below(3),
        };
        let lease = (!random.one_in(20)).then(|| lease_id(random.below(12)));
        let max_delay = if random.one_in(4) { random.below(1_000_000_000) } else { Ticks::MAX };
        let until = match random.below(12) {
            0 => Some(now_ns + 1 + random.below(2_000_000_000)),
            1 => Some(now_ns.saturating_sub(random.below(2))),
            _ => None,
        };
        let part = match random.below(8) {
            0 | 1 => Part::Shadow(30_000 * u16::try_from(random.below(3)).expect("small")),
            2 => Part::Counted,
            _ => Part::Enforced,
        };
        // Nobody holds so many slots that their sum is not exact.
        let cost = if part == Part::Counted && meter.retry_is_hint() { cost.min(1 << 40) } else { cost };
        let key = Digest([random.below(2), 9]);
        let ask = Ask { cost, lease, max_delay };
        Charge { meter, key, place: place(key), namespace: counter.namespace, ask, until, part }
    }

    fn ask(&mut self, verb: Verb) {
        let counters = Arc::clone(&self.counters);
        let count = if counters.len() == 1 || self.random.one_in(2) { 1 } else { 1 + self.random.below(4) };
        // Now and then the same counter twice.
        let indexes: Vec<usize> = (0..count).map(|_| self.random.index(counters.len())).collect();
        let mut charges: Vec<_> = indexes.iter().map(|&index| self.charge(&counters[index], self.current[index])).collect();
        if let ([charge], true) = (&mut charges[..], self.random.one_in(2)) {
            (charge.part, charge.until) = (Part::Enforced, None);
        }
        let op = match verb {
            Verb::Check => Op::Check,
            Verb::Peek => Op::Peek,
            Verb::Debit => Op::Debit,
        };
        let call = self.scripts.call(op, &charges, PREFIX, self.now_ns);
        let (reply, changed) = self.run(&call, || format!("{op:?} {}", told(&charges)));
        let verb = if verb == Verb::Check && charges.iter().all(|charge| charge.ask.cost == 0) { Verb::Peek } else { verb };
        let statuses = self.model.ask(verb, &charges, self.now_ns);
        let Reply::Verdict { now_ns, verdict } = reply else { self.fail(&format!("{reply:?}")) };
        if now_ns != self.now_ns || verdict.statuses() != &statuses[..] {
            self.fail(&format!("script {:#?}\nmodel {statuses:#?}\nchanged {changed:?}", verdict.statuses()));
        }
        let in_force = charges.iter().filter(|charge| charge.until.is_none_or(|until| self.now_ns < until));
        // Without a lease nothing is taken, though it is admitted.
        let stands = in_force.clone().any(|charge| charge.part == Part::Counted || charge.meter.retry_is_hint());
        let was_charged = match verb {
            Verb::Peek => false,
            Verb::Debit => true,
            Verb::Check => statuses.iter().any(|status| status.receipt != Receipt::Nothing) || stands,
        };
        let counted = charges.iter().zip(&indexes).filter(|(charge, _)| !charge.meter.is_stateless());
        let mut written: HashMap<Name, bool> = HashMap::new();
        for ((charge, &index), changed) in counted.zip(&changed) {
            self.explain(charge, index, changed, was_charged);
            *written.entry(name(charge)).or_default() |= changed.is_some();
        }
        written.into_iter().for_each(|(name, was_written)| self.model.keep(name, was_written));
        charges
            .iter()
            .filter(|charge| !charge.meter.is_stateless())
            .zip(&changed)
            .for_each(|(charge, changed)| self.expire(charge, changed));
        self.remember(&verdict, &charges, &indexes);
    }

    /// Without a charge, only a clock that went back or a quota that was changed explains a write.
    fn explain(&mut self, charge: &Charge<'_>, index: usize, changed: &Option<Changed>, was_charged: bool) {
        let current = self.current[index];
        let (latest, quota) = self.latest.get(&name(charge)).copied().unwrap_or((0, current));
        if changed.is_some() && !was_charged && self.now_ns >= latest && quota == current {
            self.fail(&format!("written without need: {changed:?}"));
        }
        if changed.is_some() {
            self.latest.insert(name(charge), (latest.max(self.now_ns), current));
        }
    }

    fn remember(&mut self, verdict: &Verdict, charges: &[Charge<'_>], indexes: &[usize]) {
        if let Some(wait) = verdict.retry_after().filter(|&wait| wait > 0) {
            self.wait_ns = wait;
        } else if self.random.one_in(3) {
            self.wait_ns = verdict.reset_after();
        }
        for status in verdict.statuses().iter().filter(|status| status.receipt != Receipt::Nothing) {
            let (charge, counter) = (&charges[usize::from(status.quota)], indexes[usize::from(status.quota)]);
            let (charged_by, key, cost) = (self.current[counter], charge.key, charge.ask.cost);
            self.taken.push(Taken { counter, charged_by, key, receipt: status.receipt, cost });
        }
        while self.taken.len() > 12 {
            let index = self.random.index(self.taken.len());
            self.taken.swap_remove(index);
        }
    }

    fn refund(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let index = self.random.index(self.taken.len());
        let Taken { counter, charged_by, key, receipt, cost } = self.taken.swap_remove(index);
        let given_back = if self.random.one_in(2) { cost } else { self.random.below(cost.max(1)) + 1 };
        if given_back < cost {
            self.taken.push(Taken { counter, charged_by, key, receipt, cost: cost - given_back });
        }
        let counters = Arc::clone(&self.counters);
        let current = self.current[counter];
        if !counters[counter].meters[current].refunds(&counters[counter].meters[charged_by]) {
            return;
        }
        let charge = Charge { key, place: place(key), ..self.charge(&counters[counter], current) };
        // A script drops refunds whose sum is not exact.
        if let Parameters::Gcra { level_max, .. } | Parameters::LeakyBucket { level_max, .. } = charge.meter.parameters() {
            let sum = self.refunded.entry(name(&charge)).or_default();
            *sum += level_max;
            if *sum > 1 << 53 {
                return;
            }
        }
        let refund = Refund { receipt, cost: given_back };
        self.model.refund(&charge, refund, self.now_ns);
        self.act(Op::Refund(refund), &charge, counter, None);
    }

    fn lease(&mut self) {
        let counters = Arc::clone(&self.counters);
        let index = self.random.index(counters.len());
        let charge = self.charge(&counters[index], self.current[index]);
        if self.random.one_in(2) {
            let is_held = self.model.renew(&charge, self.now_ns);
            self.act(Op::Renew, &charge, index, Some(is_held));
        } else {
            let was_held = self.model.release(&charge, self.now_ns);
            self.act(Op::Release, &charge, index, Some(was_held));
        }
    }

    fn act(&mut self, op: Op, charge: &Charge<'_>, index: usize, expected: Option<bool>) {
        let call = self.scripts.call(op, std::slice::from_ref(charge), PREFIX, self.now_ns);
        let (reply, changed) = self.run(&call, || format!("{op:?} {}", told(std::slice::from_ref(charge))));
        let Reply::Done(is_done) = reply else { self.fail(&format!("{reply:?}")) };
        if expected.is_some_and(|expected| expected != is_done) {
            self.fail(&format!("done is {is_done}, not {expected:?}"));
        }
        if let [changed] = &changed[..] {
            self.explain(charge, index, changed, is_done);
            self.model.keep(name(charge), changed.is_some());
            self.expire(charge, changed);
        }
    }

    /// A counter that was written lives until it may be forgotten, rounded up, and an hour because of the test.
    fn expire(&self, charge: &Charge<'_>, changed: &Option<Changed>) {
        let Some((_, Some((value, ttl_ms)))) = changed else { return };
        // With nothing but the last request a count is not kept, while a Rust kernel keeps an empty one to the end of its window.
        let is_bare = value.len() == 8 && value[0] == 173;
        let Some(expires_ns) = self.model.expires_ns(charge) else { self.fail("nothing is left to be written") };
        let Some(left_ns) = expires_ns.checked_sub(self.now_ns).filter(|&left| left > 0) else { self.fail("it has expired") };
        let expected = i64::try_from(left_ns.div_ceil(1_000_000)).expect("a hundred years") + 1 + 3_600_000;
        // The server's own clock ran on since.
        if *ttl_ms > expected || (*ttl_ms < expected - 5_000 && !is_bare) {
            self.fail(&format!("it lives for {ttl_ms} ms, not {expected}: {changed:?}"));
        }
    }

    /// Runs a call, and says which of its counters were written.
    fn run(&mut self, call: &Call, told: impl FnOnce() -> String) -> (Reply, Vec<Option<Changed>>) {
        let stored = || call.keys().map(|key| self.connection.stored(key)).collect::<Vec<Stored>>();
        let before = stored();
        let reply = call.answer(self.now_ns).map_or_else(|| self.connection.call(call), Ok);
        let value = |stored: &Stored| stored.as_ref().map(|(value, _)| value.clone());
        let is_changed = |(before, after): &Changed| value(before) != value(after);
        let changed = before.into_iter().zip(stored()).map(|both| Some(both).filter(is_changed)).collect();
        self.log.push(format!("{} {} -> {reply:?}", self.now_ns, told()));
        match reply {
            Ok(reply) => (reply, changed),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn fail(&self, story: &str) -> ! {
        let last = self.log.len().saturating_sub(8);
        panic!("{}\n{story}", self.log[last..].join("\n"));
    }
}

/// A value, and for how many milliseconds it lives.
type Stored = Option<(Vec<u8>, i64)>;

/// A value before and after.
type Changed = (Stored, Stored);

fn counter(scripts: &Scripts, index: usize, family: Family) -> Counter {
    let quotas: Vec<Quota> = family.iter().map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))).collect();
    let meter = |quota| scripts.meter(quota, Some(Arc::new(Days))).unwrap_or_else(|error| panic!("{quota}: {error}"));
    let mut meters: Vec<Meter> = quotas.iter().map(meter).collect();
    // States of another tick cannot be shown to a Rust kernel.
    let tick = meters[0].tick();
    meters.retain(|meter| meter.tick() == tick);
    let span_ns = quotas[0].period_ns().unwrap_or(10_000_000_000);
    Counter { meters, namespace: Digest([(index as u64 + 100) << 16, 7]), span_ns }
}

/// Keys have different places, and one of the tags is full of closing braces.
fn place(key: Digest) -> Place {
    if key.0[0] == 0 { Place::of(key) } else { Place { tag: Digest([0x7d7d_7d00_7d7d, 5]), breadth: 1 } }
}

/// Ids that contain each other's bytes.
fn lease_id(number: u64) -> u128 {
    match u8::try_from(number).expect("small") {
        byte @ 0..=3 => u128::from_be_bytes([byte; 16]),
        byte => u128::from(number) << (8 * (byte % 9)),
    }
}

fn told(charges: &[Charge<'_>]) -> String {
    let told = |charge: &Charge<'_>| {
        let Charge { meter, key, ask, until, part, .. } = charge;
        format!("\n    {meter:?} {key:?} {ask:?} {until:?} {part:?}")
    };
    charges.iter().map(told).collect()
}
