//! The words of the language, and what is said about words that are none or stand in the wrong place.

use super::super::error::{QuotaError, QuotaErrorCode as Code, did_you_mean, quoted};
use super::super::spec::AlgorithmName;

/// The words that begin a parameter.
const PARAMETERS: [&str; 11] =
    ["burst", "queue", "nodelay", "calendar", "buckets", "entries", "min_interval", "advance", "max_debt", "max_cost", "ttl"];

/// Words of the language whose place is before the parameters.
const HEAD_WORDS: [&str; 3] = ["per", "concurrent", "unlimited"];

/// Whether a word, in lower case, begins a parameter or names an algorithm, so that it cannot be a time zone.
pub(in super::super) fn is_clause_word(word: &str) -> bool {
    PARAMETERS.contains(&word) || AlgorithmName::from_name(word).is_some()
}

pub(super) fn syntax(message: impl Into<String>, hint: impl Into<String>) -> QuotaError {
    QuotaError::new(Code::QuotaSyntax, message, hint)
}

pub(super) fn wrong_beginning(word: &str) -> QuotaError {
    let hint = match did_you_mean(word, ["unlimited"]) {
        Some(known) => format!("did you mean \"{known}\"?"),
        None => "begin with a limit, as in 100/minute, or write \"unlimited\"".to_owned(),
    };
    syntax(format!("a quota does not begin with {}", quoted(word)), hint)
}

pub(super) fn wrong_after_limit(word: &str) -> QuotaError {
    let hint = match did_you_mean(word, ["per", "concurrent"]) {
        Some(known) => format!("did you mean \"{known}\"?"),
        None => "after the limit comes \"/\" or \"per\" and a period, or \"concurrent\"".to_owned(),
    };
    QuotaError::new(Code::UnknownWord, format!("unknown word {}", quoted(word)), hint)
}

pub(super) fn wrong_clause(word: &str) -> QuotaError {
    if HEAD_WORDS.contains(&word) {
        return syntax(
            format!("\"{word}\" is out of place"),
            "the limit and its period come first: 100 per minute, 20 concurrent, unlimited",
        );
    }
    // What is counted in flight is written `20 concurrent`, so the name of that algorithm would only mislead.
    let is_written = |algorithm: &AlgorithmName| *algorithm != AlgorithmName::Concurrency;
    let algorithms = || AlgorithmName::ALL.into_iter().filter(is_written).map(AlgorithmName::as_str);
    let known = did_you_mean(word, PARAMETERS.into_iter().chain(algorithms()));
    let is_algorithm = match known {
        Some(known) => AlgorithmName::from_name(known).is_some(),
        None => ["_", "window", "bucket"].iter().any(|part| word.contains(part)),
    };
    let (code, kind, all) = if is_algorithm {
        (Code::UnknownAlgorithm, "algorithm", algorithms().collect::<Vec<_>>().join(", "))
    } else {
        (Code::UnknownWord, "word", PARAMETERS.join(", "))
    };
    let hint = known.map_or_else(|| format!("known here: {all}"), |known| format!("did you mean \"{known}\"?"));
    QuotaError::new(code, format!("unknown {kind} {}", quoted(word)), hint)
}

pub(super) fn repeated(word: &str) -> QuotaError {
    let parameter = if PARAMETERS.contains(&word) { word } else { "the algorithm" };
    QuotaError::new(Code::DuplicateParameter, format!("{parameter} is given twice"), "keep one of the two")
}

pub(super) fn calendar_without_period() -> QuotaError {
    QuotaError::new(Code::PeriodMissing, "a calendar window needs a unit", "write the unit before it: 10000/day calendar")
}
