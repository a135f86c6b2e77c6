//! Addresses that name another kind of servers than there is.

use tidegate_store::store::StoreError;

use super::kit::{Io, Script, count};
use crate::servers::Servers;

fn hosts(url: &str) -> &str {
    url.split_once("://").unwrap().1.split('/').next().unwrap()
}

fn first_host(url: &str) -> &str {
    hosts(url).split(',').next().unwrap()
}

/// The reason that calls are refused for, which health shows as well.
fn complaint(url: &str) -> String {
    let io = Io::start();
    let topology = io.topology(url);
    match count(&io, &topology, &Script::count(&["a"])) {
        Err(error @ StoreError::Protocol { .. }) => {
            let warnings = topology.health().warnings;
            assert!(warnings.iter().any(|warning| *warning == error.to_string()), "{warnings:?}");
            error.to_string()
        }
        other => panic!("{url}: {other:?}"),
    }
}

#[test]
fn a_single_server_is_no_cluster_and_no_sentinel() {
    let servers = Servers::start(&["single"]);
    let host = hosts(&servers.url);

    let as_cluster = complaint(&format!("redis+cluster://{host}"));
    let as_sentinel = complaint(&format!("redis+sentinel://{host}/mymaster"));

    assert!(as_cluster.contains(&format!("{host} is no server of a cluster; use redis://{host}")), "{as_cluster}");
    assert!(as_sentinel.contains(&format!("{host} is no sentinel but a server with data; use redis://{host}")), "{as_sentinel}");
}

#[test]
fn a_server_of_a_cluster_is_no_single_server_and_no_sentinel() {
    let servers = Servers::start(&["cluster"]);
    let host = first_host(&servers.url);

    let as_single = complaint(&format!("redis://{host}"));
    let as_sentinel = complaint(&format!("redis+sentinel://{host}/mymaster"));

    assert!(as_single.contains("is a server of a cluster; use redis+cluster://"), "{as_single}");
    assert!(as_sentinel.contains("is a server of a cluster; use redis+cluster://"), "{as_sentinel}");
}

#[test]
fn a_sentinel_is_no_server_with_data_and_knows_its_own_names_only() {
    let servers = Servers::start(&["sentinel"]);
    let host = first_host(&servers.url);

    let as_single = complaint(&format!("redis://{host}"));
    let as_cluster = complaint(&format!("redis+cluster://{host}"));
    let by_another_name = complaint(&format!("redis+sentinel://{host}/mymistress"));

    assert!(as_single.contains("is a sentinel; use redis+sentinel://"), "{as_single}");
    assert!(as_cluster.contains("is a sentinel; use redis+sentinel://"), "{as_cluster}");
    assert!(by_another_name.contains("knows no primary of the name \"mymistress\": it knows mymaster"), "{by_another_name}");
}

#[test]
fn a_single_server_that_hides_what_it_is_gives_itself_away_by_a_redirection() {
    let servers = Servers::start(&["cluster"]);
    let host = first_host(&servers.url);
    for node in servers.description["addresses"].as_array().unwrap() {
        let words = ["ACL", "SETUSER", "limiter", "on", ">secret", "~*", "&*", "+@all", "-info"];
        servers.command(&serde_json::json!({"do": "command", "node": node, "args": words}));
    }
    let io = Io::start();
    let topology = io.topology(&format!("redis://limiter:secret@{host}"));

    let answers: Vec<_> = ["a", "b", "c", "d", "e"].map(|key| count(&io, &topology, &Script::count(&[key]))).into();

    let is_cluster =
        |error: &StoreError| matches!(error, StoreError::Protocol { why } if why.contains("is a server of a cluster"));
    assert!(answers.iter().all(|answer| answer.as_ref().err().is_none_or(is_cluster)), "{answers:?}");
    assert!(answers.iter().any(Result::is_err), "{answers:?}");
    assert!(topology.health().warnings[0].contains("redis+cluster://"), "{:?}", topology.health());
}
