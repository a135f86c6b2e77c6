//! Whole numbers, and what is said about numbers that are not.

use super::super::check::gcd;
use super::super::error::{QuotaError, QuotaErrorCode as Code, quoted};

/// The value of everything that people write as one number.
pub(super) fn value(raw: &str) -> Result<u64, QuotaError> {
    if raw.starts_with('-') {
        return Err(QuotaError::new(
            Code::NumberNegative,
            format!("{} is below zero", quoted(raw)),
            "write a whole number from 0 on; 0 refuses everything and \"unlimited\" nothing",
        ));
    }
    if raw.contains('.') {
        return Err(QuotaError::new(Code::NumberNotWhole, format!("{} is not a whole number", quoted(raw)), fraction_hint(raw)));
    }
    if raw.ends_with('_') || raw.contains("__") {
        return Err(QuotaError::new(
            Code::NumberMalformed,
            format!("{} has an underscore that is not between two digits", quoted(raw)),
            "group digits as in 10_000",
        ));
    }
    raw.replace('_', "").parse().map_err(|_| {
        QuotaError::new(
            Code::NumberTooLarge,
            format!("the number {} does not fit 64 bits", quoted(raw)),
            "write a smaller number, or \"unlimited\"",
        )
    })
}

/// Shows the number itself as whole units over a longer period, where it is short enough to be worth it.
fn fraction_hint(raw: &str) -> String {
    let exact = || {
        let (whole, fraction) = raw.split_once('.')?;
        let fraction = fraction.trim_end_matches('0');
        if fraction.is_empty() || whole.len() + fraction.len() > 9 {
            return None;
        }
        let scale = 10u64.pow(u32::try_from(fraction.len()).ok()?);
        let units: u64 = format!("{whole}{fraction}").parse().ok()?;
        let shared = gcd(units, scale);
        Some(format!("{}/{}s for {raw}/s", units / shared, scale / shared))
    };
    let exact = exact().unwrap_or_else(|| "3/2s for 1.5/s".to_owned());
    format!("write whole numbers: {exact}, 1500ms for 1.5s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_rewritten_in_the_hint() {
        let cases = [
            ("1.5", "3/2s for 1.5/s"),
            ("0.1", "1/10s for 0.1/s"),
            ("2.50", "5/2s for 2.50/s"),
            ("1.2.3", "3/2s for 1.5/s"),
            ("0.00000000001", "3/2s for 1.5/s"),
        ];
        for (raw, expected) in cases {
            assert!(fraction_hint(raw).contains(expected), "{raw}: {}", fraction_hint(raw));
        }
    }
}
