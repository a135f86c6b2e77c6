//! Promises about charges that do not simply decide: those in shadow, and those that stand for themselves.

use tidegate_core::decision::Status;

use super::counter::{Counter, SECOND};
use crate::clock::ManualClock;
use crate::store::{Charge, Part, Store};

fn part(part: Part, charge: Charge<'_>) -> Charge<'_> {
    Charge { part, ..charge }
}

/// A rule in shadow lets everything pass, and its counter is the one it would have if it were enforced.
pub fn a_shadow_denies_nothing_and_counts_only_what_it_would_admit<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (wide, narrow) = (counter.quota("wide", "10/minute"), counter.quota("narrow", "3/minute"));
    let charges = |cost| [wide.charge("a", cost), part(Part::Shadow(1), narrow.charge("a", cost))];
    let mut verdicts: Vec<_> = (0..3).map(|_| counter.check(&charges(1))).collect();
    counter.advance(30 * SECOND);
    verdicts.extend((0..2).map(|_| counter.check(&charges(1))));
    let would_be_allowed: Vec<_> = verdicts.iter().map(|verdict| verdict.statuses()[1].is_allowed()).collect();
    assert_eq!(would_be_allowed, [true, true, true, false, false]);
    assert!(verdicts.iter().all(|verdict| verdict.is_allowed() && verdict.statuses()[1].is_shadow));
    assert_eq!(verdicts[4].remaining(), Some(5), "what a shadow has left is not told");
    counter.advance(30 * SECOND);
    assert_eq!(counter.remaining(&narrow, "a"), 3, "the two that it would have denied were not counted");
    assert_eq!(counter.remaining(&wide, "a"), 8, "and the other quota counts all five");
}

/// A rule that is enforced has denied the request, so a shadow would not have seen it pass either.
pub fn a_denied_request_is_not_counted_in_shadow<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (enforced, shadow) = (counter.quota("enforced", "1/minute"), counter.quota("shadow", "5/minute"));
    let charges = || [enforced.charge("a", 1), part(Part::Shadow(1), shadow.charge("a", 1))];
    assert!(counter.check(&charges()).is_allowed());
    assert!(!counter.check(&charges()).is_allowed());
    assert_eq!(counter.remaining(&shadow, "a"), 4);
}

/// A rule in shadow has several quotas like any other.
pub fn the_quotas_of_a_shadow_are_charged_together_or_not_at_all<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (short, long) = (counter.quota("short", "1/second"), counter.quota("long", "5/minute"));
    let charges = || [part(Part::Shadow(1), short.charge("a", 1)), part(Part::Shadow(1), long.charge("a", 1))];
    assert!(counter.check(&charges()).is_allowed() && counter.check(&charges()).is_allowed());
    assert_eq!((counter.remaining(&short, "a"), counter.remaining(&long, "a")), (0, 4));
}

/// Each shadow simulates that it alone were enforced.
pub fn shadows_do_not_see_each_other<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (small, large) = (counter.quota("small", "1/minute"), counter.quota("large", "5/minute"));
    let charges = || [part(Part::Shadow(1), small.charge("a", 1)), part(Part::Shadow(2), large.charge("a", 1))];
    assert!((0..3).all(|_| counter.check(&charges()).is_allowed()));
    assert_eq!((counter.remaining(&small, "a"), counter.remaining(&large, "a")), (0, 2));
}

/// As the reference service counts: also what it refuses, each quota for itself.
pub fn what_stands_for_itself_is_charged_above_its_limit<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let quota = |name| counter.quota(name, "10/minute fixed_window max_debt 1000");
    let (first, second) = (quota("first"), quota("second"));
    let charges =
        |costs: [u64; 2]| [part(Part::Counted, first.charge("a", costs[0])), part(Part::Counted, second.charge("a", costs[1]))];
    let said = |costs| counter.check(&charges(costs)).statuses().iter().map(Status::is_allowed).collect::<Vec<_>>();
    assert_eq!(said([8, 1]), [true, true]);
    assert_eq!(said([5, 1]), [false, true], "13 of 10, and the other one is charged all the same");
    assert_eq!(said([1, 8]), [false, true], "the refused hits count");
    assert_eq!(said([0, 0]), [false, true], "a look at exactly the limit is allowed, above it is not");
    assert_eq!(counter.remaining(&second, "a"), 0);
}
