//! What is counted of requests, and the page that shows it.

mod metrics_app;

use std::collections::HashSet;
use std::thread;

use metrics_app::{app, ask, describe, describe_hits, domain, rule, sample, spec};
use serde_json::json;
use tidegate_core::descriptors::Unit;
use tidegate_engine::decision::Origin;
use tidegate_engine::engine::OwnLimit;
use tidegate_engine::plan::Transition;
use tidegate_server::app::App;
use tidegate_server::metrics::{AnswerCode, ConnectionFailure, Port, Protocol};

fn decisions(app: &App, rule: &str) -> [String; 3] {
    ["allowed", "denied", "shadow_denied"]
        .map(|outcome| format!("ratelimit_decisions_total{{rule=\"{rule}\",outcome=\"{outcome}\"}}"))
        .map(|name| sample(app, &name).unwrap_or_default())
}

#[test]
fn each_rule_counts_what_it_said() {
    let rules = [rule("strict", "2/minute", "enforce"), rule("tried", "1/minute", "shadow"), rule("idle", "5/minute", "off")];
    let app = app(&json!({"rules": rules}), &json!({}));
    for _ in 0..5 {
        ask(&app, Origin::Check, &[("client", "a")]);
    }
    ask(&app, Origin::Check, &[("nobody", "a")]);

    assert_eq!(decisions(&app, "strict"), ["2", "3", "0"]);
    assert_eq!(decisions(&app, "tried"), ["1", "0", "4"]);
    assert_eq!(decisions(&app, "idle"), ["0", "0", "0"]);
    assert_eq!(sample(&app, "ratelimit_checks_total{protocol=\"http\",outcome=\"allowed\"}").unwrap(), "3");
    assert_eq!(sample(&app, "ratelimit_checks_total{protocol=\"http\",outcome=\"denied\"}").unwrap(), "3");
    assert_eq!(sample(&app, "ratelimit_unmatched_total{protocol=\"http\"}").unwrap(), "1");
}

#[test]
fn a_peek_is_a_request_and_no_decision() {
    let app = app(&json!({"rules": [rule("strict", "2/minute", "enforce")]}), &json!({}));
    ask(&app, Origin::Peek, &[("client", "a")]);

    assert_eq!(decisions(&app, "strict"), ["0", "0", "0"]);
    assert_eq!(sample(&app, "ratelimit_requests_total{protocol=\"http\",code=\"200\"}").unwrap(), "1");
    assert_eq!(sample(&app, "ratelimit_check_duration_seconds_count{protocol=\"http\"}").unwrap(), "1");
}

#[test]
fn no_count_is_lost_between_threads_and_reloads() {
    let document =
        |limit: u32| json!({"rules": [rule("kept", &format!("{limit}/hour"), "enforce"), rule("other", "1/hour", "off")]});
    let app = app(&document(1), &json!({}));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| _ = ask(&app, Origin::Check, &[("client", "a")])));
        }
        for limit in 2..20 {
            app.engine.load(spec(&document(limit)), Transition::Safe).unwrap();
            assert!(app.metrics.render(&app).contains("rule=\"kept\""));
        }
    });

    let counted: u64 = decisions(&app, "kept").iter().map(|count| count.parse::<u64>().unwrap()).sum();
    assert_eq!(counted, 2_000);
    assert_eq!(sample(&app, "ratelimit_rule_generation").unwrap(), "19");
}

#[test]
fn a_rule_that_is_gone_leaves_the_page() {
    let app = app(&json!({"rules": [rule("old", "1/hour", "enforce"), rule("kept", "9/hour", "enforce")]}), &json!({}));
    ask(&app, Origin::Check, &[("client", "a")]);
    app.engine.load(spec(&json!({"rules": [rule("kept", "9/hour", "enforce")]})), Transition::Safe).unwrap();
    ask(&app, Origin::Check, &[("client", "a")]);

    assert_eq!(decisions(&app, "old"), ["", "", ""]);
    assert_eq!(decisions(&app, "kept"), ["2", "0", "0"]);
}

