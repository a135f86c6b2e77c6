//! One quota of a text.

use std::ops::Range;

use super::super::error::{QuotaError, QuotaErrorCode as Code};
use super::super::lex::{Source, Token};
use super::super::spec::{AlgorithmName, QuotaSpec};
use super::value::{Period, Reader};
use super::word::{calendar_without_period, is_clause_word, repeated, syntax, wrong_after_limit, wrong_beginning, wrong_clause};

/// Reads the quota that `span` of the text holds.
pub(super) fn read(source: &Source<'_>, span: Range<usize>) -> Result<QuotaSpec, QuotaError> {
    let reader = Reader::new(source, span);
    Member { reader, spec: QuotaSpec::default(), limit: 0..0, period: None, is_concurrent: false, calendar: None }.read()
}

struct Member<'a> {
    reader: Reader<'a>,
    spec: QuotaSpec,
    /// Where the limit stands.
    limit: Range<usize>,
    period: Option<Period>,
    is_concurrent: bool,
    /// Where the word `calendar` stands.
    calendar: Option<Range<usize>>,
}

impl Member<'_> {
    fn read(mut self) -> Result<QuotaSpec, QuotaError> {
        let (token, span) = self.reader.next()?;
        match token {
            Token::Number(limit) => {
                self.spec.limit = Some(limit);
                self.limit = span;
                self.after_limit()?;
            }
            Token::Word(word) if word == "unlimited" => self.spec.unlimited = true,
            Token::Word(word) => return self.reader.fail(wrong_beginning(&word), span),
            Token::Slash | Token::End => {
                let error = syntax("the limit is missing", "write a number first: 100/minute");
                return self.reader.fail(error, span);
            }
        }
        self.clauses()?;
        self.resolve_period()?;
        Ok(self.spec)
    }

    /// The period, or `concurrent`. Without either the checks say what is missing.
    fn after_limit(&mut self) -> Result<(), QuotaError> {
        let (token, span) = self.reader.peek()?;
        match token {
            Token::Slash => {
                self.reader.next()?;
                self.period = Some(self.reader.period("/")?);
            }
            Token::Word(word) if word == "per" => {
                self.reader.next()?;
                self.period = Some(self.reader.period("per")?);
            }
            Token::Word(word) if word == "concurrent" => {
                self.reader.next()?;
                self.spec.algorithm = Some(AlgorithmName::Concurrency);
                self.is_concurrent = true;
            }
            // The algorithm is called `concurrency`, but what is counted is `20 concurrent`: one way to write it is enough.
            Token::Word(word) if !is_clause_word(&word) || word == "concurrency" => {
                return self.reader.fail(wrong_after_limit(&word), span);
            }
            Token::Number(_) => {
                let error = syntax("a second number", "write \"/\" before the period: 100/10s");
                return self.reader.fail(error, span);
            }
            Token::End if self.is_grouped_by_comma(span.end) => {
                let error = QuotaError::new(
                    Code::PeriodMissing,
                    "the period is missing; a comma separates quotas",
                    "group digits with an underscore, as in 10_000/day",
                );
                return self.reader.fail(error, span);
            }
            Token::Word(_) | Token::End => {}
        }
        Ok(())
    }

    /// `10,000/day`: the comma ends the part, and a digit follows at once.
    fn is_grouped_by_comma(&self, end: usize) -> bool {
        let rest = self.reader.chars_from(end);
        matches!(rest, [',', digit, ..] if digit.is_ascii_digit())
    }

    fn clauses(&mut self) -> Result<(), QuotaError> {
        loop {
            let (token, span) = self.reader.next()?;
            let error = match token {
                Token::End => return Ok(()),
                Token::Word(word) => {
                    self.clause(&word, span)?;
                    continue;
                }
                Token::Slash => syntax("a second \"/\"", "a quota has one period: 100/minute"),
                Token::Number(_) => syntax("a number without a word before it", "say what the number is, as in burst 20"),
            };
            return self.reader.fail(error, span);
        }
    }

    fn clause(&mut self, word: &str, span: Range<usize>) -> Result<(), QuotaError> {
        let is_repeated = if let Some(slot) = number_slot(&mut self.spec, word) {
            slot.replace(self.reader.number(word)?).is_some()
        } else if let Some(slot) = duration_slot(&mut self.spec, word) {
            slot.replace(self.reader.duration_ns(word)?).is_some()
        } else if word == "calendar" {
            self.spec.zone = self.reader.zone();
            self.calendar.replace(span.clone()).is_some()
        } else if let Some(algorithm) = AlgorithmName::from_name(word) {
            self.spec.algorithm.replace(algorithm).is_some()
        } else {
            return self.reader.fail(wrong_clause(word), span);
        };
        if is_repeated {
            return self.reader.fail(repeated(word), span);
        }
        Ok(())
    }

    /// The checks say that a period is missing, unless the parameters mean something that this language writes in another way.
    fn check_without_period(&self) -> Result<(), QuotaError> {
        if let Some(span) = &self.calendar {
            return self.reader.fail(calendar_without_period(), span.clone());
        }
        let is_lease = self.spec.ttl_ns.is_some() || self.spec.algorithm == Some(AlgorithmName::Concurrency);
        if is_lease && !self.is_concurrent && !self.spec.unlimited {
            let error = syntax("\"concurrent\" is missing", "write it after the limit: 20 concurrent ttl 30s");
            return self.reader.fail(error, self.limit.clone());
        }
        Ok(())
    }

    /// A period is a length of time, or with `calendar` the name of a calendar unit.
    fn resolve_period(&mut self) -> Result<(), QuotaError> {
        let Some(Period { count, unit, span }) = &self.period else {
            return self.check_without_period();
        };
        let error = match (&self.calendar, unit.calendar) {
            (Some(_), None) => QuotaError::new(
                Code::CalendarUnit,
                format!("calendars have no windows of one {}", unit.single()),
                "use minute, hour, day, week, month or year, or leave \"calendar\" out",
            ),
            (Some(_), Some(_)) if *count != 1 => QuotaError::new(
                Code::CalendarCount,
                format!("a calendar window is one {0}, not {count} {0}s", unit.single()),
                format!("write /{} calendar, or leave \"calendar\" out", unit.single()),
            ),
            (Some(_), calendar) => {
                self.spec.calendar = calendar;
                return Ok(());
            }
            (None, _) => {
                self.spec.period_ns = Some(count.saturating_mul(unit.longest_ns()));
                return Ok(());
            }
        };
        self.reader.fail(error, span.clone())
    }
}

