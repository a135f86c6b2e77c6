//! Threads that do everything at once to a few keys, while the clock moves: nothing breaks, and the books balance in the end.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, thread};

use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::contract::counter::{Counter, Metered, SECOND};
use tidegate_store::memory::MemoryStore;
use tidegate_store::store::Store;

const THREADS: u64 = 8;
const STEPS: u64 = 30_000;

/// `SplitMix64`: random enough to mix operations, and the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// One caller, and what it could give back.
struct Caller<'a> {
    counter: &'a Counter<MemoryStore>,
    quotas: &'a [Metered],
    dice: Dice,
    taken: Vec<(usize, String, Receipt)>,
    leases: Vec<(String, u128)>,
    checks: u64,
}

impl Caller<'_> {
    fn step(&mut self) {
        let (key, other) = (self.dice.below(40).to_string(), self.dice.below(40).to_string());
        let (index, cost) =
            (usize::try_from(self.dice.below(self.quotas.len() as u64)).expect("a small number"), self.dice.below(4));
        let (store, quota) = (&self.counter.store, &self.quotas[index]);
        match self.dice.below(20) {
            0..8 => {
                let lease = u128::from(self.dice.below(1 << 60));
                let charge = quota.leased(&key, cost, lease);
                self.checks += u64::from(cost > 0);
                let verdict = store.check(&[charge]).expect("room for all keys");
                if verdict.is_allowed() && cost > 0 {
                    self.taken.push((index, key.clone(), verdict.statuses()[0].receipt));
                    self.leases.push((key, lease));
                }
            }
            8..11 => {
                self.checks += 1;
                let second = &self.quotas[(index + 1) % self.quotas.len()];
                let charges = [quota.charge(&key, 1), second.charge(&key, 1), quota.charge(&other, 2)];
                // Two charges to the same counter are no request.
                store.check(if key == other { &charges[..2] } else { &charges }).expect("room for all keys");
            }
            11..13 => drop(store.peek(&[quota.charge(&key, cost), quota.charge(&other, cost)]).expect("an answer")),
            13 => drop(store.debit(&[quota.charge(&key, cost)]).expect("room for all keys")),
            14..16 => {
                if let Some((index, key, receipt)) = self.taken.pop() {
                    let refund = Refund { receipt, cost: 1 };
                    store.refund(&self.quotas[index].charge(&key, 1), refund).expect("a store that works");
                }
            }
            16 => {
                if let Some((key, lease)) = self.leases.pop() {
                    store.renew(&quota.leased(&key, 0, lease)).expect("a store that works");
                    store.release(&quota.leased(&key, 0, lease)).expect("a store that works");
                }
            }
            17 => drop(store.reset(&quota.charge(&key, 0)).expect("a store that works")),
            18 => self.counter.advance(self.dice.below(SECOND / 10)),
            _ => assert!(store.stats().keys <= 40 * self.quotas.len() as u64),
        }
    }
}

fn seed() -> u64 {
    env::var("SEED").ok().map_or_else(|| RandomState::new().hash_one("stress"), |seed| seed.parse().expect("SEED is a number"))
}

#[test]
fn the_books_balance_after_everything_happened_at_once() {
    let seed = seed();
    println!("replay: SEED={seed} cargo test -p tidegate-store --test memory_stress");
    for keys_max in [4_000, 10_000_000] {
        let counter = Counter::new(|clock: ManualClock| MemoryStore::new(Clock::Manual(clock), keys_max));
        let idle = counter.store.stats().bytes;
        let texts = [
            "10/s",
            "10/s entries 3 min_interval 1ms",
            "10/s sliding_window_log",
            "10/s sliding_window_counter",
            "10/s sliding_window_counter buckets 4",
            "10/s fixed_window",
            "10/s burst 5",
            "10/s queue 1s",
            "10 concurrent ttl 1s",
        ];
        let quotas: Vec<Metered> = texts.iter().map(|text| counter.quota(text, text)).collect();
        let checks = AtomicU64::new(0);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (counter, quotas, checks) = (&counter, &quotas, &checks);
                scope.spawn(move || {
                    let dice = Dice(seed ^ number << 32);
                    let (taken, leases) = (Vec::new(), Vec::new());
                    let mut caller = Caller { counter, quotas, dice, taken, leases, checks: 0 };
                    (0..STEPS).for_each(|_| caller.step());
                    checks.fetch_add(caller.checks, Ordering::Relaxed);
                });
            }
        });
        let stats = counter.store.stats();
        assert_eq!(stats.allowed + stats.denied, checks.into_inner());
        assert_eq!(stats.evicted, 0);

        // Everything expires, and its memory is given back.
        counter.advance(60 * SECOND);
        let busy = counter.quota("busy", "1000000/day");
        (0..50_000).for_each(|_| assert!(counter.allows(busy.charge("busy", 1))));
        assert_eq!(counter.store.stats().keys, 1);
        counter.store.clear();
        assert_eq!((counter.store.stats().keys, counter.store.stats().bytes), (0, idle));
    }
}
