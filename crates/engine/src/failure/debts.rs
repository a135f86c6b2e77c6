//! What was admitted without the store, per counter, to be charged when it is back: otherwise an outage grants everything twice.
//!
//! Best effort: the counters with the largest amounts are kept, and the smallest are dropped.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use parking_lot::Mutex;
use tidegate_core::mutant::Mutant;
use tidegate_store::digest::Digest;

/// Counters unless told otherwise.
pub const COUNTERS_DEFAULT: usize = 10_000;

/// What is owed to a store, for all threads. `T` is what is needed to charge it.
pub struct Debts<T> {
    book: Mutex<Book<T>>,
    counters_max: usize,
}

/// What one counter is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debt<T> {
    /// The counter.
    pub counter: Digest,
    /// What is needed to charge it.
    pub handle: T,
    /// How much.
    pub units: u64,
}

struct Book<T> {
    debts: HashMap<Digest, Owed<T>>,
    dropped: u64,
}

struct Owed<T> {
    handle: T,
    units: u64,
    /// How many of them the store is being told of. Until it has answered, they are owed.
    sent: u64,
}

impl<T> fmt::Debug for Debts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debts").field("counters", &self.len()).finish_non_exhaustive()
    }
}

impl<T> Default for Debts<T> {
    fn default() -> Self {
        Self::new(COUNTERS_DEFAULT)
    }
}

impl<T> Debts<T> {
    /// For so many counters. A quarter more are taken in before the smallest are dropped, so that not each addition has to look for them.
    pub fn new(counters_max: usize) -> Self {
        Self { book: Mutex::new(Book { debts: HashMap::new(), dropped: 0 }), counters_max }
    }

    /// So many units of a counter were admitted. The handle is asked for only if the counter is new.
    pub fn add(&self, counter: Digest, units: u64, handle: impl FnOnce() -> T) {
        if units == 0 {
            return;
        }
        let mut book = self.book.lock();
        let owed = book.debts.entry(counter).or_insert_with(|| Owed { handle: handle(), units: 0, sent: 0 });
        owed.units = owed.units.saturating_add(units);
        if book.debts.len() > self.counters_max + self.counters_max / 4 {
            book.keep_largest(self.counters_max);
        }
    }

    /// What a counter is owed, with what is on its way to the store.
    pub fn of(&self, counter: Digest) -> u64 {
        self.book.lock().debts.get(&counter).map_or(0, |owed| owed.units)
    }

    /// So many units of a counter are not owed any more, sent or not: the store has charged them.
    pub fn subtract(&self, counter: Digest, units: u64) {
        self.book.lock().subtract(counter, units);
    }

    /// What was sent was charged.
    pub fn charged(&self, debt: &Debt<T>) {
        let mut book = self.book.lock();
        book.answered(debt);
        book.subtract(debt.counter, debt.units);
    }

    /// What was sent was not charged, as far as is known: it is owed as before.
    pub fn refused(&self, debt: &Debt<T>) {
        if Mutant::FlushForgets.is_active() {
            return self.charged(debt);
        }
        self.book.lock().answered(debt);
    }

    /// Forgets what a counter is owed: it was reset.
    pub fn forget(&self, counter: Digest) {
        self.book.lock().subtract(counter, u64::MAX);
    }

    /// How many counters are owed something.
    pub fn len(&self) -> usize {
        self.book.lock().debts.len()
    }

    /// Whether nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many units were dropped because there were too many counters.
    pub fn dropped(&self) -> u64 {
        self.book.lock().dropped
    }
}

impl<T: Clone> Debts<T> {
    /// What the counters are owed that are owed most and were not told of it, at most so many, the largest first. Each is to be told how it went: by
    /// [`charged`](Self::charged) or [`refused`](Self::refused).
    pub fn send_batch(&self, counters: usize) -> Vec<Debt<T>> {
        let mut book = self.book.lock();
        let mut largest = book.largest_first(counters, Owed::unsent);
        largest.truncate(counters);
        largest.sort_unstable_by_key(|&(units, _)| Reverse(units));
        largest.into_iter().filter_map(|(_, counter)| book.send(counter)).collect()
    }

    /// The same for one counter, if it is owed anything that is not on its way.
    pub fn send(&self, counter: Digest) -> Option<Debt<T>> {
        self.book.lock().send(counter)
    }
}

impl<T> Owed<T> {
    fn unsent(&self) -> u64 {
        self.units - self.sent
    }
}

impl<T: Clone> Book<T> {
    fn send(&mut self, counter: Digest) -> Option<Debt<T>> {
        let owed = self.debts.get_mut(&counter)?;
        let units = owed.unsent();
        owed.sent = owed.units;
        (units > 0).then(|| Debt { counter, handle: owed.handle.clone(), units })
    }
}

impl<T> Book<T> {
    /// The store has answered, whatever it said.
    fn answered(&mut self, debt: &Debt<T>) {
        if let Some(owed) = self.debts.get_mut(&debt.counter) {
            owed.sent = owed.sent.saturating_sub(debt.units);
        }
    }