fn number_slot<'s>(spec: &'s mut QuotaSpec, word: &str) -> Option<&'s mut Option<u64>> {
    Some(match word {
        "burst" => &mut spec.burst,
        "nodelay" => &mut spec.nodelay,
        "buckets" => &mut spec.buckets,
        "entries" => &mut spec.entries,
        "max_debt" => &mut spec.max_debt,
        "max_cost" => &mut spec.max_cost,
        _ => return None,
    })
}

fn duration_slot<'s>(spec: &'s mut QuotaSpec, word: &str) -> Option<&'s mut Option<u64>> {
    Some(match word {
        "queue" => &mut spec.queue_ns,
        "min_interval" => &mut spec.min_interval_ns,
        "advance" => &mut spec.advance_ns,
        "ttl" => &mut spec.ttl_ns,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::spec::CalendarUnit;
    use super::super::parse_specs;
    use super::*;

    const MINUTE_NS: u64 = 60_000_000_000;

    fn spec(text: &str) -> QuotaSpec {
        let specs = parse_specs(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(specs.len(), 1, "{text}");
        specs.into_iter().next().unwrap()
    }

    #[test]
    fn limit_and_period_are_read_in_every_spelling() {
        let cases = [
            ("100/minute", 100, MINUTE_NS),
            ("100 / 1 minute", 100, MINUTE_NS),
            ("100 PER Minutes", 100, MINUTE_NS),
            ("10_000per 5mins", 10_000, 5 * MINUTE_NS),
            ("0/m", 0, MINUTE_NS),
            ("1/10s", 1, 10_000_000_000),
            ("1/10 seconds", 1, 10_000_000_000),
            ("1 per 90 sec", 1, 90_000_000_000),
            ("7/250ms", 7, 250_000_000),
            ("7/250 milliseconds", 7, 250_000_000),
            ("7/20us", 7, 20_000),
            ("7/20µs", 7, 20_000),
            ("7/2000ns", 7, 2_000),
            ("5/2 hrs", 5, 120 * MINUTE_NS),
            ("5/d", 5, 1440 * MINUTE_NS),
            ("5/2w", 5, 14 * 1440 * MINUTE_NS),
            ("5 per month", 5, 31 * 1440 * MINUTE_NS),
            ("5/2 months", 5, 62 * 1440 * MINUTE_NS),
            ("5/year", 5, 366 * 1440 * MINUTE_NS),
        ];
        for (text, limit, period_ns) in cases {
            let expected = QuotaSpec { limit: Some(limit), period_ns: Some(period_ns), ..QuotaSpec::default() };

            assert_eq!(spec(text), expected, "{text}");
        }
    }

    #[test]
    fn parameters_come_in_any_order() {
        let text = "5/s min_interval 100ms MAX_COST 4 leaky_bucket max_debt 3 nodelay 2 queue 1 s";

        let expected = QuotaSpec {
            limit: Some(5),
            period_ns: Some(1_000_000_000),
            algorithm: Some(AlgorithmName::LeakyBucket),
            queue_ns: Some(1_000_000_000),
            nodelay: Some(2),
            max_cost: Some(4),
            max_debt: Some(3),
            min_interval_ns: Some(100_000_000),
            ..QuotaSpec::default()
        };
        assert_eq!(spec(text), expected);
    }

    #[test]
    fn a_calendar_takes_the_next_word_as_zone_unless_it_is_a_parameter() {
        let cases = [
            ("9/day calendar", None),
            ("9/day calendar Europe/Berlin", Some("Europe/Berlin")),
            ("9/day calendar Etc/GMT+5 max_debt 1", Some("Etc/GMT+5")),
            ("9/day calendar max_debt 1", None),
            ("9/1 day calendar FIXED_WINDOW", None),
            ("9/day fixed_window calendar", None),
        ];
        for (text, zone) in cases {
            let spec = spec(text);

            assert_eq!(spec.zone.as_deref(), zone, "{text}");
            assert_eq!(spec.period_ns, None, "{text}");
            assert_eq!(spec.calendar.map(CalendarUnit::as_str), Some("day"), "{text}");
        }
    }

    #[test]
    fn concurrent_and_unlimited_have_no_period() {
        let concurrent = spec("20 concurrent ttl 30s");
        let unlimited = spec("Unlimited");

        assert_eq!(concurrent.algorithm, Some(AlgorithmName::Concurrency));
        assert_eq!((concurrent.limit, concurrent.ttl_ns), (Some(20), Some(30_000_000_000)));
        assert_eq!(unlimited, QuotaSpec { unlimited: true, ..QuotaSpec::default() });
    }

    #[test]
    fn every_mistake_has_its_code_and_its_place() {
        let cases = [
            ("/minute", Code::QuotaSyntax, 0..1),
            ("minute/5", Code::QuotaSyntax, 0..6),
            ("100/", Code::UnitMissing, 4..4),
            ("100/ , 5/s", Code::UnitMissing, 4..4),
            ("100/60", Code::UnitMissing, 6..6),
            ("100/10/s", Code::UnitMissing, 6..7),
            ("100 60s", Code::QuotaSyntax, 4..6),
            ("100/fortnight", Code::UnknownUnit, 4..13),
            ("100 requests per minute", Code::UnknownWord, 4..12),
            ("10,000/day", Code::PeriodMissing, 2..2),
            ("5 per second per user", Code::QuotaSyntax, 13..16),
            ("5/s/user", Code::QuotaSyntax, 3..4),
            ("5/s 20", Code::QuotaSyntax, 4..6),
            ("5/s burst", Code::QuotaSyntax, 9..9),
            ("5/s burst many", Code::QuotaSyntax, 10..14),
            ("5/s queue ms", Code::QuotaSyntax, 10..12),
            ("5/s queue 5", Code::UnitMissing, 11..11),
            ("5/s queue 1 month", Code::MonthNeedsCalendar, 10..17),
            ("5/s burst 1 burst 2", Code::DuplicateParameter, 12..17),
            ("5/s gcra token_bucket", Code::DuplicateParameter, 9..21),
            ("5 concurrent gcra", Code::DuplicateParameter, 13..17),
            ("5/day calendar UTC calendar UTC", Code::DuplicateParameter, 19..27),
            ("5/s min_interval 2 years", Code::MonthNeedsCalendar, 17..24),
            ("5/2 days calendar", Code::CalendarCount, 2..8),
            ("5/0 days calendar", Code::CalendarCount, 2..8),
            ("5/second calendar", Code::CalendarUnit, 2..8),
            ("5 calendar", Code::PeriodMissing, 2..10),
            ("5 ttl 30s", Code::QuotaSyntax, 0..1),
            ("5 ttl 30s concurrency", Code::QuotaSyntax, 0..1),
            ("5/s sliding-window", Code::UnknownAlgorithm, 4..18),
            ("5/s windowed", Code::UnknownAlgorithm, 4..12),
            ("5/s please", Code::UnknownWord, 4..10),
        ];
        for (text, code, span) in cases {
            let error = parse_specs(text).unwrap_err();

            assert_eq!((error.code(), error.span()), (code, Some(span)), "{text}");
        }
    }

    #[test]
    fn a_word_that_is_nearly_right_is_suggested() {
        let cases = [
            ("100/minuet", "minute"),
            ("100/sce", "sec"),
            ("100 pre minute", "per"),
            ("20 concurrency", "concurrent"),
            ("unlimted", "unlimited"),
            ("100/minute brust 20", "burst"),
            ("100/minute fixed-window", "fixed_window"),
            ("100/minute sliding_windw", "sliding_window"),
        ];
        for (text, known) in cases {
            let error = parse_specs(text).unwrap_err();

            assert_eq!(error.hint(), format!("did you mean \"{known}\"?"), "{text}");
        }
    }
}
