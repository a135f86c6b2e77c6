//! The blocks of the files in `crates/store/lua`: its `README.md` says what they are.

use std::collections::BTreeSet;

use super::kind::Kind;

/// The files, by their stems.
const FILES: [(&str, &str); 16] = [
    ("act", include_str!("../../../lua/act.lua")),
    ("bucket", include_str!("../../../lua/bucket.lua")),
    ("clock", include_str!("../../../lua/clock.lua")),
    ("clock_injected", include_str!("../../../lua/clock_injected.lua")),
    ("concurrency", include_str!("../../../lua/concurrency.lua")),
    ("fixed_window", include_str!("../../../lua/fixed_window.lua")),
    ("gcra", include_str!("../../../lua/gcra.lua")),
    ("leaky_bucket", include_str!("../../../lua/leaky_bucket.lua")),
    ("many", include_str!("../../../lua/many.lua")),
    ("pairs", include_str!("../../../lua/pairs.lua")),
    ("plain", include_str!("../../../lua/plain.lua")),
    ("product", include_str!("../../../lua/product.lua")),
    ("sliding_window", include_str!("../../../lua/sliding_window.lua")),
    ("sliding_window_counter", include_str!("../../../lua/sliding_window_counter.lua")),
    ("sliding_window_log", include_str!("../../../lua/sliding_window_log.lua")),
    ("sliding_window_ring", include_str!("../../../lua/sliding_window_ring.lua")),
];

/// A block of a file, without comments and indentation, which would only be sent to every server; empty if there is none.
///
/// # Panics
/// There is no such file.
pub(super) fn block(file: &str, name: &str) -> String {
    let (_, text) = FILES.iter().find(|(stem, _)| *stem == file).expect("blocks are named by files that exist");
    let mut lines = text.lines().map(str::trim).skip_while(|line| line.strip_prefix("--@ ") != Some(name)).skip(1);
    let mut block = String::new();
    while let Some(line) = lines.next().filter(|line| !line.starts_with("--@")) {
        match line.strip_prefix("INCLUDE ").and_then(|included| included.split_once('.')) {
            Some((file, name)) => block += &self::block(file, name),
            None if line.is_empty() || line.starts_with("--") => {}
            None => block.extend([line, "\n"]),
        }
    }
    block
}

/// A block of an algorithm, with its constants.
pub(super) fn of_kind(kind: Kind, name: &str) -> String {
    let mut block = block(kind.stem(), name);
    let (_, text) = FILES.iter().find(|(stem, _)| *stem == kind.stem()).expect("every algorithm has a file");
    let constants = text.lines().find_map(|line| line.strip_prefix("--@ constants "));
    for (constant, value) in constants.iter().flat_map(|line| line.split(' ')).filter_map(|both| both.split_once('=')) {
        block = block.replace(constant, value);
    }
    block
}

/// The fields of `s` in a text.
pub(super) fn fields(text: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_field = |(index, _): &(usize, &str)| !text[..*index].ends_with(is_word);
    let field = |(index, _): (usize, &'_ str)| {
        let rest = &text[index + 2..];
        &rest[..rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())]
    };
    text.match_indices("s.").filter(is_field).map(field).collect()
}

/// Writes the fields of `s` as the locals of a state of this name: `s.x` as `s1_x`.
pub(super) fn as_locals(text: &str, state: &str) -> String {
    let mut result = String::with_capacity(text.len() + 200);
    let mut rest = text;
    while let Some(index) = rest.find("s.") {
        let is_field = !rest[..index].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        result += &rest[..index];
        if is_field {
            result.extend([state, "_"]);
        } else {
            result += "s.";
        }
        rest = &rest[index + 2..];
    }
    result + rest
}

/// Declares the locals of a state of this name for a text.
pub(super) fn locals(text: &str, state: &str) -> String {
    let names: Vec<String> = fields(text).iter().map(|field| format!("{state}_{field}")).collect();
    format!("local {}\n", names.join(", "))
}
