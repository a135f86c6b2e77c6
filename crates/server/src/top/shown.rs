//! How a key is shown.

use tidegate_store::digest::Digest;

use crate::settings::ShownKeys;

/// The longest text of a key, in characters.
const LENGTH_MAX: usize = 200;
/// So much of a value is shown of those that are masked, and no more than half of it.
const SHOWN_MAX: usize = 4;

/// The text of a key of these parts, each `name=value`.
pub(crate) fn masked(shown: ShownKeys, parts: &[String]) -> String {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() {
            text.push(' ');
        }
        match (shown, part.split_once('=')) {
            (ShownKeys::Masked, Some((name, value))) => {
                text.extend([name, "="]);
                mask(&mut text, value);
            }
            _ => text.push_str(part),
        }
    }
    if text.is_empty() { "everybody".to_owned() } else { harmless(&text) }
}

/// The text of a single value that has this digest.
pub(crate) fn value(shown: ShownKeys, value: &str, of: Digest) -> String {
    match shown {
        ShownKeys::Plain => harmless(value),
        ShownKeys::Masked => {
            let mut text = String::new();
            mask(&mut text, value);
            harmless(&text)
        }
        ShownKeys::Digest => digest(of),
    }
}

/// The text of a digest.
pub(crate) fn digest(digest: Digest) -> String {
    format!("#{:016x}", digest.0[0])
}

/// Adds the first characters of a value.
fn mask(text: &mut String, value: &str) {
    let shown = (value.chars().count() / 2).min(SHOWN_MAX);
    text.extend(value.chars().take(shown));
    text.push('…');
}

/// Who reads it may sit at a terminal, which obeys some characters.
fn harmless(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).take(LENGTH_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_masked_value_at_most_half_is_shown() {
        let parts = ["client=abcdefghij".to_owned(), "ip=ab".to_owned(), "x=a".to_owned()];

        assert_eq!(masked(ShownKeys::Masked, &parts), "client=abcd… ip=a… x=…");
        assert_eq!(masked(ShownKeys::Plain, &parts), "client=abcdefghij ip=ab x=a");
    }

    #[test]
    fn a_text_is_short_and_harmless() {
        let parts = [format!("client=\u{1b}[2J{}", "a".repeat(1_000))];
        let text = masked(ShownKeys::Plain, &parts);

        assert_eq!(text.chars().count(), LENGTH_MAX);
        assert!(!text.chars().any(char::is_control));
    }

    #[test]
    fn the_key_of_all_has_a_name() {
        assert_eq!(masked(ShownKeys::Masked, &[]), "everybody");
    }
}
