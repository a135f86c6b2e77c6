//! Which instances have a share of a quota that does not suffice for all: see [`Share`](tidegate_core::quota::Share).
//!
//! Every instance orders all instances by a hash of instance and key, and the first so many have a share (rendezvous hashing). All that know the same
//! instances agree without a word, each key has others, and an instance that goes changes nothing for the keys that it had no share of.

use tidegate_store::digest::Digest;

use super::random::mix;

/// The name of an instance: 128 random bits that it drew when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub [u8; 16]);

/// The position of an instance in the order of a key, among all that are known; `None` if it is not among them.
///
/// The digest must be the same on all instances, and so must be the list, in any order.
pub fn rank(own: InstanceId, all: &[InstanceId], key: Digest) -> Option<u32> {
    let own_place = place(own, key);
    let before = all.iter().filter(|&&other| place(other, key) < own_place).count();
    all.contains(&own).then(|| u32::try_from(before).unwrap_or(u32::MAX))
}

/// Whether an instance is among the first so many in the order of a key.
pub fn is_sharer(own: InstanceId, all: &[InstanceId], key: Digest, sharers: u32) -> bool {
    rank(own, all, key).is_some_and(|rank| rank < sharers)
}

/// Where an instance stands in the order of a key. The id decides between equal hashes.
fn place(InstanceId(id): InstanceId, key: Digest) -> (u64, [u8; 16]) {
    let number = u128::from_le_bytes(id);
    let [low, high] = [number, number >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or_default());
    (mix(mix(low ^ key.0[0]).wrapping_add(high) ^ key.0[1]), id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::random::Random;

    fn ids(count: usize) -> Vec<InstanceId> {
        let mut random = Random::new(7);
        (0..count).map(|_| InstanceId((u128::from(random.next()) << 64 | u128::from(random.next())).to_le_bytes())).collect()
    }

    fn keys(count: usize) -> impl Iterator<Item = Digest> {
        let mut random = Random::new(8);
        (0..count).map(move |_| Digest([random.next(), random.next()]))
    }

    #[test]
    fn all_agree_on_one_order_whatever_the_order_of_the_list() {
        let all = ids(9);
        let reversed: Vec<InstanceId> = all.iter().rev().copied().collect();
        for key in keys(100) {
            let mut ranks: Vec<u32> = all.iter().map(|&own| rank(own, &all, key).unwrap()).collect();
            assert!(all.iter().all(|&own| rank(own, &all, key) == rank(own, &reversed, key)));
            assert_eq!(all.iter().filter(|&&own| is_sharer(own, &all, key, 4)).count(), 4);
            ranks.sort_unstable();
            assert_eq!(ranks, (0..9).collect::<Vec<u32>>());
        }
        assert_eq!(rank(ids(10)[9], &all, Digest([1, 2])), None);
    }

    #[test]
    fn every_instance_is_first_equally_often() {
        let all = ids(10);
        let mut firsts = [0; 10];
        for key in keys(10_000) {
            firsts[all.iter().position(|&own| rank(own, &all, key) == Some(0)).unwrap()] += 1;
        }

        assert!(firsts.iter().all(|first| (880..1_120).contains(first)), "{firsts:?}");
    }

    #[test]
    fn ids_and_keys_that_count_up_are_spread_too() {
        let all: Vec<InstanceId> = (0..8u128).map(|number| InstanceId(number.to_le_bytes())).collect();
        let mut firsts = [0; 8];
        for number in 0..8_000 {
            firsts[all.iter().position(|&own| rank(own, &all, Digest([number, 0])) == Some(0)).unwrap()] += 1;
        }

        assert!(firsts.iter().all(|first| (850..1_150).contains(first)), "{firsts:?}");
    }

    #[test]
    fn who_goes_changes_nothing_for_the_others_before_it() {
        let all = ids(6);
        let fewer = &all[..5];
        for key in keys(200) {
            let gone = rank(all[5], &all, key).unwrap();
            for &own in fewer {
                let before = rank(own, &all, key).unwrap();
                assert_eq!(rank(own, fewer, key), Some(before - u32::from(before > gone)));
            }
        }
    }

    /// Instances of different releases and machines must agree: this must never change.
    #[test]
    fn the_order_is_fixed() {
        let all = ids(5);
        let ranks: Vec<Option<u32>> = all.iter().map(|&own| rank(own, &all, Digest([3, 4]))).collect();

        assert_eq!(ranks, [3, 1, 0, 4, 2].map(Some));
    }
}
