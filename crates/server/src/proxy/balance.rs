//! Whose turn it is.
//!
//! Smooth weighted round robin: each server has a *credit*. A choice gives every candidate its weight, takes the one that has most now, and takes from that one
//! what all were given. Over as many choices as the weights add up to, each server is chosen exactly as often as its weight says, and never in a bunch:
//!
//! ```text
//! weights a=3 b=1     credits before   given      chosen   credits after
//!                     a= 0 b= 0        a=3 b=1    a        a=-1 b= 1
//!                     a=-1 b= 1        a=2 b=2    a        a=-2 b= 2
//!                     a=-2 b= 2        a=1 b=3    b        a= 1 b=-1
//!                     a= 1 b=-1        a=4 b=0    a        a= 0 b= 0
//! ```
//!
//! Least requests takes those that have the fewest requests under way for their weight, and of those the one whose turn it is.

use serde::Deserialize;

/// How a server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// In turn, as often as the weights say.
    RoundRobin,
    /// The one that has the fewest requests under way, for its weight.
    LeastRequests,
}

/// A server that can be chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Its number, among those that have credits.
    pub(super) index: usize,
    /// At least 1.
    pub(super) weight: u32,
    /// How many requests it has under way.
    pub(super) in_flight: u32,
}

impl Candidate {
    /// Whether it would have fewer requests for its weight than another one, and whether as many, if it got this one.
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let load = |one: &Self, weight: u32| (u64::from(one.in_flight) + 1) * u64::from(weight);
        load(self, other.weight).cmp(&load(other, self.weight))
    }
}

/// Chooses one, and notes in the credits that it was; `None` if there is none.
pub(super) fn pick(balance: Balance, credits: &mut [i64], candidates: &[Candidate]) -> Option<usize> {
    let least = match balance {
        Balance::RoundRobin => None,
        Balance::LeastRequests => candidates.iter().min_by(|one, other| one.compare(other)),
    };
    let is_in = |candidate: &&Candidate| least.is_none_or(|least| candidate.compare(least).is_eq());
    let mut given = 0;
    let mut chosen: Option<usize> = None;
    for candidate in candidates.iter().filter(is_in) {
        let weight = i64::from(candidate.weight);
        given += weight;
        credits[candidate.index] += weight;
        // Of those that have equally much the first one, so that equal weights take turns in the order in which they are written.
        if chosen.is_none_or(|chosen| credits[candidate.index] > credits[chosen]) {
            chosen = Some(candidate.index);
        }
    }
    credits[chosen?] -= given;
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(weights: &[u32]) -> Vec<Candidate> {
        weights.iter().enumerate().map(|(index, &weight)| Candidate { index, weight, in_flight: 0 }).collect()
    }

    fn chosen(weights: &[u32], times: usize) -> Vec<usize> {
        let mut credits = vec![0; weights.len()];
        let candidates = candidates(weights);
        (0..times).map(|_| pick(Balance::RoundRobin, &mut credits, &candidates).expect("a candidate")).collect()
    }

    #[test]
    fn equal_weights_take_turns_in_their_order() {
        assert_eq!(chosen(&[1, 1, 1], 6), [0, 1, 2, 0, 1, 2]);
        assert_eq!(chosen(&[100, 100], 4), [0, 1, 0, 1]);
    }

    #[test]
    fn the_example_is_true() {
        assert_eq!(chosen(&[3, 1], 8), [0, 0, 1, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn every_round_is_exact_whatever_the_weights() {
        for weights in [&[5, 1, 1][..], &[1, 2, 3, 4], &[7, 7, 1], &[1000, 1], &[1]] {
            let round: u32 = weights.iter().sum();
            let choices = chosen(weights, 3 * round as usize);
            for choices in choices.chunks(round as usize) {
                let times = |index| u32::try_from(choices.iter().filter(|&&chosen| chosen == index).count()).unwrap();
                assert_eq!((0..weights.len()).map(times).collect::<Vec<_>>(), weights);
            }
        }
    }

    #[test]
    fn who_is_no_candidate_for_a_while_gets_nothing_and_owes_nothing() {
        let mut credits = vec![0; 3];
        let all = candidates(&[1, 1, 1]);
        let without_the_first: Vec<_> = (0..100).map(|_| pick(Balance::RoundRobin, &mut credits, &all[1..])).collect();
        assert!(!without_the_first.contains(&Some(0)));
        let after: Vec<_> = (0..30).filter_map(|_| pick(Balance::RoundRobin, &mut credits, &all)).collect();
        assert_eq!([0, 1, 2].map(|index| after.iter().filter(|&&chosen| chosen == index).count()), [10, 10, 10]);
    }

    #[test]
    fn the_least_busy_for_its_weight_is_chosen_and_else_whose_turn_it_is() {
        let least = |credits: &mut [i64], busy: &[(u32, u32)]| {
            let all: Vec<_> =
                busy.iter().enumerate().map(|(index, &(weight, in_flight))| Candidate { index, weight, in_flight }).collect();
            pick(Balance::LeastRequests, credits, &all)
        };
        let mut credits = vec![0; 3];
        assert_eq!(least(&mut credits, &[(1, 2), (1, 0), (1, 1)]), Some(1));
        assert_eq!(least(&mut credits, &[(1, 9), (3, 20), (1, 8)]), Some(1), "21 for three is less than 9 for one");
        let mut credits = vec![0; 3];
        let turns: Vec<_> = (0..6).filter_map(|_| least(&mut credits, &[(1, 4), (1, 4), (1, 5)])).collect();
        assert_eq!(turns, [0, 1, 0, 1, 0, 1]);
        assert_eq!(least(&mut credits, &[]), None);
    }
}
