//! How long a caller waits.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::failure::Failure;

const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The most digits of a timeout.
const DIGITS_MAX: usize = 8;

/// What the way back takes, unless the caller has less time than that.
const WAY_BACK: Duration = Duration::from_millis(1);

/// How long the store may be waited for; `None` is as long as the budget says.
///
/// # Errors
/// The header makes no sense.
pub(super) fn patience(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let Some(text) = headers.get(TIMEOUT) else { return Ok(None) };
    let timeout =
        timeout(text.as_bytes()).ok_or_else(|| Failure::invalid("grpc-timeout is no number with a unit, such as 20m"))?;
    Ok(Some(timeout.saturating_sub(margin(timeout))))
}

/// How much earlier than the caller gives up the answer must leave. Some clients round what they send up, by up to a tenth of a second in ten.
fn margin(timeout: Duration) -> Duration {
    WAY_BACK.min(timeout / 4).max(timeout / 10)
}

fn timeout(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    if digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_hours(number),
        b'M' => Duration::from_mins(number),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn seen(text: &'static str) -> Result<Option<Duration>, Failure> {
        patience(&HeaderMap::from_iter([(TIMEOUT, HeaderValue::from_static(text))]))
    }

    #[test]
    fn a_caller_is_answered_before_it_gives_up() {
        assert_eq!(patience(&HeaderMap::new()), Ok(None));
        assert_eq!(seen("20m"), Ok(Some(Duration::from_millis(18))));
        assert_eq!(seen("8m"), Ok(Some(Duration::from_millis(7))));
        assert_eq!(seen("2000u"), Ok(Some(Duration::from_micros(1500))));
        assert_eq!(seen("400n"), Ok(Some(Duration::from_nanos(300))));
        assert_eq!(seen("0S"), Ok(Some(Duration::ZERO)));
        assert_eq!(seen("1S"), Ok(Some(Duration::from_millis(900))));
        assert_eq!(seen("1M"), Ok(Some(Duration::from_secs(54))));
        assert_eq!(seen("10H"), Ok(Some(Duration::from_hours(9))));
        assert!(seen("99999999H").is_ok());
    }

    #[test]
    fn timeouts_that_make_no_sense_are_refused() {
        for text in ["", "m", "20", "20s", "-1m", "+1m", " 1m", "1.5S", "123456789m"] {
            assert!(seen(text).is_err(), "{text:?}");
        }
    }
}
