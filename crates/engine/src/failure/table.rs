//! A bounded table of what is known about counters: small sets, of which the entry that is worth least gives way.
//!
//! Each set has eight entries and one word with a byte of each entry's digest. Who looks for what is not there reads that word and takes no
//! lock: 8,192 sets have 64 KiB of such words. Memory for entries is taken when the first is put.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_store::digest::Digest;

/// Entries of a set: as many as a word has bytes.
const WAYS: usize = 8;
/// Locks of a table. A power of two.
const STRIPES: usize = 64;

/// What a table holds.
pub(super) trait Entry {
    /// Whose entry it is. Entries of one counter are in one set.
    fn counter(&self) -> Digest;

    /// What it is worth at `now`: where there is no room, the least gives way.
    fn worth(&self, now: u64) -> u64;
}

/// What a visitor says about an entry of the counter that is looked for.
pub(super) enum Look<R> {
    /// It is another one.
    Other,
    /// It is of no more use to anybody.
    Drop,
    /// It is this one.
    Found(R),
}

pub(super) struct Table<E> {
    tags: Box<[AtomicU64]>,
    /// Set `s` is in stripe `s % STRIPES`, at position `s / STRIPES * WAYS`.
    stripes: Box<[Mutex<Vec<Option<E>>>]>,
}

impl<E> fmt::Debug for Table<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("entries_max", &self.entries_max()).finish_non_exhaustive()
    }
}

impl<E: Entry> Table<E> {
    /// For at most so many entries, rounded down to a power of two, and at least 512.
    pub(super) fn new(entries_max: usize) -> Self {
        let sets = (entries_max / WAYS).max(STRIPES);
        let sets = 1 << sets.ilog2();
        Self {
            tags: (0..sets).map(|_| AtomicU64::new(0)).collect(),
            stripes: (0..STRIPES).map(|_| Mutex::new(Vec::new())).collect(),
        }
    }

    /// The first entry of a counter that the visitor wants.
    #[inline]
    pub(super) fn find<R>(&self, counter: Digest, visit: impl FnMut(&E) -> Look<R>) -> Option<R> {
        let set = self.set(counter);
        if !has_byte(self.tags[set].load(Ordering::Acquire), tag(counter)) {
            return None;
        }
        self.find_in(set, counter, visit)
    }

    #[inline(never)] // The usual answer is no.
    fn find_in<R>(&self, set: usize, counter: Digest, mut visit: impl FnMut(&E) -> Look<R>) -> Option<R> {
        let mut stripe = self.stripes[set % STRIPES].lock();
        for (way, place) in ways(&mut stripe, set).iter_mut().enumerate() {
            let Some(entry) = place.as_ref().filter(|entry| entry.counter() == counter) else { continue };
            match visit(entry) {
                Look::Other => {}
                Look::Drop => {
                    *place = None;
                    self.tag(set, way, 0);
                }
                Look::Found(found) => return Some(found),
            }
        }
        None
    }

    /// Puts an entry in the place of the one that `is_same`, else where there is room, else in the place of what is worth least. An entry that is
    /// itself worth least is not kept.
    pub(super) fn put(&self, now: u64, entry: E, is_same: impl Fn(&E) -> bool) {
        self.put_unless(now, entry, is_same, |_| false);
    }

    /// The same, unless the one that is in its place `is_better`.
    pub(super) fn put_unless(&self, now: u64, entry: E, is_same: impl Fn(&E) -> bool, is_better: impl Fn(&E) -> bool) {
        let counter = entry.counter();
        let set = self.set(counter);
        let mut stripe = self.stripes[set % STRIPES].lock();
        if stripe.is_empty() {
            stripe.resize_with(self.tags.len() / STRIPES * WAYS, || None);
        }
        let ways = ways(&mut stripe, set);
        // The tags are in one word, the entries in many cache lines: most are not looked at.
        let tags = self.tags[set].load(Ordering::Relaxed).to_le_bytes();
        let is_same = |way: usize| ways[way].as_ref().is_some_and(|old| old.counter() == counter && is_same(old));
        let tagged = (0..WAYS).filter(|&way| tags[way] == tag(counter)).find(|&way| is_same(way));
        if tagged.and_then(|way| ways[way].as_ref()).is_some_and(is_better) {
            return;
        }
        let found = tagged.or_else(|| tags.iter().position(|&tag| tag == 0));
        let way = found.unwrap_or_else(|| {
            let worth = |place: &Option<E>| place.as_ref().map_or(0, |old| old.worth(now));
            (0..WAYS).min_by_key(|&way| worth(&ways[way])).unwrap_or(0)
        });
        let gives_way = found.is_some() || ways[way].as_ref().is_none_or(|old| old.worth(now) <= entry.worth(now));
        if gives_way {
            ways[way] = Some(entry);
            self.tag(set, way, tag(counter));
        }
    }

    /// Drops every entry of a counter.
    pub(super) fn forget(&self, counter: Digest) {
        self.find(counter, |_| Look::<()>::Drop);
    }

