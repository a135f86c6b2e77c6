//! The catalogue of problems, as one table.

use std::fmt;

/// Writes the enum, its slugs and `ALL` from one table, so that none of them can be forgotten.
macro_rules! catalogue {
    ($($(#[$doc:meta])+ $variant:ident = $slug:literal,)+) => {
        /// The stable name of a problem with a quota. Slugs never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum QuotaErrorCode {
            $($(#[$doc])+ $variant,)+
        }

        impl QuotaErrorCode {
            /// Every code, in the order of the catalogue.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The slug.
            ///
            /// ```
            /// use tidegate_core::quota::QuotaErrorCode;
            ///
            /// assert_eq!(QuotaErrorCode::UnknownUnit.as_str(), "unknown-unit");
            /// ```
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $slug,)+
                }
            }
        }
    };
}

catalogue! {
    // The text.
    /// The text is empty or blank.
    EmptyText = "empty-text",
    /// Nothing stands before, between or after separators.
    EmptyMember = "empty-member",
    /// The text has more than 1,000 characters.
    TextTooLong = "text-too-long",
    /// The text has more than 16 quotas.
    TooManyQuotas = "too-many-quotas",
    /// Several quotas where one is expected.
    SeveralQuotas = "several-quotas",
    /// Something is missing or out of place.
    QuotaSyntax = "quota-syntax",
    /// A character that no quota contains.
    UnexpectedCharacter = "unexpected-character",
    /// A word that is no part of the language.
    UnknownWord = "unknown-word",
    /// A word in the place of a unit of time that is none.
    UnknownUnit = "unknown-unit",
    /// A word that looks like the name of an algorithm and is none.
    UnknownAlgorithm = "unknown-algorithm",
    /// A length of time without its unit.
    UnitMissing = "unit-missing",
    /// A parameter, or the algorithm, is given twice.
    DuplicateParameter = "duplicate-parameter",
    /// A number below zero.
    NumberNegative = "number-negative",
    /// A number with a decimal point.
    NumberNotWhole = "number-not-whole",
    /// A number with an underscore that is not between digits.
    NumberMalformed = "number-malformed",
    /// A number that does not fit 64 bits.
    NumberTooLarge = "number-too-large",

    // Limit and period.
    /// There is no limit.
    LimitMissing = "limit-missing",
    /// The limit is above 2^53.
    LimitTooLarge = "limit-too-large",
    /// The limit is above what a log of every request may hold.
    LogLimitTooLarge = "log-limit-too-large",
    /// The limit is above the most leases a key may hold.
    ConcurrencyLimitTooLarge = "concurrency-limit-too-large",
    /// There is no period.
    PeriodMissing = "period-missing",
    /// There is a burst and no period.
    BurstWithoutPeriod = "burst-without-period",
    /// The period is zero.
    PeriodZero = "period-zero",
    /// The period is below one microsecond.
    PeriodTooShort = "period-too-short",
    /// The period is above 36,500 days.
    PeriodTooLong = "period-too-long",

    // Calendar.
    /// A month or a year as a length of time that is not a period.
    MonthNeedsCalendar = "month-needs-calendar",
    /// A calendar window of several units.
    CalendarCount = "calendar-count",
    /// A calendar window of a unit that calendars do not have.
    CalendarUnit = "calendar-unit",
    /// A calendar unit and a period in nanoseconds.
    PeriodWithCalendar = "period-with-calendar",
    /// A time zone without a calendar.
    ZoneWithoutCalendar = "zone-without-calendar",
    /// The time zone cannot be an IANA name.
    ZoneInvalid = "zone-invalid",

    // The other parameters.
    /// The parameter belongs to another algorithm.
    ParameterNotForAlgorithm = "parameter-not-for-algorithm",
    /// The name has characters that headers or metrics cannot carry, or is too long.
    NameInvalid = "name-invalid",
    /// The burst is above 2^53.
    BurstTooLarge = "burst-too-large",
    /// The nodelay is above 2^53.
    NodelayTooLarge = "nodelay-too-large",
    /// The largest debt is above 2^53.
    MaxDebtTooLarge = "max-debt-too-large",
    /// The largest cost is above 2^53.
    MaxCostTooLarge = "max-cost-too-large",
    /// The largest cost is zero.
    MaxCostZero = "max-cost-zero",
    /// The queue is above 36,500 days.
    QueueTooLong = "queue-too-long",
    /// The smallest interval is above 36,500 days.
    MinIntervalTooLong = "min-interval-too-long",
    /// Units are taken too early for the period or the burst, or for less than a millisecond or more than a minute.
    AdvanceOutOfRange = "advance-out-of-range",
    /// Requests that keep a distance cannot be admitted by what was taken before.
    AdvanceWithMinInterval = "advance-with-min-interval",
    /// The life of a lease is not between one millisecond and one day.
    TtlOutOfRange = "ttl-out-of-range",
    /// The number of log entries is not between 1 and 1,024.
    EntriesOutOfRange = "entries-out-of-range",
    /// The number of sub-windows is not between 2 and 1,024.
    BucketsOutOfRange = "buckets-out-of-range",
    /// There are more sub-windows than nanoseconds.
    BucketsExceedWindow = "buckets-exceed-window",

    // Arithmetic.
    /// Limit and period make a fraction that is too fine for exact arithmetic.
    RateTooFine = "rate-too-fine",
    /// An empty bucket would take more than 36,500 days to fill.
    Overflow = "overflow",
}

impl fmt::Display for QuotaErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn slugs_are_distinct_words_with_hyphens() {
        let slugs: HashSet<&str> = QuotaErrorCode::ALL.iter().map(|code| code.as_str()).collect();

        assert_eq!(slugs.len(), QuotaErrorCode::ALL.len());
        for slug in slugs {
            assert!(slug.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{slug}");
        }
    }

    #[test]
    fn the_slug_is_the_name_of_the_variant() {
        for code in QuotaErrorCode::ALL {
            let variant = code.as_str().replace('-', "");

            assert_eq!(format!("{code:?}").to_ascii_lowercase(), variant);
        }
    }
}
