//! How the answers of several quotas become one.
//!
//! All quotas are charged or none is. The request waits for the slowest of those that deny it, because what is admissible stays admissible
//! while nothing happens; and only as much is left as the scarcest quota has. A quota in shadow says what it would have said, and decides nothing.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::algorithm::Receipt;
use crate::time::Ticks;

/// What one quota said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Which quota: its position among the charges of the request.
    pub quota: u16,
    /// Whether it only says what it would have said: it decides nothing.
    pub is_shadow: bool,
    /// The most that can be taken at once when nothing is used; `None` is unlimited.
    pub limit: Option<u64>,
    /// The largest cost that is admitted now; `None` is unlimited.
    pub remaining: Option<u64>,
    /// The smallest wait until the same cost is admitted: 0 is now, `None` never.
    pub retry_after: Option<Ticks>,
    /// Whether `retry_after` is an upper estimate only.
    pub retry_is_hint: bool,
    /// The wait until everything is there again.
    pub reset_after: Ticks,
    /// `leaky_bucket`: when the admitted request may start.
    pub delay: Ticks,
    /// Where the charge went.
    pub receipt: Receipt,
}

impl Status {
    /// Whether this quota had room.
    pub fn is_allowed(&self) -> bool {
        self.retry_after == Some(0)
    }

    /// Orders statuses by how much they bind: first by the wait, never being the longest, then by the share that is used.
    fn bind(&self) -> (bool, Ticks, u128) {
        (self.retry_after.is_none(), self.retry_after.unwrap_or(Ticks::MAX), self.used_share())
    }

    /// Used share of the limit in parts of 2^64, 0 when unlimited.
    fn used_share(&self) -> u128 {
        match (self.limit, self.remaining) {
            (Some(limit), Some(remaining)) if limit > 0 => {
                u128::from(limit.saturating_sub(remaining)) * (1 << 64) / u128::from(limit)
            }
            (Some(_), Some(_)) => 1 << 64,
            _ => 0,
        }
    }
}

/// The statuses of one request, usually one or two.
pub type Statuses = SmallVec<[Status; 1]>;

/// What all quotas of a request said together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    statuses: Statuses,
    binding: usize,
}

impl Verdict {
    /// Combines what the quotas said; a request without quotas is allowed.
    pub fn new(statuses: Statuses) -> Self {
        let enforced = (0..statuses.len()).filter(|&index| !statuses[index].is_shadow);
        // If there is none, a position that nothing has.
        let binding = enforced.max_by_key(|&index| (statuses[index].bind(), Reverse(index))).unwrap_or(statuses.len());
        Self { statuses, binding }
    }

    /// What the only quota of a request said.
    #[inline]
    pub fn of_one(status: Status) -> Self {
        Self { statuses: SmallVec::from_buf([status]), binding: 0 }
    }

    /// Whether every quota had room.
    pub fn is_allowed(&self) -> bool {
        self.binding().is_none_or(Status::is_allowed)
    }

    /// The position of the quota that decides what is reported; the number of quotas if none is enforced.
    pub fn binding_index(&self) -> usize {
        self.binding
    }

    /// The quota that decides what is reported: the longest wait, or, when allowed, the smallest share left. `None` if none is enforced.
    pub fn binding(&self) -> Option<&Status> {
        self.statuses.get(self.binding)
    }

    /// What each quota said, in their order.
    pub fn statuses(&self) -> &[Status] {
        &self.statuses
    }

    /// The wait after which the same request is admitted: 0 is now, `None` never.
    pub fn retry_after(&self) -> Option<Ticks> {
        self.binding().map_or(Some(0), |status| status.retry_after)
    }

    /// What each quota said that is enforced.
    pub fn enforced(&self) -> impl Iterator<Item = &Status> {
        self.statuses.iter().filter(|status| !status.is_shadow)
    }

    /// Whether `retry_after` is an upper estimate only.
    pub fn retry_is_hint(&self) -> bool {
        self.enforced().any(|status| status.retry_is_hint && !status.is_allowed())
    }

    /// The largest cost that all quotas admit now; `None` is unlimited.
    pub fn remaining(&self) -> Option<u64> {
        self.enforced().filter_map(|status| status.remaining).min()
    }

    /// The wait until everything is there again in all quotas.
    pub fn reset_after(&self) -> Ticks {
        self.enforced().map(|status| status.reset_after).max().unwrap_or(0)
    }

    /// When an admitted request may start; 0 when it is denied.
    pub fn delay(&self) -> Ticks {
        let delays = self.enforced().map(|status| status.delay);
        if self.is_allowed() { delays.max().unwrap_or(0) } else { 0 }
    }
}
