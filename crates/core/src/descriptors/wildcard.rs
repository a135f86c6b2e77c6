//! Texts with `*`.

/// A text in which each `*` stands for any characters, also none and also `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wildcard {
    prefix: Box<str>,
    middle: Vec<Box<str>>,
    suffix: Box<str>,
}

impl Wildcard {
    /// Reads a text; `None` if it has no `*`.
    pub fn new(text: &str) -> Option<Self> {
        let (prefix, rest) = text.split_once('*')?;
        let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|piece| !piece.is_empty()).map(Into::into).collect();
        Some(Self { prefix: prefix.into(), middle, suffix: suffix.into() })
    }

    /// Whether the whole text fits, in time proportional to its length.
    ///
    /// ```
    /// use tidegate_core::descriptors::wildcard::Wildcard;
    ///
    /// let wildcard = Wildcard::new("path_/api/*/orders").unwrap();
    /// assert!(wildcard.matches("path_/api/v1/eu/orders"));
    /// assert!(!wildcard.matches("path_/api/orders"));
    /// ```
    pub fn matches(&self, text: &str) -> bool {
        let rest = text.strip_prefix(&*self.prefix).and_then(|rest| rest.strip_suffix(&*self.suffix));
        let after = |rest: &'_ str, piece: &str| rest.find(piece).map(|start| start + piece.len());
        let mut pieces = self.middle.iter();
        // The leftmost place of each piece leaves the most for those that follow.
        rest.is_some_and(|rest| pieces.try_fold(rest, |rest, piece| after(rest, piece).map(|end| &rest[end..])).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_star_stands_for_zero_or_more_of_any_character() {
        let cases = [
            ("bar*b", "barb", true),
            ("bar*b", "bar/x/b", true),
            ("bar*b", "bab", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*", "", true),
            ("a*", "a", true),
            ("*a", "ba", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "ac", false),
            ("a*b*b*c", "abc", false),
            ("a*bc*c", "abc", false),
            ("a**c", "ac", true),
            ("a*é*c", "axéc", true),
            ("A*", "abc", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Wildcard::new(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_text_without_a_star_is_none() {
        assert_eq!(Wildcard::new("abc"), None);
    }
}
