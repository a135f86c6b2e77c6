//! "Did you mean": the known word nearest to an unknown one.

/// Words longer than this are not typing mistakes, and comparing them would only cost time.
const LENGTH_MAX: usize = 32;
/// The most letters that may differ.
const DISTANCE_MAX: usize = 2;

/// The first of the nearest `candidates`, at most two letters away.
///
/// At least one letter must agree, otherwise every letter would suggest every unit of one letter.
pub(in super::super) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(LENGTH_MAX + 1).collect();
    if word.len() > LENGTH_MAX {
        return None;
    }
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let letters: Vec<char> = candidate.chars().collect();
            let distance = edit_distance(&word, &letters);
            let is_near = distance <= DISTANCE_MAX && distance < word.len().min(letters.len());
            is_near.then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance: insertions, deletions and replacements that lead from one word to the other.
fn edit_distance(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        let cases = [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("minuet", "minute", 2)];
        for (from, to, expected) in cases {
            let [from, to] = [from, to].map(|word| word.chars().collect::<Vec<_>>());

            assert_eq!(edit_distance(&from, &to), expected);
            assert_eq!(edit_distance(&to, &from), expected);
        }
    }

    #[test]
    fn the_nearest_word_is_suggested_unless_nothing_agrees() {
        let words = ["second", "seconds", "s", "minute", "m"];
        let cases = [
            ("minuet", Some("minute")),
            ("secnd", Some("second")),
            ("secondss", Some("seconds")),
            ("k", None),
            ("fortnight", None),
            (&*"m".repeat(1000), None),
        ];
        for (word, expected) in cases {
            assert_eq!(did_you_mean(word, words), expected, "{word}");
        }
    }
}
