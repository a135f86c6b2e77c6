//! The memory store keeps the contract, with one shard and with many.

use tidegate_store::clock::Clock;
use tidegate_store::memory::MemoryStore;

tidegate_store::store_contract!(many_shards, |clock| MemoryStore::new(Clock::Manual(clock), 10_000_000));
tidegate_store::store_contract!(one_shard, |clock| MemoryStore::new(Clock::Manual(clock), 4_000));
