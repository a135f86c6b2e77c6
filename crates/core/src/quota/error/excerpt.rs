//! Showing a text that nobody has checked: escaped, shortened, and with carets that still line up.

use std::ops::Range;

/// Columns of source text in an excerpt.
const COLUMNS_MAX: usize = 80;
/// Columns of the wrong part in an excerpt; the rest is for what stands around it.
const COLUMNS_SPAN_MAX: usize = 60;
/// Columns of a word quoted inside a message.
const COLUMNS_QUOTED_MAX: usize = 40;
/// Stands for what was cut.
const CUT: &str = "...";

/// One line of a text, and the line of carets below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) line: String,
    pub(super) carets: String,
}

impl Excerpt {
    /// The part of `text` around `span`, a range of characters. An empty span gets one caret.
    pub(super) fn new(text: &str, span: &Range<usize>) -> Self {
        let cells: Vec<String> = text.chars().map(escaped).collect();
        let shown = shown_range(&cells, span);
        let marked = span.start..span.end.min(shown.end);

        let left = if shown.start > 0 { CUT } else { "" };
        let right = if shown.end < cells.len() { CUT } else { "" };
        let indent = left.len() + columns(&cells[shown.start..marked.start]);
        let carets = columns(&cells[marked]).max(1);
        Self {
            line: format!("{left}{}{right}", cells[shown].concat()),
            carets: format!("{}{}", " ".repeat(indent), "^".repeat(carets)),
        }
    }
}

/// The characters to show: the beginning of the span, then what fits on both sides of it.
fn shown_range(cells: &[String], span: &Range<usize>) -> Range<usize> {
    let mut shown = span.start..span.start;
    let mut used = 0;
    while shown.end < span.end && used + columns(&cells[shown.end..=shown.end]) <= COLUMNS_SPAN_MAX {
        used += columns(&cells[shown.end..=shown.end]);
        shown.end += 1;
    }
    loop {
        let before = shown.clone();
        // The span itself was cut at its end, if at all; more of it would leave no room for what stands before.
        let right = if shown.end >= span.end { cells.get(shown.end) } else { None };
        if let Some(width) = right.map(|cell| cell.chars().count())
            && used + width <= COLUMNS_MAX
        {
            used += width;
            shown.end += 1;
        }
        if let Some(width) = shown.start.checked_sub(1).map(|left| columns(&cells[left..=left]))
            && used + width <= COLUMNS_MAX
        {
            used += width;
            shown.start -= 1;
        }
        if shown == before {
            return shown;
        }
    }
}

/// `text` in double quotes, escaped and shortened, to stand inside a message.
pub(in super::super) fn quoted(text: &str) -> String {
    let mut result = String::from('"');
    let mut used = 0;
    for c in text.chars() {
        let cell = escaped(c);
        used += cell.chars().count();
        if used > COLUMNS_QUOTED_MAX {
            result.push_str(CUT);
            break;
        }
        result.push_str(&cell);
    }
    result.push('"');
    result
}

/// Every character as one that takes exactly one column, or as an escape.
///
/// Latin letters stay readable. Everything else, above all wide, combining and right-to-left characters, would move the carets or
/// rearrange the message.
fn escaped(c: char) -> String {
    match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{24f}' => c.to_string(),
        _ => c.escape_default().to_string(),
    }
}

fn columns(cells: &[String]) -> usize {
    cells.iter().map(|cell| cell.chars().count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the carets mark, cut out of the line.
    fn marked(excerpt: &Excerpt) -> String {
        let indent = excerpt.carets.chars().take_while(|c| *c == ' ').count();
        let count = excerpt.carets.chars().count() - indent;
        excerpt.line.chars().skip(indent).take(count).collect()
    }

    #[test]
    fn the_carets_mark_the_span_whatever_stands_before_it() {
        let cases = [
            ("100/minuet", 4..10, "minuet"),
            ("\t\u{0}\u{1b}x", 3..4, "x"),
            ("日本語 burst", 4..9, "burst"),
            ("ä\"\\ bürst", 4..9, "bürst"),
            ("a\u{301}b", 2..3, "b"),
            ("x\ny", 1..2, "\\n"),
        ];
        for (text, span, expected) in cases {
            assert_eq!(marked(&Excerpt::new(text, &span)), expected, "{text:?}");
        }
    }

    #[test]
    fn an_empty_span_gets_one_caret_even_behind_the_end() {
        let excerpt = Excerpt::new("100/", &(4..4));

        assert_eq!(excerpt, Excerpt { line: "100/".into(), carets: "    ^".into() });
    }

    #[test]
    fn a_long_text_is_cut_on_both_sides_and_the_carets_still_line_up() {
        let text = format!("{}here{}", "a".repeat(500), "b".repeat(500));

        let excerpt = Excerpt::new(&text, &(500..504));

        assert_eq!(marked(&excerpt), "here");
        assert_eq!(excerpt.line.len(), COLUMNS_MAX + 2 * CUT.len());
    }

    #[test]
    fn a_long_span_is_cut_at_its_end() {
        let text = format!("1/{}", "\u{200b}".repeat(900));

        let excerpt = Excerpt::new(&text, &(2..902));

        assert!(excerpt.line.starts_with("1/\\u{200b}"), "{}", excerpt.line);
        assert!(excerpt.line.ends_with(CUT), "{}", excerpt.line);
        assert!(excerpt.line.len() <= COLUMNS_MAX + 2 * CUT.len());
    }

    #[test]
    fn a_quoted_word_is_escaped_and_shortened() {
        assert_eq!(quoted("a\"b\n"), r#""a\"b\n""#);
        assert_eq!(quoted(&"x".repeat(90)), format!("\"{}...\"", "x".repeat(40)));
    }
}
