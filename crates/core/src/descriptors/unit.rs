//! The units of the format.

use std::fmt;

/// What requests are counted per. The numbers are those of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// None: unlimited, or a window that the format cannot name.
    Unknown = 0,
    /// One second.
    Second = 1,
    /// 60 seconds.
    Minute = 2,
    /// 60 minutes.
    Hour = 3,
    /// 24 hours.
    Day = 4,
    /// 30 days.
    Month = 5,
    /// 365 days.
    Year = 6,
    /// 7 days.
    Week = 7,
}

impl Unit {
    /// All that have a length, the shortest first.
    pub const ALL: [Self; 7] = [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The unit of this name, in upper case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Unknown].into_iter().chain(Self::ALL).find(|unit| unit.name() == name)
    }

    /// The unit of this number of the protocol.
    ///
    /// ```
    /// use tidegate_core::descriptors::Unit;
    ///
    /// assert_eq!(Unit::from_number(7), Some(Unit::Week));
    /// assert_eq!(Unit::from_number(8), None);
    /// ```
    pub fn from_number(number: i32) -> Option<Self> {
        [Self::Unknown].into_iter().chain(Self::ALL).find(|unit| unit.number() == number)
    }

    /// Its number in the protocol.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Its name, in upper case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Second => "SECOND",
            Self::Minute => "MINUTE",
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Month => "MONTH",
            Self::Year => "YEAR",
            Self::Week => "WEEK",
        }
    }

    /// Its length, 0 if unknown.
    pub fn seconds(self) -> u64 {
        const DAY: u64 = 24 * 60 * 60;
        match self {
            Self::Unknown => 0,
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 60 * 60,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_found_by_its_name_and_its_number() {
        for unit in Unit::ALL {
            assert_eq!(Unit::from_name(unit.name()), Some(unit));
            assert_eq!(Unit::from_number(unit.number()), Some(unit));
        }
        assert_eq!(Unit::from_name("minute"), None);
        assert_eq!(Unit::from_number(-1), None);
    }

    #[test]
    fn units_are_sorted_by_their_length() {
        assert!(Unit::ALL.is_sorted_by_key(|unit| unit.seconds()));
        assert_eq!(Unit::ALL.map(Unit::seconds), [1, 60, 3_600, 86_400, 604_800, 2_592_000, 31_536_000]);
    }
}
