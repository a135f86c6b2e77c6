//! What is told beyond the codes: header fields, a body, metadata.

use prost_types::value::Kind;
use serde_json::{Value, json};
use tidegate_server::grpc::proto::RateLimitResponse;

use crate::service::{OK, OVER_LIMIT, Service, Setup, domain, node};

fn service(told: &str, x_ratelimit: &str) -> Service {
    let nodes = [
        node("user", 1, &json!({"name": "per \"user\"", "metadata": {"team": "a", "deep": [1, null, true]}})),
        node("path", 5, &json!({})),
        node("shadow", 0, &json!({"name": "dark", "shadow": true})),
    ];
    let rules = vec![
        json!({"name": "per_user", "per": ["user"], "quotas": "1/minute fixed_window"}),
        json!({"name": "dark", "per": ["shadow"], "quotas": "0/minute", "mode": "shadow"}),
    ];
    let rls = json!({"headers": told, "metadata": told, "shadow_mode": false, "quota_mode": false});
    let headers = json!({"standard": true, "retry_after": true, "x_ratelimit": x_ratelimit});
    Setup { rules, domains: domain(&nodes), settings: json!({"rls": rls, "headers": headers}), ..Setup::default() }.start()
}

fn headers(response: &RateLimitResponse) -> Vec<String> {
    response.response_headers_to_add.iter().map(|header| format!("{}: {}", header.key, header.value)).collect()
}

fn metadata(response: &RateLimitResponse) -> Value {
    let fields = response.dynamic_metadata.as_ref().expect("metadata").fields.clone();
    json(&prost_types::Value { kind: Some(Kind::StructValue(prost_types::Struct { fields })) })
}

fn json(value: &prost_types::Value) -> Value {
    match value.kind.as_ref().expect("a value") {
        Kind::NullValue(_) => Value::Null,
        Kind::NumberValue(number) => json!(number),
        Kind::StringValue(text) => json!(text),
        Kind::BoolValue(is_true) => json!(is_true),
        Kind::ListValue(list) => list.values.iter().map(json).collect(),
        Kind::StructValue(fields) => fields.fields.iter().map(|(name, value)| (name.clone(), json(value))).collect(),
    }
}

#[tokio::test]
async fn nothing_is_told_unless_there_is_something_to_tell() {
    for (told, domain, expected) in
        [("off", "files", false), ("notable", "files", false), ("all", "files", true), ("all", "rules", true)]
    {
        let response = service(told, "off").check(domain, &["user=ada"]).await;
        assert_eq!(!response.response_headers_to_add.is_empty(), expected, "{told} {domain}");
        assert_eq!(response.dynamic_metadata.is_some(), expected, "{told} {domain}");
        assert!(response.raw_body.is_empty(), "only a denial has a body");
    }
    for domain in ["files", "rules"] {
        let service = service("off", "off");
        service.check(domain, &["user=ada"]).await;
        let response = service.check(domain, &["user=ada"]).await;
        assert_eq!((response.overall_code, response.raw_body.len(), response.dynamic_metadata), (OVER_LIMIT, 0, None));
    }
}

#[tokio::test]
async fn a_denial_by_files_tells_the_tightest_limit() {
    let service = service("notable", "off");
    service.check("files", &["user=ada"]).await;

    let response = service.check("files", &["path=/", "user=ada"]).await;

    let expected = [
        "RateLimit-Limit: 1",
        "RateLimit-Remaining: 0",
        "RateLimit-Reset: 60",
        r#"RateLimit-Policy: "5/minute";q=5;w=60, "per \"user\"";q=1;w=60"#,
        r#"RateLimit: "per \"user\"";r=0;t=60"#,
        "Retry-After: 60",
        "content-type: application/problem+json",
    ];
    assert_eq!(headers(&response), expected);
    let body: Value = serde_json::from_slice(&response.raw_body).expect("a document");
    let problem = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota Exceeded",
        "detail": "try again in 60 seconds", "violated-policies": ["per \"user\""],
    });
    assert_eq!(body, problem);
}

#[tokio::test]
async fn the_fields_that_everybody_knows_come_in_the_form_that_was_chosen() {
    for (form, limit, reset) in [
        ("delta", "X-RateLimit-Limit: 5", "X-RateLimit-Reset: 60"),
        ("epoch", "X-RateLimit-Limit: 5", "X-RateLimit-Reset: 1260"),
        ("draft03", r#"X-RateLimit-Limit: 5, 5;w=60;name="5/minute""#, "X-RateLimit-Reset: 60"),
    ] {
        let response = service("all", form).check("files", &["path=/"]).await;
        assert_eq!(headers(&response)[5..], [limit, "X-RateLimit-Remaining: 4", reset], "{form}");
    }
}

#[tokio::test]
async fn a_denial_by_rules_tells_what_every_denial_of_theirs_tells() {
    let service = service("notable", "off");
    service.check("rules", &["user=ada"]).await;

    let response = service.check("rules", &["user=ada"]).await;

    let expected = [
        r#"RateLimit-Policy: "per_user";q=1;w=60"#,
        r#"RateLimit: "per_user";r=0;t=60"#,
        "Retry-After: 60",
        "content-type: application/problem+json",
    ];
    assert_eq!(headers(&response), expected);
    assert_eq!(
        serde_json::from_slice::<Value>(&response.raw_body).expect("a document")["violated-policies"],
        json!(["per_user"])
    );
}

#[tokio::test]
async fn metadata_repeats_the_question_and_names_who_decided() {
    let response = service("all", "off").check("files", &["user=ada", "path=/a, b=c"]).await;

    let expected = json!({
        "domain": "files",
        "descriptors": [{"entries": ["user=ada"]}, {"entries": ["path=/a", "b=c"]}],
        "metadata": {"team": "a", "deep": [1.0, null, true]},
        "rule": "per \"user\"",
    });
    assert_eq!(metadata(&response), expected);

    let response = service("all", "off").check("rules", &["user=ada"]).await;
    let expected = json!({"domain": "rules", "descriptors": [{"entries": ["user=ada"]}], "rule": "per_user"});
    assert_eq!(metadata(&response), expected);
}

#[tokio::test]
async fn a_denial_that_did_not_happen_is_notable() {
    for domain in ["files", "rules"] {
        let response = service("notable", "off").check(domain, &["shadow=x"]).await;
        assert_eq!(response.overall_code, OK);
        assert_eq!(metadata(&response)["shadowed"], json!(["dark"]), "{domain}");
    }
}

#[tokio::test]
async fn a_decision_without_the_store_is_notable() {
    let rls = json!({"headers": "notable", "metadata": "notable", "shadow_mode": false, "quota_mode": false});
    let rules = vec![json!({"per": ["user"], "quotas": "1/minute"})];
    let domains = domain(&[node("user", 1, &json!({}))]);
    let service = Setup { rules, domains, keys_max: 1, settings: json!({"rls": rls}), ..Setup::default() }.start();
    for _ in 0..2 {
        service.check("files", &["user=ada"]).await;
    }

    for domain in ["files", "rules"] {
        let response = service.check(domain, &["user=bob"]).await;
        assert_eq!(metadata(&response)["degraded"], json!("store_full"), "{domain}");
    }
}
