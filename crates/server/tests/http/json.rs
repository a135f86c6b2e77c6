//! The reference service's JSON form.

use http::{Request, StatusCode};
use serde_json::{Value, json};
use tidegate_engine::engine::OnStoreError;
use tidegate_server::body::Body;

use crate::app::{Service, Setup};

/// One domain with one limited key, in a store for so many keys.
fn service(keys_max: usize, on_store_error: OnStoreError) -> Service {
    let limit = json!({
        "unlimited": false, "quotas": [{"text": "2/minute fixed_window max_debt 4503599627370496"}], "requests_per_unit": 2,
        "unit": "MINUTE",
    });
    let domains = json!([{"domain": "shop", "atomic": false, "descriptors": [{"key": "tenant", "limit": limit}]}]);
    Setup { domains, keys_max, on_store_error, ..Setup::default() }.start()
}

fn request(tenant: &str) -> Value {
    json!({"domain": "shop", "descriptors": [{"entries": [{"key": "tenant", "value": tenant}]}]})
}

#[tokio::test]
async fn the_statuses_are_those_of_a_plain_service() {
    let service = service(1_000, OnStoreError::Deny);
    let limit = json!({"requestsPerUnit": 2, "unit": "MINUTE"});
    let statuses = [
        (StatusCode::OK, json!({"code": "OK", "currentLimit": limit, "limitRemaining": 1, "durationUntilReset": "60s"})),
        (StatusCode::OK, json!({"code": "OK", "currentLimit": limit, "durationUntilReset": "60s"})),
        (StatusCode::TOO_MANY_REQUESTS, json!({"code": "OVER_LIMIT", "currentLimit": limit, "durationUntilReset": "60s"})),
    ];
    for (status, expected) in statuses {
        let answer = service.post("/json", &request("acme")).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.json(), json!({"overallCode": expected["code"], "statuses": [expected]}));
    }
}

#[tokio::test]
async fn nobody_has_to_say_that_it_is_json() {
    let service = service(1_000, OnStoreError::Deny);
    let request = Request::post("/json").header("content-type", "application/x-www-form-urlencoded");
    let answer = service.send("127.0.0.1", request.body(Body::full(request_text())).expect("a request")).await;
    assert_eq!(answer.status, StatusCode::OK);
}

fn request_text() -> String {
    request("acme").to_string()
}

#[tokio::test]
async fn what_makes_no_sense_is_a_bad_request() {
    let service = service(1_000, OnStoreError::Deny);
    for body in ["", "{}", "[]", r#"{"domain": "shop"}"#, r#"{"domain": "shop", "descriptors": [], "other": 1}"#] {
        let answer = service.post_text("/json", body).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (StatusCode::BAD_REQUEST, Some("application/problem+json")),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_denial_without_the_store_is_unavailable() {
    for (policy, status) in [(OnStoreError::Deny, StatusCode::SERVICE_UNAVAILABLE), (OnStoreError::Allow, StatusCode::OK)] {
        let service = service(1, policy);
        for _ in 0..3 {
            service.post("/json", &request("acme")).await;
        }
        assert_eq!(service.post("/json", &request("other")).await.status, status, "{policy:?}");
    }
}

#[tokio::test]
async fn rules_are_asked_by_the_name_of_their_set() {
    let service = service(1_000, OnStoreError::Deny);
    let request = json!({"domain": "test", "descriptors": [{"entries": [{"key": "client", "value": "a"}]}]});
    let statuses =
        [service.post("/json", &request).await, service.post("/json", &request).await, service.post("/json", &request).await];
    assert_eq!(statuses.map(|answer| answer.status.as_u16()), [200, 200, 429]);
}

#[tokio::test]
async fn headers_and_metadata_are_told_as_the_settings_say() {
    let rls = json!({"headers": "all", "metadata": "all", "shadow_mode": false, "quota_mode": false});
    let service = Setup { settings: json!({"rls": rls}), rules: vec![json!({"quotas": "0/minute"})], ..Setup::default() }.start();
    let request = json!({"domain": "test", "descriptors": [{"entries": [{"key": "client", "value": "a\"b"}]}]});
    let answer = service.post("/json", &request).await.json();
    let names: Vec<&str> =
        answer["responseHeadersToAdd"].as_array().expect("a list").iter().filter_map(|header| header["key"].as_str()).collect();
    assert!(names.contains(&"RateLimit") && names.contains(&"content-type"), "{names:?}");
    assert!(answer["rawBody"].is_string() && answer["dynamicMetadata"].is_object());
}
