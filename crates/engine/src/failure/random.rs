//! Small, seedable randomness, so that every run can be repeated.

/// A sequence of numbers that looks random (a counter, well mixed). Not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Between half of `length` and one and a half of it, all equally likely.
    pub(crate) fn around(&mut self, length: u64) -> u64 {
        let part = (u128::from(length) * u128::from(self.next())) >> 64;
        length / 2 + u64::try_from(part).unwrap_or(length)
    }

    /// True for this many of 100.
    pub(crate) fn percent(&mut self, percent: u8) -> bool {
        (u128::from(self.next()) * 100) >> 64 < u128::from(percent)
    }
}

/// Spreads every bit of a number over all bits of another. The same on every machine.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_vary_by_half_around_what_is_asked() {
        let mut random = Random::new(1);
        let lengths: Vec<u64> = (0..10_000).map(|_| random.around(1_000)).collect();

        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&500), Some(&1_499)));
        assert!((980..1_020).contains(&(lengths.iter().sum::<u64>() / 10_000)));
        assert_eq!(random.around(0), 0);
    }

    #[test]
    fn a_share_is_met() {
        let mut random = Random::new(2);
        let mut of_10_000 = |percent| (0..10_000).filter(|_| random.percent(percent)).count();

        assert_eq!((of_10_000(0), of_10_000(100)), (0, 10_000));
        assert!((60..140).contains(&of_10_000(1)));
        assert!((2_350..2_650).contains(&of_10_000(25)));
    }
}
