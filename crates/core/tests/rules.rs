//! Which rules apply to a request: to whom, by which plan, and for how much.

mod rules {
    mod addresses;
    mod conditions;
    mod identity;
    mod keys;
    mod kit;
    mod members;
    mod naive;
    mod order;
    mod paths;
    mod plans;
    mod property;
    mod refusals;
}
