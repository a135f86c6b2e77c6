use std::time::Duration;

use serde_json::{Value, json};

use super::*;

pub(in super::super) fn group(changes: &Value) -> Group {
    group_at(changes, &Found::new(), None)
}

fn group_at(changes: &Value, found: &Found, before: Option<&Group>) -> Group {
    let servers = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|host| json!({"url": format!("http://{host}"), "weight": 1}));
    let mut settings = json!({
        "name": "app", "servers": servers, "protocol": "http1", "host": "preserve", "tls_ca": null, "tls_cert": null, "tls_key": null,
        "connect_timeout": 1, "first_byte_timeout": 1, "idle_timeout": 1, "total_timeout": 0,
        "keep_alive": 1, "idle_connections": 1, "retries": 1, "balance": "round_robin", "resolve_interval": 0, "check": null,
        "ejection": {"after": 1, "time": 10, "time_max": 60, "counts_5xx": false}, "panic_below": 0.0, "slow_start": 0,
    });
    for (name, value) in changes.as_object().expect("changes are an object") {
        settings[name] = value.clone();
    }
    let settings = serde_json::from_value(settings).expect("settings of a group");
    Group::new(settings, 1, before, found, before.is_none())
}

/// Which servers are chosen for requests one after the other, by the last digits of their addresses.
fn chosen(group: &Group, times: usize, now: Instant) -> String {
    (0..times).filter_map(|_| group.choose(&[], now)?.name.chars().last()).collect()
}

fn eject(group: &Group, index: usize, now: Instant) {
    group.servers()[index].note(Outcome::Unreachable, &group.settings, now);
}

#[test]
fn servers_take_turns_and_none_is_tried_twice() {
    let (group, now) = (group(&json!({})), Instant::now());
    assert_eq!(chosen(&group, 4, now), "1231");
    let mut tried = Vec::new();
    while let Some(server) = group.choose(&tried, now) {
        assert!(!tried.contains(&server.id));
        tried.push(server.id);
    }
    assert_eq!(tried.len(), 3);
}

#[test]
fn who_is_ejected_gets_nothing_until_its_time_is_over() {
    let (group, now) = (group(&json!({})), Instant::now());
    eject(&group, 1, now);
    assert_eq!(chosen(&group, 4, now), "1313");
    let later = now + Duration::from_secs(10);
    assert!(chosen(&group, 3, later).contains('2'));
    assert_eq!(group.summary(now).servers[1].ejections, 1);
}

#[test]
fn who_failed_at_all_that_are_well_tries_the_others() {
    let (group, now) = (group(&json!({})), Instant::now());
    eject(&group, 1, now);
    let servers = group.servers();
    let last = group.choose(&[servers[0].id, servers[2].id], now).expect("one is left");
    assert_eq!(last.id, servers[1].id);
}

#[test]
fn nobody_can_eject_everybody() {
    let (group, now) = (group(&json!({})), Instant::now());
    (0..3).for_each(|index| eject(&group, index, now));
    assert_eq!(chosen(&group, 3, now).len(), 3);
    assert!(group.problem(now).expect("a problem").contains("none of its 3 servers is well"));
    assert_eq!(group.problem(now + Duration::from_secs(10)), None);
}

#[test]
fn below_the_threshold_all_are_used() {
    let (group, now) = (group(&json!({"panic_below": 0.5})), Instant::now());
    eject(&group, 0, now);
    assert!(!chosen(&group, 6, now).contains('1'), "two of three are enough");
    eject(&group, 1, now);
    assert!(chosen(&group, 6, now).contains('1'), "one of three is not");
}

#[test]
fn the_one_with_the_fewest_requests_under_way_is_chosen() {
    let (group, now) = (group(&json!({"balance": "least_requests"})), Instant::now());
    let choose = || group.choose(&[], now).expect("a server");
    let (first, second, third) = (choose(), choose(), choose());
    assert_eq!([&first, &second, &third].map(|server| server.in_flight()), [1, 1, 1]);
    let free = second.id;
    drop(second);
    assert_eq!(choose().id, free);
}

#[test]
fn a_name_leads_to_all_its_addresses_and_to_the_last_ones_known() {
    let changes = json!({"servers": [{"url": "http://app.test:81", "weight": 1}]});
    let found = |last: &[u8]| Found::from([("app.test".to_owned(), last.iter().map(|last| [10, 0, 0, *last].into()).collect())]);
    let (group, now) = (group_at(&changes, &found(&[1, 2]), None), Instant::now());
    assert_eq!(chosen(&group, 4, now), "1212");
    assert_eq!(group.servers()[0].name, "app.test:81@10.0.0.1");
    let kept = group.servers()[1].id;
    group.follow(&found(&[2, 3]));
    assert_eq!(chosen(&group, 4, now), "2323");
    assert_eq!(group.servers()[0].id, kept);
    assert!(group_at(&changes, &Found::new(), None).problem(now).is_some());
}

#[test]
fn what_is_known_of_a_server_outlives_a_reload() {
    let (before, now) = (group(&json!({})), Instant::now());
    eject(&before, 0, now);
    let after = group_at(&json!({"retries": 5}), &Found::new(), Some(&before));
    assert_eq!(chosen(&after, 4, now), "2323");
    assert_eq!(after.servers()[0].id, before.servers()[0].id);
    let changed = group_at(&json!({"protocol": "http2"}), &Found::new(), Some(&before));
    assert_ne!(changed.servers()[0].id, before.servers()[0].id, "its connections speak another protocol");
}
