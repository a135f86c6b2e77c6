//! Chance, for what is only sampled: cheap enough to be drawn for each request, and no secret.

use std::cell::Cell;

use tidegate_engine::engine::random_id;
use tidegate_store::clock::monotonic_ns;

/// A random number.
pub(crate) fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(seed());
    }
    STATE.with(|state| {
        // xorshift64*
        let mut next = state.get();
        next ^= next >> 12;
        next ^= next << 25;
        next ^= next >> 27;
        state.set(next);
        next.wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
}

/// A share as a number: random ones up to it are in it. 0 is nobody.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share between 0 and 1"
)]
pub(crate) fn threshold(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * u64::MAX as f64) as u64
}

fn seed() -> u64 {
    let id = random_id().to_le_bytes();
    (monotonic_ns() ^ u64::from_le_bytes(id[..8].try_into().unwrap_or_default())).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept() {
        let threshold = threshold(0.25);
        let sampled = (0..40_000).filter(|_| random() <= threshold).count();

        assert!((9_000..11_000).contains(&sampled), "{sampled}");
        assert_eq!((super::threshold(0.0), super::threshold(1.0)), (0, u64::MAX));
    }
}