    /// Drops everything and frees the memory.
    pub(super) fn clear(&self) {
        for (index, stripe) in self.stripes.iter().enumerate() {
            let mut stripe = stripe.lock();
            *stripe = Vec::new();
            for tags in self.tags.iter().skip(index).step_by(STRIPES) {
                tags.store(0, Ordering::Release);
            }
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
    fn set(&self, counter: Digest) -> usize {
        counter.0[0] as usize & (self.tags.len() - 1)
    }

    /// Under the lock of the set's stripe.
    fn tag(&self, set: usize, way: usize, tag: u8) {
        let mut tags = self.tags[set].load(Ordering::Relaxed).to_le_bytes();
        tags[way] = tag;
        self.tags[set].store(u64::from_le_bytes(tags), Ordering::Release);
    }
}

impl<E> Table<E> {
    /// How many entries it holds at most.
    pub(super) fn entries_max(&self) -> usize {
        self.tags.len() * WAYS
    }
}

/// The entries of a set; none while nothing was ever put into its stripe.
fn ways<E>(stripe: &mut [Option<E>], set: usize) -> &mut [Option<E>] {
    let start = set / STRIPES * WAYS;
    stripe.get_mut(start..start + WAYS).unwrap_or_default()
}

/// A byte of the digest that does not choose the set; 0 stands for an empty place.
fn tag(counter: Digest) -> u8 {
    counter.0[1].to_le_bytes()[0].max(1)
}

/// Whether one of the bytes of a word is this one.
fn has_byte(word: u64, byte: u8) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    // A byte that is equal becomes 0, and a borrow into its highest bit that was not set shows that there is one.
    let zero_where_equal = word ^ (ONES * u64::from(byte));
    zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & HIGH != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Known {
        counter: Digest,
        part: u8,
        until: u64,
    }

    impl Entry for Known {
        fn counter(&self) -> Digest {
            self.counter
        }

        fn worth(&self, now: u64) -> u64 {
            self.until.saturating_sub(now)
        }
    }

    /// All in one set, and with one tag, unless the number is above 100.
    fn known(number: u64, part: u8, until: u64) -> Known {
        Known { counter: Digest([(number % 100) << 32, number << 8]), part, until }
    }

    fn put(table: &Table<Known>, now: u64, entry: Known) {
        table.put(now, entry, |old| old.part == entry.part);
    }

    fn get(table: &Table<Known>, entry: Known) -> Option<u64> {
        table.find(entry.counter, |old| if old.part == entry.part { Look::Found(old.until) } else { Look::Other })
    }

    #[test]
    fn the_size_is_a_power_of_two() {
        for (asked, expected) in [(0, 512), (512, 512), (1_023, 512), (1_024, 1_024), (65_536, 65_536), (100_000, 65_536)] {
            assert_eq!(Table::<Known>::new(asked).entries_max(), expected);
        }
    }

    #[test]
    fn the_entry_that_is_worth_least_gives_way() {
        let table = Table::new(0);
        for number in 1..=8 {
            put(&table, 0, known(number, 0, 10 * number));
        }
        put(&table, 0, known(9, 0, 25));
        put(&table, 0, known(10, 0, 5));

        let found = [1, 2, 3, 9, 10].map(|number| get(&table, known(number, 0, 0)));
        assert_eq!(found, [None, Some(20), Some(30), Some(25), None]);
    }

    #[test]
    fn entries_of_a_counter_are_forgotten_together_and_no_others() {
        let table = Table::new(0);
        for part in 0..3 {
            put(&table, 0, known(1, part, 10));
        }
        put(&table, 0, known(2, 0, 10));
        table.forget(known(1, 0, 0).counter);

        assert_eq!((0..3).filter_map(|part| get(&table, known(1, part, 0))).count(), 0);
        assert_eq!(get(&table, known(2, 0, 0)), Some(10));
        table.clear();
        assert_eq!(get(&table, known(2, 0, 0)), None);
        put(&table, 0, known(2, 0, 11));
        assert_eq!(get(&table, known(2, 0, 0)), Some(11));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_byte_is_found_where_it_is(word: u64, byte: u8) {
            prop_assert_eq!(has_byte(word, byte), word.to_le_bytes().contains(&byte));
            prop_assert!(has_byte(word, word.to_le_bytes()[3]));
        }

        #[test]
        fn what_is_found_was_put_last_and_a_set_has_room_for_eight(
            puts in prop::collection::vec((0u64..6, 0u8..3, 0u64..100), 1..60),
            is_crowded: bool,
        ) {
            let table = Table::new(0);
            let spread = |number: u64| if is_crowded { number } else { number % 2 };
            let mut last = std::collections::HashMap::new();
            for (number, part, until) in puts {
                let entry = known(spread(number), part, until);
                put(&table, 0, entry);
                last.insert((spread(number), part), until);
            }
            let found = last.iter().filter(|((number, part), _)| get(&table, known(*number, *part, 0)).is_some()).count();
            prop_assert!(found <= WAYS);
            prop_assert!(is_crowded || found == last.len(), "6 entries fit");
            for ((number, part), until) in last {
                let now = get(&table, known(number, part, 0));
                // An entry that was not kept must not leave an older one of its own behind.
                prop_assert!(now.is_none_or(|now| now == until));
            }
        }
    }
}
