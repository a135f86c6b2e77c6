//! The quota by which a shared store charges units that are spent later.
//!
//! A process may take units of a counter in advance and spend them by itself, within `advance` of the moment at which it asked. So everything that is
//! admitted at an instant was charged at most that long before, and what holds of charges holds of admissions, a little later:
//!
//! | quota | what is promised | charged by | because |
//! | --- | --- | --- | --- |
//! | `sliding_window`, L per W | at most L in any W | L per W + advance | what is admitted in W was charged in W + advance |
//! | `gcra`, rate r, burst B | at most B + r·d in any d | burst B - r·advance | charges in d + advance are at most B - r·advance + r·(d + advance) |
//! | `fixed_window` | at most L in each window | the same | nothing is spent after the window in which it was charged |
//!
//! The price is strictness: a little less is admitted than the quota says, never more.

use super::{Quota, Shape};
use crate::mutant::Mutant;

impl Quota {
    /// The quota by which units are charged that may be spent up to [`advance_ns`](Self::advance_ns) later; the same if there is none.
    ///
    /// ```
    /// use tidegate_core::quota::Quota;
    ///
    /// let charged = |text: &str| text.parse::<Quota>().unwrap().in_advance().to_string();
    /// assert_eq!(charged("100/minute advance 1s"), "100/61s");
    /// assert_eq!(charged("1000/second burst 500 advance 50ms"), "1000/second burst 450 max_debt 500");
    /// assert_eq!(charged("100/minute fixed_window advance 1s"), "100/minute fixed_window");
    /// assert_eq!(charged("100/minute"), "100/minute");
    /// ```
    #[must_use]
    pub fn in_advance(&self) -> Self {
        let mut quota = Self { advance_ns: 0, ..self.clone() };
        if Mutant::AdvanceByTheSameQuota.is_active() {
            return quota;
        }
        match &mut quota.shape {
            Shape::SlidingWindow { window_ns, .. } => *window_ns += self.advance_ns,
            Shape::Gcra { limit, period_ns, burst } => {
                let inflow = (u128::from(*limit) * u128::from(self.advance_ns)).div_ceil(u128::from(*period_ns));
                *burst = burst.saturating_sub(u64::try_from(inflow).unwrap_or(u64::MAX));
            }
            _ => {}
        }
        quota
    }
}
