//! Any text is an address that its own text gives back, or is refused with a short message; and no password is shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_store::redis::url::{RedisConfig, URL_BYTES_MAX};

/// Bytes of the longest message; the path of a file is the longest that is shown.
const MESSAGE_BYTES_MAX: usize = 16_384;
/// Stands in the corpus for passwords. Nothing that is shown of a wrong address has capitals, but the paths of files.
const PASSWORD: &str = "HUNTER2";

fuzz_target!(|text: &str| {
    match RedisConfig::parse(text) {
        Ok(config) => {
            let shown = config.to_string();
            // Encoding makes texts longer.
            if shown.len() > URL_BYTES_MAX {
                return;
            }
            let again = RedisConfig::parse(&shown).unwrap_or_else(|error| panic!("{shown:?} of {text:?}: {error}"));
            // The other one has the password `***`: what is shown does not depend on the password.
            assert_eq!(again.to_string(), shown, "{text:?}");
            assert_eq!(format!("{again:?}"), format!("{config:?}"));
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() <= MESSAGE_BYTES_MAX, "{text:?} has a message of {} bytes", message.len());
            assert!(!message.contains(char::is_control), "{message:?}");
            assert!(text.contains("tls_") || !message.contains(PASSWORD), "{text:?}: {message}");
        }
    }
});
