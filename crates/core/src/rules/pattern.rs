//! Path patterns: `/users/{id}/orders/**`.

use super::glob::Glob;
use super::path;

/// Segments of a path that are looked at; a path with more matches only what ends in `**`.
pub const SEGMENTS_MAX: usize = 64;

/// One segment of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Exactly this text.
    Literal(Box<str>),
    /// Any one segment: `*`, or `{name}`.
    Any,
    /// A segment with a `*` or `?` inside.
    Glob(Glob),
}

/// A pattern for whole paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    segments: Vec<Segment>,
    /// Whether it ends in `**`: any number of further segments, also none.
    has_rest: bool,
    captures: Vec<(Box<str>, usize)>,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not begin with a slash.
    #[error("a path begins with /")]
    NoSlash,
    /// `**` stands elsewhere than at the end.
    #[error("** stands for the rest of the path and must be its last segment")]
    RestNotLast,
    /// `{` or `}` where no capture is.
    #[error("a capture is a whole segment: {{name}}, with letters, digits and _")]
    BadCapture,
    /// Two captures of one name.
    #[error("two captures have the same name")]
    TwinCaptures,
    /// Too long.
    #[error("a pattern has at most {SEGMENTS_MAX} segments")]
    TooLong,
}

impl Pattern {
    /// Reads a pattern. With `ignore_case`, literals are lower-cased: the path must be too.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn parse(text: &str, ignore_case: bool) -> Result<Self, PatternError> {
        let text = text.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        let mut pattern = Self { segments: Vec::new(), has_rest: false, captures: Vec::new() };
        for segment in text.split('/').filter(|segment| !segment.is_empty()) {
            if pattern.has_rest {
                return Err(PatternError::RestNotLast);
            }
            if pattern.segments.len() == SEGMENTS_MAX {
                return Err(PatternError::TooLong);
            }
            pattern.push(segment, ignore_case)?;
        }
        Ok(pattern)
    }

    fn push(&mut self, segment: &str, ignore_case: bool) -> Result<(), PatternError> {
        if segment == "**" {
            self.has_rest = true;
            return Ok(());
        }
        if segment.contains("**") {
            return Err(PatternError::RestNotLast);
        }
        if segment.contains(['{', '}']) {
            let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(PatternError::BadCapture);
            }
            if self.captures.iter().any(|(other, _)| **other == *name) {
                return Err(PatternError::TwinCaptures);
            }
            self.captures.push((name.into(), self.segments.len()));
            self.segments.push(Segment::Any);
            return Ok(());
        }
        let fold = |text: &str| if ignore_case { text.to_lowercase() } else { text.to_owned() };
        self.segments.push(match segment {
            "*" => Segment::Any,
            glob if glob.contains(['*', '?']) => Segment::Glob(Glob::new(&fold(glob))),
            // Spelled as the paths are that it is compared with.
            text => Segment::Literal(fold(&path::spell(text)).into()),
        });
        Ok(())
    }

    /// Its segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether it ends in `**`.
    pub fn has_rest(&self) -> bool {
        self.has_rest
    }

    /// Names of its captures, with the segments that they take.
    pub fn captures(&self) -> &[(Box<str>, usize)] {
        &self.captures
    }

    /// Whether a normalized path fits.
    ///
    /// ```
    /// use tidegate_core::rules::pattern::Pattern;
    ///
    /// let pattern = Pattern::parse("/users/{id}/**", false)?;
    /// assert!(pattern.matches("/users/42") && pattern.matches("/users/42/orders/1"));
    /// assert!(!pattern.matches("/users"));
    /// # Ok::<(), tidegate_core::rules::pattern::PatternError>(())
    /// ```
    pub fn matches(&self, path: &str) -> bool {
        let mut rest = segments(path);
        self.segments.iter().all(|wanted| rest.next().is_some_and(|found| wanted.matches(found)))
            && (self.has_rest || rest.next().is_none())
    }

    /// What a capture of this name takes of a path that fits.
    pub fn capture<'p>(&self, name: &str, path: &'p str) -> Option<&'p str> {
        let &(_, index) = self.captures.iter().find(|(capture, _)| **capture == *name)?;
        segments(path).nth(index)
    }
}

impl Segment {
    /// Whether one segment of a path fits.
    pub fn matches(&self, found: &str) -> bool {
        match self {
            Self::Literal(text) => **text == *found,
            Self::Any => true,
            Self::Glob(glob) => glob.matches(found),
        }
    }
}

/// The segments of a normalized path.
pub fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_they_are_described() {
        let table = [
            ("/", "/", true),
            ("/", "/a", false),
            ("/**", "/", true),
            ("/**", "/a/b", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a", false),
            ("/a/*", "/a/b/c", false),
            ("/a/**", "/a", true),
            ("/a/**", "/ab", false),
            ("/v*/x", "/v12/x", true),
            ("/v*/x", "/w/x", false),
            ("/{a}/{b}", "/1/2", true),
        ];
        for (pattern, path, expected) in table {
            assert_eq!(Pattern::parse(pattern, false).expect("a pattern").matches(path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn literals_are_spelled_as_paths_are() {
        for (pattern, path) in
            [("/a b", "/a%20b"), ("/caf%c3%a9", "/café"), ("/a%2fb", "/a%2Fb"), ("/100%", "/100%25"), ("/%2A", "/*")]
        {
            let pattern = Pattern::parse(pattern, false).expect("a pattern");
            assert!(pattern.matches(path) && !pattern.matches("/anything"), "{pattern:?} on {path}");
        }
    }

    #[test]
    fn a_bad_pattern_is_refused() {
        let table = [
            ("a", PatternError::NoSlash),
            ("/**/a", PatternError::RestNotLast),
            ("/a**", PatternError::RestNotLast),
            ("/{}", PatternError::BadCapture),
            ("/a{b}", PatternError::BadCapture),
            ("/{a}/{a}", PatternError::TwinCaptures),
        ];
        for (text, error) in table {
            assert_eq!(Pattern::parse(text, false), Err(error), "{text}");
        }
    }

    #[test]
    fn captures_take_their_segment() {
        let pattern = Pattern::parse("/users/{user}/orders/{order}", false).expect("a pattern");
        assert_eq!(pattern.capture("order", "/users/7/orders/42"), Some("42"));
        assert_eq!(pattern.capture("nobody", "/users/7/orders/42"), None);
    }
}
