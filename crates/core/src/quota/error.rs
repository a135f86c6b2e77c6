//! What can be wrong with a quota, said so that the reader can mend it.
//!
//! Quotas come from rule files, command lines and requests to the control plane, so the text in an error may be hostile: everything
//! that is shown is escaped and shortened first.

mod code;
mod excerpt;
mod suggest;

use std::fmt;
use std::ops::Range;

pub use code::QuotaErrorCode;
pub(super) use excerpt::quoted;
pub(super) use suggest::did_you_mean;

use excerpt::Excerpt;

/// Correct texts, shown below every error of a text.
pub(super) const EXAMPLES: [&str; 8] = [
    "100/minute",
    "10/s",
    "1/10s",
    "5000 per hour",
    "100/minute burst 20",
    "50/s queue 200ms",
    "20 concurrent",
    "10000/day calendar Europe/Berlin",
];

/// Why a quota was refused: a stable code, what is wrong, what to write instead and, for texts, where.
///
/// [`Display`](fmt::Display) shows all of it on a few lines. Text is shown with control characters escaped and cut to about 80 columns
/// around the place, so an error of a hostile text is short and safe to print.
///
/// ```
/// use tidegate_core::quota::{Quota, QuotaErrorCode};
///
/// let error = "100/minuet".parse::<Quota>().unwrap_err();
/// assert_eq!(error.code(), QuotaErrorCode::UnknownUnit);
/// assert_eq!(error.span(), Some(4..10));
/// assert_eq!(error.message(), "unknown unit \"minuet\"");
/// assert_eq!(error.hint(), "did you mean \"minute\"?");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct QuotaError {
    code: QuotaErrorCode,
    message: String,
    hint: String,
    place: Option<Place>,
}

/// The text an error is about, and the characters in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    text: Box<str>,
    span: Range<usize>,
}

impl QuotaError {
    /// An error without a place, as the object form has it.
    pub(super) fn new(code: QuotaErrorCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into(), place: None }
    }

    /// The same error, at `span` (characters from 0) of `text`. A place that is already known is more exact and stays.
    pub(super) fn at(mut self, text: &str, span: Range<usize>) -> Self {
        debug_assert!(span.start <= span.end && span.end <= text.chars().count());
        self.place.get_or_insert_with(|| Place { text: text.into(), span });
        self
    }

    /// The stable code, for programs.
    pub fn code(&self) -> QuotaErrorCode {
        self.code
    }

    /// What is wrong, in lower case without a full stop and without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to write instead.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The text that was parsed; `None` when the quota came in its object form.
    ///
    /// Of a text that is too long only the beginning is kept, up to and including the first character too many.
    pub fn text(&self) -> Option<&str> {
        self.place.as_ref().map(|place| &*place.text)
    }

    /// The characters of [`text`](Self::text) that are wrong, counted from 0; empty where something is missing.
    pub fn span(&self) -> Option<Range<usize>> {
        self.place.as_ref().map(|place| place.span.clone())
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, hint, .. } = self;
        let Some(Place { text, span }) = &self.place else {
            return write!(f, "invalid quota: {message}\nhint: {hint}");
        };
        let Excerpt { line, carets } = Excerpt::new(text, span);
        let character = span.start + 1;
        writeln!(f, "invalid quota \"{line}\": {message} at character {character}")?;
        writeln!(f, "  {line}\n  {carets}\nhint: {hint}")?;
        write!(f, "correct examples: {}", EXAMPLES.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Quota, QuotaSpec, parse};
    use super::*;

    #[test]
    fn a_text_error_shows_the_place_a_hint_and_examples() {
        let error = "100/minuet".parse::<Quota>().unwrap_err();

        assert_eq!(
            error.to_string(),
            "invalid quota \"100/minuet\": unknown unit \"minuet\" at character 5\n\
             \x20 100/minuet\n\
             \x20     ^^^^^^\n\
             hint: did you mean \"minute\"?\n\
             correct examples: 100/minute, 10/s, 1/10s, 5000 per hour, 100/minute burst 20, \
             50/s queue 200ms, 20 concurrent, 10000/day calendar Europe/Berlin"
        );
    }

    #[test]
    fn an_object_error_has_no_place() {
        let error = QuotaSpec { limit: Some(5), ..QuotaSpec::default() }.build().unwrap_err();

        assert_eq!((error.text(), error.span()), (None, None));
        assert_eq!(error.to_string().lines().count(), 2);
    }

    #[test]
    fn every_example_is_correct() {
        for example in EXAMPLES {
            assert!(parse(example).is_ok(), "{example}");
        }
    }

    #[test]
    fn messages_are_lower_case_without_a_full_stop() {
        for text in ["", "x", "1", "1/", "1/0s", "1/s burst", "1/s queue 1 month", "-1/s", "1.5/s", "5/s,"] {
            let error = parse(text).unwrap_err();

            for said in [error.message(), error.hint()] {
                assert!(!said.is_empty() && !said.ends_with('.'), "{text:?}: {said}");
                assert!(!said.starts_with(char::is_uppercase), "{text:?}: {said}");
            }
        }
    }

    #[test]
    fn a_hostile_text_stays_short_and_free_of_control_characters() {
        let hostile = [
            "\u{1b}[2J\u{0}/minute".to_owned(),
            "\u{10ffff}".repeat(1000),
            "9".repeat(5000),
            format!("1/{}", "\u{202e}x".repeat(400)),
            format!("1/minute {}", "burst".repeat(100)),
        ];
        for text in hostile {
            let shown = parse(&text).unwrap_err().to_string();

            assert!(shown.len() < 1000, "{} bytes", shown.len());
            assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown}");
            assert!(!shown.contains('\u{202e}'), "{shown}");
        }
    }
}
