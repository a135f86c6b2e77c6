//! A hash table whose memory follows its contents closely: 40 bytes a slot, between seven tenths and four fifths full.
//!
//! Open addressing with linear probing. A home slot is `hash * capacity / 2^64`, which works for any capacity, so the table grows by an eighth instead of
//! doubling: a doubling map would be less than half full just after it grew, and 64 bytes a key would be out of reach. Removal shifts the
//! following entries back, so there are no tombstones and a table that was emptied is as fast as a new one.

use tidegate_core::meter::State;
use tidegate_core::time::Ticks;

use crate::digest::Digest;

/// What is held for one (quota, key).
#[derive(Debug, Default)]
pub(super) enum Slot {
    #[default]
    Vacant,
    /// A state that fits two words; the first is its expiry.
    Inline { limiting: bool, words: [u64; 2] },
    /// Any other state.
    Boxed { limiting: bool, expires_at: Ticks, state: Box<State> },
}

impl Slot {
    pub(super) fn expires_at(&self) -> Option<Ticks> {
        match self {
            Self::Vacant => None,
            Self::Inline { words, .. } => Some(words[0]),
            Self::Boxed { expires_at, .. } => Some(*expires_at),
        }
    }

    /// Whether nothing was left for the key when it was last charged or denied.
    pub(super) fn is_limiting(&self) -> bool {
        match self {
            Self::Vacant => false,
            Self::Inline { limiting, .. } | Self::Boxed { limiting, .. } => *limiting,
        }
    }

    /// Bytes outside the table.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Vacant | Self::Inline { .. } => 0,
            Self::Boxed { state, .. } => size_of::<State>() + state.heap_bytes(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) digest: Digest,
    pub(super) slot: Slot,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    len: usize,
}

impl Table {
    pub(super) fn capacity(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entry(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn slot_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.entries[index].slot
    }

    pub(super) fn find(&self, digest: Digest) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut index = self.home(digest);
        loop {
            let entry = &self.entries[index];
            if entry.digest == digest && !matches!(entry.slot, Slot::Vacant) {
                return Some(index);
            }
            if matches!(entry.slot, Slot::Vacant) {
                return None;
            }
            index = self.after(index);
        }
    }

    /// Whether one more entry would make the table fuller than four fifths.
    pub(super) fn is_full(&self) -> bool {
        (self.len + 1) * 5 > self.capacity() * 4
    }

    /// Whether it is worth giving memory back: less than a quarter is used, of more than a few slots.
    fn is_sparse(&self) -> bool {
        self.capacity() > 16 && self.len * 4 < self.capacity()
    }

    /// Gives memory back that is not needed.
    pub(super) fn shrink(&mut self) {
        if self.len == 0 {
            *self = Self::default();
        } else if self.is_sparse() {
            self.refit();
        }
    }

    /// Adds an entry that is not there yet, into a table that is not full.
    pub(super) fn insert(&mut self, entry: Entry) {
        let mut index = self.home(entry.digest);
        while !matches!(self.entries[index].slot, Slot::Vacant) {
            index = self.after(index);
        }
        self.entries[index] = entry;
        self.len += 1;
    }

    /// Removes an entry and closes the gap: what follows moves back unless it would pass its home.
    pub(super) fn remove(&mut self, index: usize) -> Slot {
        let removed = std::mem::take(&mut self.entries[index]);
        self.len -= 1;
        let mut gap = index;
        let mut next = self.after(gap);
        while !matches!(self.entries[next].slot, Slot::Vacant) {
            let home = self.home(self.entries[next].digest);
            if self.distance(home, next) >= self.distance(gap, next) {
                self.entries.swap(gap, next);
                gap = next;
            }
            next = self.after(next);
        }
        removed.slot
    }

    /// Takes all entries out, in the order of their hashes but for those that wrapped around the end.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Entry> + use<> {
        self.len = 0;
        std::mem::take(&mut self.entries).into_iter().filter(|entry| !matches!(entry.slot, Slot::Vacant))
    }

    /// A table for `len` entries that can take an eighth more before it is full.
    pub(super) fn with_room_for(len: usize) -> Self {
        let capacity = (len + len / 8 + 4) * 5 / 4;
        let mut entries = Vec::with_capacity(capacity);
        entries.resize_with(capacity, Entry::default);
        Self { entries, len: 0 }
    }

    /// Rebuilds the table to fit its entries.
    pub(super) fn refit(&mut self) {
        let mut table = Self::with_room_for(self.len);
        self.drain().for_each(|entry| table.insert(entry));
        *self = table;
    }

    #[allow(clippy::cast_possible_truncation, reason = "the product shifted by 64 bits is below the capacity")]
    fn home(&self, digest: Digest) -> usize {
        ((u128::from(digest.0[1]) * self.entries.len() as u128) >> 64) as usize
    }

    fn after(&self, index: usize) -> usize {
        if index + 1 == self.entries.len() { 0 } else { index + 1 }
    }

    /// Steps from `from` forward to `to`.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.entries.len() - from }
    }
}

#[cfg(test)]
mod tests;
