//! Segments and their directory against the standard map.

use std::collections::HashMap;

use super::*;
use crate::digest::Digester;

fn digest(number: u32) -> Digest {
    Digester::new([7; 16]).digest(&number.to_be_bytes())
}

/// A slot that expires then.
fn slot(expires_at: Ticks) -> Slot {
    Slot::Inline { limiting: false, words: [expires_at, 1] }
}

fn expiry(shard: &Shard, number: u32) -> Option<Ticks> {
    let (segment, index) = shard.find(digest(number))?;
    shard.segments[segment].table.entry(index).slot.expires_at()
}

/// Every directory entry names a segment that holds exactly the digests with its prefix.
fn assert_directory(shard: &Shard) {
    assert_eq!(shard.directory.len(), 1 << shard.depth);
    for (prefix, &named) in shard.directory.iter().enumerate() {
        let segment = &shard.segments[named as usize];
        for entry in segment.table.entries().iter().filter(|entry| !matches!(entry.slot, Slot::Vacant)) {
            assert_eq!(
                first_bits(entry.digest, segment.depth),
                prefix >> (shard.depth - segment.depth),
                "{:?} in segment {named}",
                entry.digest
            );
        }
    }
    let entries: usize = shard.segments.iter().map(|segment| segment.table.entries().len()).sum();
    assert!(entries >= shard.len());
}

#[test]
fn splitting_segments_keeps_every_key() {
    let mut shard = Shard::with_len_max(usize::MAX);
    for number in 0..50_000 {
        shard.insert(Entry { digest: digest(number), slot: slot(u64::from(number) + 1) }, 0);
        if number % 5_000 == 0 {
            assert_directory(&shard);
        }
    }
    assert_directory(&shard);
    assert!(shard.segments.len() > 40, "{} segments", shard.segments.len());
    assert!((0..50_000).all(|number| expiry(&shard, number) == Some(u64::from(number) + 1)));
    assert_eq!((shard.len(), expiry(&shard, 50_000)), (50_000, None));
}

#[test]
fn keys_come_and_go_as_in_a_map() {
    let mut shard = Shard::with_len_max(usize::MAX);
    let mut map: HashMap<u32, Ticks> = HashMap::new();
    let mut random = 1_u64;
    for now in 1..200_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = u32::try_from(random >> 33).expect("31 bits") % 9_000;
        match (random >> 20) % 3 {
            0 => assert_eq!(shard.remove(digest(number)), map.remove(&number).is_some()),
            _ if shard.contains(digest(number)) => assert_eq!(expiry(&shard, number), map.get(&number).copied()),
            _ => {
                shard.insert(Entry { digest: digest(number), slot: slot(u64::MAX - now) }, now);
                map.insert(number, u64::MAX - now);
            }
        }
        assert_eq!(shard.len(), map.len());
    }
    assert_directory(&shard);
    assert!((0..9_000).all(|number| expiry(&shard, number) == map.get(&number).copied()));
}

#[test]
fn a_sweep_drops_exactly_what_has_expired_and_gives_its_memory_back() {
    let mut shard = Shard::with_len_max(usize::MAX);
    for number in 0..20_000 {
        shard.insert(Entry { digest: digest(number), slot: slot(1_000 + u64::from(number % 10)) }, 0);
    }
    let full = shard.bytes();
    // Twice around, because a table is only refitted when the sweep has passed it.
    shard.sweep(1_004, 100_000);
    shard.sweep(1_004, 100_000);
    assert_eq!((shard.len(), shard.expired), (10_000, 10_000));
    assert!((0..20_000).all(|number| shard.contains(digest(number)) == (number % 10 > 4)));

    shard.sweep(2_000, 100_000);
    shard.sweep(2_000, 100_000);
    assert_eq!(shard.len(), 0);
    assert!(shard.bytes() * 20 < full, "{} of {full} bytes", shard.bytes());
}

#[test]
fn growing_drops_what_has_expired_instead() {
    let mut shard = Shard::with_len_max(usize::MAX);
    for number in 0..100_000 {
        // Each lives for a hundred insertions.
        shard.insert(Entry { digest: digest(number), slot: slot(u64::from(number) + 100) }, number.into());
        assert!(shard.len() < 1_500, "{} after {number}", shard.len());
    }
    assert!((99_901..100_000).all(|number| shard.contains(digest(number))));
}
