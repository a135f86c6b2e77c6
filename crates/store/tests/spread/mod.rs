//! What a cluster promises of requests whose counters lie on several servers.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_core::meter::Ask;
use tidegate_store::clock::ManualClock;
use tidegate_store::contract::counter::{Counter, Metered};
use tidegate_store::redis::store::RedisStore;
use tidegate_store::redis::url::RedisConfig;
use tidegate_store::store::{Charge, Part, Place};

use crate::servers::Servers;

static CLUSTER: LazyLock<Servers> = LazyLock::new(|| Servers::start(&["cluster"]));

/// A store on the cluster, with a prefix that nobody had before.
fn counter() -> Counter<RedisStore> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    Counter::new(|clock: ManualClock| {
        let url = format!("{}?prefix=s{}:", CLUSTER.url, NEXT.fetch_add(1, Ordering::Relaxed));
        RedisStore::with_clock(&RedisConfig::parse(&url).expect("the address of a test server"), clock)
    })
}

/// A charge that everybody shares.
fn wide(quota: &Metered, ask: Ask) -> Charge<'_> {
    let charge = quota.charge("everybody", 1);
    Charge { ask, place: Place { breadth: Place::EVERYBODY, ..charge.place }, part: Part::Enforced, ..charge }
}

/// A client without quota of its own does not touch what all share: not even the gap that all have to keep, which no refund could undo.
pub(crate) fn a_narrow_denial_leaves_the_wide_quota_alone() {
    let counter = counter();
    let (own, shared) = (counter.quota("own", "1/hour"), counter.quota("shared", "1000/hour min_interval 10s"));
    for number in 0..20 {
        let (greedy, modest) = (format!("greedy {number}"), format!("modest {number}"));
        let request = |key: &str| counter.check(&[wide(&shared, Ask::cost(1)), own.charge(key, 1)]).is_allowed();
        assert!(request(&greedy));
        counter.advance(10_000_000_000);
        assert!(!request(&greedy), "it has nothing left");
        assert!(request(&modest), "another client is let in at once");
        counter.advance(10_000_000_000);
    }
}

/// What a wide quota denies is given back to the narrow one, and a shadow on another server sees only what is admitted.
pub(crate) fn a_wide_denial_is_given_back() {
    let counter = counter();
    let (own, shared, shadow) =
        (counter.quota("own", "100/hour"), counter.quota("shared", "5/hour"), counter.quota("shadow", "3/hour"));
    for number in 0..10 {
        let (key, other) = (format!("client {number}"), format!("shadow {number}"));
        let watched = Charge { part: Part::Shadow(1), ..shadow.charge(&other, 1) };
        let verdict = counter.check(&[own.charge(&key, 1), wide(&shared, Ask::cost(1)), watched]);

        assert_eq!(verdict.is_allowed(), number < 5);
        assert_eq!(verdict.statuses().len(), 3);
        // Refunds are not waited for: the first on a server may be behind the script that it needs.
        let used = || 100 - counter.remaining(&own, &key);
        let is_settled = (0..1_000).any(|_| used() == u64::from(number < 5));
        assert!(is_settled, "client {number} has used {}", used());
        assert_eq!(3 - counter.remaining(&shadow, &other), u64::from(number < 5), "shadow {number}");
    }
}
