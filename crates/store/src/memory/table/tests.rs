//! The table against the standard map.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Few hashes, so that long runs form, and those at both ends of the table meet around it.
fn digest(number: u8) -> Digest {
    let home = match number % 4 {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX - (1 << 60),
        _ => u64::from(number) << 56,
    };
    Digest([u64::from(number), home])
}

fn entry(number: u8, expires_at: Ticks) -> Entry {
    Entry { digest: digest(number), slot: Slot::Inline { limiting: false, words: [expires_at, u64::from(number)] } }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u8),
    Remove(u8),
    Refit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => any::<u8>().prop_map(Step::Insert),
        4 => any::<u8>().prop_map(Step::Remove),
        1 => Just(Step::Refit),
    ];
    vec(step, 1..300)
}

fn refitted(table: &mut Table) {
    table.refit();
    assert!(!table.is_full() && !table.is_sparse(), "{} of {}", table.len, table.capacity());
}

proptest! {
    #[test]
    fn a_table_holds_what_a_map_holds(steps in steps()) {
        let mut table = Table::default();
        let mut map: HashMap<u8, Ticks> = HashMap::new();
        for (now, step) in (0..).zip(steps) {
            match step {
                Step::Insert(number) if table.find(digest(number)).is_none() => {
                    if table.is_full() {
                        refitted(&mut table);
                    }
                    table.insert(entry(number, now));
                    map.insert(number, now);
                }
                Step::Insert(number) => prop_assert!(map.contains_key(&number)),
                Step::Remove(number) => {
                    let removed = table.find(digest(number)).map(|index| table.remove(index));
                    prop_assert_eq!(removed.and_then(|slot| slot.expires_at()), map.remove(&number));
                }
                Step::Refit => refitted(&mut table),
            }
            prop_assert_eq!(table.len, map.len());
            for number in 0..=u8::MAX {
                let found = table.find(digest(number)).and_then(|index| table.entry(index).slot.expires_at());
                prop_assert_eq!(found, map.get(&number).copied());
            }
        }
        prop_assert_eq!(table.drain().count(), map.len());
    }
}

#[test]
fn removing_from_a_run_that_wraps_around_the_end_keeps_the_rest() {
    // All want the last slot, so the run goes on at the first.
    let wrapping = [1, 5, 9, 13];
    for removed in wrapping {
        let mut table = Table::with_room_for(8);
        for number in wrapping {
            table.insert(entry(number, 0));
        }
        assert!(matches!(table.entries()[0].slot, Slot::Inline { .. }), "the run wraps");

        table.remove(table.find(digest(removed)).expect("it was inserted"));
        for number in wrapping {
            assert_eq!(table.find(digest(number)).is_some(), number != removed, "{number} after {removed} was removed");
        }
    }
}

#[test]
fn a_slot_is_as_small_as_promised() {
    assert_eq!(size_of::<Entry>(), 40);
}

#[test]
fn a_refitted_table_is_seven_tenths_full() {
    for len in [100_u16, 1_000, 10_000] {
        let mut table = Table::with_room_for(len.into());
        for number in 0..len {
            let spread = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            table
                .insert(Entry { digest: Digest([number.into(), spread]), slot: Slot::Inline { limiting: false, words: [1, 1] } });
        }
        assert!((66..=72).contains(&(table.len * 100 / table.capacity())), "{} of {}", table.len, table.capacity());
    }
}
