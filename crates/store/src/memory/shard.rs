//! One lock's share of the keys: segments of about a hundred entries, found through a directory that doubles.
//!
//! A segment that is full grows by an eighth or, at its largest, splits in two. So no call ever moves more than about a hundred entries, however
//! many keys there are; one big table would stall for milliseconds each time it grew.

mod evict;

use smallvec::SmallVec;
use tidegate_core::decision::Status;
use tidegate_core::meter::{Admission, Ask, Meter, Packed, State};
use tidegate_core::time::Ticks;

use super::SWEEP_SLOTS;
use super::table::{Entry, Slot, Table};
use crate::digest::Digest;
use crate::store::StoreError;

/// Entries at which a segment splits. The rebuild of a thousand took 90 microseconds, page faults included: too long for one call.
const SEGMENT_MAX: usize = 128;

/// Slots that the sweep looks at for each new entry.
const SLOTS_PER_ENTRY: u32 = 8;

/// Counters of a part of the keys.
///
/// In this order, so that all that the usual check writes lies beside the lock, on one cache line: when cores take turns, that line has to
/// travel, and each other one would double the wait.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Shard {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// Slots to be swept; see `count`.
    slots_owed: u32,
    /// The first `depth` bits of a digest choose the directory entry, which names a segment.
    depth: u32,
    /// Both lie in the shard itself while there is one segment: two cache lines fewer to wait for.
    directory: SmallVec<[u32; 2]>,
    segments: SmallVec<[Segment; 1]>,
    /// Where the sweep goes on: segment and slot.
    cursor: (usize, usize),
    len: usize,
    /// The most entries; see `make_room`.
    len_max: usize,
    boxed_bytes: usize,
    pub(super) expired: u64,
    pub(super) evicted: u64,
}

#[derive(Debug)]
struct Segment {
    /// How many bits all its digests share.
    depth: u32,
    table: Table,
}

/// Whether a visit may create an entry that is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visit {
    /// Charged: remember it.
    Keep {
        /// Whether nothing is left for the key.
        limiting: bool,
    },
    /// Not charged: do not make an entry for it.
    Leave {
        /// Whether nothing is left for the key.
        limiting: bool,
    },
}

impl Shard {
    pub(super) fn with_len_max(len_max: usize) -> Self {
        Self { len_max, ..Self::default() }
    }

    /// Forgets all entries but not what was counted.
    pub(super) fn clear(&mut self) {
        let Self { allowed, denied, expired, evicted, len_max, .. } = *self;
        *self = Self { allowed, denied, len_max, expired, evicted, ..Self::default() };
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(|segment| segment.table.capacity()).sum();
        slots * size_of::<Entry>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.directory.capacity() * 4
            + self.boxed_bytes
    }

    /// Counts a decision, and says whether the traffic has to pay for a sweep.
    ///
    /// Every check owes a look at one slot, so that what has expired goes even if nobody comes who is new; and every new entry at
    /// [`SLOTS_PER_ENTRY`] more, so that of all that is held at most about a ninth has expired.
    #[inline]
    pub(super) fn count(&mut self, is_allowed: bool) -> bool {
        *(if is_allowed { &mut self.allowed } else { &mut self.denied }) += 1;
        self.slots_owed += 1;
        let is_due = self.slots_owed >= SWEEP_SLOTS;
        if is_due {
            self.slots_owed = 0;
        }
        is_due
    }

    pub(super) fn contains(&self, digest: Digest) -> bool {
        self.find(digest).is_some()
    }

    /// Shows a copy of the state to `look`.
    pub(super) fn peek<R>(&self, digest: Digest, meter: &Meter, look: impl FnOnce(&mut State) -> R) -> R {
        let mut state =
            match self.find_state(digest, meter).map(|(segment, index)| &self.segments[segment].table.entry(index).slot) {
                Some(Slot::Inline { words, .. }) => meter.unpack(*words),
                Some(Slot::Boxed { state, .. }) => (**state).clone(),
                Some(Slot::Vacant) | None => meter.empty(),
            };
        look(&mut state)
    }

    /// Where a small state is, and what it is.
    pub(super) fn find_words(&self, digest: Digest) -> Option<((usize, usize), [u64; 2])> {
        let place = self.find(digest)?;
        match self.segments[place.0].table.entry(place.1).slot {
            Slot::Inline { words, .. } => Some((place, words)),
            _ => None,
        }
    }

    /// Writes a small state where it [was found](Self::find_words).
    pub(super) fn set_words(&mut self, (segment, index): (usize, usize), words: [u64; 2], limiting: bool) {
        *self.segments[segment].table.slot_mut(index) = Slot::Inline { limiting, words };
    }

