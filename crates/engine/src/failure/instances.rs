//! How many instances there are, from the answers to heartbeats: quick to grow, slow to shrink.
//!
//! Too low a number admits too much when the store is away, too high a number too little. So the highest of the last ten minutes counts; and
//! because no answers come while the store is away, these are the ten minutes before the last answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tidegate_store::digest::Digest;

use super::SECOND;
use super::share::{InstanceId, is_sharer};

/// Names that are remembered. Instances beyond have no share of what does not suffice for all.
pub const IDS_MAX: usize = 4_096;

const SPANS: usize = 60;
const SPAN_NS: u64 = 10 * SECOND;

/// The instances that share a store, as one of them knows them.
#[derive(Debug)]
pub struct Instances {
    own: InstanceId,
    at_least: u32,
    count: AtomicU32,
    heard: Mutex<Heard>,
}

#[derive(Debug)]
struct Heard {
    ids: Arc<[InstanceId]>,
    /// The highest count of each span of ten seconds, with the span's number. One more than ten minutes have, because the first is not whole.
    peaks: [(u64, u32); SPANS + 1],
}

impl Instances {
    /// Only this one is known. `at_least` says how many there are at least, whatever is heard: the answer for who starts while the store is away.
    pub fn new(own: InstanceId, at_least: u32) -> Self {
        let at_least = at_least.max(1);
        let heard = Heard { ids: [own].into(), peaks: [(0, 0); SPANS + 1] };
        Self { own, at_least, count: AtomicU32::new(at_least), heard: Mutex::new(heard) }
    }

    /// The name of this one.
    pub fn own(&self) -> InstanceId {
        self.own
    }

    /// The store named all instances that live. This one lives, named or not.
    pub fn hear(&self, now: u64, live: &[InstanceId]) {
        let mut ids = live.to_vec();
        ids.push(self.own);
        ids.sort_unstable();
        ids.dedup();
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        // The same ones on every instance, as far as they hear the same.
        ids.truncate(IDS_MAX);

        let mut heard = self.heard.lock();
        heard.ids = ids.into();
        let highest = heard.highest(now / SPAN_NS, count);
        self.count.store(highest.max(self.at_least), Ordering::Relaxed);
    }

    /// How many instances there are, by what is known: at least 1.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// The instances of the last answer, in the order of their names, at most [`IDS_MAX`].
    pub fn ids(&self) -> Arc<[InstanceId]> {
        self.heard.lock().ids.clone()
    }

    /// Whether this instance is among the so many that have a share of this key's quota.
    pub fn is_sharer(&self, key: Digest, sharers: u32) -> bool {
        sharers >= self.count() || is_sharer(self.own, &self.ids(), key, sharers)
    }
}

impl Heard {
    /// Counts an answer, and says which was the highest of all that still matter.
    fn highest(&mut self, span: u64, count: u32) -> u32 {
        let index = usize::try_from(span % self.peaks.len() as u64).unwrap_or(0);
        let peak = &mut self.peaks[index];
        *peak = if peak.0 < span { (span, count) } else { (peak.0, peak.1.max(count)) };
        let recent = self.peaks.iter().filter(|(number, _)| number + SPANS as u64 >= span);
        recent.map(|&(_, count)| count).max().unwrap_or(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60 * SECOND;

    fn ids(numbers: std::ops::Range<u16>) -> Vec<InstanceId> {
        numbers.map(|number| InstanceId(u128::from(number).to_be_bytes())).collect()
    }

    fn instances() -> Instances {
        Instances::new(ids(5..6)[0], 0)
    }

    #[test]
    fn one_that_heard_nothing_is_alone_or_as_many_as_it_was_told() {
        assert_eq!(instances().count(), 1);
        assert_eq!(instances().ids()[..], ids(5..6)[..]);
        let told = Instances::new(ids(5..6)[0], 4);
        assert_eq!(told.count(), 4);
        told.hear(0, &ids(0..2));
        assert_eq!(told.count(), 4);
        told.hear(0, &ids(0..8));
        assert_eq!(told.count(), 8);
    }

    #[test]
    fn it_grows_at_once_and_shrinks_after_ten_minutes() {
        let instances = instances();
        let counts: Vec<u32> = [(0, 3), (1, 20), (2, 2), (10, 2), (11, 2), (12, 3), (22, 2), (40, 1)]
            .map(|(minute, live)| {
                instances.hear(minute * MINUTE + SECOND, &ids(0..live));
                instances.count()
            })
            .to_vec();

        // Whoever is not named itself comes on top: 0..3 does not name 5.
        assert_eq!(counts, [4, 20, 20, 20, 20, 4, 4, 2]);
    }

    #[test]
    fn a_long_silence_changes_nothing() {
        let instances = instances();
        instances.hear(MINUTE, &ids(0..20));

        assert_eq!(instances.count(), 20);
        instances.hear(600 * MINUTE, &ids(0..19));
        assert_eq!(instances.count(), 19);
    }

    #[test]
    fn answers_out_of_order_do_not_lower_it() {
        let instances = instances();
        instances.hear(100 * MINUTE, &ids(0..9));
        instances.hear(MINUTE, &ids(0..2));

        assert_eq!(instances.count(), 9);
    }

    #[test]
    fn names_are_bounded_and_counted_once() {
        let instances = instances();
        let mut many = ids(0..5_000);
        many.extend(ids(0..5_000));
        instances.hear(0, &many);

        assert_eq!((instances.count(), instances.ids().len()), (5_000, IDS_MAX));
        assert_eq!((0..100).filter(|&key| instances.is_sharer(Digest([key, 0]), 5_000)).count(), 100);
    }

    #[test]
    fn as_many_have_a_share_as_there_are() {
        let all: Vec<Instances> = ids(0..10).into_iter().map(|own| Instances::new(own, 1)).collect();
        for instances in &all {
            instances.hear(0, &ids(0..10));
        }
        for key in 0..100 {
            for sharers in [0, 1, 3, 9, 10, 11] {
                let sharing = all.iter().filter(|instances| instances.is_sharer(Digest([key, 1]), sharers)).count();
                assert_eq!(sharing, sharers.min(10) as usize);
            }
        }
    }
}
