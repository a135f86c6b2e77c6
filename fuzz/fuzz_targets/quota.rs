//! Any text is either read as quotas that their own text gives back, or refused with a short message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_core::quota::{Quota, parse};

/// Bytes of the longest message; what is shown of a text is cut to a line.
const MESSAGE_BYTES_MAX: usize = 4_096;

fuzz_target!(|text: &str| {
    match parse(text) {
        Ok(quotas) => quotas.iter().for_each(assert_text_is_read_back),
        Err(error) => {
            let span = error.span().expect("an error of a text has a place");
            let kept = error.text().expect("an error of a text has the text");
            assert!(span.start <= span.end && span.end <= kept.chars().count());

            let message = error.to_string();
            assert!(message.len() < MESSAGE_BYTES_MAX);
            assert!(message.chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
});

fn assert_text_is_read_back(quota: &Quota) {
    let text = quota.to_string();
    let read: Quota = text.parse().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(&read, quota, "{text}");
    assert!(quota.label().len() <= 64);
}
