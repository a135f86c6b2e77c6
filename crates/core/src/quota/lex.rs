//! Characters to words and numbers, each with its place.

mod number;

use std::ops::Range;

use super::error::{QuotaError, QuotaErrorCode as Code, quoted};

/// The longest text that is looked at.
pub(super) const TEXT_CHARACTERS_MAX: usize = 1_000;

/// A text as characters, so that places count what people see as one.
#[derive(Debug)]
pub(super) struct Source<'a> {
    text: &'a str,
    chars: Vec<char>,
}

impl<'a> Source<'a> {
    /// Refuses a text that is too long without reading all of it.
    pub(super) fn new(text: &'a str) -> Result<Self, QuotaError> {
        let chars: Vec<char> = text.chars().take(TEXT_CHARACTERS_MAX + 1).collect();
        if chars.len() > TEXT_CHARACTERS_MAX {
            let kept: String = chars.iter().collect();
            return Err(QuotaError::new(
                Code::TextTooLong,
                format!("the text is longer than {TEXT_CHARACTERS_MAX} characters"),
                "give a list of shorter texts, one for each quota",
            )
            .at(&kept, TEXT_CHARACTERS_MAX..TEXT_CHARACTERS_MAX + 1));
        }
        Ok(Self { text, chars })
    }

    pub(super) fn chars(&self) -> &[char] {
        &self.chars
    }

    /// Gives an error its place in this text.
    pub(super) fn place(&self, error: QuotaError, span: Range<usize>) -> QuotaError {
        error.at(self.text, span)
    }

    /// `range` without the white space around it.
    pub(super) fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        let is_seen = |c: &char| !c.is_whitespace();
        let chars = &self.chars[range.clone()];
        match (chars.iter().position(is_seen), chars.iter().rposition(is_seen)) {
            (Some(first), Some(last)) => range.start + first..range.start + last + 1,
            _ => range.start..range.start,
        }
    }
}

/// A word or number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Number(u64),
    /// In lower case, as far as ASCII goes.
    Word(String),
    Slash,
    End,
}

/// Reads the tokens of one part of a text.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    source: &'a Source<'a>,
    position: usize,
    end: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a Source<'a>, part: Range<usize>) -> Self {
        Self { source, position: part.start, end: part.end }
    }

    /// The next token and its place. At the end: `End`, again and again.
    pub(super) fn next(&mut self) -> Result<(Token, Range<usize>), QuotaError> {
        self.take_while(char::is_whitespace);
        let start = self.position;
        let token = match self.peek_char(0) {
            None => Token::End,
            Some('/') => {
                self.position += 1;
                Token::Slash
            }
            Some(c) if self.is_number_start(c) => self.number(start)?,
            Some(c) if is_word_start(c) => Token::Word(self.word()),
            Some(c) => {
                let error = QuotaError::new(
                    Code::UnexpectedCharacter,
                    format!("unexpected character {}", quoted(&c.to_string())),
                    "a quota is made of whole numbers, words and \"/\"",
                );
                return Err(self.source.place(error, start..start + 1));
            }
        };
        Ok((token, start..self.position))
    }

    /// The token after this place, without moving on.
    pub(super) fn peek(&self) -> Result<(Token, Range<usize>), QuotaError> {
        self.clone().next()
    }

    /// A time zone, unless `is_taken` says that the word means something else. Zones have characters that no other word has, so
    /// only the parser knows when to look for one.
    pub(super) fn zone(&mut self, is_taken: impl Fn(&str) -> bool) -> Option<String> {
        self.take_while(char::is_whitespace);
        let start = self.position;
        let zone = self.take_while(is_zone_char);
        if zone.is_empty() || is_taken(&zone.to_ascii_lowercase()) {
            self.position = start;
            return None;
        }
        Some(zone)
    }

    /// Letters, digits and underscores; a hyphen between letters too, so that `sliding-window` is one wrong word, not three.
    fn word(&mut self) -> String {
        let mut word = self.take_while(is_word_char);
        while self.peek_char(0) == Some('-') && self.peek_char(1).is_some_and(is_word_start) {
            self.position += 1;
            word.push('-');
            word += &self.take_while(is_word_char);
        }
        word.make_ascii_lowercase();
        word
    }

    /// Takes everything that people write as one number and then says what is wrong with it.
    fn number(&mut self, start: usize) -> Result<Token, QuotaError> {
        let mut raw = String::from(self.source.chars[start]);
        self.position += 1;
        raw += &self.take_while(|c| c.is_ascii_digit() || matches!(c, '_' | '.'));
        number::value(&raw).map(Token::Number).map_err(|error| self.source.place(error, start..self.position))
    }

    fn is_number_start(&self, c: char) -> bool {
        let is_before_digit = || self.peek_char(1).is_some_and(|next| next.is_ascii_digit());
        c.is_ascii_digit() || (matches!(c, '-' | '.') && is_before_digit())
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let rest = &self.source.chars[self.position..self.end];
        let taken: String = rest.iter().copied().take_while(|c| is_part(*c)).collect();
        self.position += taken.chars().count();
        taken
    }

    fn peek_char(&self, ahead: usize) -> Option<char> {
        self.source.chars[..self.end].get(self.position + ahead).copied()
    }
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The characters of IANA zone names.
pub(super) fn is_zone_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<Token>, QuotaError> {
        let source = Source::new(text)?;
        let mut lexer = Lexer::new(&source, 0..source.chars().len());
        let mut tokens = Vec::new();
        loop {
            match lexer.next()?.0 {
                Token::End => return Ok(tokens),
                token => tokens.push(token),
            }
        }
    }

    fn word(text: &str) -> Token {
        Token::Word(text.to_owned())
    }

    #[test]
    fn words_numbers_and_slashes_need_no_space_between_them() {
        use Token::{Number, Slash};
        let cases = [
            ("100/10s", vec![Number(100), Slash, Number(10), word("s")]),
            (" 1_000PER\tMinute\n", vec![Number(1000), word("per"), word("minute")]),
            ("007 µs", vec![Number(7), word("µs")]),
            ("18446744073709551615", vec![Number(u64::MAX)]),
            ("sliding-window", vec![word("sliding-window")]),
            ("", vec![]),
        ];
        for (text, expected) in cases {
            assert_eq!(tokens(text).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn each_kind_of_wrong_number_has_its_own_code() {
        let cases = [
            ("-5", Code::NumberNegative, 0..2),
            (" 1.5", Code::NumberNotWhole, 1..4),
            (".5", Code::NumberNotWhole, 0..2),
            ("1.2.3", Code::NumberNotWhole, 0..5),
            ("10_", Code::NumberMalformed, 0..3),
            ("1__0", Code::NumberMalformed, 0..4),
            ("18446744073709551616", Code::NumberTooLarge, 0..20),
            ("+5", Code::UnexpectedCharacter, 0..1),
            ("5 \u{0}", Code::UnexpectedCharacter, 2..3),
        ];
        for (text, code, span) in cases {
            let error = tokens(text).unwrap_err();

            assert_eq!((error.code(), error.span()), (code, Some(span)), "{text:?}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_refused_at_the_first_character_too_many() {
        assert!(Source::new(&"ä".repeat(1_000)).is_ok());

        let error = Source::new(&"ä".repeat(5_000)).unwrap_err();

        assert_eq!((error.code(), error.span()), (Code::TextTooLong, Some(1_000..1_001)));
        assert_eq!(error.text().map(|text| text.chars().count()), Some(1_001));
    }
}
