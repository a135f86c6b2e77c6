//! Why each rule applies to a request or does not.

use std::borrow::Cow;

use super::members::{self, Standing};
use super::request::Request;
use super::rule::{KeyBytes, KeyPart, Miss, PlanOf};
use super::rule_set::{Match, RuleSet};
use super::spec::Mode;

/// What became of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It applies, to this key.
    Applies {
        /// Plan and cost.
        found: Match,
        /// The key, as `name=value`.
        key: Vec<String>,
        /// The key as it is counted.
        bytes: KeyBytes,
    },
    /// Its mode is `off`.
    Off,
    /// A condition does not hold.
    NoMatch {
        /// The attribute, and its value if there is one.
        attribute: String,
        /// What the request says.
        found: Option<String>,
    },
    /// An attribute of its key is absent.
    NoKey {
        /// Which one.
        attribute: String,
    },
    /// A rule before it stops.
    Stopped {
        /// Which one.
        by: String,
    },
}

impl RuleSet {
    /// What becomes of each rule, in the order in which they are looked at. The request must be identified. Who is blocked meets no rule.
    pub fn explain(&self, request: &Request<'_>, standing: Standing<'_>, is_blocked: bool) -> Vec<Outcome> {
        let mut stopped_by = is_blocked.then_some(self.blocked());
        let outcomes = (0..self.rules().len()).map(|number| {
            let rule = &self.rules()[number];
            if rule.mode == Mode::Off {
                return Outcome::Off;
            }
            if let Some(by) = stopped_by {
                return Outcome::Stopped { by: self.rule(by).name.to_string() };
            }
            match self.evaluate(number, request, standing) {
                Ok((found, bytes)) => {
                    stopped_by = rule.stop.then_some(number);
                    Outcome::Applies { found, key: self.key_texts(number, request), bytes }
                }
                Err(Miss::Condition(failed)) => {
                    let slot = rule.conditions[failed].slot;
                    let found = request.text(slot).map(Cow::into_owned);
                    Outcome::NoMatch { attribute: self.names().name(slot).to_owned(), found }
                }
                Err(Miss::Key(position)) => Outcome::NoKey { attribute: self.key_name(&rule.key[position]).to_owned() },
            }
        });
        outcomes.collect()
    }

    /// That a request is refused because its key is blocked.
    pub fn explain_block(&self, request: &Request<'_>) -> Outcome {
        let value = members::key_of(request).unwrap_or_default();
        Outcome::Applies {
            found: Match { rule: self.blocked(), plan: PlanOf::Rule(0), key: 0, cost: 1 },
            key: vec![format!("api_key={value}")],
            bytes: KeyBytes::new(),
        }
    }

    fn key_texts(&self, number: usize, request: &Request<'_>) -> Vec<String> {
        let rule = &self.rules()[number];
        let text = |part: &KeyPart| {
            let value = rule.key_value(part, request, self.identity()).unwrap_or_default();
            format!("{}={value}", self.key_name(part))
        };
        rule.key.iter().map(text).collect()
    }

    fn key_name<'r>(&'r self, part: &'r KeyPart) -> &'r str {
        match part {
            KeyPart::Fact(slot) => self.names().name(*slot),
            KeyPart::Address => "ip",
            KeyPart::Capture(name) => name,
        }
    }
}