    /// Charges one quota at its [place](Self::find), if that is easily done; otherwise `decide` has to.
    #[inline]
    pub(super) fn admit(&mut self, place: Option<(usize, usize)>, meter: &Meter, now: Ticks, ask: Ask) -> Option<Admission> {
        let (segment, index) = place?;
        let Slot::Inline { limiting, words } = self.segments[segment].table.slot_mut(index) else { return None };
        let admission = meter.admit(*words, now, ask)?;
        (*words, *limiting) = (admission.words, admission.remaining == 0);
        Some(admission)
    }

    /// Decides one quota and charges it if there is room: what most requests need, in one look-up and without a `State` in between.
    ///
    /// # Errors
    /// There is no room for a new state. Nothing was charged.
    pub(super) fn decide(
        &mut self,
        place: Option<(usize, usize)>,
        digest: Digest,
        meter: &Meter,
        now: Ticks,
        ask: Ask,
    ) -> Result<Status, StoreError> {
        let Some((segment, index)) = place else {
            let (status, packed) = meter.decide_packed([0, 0], now, ask);
            if status.is_allowed() {
                self.make_room(now, &[digest])?;
                self.insert(Entry { digest, slot: slot(meter, packed, is_limiting(&status)) }, now);
            }
            return Ok(status);
        };
        let slot = self.segments[segment].table.slot_mut(index);
        let Slot::Inline { limiting, words } = slot else {
            return self.visit(digest, meter, now, |state| {
                let status = meter.decide(state, now, ask);
                (status, Visit::Keep { limiting: is_limiting(&status) })
            });
        };
        let (status, packed) = meter.decide_packed(*words, now, ask);
        match packed {
            Packed::Words(packed) => (*words, *limiting) = (packed, is_limiting(&status)),
            Packed::State(_) => {
                *slot = self::slot(meter, packed, is_limiting(&status));
                self.boxed_bytes += slot.heap_bytes();
            }
        }
        Ok(status)
    }

    /// Shows the state to `act`, which may change it.
    ///
    /// # Errors
    /// `act` made a new state that should be kept, and there is no room for it. It is as if `act` had not been called.
    pub(super) fn visit<R>(
        &mut self,
        digest: Digest,
        meter: &Meter,
        now: Ticks,
        act: impl FnOnce(&mut State) -> (R, Visit),
    ) -> Result<R, StoreError> {
        let Some((segment, index)) = self.find_state(digest, meter) else {
            let mut state = meter.empty();
            let (result, visit) = act(&mut state);
            if let Visit::Keep { limiting } = visit {
                self.make_room(now, &[digest])?;
                self.insert(Entry { digest, slot: pack(meter, state, limiting) }, now);
            }
            return Ok(result);
        };
        let slot = self.segments[segment].table.slot_mut(index);
        let bytes_before = slot.heap_bytes();
        let result = match slot {
            Slot::Inline { limiting, words } => {
                let mut state = meter.unpack(*words);
                let (result, visit) = act(&mut state);
                match meter.pack(&state) {
                    Some(packed) => (*words, *limiting) = (packed, visit.is_limiting()),
                    None => *slot = pack(meter, state, visit.is_limiting()),
                }
                result
            }
            Slot::Boxed { limiting, expires_at, state } => {
                let (result, visit) = act(state);
                if let Some(words) = meter.pack(state) {
                    *slot = Slot::Inline { limiting: visit.is_limiting(), words };
                } else {
                    (*expires_at, *limiting) = (meter.expires_at(state), visit.is_limiting());
                }
                result
            }
            Slot::Vacant => unreachable!("a found slot is occupied"),
        };
        let bytes_after = slot.heap_bytes();
        self.boxed_bytes = self.boxed_bytes + bytes_after - bytes_before;
        Ok(result)
    }

    pub(super) fn remove(&mut self, digest: Digest) -> bool {
        let found = self.find(digest);
        if let Some((segment, index)) = found {
            self.remove_at(segment, index);
        }
        found.is_some()
    }

    /// Looks at `budget` slots and drops the states that are back at full credit.
    pub(super) fn sweep(&mut self, now: Ticks, budget: usize) {
        for _ in 0..budget {
            let (segment, index) = self.cursor;
            let Some(table) = self.segments.get(segment).map(|segment| &segment.table) else {
                self.cursor = (0, 0);
                return;
            };
            if index >= table.capacity() {
                self.segments[segment].table.shrink();
                self.cursor = (segment + 1, 0);
            } else if table.entry(index).slot.expires_at().is_some_and(|expires_at| expires_at <= now) {
                self.remove_at(segment, index);
                self.expired += 1;
            } else {
                self.cursor.1 += 1;
            }
        }
    }

