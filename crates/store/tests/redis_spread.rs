//! Requests whose counters lie on several servers of a cluster.

mod servers;
mod spread;

#[test]
fn a_narrow_denial_leaves_the_wide_quota_alone() {
    spread::a_narrow_denial_leaves_the_wide_quota_alone();
}

#[test]
fn a_wide_denial_is_given_back() {
    spread::a_wide_denial_is_given_back();
}
