//! How much of a counter is asked for here.

/// Units per `advance`, of the last ones and of the present one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    since: u64,
    units: u64,
    before: u64,
}

impl Demand {
    pub(super) fn new(now: u64) -> Self {
        Self { since: now, units: 0, before: 0 }
    }

    /// Counts a request. Each span that has passed weighs half of the one after it.
    pub(super) fn count(&mut self, now: u64, cost: u64, span_ns: u64) {
        let passed = now.saturating_sub(self.since) / span_ns.max(1);
        if passed > 0 {
            let quiet = u32::try_from(passed - 1).unwrap_or(u32::MAX);
            self.before = (self.before / 2 + self.units.div_ceil(2)).checked_shr(quiet).unwrap_or(0);
            (self.since, self.units) = (self.since + passed * span_ns, 0);
        }
        self.units = self.units.saturating_add(cost);
    }

    /// Units per span: what is usual, or more if more has come already.
    pub(super) fn per_span(&self) -> u64 {
        self.before.max(self.units)
    }

    /// When the present span began.
    pub(super) fn since(&self) -> u64 {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_is_asked_and_forgets_by_halves() {
        let mut demand = Demand::new(1_000);
        (0..40).for_each(|_| demand.count(1_050, 1, 100));
        assert_eq!(demand.per_span(), 40);

        demand.count(1_100, 1, 100);
        assert_eq!((demand.per_span(), demand.since()), (20, 1_100));
        (0..39).for_each(|_| demand.count(1_199, 1, 100));
        demand.count(1_200, 1, 100);
        assert_eq!(demand.per_span(), 30);
        demand.count(1_650, 1, 100);
        assert_eq!((demand.per_span(), demand.since()), (2, 1_600));
        demand.count(u64::MAX, 1, 100);
        assert_eq!(demand.per_span(), 1);
    }

    #[test]
    fn a_clock_that_goes_back_changes_nothing() {
        let mut demand = Demand::new(1_000);
        demand.count(900, 3, 100);
        assert_eq!((demand.per_span(), demand.since()), (3, 1_000));
    }
}
