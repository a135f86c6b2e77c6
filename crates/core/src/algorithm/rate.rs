//! Exact rates: `l` units per `p` ticks, and instants with a fraction of `1/l` tick.
//!
//! Shared by [`gcra`](super::gcra) and [`leaky_bucket`](super::leaky_bucket). Nothing is ever rounded in the state, so there is no drift:
//! 7 per minute is 7 per minute after a year.

use crate::time::Ticks;

/// A rate in lowest terms: `units` per `ticks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// l: units per `ticks`.
    units: u32,
    /// p: ticks per `units`, and also the weight of one unit in parts of `1/l` tick.
    ticks: u64,
}

impl Rate {
    /// `limit` units per `period` ticks; `None` if the limit is 0 or the reduced limit does not fit 32 bits.
    pub fn new(limit: u64, period: Ticks) -> Option<Self> {
        let divisor = gcd(limit, period);
        let units = u32::try_from(limit.checked_div(divisor)?).ok().filter(|&l| l > 0)?;
        Some(Self { units, ticks: period / divisor })
    }

    /// Whether a unit takes a whole number of ticks.
    pub(super) fn is_whole(self) -> bool {
        self.units == 1
    }

    /// l.
    pub fn units(self) -> u32 {
        self.units
    }

    /// p.
    #[inline(always)]
    pub fn ticks(self) -> Ticks {
        self.ticks
    }

    /// What `cost` units weigh, in parts of `1/l` tick.
    #[inline(always)]
    pub(super) fn weight(self, cost: u64) -> u128 {
        u128::from(cost) * u128::from(self.ticks)
    }

    /// A duration in parts of `1/l` tick.
    #[inline(always)]
    pub(super) fn parts(self, ticks: Ticks) -> u128 {
        u128::from(ticks) * u128::from(self.units)
    }

    /// How many whole units weigh no more than `parts`.
    #[inline(always)]
    pub(super) fn units_in(self, parts: u128) -> u64 {
        divide(parts, self.ticks)
    }

    /// The smallest number of ticks that is at least `parts`.
    #[inline(always)]
    pub(super) fn ticks_up(self, parts: u128) -> Ticks {
        if self.units == 1 {
            return narrow(parts);
        }
        divide(parts + u128::from(self.units - 1), u64::from(self.units))
    }

    /// How far `arrival` lies ahead of `now`, in parts of `1/l` tick; 0 once it has passed.
    #[inline(always)]
    pub(super) fn level(self, arrival: Arrival, now: Ticks) -> u128 {
        if arrival.ticks < now { 0 } else { self.parts(arrival.ticks - now) + u128::from(arrival.part) }
    }

    /// The instant that lies `level` ahead of `now`.
    #[inline(always)]
    pub(super) fn arrival(self, level: u128, now: Ticks) -> Arrival {
        if self.units == 1 {
            return Arrival { ticks: now + narrow(level), part: 0, base: 1 };
        }
        let ticks = divide(level, u64::from(self.units));
        let part = level - self.parts(ticks);
        Arrival { ticks: now + ticks, part: narrow_part(part), base: self.units }
    }

    /// Expresses an arrival of another rate in this one, rounded up by less than a tick.
    #[inline(always)]
    pub(super) fn rebase(self, arrival: &mut Arrival) {
        if arrival.base != self.units {
            *arrival = Arrival { ticks: arrival.ticks + u64::from(arrival.part > 0), part: 0, base: self.units };
        }
    }
}

/// An instant with a fraction: `ticks + part / base`. 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// a: whole ticks.
    pub ticks: Ticks,
    /// r: parts of `1 / base` tick, below `base`.
    pub part: u32,
    /// l of the rate that wrote it: a changed limit must not misread the fraction.
    pub base: u32,
}

impl Arrival {
    /// From here on the arrival lies in the past, like that of an idle key.
    pub fn expires_at(self) -> Ticks {
        self.ticks + u64::from(self.part > 0)
    }

    /// The state as two numbers, expiry first.
    pub(crate) fn pack(self) -> [u64; 2] {
        [self.expires_at(), u64::from(self.part) << 32 | u64::from(self.base)]
    }

    /// Whether these numbers are an arrival at a whole tick of a whole rate, or the empty state.
    #[inline(always)]
    pub(crate) fn is_whole(words: [u64; 2]) -> bool {
        words[1] == 1 || words == [0, 0]
    }

    /// The reverse of `pack`.
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    pub(crate) fn unpack([expires_at, fraction]: [u64; 2]) -> Self {
        let (part, base) = ((fraction >> 32) as u32, fraction as u32);
        Self { ticks: expires_at - u64::from(part > 0), part, base }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Divides with 64 bits where the number fits: a 128-bit division costs several times as much.
#[inline(always)]
fn divide(dividend: u128, divisor: u64) -> u64 {
    match u64::try_from(dividend) {
        Ok(small) => small / divisor,
        Err(_) => narrow(dividend / u128::from(divisor)),
    }
}

#[inline(always)]
fn narrow(value: u128) -> u64 {
    u64::try_from(value).expect("the quota's longest fill time is checked at construction")
}

#[inline(always)]
fn narrow_part(value: u128) -> u32 {
    u32::try_from(value).expect("a remainder is below its 32-bit divisor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_reduced_to_lowest_terms() {
        assert_eq!(Rate::new(100, 60_000_000_000), Some(Rate { units: 1, ticks: 600_000_000 }));
        assert_eq!(Rate::new(7, 60), Some(Rate { units: 7, ticks: 60 }));
    }

    #[test]
    fn a_rate_of_nothing_or_with_too_fine_a_fraction_is_refused() {
        assert_eq!(Rate::new(0, 60), None);
        assert_eq!(Rate::new((1 << 40) + 1, 60_000_000_000), None);
    }

    #[test]
    fn an_arrival_and_its_level_are_the_same_number() {
        let rate = Rate::new(7, 60).expect("valid");
        for level in [0_u128, 1, 6, 7, 8, 419, 420, 421, u128::from(u32::MAX) * 60] {
            assert_eq!(rate.level(rate.arrival(level, 1_000), 1_000), level);
        }
    }

    #[test]
    fn rebasing_never_moves_an_arrival_back() {
        let (old, new) = (Rate::new(7, 60).expect("valid"), Rate::new(11, 60).expect("valid"));
        for level in 0..1_000 {
            let before = old.arrival(level, 500);
            let mut after = before;
            new.rebase(&mut after);

            let (late, early) = (after.ticks * 7, before.ticks * 7 + u64::from(before.part));
            assert!(late >= early && late < early + 7);
        }
    }
}
