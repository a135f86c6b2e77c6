//! The two quotas that need no counter: unlimited, and a limit or burst of 0.

use super::{Algorithm, Ask, Receipt, Refund};
use crate::time::Ticks;

/// Admits everything. A value of its own, not a large limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlimited;

/// Admits nothing, ever, and divides by nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed;

macro_rules! constant {
    ($algorithm:ident, $retry_after:expr, $remaining:expr) => {
        impl Algorithm for $algorithm {
            type State = ();

            fn empty(&self) {}

            fn settle(&self, (): &mut (), _now: Ticks) {}

            fn retry_after(&self, (): &(), _now: Ticks, _ask: Ask) -> Option<Ticks> {
                $retry_after
            }

            fn remaining(&self, (): &(), _now: Ticks) -> u64 {
                $remaining
            }

            fn reset_after(&self, (): &(), _now: Ticks) -> Ticks {
                0
            }

            fn commit(&self, (): &mut (), _now: Ticks, _ask: Ask) -> Receipt {
                Receipt::Nothing
            }

            fn refund(&self, (): &mut (), _now: Ticks, _refund: Refund) {}

            fn expires_at(&self, (): &()) -> Ticks {
                0
            }
        }
    };
}

constant!(Unlimited, Some(0), u64::MAX);
constant!(Closed, None, 0);