    /// Where an entry is: its segment, and the index there. True until something is inserted or removed.
    #[inline]
    pub(super) fn find(&self, digest: Digest) -> Option<(usize, usize)> {
        let segment = self.segment_of(digest)?;
        Some((segment, self.segments[segment].table.find(digest)?))
    }

    /// A quota without a state never sees the counters that an earlier generation of it left here: they count again when it is back.
    fn find_state(&self, digest: Digest, meter: &Meter) -> Option<(usize, usize)> {
        if meter.is_stateless() { None } else { self.find(digest) }
    }

    fn segment_of(&self, digest: Digest) -> Option<usize> {
        self.directory.get(first_bits(digest, self.depth)).map(|&segment| segment as usize)
    }

    fn remove_at(&mut self, segment: usize, index: usize) {
        let slot = self.segments[segment].table.remove(index);
        self.boxed_bytes -= slot.heap_bytes();
        self.len -= 1;
    }

    fn insert(&mut self, entry: Entry, now: Ticks) {
        if self.segments.is_empty() {
            self.segments.push(Segment { depth: 0, table: Table::default() });
            self.directory.push(0);
        }
        self.boxed_bytes += entry.slot.heap_bytes();
        self.len += 1;
        self.slots_owed += SLOTS_PER_ENTRY;
        loop {
            let segment = self.segment_of(entry.digest).expect("a directory that is not empty covers every digest");
            if !self.segments[segment].table.is_full() {
                return self.segments[segment].table.insert(entry);
            }
            self.grow(segment, now);
        }
    }

    /// Rebuilds a full segment without its dead entries: larger, or as two if it is at its largest.
    fn grow(&mut self, segment: usize, now: Ticks) {
        let is_live = |entry: &Entry| entry.slot.expires_at().is_some_and(|expires_at| expires_at > now);
        let depth = self.segments[segment].depth + 1;
        let is_upper = |entry: &Entry| first_bits(entry.digest, depth) & 1 == 1;
        let (mut live, mut upper) = (0, 0);
        let mut old = std::mem::take(&mut self.segments[segment].table);
        for entry in old.entries() {
            live += usize::from(is_live(entry));
            upper += usize::from(is_live(entry) && is_upper(entry));
        }
        let is_split = live >= SEGMENT_MAX;
        let mut lower_table = Table::with_room_for(if is_split { live - upper } else { live });
        let mut upper_table = if is_split { Table::with_room_for(upper) } else { Table::default() };
        for entry in old.drain() {
            if !is_live(&entry) {
                self.expired += 1;
                self.len -= 1;
                self.boxed_bytes -= entry.slot.heap_bytes();
            } else if is_split && is_upper(&entry) {
                upper_table.insert(entry);
            } else {
                lower_table.insert(entry);
            }
        }
        self.segments[segment].table = lower_table;
        if is_split {
            self.segments[segment].depth = depth;
            self.segments.push(Segment { depth, table: upper_table });
            self.name_upper(segment, depth);
        }
    }

    /// Points the upper half of a split segment's directory entries to the newest segment.
    fn name_upper(&mut self, segment: usize, depth: u32) {
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|&segment| [segment, segment]).collect();
            self.depth = depth;
        }
        let upper = u32::try_from(self.segments.len() - 1).expect("segments hold a hundred keys each and memory is finite");
        for (prefix, named) in self.directory.iter_mut().enumerate() {
            if *named as usize == segment && (prefix >> (self.depth - depth)) & 1 == 1 {
                *named = upper;
            }
        }
    }
}

impl Visit {
    fn is_limiting(self) -> bool {
        match self {
            Self::Keep { limiting } | Self::Leave { limiting } => limiting,
        }
    }
}

fn pack(meter: &Meter, state: State, limiting: bool) -> Slot {
    let packed = meter.pack(&state).map_or_else(|| Packed::State(state), Packed::Words);
    slot(meter, packed, limiting)
}

fn slot(meter: &Meter, packed: Packed, limiting: bool) -> Slot {
    match packed {
        Packed::Words(words) => Slot::Inline { limiting, words },
        Packed::State(state) => Slot::Boxed { limiting, expires_at: meter.expires_at(&state), state: Box::new(state) },
    }
}

/// Whether nothing is left for the key.
pub(super) fn is_limiting(status: &Status) -> bool {
    !status.is_allowed() || status.remaining == Some(0)
}

/// The first `count` bits of a digest as a number.
#[allow(clippy::cast_possible_truncation, reason = "a directory has far fewer than 2^32 entries")]
fn first_bits(digest: Digest, count: u32) -> usize {
    digest.0[0].checked_shr(64 - count).unwrap_or(0) as usize
}

#[cfg(test)]
mod tests;
