//! Instances that take units in advance from one store, over a network that loses and delays, with clocks that run apart, and that crash.
//!
//! The store is the real kernel. What is checked is what users see: when was how much admitted, by the quota that they wrote.

use std::collections::BTreeMap;

use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::Status;
use tidegate_core::meter::{Ask, Meter, Refund, State};
use tidegate_core::quota::Quota;
use tidegate_core::time::Tick;
use tidegate_engine::advance::{Advances, Asks, Granted, HoldingId, Unspent, Wanted};
use tidegate_engine::word::Word;
use tidegate_store::digest::Digest;

use super::MILLISECOND;

const SECOND: u64 = 1_000 * MILLISECOND;
const ID: HoldingId = HoldingId { meter: 1, counter: Digest([3, 4]) };
/// Stories of each kind. `TIDEGATE_STORIES=100000 cargo test -p tidegate-engine --test in_advance` tells more of them.
const STORIES: u64 = 150;

/// What happens, told by its seed.
struct Fleet {
    quota: Quota,
    charged: Meter,
    state: State,
    now: u64,
    nodes: Vec<Node>,
    on_their_way: BTreeMap<(u64, u64), Message>,
    messages: u64,
    /// When how much was admitted.
    admitted: Vec<(u64, u64)>,
    asked: u64,
    offered: u64,
    numbers: Numbers,
    faults: Faults,
}

struct Node {
    advances: Advances<()>,
    /// Answers to those who lived before are for nobody.
    life: u64,
    /// How fast its clock runs, in millionths too fast.
    drift_ppm: i64,
}

#[derive(Clone, Copy)]
struct Faults {
    delay_max: u64,
    lost_percent: u64,
    crash_percent: u64,
}

enum Message {
    /// To the store.
    Take { node: usize, life: u64, wanted: Wanted, asked_at: u64 },
    /// To the store, from a request that waits for it.
    Check { cost: u64 },
    /// To the store.
    Return(Unspent<()>),
    /// To an instance.
    Answer { node: usize, life: u64, wanted: Wanted, asked_at: u64, said_at: u64, status: Status },
}

/// Numbers that look random, and are the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }
}

impl Fleet {
    fn new(quota: &str, nodes: usize, seed: u64, faults: Faults) -> Self {
        let quota: Quota = quota.parse().expect("a quota");
        let charged = Meter::new(&quota.in_advance(), Tick::NANOSECOND, None).expect("it can be compiled");
        let mut numbers = Numbers(seed);
        let node = |numbers: &mut Numbers| Node {
            advances: Advances::new(numbers.next(u64::MAX)),
            life: 0,
            drift_ppm: i64::try_from(numbers.next(1_000)).expect("a small number") - 500,
        };
        Self {
            state: charged.empty(),
            charged,
            quota,
            now: 1_000_000 * SECOND,
            nodes: (0..nodes).map(|_| node(&mut numbers)).collect(),
            on_their_way: BTreeMap::new(),
            messages: 0,
            admitted: Vec::new(),
            asked: 0,
            offered: 0,
            numbers,
            faults,
        }
    }

    /// What the clock of an instance shows.
    fn clock(&self, node: usize) -> u64 {
        let since = i64::try_from(self.now - 999_000 * SECOND).expect("a short story");
        u64::try_from(since + since / 1_000_000 * self.nodes[node].drift_ppm).expect("after the beginning")
    }

    fn send(&mut self, message: Message) {
        if self.numbers.next(100) >= self.faults.lost_percent {
            let delay = self.numbers.next(self.faults.delay_max);
            self.messages += 1;
            self.on_their_way.insert((self.now + delay, self.messages), message);
        }
    }

    /// Time passes, and messages arrive.
    fn wait(&mut self, time: u64) {
        let end = self.now + time;
        while let Some((&at, _)) = self.on_their_way.first_key_value().filter(|((at, _), _)| *at <= end) {
            let message = self.on_their_way.remove(&at).expect("just seen");
            self.now = at.0;
            self.arrive(&message);
        }
        self.now = end;
    }

