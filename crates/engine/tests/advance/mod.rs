//! What units that were taken in advance promise.
//!
//! Plain functions, because `in_advance.rs` runs them as tests and `mutants.rs` with mistakes switched on.

/// Hands the list of all functions to a macro.
macro_rules! promises {
    ($visit:ident) => {
        $visit! {
            no_sliding_window_sees_more_than_its_limit,
            no_bucket_overflows,
            no_fixed_window_sees_more_than_its_limit,
            a_busy_fleet_uses_most_of_its_quota_and_asks_rarely,
            the_time_to_spend_counts_from_the_question,
            each_grant_keeps_its_own_deadline,
            units_end_with_their_window,
            what_is_given_back_is_not_spent,
            a_counter_that_was_reset_starts_with_nothing,
            who_asks_rarely_takes_nothing_in_advance,
            nobody_takes_more_than_a_fair_part_of_what_is_left,
            what_is_put_back_is_spent_once,
            a_refusal_is_followed_by_a_pause,
            the_last_word_of_the_store_counts,
            strangers_do_not_fill_the_memory,
        }
    };
}
pub(crate) use promises;

mod fleet;

pub(crate) use fleet::{
    a_busy_fleet_uses_most_of_its_quota_and_asks_rarely, no_bucket_overflows, no_fixed_window_sees_more_than_its_limit,
    no_sliding_window_sees_more_than_its_limit,
};

use tidegate_core::algorithm::Receipt;
use tidegate_engine::advance::{Advances, Asks, Granted, HoldingId, Wanted};
use tidegate_engine::word::Word;
use tidegate_store::digest::Digest;

const MILLISECOND: u64 = 1_000_000;
const ADVANCE: u64 = 100 * MILLISECOND;
const START: u64 = 1_000_000 * MILLISECOND;
const ID: HoldingId = HoldingId { meter: 7, counter: Digest([1, 2]) };
const ONE: Asks = Asks { id: ID, cost: 1, advance_ns: ADVANCE, instances: 1 };

/// What the store says is left.
fn word(left: u64) -> Word {
    Word { said_at: 1, left, reset_after: MILLISECOND }
}

/// What the store answers when it gives what was wanted.
fn grant(Wanted { units, number }: Wanted, asked_at: u64) -> Granted<()> {
    Granted {
        number,
        units,
        asked_at,
        advance_ns: ADVANCE,
        ends_after: None,
        receipt: Receipt::Window { id: number },
        word: word(1_000_000),
        handle: (),
    }
}

/// A counter that is asked for so often that more is wanted, and what.
fn busy(requests: u64) -> (Advances<()>, Wanted) {
    let advances = Advances::new(1);
    for _ in 1..requests {
        let found = advances.spend(START, ONE);
        assert_eq!((found.held, found.wanted), (None, None), "nobody knows yet what is left");
    }
    advances.saw(START, ID, word(1_000_000));
    let wanted = advances.spend(START, ONE).wanted.expect("it is busy");
    assert_eq!(wanted.units, requests / 2);
    (advances, wanted)
}

/// A counter of which so much can be spent, by the answer to one question.
fn holding(requests: u64) -> (Advances<()>, u64) {
    let (advances, wanted) = busy(requests);
    assert_eq!(advances.granted(START, ID, grant(wanted, START)), None);
    (advances, wanted.units)
}

fn spend_all(advances: &Advances<()>, now: u64) -> u64 {
    (0..1_000).take_while(|_| advances.spend(now, ONE).held.is_some()).count() as u64
}

/// The answer may come late. The time in which the charge covers what is spent has begun all the same.
pub(crate) fn the_time_to_spend_counts_from_the_question() {
    let (advances, wanted) = busy(40);
    let answered = START + ADVANCE - 2 * MILLISECOND;
    assert_eq!(advances.granted(answered, ID, grant(wanted, START)), None);

    assert!(advances.spend(answered, ONE).held.is_some());
    assert_eq!(advances.spend(START + ADVANCE, ONE).held, None);

    // One that comes when the time is over is given back as a whole.
    let (advances, wanted) = busy(40);
    let unspent = advances.granted(START + ADVANCE, ID, grant(wanted, START)).expect("it cannot be spent");
    assert_eq!((unspent.units, unspent.receipt), (wanted.units, Receipt::Window { id: wanted.number }));
    assert_eq!(advances.spend(START + ADVANCE, ONE).held, None);
}

