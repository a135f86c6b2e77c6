//! The domain of our own rules: entries are attributes.

use serde_json::json;
use tidegate_engine::engine::OnStoreError;
use tidegate_server::grpc::proto::rate_limit_descriptor::RateLimitOverride;
use tidegate_server::grpc::proto::{RateLimitDescriptor, RateLimitRequest};

use crate::service::{OK, OVER_LIMIT, Service, Setup, all_written, descriptor, domain, node, question};

fn service(rules: &[serde_json::Value]) -> Service {
    Setup { rules: rules.to_vec(), ..Setup::default() }.start()
}

fn path(pattern: &str) -> serde_json::Value {
    json!([{"attribute": "path", "test": {"pattern": [pattern]}, "not": false, "ignore_case": false}])
}

fn with_hits(text: &str, hits: Option<u64>, hits_addend: u32) -> RateLimitRequest {
    let descriptor = RateLimitDescriptor { hits_addend: hits, ..descriptor(text) };
    RateLimitRequest { domain: "rules".to_owned(), descriptors: vec![descriptor], hits_addend }
}

#[tokio::test]
async fn a_rule_applies_where_its_attributes_are() {
    let service = service(&[
        json!({"name": "per_user", "per": ["user"], "quotas": "2/minute fixed_window"}),
        json!({"name": "orders", "match": path("/orders/**"), "quotas": "7/hour"}),
    ]);

    let response = service.check("rules", &["user=ada", "path=/orders/1", "path=/other", "user="]).await;

    let expected = ["OK 1 of 2/2 per_user in 60", "OK 6 of 7/3 orders in 3600", "OK 0 without a limit", "OK 0 without a limit"];
    assert_eq!((response.overall_code, all_written(&response)), (OK, expected.map(str::to_owned).to_vec()));
}

#[tokio::test]
async fn names_of_envoy_are_understood_where_ours_are_absent() {
    let table = [("path", ":path=/orders/1?page=2", "/orders/*"), ("path", ":path=/orders/1, path=/else/2", "/else/*")];
    for (_, entries, pattern) in table {
        let service = service(&[json!({"match": path(pattern)})]);
        assert_eq!(all_written(&service.check("rules", &[entries]).await), ["OK 9 of 10/2 rule in 60"], "{entries}");
    }
    for (attribute, entries) in [
        ("method", ":method=post"),
        ("host", ":authority=example.org"),
        ("ip", "remote_address=192.0.2.1"),
        ("masked_remote_address", "masked_remote_address=192.0.2.0/24"),
        ("header:x-plan", "header:x-plan=pro"),
    ] {
        let service = service(&[json!({"per": [attribute]})]);
        assert_eq!(all_written(&service.check("rules", &[entries]).await), ["OK 9 of 10/2 rule in 60"], "{entries}");
    }
}

#[tokio::test]
async fn a_descriptor_without_entries_meets_no_rule() {
    let service = service(&[json!({"quotas": "1/minute"})]);

    assert_eq!(all_written(&service.check("rules", &["", ""]).await), ["OK 0 without a limit", "OK 0 without a limit"]);
    assert_eq!(service.check("rules", &["any=thing"]).await.overall_code, OK, "nothing was charged");
}

#[tokio::test]
async fn each_descriptor_is_decided_by_itself() {
    let service = service(&[json!({"per": ["user"], "quotas": "1/minute fixed_window"})]);

    let response = service.check("rules", &["user=ada", "user=ada", "user=bob"]).await;

    assert_eq!(response.overall_code, OVER_LIMIT);
    assert_eq!(all_written(&response), ["OK 0 of 1/2 rule in 60", "OVER 0 of 1/2 rule in 60", "OK 0 of 1/2 rule in 60"]);
}

#[tokio::test]
async fn the_quota_that_binds_is_told_and_a_window_that_is_no_unit_has_none() {
    let service = service(&[json!({"quotas": "5/10s fixed_window, 100/minute fixed_window"})]);

    let response = service.check("rules", &["a=b"]).await;

    assert_eq!(all_written(&response), ["OK 4 of 5/0 rule:5/10s-fixed_window in 10"]);
}

#[tokio::test]
async fn hits_are_the_cost_and_without_hits_each_rule_says_it() {
    let service = service(&[json!({"cost": {"units": 3}})]);

    assert_eq!(all_written(&service.ask(&with_hits("a=b", None, 0)).await), ["OK 7 of 10/2 rule in 60"]);
    assert_eq!(all_written(&service.ask(&with_hits("a=b", None, 2)).await), ["OK 5 of 10/2 rule in 60"]);
    assert_eq!(all_written(&service.ask(&with_hits("a=b", Some(4), 2)).await), ["OK 1 of 10/2 rule in 60"]);
    assert_eq!(all_written(&service.ask(&with_hits("a=b", Some(2), 0)).await), ["OVER 0 of 10/2 rule in 60"]);
}

