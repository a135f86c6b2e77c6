//! The values inside a quota: numbers, lengths of time, periods, time zones.

use std::ops::Range;

use super::super::error::{QuotaError, QuotaErrorCode as Code, did_you_mean, quoted};
use super::super::lex::{Lexer, Source, Token};
use super::super::unit::Unit;
use super::word::{is_clause_word, syntax};

/// What stands behind the slash. Whether it is a length of time or a calendar unit is known at the end of the quota only.
#[derive(Debug)]
pub(super) struct Period {
    pub(super) count: u64,
    pub(super) unit: &'static Unit,
    pub(super) span: Range<usize>,
}

/// Reads the tokens of one quota and gives errors their place.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    source: &'a Source<'a>,
    lexer: Lexer<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Source<'a>, span: Range<usize>) -> Self {
        Self { source, lexer: Lexer::new(source, span) }
    }

    pub(super) fn next(&mut self) -> Result<(Token, Range<usize>), QuotaError> {
        self.lexer.next()
    }

    pub(super) fn peek(&self) -> Result<(Token, Range<usize>), QuotaError> {
        self.lexer.peek()
    }

    /// An error at a place of the text.
    pub(super) fn fail<T>(&self, error: QuotaError, span: Range<usize>) -> Result<T, QuotaError> {
        Err(self.source.place(error, span))
    }

    /// The characters of the text from `position` on.
    pub(super) fn chars_from(&self, position: usize) -> &[char] {
        &self.source.chars()[position..]
    }

    /// The number behind `word`.
    pub(super) fn number(&mut self, word: &str) -> Result<u64, QuotaError> {
        let (token, span) = self.lexer.next()?;
        if let Token::Number(value) = token {
            return Ok(value);
        }
        let error = syntax(format!("a number is missing after \"{word}\""), format!("write a whole number: {word} 20"));
        self.fail(error, span)
    }

    /// The length of time behind `word`, in nanoseconds.
    ///
    /// One that does not fit is as long as fits, which is longer than every check allows.
    pub(super) fn duration_ns(&mut self, word: &str) -> Result<u64, QuotaError> {
        if !matches!(self.lexer.peek()?.0, Token::Number(_)) {
            let span = self.lexer.peek()?.1;
            let error = syntax(
                format!("a length of time is missing after \"{word}\""),
                format!("write a number and a unit: {word} 200ms"),
            );
            return self.fail(error, span);
        }
        let Period { count, unit, span } = self.period(word)?;
        match unit.ns {
            Some(ns) => Ok(count.saturating_mul(ns)),
            None => self.fail(no_fixed_length(unit), span),
        }
    }

    /// A unit of time behind `word`, with or without a number.
    pub(super) fn period(&mut self, word: &str) -> Result<Period, QuotaError> {
        let (mut token, mut span) = self.lexer.next()?;
        let start = span.start;
        let mut count = None;
        if let Token::Number(number) = token {
            count = Some(number);
            (token, span) = self.lexer.next()?;
        }
        match token {
            Token::Word(name) => match Unit::find(&name) {
                Some(unit) => Ok(Period { count: count.unwrap_or(1), unit, span: start..span.end }),
                None => self.fail(unknown_unit(&name), span),
            },
            _ => self.fail(unit_missing(word, count), span),
        }
    }

    /// The time zone behind `calendar`, if there is one.
    pub(super) fn zone(&mut self) -> Option<String> {
        self.lexer.zone(is_clause_word)
    }
}

fn no_fixed_length(unit: &Unit) -> QuotaError {
    let unit = unit.single();
    QuotaError::new(Code::MonthNeedsCalendar, format!("a {unit} has no fixed length"), "write a number of days, as in 30d")
}

fn unit_missing(word: &str, count: Option<u64>) -> QuotaError {
    match count {
        Some(count) => QuotaError::new(
            Code::UnitMissing,
            format!("a unit of time is missing after {count}"),
            format!("write the unit: {count}s, {count}m, {count}h"),
        ),
        None => QuotaError::new(
            Code::UnitMissing,
            format!("a unit of time is missing after \"{word}\""),
            "write the unit: second, minute, hour, day, week, or a number and a unit, as in 10s",
        ),
    }
}

fn unknown_unit(name: &str) -> QuotaError {
    let hint = match did_you_mean(name, Unit::names()) {
        Some(unit) => format!("did you mean \"{unit}\"?"),
        None => "units are ns, us, ms, s, m, h, d, w and their full words".to_owned(),
    };
    QuotaError::new(Code::UnknownUnit, format!("unknown unit {}", quoted(name)), hint)
}