#[test]
fn descriptors_are_counted_by_the_path_of_their_limit() {
    let app = app(&json!({"domains": [domain(2)]}), &json!({}));
    let own = OwnLimit { requests_per_unit: 0, unit: Unit::Minute };
    for _ in 0..3 {
        describe(&app, "d", "k", "a", None);
    }
    describe(&app, "d", "unknown", "a", None);
    describe(&app, "nowhere", "k", "a", None);
    describe(&app, "d", "k", "a", Some(own));

    assert_eq!(decisions(&app, "d.k"), ["2", "1", "0"]);
    assert_eq!(decisions(&app, "(override)"), ["0", "1", "0"]);
    assert_eq!(sample(&app, "ratelimit_unmatched_total{protocol=\"grpc\"}").unwrap(), "2");
    assert_eq!(sample(&app, "ratelimit_requests_total{protocol=\"grpc\",code=\"0\"}").unwrap(), "6");
}

#[test]
fn descriptors_that_only_ask_are_no_decisions() {
    let app = app(&json!({"domains": [domain(1)]}), &json!({}));
    for hits in [Some(0), None, None, Some(0)] {
        describe_hits(&app, "d", "k", "a", None, hits);
    }

    assert_eq!(decisions(&app, "d.k"), ["1", "1", "0"]);
    assert_eq!(sample(&app, "ratelimit_requests_total{protocol=\"grpc\",code=\"0\"}").unwrap(), "4");
    assert!(app.top.to_json(1).contains("\"denied\":1,"));
}

#[test]
fn what_clients_send_never_becomes_a_label() {
    let app = app(&json!({"rules": [rule("strict", "1/minute", "enforce")], "domains": [domain(1)]}), &json!({"top_size": 10}));
    let series = |app: &App| -> HashSet<String> {
        let page = app.metrics.render(app);
        page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
    };
    ask(&app, Origin::Check, &[("client", "a")]);
    describe(&app, "d", "k", "a", None);
    let before = series(&app);
    for number in 0..500 {
        let name = format!("evil\"}}\n{number}");
        ask(&app, Origin::Check, &[("client", &name), ("path", &name)]);
        describe(&app, "d", "k", &name, None);
        describe(&app, &name, &name, &name, None);
    }

    assert_eq!(series(&app), before);
}

#[test]
fn codes_that_do_not_exist_make_no_label_of_their_own() {
    let app = app(&json!({"rules": []}), &json!({}));
    for code in [0, 99, 600, u16::MAX] {
        app.metrics.count_answer(Protocol::Http, AnswerCode::Http(code));
    }
    app.metrics.count_answer(Protocol::Grpc, AnswerCode::Grpc(200));

    assert_eq!(sample(&app, "ratelimit_requests_total{protocol=\"http\",code=\"100\"}").unwrap(), "2");
    assert_eq!(sample(&app, "ratelimit_requests_total{protocol=\"http\",code=\"599\"}").unwrap(), "2");
    assert_eq!(sample(&app, "ratelimit_requests_total{protocol=\"grpc\",code=\"2\"}").unwrap(), "1");
}

#[test]
fn connections_and_reloads_are_counted() {
    let app = app(&json!({"rules": []}), &json!({}));
    app.metrics.opened(Port::Grpc);
    app.metrics.opened(Port::Grpc);
    app.metrics.closed(Port::Grpc);
    app.metrics.failed(Port::Http, ConnectionFailure::Tls);
    app.note_reload(Some("line 3 is wrong"));

    assert_eq!(sample(&app, "ratelimit_connections{port=\"grpc\"}").unwrap(), "1");
    assert_eq!(sample(&app, "ratelimit_connections_total{port=\"grpc\"}").unwrap(), "2");
    assert_eq!(sample(&app, "ratelimit_connection_failures_total{port=\"http\",reason=\"tls\"}").unwrap(), "1");
    assert_eq!(sample(&app, "ratelimit_rule_reloads_total{result=\"failed\"}").unwrap(), "1");
    assert_eq!(sample(&app, "ratelimit_rules_stale").unwrap(), "1");
}