#[tokio::test]
async fn zero_hits_ask_whether_the_next_request_would_pass() {
    let service = service(&[json!({"quotas": "1/minute fixed_window"})]);

    for _ in 0..3 {
        assert_eq!(service.ask(&with_hits("a=b", Some(0), 0)).await.overall_code, OK);
    }
    service.check("rules", &["a=b"]).await;
    assert_eq!(service.ask(&with_hits("a=b", Some(0), 0)).await.overall_code, OVER_LIMIT);
}

#[tokio::test]
async fn what_was_used_already_is_charged_without_being_asked() {
    let service = service(&[json!({"quotas": "10/minute burst 10 max_debt 100"})]);

    service.ask(&with_hits("a=b, tidegate=debit", Some(50), 0)).await;

    assert_eq!(service.ask(&with_hits("a=b", Some(0), 0)).await.overall_code, OVER_LIMIT);
    service.clock.advance(60_000_000_000);
    assert_eq!(service.ask(&with_hits("a=b", Some(0), 0)).await.overall_code, OVER_LIMIT, "the debt is still there");
}

#[tokio::test]
async fn limits_and_refunds_are_refused_before_anything_is_charged() {
    let service = service(&[json!({"quotas": "1/minute"})]);
    let limit = RateLimitDescriptor { limit: Some(RateLimitOverride { requests_per_unit: 9, unit: 2 }), ..descriptor("a=b") };
    let negative = RateLimitDescriptor { is_negative_hits: true, ..descriptor("a=b") };

    for (wrong, expected) in [(limit, "descriptor 1 brings a limit along"), (negative, "descriptor 1 gives hits back")] {
        let descriptors = vec![descriptor("a=b"), wrong];
        let (code, message) = service.refusal(&RateLimitRequest { descriptors, ..question("rules", &[]) }).await;
        assert_eq!(code, "3");
        assert!(message.starts_with(expected), "{message}");
    }
    assert_eq!(service.check("rules", &["a=b"]).await.overall_code, OK);
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let service = service(&[json!({})]);

    for (question, expected) in [
        (question("rules", &[]), "the list of descriptors is empty"),
        (with_hits("a=b", Some(u64::MAX), 0), "cost 18446744073709551615 is too large"),
    ] {
        let (code, message) = service.refusal(&question).await;
        assert_eq!(code, "3", "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_rule_in_shadow_denies_nothing_and_a_silent_one_says_nothing() {
    let service = service(&[
        json!({"name": "hidden", "quotas": "1/minute", "headers": false}),
        json!({"name": "shadow", "quotas": "0/minute", "mode": "shadow"}),
    ]);

    assert_eq!(all_written(&service.check("rules", &["a=b"]).await), ["OK 0 without a limit"]);
    assert_eq!(all_written(&service.check("rules", &["a=b"]).await), ["OVER 0 without a limit"]);
}

#[tokio::test]
async fn rules_without_a_limit_are_unlimited() {
    let service = service(&[json!({"quotas": "unlimited"})]);

    assert_eq!(all_written(&service.check("rules", &["a=b"]).await), ["OK 4294967295 without a limit"]);
}

#[tokio::test]
async fn a_store_that_cannot_decide_is_an_answer_by_policy() {
    for (on_store_error, expected) in [(OnStoreError::Deny, OVER_LIMIT), (OnStoreError::Allow, OK)] {
        let rules = vec![json!({"per": ["user"], "quotas": "1/minute"})];
        let service = Setup { rules, keys_max: 1, on_store_error, ..Setup::default() }.start();
        for _ in 0..2 {
            service.check("rules", &["user=ada"]).await;
        }

        assert_eq!(service.check("rules", &["user=bob"]).await.overall_code, expected);
    }
}

#[tokio::test]
async fn rules_and_files_answer_side_by_side() {
    let domains = domain(&[node("user", 5, &json!({}))]);
    let service = Setup { rules: vec![json!({"per": ["user"]})], domains, ..Setup::default() }.start();

    assert_eq!(all_written(&service.check("rules", &["user=ada"]).await), ["OK 9 of 10/2 rule in 60"]);
    assert_eq!(all_written(&service.check("files", &["user=ada"]).await), ["OK 4 of 5/2 in 60"]);
}
