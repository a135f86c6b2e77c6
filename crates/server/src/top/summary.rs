//! Space-Saving: the most frequent of any number of keys, in a fixed number of counters.
//!
//! A key that has no counter takes over the smallest one and goes on from its count, which is then the most by which it may be wrong. So no count is
//! ever too small, and a key that is more than one of `size` of all is always there. (Metwally, Agrawal, El Abbadi 2005.)
//!
//! ```text
//! size 2, keys a a b c:   a 2   b 1   then c takes over b:   a 2   c 2 (error 1)
//! ```
//!
//! Counters are a heap with the smallest on top. Entries stay where they are and know their place in the heap, so that only numbers move.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_store::digest::Digest;

/// The most frequent keys.
#[derive(Debug)]
pub(super) struct Summary {
    size: usize,
    total: u64,
    entries: Vec<Entry>,
    /// Positions of entries, the smallest count first.
    heap: Vec<usize>,
    positions: HashMap<Digest, usize>,
}

/// What is known of one key.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Rule and key.
    pub(super) id: Digest,
    /// The rule that denied it.
    pub(super) rule: Arc<str>,
    /// Its digest.
    pub(super) key: Digest,
    /// How it is shown, once that was worked out.
    pub(super) text: Option<Arc<str>>,
    /// How often it was noted, at most.
    pub(super) count: u64,
    /// So many of them may have been others.
    pub(super) error: u64,
    /// When it was noted last.
    pub(super) last_seen_ns: u64,
    place: usize,
}

impl Summary {
    /// Keeps so many keys.
    pub(super) fn new(size: usize) -> Self {
        Self { size, total: 0, entries: Vec::new(), heap: Vec::new(), positions: HashMap::new() }
    }

    /// How many keys are kept at most.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// How often any key was noted.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The keys, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Notes a key; `name` says whose it is if it was not kept before. Whether its text is known.
    pub(super) fn note(&mut self, id: Digest, now_ns: u64, name: impl FnOnce() -> (Arc<str>, Digest)) -> bool {
        self.total += 1;
        if let Some(&position) = self.positions.get(&id) {
            let entry = &mut self.entries[position];
            entry.count += 1;
            entry.last_seen_ns = now_ns;
            let (place, has_text) = (entry.place, entry.text.is_some());
            self.sink(place);
            return has_text;
        }
        if self.size == 0 {
            return true;
        }
        let (rule, key) = name();
        let new = Entry { id, rule, key, text: None, count: 1, error: 0, last_seen_ns: now_ns, place: 0 };
        if self.entries.len() < self.size {
            self.add(new);
        } else {
            self.take_over(new);
        }
        false
    }

    /// Says how a key is shown, if it is still kept.
    pub(super) fn name(&mut self, id: Digest, text: Arc<str>) {
        if let Some(&position) = self.positions.get(&id) {
            self.entries[position].text = Some(text);
        }
    }

    /// A key that has a counter of its own from the beginning. No count is smaller than 1, so it belongs on top.
    fn add(&mut self, entry: Entry) {
        let position = self.entries.len();
        self.positions.insert(entry.id, position);
        self.entries.push(entry);
        self.heap.push(position);
        let mut place = self.heap.len() - 1;
        self.entries[position].place = place;
        while place > 0 && self.count_at((place - 1) / 2) > self.count_at(place) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    /// A key that takes over the smallest counter.
    fn take_over(&mut self, new: Entry) {
        let position = self.heap[0];
        let old = &mut self.entries[position];
        self.positions.remove(&old.id);
        self.positions.insert(new.id, position);
        *old = Entry { count: old.count + 1, error: old.count, ..new };
        self.sink(0);
    }

    /// Moves a counter that grew down to its place.
    fn sink(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            if left >= self.heap.len() {
                return;
            }
            let is_right = right < self.heap.len() && self.count_at(right) < self.count_at(left);
            let child = if is_right { right } else { left };
            if self.count_at(child) >= self.count_at(place) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }

    fn count_at(&self, place: usize) -> u64 {
        self.entries[self.heap[place]].count
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.entries[self.heap[one]].place = one;
        self.entries[self.heap[other]].place = other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(summary: &mut Summary, key: u64) {
        summary.note(Digest([key, 0]), key, || ("rule".into(), Digest([key, 0])));
    }

    fn counts(summary: &Summary) -> HashMap<u64, (u64, u64)> {
        summary.entries().map(|entry| (entry.id.0[0], (entry.count, entry.error))).collect()
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut summary = Summary::new(4);
        for key in [1, 2, 1, 3, 1, 2] {
            note(&mut summary, key);
        }

        assert_eq!(counts(&summary), HashMap::from([(1, (3, 0)), (2, (2, 0)), (3, (1, 0))]));
        assert_eq!(summary.total(), 6);
    }

    #[test]
    fn a_new_key_takes_over_the_smallest_counter() {
        let mut summary = Summary::new(2);
        for key in [1, 1, 2, 3] {
            note(&mut summary, key);
        }

        assert_eq!(counts(&summary), HashMap::from([(1, (2, 0)), (3, (2, 1))]));
    }

    #[test]
    fn nothing_is_kept_without_room() {
        let mut summary = Summary::new(0);
        note(&mut summary, 1);

        assert_eq!((counts(&summary).len(), summary.total()), (0, 1));
    }

    proptest::proptest! {
        #[test]
        fn counts_are_never_too_small_and_errors_never_too_small(keys in proptest::collection::vec(0_u64..40, 0..600), size in 1_usize..20) {
            let mut summary = Summary::new(size);
            let mut truth: HashMap<u64, u64> = HashMap::new();
            for &key in &keys {
                note(&mut summary, key);
                *truth.entry(key).or_default() += 1;
            }

            let found = counts(&summary);
            for (key, &(count, error)) in &found {
                proptest::prop_assert!(count >= truth[key] && count - error <= truth[key]);
            }
            // Whoever is more than one of `size` of all is there.
            let share = keys.len() as u64 / size as u64;
            for (key, &count) in &truth {
                proptest::prop_assert!(count <= share || found.contains_key(key));
            }
            proptest::prop_assert_eq!(found.values().map(|&(count, _)| count).sum::<u64>(), keys.len() as u64);
        }
    }
}
