//! The Redis store keeps the contract: on a single server, behind Sentinel, and on a Cluster.
//!
//! The servers are real, and shared by the tests of a topology; each test has a prefix of its own. The scripts are told the time.

mod servers;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use servers::Servers;
use tidegate_store::clock::ManualClock;
use tidegate_store::redis::store::RedisStore;
use tidegate_store::redis::url::RedisConfig;

static SINGLE: LazyLock<Servers> = LazyLock::new(|| Servers::start(&["single"]));
static SENTINEL: LazyLock<Servers> = LazyLock::new(|| Servers::start(&["sentinel"]));
static CLUSTER: LazyLock<Servers> = LazyLock::new(|| Servers::start(&["cluster"]));

fn store(url: &str, clock: ManualClock) -> RedisStore {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}prefix=t{}:", NEXT.fetch_add(1, Ordering::Relaxed));
    RedisStore::with_clock(&RedisConfig::parse(&url).expect("the address of a test server"), clock)
}

tidegate_store::store_contract!(single, |clock| store(&SINGLE.url, clock));
tidegate_store::store_contract!(sentinel, |clock| store(&SENTINEL.url, clock));
tidegate_store::store_contract!(cluster, |clock| store(&CLUSTER.url, clock));