/// What is left of an earlier grant does not live as long as a later one.
pub(crate) fn each_grant_keeps_its_own_deadline() {
    let (advances, units) = holding(40);
    assert!(units >= 2);
    let later = START + ADVANCE / 2;
    let mut wanted = None;
    for _ in 1..units {
        let found = advances.spend(later, ONE);
        assert!(found.held.is_some());
        wanted = wanted.or(found.wanted);
    }
    let wanted = wanted.expect("little is left");
    assert_eq!(advances.granted(later, ID, grant(wanted, later)), None);
    assert_eq!(advances.units(), wanted.units + 1);

    assert_eq!(spend_all(&advances, START + ADVANCE), wanted.units, "the one that was left is too old");
}

/// Nothing outlives the window in which it was charged.
pub(crate) fn units_end_with_their_window() {
    let (advances, wanted) = busy(40);
    let ends_after = Some(30 * MILLISECOND);
    assert_eq!(advances.granted(START, ID, Granted { ends_after, ..grant(wanted, START) }), None);

    // Less what the clocks may have run apart.
    let ends = START + 30 * MILLISECOND - 30_000;
    assert!(advances.spend(ends - 1, ONE).held.is_some());
    assert_eq!(advances.spend(ends, ONE).held, None);
}

/// Whoever gets a unit back has it alone.
pub(crate) fn what_is_given_back_is_not_spent() {
    let (advances, units) = holding(40);
    let spent = 3;
    (0..spent).for_each(|_| assert!(advances.spend(START, ONE).held.is_some()));
    let returned: u64 = advances.drain().iter().map(|unspent| unspent.units).sum();
    assert_eq!((returned, spend_all(&advances, START)), (units - spent, 0));

    let (advances, units) = holding(40);
    let over = START + ADVANCE;
    assert_eq!(advances.sweep(over, 64).iter().map(|unspent| unspent.units).sum::<u64>(), units);
    assert_eq!((advances.sweep(over, 64).len(), advances.units(), spend_all(&advances, over)), (0, 0, 0), "once");
}

/// The charge of what was taken is forgotten, and so is the right to spend it; also of what is still on its way.
pub(crate) fn a_counter_that_was_reset_starts_with_nothing() {
    let (advances, _) = holding(40);
    let wanted = advances.spend(START + ADVANCE, ONE).wanted.expect("what was held is too old");
    advances.forget(ID.counter);
    assert_eq!(advances.granted(START + ADVANCE, ID, grant(wanted, START + ADVANCE)), None);
    assert_eq!((advances.units(), spend_all(&advances, START + ADVANCE)), (0, 0));

    // Nor is it the answer to a question of after the reset.
    advances.saw(START + ADVANCE, ID, word(1_000));
    let again = (0..10).find_map(|_| advances.spend(START + ADVANCE, ONE).wanted).expect("it is busy again");
    assert_eq!(advances.granted(START + ADVANCE, ID, grant(wanted, START + ADVANCE)), None);
    assert_eq!(advances.units(), 0);
    assert_eq!(advances.granted(START + ADVANCE, ID, grant(again, START + ADVANCE)), None);
    assert_eq!(advances.units(), again.units);
}

/// Three requests in the time that units last are not worth it, and neither is a cost that nothing covers.
pub(crate) fn who_asks_rarely_takes_nothing_in_advance() {
    let advances = Advances::<()>::new(1);
    for request in 0..100 {
        let now = START + request * ADVANCE / 2;
        let found = advances.spend(now, ONE);
        advances.saw(now, ID, word(1_000_000));
        assert_eq!((found.held, found.wanted), (None, None), "request {request}");
    }
    let (advances, units) = holding(40);
    assert_eq!(advances.spend(START, Asks { cost: units + 1, ..ONE }).held, None);
    assert_eq!(advances.peek(START, ID, units).map(|held| held.remaining), Some(1_000_000 + units));
    assert_eq!((advances.peek(START, ID, units + 1), advances.units()), (None, units), "who looks takes nothing");
}

