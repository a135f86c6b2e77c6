//! Decisions that the control plane is told of.

mod metrics_app;

use metrics_app::{app, ask, describe, domain, rule, sample};
use serde_json::{Value, json};
use tidegate_engine::decision::Origin;
use tidegate_server::app::App;

/// Settings with events, and with these changes of them.
fn events(changes: &Value) -> Value {
    let mut events = json!({
        "buffer": 1_000, "share": 1.0, "per_second": 1_000_000, "recordings_per_second": 0, "attributes": ["method", "path"],
    });
    for (key, value) in changes.as_object().expect("a mapping") {
        events[key] = value.clone();
    }
    json!({"events": events, "workers": 1})
}

fn take(app: &App, limit: usize) -> Vec<Value> {
    let lines = app.events.as_ref().expect("events").take(limit);
    lines
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect()
}

fn check(app: &App, facts: &[(&str, &str)]) {
    ask(app, Origin::Check, facts);
}

#[test]
fn an_event_tells_a_decision() {
    let rules = [rule("strict", "1/hour", "enforce"), rule("tried", "1/hour", "shadow")];
    let app = app(&json!({"rules": rules}), &events(&json!({})));
    let facts = [("client", "alice-with-a-long-name"), ("method", "post"), ("path", "/a//b?secret=1"), ("tier", "pro")];
    check(&app, &facts);
    check(&app, &facts);

    let [first, second] = &take(&app, 10)[..] else { panic!("two events") };
    assert_eq!((&first["allowed"], &first["current"], &first["limit"]), (&json!(true), &json!(1), &json!(1)));
    assert_eq!(second["allowed"], false);
    assert_eq!((&second["method"], &second["path"], &second["tier"]), (&json!("POST"), &json!("/a/b"), &json!("pro")));
    assert_eq!((&second["rule"], &second["cost"], &second["weight"]), (&json!("strict"), &json!(1), &json!(1)));
    assert_eq!((&second["client"], &second["protocol"]), (&json!("alic…"), &json!("http")));
    assert_eq!((&second["shadowed"], &second["degraded"]), (&json!(["tried"]), &json!(null)));
    assert_eq!(second["digest"].as_str().map(str::len), Some(32));
    assert!(first["event_id"].as_str() < second["event_id"].as_str());
    assert_eq!(sample(&app, "ratelimit_events_total").as_deref(), Some("2"));
}

#[test]
fn every_denied_decision_is_told_and_none_of_the_others_without_a_share() {
    let app = app(&json!({"rules": [rule("strict", "3/hour", "enforce")]}), &events(&json!({"share": 0.0})));
    (0..50).for_each(|_| check(&app, &[("client", "a")]));
    ask(&app, Origin::Peek, &[("client", "a")]);

    let told = take(&app, 1_000);
    assert_eq!(told.len(), 47);
    assert!(told.iter().all(|event| event["allowed"] == false));
    assert_eq!(sample(&app, "ratelimit_checks_total{protocol=\"http\",outcome=\"denied\"}").as_deref(), Some("47"));
}

#[test]
fn what_nobody_takes_is_dropped_and_counted() {
    let app = app(&json!({"rules": [rule("strict", "0/hour", "enforce")]}), &events(&json!({"buffer": 10})));
    (0..25).for_each(|_| check(&app, &[("client", "a")]));

    assert_eq!(sample(&app, "ratelimit_events_dropped_total").as_deref(), Some("15"));
    assert_eq!((take(&app, 4).len(), take(&app, 100).len(), take(&app, 100).len()), (4, 6, 0));
}

#[test]
fn no_key_is_told_unless_that_was_chosen() {
    let facts = [("client", "key-of-a-customer"), ("path", "/a"), ("header:x-plan", "the plan of it")];
    for (shown, client) in [("masked", "key-…"), ("plain", "key-of-a-customer")] {
        let mut settings = events(&json!({"recordings_per_second": 1_000}));
        settings["top_keys"] = json!(shown);
        let app = app(&json!({"rules": [rule("strict", "0/hour", "enforce")]}), &settings);
        check(&app, &facts);
        let [event] = &take(&app, 10)[..] else { panic!("one event") };

        assert_eq!(event["client"], client);
        assert_eq!(event["recording"]["attributes"]["path"], "/a");
        assert_eq!(event.to_string().contains("key-of-a-customer"), shown == "plain", "{event}");
    }
    let mut settings = events(&json!({"recordings_per_second": 1_000}));
    settings["top_keys"] = json!("digest");
    let app = app(&json!({"rules": [rule("strict", "0/hour", "enforce")]}), &settings);
    check(&app, &facts);
    let [event] = &take(&app, 10)[..] else { panic!("one event") };
    assert_eq!(event["client"].as_str().unwrap(), format!("#{}", &event["digest"].as_str().unwrap()[..16]));
    assert_eq!(event["recording"]["attributes"]["client"], event["client"]);
}