    fn arrive(&mut self, message: &Message) {
        match *message {
            Message::Take { node, life, wanted, asked_at } => {
                self.asked += 1;
                let status = self.charged.decide(&mut self.state, self.now, Ask::cost(wanted.units));
                self.send(Message::Answer { node, life, wanted, asked_at, said_at: self.now, status });
            }
            Message::Check { cost } => {
                self.asked += 1;
                let status = self.charged.decide(&mut self.state, self.now, Ask::cost(cost));
                if status.is_allowed() {
                    self.admitted.push((self.now, cost));
                }
                let (left, reset_after) = (status.remaining.unwrap_or(0), status.reset_after);
                let word = Word { said_at: self.now, left, reset_after };
                (0..self.nodes.len()).for_each(|node| self.nodes[node].advances.saw(self.clock(node), ID, word));
            }
            Message::Return(Unspent { units, receipt, .. }) => {
                self.charged.refund(&mut self.state, self.now, Refund { receipt, cost: units });
            }
            Message::Answer { node, life, wanted, asked_at, said_at, status } => {
                if self.nodes[node].life == life {
                    self.answer(node, wanted, asked_at, said_at, status);
                }
            }
        }
    }

    fn answer(&mut self, node: usize, wanted: Wanted, asked_at: u64, said_at: u64, status: Status) {
        let now = self.clock(node);
        let advance_ns = self.quota.advance_ns();
        let advances = &self.nodes[node].advances;
        if status.receipt == Receipt::Nothing {
            return advances.refused(now, ID, wanted.number, advance_ns);
        }
        let is_fixed = matches!(self.quota.shape(), tidegate_core::quota::Shape::FixedWindow { .. });
        let granted = Granted {
            number: wanted.number,
            units: wanted.units,
            asked_at,
            advance_ns,
            ends_after: is_fixed.then_some(status.reset_after),
            receipt: status.receipt,
            word: Word { said_at, left: status.remaining.unwrap_or(0), reset_after: status.reset_after },
            handle: (),
        };
        if let Some(unspent) = advances.granted(now, ID, granted) {
            self.send(Message::Return(unspent));
        }
    }

    fn request(&mut self, node: usize, cost: u64) {
        self.offered += cost;
        let instances = u32::try_from(self.nodes.len()).expect("a small fleet");
        let now = self.clock(node);
        let asks = Asks { id: ID, cost, advance_ns: self.quota.advance_ns(), instances };
        let found = self.nodes[node].advances.spend(now, asks);
        if let Some(wanted) = found.wanted {
            self.send(Message::Take { node, life: self.nodes[node].life, wanted, asked_at: now });
        }
        match found.held {
            Some(_) => self.admitted.push((self.now, cost)),
            None => self.send(Message::Check { cost }),
        }
    }

    fn sweep(&mut self, node: usize) {
        let now = self.clock(node);
        for unspent in self.nodes[node].advances.sweep(now, 64) {
            self.send(Message::Return(unspent));
        }
    }

    /// Busy times and quiet ones, in which some instances crash and others give back what they hold.
    fn live(&mut self, rounds: u64) {
        for _ in 0..rounds {
            let (requests, gap) = (self.numbers.next(400), self.numbers.next(3 * MILLISECOND));
            let busiest = self.numbers.next(self.nodes.len() as u64);
            for _ in 0..requests {
                let anybody = self.numbers.next(self.nodes.len() as u64);
                let node = usize::try_from(if self.numbers.next(3) == 0 { anybody } else { busiest }).expect("a small fleet");
                let cost = 1 + self.numbers.next(10) / 8;
                self.request(node, cost);
                let gap = gap / 2 + self.numbers.next(gap);
                self.wait(gap);
                if self.numbers.next(20) == 0 {
                    self.sweep(node);
                }
            }
            let node = usize::try_from(self.numbers.next(self.nodes.len() as u64)).expect("a small fleet");
            if self.numbers.next(100) < self.faults.crash_percent {
                self.nodes[node].advances = Advances::new(self.now);
                self.nodes[node].life += 1;
            }
            let pauses = [0, self.quota.advance_ns() / 2, self.quota.period_ns().unwrap_or(0)];
            let pause = pauses[usize::try_from(self.numbers.next(3)).expect("one of three")];
            let pause = self.numbers.next(pause);
            self.wait(pause);
        }
    }

    /// The most that was admitted in any time that ends with an admission and is reached by `is_within`.
    fn most_together(&self, is_within: impl Fn(u64, u64) -> bool) -> u64 {
        let (mut first, mut sum, mut most) = (0, 0, 0);
        for &(at, cost) in &self.admitted {
            sum += cost;
            while !is_within(self.admitted[first].0, at) {
                sum -= self.admitted[first].1;
                first += 1;
            }
            most = most.max(sum);
        }
        most
    }
}

