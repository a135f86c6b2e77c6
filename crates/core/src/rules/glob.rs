//! `*` and `?` in texts, in time proportional to the product of both lengths at worst.

/// A pattern in which `*` stands for any characters, also none, and `?` for exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    pattern: Box<str>,
    /// What stands before the first wildcard: a text that does not begin so is told quickly.
    literal: usize,
}

impl Glob {
    /// Reads a pattern. Every text is one.
    pub fn new(pattern: &str) -> Self {
        Self { pattern: pattern.into(), literal: pattern.find(['*', '?']).unwrap_or(pattern.len()) }
    }

    /// Whether the whole text fits.
    ///
    /// ```
    /// use tidegate_core::rules::glob::Glob;
    ///
    /// let glob = Glob::new("*.example.org");
    /// assert!(glob.matches("api.example.org") && glob.matches("a.b.example.org"));
    /// assert!(!glob.matches("example.org"));
    /// ```
    pub fn matches(&self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(&self.pattern[..self.literal]) else { return false };
        let pattern = &self.pattern[self.literal..];
        match pattern {
            "" => rest.is_empty(),
            "*" => true,
            _ => matches(pattern, rest),
        }
    }
}

/// Walks both; after a mismatch the last `*` takes one character more.
fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern_rest, mut text_rest) = (pattern.chars(), text.chars());
    let mut last_star = None;
    loop {
        let before = (pattern_rest.clone(), text_rest.clone());
        match (pattern_rest.next(), text_rest.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                text_rest = before.1;
                last_star = Some((pattern_rest.clone(), text_rest.clone()));
                continue;
            }
            (Some('?'), Some(_)) => continue,
            (Some(wanted), Some(found)) if wanted == found => continue,
            _ => {}
        }
        let Some((after_star, mut taken)) = last_star else { return false };
        if taken.next().is_none() {
            return false;
        }
        (pattern_rest, text_rest) = (after_star.clone(), taken.clone());
        last_star = Some((after_star, taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_they_are_described() {
        let table = [
            ("", "", true),
            ("", "a", false),
            ("abc", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("?", "é", true),
            ("?", "", false),
            ("*a*b*", "xaxbx", true),
            ("*a*b*", "xbxax", false),
            ("a?c*", "abcdef", true),
            ("*", "", true),
            ("**", "anything", true),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "a*".repeat(60) + "b";
        assert!(!Glob::new(&pattern).matches(&"a".repeat(5_000)));
    }
}
