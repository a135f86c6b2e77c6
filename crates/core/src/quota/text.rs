//! Quotas as text.

use std::fmt;

use super::check::{ENTRIES_DEFAULT, TTL_DEFAULT_NS, ZONE_DEFAULT, max_cost_default, max_debt_default};
use super::unit::{duration_text, period_text};
use super::{FixedWindowSpan, Quota, Shape};

/// The longest label.
const LABEL_LENGTH_MAX: usize = 64;

impl Quota {
    /// A short name for headers and metrics: the name, or the text with a hyphen for every character outside `[A-Za-z0-9_.:/-]`,
    /// cut at 64 characters. Two quotas without names can share a label when their texts differ late.
    ///
    /// ```
    /// use tidegate_core::quota::{Quota, QuotaSpec};
    ///
    /// let quota: Quota = "100/minute burst 20".parse()?;
    /// assert_eq!(quota.label(), "100/minute-burst-20");
    ///
    /// let name = Some("per-client".to_owned());
    /// let quota = QuotaSpec { name, unlimited: true, ..QuotaSpec::default() }.build()?;
    /// assert_eq!(quota.label(), "per-client");
    /// # Ok::<(), tidegate_core::quota::QuotaError>(())
    /// ```
    pub fn label(&self) -> String {
        if let Some(name) = self.name() {
            return name.to_owned();
        }
        let is_kept = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
        let text = self.to_string();
        text.chars().take(LABEL_LENGTH_MAX).map(|c| if is_kept(c) { c } else { '-' }).collect()
    }
}

/// The shortest text that [`parse`](super::parse) reads as the same quota, but for its name. Defaults are left out.
///
/// ```
/// use tidegate_core::quota::Quota;
///
/// let text = |text: &str| text.parse::<Quota>().map(|quota| quota.to_string());
/// assert_eq!(text("60 per 60 seconds")?, "60/minute");
/// assert_eq!(text("60/m token_bucket burst 60")?, "60/minute gcra");
/// # Ok::<(), tidegate_core::quota::QuotaError>(())
/// ```
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_default_debt = self.max_debt == max_debt_default(&self.shape);
        let max_debt = (!has_default_debt).then_some(self.max_debt);
        write_shape(f, &self.shape, max_debt)?;
        if self.min_interval_ns > 0 {
            write!(f, " min_interval {}", duration_text(self.min_interval_ns))?;
        }
        if self.advance_ns > 0 {
            write!(f, " advance {}", duration_text(self.advance_ns))?;
        }
        match max_debt {
            Some(max_debt) => write!(f, " max_debt {max_debt}"),
            None => Ok(()),
        }
    }
}

/// `max_debt` is what the text will say, because a default of `max_cost` depends on it.
fn write_shape(f: &mut fmt::Formatter<'_>, shape: &Shape, max_debt: Option<u64>) -> fmt::Result {
    match *shape {
        Shape::Unlimited => f.write_str("unlimited"),
        Shape::SlidingWindow { limit, window_ns, entries } => {
            write_rate(f, limit, window_ns)?;
            write_unless(f, "entries", entries.into(), ENTRIES_DEFAULT.into())
        }
        Shape::SlidingWindowLog { limit, window_ns } => {
            write_rate(f, limit, window_ns)?;
            f.write_str(" sliding_window_log")
        }
        Shape::SlidingWindowCounter { limit, window_ns, buckets } => {
            write_rate(f, limit, window_ns)?;
            f.write_str(" sliding_window_counter")?;
            // Zero buckets do not exist, so the number stands for none.
            write_unless(f, "buckets", buckets.unwrap_or(0).into(), 0)
        }
        Shape::FixedWindow { limit, ref window } => write_fixed_window(f, limit, window),
        Shape::Gcra { limit, period_ns, burst } => {
            write_rate(f, limit, period_ns)?;
            if burst == limit { f.write_str(" gcra") } else { write!(f, " burst {burst}") }
        }
        Shape::LeakyBucket { .. } => write_leaky_bucket(f, shape, max_debt),
        Shape::Concurrency { limit, ttl_ns } => {
            write!(f, "{limit} concurrent")?;
            if ttl_ns == TTL_DEFAULT_NS {
                return Ok(());
            }
            write!(f, " ttl {}", duration_text(ttl_ns))
        }
    }
}

fn write_fixed_window(f: &mut fmt::Formatter<'_>, limit: u64, window: &FixedWindowSpan) -> fmt::Result {
    match window {
        FixedWindowSpan::Epoch { window_ns } => {
            write_rate(f, limit, *window_ns)?;
            f.write_str(" fixed_window")
        }
        FixedWindowSpan::Calendar { unit, zone } => {
            write!(f, "{limit}/{} calendar", unit.as_str())?;
            if **zone == *ZONE_DEFAULT { Ok(()) } else { write!(f, " {zone}") }
        }
    }
}

