//! Slots in flight, against a book in which every lease is a line.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate_core::time::Ticks;

use super::desk::ask;
use super::oracle::LeaseBook;
use super::quotas::{Kind, Options, families};
use super::{Outcome, ensure, holds};

#[derive(Debug, Clone, Copy)]
enum Step {
    Acquire(usize, u64),
    Renew(usize),
    Release(usize),
    Forward(Ticks),
    Back(Ticks),
    Load(usize),
}

/// Ids of which half the bits are the same, whichever half.
const IDS: [u128; 6] = [1, 2, 1 << 64, (1 << 64) + 1, (7 << 96) + 1, u128::MAX];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || 0..IDS.len();
    let step = prop_oneof![
        6 => (id(), 1..=3_u64).prop_map(|(id, weight)| Step::Acquire(id, weight)),
        2 => id().prop_map(Step::Renew),
        2 => id().prop_map(Step::Release),
        3 => (1..=30_u64).prop_map(Step::Forward),
        1 => (1..=30_u64).prop_map(Step::Back),
        1 => (0..2_usize).prop_map(Step::Load),
    ];
    vec(step, 1..60)
}

/// Acquire, acquire again, renew, release and expire: every answer as in the book.
pub(crate) fn leases_are_counted_like_in_the_naive_book(runner: &mut TestRunner) -> Outcome {
    let options = Options { quotas_max: 2, ..Options::of(&[Kind::Concurrency]) };
    holds(runner, (families(options), steps()), |(family, steps)| {
        let (meters, ttl) = (family.meters(), family.window);
        let (mut loaded, mut state, mut book, mut now) = (0, meters[0].empty(), LeaseBook::default(), 10_000);
        for step in steps {
            let meter = &meters[loaded % meters.len()];
            let limit = meter.capacity().unwrap_or(0);
            if !matches!(step, Step::Forward(_) | Step::Back(_) | Step::Load(_)) {
                book.expire(now);
            }
            match step {
                Step::Acquire(id, weight) => {
                    let status = meter.decide(&mut state, now, ask(weight, IDS[id]));
                    let is_held = weight <= limit && book.until(IDS[id]).is_some();
                    let expected = if is_held { Some(0) } else { book.retry_after(now, limit, weight) };
                    ensure!(status.retry_after == expected, "{status:?}, by the book {expected:?}");
                    if expected == Some(0) {
                        book.acquire(IDS[id], weight, now + ttl);
                        ensure!(book.used() <= limit || is_held, "{} in flight of {limit}", book.used());
                    }
                    ensure!(status.remaining == Some(limit.saturating_sub(book.used())), "{status:?}, {book:?}");
                }
                Step::Renew(id) => ensure!(meter.renew(&mut state, now, IDS[id]) == book.renew(IDS[id], now + ttl), "{book:?}"),
                Step::Release(id) => ensure!(meter.release(&mut state, now, IDS[id]) == book.release(IDS[id]), "{book:?}"),
                Step::Forward(ticks) => now += ticks,
                Step::Back(ticks) => now -= ticks,
                Step::Load(quota) => loaded = quota,
            }
        }
        Ok(())
    })
}
