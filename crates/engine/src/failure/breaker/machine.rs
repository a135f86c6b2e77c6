//! The states of a breaker and what moves it from one to the next, for one caller at a time.

use tidegate_core::mutant::Mutant;

use super::super::random::Random;
use super::window::Window;
use super::{Admit, BreakerState, OpenReason, Opening, Outcome, Token};
use crate::failure::{MILLISECOND, SECOND};

const BACKOFF_NS: u64 = 250 * MILLISECOND;
const BACKOFF_MAX_NS: u64 = 10 * SECOND;
/// An outcome that has not come by then never will: calls have a budget of milliseconds.
const PROBE_LOST_NS: u64 = SECOND;
const PROBES_NEEDED: u8 = 3;
/// Percent of the calls that are sent, step by step. What follows is 100, a closed breaker.
const RAMP: [u8; 3] = [1, 5, 25];
const RAMP_STEP_NS: u64 = 200 * MILLISECOND;
/// A breaker that was closed so long has nothing to remember.
const CALM_NS: u64 = 30 * SECOND;

#[derive(Debug)]
pub(super) struct Machine {
    phase: Phase,
    /// Outcomes of calls of another generation say nothing about the present phase. Never 0.
    generation: u64,
    /// k, how often in a row the store was tried in vain.
    failed_trials: u32,
    budget_ns: u64,
    window: Window,
    random: Random,
    last_opening: Option<Opening>,
    openings: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed { since: u64 },
    Open { until: u64 },
    HalfOpen { successes: u8, probe_sent_at: Option<u64> },
    Ramp { step: usize, step_ends_at: u64 },
}

impl Machine {
    pub(super) fn new(budget_ns: u64, seed: u64) -> Self {
        Self {
            phase: Phase::Closed { since: 0 },
            generation: 1,
            failed_trials: 0,
            budget_ns,
            window: Window::default(),
            random: Random::new(seed),
            last_opening: None,
            openings: 0,
        }
    }

    /// The generation of calls that need not ask, while there are such calls.
    pub(super) fn generation_closed(&self) -> Option<u64> {
        matches!(self.phase, Phase::Closed { .. }).then_some(self.generation)
    }

    /// `place` is where a caller stands among all, of 100; without one it is drawn.
    pub(super) fn admit(&mut self, now: u64, place: Option<u8>) -> Admit {
        self.advance(now);
        match self.phase {
            Phase::Closed { .. } => Admit::Send(self.token()),
            Phase::Open { until } => Admit::Refuse { retry_after: until.saturating_sub(now) },
            Phase::HalfOpen { probe_sent_at: Some(sent_at), .. }
                if now < sent_at.saturating_add(PROBE_LOST_NS) && !Mutant::BreakerManyProbes.is_active() =>
            {
                Admit::Refuse { retry_after: (sent_at + PROBE_LOST_NS).saturating_sub(now) }
            }
            Phase::HalfOpen { successes, .. } => {
                if !Mutant::BreakerManyProbes.is_active() {
                    // Whatever a probe that was given up comes to, it is not taken for this one.
                    self.generation += 1;
                }
                self.phase = Phase::HalfOpen { successes, probe_sent_at: Some(now) };
                Admit::Probe(self.token())
            }
            Phase::Ramp { step, step_ends_at } => {
                let percent = RAMP[step];
                if place.map_or_else(|| self.random.percent(percent), |place| place < percent) {
                    Admit::Send(self.token())
                } else {
                    Admit::Refuse { retry_after: step_ends_at.saturating_sub(now) }
                }
            }
        }
    }