/// The algorithm is named only if neither `queue` nor `nodelay` tells it.
fn write_leaky_bucket(f: &mut fmt::Formatter<'_>, shape: &Shape, max_debt: Option<u64>) -> fmt::Result {
    let &Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, max_cost } = shape else {
        return Ok(());
    };
    write_rate(f, limit, period_ns)?;
    if max_delay_ns > 0 {
        write!(f, " queue {}", duration_text(max_delay_ns))?;
    } else if nodelay == 0 {
        f.write_str(" leaky_bucket")?;
    }
    write_unless(f, "nodelay", nodelay, 0)?;
    write_unless(f, "max_cost", max_cost, max_cost_default(shape, max_debt))
}

fn write_rate(f: &mut fmt::Formatter<'_>, limit: u64, period_ns: u64) -> fmt::Result {
    write!(f, "{limit}/{}", period_text(period_ns))
}

fn write_unless(f: &mut fmt::Formatter<'_>, word: &str, value: u64, default: u64) -> fmt::Result {
    if value == default { Ok(()) } else { write!(f, " {word} {value}") }
}

#[cfg(test)]
mod tests {
    use super::super::{QuotaSpec, parse};
    use super::*;

    fn quota(text: &str) -> Quota {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn canonical_texts_are_their_own_text() {
        let texts = [
            "100/minute",
            "10/second",
            "1/10s",
            "1/90s",
            "1/5m",
            "1/2h",
            "1/3d",
            "3/week",
            "7/ms",
            "7/1500us",
            "0/minute",
            "5000/hour entries 64",
            "100/minute sliding_window_log",
            "100/minute sliding_window_counter",
            "100/minute sliding_window_counter buckets 60",
            "100/minute fixed_window",
            "10000/day calendar",
            "10000/month calendar Europe/Berlin",
            "100/minute burst 20",
            "100/minute burst 0",
            "100/minute gcra",
            "50/second queue 200ms",
            "50/second nodelay 5",
            "50/second leaky_bucket",
            "50/second queue 1s nodelay 5 max_cost 3",
            "20 concurrent",
            "20 concurrent ttl 30s",
            "unlimited",
            "100/minute min_interval 100ms max_debt 0",
            "100/minute advance 100ms",
            "1000/minute burst 500 advance 50ms max_debt 0",
            "10000/day calendar Europe/Berlin advance 1s",
        ];
        for text in texts {
            assert_eq!(quota(text).to_string(), text);
        }
    }

    #[test]
    fn other_spellings_become_the_canonical_text() {
        let cases = [
            ("100 PER 60 seconds", "100/minute"),
            ("24/24h", "24/day"),
            ("1/14d", "1/2w"),
            ("10_000 / 1d CALENDAR utc", "10000/day calendar utc"),
            ("10_000 / 1d calendar UTC", "10000/day calendar"),
            ("100/minute sliding_window entries 16 max_debt 100", "100/minute"),
            ("100/minute token_bucket burst 100", "100/minute gcra"),
            ("50/s leaky_bucket queue 200ms max_cost 11 nodelay 0", "50/second queue 200ms"),
            ("20 concurrent ttl 1 min", "20 concurrent"),
            ("5/s min_interval 0s", "5/second"),
            ("5/s advance 0s", "5/second"),
        ];
        for (text, expected) in cases {
            assert_eq!(quota(text).to_string(), expected, "{text}");
            assert_eq!(quota(expected), quota(text), "{text}");
        }
    }

    #[test]
    fn defaults_that_were_reduced_to_what_fits_are_left_out_too() {
        for text in ["1/36500d gcra", "1/day queue 36499d", "1/day queue 36000d max_debt 400"] {
            let quota = quota(text);

            assert_eq!(quota.to_string(), text);
            assert_eq!(parse(&quota.to_string()).unwrap(), [quota]);
        }
    }

    #[test]
    fn a_label_is_the_name_or_a_text_that_headers_can_carry() {
        let cases = [
            ("100/minute burst 20", "100/minute-burst-20"),
            ("5/day calendar Etc/GMT+5", "5/day-calendar-Etc/GMT-5"),
            (
                "1000000000/second queue 100ms nodelay 1000 min_interval 5ms max_debt 5",
                "1000000000/second-queue-100ms-nodelay-1000-min_interval-5ms-max_",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(quota(text).label(), expected);
        }
        let named = QuotaSpec { name: Some("a:b".into()), unlimited: true, ..QuotaSpec::default() };

        assert_eq!(named.build().unwrap().label(), "a:b");
    }
}
