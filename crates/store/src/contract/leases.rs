//! Slots in flight.

use super::counter::{Counter, Metered, SECOND};
use crate::clock::ManualClock;
use crate::store::Store;

const ID: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;

fn renew<S: Store>(counter: &Counter<S>, quota: &Metered, id: u128) -> bool {
    counter.store.renew(&quota.leased("a", 0, id)).expect("a store that works")
}

fn release<S: Store>(counter: &Counter<S>, quota: &Metered, id: u128) -> bool {
    counter.store.release(&quota.leased("a", 0, id)).expect("a store that works")
}

/// A caller that did not hear the answer asks again with the same id, and keeps the weight it has.
pub fn acquiring_again_takes_no_second_slot<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let quota = counter.quota("slots", "3 concurrent ttl 60s");
    for _ in 0..5 {
        assert!(counter.allows(quota.leased("a", 2, ID)));
        assert_eq!(counter.remaining(&quota, "a"), 1);
    }
    assert!(counter.allows(quota.leased("a", 1, ID ^ 1)), "an id that differs in one bit is another");
    assert!(counter.allows(quota.leased("a", 2, ID)), "the holder is let in although everything is taken");
    assert!(!counter.allows(quota.leased("a", 1, ID ^ (1 << 127))));
    assert!(counter.allows(quota.leased("b", 3, ID)), "the same id for another key is another lease");
}

/// A dead holder loses its slot at the end of its lease, one that finishes gives it back at once.
pub fn a_lease_lives_until_it_expires_or_is_released<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let quota = counter.quota("slots", "2 concurrent ttl 60s");
    assert!(counter.allows(quota.leased("a", 1, 1)));
    counter.advance(10 * SECOND);
    assert!(counter.allows(quota.leased("a", 1, 2)));
    assert!(!counter.allows(quota.leased("a", 1, 3)));

    assert!(release(&counter, &quota, 2));
    assert!(!release(&counter, &quota, 2), "it is gone");
    assert!(!release(&counter, &quota, 99), "it was never there");
    assert_eq!(counter.remaining(&quota, "a"), 1);

    counter.advance(50 * SECOND - counter.store.tick().nanos());
    assert_eq!(counter.remaining(&quota, "a"), 1);
    counter.advance_ticks(1);
    assert_eq!(counter.remaining(&quota, "a"), 2);
    assert!(!renew(&counter, &quota, 1), "it is lost");
    assert!(!release(&counter, &quota, 1), "it expired");
}

/// Renewal counts from now, as often as it is wanted; a lost lease is not revived.
pub fn a_renewed_lease_lives_on<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let quota = counter.quota("slots", "1 concurrent ttl 60s");
    assert!(!renew(&counter, &quota, ID), "there is nothing to renew");
    assert!(counter.allows(quota.leased("a", 1, ID)));
    for _ in 0..10 {
        counter.advance(59 * SECOND);
        assert!(renew(&counter, &quota, ID));
        assert!(!counter.allows(quota.leased("a", 1, 2)));
    }
    counter.advance(60 * SECOND);
    assert!(!renew(&counter, &quota, ID));
    assert!(counter.allows(quota.leased("a", 1, 2)));
}

/// Slots are released, not refunded, and nobody can owe one.
pub fn a_lease_cannot_be_refunded_or_owed<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let quota = counter.quota("slots", "3 concurrent ttl 60s");
    let receipt = counter.check(&[quota.leased("a", 2, ID)]).statuses()[0].receipt;
    counter.refund(&quota, "a", receipt, 2);
    assert_eq!(counter.remaining(&quota, "a"), 1);
    let keys = counter.store.stats().keys;
    counter.store.debit(&[quota.charge("a", 1), quota.charge("b", 1)]).expect("a store that works");
    assert_eq!((counter.remaining(&quota, "a"), counter.remaining(&quota, "b")), (1, 3));
    assert_eq!(counter.store.stats().keys, keys, "there is nothing to remember of somebody who holds nothing");
}