/// Half of what is left belongs to those who ask one by one, the rest to all instances alike.
pub(crate) fn nobody_takes_more_than_a_fair_part_of_what_is_left() {
    let advances = Advances::<()>::new(1);
    let asks = Asks { instances: 5, ..ONE };
    advances.spend(START, asks);
    advances.saw(START, ID, word(100));
    let wanted = (0..1_000).filter_map(|_| advances.spend(START, asks).wanted).collect::<Vec<_>>();
    assert_eq!(wanted.len(), 1, "one question at a time");
    advances.refused(START, ID, wanted[0].number, ADVANCE);
    let later = advances.spend(START + 2 * ADVANCE, asks).wanted.expect("it is busy");
    assert_eq!(later.units, 10);
    advances.refused(START + 2 * ADVANCE, ID, later.number, ADVANCE);
    advances.saw(START + 2 * ADVANCE, ID, word(19));
    assert_eq!(advances.spend(START + 4 * ADVANCE, asks).wanted, None, "one unit is not worth a question");
}

/// What a request did not need after all is there for another, once.
pub(crate) fn what_is_put_back_is_spent_once() {
    let (advances, units) = holding(40);
    let held = advances.spend(START, ONE).held.expect("it is here");
    advances.put_back(ID, held, 1);
    assert_eq!((advances.units(), spend_all(&advances, START)), (units, units));

    // Of a grant that is over nothing comes back.
    let (advances, _) = holding(40);
    let held = advances.spend(START, ONE).held.expect("it is here");
    assert_eq!(advances.sweep(START + ADVANCE, 64).len(), 1);
    advances.put_back(ID, held, 1);
    assert_eq!(advances.units(), 0);
}

/// A store that had nothing to give is not asked with every request.
pub(crate) fn a_refusal_is_followed_by_a_pause() {
    let (advances, wanted) = busy(40);
    advances.refused(START, ID, wanted.number, ADVANCE);
    let asked =
        |from: u64, to: u64| (from..to).filter(|ms| advances.spend(START + ms * MILLISECOND, ONE).wanted.is_some()).count();

    assert_eq!(asked(0, 50), 0);
    assert_eq!(asked(50, 150), 1);
}

/// An answer that was overtaken does not say that there is more than there is.
pub(crate) fn the_last_word_of_the_store_counts() {
    let (advances, units) = holding(40);
    let told = |word: Word| {
        advances.saw(START, ID, word);
        advances.peek(START, ID, 1).map(|held| held.remaining - units)
    };
    let second = 1_000 * MILLISECOND;

    assert_eq!(told(Word { said_at: 50 * second, left: 700, reset_after: 1 }), Some(700));
    assert_eq!(told(Word { said_at: 50 * second - 1, left: 900, reset_after: 1 }), Some(700));
    assert_eq!(told(Word { said_at: 50 * second, left: 699, reset_after: 1 }), Some(699));
    assert_eq!(told(Word { said_at: 50 * second, left: 800, reset_after: 1 }), Some(699));
    assert_eq!(told(Word { said_at: 30 * second, left: 800, reset_after: 1 }), Some(800), "the clock of the store was set");
}

/// A flood of keys that are asked for once leaves nothing behind, and does not keep others from being remembered for long.
pub(crate) fn strangers_do_not_fill_the_memory() {
    let advances = Advances::<()>::new(1);
    let id = |number: u64| HoldingId { meter: 7, counter: Digest([number, number * 31]) };
    let is_known = |now: u64, id: HoldingId| {
        advances.spend(now, Asks { id, ..ONE });
        advances.saw(now, id, word(1_000));
        (0..10).any(|_| advances.spend(now, Asks { id, ..ONE }).wanted.is_some())
    };
    for number in 0..200_000 {
        advances.spend(START, Asks { id: id(number), ..ONE });
    }
    assert!(!is_known(START, id(1_000_000)));
    assert!(advances.sweep(START + 20 * ADVANCE, 64).is_empty());
    assert!(is_known(START + 20 * ADVANCE, id(1_000_000)));
}
