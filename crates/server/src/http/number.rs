//! Whole numbers as different writers of JSON write them: `1`, `1.0`, and in the JSON form of protobuf also `"1"`.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// Up to this one, what is written with a decimal point is whole beyond doubt.
const EXACT_MAX: i64 = 1 << 53;

/// A whole number from 0 up, or a text of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number<T>(pub(super) T);

/// A whole number from 0 up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Units(pub(super) u64);

/// The whole number that a number with a decimal point is, if it is one.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "it is compared with what fits")]
pub(super) fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX as f64).then_some(number as i64)
}

/// Whether every reader and writer of JSON has this number as it is.
pub(super) fn is_exact(number: i64) -> bool {
    number.unsigned_abs() <= EXACT_MAX.unsigned_abs()
}

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = deserializer.deserialize_any(NumberVisitor { takes_texts: true })?;
        let too_large = || D::Error::invalid_value(Unexpected::Unsigned(number), &"a smaller number");
        T::try_from(number).map(Self).map_err(|_| too_large())
    }
}

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor { takes_texts: false }).map(Self)
    }
}

struct NumberVisitor {
    takes_texts: bool,
}

impl Visitor<'_> for NumberVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0 up")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        let units = whole(number).and_then(|units| u64::try_from(units).ok());
        units.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        let number = text.parse().ok().filter(|_| self.takes_texts);
        number.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        for (text, expected) in
            [("1", Some(1)), ("1.0", Some(1)), ("1e3", Some(1000)), ("-0.0", Some(0)), ("1.5", None), ("-1", None)]
        {
            assert_eq!(serde_json::from_str::<Units>(text).ok(), expected.map(Units), "{text}");
            assert_eq!(
                serde_json::from_str::<Number<u32>>(text).ok(),
                expected.and_then(|units| u32::try_from(units).ok()).map(Number)
            );
        }
        assert!(serde_json::from_str::<Units>("\"1\"").is_err() && serde_json::from_str::<Units>("1e300").is_err());
        assert_eq!(serde_json::from_str::<Number<u32>>("\"1\"").ok(), Some(Number(1)));
        assert!(serde_json::from_str::<Number<u32>>("4294967296").is_err());
    }
}
