//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write as _};

/// A page of metrics that is being written.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

/// What kind a metric is of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts in buckets.
    Histogram,
}

/// Names and values.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    /// Begins a metric; its samples follow.
    pub(super) fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // To write to a string does not fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// One sample.
    pub(super) fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(name);
        let mut opening = '{';
        for (label, text) in labels {
            self.text.push(opening);
            opening = ',';
            let _ = write!(self.text, "{label}=\"");
            self.escaped(text);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// A metric with one sample.
    pub(super) fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.begin(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The page.
    pub(super) fn finish(self) -> String {
        self.text
    }

    fn escaped(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }
}

/// Nanoseconds as seconds, to the last digit.
pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let mut page = Page::default();
        page.sample("name", &[("rule", "a\"b\\c\nd"), ("other", "ü")], 3);

        assert_eq!(page.finish(), "name{rule=\"a\\\"b\\\\c\\nd\",other=\"ü\"} 3\n");
    }

    #[test]
    fn seconds_lose_no_digit() {
        assert_eq!(seconds(1_000_000_001), "1.000000001");
    }
}