#[test]
fn api_keys_have_their_own_digest_whatever_else_names_clients() {
    let digest = |identity: Value, facts: &[(&str, &str)]| {
        let rules = json!({"rules": [rule("strict", "0/hour", "enforce")], "identity": identity});
        let app = app(&rules, &events(&json!({})));
        check(&app, facts);
        let event = take(&app, 1).remove(0);
        (event["client"].as_str().unwrap().to_owned(), event["digest"].as_str().unwrap().to_owned())
    };
    let header = json!({"header": "x-api-key", "attribute": "api_key"});
    let ip = json!({"ip": {"trusted_proxies": [], "ipv6_prefix": 64}});
    let alone = digest(json!([header]), &[("header:x-api-key", "203.0.113.9")]);
    let first = digest(json!([header, ip]), &[("header:x-api-key", "203.0.113.9"), ("ip", "192.0.2.1")]);
    let address = digest(json!([header, ip]), &[("ip", "203.0.113.9")]);

    assert_eq!(alone, first);
    assert_eq!((&*alone.0, &*address.0), ("203.…", "ip:203.…"));
    assert_ne!(alone.1, address.1, "nobody poses as an address");
}

#[test]
fn all_requests_of_a_key_are_recorded_or_none_is() {
    let settings = events(&json!({"share": 0.0, "recordings_per_second": 20, "buffer": 100_000}));
    let app = app(&json!({"rules": [rule("wide", "1000000/hour", "enforce")]}), &settings);
    let round = || {
        for number in 0..400 {
            check(&app, &[("client", &format!("client-{number}"))]);
        }
    };
    (0..20).for_each(|_| round());
    take(&app, usize::MAX);
    round();
    round();

    let mut told = std::collections::BTreeMap::<String, u32>::new();
    for event in take(&app, usize::MAX) {
        assert_eq!(event["weight"], 0, "it is recorded only");
        *told.entry(event["digest"].as_str().expect("a digest").to_owned()).or_default() += 1;
    }
    assert!(told.len() < 200, "{}", told.len());
    assert!(told.values().filter(|&&count| count != 2).count() <= told.len() / 2, "{told:?}");
}

#[test]
fn descriptors_are_told_once_for_a_request() {
    let app = app(&json!({"rules": [], "domains": [domain(1)]}), &events(&json!({"share": 0.0})));
    (0..3).for_each(|_| describe(&app, "d", "k", "value-of-a-customer", None));

    let told = take(&app, 10);
    assert_eq!(told.len(), 2);
    assert_eq!((&told[0]["rule"], &told[0]["client"], &told[0]["path"]), (&json!("d.k"), &json!("k=valu…"), &json!("d")));
    assert_eq!((&told[0]["current"], &told[0]["limit"]), (&json!(1), &json!(1)));
}

#[test]
fn a_snapshot_adds_up_what_was_counted() {
    let rules = [rule("strict", "2/hour", "enforce"), rule("tried", "1/hour", "shadow")];
    let app = app(&json!({"rules": rules}), &events(&json!({})));
    (0..5).for_each(|_| check(&app, &[("client", "a")]));
    check(&app, &[]);
    let snapshot: Value = serde_json::from_str(&app.metrics.snapshot(&app)).expect("JSON");

    assert_eq!((&snapshot["allowed"], &snapshot["denied"], &snapshot["unmatched"]), (&json!(3), &json!(3), &json!(1)));
    assert_eq!(snapshot["rules"], json!({"strict": [2, 3, 0], "tried": [1, 0, 4]}));
    assert_eq!(snapshot["latency"]["count"], 6);
    assert_eq!((&snapshot["store"]["name"], &snapshot["generation"]), (&json!("memory"), &json!(1)));
    assert_eq!(snapshot["top"]["keys"][0]["denied"], 3);
    assert_eq!((&snapshot["events"]["waiting"], &snapshot["events"]["dropped"]), (&json!(6), &json!(0)));
}

#[test]
fn a_rule_that_is_gone_stays_in_the_snapshot_and_goes_on_when_it_comes_back() {
    let app = app(&json!({"rules": [rule("first", "9/hour", "enforce")]}), &json!({}));
    let load = |name: &str| {
        let rules = metrics_app::spec(&json!({"rules": [rule(name, "9/hour", "enforce")]}));
        app.engine.load(rules, tidegate_engine::plan::Transition::default()).expect("rules");
    };
    let rules = || serde_json::from_str::<Value>(&app.metrics.snapshot(&app)).expect("JSON")["rules"].clone();
    check(&app, &[("client", "a")]);
    load("second");
    check(&app, &[("client", "a")]);
    assert_eq!(rules(), json!({"first": [1, 0, 0], "second": [1, 0, 0]}));
    assert_eq!(sample(&app, "ratelimit_decisions_total{rule=\"first\",outcome=\"allowed\"}"), None);
    load("first");
    check(&app, &[("client", "a")]);

    assert_eq!(rules(), json!({"first": [2, 0, 0], "second": [1, 0, 0]}));
}
