//! The keys that are denied most, as they are served.

mod metrics_app;

use metrics_app::{app, ask, describe, domain, rule};
use serde_json::{Value, json};
use tidegate_engine::decision::Origin;
use tidegate_server::app::App;

fn top(app: &App, count: usize) -> Value {
    serde_json::from_str(&app.top.to_json(count)).expect("JSON")
}

fn denied(app: &App, client: &str, times: usize) {
    // The first is allowed.
    for _ in 0..=times {
        ask(app, Origin::Check, &[("client", client)]);
    }
}

#[test]
fn who_is_denied_most_comes_first() {
    let app = app(&json!({"rules": [rule("strict", "1/hour", "enforce")]}), &json!({}));
    denied(&app, "alice-with-a-long-name", 2);
    denied(&app, "bob-with-a-long-name", 5);
    denied(&app, "carol", 0);

    let top = top(&app, 10);
    let keys: Vec<_> = top["keys"].as_array().unwrap().iter().map(|key| (&key["rule"], &key["key"], &key["denied"])).collect();
    assert_eq!(json!(keys), json!([("strict", "client=bob-…", 5), ("strict", "client=alic…", 2)]));
    assert_eq!((&top["denied"], &top["keys"][0]["error"]), (&json!(7), &json!(0)));
    assert!(top["keys"][0]["last_seen"].as_f64() >= top["since"].as_f64());
}

#[test]
fn as_many_are_listed_as_are_asked_for() {
    let app = app(&json!({"rules": [rule("strict", "1/hour", "enforce")]}), &json!({}));
    for client in ["a", "b", "c"] {
        denied(&app, client, 1);
    }

    assert_eq!(top(&app, 2)["keys"].as_array().unwrap().len(), 2);
    assert_eq!(top(&app, 0)["keys"], json!([]));
}

#[test]
fn a_peek_and_a_rule_in_shadow_deny_nobody() {
    let rules = [rule("strict", "1/hour", "enforce"), rule("tried", "1/hour", "shadow")];
    let app = app(&json!({"rules": rules}), &json!({}));
    denied(&app, "a", 0);
    ask(&app, Origin::Peek, &[("client", "a")]);

    assert_eq!(top(&app, 10)["denied"], json!(0));
}

#[test]
fn keys_are_shown_as_the_settings_say() {
    let shown = |how: &str| {
        let app = app(&json!({"rules": [rule("strict", "1/hour", "enforce")]}), &json!({"top_keys": how}));
        denied(&app, "alice-with-a-long-name", 1);
        top(&app, 1)["keys"][0]["key"].as_str().unwrap().to_owned()
    };

    assert_eq!(shown("plain"), "client=alice-with-a-long-name");
    assert!(shown("digest").starts_with('#') && !shown("digest").contains("alice"));
}

#[test]
fn many_keys_are_watched_in_little_room() {
    let app = app(&json!({"rules": [rule("strict", "0/hour", "enforce")]}), &json!({"top_size": 20}));
    for number in 0..5_000 {
        ask(&app, Origin::Check, &[("client", &format!("one of many {number}"))]);
        if number % 4 == 0 {
            ask(&app, Origin::Check, &[("client", "heavy hitter")]);
        }
    }

    let top = top(&app, 1_000);
    assert_eq!(top["keys"].as_array().unwrap().len(), 20);
    let heavy = &top["keys"][0];
    let (denied, error) = (heavy["denied"].as_u64().unwrap(), heavy["error"].as_u64().unwrap());
    assert!(denied >= 1_250 && denied - error <= 1_250, "{heavy}");
}

#[test]
fn descriptors_are_ranked_too() {
    let app = app(&json!({"domains": [domain(1)]}), &json!({}));
    for _ in 0..4 {
        describe(&app, "d", "k", "a value that is long", None);
    }

    assert_eq!(top(&app, 1)["keys"][0]["rule"], json!("d.k"));
    assert_eq!(top(&app, 1)["keys"][0]["key"], json!("k=a va…"));
    assert_eq!(top(&app, 1)["keys"][0]["denied"], json!(3));
}