    fn subtract(&mut self, counter: Digest, units: u64) {
        if let Some(owed) = self.debts.get_mut(&counter) {
            owed.units = owed.units.saturating_sub(units);
            owed.sent = owed.sent.min(owed.units);
            if owed.units == 0 {
                self.debts.remove(&counter);
            }
        }
    }

    /// All counters with their amounts, so many of the largest before all others.
    fn largest_first(&self, counters: usize, amount: impl Fn(&Owed<T>) -> u64) -> Vec<(u64, Digest)> {
        let mut amounts: Vec<(u64, Digest)> = self.debts.iter().map(|(&counter, owed)| (amount(owed), counter)).collect();
        if counters < amounts.len() {
            amounts.select_nth_unstable_by_key(counters, |&(units, _)| Reverse(units));
        }
        amounts
    }

    fn keep_largest(&mut self, counters: usize) {
        for (units, counter) in self.largest_first(counters, |owed| owed.units).into_iter().skip(counters) {
            self.subtract(counter, u64::MAX);
            self.dropped = self.dropped.saturating_add(units);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counter(number: u64) -> Digest {
        Digest([number, 0])
    }

    fn amounts(debts: &Debts<u64>, counters: usize) -> Vec<(u64, u64)> {
        let batch = debts.send_batch(counters);
        assert!(batch.iter().all(|debt| debt.counter == counter(debt.handle) && debts.of(debt.counter) >= debt.units));
        for debt in &batch {
            debts.charged(debt);
        }
        batch.into_iter().map(|debt| (debt.handle, debt.units)).collect()
    }

    #[test]
    fn the_largest_are_taken_first_and_once() {
        let debts = Debts::default();
        for (number, units) in [(1, 5), (2, 1), (3, 7), (1, 4), (4, 0)] {
            debts.add(counter(number), units, || number);
        }

        assert_eq!(amounts(&debts, 2), [(1, 9), (3, 7)]);
        assert_eq!(amounts(&debts, 0), []);
        assert_eq!(amounts(&debts, 2), [(2, 1)]);
        assert!(debts.is_empty());
    }

    #[test]
    fn what_is_on_its_way_is_owed_and_not_sent_twice() {
        let debts = Debts::default();
        debts.add(counter(1), 5, || 1);
        let sent = debts.send(counter(1)).expect("five are owed");
        debts.add(counter(1), 2, || 1);

        assert_eq!((sent.units, debts.of(counter(1))), (5, 7));
        let more = debts.send(counter(1)).expect("two more are owed");
        assert_eq!((more.units, debts.send(counter(1)), debts.send_batch(9)), (2, None, vec![]));
        debts.refused(&sent);
        debts.charged(&more);
        assert_eq!(debts.of(counter(1)), 5);
        assert_eq!(debts.send(counter(1)).map(|debt| debt.units), Some(5));
        debts.subtract(counter(1), 4);
        debts.charged(&sent);
        assert_eq!((debts.of(counter(1)), debts.is_empty()), (0, true));
    }

    #[test]
    fn a_handle_is_made_once() {
        let debts = Debts::default();
        debts.add(counter(1), 1, || 1);
        debts.add(counter(1), 1, || unreachable!("the counter is known"));
        debts.add(counter(2), 0, || unreachable!("nothing is owed"));
        debts.forget(counter(1));

        assert_eq!((debts.len(), debts.dropped()), (0, 0));
    }

    #[test]
    fn the_smallest_are_dropped() {
        let debts = Debts::new(100);
        for number in 0..1_000 {
            debts.add(counter(number), 1 + number % 500, || number);
        }
        let kept = amounts(&debts, 1_000);

        assert!((100..=125).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept[..4].iter().map(|(_, units)| *units).collect::<Vec<_>>(), [500, 500, 499, 499]);
        let owed: u64 = kept.iter().map(|(_, units)| units).sum();
        assert_eq!(owed + debts.dropped(), 2 * 500 * 501 / 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_lost_but_what_is_counted_as_dropped(
            adds in prop::collection::vec((0u64..60, 0u64..5), 0..400),
            counters_max in 0usize..50,
            batch in 1usize..20,
        ) {
            let debts = Debts::new(counters_max);
            for &(number, units) in &adds {
                debts.add(counter(number), units, || number);
                prop_assert!(debts.len() <= counters_max + counters_max / 4);
            }
            let mut owed = Vec::new();
            while !debts.is_empty() {
                let taken = amounts(&debts, batch);
                prop_assert!((1..=batch).contains(&taken.len()));
                owed.extend(taken.into_iter().map(|(_, units)| units));
            }
            prop_assert!(owed.is_sorted_by(|a, b| a >= b));
            prop_assert_eq!(owed.iter().sum::<u64>() + debts.dropped(), adds.iter().map(|(_, units)| units).sum::<u64>());
        }
    }
}