fn stories() -> u64 {
    std::env::var("TIDEGATE_STORIES").ok().and_then(|stories| stories.parse().ok()).unwrap_or(STORIES)
}

/// Tells stories with all kinds of faults, and checks each.
fn tell(quota: &str, check: impl Fn(&Fleet)) {
    for seed in 0..stories() {
        let mut numbers = Numbers(seed ^ 0x7e11);
        let faults = Faults {
            delay_max: [MILLISECOND, 10 * MILLISECOND, 60 * MILLISECOND][usize::try_from(numbers.next(3)).expect("one of three")],
            lost_percent: numbers.next(2) * numbers.next(20),
            crash_percent: numbers.next(2) * numbers.next(50),
        };
        let nodes = usize::try_from(1 + numbers.next(6)).expect("a small fleet");
        let mut fleet = Fleet::new(quota, nodes, seed, faults);
        fleet.live(12);
        assert!(!fleet.admitted.is_empty(), "nothing happens in story {seed}");
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&fleet)));
        assert!(told.is_ok(), "{quota}: the story of seed {seed}");
    }
}

/// At most the limit in any window, by when requests were admitted and not by when units were charged.
pub(crate) fn no_sliding_window_sees_more_than_its_limit() {
    for quota in ["60/second advance 100ms", "300/second advance 125ms", "40/2s advance 20ms entries 2"] {
        tell(quota, |fleet| {
            let (limit, window) = (fleet.quota.limit().expect("a limit"), fleet.quota.period_ns().expect("a window"));
            let most = fleet.most_together(|at, end| at + window > end);
            assert!(most <= limit, "{most} of {limit}");
        });
    }
}

/// At most burst + rate * time in any time.
pub(crate) fn no_bucket_overflows() {
    for quota in ["100/second burst 100 advance 100ms", "1000/second burst 80 advance 10ms"] {
        tell(quota, |fleet| {
            let &tidegate_core::quota::Shape::Gcra { limit, period_ns, burst } = fleet.quota.shape() else { panic!("no bucket") };
            let (mut level, mut last) = (0u128, 0);
            for &(at, cost) in &fleet.admitted {
                level =
                    level.saturating_sub(u128::from(limit) * u128::from(at - last)) + u128::from(cost) * u128::from(period_ns);
                last = at;
                assert!(level <= u128::from(burst) * u128::from(period_ns), "{} of {burst}", level / u128::from(period_ns));
            }
        });
    }
}

/// At most the limit in each window from the epoch.
pub(crate) fn no_fixed_window_sees_more_than_its_limit() {
    for quota in ["60/second fixed_window advance 100ms", "200/500ms fixed_window advance 60ms"] {
        tell(quota, |fleet| {
            let (limit, window) = (fleet.quota.limit().expect("a limit"), fleet.quota.period_ns().expect("a window"));
            let most = fleet.most_together(|at, end| at / window == end / window);
            assert!(most <= limit, "{most} of {limit}");
        });
    }
}

/// What it is for: below the limit hardly anybody asks, and at twice the limit little of it is lost.
pub(crate) fn a_busy_fleet_uses_most_of_its_quota_and_asks_rarely() {
    let faults = Faults { delay_max: MILLISECOND / 2, lost_percent: 0, crash_percent: 0 };
    let run = |per_second: u64| {
        let mut fleet = Fleet::new("10000/second gcra advance 100ms", 4, 1, faults);
        for request in 0..10 * per_second {
            fleet.request(usize::try_from(request % 4).expect("one of four"), 1);
            fleet.wait(SECOND / per_second);
            if request % (per_second / 20) == 0 {
                (0..4).for_each(|node| fleet.sweep(node));
            }
        }
        let admitted: u64 = fleet.admitted.iter().map(|(_, cost)| cost).sum();
        (admitted, fleet.asked * 1_000 / fleet.offered)
    };

    let (admitted, asked_of_1000) = run(6_000);
    assert!(admitted > 59_900 && asked_of_1000 < 30, "{admitted} of 60000 admitted, {asked_of_1000} of 1000 asked");
    let (admitted, asked_of_1000) = run(20_000);
    assert!(admitted > 98_000, "{admitted} of 110000 admitted, {asked_of_1000} of 1000 asked");
}