    pub(super) fn record(&mut self, now: u64, token: Token, outcome: Outcome) {
        if token.generation != self.generation {
            return;
        }
        let is_slow = matches!(outcome, Outcome::Ok { took_ns } if took_ns > self.budget_ns);
        match self.phase {
            Phase::Closed { .. } => {
                let reason = match outcome {
                    Outcome::Ok { .. } => self.window.answered(now, is_slow),
                    Outcome::Failed => self.window.failed(now, self.budget_ns),
                    Outcome::NotAFailure => None,
                };
                if let Some(reason) = reason {
                    self.open(now, reason);
                }
            }
            Phase::HalfOpen { successes, .. } => match outcome {
                // A store that answers too late would be closed only to be opened again.
                Outcome::Failed => self.open(now, OpenReason::Probe),
                Outcome::Ok { .. } if is_slow => self.open(now, OpenReason::Probe),
                Outcome::Ok { .. } if successes + 1 == PROBES_NEEDED => self.ramp(now),
                Outcome::Ok { .. } => self.phase = Phase::HalfOpen { successes: successes + 1, probe_sent_at: None },
                Outcome::NotAFailure => self.phase = Phase::HalfOpen { successes, probe_sent_at: None },
            },
            Phase::Ramp { .. } if outcome == Outcome::Failed => self.open(now, OpenReason::Ramp),
            // The generation of an open breaker was given to no call.
            Phase::Open { .. } | Phase::Ramp { .. } => {}
        }
    }

    /// See [`Breaker::trial`](super::Breaker::trial).
    pub(super) fn trial(&mut self) {
        self.generation += 1;
        self.failed_trials = 0;
        match self.phase {
            Phase::Closed { .. } => self.window = Window::default(),
            _ => self.phase = Phase::HalfOpen { successes: 0, probe_sent_at: None },
        }
    }

    pub(super) fn state(&mut self, now: u64) -> BreakerState {
        self.advance(now);
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { until } => BreakerState::Open { until },
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
            Phase::Ramp { step, .. } => BreakerState::Ramp { percent: RAMP[step] },
        }
    }

    pub(super) fn last_opening(&self) -> Option<Opening> {
        self.last_opening
    }

    pub(super) fn openings(&self) -> u64 {
        self.openings
    }

    /// What only the passing of time does.
    fn advance(&mut self, now: u64) {
        match self.phase {
            Phase::Open { until } if until <= now => {
                self.generation += 1;
                self.phase = Phase::HalfOpen { successes: 0, probe_sent_at: None };
            }
            Phase::Ramp { mut step, mut step_ends_at } => {
                // Steps are counted from each other and not from `now`: a service with few requests needs no more time than any other.
                while step_ends_at <= now && step < RAMP.len() {
                    step += 1;
                    step_ends_at += self.random.around(RAMP_STEP_NS);
                }
                if step < RAMP.len() {
                    self.phase = Phase::Ramp { step, step_ends_at };
                } else {
                    self.window = Window::default();
                    self.phase = Phase::Closed { since: now };
                }
            }
            _ => {}
        }
    }

    fn open(&mut self, now: u64, reason: OpenReason) {
        let mut since = self.last_opening.map_or(now, |opening| opening.since);
        match self.phase {
            Phase::Closed { since: closed_at } => {
                since = now;
                if now.saturating_sub(closed_at) >= CALM_NS {
                    self.failed_trials = 0;
                }
            }
            _ => self.failed_trials = self.failed_trials.saturating_add(1),
        }
        let backoff = backoff_ns(self.failed_trials);
        self.generation += 1;
        self.phase = Phase::Open { until: now.saturating_add(self.random.around(backoff)) };
        self.window = Window::default();
        self.openings += 1;
        self.last_opening = Some(Opening { reason, at: now, since });
    }

    fn ramp(&mut self, now: u64) {
        self.generation += 1;
        self.phase = Phase::Ramp { step: 0, step_ends_at: now.saturating_add(self.random.around(RAMP_STEP_NS)) };
    }

    fn token(&self) -> Token {
        Token { generation: self.generation }
    }
}

fn backoff_ns(failed_trials: u32) -> u64 {
    if Mutant::BreakerLongCooldown.is_active() {
        return 30 * SECOND;
    }
    let doubled = 1u64.checked_shl(failed_trials).and_then(|times| BACKOFF_NS.checked_mul(times));
    doubled.map_or(BACKOFF_MAX_NS, |backoff| backoff.min(BACKOFF_MAX_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_ten_seconds() {
        let seconds = [0, 1, 2, 3, 4, 5, 6, 60, 63, 64, u32::MAX].map(|tries| backoff_ns(tries) / MILLISECOND);

        assert_eq!(seconds, [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 10_000, 10_000]);
    }
}
