//! Quotas from text.

mod member;
mod value;
mod word;

use std::ops::Range;
use std::str::FromStr;

use super::error::{QuotaError, QuotaErrorCode as Code};
use super::lex::Source;
use super::{Quota, QuotaSpec};

pub(super) use word::is_clause_word;

/// The most quotas in one text.
const QUOTAS_MAX: usize = 16;

/// Reads quotas from a text and checks them: `100/minute`, or several as in `10/second, 200/minute`.
///
/// Words may be in upper or lower case, and white space is free.
///
/// | part | meaning |
/// | --- | --- |
/// | `100/minute`, `100 per minute`, `1/10s`, `5 per 10 seconds` | units per period. Periods: `ns us ms s m h d w` and their full words; `month` and `year`, of 31 and 366 days unless with `calendar` |
/// | `20 concurrent` | units in flight; `ttl 30s` is the life of a lease |
/// | `unlimited` | no limit |
/// | `burst 20` | `gcra`: the most units at once |
/// | `queue 200ms`, `nodelay 5`, `max_cost 10` | `leaky_bucket`: longest delay, units that start at once, largest cost |
/// | `calendar`, `calendar Europe/Berlin` | `fixed_window` from midnight to midnight (or hour to hour, ...) in a zone, by default UTC |
/// | `entries 32` | `sliding_window`: pairs kept |
/// | `buckets 60` | `sliding_window_counter`: sub-windows |
/// | `min_interval 100ms` | smallest gap between two admitted requests |
/// | `advance 100ms` | on a shared store: how long before they are spent units may be taken |
/// | `max_debt 50` | how far `debit` may overdraw |
/// | `sliding_window`, `sliding_window_log`, `sliding_window_counter`, `fixed_window`, `gcra` = `token_bucket`, `leaky_bucket` | the algorithm; otherwise it follows from the parameters |
///
/// Limits are whole numbers from 0 (deny everything) to 2^53 and may be grouped as in `10_000`.
///
/// ```
/// use tidegate_core::quota::parse;
///
/// let quotas = parse("10/second burst 50; 5_000 PER hour")?;
/// assert_eq!(quotas.len(), 2);
/// assert_eq!(quotas[1].limit(), Some(5000));
/// assert_eq!(quotas[1].period_ns(), Some(3_600_000_000_000));
///
/// assert_eq!(parse("10/second,").unwrap_err().span(), Some(10..10));
/// # Ok::<(), tidegate_core::quota::QuotaError>(())
/// ```
///
/// # Errors
///
/// The first problem from the left, with its place. A problem between parameters is placed at their quota. A text of more than 1,000
/// characters or 16 quotas is refused.
pub fn parse(text: &str) -> Result<Vec<Quota>, QuotaError> {
    each_member(text, QuotaSpec::build)
}

/// Reads quotas from a text in their object form, without the checks of [`QuotaSpec::build`].
///
/// For callers that add to the object form what a text cannot say, such as a name.
///
/// ```
/// use tidegate_core::quota::parse_specs;
///
/// let specs = parse_specs("100/minute burst 20")?;
/// assert_eq!((specs[0].limit, specs[0].burst), (Some(100), Some(20)));
/// # Ok::<(), tidegate_core::quota::QuotaError>(())
/// ```
///
/// # Errors
///
/// The first problem of the text from the left, with its place.
pub fn parse_specs(text: &str) -> Result<Vec<QuotaSpec>, QuotaError> {
    each_member(text, Ok)
}

impl FromStr for Quota {
    type Err = QuotaError;

    /// Reads exactly one quota; see [`parse`].
    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let quotas = parse(text)?;
        let count = quotas.len();
        match <[Self; 1]>::try_from(quotas) {
            Ok([quota]) => Ok(quota),
            Err(_) => Err(QuotaError::new(
                Code::SeveralQuotas,
                format!("{count} quotas where one is expected"),
                "give one quota, without \",\", \";\" and \"|\"",
            )
            .at(text, 0..text.chars().count())),
        }
    }
}

fn each_member<T>(text: &str, finish: impl Fn(QuotaSpec) -> Result<T, QuotaError>) -> Result<Vec<T>, QuotaError> {
    let source = Source::new(text)?;
    members(&source)?
        .into_iter()
        .map(|span| {
            let spec = member::read(&source, span.clone())?;
            finish(spec).map_err(|error| source.place(error, span))
        })
        .collect()
}

/// Splits at separators. The parts have no white space around them and are not empty.
fn members(source: &Source<'_>) -> Result<Vec<Range<usize>>, QuotaError> {
    let chars = source.chars();
    if chars.iter().all(|c| c.is_whitespace()) {
        let error = QuotaError::new(Code::EmptyText, "the text is empty", "write a quota");
        return Err(source.place(error, 0..0));
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for part in chars.split(|c| is_separator(*c)) {
        let range = start..start + part.len();
        start = range.end + 1;
        if parts.len() == QUOTAS_MAX {
            let error = QuotaError::new(
                Code::TooManyQuotas,
                format!("more than {QUOTAS_MAX} quotas in one text"),
                "remove some: a few quotas of different periods are enough",
            );
            return Err(source.place(error, source.trimmed(range)));
        }
        parts.push(source.trimmed(range));
    }
    match parts.iter().find(|part| part.is_empty()) {
        Some(empty) => Err(source.place(
            QuotaError::new(
                Code::EmptyMember,
                "a quota is missing beside a separator",
                "remove the separator, or write a quota on both sides of it",
            ),
            empty.clone(),
        )),
        None => Ok(parts),
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, ',' | ';' | '|')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_quotas_are_joined_by_commas_semicolons_or_bars() {
        let texts: Vec<String> =
            parse("10/s, 200/minute;5000 per hour | 9 per year\n").unwrap().iter().map(ToString::to_string).collect();

        assert_eq!(texts, ["10/second", "200/minute", "5000/hour", "9/366d"]);
    }

    #[test]
    fn a_missing_quota_is_found_at_its_place() {
        let cases = [
            ("", Code::EmptyText, 0..0),
            (" \n", Code::EmptyText, 0..0),
            (",", Code::EmptyMember, 0..0),
            ("1/s,", Code::EmptyMember, 4..4),
            ("1/s, ", Code::EmptyMember, 4..4),
            (";1/s", Code::EmptyMember, 0..0),
            ("1/s,;2/m", Code::EmptyMember, 4..4),
        ];
        for (text, code, span) in cases {
            let error = parse(text).unwrap_err();

            assert_eq!((error.code(), error.span()), (code, Some(span)), "{text:?}");
        }
    }

    #[test]
    fn sixteen_quotas_are_read_and_a_seventeenth_is_refused_at_its_place() {
        assert_eq!(parse(&["1/s"; 16].join(",")).unwrap().len(), 16);

        let error = parse(&["1/s"; 40].join(",")).unwrap_err();

        assert_eq!((error.code(), error.span()), (Code::TooManyQuotas, Some(64..67)));
    }

    #[test]
    fn the_first_problem_from_the_left_is_told_and_a_failed_check_marks_its_quota() {
        let error = parse("1/s, 5/minute entries 0 , oops").unwrap_err();

        assert_eq!((error.code(), error.span()), (Code::EntriesOutOfRange, Some(5..23)));
    }

    #[test]
    fn a_single_quota_must_be_single() {
        assert!("5/s".parse::<Quota>().is_ok());

        assert_eq!("5/s, 6/m".parse::<Quota>().unwrap_err().code(), Code::SeveralQuotas);
    }
}
